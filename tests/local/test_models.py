import copy

import numpy as np
import pytest
import sklearn
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist
from scipy.special import gammaincc

from nearfield import metrics
from nearfield.common import memory
from nearfield.features import maclaurin, taylor
from nearfield.kernels import Kernel
from nearfield.local import ensemble
from nearfield.local import model as local
from nearfield.local.features import LocalFeatures
from nearfield.local.model import fit_one, mean_and_variance, sums_of
from nearfield.local.moments import MomentModel
from nearfield.local.neighbourhoods import TrainingSet
from nearfield.local.plan import Plan, feature_cost, kernel_cost
from nearfield.solvers.kernel_space import KernelSpace

NOISE = 0.04


def gaussian(variance=1.0):
    return Kernel.gaussian(1.0, variance)


def training(n=300, d=2, seed=0, width=5.0, k=2):
    rng = np.random.RandomState(seed)
    X = rng.uniform(0, width, (n, d))
    y = np.stack([np.sin(X.sum(axis=1) * (j + 1)) for j in range(k)], axis=1) + 0.2 * rng.standard_normal((n, k))
    noise = NOISE * rng.uniform(0.5, 2.0, n)
    return TrainingSet.of(X, y - y.mean(axis=0), noise)


def taylor_features(kernel, d, degree):
    return LocalFeatures.of(kernel, (taylor.sample(d, degree),) * kernel.n_scales)


def maclaurin_features(kernel, Z, columns, **options):
    maps = tuple(
        maclaurin.sample(Z / scales, columns, "rademacher", np.random.RandomState(0), **options)
        for scales in kernel.length_scales
    )
    return LocalFeatures.of(kernel, maps)


def normalised(features, Z):
    """Features `Phi` (n, D) with `Phi Phi'` the approximate kernel, from the public functions of the maps."""
    blocks = []
    for feature_map, (scales, variance) in zip(features.maps, features.kernel.components(), strict=True):
        of = taylor.apply if isinstance(feature_map, taylor.TaylorMap) else maclaurin.apply
        blocks.append(variance**0.5 * of(feature_map, Z / scales))
    return np.concatenate(blocks, axis=1)


def dense_posterior(K, k, prior, y, noise):
    """Textbook formulas with explicit inverses."""
    inverse = np.linalg.inv(K + np.diag(noise))
    return k @ inverse @ y, prior - np.einsum("ij,jk,ik->i", k, inverse, k)


def everything(kernel, d=2):
    Z = training(d=d).X - 2.5
    return [
        taylor_features(kernel, d, 6),
        maclaurin_features(kernel, Z, 30),
        maclaurin_features(kernel, Z, 60, exact_degrees=0),
    ]


# ---- neighbourhoods -----------------------------------------------------------------------------------------------


def test_neighbourhoods_are_those_of_brute_force():
    data = training()
    centers = np.random.RandomState(1).uniform(-1, 6, (20, 2))
    distances = cdist(centers, data.X)
    for found, row in zip(data.neighbourhoods(centers, 1.3), distances, strict=True):
        np.testing.assert_array_equal(np.sort(found), np.flatnonzero(row <= 1.3))
    for found in data.neighbourhoods(centers, None):
        np.testing.assert_array_equal(found, np.arange(300))
    for found, row in zip(data.neighbourhoods(centers, None, count=9), distances, strict=True):
        np.testing.assert_array_equal(np.sort(found), np.sort(np.argsort(row)[:9]))


def test_a_training_set_has_a_column_of_ones_beside_its_targets():
    data = training(k=3)
    assert data.y.shape == (300, 4)
    np.testing.assert_array_equal(data.y[:, -1], 1.0)


