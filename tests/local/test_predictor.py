import numpy as np
import pytest
from scipy.spatial.distance import cdist

from nearfield import metrics
from nearfield.features import taylor
from nearfield.kernels import Kernel
from nearfield.local import ensemble
from nearfield.local.blending import SLACK
from nearfield.local.centers import place
from nearfield.local.engine import RaggedEngine
from nearfield.local.features import LocalFeatures
from nearfield.local.model import mean_and_variance
from nearfield.local.neighbourhoods import TrainingSet
from nearfield.local.plan import Plan
from nearfield.local.predictor import LocalPredictor
from nearfield.solvers.kernel_space import KernelSpace

NOISE = 0.04
KERNEL = Kernel.gaussian(1.0)
WIDTH = 8.0


def field(X):
    return np.sin(1.3 * X[:, 0]) + np.cos(X[:, 1] + 0.5 * X[:, 0])


def training(n=700, seed=0, hole=True):
    """Points of a square with a hole in its middle."""
    rng = np.random.RandomState(seed)
    X = rng.uniform(0, WIDTH, (n, 2))
    if hole:
        X = X[np.linalg.norm(X - WIDTH / 2, axis=1) > 2.5]
    y = np.stack([field(X), field(X[:, ::-1])], axis=1) + NOISE**0.5 * rng.standard_normal((len(X), 2))
    return TrainingSet.of(X, y - y.mean(axis=0), np.full(len(X), NOISE))


def make(data, kind="grid", spacing=1.5, radius=5.0, degree=30, open_centers=True, n_jobs=1, n_centers=20):
    plan = Plan(KERNEL, radius, LocalFeatures.of(KERNEL, (taylor.sample(2, degree),)))
    placement = place(kind, data.X, spacing, n_centers, np.random.RandomState(0))
    return LocalPredictor.fit(plan, data, placement, open_centers, RaggedEngine(n_jobs))


def divergence(model, test, blended=False):
    """Largest KL from the exact process among the test points."""
    data = model.data
    exact = KernelSpace.from_points(KERNEL, data.X, data.y, data.noise)
    mean, variance = (model.predict_blended if blended else model.predict)(test, True)
    mean_ref, variance_ref = exact.mean_and_variance(test)
    kl = metrics.kl_divergence(mean[:, 0], variance + NOISE, mean_ref[:, 0], variance_ref + NOISE)
    return kl.max()


def everywhere(n=300, seed=1):
    return np.random.RandomState(seed).uniform(-3, WIDTH + 3, (n, 2))


def in_the_hole(n=200, seed=2):
    return WIDTH / 2 + np.random.RandomState(seed).uniform(-1, 1, (n, 2))


# ---- which model answers ------------------------------------------------------------------------------------------


def test_without_opened_centres_the_nearest_answers_alone():
    model = make(training(), open_centers=False)
    X = everywhere()
    mean, variance = model.predict(X, True)
    for i, c in enumerate(cdist(X, model.placement.centers).argmin(axis=1)):
        m, v = mean_and_variance(model.plan, model.models[c], X[i : i + 1] - model.placement.centers[c])
        np.testing.assert_allclose(mean[i], m[0], atol=1e-12)
        np.testing.assert_allclose(variance[i], v[0], atol=1e-12)


def test_points_near_a_centre_are_answered_by_it_and_others_by_a_model_of_their_cell():
    model = make(training())
    X = everywhere()
    mean, variance = model.predict(X, True)
    centers, lattice = model.placement.centers, model.placement.lattice
    distances = cdist(X, centers)
    n_opened = 0
    for i in range(len(X)):
        c = distances[i].argmin()
        if distances[i, c] <= SLACK * model.placement.spacing:
            center, one = centers[c], model.models[c]
        else:
            center = lattice.middles(lattice.cells(X[i : i + 1]))[0]
            (one,) = ensemble.fit_all(model.plan, model.data, center[None], 1)
            n_opened += 1
        m, v = mean_and_variance(model.plan, one, X[i : i + 1] - center)
        np.testing.assert_allclose(mean[i], m[0], atol=1e-12)
        np.testing.assert_allclose(variance[i], v[0], atol=1e-12)
    assert 50 < n_opened < 250


