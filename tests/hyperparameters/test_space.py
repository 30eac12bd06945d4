import time

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.linalg import LinAlgError

from nearfield.hyperparameters.optimiser import maximise
from nearfield.hyperparameters.request import Fixed
from nearfield.hyperparameters.space import Extents, Space
from nearfield.kernels import Kernel

RNG = np.random.RandomState(0)
X = RNG.uniform(0, 10, (400, 2))
Y = RNG.randn(400, 1)


def quadratic(x):
    return -float(np.sum((x - 1) ** 2)), -2 * (x - 1)


def test_lengths_of_the_data():
    grid = np.stack(np.meshgrid(np.arange(20.0), np.arange(20.0)), axis=-1).reshape(-1, 2)
    lengths = Extents.of(grid, np.random.RandomState(0))
    assert lengths.spacing == lengths.least == 1
    assert_allclose(lengths.extent, 19 * np.sqrt(2))
    assert 8 < lengths.median < 12


def test_duplicates_do_not_make_the_spacing_zero():
    lengths = Extents.of(np.repeat(np.arange(5.0), 3)[:, None], np.random.RandomState(0))
    assert lengths.spacing == 1


def test_many_duplicates_still_give_positive_lengths():
    lengths = Extents.of(np.repeat([0.0, 2.0], 50)[:, None], np.random.RandomState(0))
    assert min(lengths.spacing, lengths.least, lengths.median) > 0


def test_one_place_is_degenerate():
    space = Space.of(np.ones((5, 2)), Y[:5], Fixed(), 1, False)
    assert space.is_degenerate
    kernel, noise = space.unpack(space.fallback())
    assert np.all(np.isfinite([kernel.variance, noise, *kernel.length_scales.ravel()]))


@pytest.mark.parametrize("ard", [False, True])
@pytest.mark.parametrize("n_scales", [1, 3])
def test_starts_are_within_bounds_and_spread_over_short_and_long_lengths(n_scales, ard):
    space = Space.of(X, Y, Fixed(), n_scales, ard)
    starts = space.starts(3, np.random.RandomState(0))
    assert len(starts) >= 5
    for start in starts:
        assert np.all(start >= space.lower)
        assert np.all(start <= space.upper)
    lengths = np.exp([start[0] for start in starts]) / space.columns[0]
    assert lengths.min() < 3.01 * space.extents.spacing
    assert n_scales > 1 or lengths.max() > 0.99 * space.extents.median


def test_what_is_given_stays():
    fixed = Fixed(length_scales=np.array([[0.5]]), noise_variance=0.0)
    space = Space.of(X, Y, fixed, 1, False)
    assert list(space.free) == [False, True, False]
    for theta in space.starts(2, np.random.RandomState(0)):
        kernel, noise = space.unpack(theta)
        assert_allclose(kernel.length_scales, 0.5)
        assert noise == 0
    assert space.noise_floor > 0


def test_components_are_sorted_by_length_unless_given():
    lengths, variances = np.log([[3.0, 4.0], [0.1, 0.2], [1.0, 1.0]]), np.log([1.0, 2.0, 3.0])
    theta = np.concatenate([lengths.ravel(), variances, [0.5]])
    kernel, _ = (space := Space.of(X, Y, Fixed(), 3, True)).unpack(space.sorted(theta))
    assert_allclose(kernel.length_scales, [[0.1, 0.2], [1.0, 1.0], [3.0, 4.0]])
    assert_allclose(kernel.variances, [2.0, 3.0, 1.0])
    given = Space.of(X, Y, Fixed(variances=np.array([1.0, 2.0, 3.0])), 3, True)
    assert np.array_equal(given.sorted(theta), theta)


def test_bounds_follow_the_units_of_the_data():
    near, far = (Space.of(X * unit, Y * 3, Fixed(), 1, False) for unit in (1.0, 1000.0))
    assert_allclose(far.lower[0] - near.lower[0], np.log(1000))
    assert_allclose(far.upper[0] - near.upper[0], np.log(1000))
    assert_allclose(far.lower[1:], near.lower[1:])


@pytest.mark.parametrize("ard", [False, True])
def test_estimates_on_their_bounds_are_told(ard):
    space = Space.of(X, Y, Fixed(), 2, ard)
    assert space.on_bounds(*space.unpack(0.5 * (space.lower + space.upper))) == ()
    for at_upper, theta in enumerate((space.lower, space.upper)):
        sitting = space.on_bounds(*space.unpack(theta))
        columns = [0, 1] if ard else [None]
        expected = [("length_scale", j, c) for j in range(2) for c in columns]
        expected += [("signal_variance", 0, None), ("signal_variance", 1, None), ("noise_variance", None, None)]
        assert [(e.kind, e.component, e.column) for e in sitting] == expected
        assert_allclose([e.value for e in sitting], np.exp(theta))
        assert all(e.at_upper == at_upper for e in sitting)


def test_bounds_of_what_is_given_or_never_changes_are_none():
    points = np.column_stack([X, np.full(len(X), 3.0)])
    space = Space.of(points, Y, Fixed(noise_variance=0.0), 1, True)
    sitting = space.on_bounds(*space.unpack(np.append(space.lower[:-1], -np.inf)))
    assert [(e.kind, e.column) for e in sitting] == [
        ("length_scale", 0),
        ("length_scale", 1),
        ("signal_variance", None),
    ]


def test_a_kernel_that_lost_a_gaussian_is_told_of_by_those_left():
    space = Space.of(X, Y, Fixed(), 3, False)
    longest = float(np.exp(space.upper[0]))
    (estimate,) = space.on_bounds(Kernel(np.array([[1.0], [longest]]), np.ones(2)), 0.1)
    assert (estimate.kind, estimate.component, estimate.at_upper) == ("length_scale", 1, True)


def test_the_maximum_is_found_and_steps_are_reported():
    calls = []
    optimum = maximise(quadratic, np.zeros(3), [(-5, 5)] * 3, progress=lambda *call: calls.append(call))
    assert optimum.converged
    assert_allclose(optimum.point, 1, atol=1e-6)
    assert optimum.n_evaluations >= len(calls) > 0
    assert all(0 < done <= 1 for done, _ in calls)
    assert calls[-1][1] == optimum.value


def test_the_maximum_is_within_the_bounds():
    assert_allclose(maximise(quadratic, np.zeros(2), [(-5, 0.5)] * 2).point, 0.5)


def test_steps_go_back_from_where_the_objective_cannot_be_evaluated():
    def cliff(x):
        if x[0] > 1.5:
            raise LinAlgError
        return quadratic(x)

    assert_allclose(maximise(cliff, np.array([-3.0]), [(-5, 5)]).point, 1, atol=1e-4)


def test_an_objective_that_nowhere_can_be_evaluated_leaves_the_start():
    def nowhere(x):
        raise LinAlgError

    optimum = maximise(nowhere, np.array([0.3]), [(-5, 5)])
    assert optimum.value == -np.inf
    assert not optimum.converged
    assert_allclose(optimum.point, 0.3)


def test_the_deadline_ends_the_steps():
    optimum = maximise(quadratic, np.full(4, -4.0), [(-5, 5)] * 4, deadline=time.perf_counter() - 1)
    assert not optimum.converged
    assert np.isfinite(optimum.value)
