"""How many neighbours a cell takes, against exact variances."""

import numpy as np
import pytest

from nearfield.kernels import Kernel
from nearfield.local.depth import Depth, fit_cells, places_in_cell
from nearfield.local.neighbourhoods import TrainingSet
from nearfield.local.plan import Plan
from nearfield.solvers.kernel_space import KernelSpace

KERNEL = Kernel(np.array([[1.0], [3.0]]), np.array([1.0, 0.5]))
NOISE = 0.05


def training(n=900, d=2, width=12.0, seed=0):
    """Dense below the diagonal of the first two columns, and nothing above."""
    rng = np.random.RandomState(seed)
    X = rng.uniform(0, width, (n, d))
    if d > 1:
        X = X[X[:, 0] + X[:, 1] < width * 1.1]
    return TrainingSet.of(X, np.sin(X[:, :1]), np.full(len(X), NOISE))


def nearest_of(data, center):
    order = np.argsort(np.sum((data.X - center) ** 2, axis=1), kind="stable")

    def nearest(count):
        rows = order[:count]
        return data.X[rows] - center, data.y[rows], data.noise[rows]

    return nearest


def model_of(data, center, count):
    return KernelSpace.from_points(KERNEL, *nearest_of(data, center)(count))


def contribution(depth, model, places):
    return depth.contributions(model.kernel, model.X[None], [model.factor], places[None])[0]


def variance_of(X, places):
    K = KERNEL(X, X) + NOISE * np.eye(len(X))
    cross = KERNEL(X, places)
    return KERNEL.variance - np.sum(cross * np.linalg.solve(K, cross), axis=0)