@pytest.mark.parametrize("kind", ["grid", "net", "farthest", "kmeans", "random", "mean", 3])
@pytest.mark.parametrize("blended", [False, True])
def test_holes_are_filled_whatever_the_centres(kind, blended):
    model = make(training(), kind=kind)
    assert divergence(model, in_the_hole(), blended) < 3e-3
    assert divergence(model, everywhere(), blended) < 3e-3  # far from a lone centre there may be data, too


def test_a_centre_at_every_test_point_is_as_good_as_it_gets():
    model = make(training(), kind="test")
    assert model.models == []
    assert divergence(model, everywhere(100)) < 3e-3


def test_means_do_not_depend_on_whether_variances_are_asked_for():
    model = make(training())
    for predict in (model.predict, model.predict_blended):
        np.testing.assert_allclose(predict(everywhere(), False)[0], predict(everywhere(), True)[0], atol=1e-14)


@pytest.mark.parametrize("blended", [False, True])
@pytest.mark.parametrize("far", [30.0, 1e6, 1e100])
def test_far_away_is_the_prior(far, blended):
    model = make(training())
    X = np.array([[far, 0.0], [-far, far], [far, far]])
    mean, variance = (model.predict_blended if blended else model.predict)(X, True)
    np.testing.assert_array_equal(mean, 0.0)
    np.testing.assert_array_equal(variance, 1.0)


def test_far_away_is_the_prior_without_opened_centres_too():
    model = make(training(), open_centers=False)
    for predict in (model.predict, model.predict_blended):
        mean, variance = predict(np.array([[1e3, 1e3], [1e100, -1e100]]), True)
        np.testing.assert_allclose(mean, 0.0, atol=1e-12)
        np.testing.assert_allclose(variance, 1.0)


@pytest.mark.parametrize("kind", ["grid", "test"])
def test_no_test_points(kind):
    model = make(training(), kind=kind)
    for predict in (model.predict, model.predict_blended):
        mean, variance = predict(np.empty((0, 2)), True)
        assert mean.shape == (0, 3)
        assert variance.shape == (0,)


# ---- every row once -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["grid", "net", "test"])
@pytest.mark.parametrize("blended", [False, True])
def test_a_row_does_not_depend_on_the_others_or_their_order(kind, blended):
    model = make(training(), kind=kind)
    predict = model.predict_blended if blended else model.predict
    X = np.concatenate([everywhere(30), in_the_hole(15), [[500.0, 0.0]]])
    mean, variance = predict(X, True)
    order = np.random.RandomState(3).permutation(len(X))
    shuffled = predict(X[order], True)
    np.testing.assert_allclose(shuffled[0], mean[order], atol=1e-12)
    np.testing.assert_allclose(shuffled[1], variance[order], atol=1e-12)
    for size in (1, 7, 30):
        parts = [predict(X[i : i + size], True) for i in range(0, len(X), size)]
        np.testing.assert_allclose(np.concatenate([m for m, _ in parts]), mean, atol=1e-12)
        np.testing.assert_allclose(np.concatenate([v for _, v in parts]), variance, atol=1e-12)


def test_one_and_two_threads_agree():
    data = training()
    X = np.concatenate([everywhere(200), in_the_hole(50)])
    for name in ("predict", "predict_blended"):
        one, two = (getattr(make(data, n_jobs=n_jobs), name)(X, True) for n_jobs in (1, 2))
        np.testing.assert_allclose(one[0], two[0], atol=1e-12)
        np.testing.assert_allclose(one[1], two[1], atol=1e-12)


def test_many_opened_centres_are_made_in_batches():
    data = training(300)
    model = make(data, kind=1, spacing=0.2)  # nearly every point needs a centre of its own
    X = everywhere(600)
    mean, variance = model.predict(X, True)
    exact = make(data, kind="test").predict(X, True)
    assert np.abs(mean - exact[0]).max() < 0.05
    assert np.abs(variance - exact[1]).max() < 0.05