# ---- features -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", [gaussian(2.5), Kernel(np.array([[1.0], [3.0]]), np.array([0.7, 1.9]))])
def test_rows_and_their_precision_give_the_kernel_of_the_maps(kernel):
    Z = training().X[:40] - 2.5
    factor = np.random.RandomState(3).uniform(1, 2, 40)
    for features in everything(kernel):
        phi = normalised(features, Z)
        rows = features.rows(Z, factor)
        assert rows.shape == (features.n_components, 40)
        assert rows.flags.c_contiguous
        expected = factor[:, None] * (phi @ phi.T) * factor
        np.testing.assert_allclose((rows.T / features.precision) @ rows, expected, rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize("kernel", [gaussian(2.5), Kernel(np.array([[1.0], [3.0]]), np.array([0.7, 1.9]))])
def test_missing_variance_is_what_the_features_lack_of_the_prior(kernel):
    Z = np.random.RandomState(4).standard_normal((60, 2)) * 3
    exact = taylor_features(kernel, 2, 6)
    phi = normalised(exact, Z)
    np.testing.assert_allclose(exact.missing_variance(Z), kernel.variance - (phi**2).sum(axis=1), atol=1e-12)
    closed = sum(
        v * (1 - gammaincc(7, ((Z / scales) ** 2).sum(axis=1))) for scales, v in kernel.components()
    )  # a Poisson variable of mean |z|^2 is at most 6
    np.testing.assert_allclose(exact.missing_variance(Z), closed, atol=1e-12)
    for features in everything(kernel):
        missing = features.missing_variance(Z)
        assert np.all((missing >= 0) & (missing <= kernel.variance))


@pytest.mark.parametrize("far", [1e3, 1e30, 1e100])
def test_features_of_far_points_are_zero(far):
    kernel = gaussian(2.0)
    Z = np.array([[far, -far], [0.0, far]])
    for features in everything(kernel):
        np.testing.assert_array_equal(features.rows(Z), 0.0)
        np.testing.assert_allclose(features.missing_variance(Z), 2.0)


# ---- the two solvers ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("correction", [True, False])
@pytest.mark.parametrize("which", [0, 1, 2], ids=["taylor", "maclaurin", "paper"])
def test_feature_model_is_the_process_with_the_kernel_of_the_features(correction, which):
    kernel = gaussian(1.7)
    features = everything(kernel)[which]
    data = training(200)
    center = np.array([2.4, 2.6])
    Z, test = data.X - center, np.random.RandomState(5).uniform(0, 5, (50, 2)) - center
    plan = Plan(kernel, None, features, correction=correction, either_side=False)
    model = fit_one(plan, Z, data.y, data.noise)
    assert not isinstance(model, KernelSpace)
    mean, variance = mean_and_variance(plan, model, test)

    phi, phi_test = normalised(features, Z), normalised(features, test)
    present, present_test = (phi**2).sum(axis=1), (phi_test**2).sum(axis=1)
    noise = data.noise + (np.maximum(1.7 - present, 0) if correction else 0)
    prior = present_test + (np.maximum(1.7 - present_test, 0) if correction else 0)
    expected_mean, expected_variance = dense_posterior(phi @ phi.T, phi_test @ phi.T, prior, data.y, noise)
    np.testing.assert_allclose(mean, expected_mean, atol=1e-10)
    np.testing.assert_allclose(variance, expected_variance, atol=1e-10)
    np.testing.assert_array_equal(local.mean(plan, model, test), mean)


@pytest.mark.parametrize("kernel", [gaussian(1.7), Kernel(np.array([[1.0], [3.0]]), np.array([0.7, 1.9]))])
def test_kernel_model_is_the_exact_process_on_the_neighbourhood(kernel):
    data = training(200)
    center = np.array([2.4, 2.6])
    plan = Plan(kernel, 1.5, None)
    (model,) = ensemble.fit_all(plan, data, center[None], n_jobs=1)
    assert isinstance(model, KernelSpace)
    near = cdist(center[None], data.X)[0] <= 1.5
    assert 10 < near.sum() < 150
    exact = KernelSpace.from_points(kernel, data.X[near], data.y[near], data.noise[near])
    test = np.random.RandomState(5).uniform(0, 5, (50, 2))
    mean, variance = mean_and_variance(plan, model, test - center)
    expected_mean, expected_variance = exact.mean_and_variance(test)
    np.testing.assert_allclose(mean, expected_mean, atol=1e-10)
    np.testing.assert_allclose(variance, expected_variance, atol=1e-10)
    np.testing.assert_array_equal(local.mean(plan, model, test - center), mean)


def test_high_degrees_and_kernel_space_agree():
    kernel = gaussian(1.3)
    data = training(150, width=2.0)
    center, test = np.array([1.0, 1.0]), np.random.RandomState(6).uniform(0, 2, (30, 2))
    with_features = Plan(kernel, None, taylor_features(kernel, 2, 25), either_side=False)
    with_kernel = Plan(kernel, None, None)
    answers = [
        mean_and_variance(plan, fit_one(plan, data.X - center, data.y, data.noise), test - center)
        for plan in (with_features, with_kernel)
    ]
    np.testing.assert_allclose(answers[0][0], answers[1][0], atol=1e-8)
    np.testing.assert_allclose(answers[0][1], answers[1][1], atol=1e-8)


def test_no_neighbours_leave_the_prior():
    kernel = gaussian(1.3)
    data = training(100)
    away = np.array([[100.0, 100.0]])
    for either_side in (True, False):
        plan = Plan(kernel, 2.0, taylor_features(kernel, 2, 5), either_side=either_side)
        (model,) = ensemble.fit_all(plan, data, away, n_jobs=1)
        mean, variance = mean_and_variance(plan, model, np.array([[0.0, 0.1], [3.0, 0.0]]))
        np.testing.assert_allclose(mean, 0.0)
        np.testing.assert_allclose(variance, 1.3)


@given(st.integers(0, 20_000), st.integers(1, 2000))
def test_the_cheaper_side_is_taken(n, columns):
    kernel = gaussian()
    features = LocalFeatures(kernel, (), np.ones(columns))
    cheaper = kernel_cost(n) <= feature_cost(n, columns)
    assert Plan(kernel, 1.0, features).takes_kernel_space(n) == cheaper
    assert not Plan(kernel, 1.0, features, either_side=False).takes_kernel_space(n)
    assert Plan(kernel, 1.0, None).takes_kernel_space(n)


def test_sides_differ_from_centre_to_centre():
    kernel = gaussian()
    features = taylor_features(kernel, 2, 6)
    assert Plan(kernel, 1.0, features).takes_kernel_space(5)
    assert not Plan(kernel, 1.0, features).takes_kernel_space(500)
    rng = np.random.RandomState(0)
    X = np.concatenate([rng.uniform(0, 1, (400, 2)), rng.uniform(5, 6, (10, 2))])
    data = TrainingSet.of(X, rng.standard_normal((410, 1)), np.full(410, NOISE))
    models = ensemble.fit_all(Plan(kernel, 1.0, features), data, np.array([[0.5, 0.5], [5.5, 5.5]]), n_jobs=1)
    assert [type(model) for model in models] == [MomentModel, KernelSpace]


@settings(max_examples=40)
@given(
    st.integers(1, 4),
    st.integers(1, 60),
    st.floats(0.05, 50.0),
    st.floats(1e-8, 10.0),
    st.floats(1e-3, 1e3),
    st.integers(1, 6),
    st.integers(0, 10_000),
)
def test_variances_lie_between_zero_and_the_prior(d, n, width, noise, variance, degree, seed):
    rng = np.random.RandomState(seed)
    kernel = gaussian(variance)
    data = TrainingSet.of(rng.uniform(-width, width, (n, d)), rng.standard_normal((n, 1)), np.full(n, noise * variance))
    test = rng.uniform(-2 * width, 2 * width, (20, d))
    for features in (
        None,
        taylor_features(kernel, d, degree),
        maclaurin_features(kernel, data.X, 20),
        maclaurin_features(kernel, data.X, 20, exact_degrees=0),
    ):
        for radius in (width, None):
            plan = Plan(kernel, radius, features, either_side=False)
            (model,) = ensemble.fit_all(plan, data, np.zeros((1, d)), n_jobs=1)
            mean, found = mean_and_variance(plan, model, test)
            assert np.all(np.isfinite(mean))
            assert np.all(found >= 0)
            assert np.all(found <= variance * (1 + 1e-9))


# ---- many centres -------------------------------------------------------------------------------------------------


def grid_of_centers(width=5.0):
    axis = np.arange(0.5, width, 0.8)
    return np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)


