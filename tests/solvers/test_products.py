"""Products of which each Gaussian is taken by the method that costs least, against the dense kernel matrix."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from nearfield.common import memory
from nearfield.kernels import Kernel
from nearfield.solvers import grid_products, products
from nearfield.solvers.grid_products import GridProduct, grid_costs
from nearfield.solvers.kernel_products import KernelProduct
from nearfield.solvers.products import kernel_product, kernel_sums, plan_product

ROUNDING = 1e-13


def points(n, d, width=6.0, seed=0):
    return np.random.RandomState(seed).uniform(-0.3 * width, 0.7 * width, (n, d))


def towns(n, seed=0):
    """Points in towns of very different sizes."""
    rng = np.random.RandomState(seed)
    centers, widths = rng.uniform(0, 100, (20, 2)), 10 ** rng.uniform(-2, 0.5, 20)
    which = rng.randint(20, size=n)
    return centers[which] + widths[which, None] * rng.standard_normal((n, 2))


@pytest.fixture(params=["chosen", "pairs", "grids", "mixed"])
def forced(request, monkeypatch):
    """Every way to share out the Gaussians, whatever it costs."""
    if request.param != "chosen":
        grids = {"pairs": 0, "grids": 9, "mixed": 1}[request.param]
        monkeypatch.setattr(
            products, "grid_costs", lambda k, *_: np.where(np.arange(k.n_scales)[::-1] < grids, 0, 1e30)
        )
        monkeypatch.setattr(products._CountedPairs, "cost", lambda *_: 1.0)
    return request.param


SEVERAL = [
    (1, Kernel(np.array([[0.3], [4.0]]), np.array([1.0, 0.3]))),
    (2, Kernel(np.array([[0.2], [1.0], [9.0]]), np.array([1.0, 1e-6, 0.3]))),
    (2, Kernel(np.array([[5.0, 0.3], [0.4, 0.9]]), np.array([0.5, 2.0]))),
    (3, Kernel(np.array([[3.0], [0.8]]), np.array([0.3, 1.0]))),
    (5, Kernel(np.array([[3.0], [0.8]]), np.array([0.3, 1.0]))),
]


@pytest.mark.parametrize(("d", "kernel"), SEVERAL)
@pytest.mark.parametrize("cutoff", [1e-3, 1e-10])
def test_products_and_sums_are_within_their_bounds_of_the_dense_ones(forced, d, kernel, cutoff):
    if d > grid_products.MAX_COLUMNS and forced in ("grids", "mixed"):
        pytest.skip("there are no grids in so many columns")
    n = 150 if d < 3 else 40
    X, Xs = points(n, d), points(30, d, width=9.0, seed=2)
    found, dense = kernel_product(kernel, X, cutoff=cutoff, n_jobs=2), kernel(X, X)
    kinds = {type(part) for part in found.parts}
    expected = {"pairs": {KernelProduct}, "grids": {GridProduct}, "mixed": {KernelProduct, GridProduct}}
    assert forced == "chosen" or kinds == expected[forced]
    K = found.product(np.eye(n))
    assert abs(K - dense).max() <= (1 + products.GRID_SHARE_OF_ERROR) * cutoff * kernel.variance + ROUNDING
    assert abs(K - dense).sum(axis=1).max() <= found.left_out + n * ROUNDING
    assert_allclose(K, K.T, atol=ROUNDING)
    V = np.random.RandomState(1).standard_normal((n, 3))
    sums = kernel_sums(kernel, X, V, cutoff=cutoff, n_jobs=2)
    most = 2 * cutoff * kernel.variance * abs(V).sum(axis=0) + n * ROUNDING
    assert np.all(abs(sums(Xs) - kernel(Xs, X) @ V) <= most)
    assert np.all(abs(sums(Xs[:1]) - kernel(Xs[:1], X) @ V) <= most)
    assert sums(Xs[:0]).shape == (0, 3)


def test_a_product_leaves_its_argument_as_it_is():
    X, V = points(200, 2), np.random.RandomState(0).standard_normal((200, 2))
    before = V.copy()
    kernel_product(SEVERAL[1][1], X).product(V)
    np.testing.assert_array_equal(V, before)


# ---- the choice ----------------------------------------------------------------------------------------------------


def kinds(kernel, X, **options):
    return [type(part) for part in kernel_product(kernel, X, **options).parts]


def test_dense_points_take_grids_and_sparse_ones_pairs():
    kernel = Kernel.gaussian(1.0)
    dense, sparse = points(20_000, 2, 20.0), points(2000, 2, 300.0)
    assert kinds(kernel, dense) == [GridProduct]
    assert kinds(kernel, sparse) == [KernelProduct]
    assert kinds(kernel, points(300, 5, 4.0)) == [KernelProduct]
    V = np.random.RandomState(0).standard_normal((20_000, 1))
    some = np.arange(0, 20_000, 400)
    assert_allclose(kernel_product(kernel, dense).product(V)[some], kernel(dense[some], dense) @ V, atol=1e-9)


def test_short_scales_are_taken_by_pairs_and_long_ones_on_grids():
    kernel = Kernel(np.array([[25.0], [0.02], [0.04]]), np.array([0.5, 1.0, 0.3]))  # in any order
    plan = plan_product(kernel, towns(20_000), 1e-10)
    assert plan.by_pairs is not None
    assert plan.by_grids is not None
    np.testing.assert_array_equal(np.sort(plan.by_pairs.length_scales[:, 0]), [0.02, 0.04])
    np.testing.assert_array_equal(plan.by_grids.length_scales[:, 0], [25.0])
    whole = products._CountedPairs.of(towns(20_000)).cost(kernel, 1e-10, 1)
    assert plan.cost < 0.2 * whole


def test_many_right_hand_sides_favour_pairs():
    """An exponential serves all of them, and what a grid takes is for each."""
    X, kernel = points(3000, 2, 100.0), Kernel.gaussian(1.0)
    costs = [grid_costs(kernel, X, 1e-10, r)[0] / plan_product(kernel, X, 1e-10, r).cost for r in (1, 64)]
    assert costs[1] > costs[0]


def test_points_too_far_apart_take_pairs(monkeypatch):
    X = np.concatenate([points(3000, 2, 3.0), points(3000, 2, 3.0) + 1e9])
    kernel = Kernel.gaussian(1.0)
    assert grid_costs(kernel, X, 1e-10)[0] == np.inf
    with pytest.raises(MemoryError, match="nodes"):
        GridProduct(kernel, X)
    X = points(3000, 2, 3.0)
    cost = grid_costs(kernel, X, 1e-10)[0]
    monkeypatch.setattr(memory, "available", lambda: 10_000)  # what is free at the moment changes no answers
    assert grid_costs(kernel, X, 1e-10)[0] == cost < np.inf
    monkeypatch.setattr(memory, "total", lambda: 10_000)
    assert grid_costs(kernel, X, 1e-10)[0] == np.inf


@pytest.mark.parametrize("make", [lambda: points(30_000, 2, 40.0), lambda: towns(20_000), lambda: points(3000, 5, 8.0)])
def test_pairs_are_counted_at_some_points(make):
    X, kernel = make(), Kernel.gaussian(0.5)
    counted = products._CountedPairs.of(X).pairs(kernel, 1e-10)[0]
    assert counted == pytest.approx(KernelProduct(kernel, X, keep=False).n_pairs, rel=0.5)


def test_pairs_of_a_raster_are_counted_whatever_the_order_of_its_rows():
    X = np.stack(np.meshgrid(np.arange(100.0), np.arange(50.0)), axis=-1).reshape(-1, 2)  # every 50th is in one of two
    shuffled = X[np.random.RandomState(0).permutation(len(X))]
    found, expected = (products._CountedPairs.of(each).pairs(Kernel.gaussian(0.5), 1e-10) for each in (X, shuffled))
    assert found == pytest.approx(expected, rel=0.1)


def test_what_is_left_out_is_as_little_as_asked_for():
    X, kernel = points(20_000, 2, 20.0), Kernel.gaussian(1.0)
    plain = kernel_product(kernel, X, cutoff=1e-8)
    finer = kernel_product(kernel, X, cutoff=1e-8, most_left_out=0.1 * plain.left_out)
    assert isinstance(finer.parts[0], GridProduct)
    assert finer.left_out <= 0.1 * plain.left_out
    assert kinds(kernel, X[:6000], cutoff=1e-8, most_left_out=0.0) == [KernelProduct]


def test_what_costs_too_much_is_refused():
    with pytest.raises(ValueError, match="pairs of points"):
        kernel_product(Kernel.gaussian(1.0), points(20_000, 2, 20.0), max_pairs=1e4)