@pytest.mark.parametrize("count", [1, 2, 7, 60, 201])
@pytest.mark.parametrize("d", [1, 2, 3])
def test_contribution_is_what_the_farther_half_takes_off_the_variance(d, count):
    data, center = training(d=d), np.full(d, 5.0)
    model, places = model_of(data, center, count), places_in_cell(0.7, d)
    fewer, all_ = variance_of(model.X[: count // 2], places), variance_of(model.X, places)
    expected = np.max(0.5 * (fewer - all_) / (all_ + NOISE))
    assert contribution(Depth(0.0, 100, NOISE), model, places) == pytest.approx(expected, rel=1e-8, abs=1e-12)


def test_the_expected_divergence_is_half_the_excess_over_the_variance():
    """For small excesses, averaged over what all data may say, the KL is what `contribution` is."""
    data, center, n = training(), np.array([8.0, 8.0]), 200
    X = nearest_of(data, center)(n)[0]
    place = np.zeros((1, 2))
    rng = np.random.RandomState(0)
    root = np.linalg.cholesky(KERNEL(X, X) + NOISE * np.eye(n))
    y = root @ rng.standard_normal((n, 4000))
    half, whole = (
        KernelSpace.from_points(KERNEL, X[:m], y[:m], np.full(m, NOISE)).mean_and_variance(place) for m in (n // 2, n)
    )
    v, v_whole = half[1][0] + NOISE, whole[1][0] + NOISE
    kl = 0.5 * (np.log(v_whole / v) + (v + (half[0] - whole[0])[0] ** 2) / v_whole - 1)
    found = contribution(Depth(0.0, n, NOISE), model_of(data, center, n), place)
    assert 0 < found < 0.3
    assert kl.mean() == pytest.approx(found, rel=0.1 + found)


def test_places_far_from_all_points_get_nothing_from_any():
    model = model_of(training(), np.array([5.0, 5.0]), 50)
    assert contribution(Depth(0.0, 100, NOISE), model, np.full((3, 2), 1e3)) < 1e-200
    assert contribution(Depth(0.0, 100, NOISE), model, np.empty((0, 2))) == 0.0


@pytest.mark.parametrize("most", [30, 100, 800, 10_000])
@pytest.mark.parametrize("excess", [1e-1, 1e-3, 1e-6])
@pytest.mark.parametrize("center", [[4.0, 4.0], [9.0, 9.0], [20.0, 20.0]])
def test_neighbours_are_taken_until_the_rule_holds(center, excess, most):
    data, size = training(), 0.5
    n, count = len(data.X), 25
    depth, center = Depth(excess, most, NOISE), np.array(center)
    (model,) = fit_cells(Plan(KERNEL, None, None, count=count), depth, data, center[None], np.array([size]))
    taken, places = len(model.X), places_in_cell(size, 2)
    counts = [count]
    while counts[-1] < min(most, n):
        counts.append(min(2 * counts[-1], most))
    counts = [min(c, n) for c in counts]
    assert taken in counts
    for fewer in counts[: counts.index(taken)]:
        assert contribution(depth, model_of(data, center, fewer), places) > excess
    if taken < min(most, n):
        assert contribution(depth, model, places) <= excess
    np.testing.assert_allclose(model.X, nearest_of(data, center)(taken)[0])


def test_without_depth_the_number_is_that_of_the_plan():
    data = training()
    for count, expected in ((40, 40), (10_000, len(data.X))):
        plan = Plan(KERNEL, None, None, count=count)
        (model,) = fit_cells(plan, None, data, np.zeros((1, 2)), np.array([0.5]))
        assert len(model.X) == expected


def test_more_are_taken_where_the_nearest_are_all_on_one_side():
    """Between a dense patch and a sparse one, a little nearer to the dense one."""
    rng = np.random.RandomState(0)
    X = np.concatenate([rng.uniform([6, 0], [8, 4], (1200, 2)), rng.uniform([0, 0], [3, 4], (200, 2))])
    data = TrainingSet.of(X, np.sin(X[:, :1]), np.full(len(X), NOISE))
    centers, sizes = np.array([[7.0, 2.0], [5.0, 2.0]]), np.array([0.3, 0.3])
    inside, between = fit_cells(Plan(KERNEL, None, None, count=150), Depth(3e-3, 1400, NOISE), data, centers, sizes)
    assert len(between.X) > 2 * len(inside.X)
    assert np.sum(between.X[:, 0] + 5.0 < 3.5) > 0  # from the other side, too


def test_cells_together_are_as_each_alone():
    data, rng = training(), np.random.RandomState(1)
    centers, sizes = rng.uniform(0, 12, (12, 2)), rng.uniform(0.1, 1.0, 12)
    plan, depth = Plan(KERNEL, None, None, count=20), Depth(1e-3, 300, NOISE)
    models = fit_cells(plan, depth, data, centers, sizes)
    assert len({len(model.X) for model in models}) > 1
    for model, center, size in zip(models, centers, sizes, strict=True):
        (alone,) = fit_cells(plan, depth, data, center[None], np.array([size]))
        np.testing.assert_allclose(model.X, alone.X, atol=1e-12)
        np.testing.assert_allclose(model.factor.lower, alone.factor.lower, atol=1e-9)


@pytest.mark.parametrize("n", [1, 2, 5])
def test_few_points_are_all_taken(n):
    data = training()
    few = TrainingSet.of(data.X[:n], data.y[:n, :1], data.noise[:n])
    plan, depth = Plan(KERNEL, None, None, count=30), Depth(1e-9, 800, NOISE)
    (model,) = fit_cells(plan, depth, few, np.zeros((1, 2)), np.ones(1))
    assert len(model.X) == n


@pytest.mark.parametrize("d", [1, 2, 3])
def test_places_are_the_middle_and_towards_the_corners(d):
    places = places_in_cell(2.0, d)
    assert places.shape == (2**d + 1, d)
    assert len(np.unique(places, axis=0)) == len(places)
    np.testing.assert_array_equal(places[0], 0.0)
    np.testing.assert_allclose(np.linalg.norm(places[1:], axis=1), 0.8 * 2.0)