def fitted(plan, data, centers, n_jobs):
    models = ensemble.fit_all(plan, data, centers, n_jobs)
    test = np.random.RandomState(7).uniform(0, 5, (400, 2))
    owner = cdist(test, centers).argmin(axis=1)
    return (models, *ensemble.predict_groups(plan, models, centers, test, owner, True, n_jobs))


@pytest.mark.parametrize("columns", [None, 28])
def test_batches_and_threads_do_not_change_the_answers(monkeypatch, columns):
    kernel = gaussian()
    data, centers = training(1500), grid_of_centers()
    features = None if columns is None else taylor_features(kernel, 2, 6)
    plan = Plan(kernel, 1.6, features)
    _, mean, variance = fitted(plan, data, centers, 1)
    _, mean_2, variance_2 = fitted(plan, data, centers, 2)
    np.testing.assert_array_equal(mean, mean_2)
    np.testing.assert_array_equal(variance, variance_2)
    for size in (1, 5, 1000):
        monkeypatch.setattr(ensemble, "_BATCH", size)
        _, mean_b, variance_b = fitted(plan, data, centers, 2)
        np.testing.assert_allclose(mean_b, mean, atol=1e-12)
        np.testing.assert_allclose(variance_b, variance, atol=1e-12)


def test_a_group_larger_than_a_piece_is_cut_without_a_trace(monkeypatch):
    kernel = gaussian()
    data = training(300)
    plan = Plan(kernel, None, taylor_features(kernel, 2, 8))
    centers = np.array([[2.5, 2.5], [0.0, 0.0]])
    models = ensemble.fit_all(plan, data, centers, 1)
    test = np.random.RandomState(8).uniform(0, 5, (500, 2))
    owner = (np.arange(500) % 3 == 0).astype(np.int64)
    whole = ensemble.predict_groups(plan, models, centers, test, owner, True, 1)
    with monkeypatch.context() as patch:
        patch.setattr(memory, "rows_per_chunk", lambda *_: 7)
        cut = ensemble.predict_groups(plan, models, centers, test, owner, True, 2)
    np.testing.assert_allclose(cut[0], whole[0], atol=1e-12)
    np.testing.assert_allclose(cut[1], whole[1], atol=1e-12)


