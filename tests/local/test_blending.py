import numpy as np
import pytest
from scipy.spatial import cKDTree
from scipy.spatial.distance import cdist

from nearfield import metrics
from nearfield.features import taylor
from nearfield.kernels import Kernel
from nearfield.local import blending
from nearfield.local import predictor as predictor_module
from nearfield.local.centers import Lattice, Placement, place
from nearfield.local.engine import RaggedEngine
from nearfield.local.features import LocalFeatures
from nearfield.local.model import mean_and_variance
from nearfield.local.neighbourhoods import TrainingSet
from nearfield.local.plan import Plan
from nearfield.local.predictor import LocalPredictor
from nearfield.solvers.kernel_space import KernelSpace

NOISE = 0.04
STEP = 1e-9


def weights_by_cell(lattice, X):
    """For each point the weight of each cell, as a list of dictionaries."""
    found = [{} for _ in X]
    for members, middles, weights in blending.weights_of_cells(lattice, X):
        for i, cell, weight in zip(members.tolist(), lattice.cells(middles).tolist(), weights.tolist(), strict=True):
            assert tuple(cell) not in found[i]
            found[i][tuple(cell)] = weight
    return found


@pytest.mark.parametrize("d", [1, 2, 3])
def test_weights_are_positive_and_sum_to_one(d):
    lattice = Lattice(np.full(d, -0.3), 0.7)
    X = np.random.RandomState(0).uniform(-5, 5, (300, d))
    for weights in weights_by_cell(lattice, X):
        assert min(weights.values()) > 0
        np.testing.assert_allclose(sum(weights.values()), 1.0, rtol=1e-14)


@pytest.mark.parametrize("d", [1, 2, 3])
def test_every_cell_with_a_say_is_near(d):
    lattice = Lattice(np.zeros(d), 1.0)
    X = np.random.RandomState(1).uniform(-5, 5, (200, d))
    for x, weights in zip(X, weights_by_cell(lattice, X), strict=True):
        cells = np.array(list(weights))
        assert np.abs(x - lattice.middles(cells)).max() <= 0.5 + blending.BAND
        assert tuple(lattice.cells(x[None])[0]) in weights


def test_a_cell_has_its_middle_to_itself_and_half_of_its_border():
    lattice = Lattice(np.zeros(1), 2.0)
    middle, edge, border = weights_by_cell(lattice, np.array([[1.0], [0.51], [2.0 - 1e-12]]))
    assert middle == {(0,): 1.0}
    assert edge == {(0,): 1.0}
    assert border[(0,)] == pytest.approx(0.5)
    assert border[(1,)] == pytest.approx(0.5)


@pytest.mark.parametrize("d", [1, 2, 3])
def test_weights_are_continuous(d):
    lattice = Lattice(np.zeros(d), 1.0)
    rng = np.random.RandomState(2)
    anywhere = rng.uniform(-2, 2, (200, d))
    borders = anywhere.copy()
    borders[:, 0] = np.round(borders[:, 0])  # and on the borders themselves
    corners = np.round(anywhere)
    middles = np.round(anywhere) + 0.5  # where the nearest border changes
    for X in (anywhere, borders, corners, middles):
        step = STEP * rng.standard_normal(X.shape)
        for before, after in zip(weights_by_cell(lattice, X - step), weights_by_cell(lattice, X + step), strict=True):
            for cell in before.keys() | after.keys():
                assert abs(before.get(cell, 0.0) - after.get(cell, 0.0)) < 100 * STEP


def weights_by_center(centers, X):
    """Weight of each centre at each point, (m, C)."""
    placement, engine = Placement(centers, 1.0, None), RaggedEngine(1)
    reach = blending.reach_of_centers(engine.nearest(placement, X, True)[0])
    counts, found = engine.within(placement, X, reach)
    weights = blending.weights_of_centers(centers, X, counts, found, reach)
    result = np.zeros((len(X), len(centers)))
    result[np.repeat(np.arange(len(X)), counts), found] = weights
    return result


@pytest.mark.parametrize("d", [1, 2, 5])
def test_centres_share_a_point_by_their_distance(d):
    rng = np.random.RandomState(3)
    centers, X = rng.uniform(0, 4, (40, d)), rng.uniform(-1, 5, (200, d))
    weights = weights_by_center(centers, X)
    distances = cdist(X, centers)
    reach = blending.CLOSE * distances.min(axis=1, keepdims=True)
    bumps = np.where(distances < reach, (1 - (distances / reach) ** 2) ** 2, 0.0)
    np.testing.assert_allclose(weights, bumps / bumps.sum(axis=1, keepdims=True), atol=1e-12)
    np.testing.assert_allclose(weights.sum(axis=1), 1.0)
    order = np.argsort(distances, axis=1)
    assert np.all(np.diff(np.take_along_axis(weights, order, axis=1), axis=1) <= 1e-15)


