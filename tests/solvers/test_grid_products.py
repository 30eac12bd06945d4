"""Products by sums on grids against the dense kernel matrix."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from nearfield.kernels import Kernel
from nearfield.solvers import grid_products
from nearfield.solvers.grid_products import FINEST, GridProduct, Rule, Tiles

ROUNDING = 1e-14


def kernels(d):
    yield Kernel.gaussian(1.0, 1.7)
    yield Kernel(np.array([[0.5], [2.0]]), np.array([1.0, 0.3]))
    yield Kernel(np.random.RandomState(0).uniform(0.5, 2.0, (3, d)), np.array([0.5, 1.0, 0.2]))


CASES = [(d, kernel) for d in (1, 2, 3) for kernel in kernels(d)]


def points(n, d, width=6.0, seed=0):
    return np.random.RandomState(seed).uniform(-0.3 * width, 0.7 * width, (n, d))


@pytest.mark.parametrize(("d", "kernel"), CASES)
@pytest.mark.parametrize("cutoff", [1e-3, 1e-10, FINEST])
def test_entries_are_as_exact_as_asked_for(d, kernel, cutoff):
    n, width = (200, 12.0) if d < 3 else (40, 2.0)  # nodes are many in three columns
    X = points(n, d, width)
    product = GridProduct(kernel, X, cutoff=cutoff)
    K, dense = product.product(np.eye(n)), kernel(X, X)
    assert abs(K - dense).max() <= cutoff * kernel.variance + ROUNDING
    assert abs(K - dense).sum(axis=1).max() <= product.left_out + n * ROUNDING
    assert product.left_out <= (n + 1) * cutoff * kernel.variance
    assert_allclose(K, K.T, atol=1e-14)
    assert np.linalg.eigvalsh(0.5 * (K + K.T))[0] >= -1e-12
    assert_array_equal(product.diagonal, np.diag(dense))


@pytest.mark.parametrize("d", [1, 2, 3])
def test_the_rule_is_no_finer_than_it_must_be(d):
    """The error of the spacing is what the formula says, so half of the tolerance is used."""
    cutoff, kernel = 1e-6, Kernel.gaussian(1.0)
    X = points(100, d, width=2.0)
    error = abs(GridProduct(kernel, X, cutoff=cutoff).product(np.eye(100)) - kernel(X, X)).max()
    assert 0.2 * cutoff < error <= cutoff
    assert Rule.of(d, 1e-3).patch < Rule.of(d, 1e-12).patch


@pytest.mark.parametrize(("d", "kernel"), CASES)
def test_products_and_sums_elsewhere_are_the_dense_ones(d, kernel):
    n, r = (300, 11) if d < 3 else (100, 2)
    X, rng = points(n, d, width=5.0 if d < 3 else 2.0), np.random.RandomState(1)
    V, Xs = rng.standard_normal((n, r)), points(60, d, width=30.0, seed=2)  # some of them beyond all nodes
    product = GridProduct(kernel, X, cutoff=1e-12, n_jobs=2)
    expected = kernel(X, X) @ V
    assert abs(product.product(V) - expected).max() <= 1e-10 * abs(expected).max()
    sums = product.evaluator(V)
    assert_allclose(sums(Xs), kernel(Xs, X) @ V, atol=1e-9)
    assert_array_equal(sums(np.full((2, d), 1e6)), 0.0)
    assert sums(Xs[:0]).shape == (0, r)


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize(("d", "kernel"), CASES)
def test_loops_give_what_numpy_gives(d, kernel, keep, monkeypatch):
    pytest.importorskip("numba")
    n, r = (500, 3) if d < 3 else (60, 2)
    X, rng = points(n, d, width=9.0 if d < 3 else 2.0), np.random.RandomState(1)
    X[: n // 5] = X[0]  # more than there are in a tile
    V, Xs = np.asfortranarray(rng.standard_normal((n, r))), points(60, d, width=30.0, seed=2)
    by_numpy = GridProduct(kernel, X, cutoff=1e-9, n_jobs=1, keep=keep)
    expected = by_numpy.product(V), by_numpy.evaluator(V)(Xs)
    monkeypatch.setattr(grid_products, "MIN_COMPILED", 0)
    for n_jobs in (1, 2):
        by_loops = GridProduct(kernel, X, cutoff=1e-9, n_jobs=n_jobs, keep=keep)
        found = by_loops.product(V), by_loops.evaluator(V)(Xs)
        assert_allclose(found[0], expected[0], atol=1e-12 * abs(expected[0]).max())
        assert_allclose(found[1], expected[1], atol=1e-12 * abs(expected[1]).max())


@settings(max_examples=25, deadline=None)
@given(
    st.integers(1, 3),
    st.lists(st.floats(-10, 10), min_size=1, max_size=8),
    st.floats(0.2, 5.0),
    st.sampled_from([1e-2, 1e-7, 1e-12]),
)
def test_any_points_will_do(d, places, length_scale, cutoff):
    X = np.array(places)[:, None] * [1.0, -0.5, 0.1][:d]
    kernel = Kernel.gaussian(length_scale, 2.0)
    product = GridProduct(kernel, X, cutoff=cutoff)
    error = abs(product.product(np.eye(len(X))) - kernel(X, X))
    assert error.max() <= 2.0 * cutoff + ROUNDING
    assert error.sum(axis=1).max() <= product.left_out + len(X) * ROUNDING


@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize("n", [1, 2, 500])
def test_points_may_coincide_and_be_few(d, n):
    X, kernel = np.full((n, d), 3.7), Kernel.gaussian(0.4, 2.0)
    V = np.random.RandomState(0).standard_normal((n, 2))
    assert_allclose(GridProduct(kernel, X).product(V), kernel(X, X) @ V, atol=1e-7)


def test_threads_and_kept_factors_change_no_bit(monkeypatch):
    monkeypatch.setattr(grid_products, "MOST_NUMBERS", 1 << 14)  # so that there are several batches
    X, V, Xs = points(2000, 2, 20.0), np.random.RandomState(0).standard_normal((2000, 2)), points(50, 2, 20.0)
    products = [GridProduct(Kernel.gaussian(1.0), X, n_jobs=j, keep=k) for j in (1, 3) for k in (True, False)]
    assert len(products[0].grids[0].runs) > 4
    for product in products[1:]:
        assert_array_equal(product.product(V), products[0].product(V))
        assert_array_equal(product.evaluator(V)(Xs), products[0].evaluator(V)(Xs))


@pytest.mark.parametrize("d", [1, 2, 3])
def test_overlaps_are_counted(d):
    X = points(150, d, 25.0)
    tiles = Tiles.of(X - X.min(axis=0), Rule.of(d, 1e-3))
    first = np.repeat(tiles.first, np.diff(tiles.bounds), axis=0)
    meet = np.all(abs(first[:, None] - first[None]) < tiles.rule.patch, axis=2).sum(axis=1).max()
    assert meet <= tiles.overlap() <= 150
    assert tiles.overlap() <= 2.5 * meet


@pytest.mark.parametrize("cutoff", [0.0, 1.0, np.nan, 1e-20])
def test_cutoffs_that_make_no_sense_are_refused(cutoff):
    with pytest.raises(ValueError, match="'cutoff' argument"):
        GridProduct(Kernel.gaussian(1.0), np.zeros((3, 1)), cutoff=cutoff)
