"""The inverse by nodes of a grid against dense matrices."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.linalg import eigvalsh

from nearfield.kernels import Kernel
from nearfield.solvers import conjugate_gradients, node_inverse
from nearfield.solvers.grid_products import GridProduct
from nearfield.solvers.node_inverse import CLOSENESS, NodeInverse, node_cost

WIDTH = {1: 40.0, 2: 9.0, 3: 2.0}


def points(n, d, seed=0):
    return np.random.RandomState(seed).uniform(-0.3, 0.7, (n, d)) * WIDTH[d]


def noise_of(n, least=-2.0, most=0.5, seed=1):
    """Of several sizes, as weights make them."""
    return 10 ** np.random.RandomState(seed).uniform(least, most, n)


def spectrum(kernel, X, noise, inverse):
    """Eigenvalues of the inverse times the covariance matrix, and of the inverse itself beside the noise."""
    n = len(X)
    P = inverse.product(np.eye(n))
    P = 0.5 * (P + P.T)
    K = kernel(X, X) + np.diag(noise)
    return eigvalsh(P, np.linalg.inv(K)), P


@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize("least", [-1.0, -4.0, -7.0])
def test_it_is_close_to_the_inverse(d, least):
    """Single and double precision."""
    X, noise = points(300, d), noise_of(300, least)
    kernel = Kernel.gaussian(1.0, 1.7)
    inverse = NodeInverse.of(kernel, X, noise, 1)
    expected = np.float32 if least == -1.0 else np.float64
    assert {strip.L.dtype for strip in inverse.strips} == {np.dtype(expected)}
    ratios, _ = spectrum(kernel, X, noise, inverse)
    assert ratios.min() > 1 - 2 * CLOSENESS
    assert ratios.max() < 1 + 2 * CLOSENESS


def test_the_inverse_is_as_close_as_it_must_be():
    """No closer by orders of magnitude either: the grid would have more nodes than it needs."""
    X, noise, kernel = points(400, 2), np.full(400, 0.1), Kernel.gaussian(1.0)
    ratios, _ = spectrum(kernel, X, noise, NodeInverse.of(kernel, X, noise, 1))
    assert 0.003 * CLOSENESS < abs(ratios - 1).max() < CLOSENESS


def test_columns_have_length_scales_of_their_own():
    X = points(300, 2) * [0.2, 5.0]
    kernel, noise = Kernel.gaussian([0.2, 5.0], 0.6), noise_of(300)
    scaled = NodeInverse.of(Kernel.gaussian(1.0, 0.6), points(300, 2), noise, 1)
    inverse = NodeInverse.of(kernel, X, noise, 1)
    assert len(inverse.taken) == len(scaled.taken)
    ratios, P = spectrum(kernel, X, noise, inverse)
    assert abs(ratios - 1).max() < 2 * CLOSENESS
    assert_allclose(P, scaled.product(np.eye(300)), atol=1e-3 * abs(P).max())


@pytest.mark.parametrize("least", [1, 40, 10_000])
def test_strips_change_nothing(monkeypatch, least):
    """Strips are so wide that nodes of others than the next ones have nothing to do with each other."""
    X = np.random.RandomState(0).uniform(0, 1, (500, 2)) * [40.0, 3.0]
    noise, kernel, V = noise_of(500, -5.0), Kernel.gaussian(1.0), np.eye(500)
    whole = NodeInverse.of(kernel, X[:, ::-1], noise, 1).product(V)
    monkeypatch.setattr(node_inverse, "LEAST_STRIP", least)
    inverse = NodeInverse.of(kernel, X, noise, 1)
    assert len(inverse.strips) == 1 if least == 10_000 else len(inverse.strips) > 3
    stops = [strip.nodes.stop for strip in inverse.strips]
    assert [strip.nodes.start for strip in inverse.strips] == [0, *stops[:-1]]
    assert stops[-1] == len(inverse.taken)
    assert_allclose(inverse.product(V), whole, atol=1e-5 * abs(whole).max())


def test_nodes_that_no_point_hears_are_left_out():
    """Two crowds far apart, in a large rectangle."""
    rng = np.random.RandomState(0)
    X = rng.uniform(0, 3, (400, 2))
    X[200:] += [300.0, 100.0]
    kernel, noise = Kernel.gaussian(1.0), np.full(400, 0.1)
    inverse = NodeInverse.of(kernel, X, noise, 1)
    assert len(inverse.taken) < 1500
    ratios, _ = spectrum(kernel, X, noise, inverse)
    assert abs(ratios - 1).max() < CLOSENESS


@pytest.mark.parametrize(
    "X", [np.zeros((1, 2)), np.zeros((50, 2)), np.repeat(points(5, 2), 20, axis=0), np.full((30, 1), 1e6)]
)
@pytest.mark.parametrize("noise", [1e-6, 1.0, 1e6])
def test_places_that_coincide(X, noise):
    kernel, s = Kernel.gaussian(1.0), np.full(len(X), noise)
    inverse = NodeInverse.of(kernel, X, s, 1)
    ratios, _ = spectrum(kernel, X, s, inverse)
    assert abs(ratios - 1).max() < 2 * CLOSENESS


@given(
    seed=st.integers(0, 10_000),
    d=st.integers(1, 3),
    spread=st.floats(0.01, 20.0),
    noise=st.floats(-8, 3),
    variance=st.floats(-3, 3),
)
def test_iterations_are_few_whatever_the_data(seed, d, spread, noise, variance):
    """Dense and sparse points, loud and quiet noise: positive definite, and a digit per iteration at the least."""
    rng = np.random.RandomState(seed)
    X = rng.standard_normal((150, d)) * min(spread, {1: 20.0, 2: 6.0, 3: 1.0}[d])  # sparse, on few nodes
    X[::3] = X[0] + 0.1 * rng.standard_normal(X[::3].shape)
    kernel, s = Kernel.gaussian(1.0, 10**variance), 10 ** (variance + noise + rng.uniform(0, 1, 150))
    if not np.isfinite(node_cost(kernel, X, s)):
        return
    inverse, K = NodeInverse.of(kernel, X, s, 1), GridProduct(kernel, X, cutoff=1e-13, n_jobs=1)
    solution = conjugate_gradients.solve(
        lambda V: K.product(V) + s[:, None] * V, inverse.product, rng.standard_normal((150, 2)), 1e-6, 50
    )
    assert solution.converged.all()
    assert solution.n_iterations <= 6


def test_right_hand_sides_are_solved_one_by_one():
    X, noise, kernel = points(200, 2), noise_of(200), Kernel.gaussian(1.0)
    inverse, V = NodeInverse.of(kernel, X, noise, 1), np.random.RandomState(2).standard_normal((200, 20))
    V[:, 3], V[:, 4] = 0.0, 1e30 * V[:, 5]
    together = inverse.product(V)
    for j in range(20):
        alone = inverse.product(V[:, [j]])[:, 0]
        assert_allclose(together[:, j], alone, atol=1e-5 * max(abs(alone).max(), 1e-300))
    assert_array_equal(together[:, 3], 0.0)
    assert np.isfinite(together).all()


def test_threads_of_blas_change_nothing_much(monkeypatch):
    X, noise, kernel = points(300, 2), noise_of(300), Kernel.gaussian(1.0)
    expected = NodeInverse.of(kernel, X, noise, 1).product(np.eye(300))
    monkeypatch.setattr(node_inverse, "MIN_THREADED", 0)
    found = NodeInverse.of(kernel, X, noise, 2).product(np.eye(300))
    assert_allclose(found, expected, atol=1e-4 * abs(expected).max())


def test_single_precision_gives_way_to_double(monkeypatch):
    X, noise, kernel = points(200, 2), np.full(200, 0.1), Kernel.gaussian(1.0)
    plain = node_inverse.cholesky

    def fails(A, **options):
        if A.dtype == np.float32:
            raise np.linalg.LinAlgError
        return plain(A, **options)

    monkeypatch.setattr(node_inverse, "cholesky", fails)
    inverse = NodeInverse.of(kernel, X, noise, 1)
    assert inverse.strips[0].L.dtype == np.float64
    ratios, _ = spectrum(kernel, X, noise, inverse)
    assert abs(ratios - 1).max() < CLOSENESS


# ---- what it costs -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("d", [1, 2, 3])
def test_the_cost_is_that_of_the_factor(d):
    X, noise, kernel = points(300, d), noise_of(300), Kernel.gaussian(1.0)
    sizes = [len(strip.L) for strip in NodeInverse.of(kernel, X, noise, 1).strips]
    pairs = list(zip([0, *sizes], sizes, strict=False))
    operations = sum(b**3 / 3 + a * b * (a + b) for a, b in pairs)
    entries = sum(b * (a + b) for a, b in pairs)
    least = operations + node_inverse.PER_ENTRY * entries
    assert least < node_cost(kernel, X, noise) < 8 * least


def test_there_is_no_such_inverse_for_all_data():
    X, noise = points(50, 2), np.full(50, 0.1)
    assert np.isfinite(node_cost(Kernel.gaussian(1.0), X, noise))
    for kernel in (Kernel(np.array([[1.0], [3.0]]), np.ones(2)), Kernel.gaussian(1e-4), Kernel.gaussian(1e-300)):
        assert node_cost(kernel, X, noise) == np.inf
    assert node_cost(Kernel.gaussian(1.0), np.zeros((5, 4)), noise[:5]) == np.inf
    assert node_cost(Kernel.gaussian(1.0), X, np.full(50, 1e-14)) == np.inf  # rounding would be all there is
    assert node_cost(Kernel.gaussian(1.0), 1e300 * X, noise) == np.inf


def test_memory_for_factors_is_limited(monkeypatch):
    X, noise = points(50, 2), np.full(50, 0.1)
    cost = node_cost(Kernel.gaussian(1.0), X, noise)
    monkeypatch.setattr(node_inverse.memory, "available", lambda: 1e4)  # what is free at the moment changes no answers
    assert node_cost(Kernel.gaussian(1.0), X, noise) == cost < np.inf
    monkeypatch.setattr(node_inverse.memory, "total", lambda: 1e4)
    assert node_cost(Kernel.gaussian(1.0), X, noise) == np.inf