@pytest.mark.parametrize("d", [1, 2, 5])
def test_shares_of_centres_are_continuous(d):
    rng = np.random.RandomState(4)
    centers, X = rng.uniform(0, 4, (40, d)), rng.uniform(-1, 5, (300, d))
    step = STEP * rng.standard_normal(X.shape)
    change = weights_by_center(centers, X + step) - weights_by_center(centers, X - step)
    nearest = cdist(X, centers).min(axis=1, keepdims=True)
    assert np.max(np.abs(change) * nearest) < 100 * STEP
    # Half way between two centres, where one takes over from the other, too.
    pairs = centers[cKDTree(centers).query(centers, k=2)[1]].mean(axis=1)
    step = STEP * rng.standard_normal(pairs.shape)
    change = weights_by_center(centers, pairs + step) - weights_by_center(centers, pairs - step)
    assert np.max(np.abs(change) * cdist(pairs, centers).min(axis=1, keepdims=True)) < 100 * STEP


def test_cells_are_opened_beyond_the_spacing():
    shares = blending.weight_of_opened_cells(
        2 * np.array([0, 0.95, blending.SLACK, (blending.SLACK + blending.REACH) / 2, blending.REACH, 50]), 2.0
    )
    np.testing.assert_allclose(shares, [0, 0, 0, 0.5, 1, 1], atol=1e-12)


# ---- predictions -------------------------------------------------------------------------------------------------


def field(X):
    return np.sin(1.3 * X[:, 0]) + np.cos(X[:, 1] + 0.5 * X[:, 0])


def uniform(n, rng):
    return rng.uniform(0, 8, (n, 2))


def with_hole(n, rng):
    X = rng.uniform(0, 8, (n, 2))
    return X[np.linalg.norm(X - 4, axis=1) > 2.0]


def clumps(n, rng):
    middles = np.random.RandomState(99).uniform(0, 8, (15, 2))
    return middles[rng.randint(15, size=n)] + 0.3 * rng.standard_normal((n, 2))


def curve(n, rng):
    t = rng.uniform(0, 8, (n, 1))
    return np.hstack([t, 4 + 2 * np.sin(t)]) + 0.05 * rng.standard_normal((n, 2))


def predictor(sample=uniform, n=1500, spacing=1.4, radius=2.5, degree=8, kind="grid", open_centers=True):
    rng = np.random.RandomState(0)
    X = sample(n, rng)
    y = field(X)[:, None] + NOISE**0.5 * rng.standard_normal((len(X), 1))
    kernel = Kernel.gaussian(1.0)
    data = TrainingSet.of(X, y - y.mean(), np.full(len(X), NOISE))
    plan = Plan(kernel, radius, LocalFeatures.of(kernel, (taylor.sample(2, degree),)))
    placement = place(kind, X, spacing, 30, rng)
    return LocalPredictor.fit(plan, data, placement, open_centers, RaggedEngine(1))


def across_borders(local_predictor, n=300):
    """Pairs of points a hair apart on both sides of cell borders, inside the data and out."""
    lattice = local_predictor.placement.lattice
    rng = np.random.RandomState(3)
    X = rng.uniform(-3, 11, (n, 2))
    column = rng.randint(2, size=n)
    rows = np.arange(n)
    X[rows, column] = (
        lattice.origin[column] + lattice.side * np.round((X - lattice.origin) / lattice.side)[rows, column]
    )
    step = np.zeros_like(X)
    step[rows, column] = STEP
    return X - step, X + step


@pytest.mark.parametrize("open_centers", [True, False])
@pytest.mark.parametrize("sample", [uniform, with_hole, clumps])
def test_blended_predictions_are_continuous_across_the_borders_of_cells(sample, open_centers):
    model = predictor(sample, open_centers=open_centers)
    before, after = across_borders(model)
    left, right = model.predict_blended(before, True), model.predict_blended(after, True)
    assert np.abs(left[0] - right[0]).max() < 1e-6
    assert np.abs(left[1] - right[1]).max() < 1e-6


def seams(model, rng, low=0, high=8):
    """Points a hair apart with different nearest centres: both sides of a border."""
    centers = model.placement.centers

    def owner(X):
        return cdist(X, centers).argmin(axis=1)

    ends = rng.uniform(low, high, (500, 2, 2))
    ends = ends[owner(ends[:, 0]) != owner(ends[:, 1])]
    for _ in range(40):  # halve the way between them
        middle = ends.mean(axis=1)
        same = owner(middle) == owner(ends[:, 0])
        ends[same, 0], ends[~same, 1] = middle[same], middle[~same]
    return ends[:, 0], ends[:, 1]


@pytest.mark.parametrize("kind", ["grid", "net", "farthest", "kmeans", "random"])
def test_the_seams_between_centres_are_gone(kind):
    model = predictor(kind=kind)
    before, after = seams(model, np.random.RandomState(4))
    plain = [model.predict(side, True) for side in (before, after)]
    blended = [model.predict_blended(side, True) for side in (before, after)]
    for part in (0, 1):
        seam = np.abs(plain[0][part] - plain[1][part]).max()
        assert seam > 1e-4
        assert np.abs(blended[0][part] - blended[1][part]).max() < 1e-4 * seam