def test_each_point_is_answered_by_the_model_of_its_owner():
    kernel = gaussian()
    data, centers = training(500), grid_of_centers()
    plan = Plan(kernel, 1.6, taylor_features(kernel, 2, 6))
    models = ensemble.fit_all(plan, data, centers, 2)
    rng = np.random.RandomState(9)
    test, owner = rng.uniform(0, 5, (60, 2)), rng.randint(len(centers), size=60)
    mean, variance = ensemble.predict_groups(plan, models, centers, test, owner, True, 2)
    for i in range(60):
        m, v = mean_and_variance(plan, models[owner[i]], test[i : i + 1] - centers[owner[i]])
        np.testing.assert_allclose(mean[i], m[0], atol=1e-12)
        np.testing.assert_allclose(variance[i], v[0], atol=1e-12)
    means, _ = ensemble.predict_groups(plan, models, centers, test, owner, False, 1)
    np.testing.assert_allclose(means, mean, atol=1e-14)  # without variances, the same


def test_sums_in_chunks_are_the_sums_of_the_whole():
    kernel = gaussian()
    data = training(3000)
    plan = Plan(kernel, None, taylor_features(kernel, 2, 20))
    Z = data.X - 2.5
    whole = sums_of(plan, Z, data.y, data.noise)
    with sklearn.config_context(working_memory=1):
        assert memory.rows_per_chunk(24 * plan.features.n_rows, 3000) < 1000
        chunked = sums_of(plan, Z, data.y, data.noise)
    scale = np.abs(whole.moments).max()
    np.testing.assert_allclose(chunked.moments, whole.moments, atol=1e-13 * scale)
    np.testing.assert_allclose(chunked.cross, whole.cross, atol=1e-13 * np.abs(whole.cross).max())
    np.testing.assert_allclose(chunked.targets, whole.targets, rtol=1e-12)
    assert chunked.n == whole.n == 3000