# ---- more data ----------------------------------------------------------------------------------------------------


def parts_of(data, *bounds):
    return [
        TrainingSet.of(data.X[a:b], data.y[a:b, :-1], data.noise[a:b])
        for a, b in zip((0, *bounds), (*bounds, len(data.X)), strict=True)
    ]


def with_more(model, data):
    return model.updated(data.X, data.y[:, :-1], data.noise, forget=False)


@pytest.mark.parametrize("degree", [3, 30])
def test_taking_in_more_data_equals_a_new_predictor(degree):
    data = training()
    first, second, third = parts_of(data, 150, 300)
    model = make(first, degree=degree)
    updated = with_more(with_more(model, second), third)
    again = LocalPredictor.fit(model.plan, data, model.placement, True, RaggedEngine(1))
    assert len(model.data.X) == 150  # the first is left as it was
    for name in ("predict", "predict_blended"):
        found, expected = (getattr(p, name)(everywhere(), True) for p in (updated, again))
        np.testing.assert_allclose(found[0], expected[0], atol=1e-8)
        np.testing.assert_allclose(found[1], expected[1], atol=1e-8)


def test_new_data_far_from_all_centres_count():
    """The prior is not the answer where data came later."""
    near = training()
    rng = np.random.RandomState(4)
    X = rng.uniform(100, 103, (80, 2))
    far = TrainingSet.of(X, np.stack([field(X), field(X[:, ::-1])], axis=1), np.full(80, NOISE))
    model = with_more(make(near), far)
    test = rng.uniform(99, 104, (100, 2))
    assert divergence(model, test) < 3e-3
    assert divergence(model, test, blended=True) < 3e-3


def test_accounts():
    data = training()
    model = make(data, degree=6, radius=1.5)
    kinds = [isinstance(m, KernelSpace) for m in model.models]
    assert model.n_kernel_space == sum(kinds)
    assert 0 < sum(kinds) < len(kinds)
    assert model.n_bytes == sum(m.n_bytes for m in model.models) + 8 * len(data.X) * (2 + 3)


# ---- memory ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("has_features", [False, True])
@pytest.mark.parametrize(("radius", "count"), [(2.0, None), (2.0, 40), (2.0, 150), (None, 60), (None, 10**6)])
def test_the_estimate_of_memory_holds_for_every_kind_of_neighbourhood(has_features, radius, count):
    data = training()
    features = LocalFeatures.of(KERNEL, (taylor.sample(2, 8),)) if has_features else None
    plan = Plan(KERNEL, radius, features, count=count)
    model = LocalPredictor.fit(
        plan, data, place("grid", data.X, 1.5, 0, np.random.RandomState(0)), False, RaggedEngine(1)
    )
    largest, every = ensemble.model_bytes(plan, data, model.placement.centers)
    factors = [
        m.factor.n_bytes if isinstance(m, KernelSpace) else m.n_bytes - m.coefficients.nbytes for m in model.models
    ]
    assert max(factors) <= largest
    assert sum(factors) <= every
    if not has_features:
        assert sum(factors) == every


def test_many_right_hand_sides_are_cheaper_in_kernel_space():
    """Features keep and multiply a matrix of all pairs of targets, and kernel space does not."""
    features, counts = LocalFeatures.of(KERNEL, (taylor.sample(2, 12),)), np.arange(10.0, 400.0)
    few, many = (Plan(KERNEL, 2.0, features, n_sides=k) for k in (2, 700))
    assert few.in_kernel_space(counts).sum() < many.in_kernel_space(counts).sum()
    assert np.all(many.numbers(counts) > few.numbers(counts))
    for plan in (few, many):
        cheaper = plan.kernel_cost(counts) <= plan.features_cost(counts)
        np.testing.assert_array_equal(plan.in_kernel_space(counts), cheaper)
        assert plan.prediction_cost(100.0) > plan.n_sides * 2.0