@pytest.mark.parametrize(("spacing", "radius", "degree"), [(1.4, 2.5, 8), (2.45, 3.5, 14)])
@pytest.mark.parametrize("sample", [uniform, with_hole, clumps, curve])
def test_blending_brings_predictions_no_farther_from_the_exact_process(sample, spacing, radius, degree):
    model = predictor(sample, n=500, spacing=spacing, radius=radius, degree=degree)
    data = model.data
    exact = KernelSpace.from_points(model.plan.kernel, data.X, data.y, data.noise)
    rng = np.random.RandomState(5)
    test = np.concatenate([sample(800, rng), uniform(200, rng)])  # as the training points lie, and everywhere
    mean_ref, variance_ref = exact.mean_and_variance(test)

    def divergence(predict):
        mean, variance = predict(test, True)
        return metrics.kl_divergence(mean[:, 0], variance + NOISE, mean_ref[:, 0], variance_ref + NOISE).mean()

    assert divergence(model.predict_blended) <= 1.1 * divergence(model.predict)


def test_blending_is_the_weighted_mean_of_the_models_of_the_centres():
    model = predictor()
    centers = model.placement.centers
    X = np.random.RandomState(6).uniform(0, 8, (60, 2))
    X = X[cdist(X, centers).min(axis=1) < 1.4]
    mean, variance = model.predict_blended(X, True)
    for i, weights in enumerate(weights_by_center(centers, X)):
        parts = [mean_and_variance(model.plan, model.models[c], X[i : i + 1] - centers[c]) for c in range(len(centers))]
        np.testing.assert_allclose(mean[i], sum(w * m[0] for w, (m, _) in zip(weights, parts, strict=True)), atol=1e-12)
        np.testing.assert_allclose(variance[i], sum(w * v[0] for w, (_, v) in zip(weights, parts, strict=True)))
    np.testing.assert_allclose(model.predict_blended(X, False)[0], mean, atol=1e-14)


def test_in_chunks_the_answers_are_the_same(monkeypatch):
    model = predictor(with_hole)
    X = np.random.RandomState(6).uniform(-2, 10, (200, 2))
    whole = model.predict_blended(X, True)
    monkeypatch.setattr(predictor_module, "BLENDED_ROWS", 17)
    parts = model.predict_blended(X, True)
    np.testing.assert_allclose(parts[0], whole[0], atol=1e-12)
    np.testing.assert_allclose(parts[1], whole[1], atol=1e-12)


def test_blended_rows_do_not_depend_on_the_others():
    model = predictor(with_hole)
    X = np.random.RandomState(7).uniform(-2, 10, (120, 2))
    mean, variance = model.predict_blended(X, True)
    order = np.random.RandomState(8).permutation(120)
    shuffled = model.predict_blended(X[order], True)
    np.testing.assert_allclose(shuffled[0], mean[order], atol=1e-12)
    np.testing.assert_allclose(shuffled[1], variance[order], atol=1e-12)


def test_blended_predictions_far_away_are_the_prior():
    model = predictor()
    far = np.array([[1e3, 1e3], [-1e9, 4.0], [1e80, -1e80]])
    mean, variance = model.predict_blended(far, True)
    np.testing.assert_allclose(mean, 0.0, atol=1e-12)
    np.testing.assert_allclose(variance, 1.0)


def test_without_centres_or_spacing_there_is_nothing_to_blend():
    X = np.random.RandomState(9).uniform(0, 8, (20, 2))
    for model in (predictor(kind="test"), predictor(spacing=None)):
        for found, expected in zip(model.predict_blended(X, True), model.predict(X, True), strict=True):
            np.testing.assert_array_equal(found, expected)


def test_blending_in_many_columns():
    rng = np.random.RandomState(10)
    X = rng.uniform(0, 2, (400, 6))
    kernel = Kernel.gaussian(1.0)
    data = TrainingSet.of(X, np.sin(X.sum(axis=1, keepdims=True)), np.full(400, NOISE))
    plan = Plan(kernel, 2.0, LocalFeatures.of(kernel, (taylor.sample(6, 3),)))
    model = LocalPredictor.fit(plan, data, place("net", X, 1.0, None, rng), True, RaggedEngine(1))
    exact = KernelSpace.from_points(kernel, X, data.y, data.noise)
    test = rng.uniform(-0.5, 2.5, (100, 6))  # many of them beyond the spacing of all centres
    mean_ref, variance_ref = exact.mean_and_variance(test)
    divergence = [
        metrics.kl_divergence(mean[:, 0], variance + NOISE, mean_ref[:, 0], variance_ref + NOISE).mean()
        for mean, variance in (model.predict(test, True), model.predict_blended(test, True))
    ]
    assert divergence[1] <= 1.1 * divergence[0]