def split(data, n_old):
    old, new = (
        TrainingSet.of(data.X[part], data.y[part, :-1], data.noise[part]) for part in (slice(n_old), slice(n_old, None))
    )
    return old, new


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("columns", [None, 28])
def test_an_update_equals_a_new_fit(columns, n_jobs):
    kernel = gaussian()
    data, centers = training(1200), grid_of_centers()
    plan = Plan(kernel, 1.6, None if columns is None else taylor_features(kernel, 2, 6))
    old, new = split(data, 100)
    before = ensemble.fit_all(plan, old, centers, n_jobs)
    updated = ensemble.update_all(plan, before, new, data, centers, n_jobs)
    again = ensemble.fit_all(plan, data, centers, n_jobs)
    if columns is not None:  # some centres went over to the features as their points became many
        assert any(isinstance(m, KernelSpace) for m in before)
    assert [type(m) for m in updated] == [type(m) for m in again]
    test = np.random.RandomState(10).uniform(0, 5, (200, 2))
    owner = cdist(test, centers).argmin(axis=1)
    answers = [ensemble.predict_groups(plan, models, centers, test, owner, True, 1) for models in (updated, again)]
    np.testing.assert_allclose(answers[0][0], answers[1][0], atol=1e-8)
    np.testing.assert_allclose(answers[0][1], answers[1][1], atol=1e-8)


def test_many_small_updates_do_not_drift():
    kernel = gaussian()
    data = training(600)
    plan = Plan(kernel, None, taylor_features(kernel, 2, 8), either_side=False)
    centers = np.array([[2.5, 2.5]])
    models = ensemble.fit_all(plan, split(data, 20)[0], centers, 1)
    for start in range(20, 600, 20):
        part = slice(start, start + 20)
        new = TrainingSet.of(data.X[part], data.y[part, :-1], data.noise[part])
        models = ensemble.update_all(plan, models, new, data, centers, 1)  # sums need the new points only
    again = ensemble.fit_all(plan, data, centers, 1)
    test = np.random.RandomState(11).uniform(-1, 1, (50, 2))
    answers = [mean_and_variance(plan, m[0], test) for m in (models, again)]
    np.testing.assert_allclose(answers[0][0], answers[1][0], atol=1e-8)
    np.testing.assert_allclose(answers[0][1], answers[1][1], atol=1e-8)


def test_models_of_products_take_in_moments():
    """As those do that were read from a file of an earlier version."""
    kernel = gaussian()
    data = training(400)
    plan = Plan(kernel, None, taylor_features(kernel, 2, 6), either_side=False)
    Z, test = data.X - 2.5, np.random.RandomState(12).uniform(-1, 1, (20, 2))
    before = local.solve_one(plan, Z[:200], data.y[:200], data.noise[:200])
    updated = local.and_more(plan, before, sums_of(plan, Z[200:], data.y[200:], data.noise[200:]))
    expected = mean_and_variance(plan, fit_one(plan, Z, data.y, data.noise), test)
    np.testing.assert_allclose(mean_and_variance(plan, updated, test)[0], expected[0], atol=1e-9)
    np.testing.assert_allclose(mean_and_variance(plan, updated, test)[1], expected[1], atol=1e-12)


