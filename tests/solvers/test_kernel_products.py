import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from nearfield.common import memory
from nearfield.kernels import Kernel
from nearfield.solvers import kernel_products
from nearfield.solvers.kernel_products import KernelProduct, NearSums


@pytest.fixture(autouse=True)
def _small_leaves(monkeypatch):
    monkeypatch.setattr(kernel_products, "LEAF", 8)
    monkeypatch.setattr(kernel_products, "LEAVES_PER_BLOCK", 3)


def kernels(d):
    yield Kernel.gaussian(0.03 * d, 1.7)
    yield Kernel(np.array([[0.01], [0.05]]) * d, np.array([1.0, 0.3]))
    yield Kernel(np.random.RandomState(0).uniform(0.01, 0.05, (3, d)) * d, np.array([0.5, 1.0, 0.2]))


CASES = [(d, kernel) for d in (1, 2, 3, 5) for kernel in kernels(d)]


@pytest.mark.parametrize(("d", "kernel"), CASES)
@pytest.mark.parametrize(("keep", "cutoff"), [(True, 1e-10), (False, 1e-3)])
def test_a_product_is_within_its_bound_of_the_dense_one(d, kernel, keep, cutoff):
    rng = np.random.RandomState(d)
    X, Xs, V = rng.rand(300, d), 1.2 * rng.rand(50, d), rng.randn(300, 3)
    K = KernelProduct(kernel, X, cutoff=cutoff, keep=keep, n_jobs=2)
    assert K.kept is keep
    assert K.left_out <= cutoff * kernel.variance * 300
    largest = abs(V).max(axis=0)
    rounding = 1e-12
    assert np.all(abs(K.product(V) - kernel(X, X) @ V) <= K.left_out * largest + rounding)
    sums = NearSums.of(kernel, X, V, cutoff=cutoff, n_jobs=2)(Xs)
    assert np.all(abs(sums - kernel(Xs, X) @ V) <= cutoff * kernel.variance * 300 * largest + rounding)
    left_out = kernel(X, X) - K.product(np.eye(300))
    assert np.all(left_out <= cutoff * kernel.variance * (1 + 1e-9) + rounding)
    assert abs(left_out).sum(axis=1).max() <= K.left_out + 300 * rounding
    assert_allclose(K.diagonal, np.diag(kernel(X, X)))


def test_what_is_far_costs_nothing():
    X = np.random.RandomState(0).rand(2000, 2)
    K = KernelProduct(Kernel.gaussian(0.005), X)
    within_reach = (Kernel.gaussian(0.005)(X, X) > 1e-10).sum()
    assert within_reach < K.n_pairs < 0.05 * 2000**2
    assert np.count_nonzero(K.product(np.eye(2000))) == pytest.approx(K.n_pairs, rel=1e-3)  # some underflow


def test_a_kernel_that_reaches_everywhere_leaves_nothing_out():
    K = KernelProduct(Kernel.gaussian(1.0), np.random.RandomState(0).rand(100, 3))
    assert (K.n_pairs, K.left_out) == (10_000, 0.0)


def test_threads_and_kept_blocks_change_no_bit():
    rng = np.random.RandomState(0)
    X, Xs, V = rng.rand(500, 2), rng.rand(77, 2), rng.randn(500, 2)
    kernel = Kernel.gaussian(0.05)
    products = [KernelProduct(kernel, X, n_jobs=j, keep=k) for j in (1, 3) for k in (True, False)]
    for K in products[1:]:
        assert_array_equal(K.product(V), products[0].product(V))
    one, three = (NearSums.of(kernel, X, V, cutoff=1e-10, n_jobs=j)(Xs) for j in (1, 3))
    assert_array_equal(one, three)


@pytest.mark.parametrize("n", [1, 2, 9, 50])
def test_points_may_coincide_and_be_few(n):
    kernel = Kernel.gaussian(0.1, 2.0)
    X = np.repeat(np.random.RandomState(0).rand(1, 2), n, axis=0)
    K = KernelProduct(kernel, X)
    V = np.asfortranarray(np.random.RandomState(1).randn(n, 2))
    assert_allclose(K.product(V), kernel(X, X) @ V, atol=1e-12)
    for m in (0, 1, 2, 40):
        Xs = np.random.RandomState(2).rand(m, 2)
        sums = NearSums.of(kernel, X, V, cutoff=1e-10, n_jobs=1)(Xs)
        assert_allclose(sums, kernel(Xs, X) @ V if m else np.zeros((0, 2)), atol=1e-8)


def test_places_beyond_reach_of_all_points_get_zero():
    X, V = np.random.RandomState(0).rand(40, 2), np.ones((40, 1))
    sums = NearSums.of(Kernel.gaussian(0.01), X, V, cutoff=1e-10, n_jobs=1)
    assert_array_equal(sums(np.full((3, 2), 9.0)), np.zeros((3, 1)))


def test_memory_decides_what_is_kept(monkeypatch):
    X, kernel = np.random.RandomState(0).rand(400, 2), Kernel.gaussian(0.5)
    assert KernelProduct(kernel, X).kept
    monkeypatch.setattr(memory, "available", lambda: 1_500_000)  # half of the matrix has 640 kB, a quarter is 375 kB
    assert not KernelProduct(kernel, X).kept
    assert KernelProduct(kernel, X, keep=True).kept
    monkeypatch.setattr(memory, "available", lambda: 600_000)
    with pytest.raises(MemoryError, match="keep=False"):
        KernelProduct(kernel, X, keep=True)
    monkeypatch.setattr(memory, "available", lambda: 10_000)
    with pytest.raises(MemoryError, match="reaches too far"):
        KernelProduct(kernel, X, keep=False)


def test_too_many_pairs_are_refused():
    X, kernel = np.random.RandomState(0).rand(400, 2), Kernel.gaussian(0.05)
    n_pairs = KernelProduct(kernel, X).n_pairs
    assert KernelProduct(kernel, X, max_pairs=2 * n_pairs).n_pairs == n_pairs
    with pytest.raises(ValueError, match="pairs of points"):
        KernelProduct(kernel, X, max_pairs=0.9 * n_pairs)


@pytest.mark.parametrize("cutoff", [0.0, 1.0, np.nan])
def test_cutoffs_that_make_no_sense_are_refused(cutoff):
    with pytest.raises(ValueError, match="'cutoff' argument"):
        KernelProduct(Kernel.gaussian(1.0), np.zeros((3, 1)), cutoff=cutoff)
