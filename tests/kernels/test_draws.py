"""Functions drawn from the prior: their covariance, their distribution, and that they are always the same."""

import numpy as np
import pytest
from scipy import stats

from nearfield.kernels import Kernel, draws
from nearfield.kernels.draws import PriorDraws

KERNELS = {
    1: Kernel(np.array([[0.3], [2.0]]), np.array([0.5, 1.5])),
    2: Kernel(np.array([[0.4, 1.0]]), np.array([2.0])),
    3: Kernel.gaussian(1.3, 0.7),
}


def places(d, n=40, seed=0):
    return np.random.RandomState(seed).uniform(-2, 2, (n, d))


@pytest.mark.parametrize("d", [1, 2, 3])
def test_covariance_is_that_of_the_kernel(d, monkeypatch):
    """With a function per node, which is 1 there and 0 elsewhere, products of values are the covariance itself."""
    first, width = -30, 60 if d < 3 else 24
    first = first if d < 3 else -12

    def one_per_node(corner, side, d, seed, functions):
        across = np.meshgrid(*(np.arange(side) + corner[c] - first for c in range(d)), indexing="ij")
        assert all((each.min() >= 0) and (each.max() < width) for each in across)
        number = np.ravel_multi_index(across, (width,) * d)
        return (number[..., None] == np.arange(functions.start, functions.stop)).astype(float)

    monkeypatch.setattr(draws, "_noise", one_per_node)
    X = places(d, 25) if d < 3 else places(d, 4)
    for scales, variance in KERNELS[d].components():
        kernel = Kernel(scales[None], np.array([variance]))
        values = PriorDraws(kernel, 0)(X, range(width**d), 1)
        np.testing.assert_allclose(values @ values.T, kernel(X, X), atol=(1e-5 if d < 3 else 1e-4) * variance)


def test_noise_is_standard_normal_and_white():
    noise = draws._noise(np.array([-7, 3]), 40, 2, (12345, 1), range(1, 41))
    assert noise.shape == (40, 40, 40)
    assert stats.kstest(noise.ravel(), "norm").pvalue > 0.01
    n = noise.size**0.5
    for axis in range(3):
        for lag in (1, 2, 3):
            assert abs(np.mean(noise * np.roll(noise, lag, axis=axis))) < 4 / n
    other = draws._noise(np.array([-7, 3]), 40, 2, (12345, 0), range(1, 41))
    assert abs(np.mean(noise * other)) < 4 / n


@pytest.mark.parametrize("d", [1, 2, 3, 5])
def test_functions_are_the_same_whatever_else_is_asked_for(d):
    kernel, X = KERNELS.get(d, Kernel.gaussian(1.0)), places(d, 300)
    prior = PriorDraws(kernel, 99)
    values = prior(X, range(20), 1)
    np.testing.assert_allclose(prior(X[[7]], range(20), 1), values[[7]], atol=1e-5)
    np.testing.assert_allclose(prior(X, range(7, 12), 2), values[:, 7:12], atol=1e-5)
    assert np.abs(PriorDraws(kernel, 100)(X, range(20), 1) - values).min() > 0
    assert prior(X[:0], range(20), 1).shape == (0, 20)
    assert prior(X, range(3, 3), 1).shape == (300, 0)


@pytest.mark.parametrize("d", [1, 2, 3, 5])
def test_covariance_over_many_functions(d):
    kernel, S = KERNELS.get(d, Kernel.gaussian(1.5, 2.0)), 4000
    X = places(d, 8)[:, :d] * 0.4
    values = PriorDraws(kernel, 5)(X, range(S), 1)
    errors = (values @ values.T / S - kernel(X, X)) / kernel.variance * S**0.5
    assert np.abs(errors).max() < 5.0  # standard deviations are between 1 and 1.4


@pytest.mark.parametrize("d", [1, 2, 3])
def test_grids_are_drawn_column_by_column(d, monkeypatch):
    """Whole grids in any order, and grids of which some places are left out, tell the same functions."""
    side = {1: 300, 2: 30, 3: 9}[d]
    grid = np.stack(np.meshgrid(*([np.linspace(-2, 3, side)] * d)), axis=-1).reshape(-1, d)
    chosen = np.random.RandomState(0).permutation(len(grid))
    prior, asked = PriorDraws(KERNELS[d], 7), []
    monkeypatch.setattr(draws, "_axes", lambda places, axes=draws._axes: asked.append(axes(places)) or asked[-1])
    on_grid = [
        prior(grid, range(5), 1),
        prior(grid[chosen], range(5), 1),
        prior(grid[chosen[: side**d * 3 // 4]], range(5), 1),
    ]
    assert any(axes is not None for axes in asked)
    monkeypatch.setattr(draws, "_axes", lambda _: None)
    scattered = prior(grid, range(5), 1)
    for values, rows in zip(on_grid, (slice(None), chosen, chosen[: side**d * 3 // 4]), strict=True):
        np.testing.assert_allclose(values, scattered[rows], atol=1e-5)


def test_functions_have_no_seams():
    """Blocks of the lattice begin every few length scales: values do not jump there."""
    prior = PriorDraws(Kernel.gaussian(1.0), 3)
    x = np.linspace(-40, 40, 400_001)
    values = prior(np.column_stack([x, np.full_like(x, 0.37)]), range(2), 1)
    steps = np.abs(np.diff(values, axis=0)).max()
    assert steps < 4 * 2e-4  # the slope is at most about 4, and steps are 2e-4 wide
    border = 4 * 0.58 * np.arange(-10, 10)
    either_side = [prior(np.column_stack([border + eps, np.zeros(20)]), range(50), 1) for eps in (-1e-9, 1e-9)]
    assert np.abs(either_side[0] - either_side[1]).max() < 3e-5


def test_places_far_away_have_their_variance():
    X = np.array([[1e9, 0.0], [1e14, -1e16], [1e200, 3.0]])
    values = PriorDraws(Kernel.gaussian(1.0, 2.0), 1)(X, range(2000), 1)
    np.testing.assert_allclose(values.var(axis=1), 2.0, rtol=0.15)
