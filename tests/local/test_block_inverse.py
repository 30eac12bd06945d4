"""The inverse by blocks against the dense one."""

import numpy as np
import pytest

from nearfield.kernels import Kernel
from nearfield.local import block_inverse, fast_cells
from nearfield.local.block_inverse import BlockInverse
from nearfield.local.whitening import make_blocks

KERNEL = Kernel(np.array([[0.7]]), np.array([1.3]))


def problem(n=250, noise=0.05):
    rng = np.random.RandomState(0)
    return rng.uniform(0, 8, (n, 2)), noise * rng.uniform(1, 2, n)


def inverse_of(X, noise, cell_points=16, n_earlier=1000, n_jobs=1):
    blocks = make_blocks(X, cell_points, n_earlier, np.random.RandomState(0), n_jobs)
    return BlockInverse.of(KERNEL, X, noise, blocks, n_jobs)


@pytest.fixture
def in_double(monkeypatch):
    monkeypatch.setattr(block_inverse, "LEAST_NOISE", np.inf)


def dense(X, noise):
    return np.linalg.inv(KERNEL(X, X) + np.diag(noise))


@pytest.mark.usefixtures("in_double")
def test_with_all_earlier_points_it_is_the_inverse():
    X, noise = problem()
    np.testing.assert_allclose(inverse_of(X, noise).product(np.eye(250)), dense(X, noise), atol=1e-7)


def test_in_single_precision_it_is_nearly_so():
    X, noise = problem()
    inverse = inverse_of(X, noise)
    assert inverse.groups[0].columns.dtype == np.float32
    expected = dense(X, noise)
    np.testing.assert_allclose(inverse.product(np.eye(250)), expected, atol=1e-3 * abs(expected).max())
    for size in (0.0, 1e-60, 1e60):  # beyond single precision
        np.testing.assert_allclose(inverse.product(size * np.eye(250)), size * inverse.product(np.eye(250)), rtol=1e-5)
    assert inverse_of(X, 1e-3 * noise).groups[0].columns.dtype == np.float64


@pytest.mark.parametrize("distance", [1e6, 1e20, 1e100])
def test_points_that_are_far_away(distance):
    """Squares of such distances would overflow in single precision."""
    X, noise = problem()
    X[7], X[100], X[101] = distance, [-distance, 0.0], [-distance, 0.3]
    expected = dense(X, noise)
    found = inverse_of(X, noise).product(np.eye(250))
    np.testing.assert_allclose(found, expected, atol=1e-3 * abs(expected).max())


@pytest.mark.parametrize("single", [False, True])
@pytest.mark.parametrize("kernel", [KERNEL, Kernel(np.array([[0.5, 1.0], [2.0, 3.0]]), np.array([1.0, 0.3]))])
def test_loops_give_what_numpy_gives(kernel, single, monkeypatch):
    pytest.importorskip("numba")
    monkeypatch.setattr(block_inverse, "LEAST_NOISE", 0.0 if single else np.inf)
    X, noise = problem()
    blocks = make_blocks(X, 16, 40, np.random.RandomState(0), 1)
    products = []
    for least in (10**9, 0):
        monkeypatch.setattr(fast_cells, "MIN_CELLS", least)
        products.append(BlockInverse.of(kernel, X, noise, blocks, 2).product(np.eye(250)))
    np.testing.assert_allclose(*products, atol=(3e-5 if single else 1e-12) * abs(products[0]).max())


@pytest.mark.usefixtures("in_double")
@pytest.mark.parametrize("n_earlier", [0, 1, 20, 60])
def test_it_is_symmetric_and_positive_definite(n_earlier):
    P = inverse_of(*problem(), n_earlier=n_earlier).product(np.eye(250))
    np.testing.assert_allclose(P, P.T, atol=1e-12)
    assert np.linalg.eigvalsh(P)[0] > 0


@pytest.mark.usefixtures("in_double")
@pytest.mark.parametrize("n", [1, 2, 40])
def test_few_points_will_do(n):
    X, noise = problem(n)
    np.testing.assert_allclose(inverse_of(X, noise).product(np.eye(n)), dense(X, noise), atol=1e-8)


def test_points_without_noise_at_the_same_place(monkeypatch):
    """Where a factorisation fails, a little is added to the diagonal, as elsewhere."""
    monkeypatch.setattr(block_inverse, "LEAST_NOISE", 0.0)
    X = np.repeat(problem(20)[0], 3, axis=0)
    P = inverse_of(X, np.full(60, 1e-9)).product(np.eye(60))
    assert np.isfinite(P).all()


def test_threads_change_no_bit():
    X, noise = problem(600)
    V = np.random.RandomState(1).standard_normal((600, 20))
    one, two = (inverse_of(X, noise, 8, 24, n_jobs).product(V) for n_jobs in (1, 2))
    np.testing.assert_array_equal(one, two)