def test_an_update_leaves_the_models_it_started_from():
    kernel = gaussian()
    data, centers = training(400), grid_of_centers()
    plan = Plan(kernel, 1.6, taylor_features(kernel, 2, 6), either_side=False)
    old, new = split(data, 200)
    models = ensemble.fit_all(plan, old, centers, 1)
    copies = copy.deepcopy(models)
    ensemble.update_all(plan, models, new, data, centers, 1)
    for model, before in zip(models, copies, strict=True):
        np.testing.assert_array_equal(model.sums.moments, before.sums.moments)
        np.testing.assert_array_equal(model.sums.cross, before.sums.cross)
        np.testing.assert_array_equal(model.coefficients, before.coefficients)
        np.testing.assert_array_equal(model.polynomial, before.polynomial)


@pytest.mark.parametrize(("radius", "count"), [(1.2, None), (None, 12), (0.5, 12)])
def test_an_update_makes_again_only_the_centres_that_gain_points(radius, count):
    """In kernel space, with neighbourhoods by radius, by number, and by both."""
    plan = Plan(gaussian(), radius, None, count=count)
    data, centers = training(600), grid_of_centers()
    near = np.flatnonzero(data.X[:, 0] < 1.0)[:40]
    order = np.concatenate([np.setdiff1d(np.arange(600), near), near])
    data = TrainingSet.of(data.X[order], data.y[order, :-1], data.noise[order])
    old, new = split(data, 600 - len(near))
    before = ensemble.fit_all(plan, old, centers, 1)
    updated = ensemble.update_all(plan, before, new, data, centers, 2)
    again = ensemble.fit_all(plan, data, centers, 1)
    around = data.neighbourhoods(centers, plan.radius, plan.count)
    gains = [bool(np.any(points >= len(old.X))) for points in around]
    assert 5 < sum(gains) < len(gains) - 5
    assert [a is not b for a, b in zip(before, updated, strict=True)] == gains
    test = np.random.RandomState(13).uniform(-1, 1, (20, 2))
    for model, fresh in zip(updated, again, strict=True):
        answers = [mean_and_variance(plan, m, test) for m in (model, fresh)]
        np.testing.assert_array_equal(answers[0][0], answers[1][0])
        np.testing.assert_array_equal(answers[0][1], answers[1][1])


@pytest.mark.parametrize("kind", ["features", "kernel"])
def test_the_exact_process_is_the_limit_of_large_neighbourhoods(kind):
    kernel = gaussian()
    data, centers = training(500), grid_of_centers()[::2]
    test = np.random.RandomState(12).uniform(0, 5, (200, 2))
    owner = cdist(test, centers).argmin(axis=1)
    exact_mean, exact_variance = KernelSpace.from_points(kernel, data.X, data.y, data.noise).mean_and_variance(test)
    divergences = []
    for radius in (1.0, 1.5, 2.0, 3.0, 4.0, 5.0):
        features = taylor_features(kernel, 2, int(1.5 * radius**2) + 4) if kind == "features" else None
        plan = Plan(kernel, radius, features, either_side=False)
        models = ensemble.fit_all(plan, data, centers, 2)
        mean, variance = ensemble.predict_groups(plan, models, centers, test, owner, True, 2)
        kl = metrics.kl_divergence(mean[:, 0], variance + NOISE, exact_mean[:, 0], exact_variance + NOISE)
        divergences.append(kl.mean())
    assert divergences[0] > 1e-3
    assert divergences[-1] < 1e-6
    assert np.all(np.diff(np.log(divergences)) < 0)


def test_batches_cover_the_range():
    assert memory.batches(0) == []
    assert memory.batches(5, 2) == [slice(0, 2), slice(2, 4), slice(4, 5)]


def test_memory_of_a_model_counts_its_arrays():
    kernel = gaussian()
    data = training(100, k=1)
    plan = Plan(kernel, None, taylor_features(kernel, 2, 4), either_side=False)
    (model,) = ensemble.fit_all(plan, data, np.zeros((1, 2)), 1)
    assert model.n_bytes == 8 * (15 * 15 + 2 * 15 * 2 + 2 * 2)
    (model,) = ensemble.fit_all(Plan(kernel, None, None), data, np.zeros((1, 2)), 1)
    assert model.n_bytes == 8 * (100 * 2 + 100 + 100 * 100 + 100 * 2)
