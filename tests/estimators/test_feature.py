import copy
import pickle
import warnings

import numpy as np
import pytest
import sklearn
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.stats import multivariate_normal
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, PolynomialFeatures, StandardScaler

import nearfield as nf
from nearfield import metrics
from nearfield.common import memory
from nearfield.solvers.factors import Cholesky
from nearfield.solvers.feature_space import FeatureSpace

from ..warned import far_points, few_features, unlike_columns

FIXED = {"length_scale": 0.5, "signal_variance": 1.5, "noise_variance": 0.05, "random_state": 0}


def taylor(degree=6):
    # A centre of its own, so that the map does not depend on which data it was fitted to.
    return nf.TaylorFeatures(degree, center=[0.5, 0.5])


MAPS = {
    "taylor": taylor(),
    "fourier, few": nf.FourierFeatures(20, random_state=0),
    "fourier, many": nf.FourierFeatures(300, random_state=0),
    "orthogonal": nf.FourierFeatures(64, sampling="orthogonal", random_state=0),
    "maclaurin": nf.MaclaurinFeatures(40, random_state=0),
    "maclaurin, tensor": nf.MaclaurinFeatures(200, sampling="tensor_srht", random_state=0, exact_degrees=0),
}
every_map = pytest.mark.parametrize("feature_map", MAPS.values(), ids=MAPS)


def problem(n=60, m=25, k=None, seed=0):
    rng = np.random.RandomState(seed)
    X = rng.rand(n, 2)
    y = np.sin(5 * X[:, 0]) * X[:, 1] + 0.2 * rng.randn(n) + 7
    if k is not None:
        y = np.column_stack([y + t * X[:, 1] for t in range(k)])
    return X, y, rng.rand(m, 2) * 1.5


def fixed(feature_map, **changes):
    return nf.FeatureGPRegressor(feature_map, **{**FIXED, **changes})


# ---- equal to the exact GP with the kernel of the features -----------------------------------------------------------


@pytest.mark.parametrize("weighted", [False, True])
@every_map
def test_equals_the_exact_gp_of_its_own_kernel(feature_map, weighted):
    X, y, X_test = problem()
    weights = np.linspace(0.2, 3, len(X)) if weighted else np.ones(len(X))
    gp = fixed(feature_map).fit(X, y, weights if weighted else None)
    own = clone(feature_map).set_params(length_scale=0.5, variance=1.5).fit(X)
    Phi, Phi_test = own.transform(X), own.transform(X_test)
    K = Phi @ Phi.T + 0.05 * np.diag(1 / weights)
    offset = np.average(y, weights=weights)
    mean = Phi_test @ Phi.T @ np.linalg.solve(K, y - offset) + offset
    cov = Phi_test @ Phi_test.T - Phi_test @ Phi.T @ np.linalg.solve(K, Phi @ Phi_test.T)

    assert_allclose(gp.predict(X_test), mean, atol=1e-8)
    found, std = gp.predict(X_test, return_std=True)
    assert_allclose(found, mean, atol=1e-8)
    assert_allclose(std, np.sqrt(np.maximum(np.diag(cov), 0)), atol=1e-8)
    assert_allclose(gp.predict(X_test, return_cov=True)[1], cov, atol=1e-8)
    assert_allclose(gp.log_marginal_likelihood(), multivariate_normal.logpdf(y - offset, cov=K), atol=1e-8)


def test_below_and_above_as_many_features_as_samples():
    # what the cases above are there for
    assert [len(m.fit_transform(problem()[0]).T) < 60 for m in MAPS.values()].count(True) == 3


def test_tends_to_the_exact_gp_with_the_degree():
    X, y, X_test = problem()
    X_test = X_test / 1.5
    exact = nf.ExactGPRegressor(**FIXED).fit(X, y).predict(X_test, return_std=True)
    errors = [np.abs(np.subtract(fixed(taylor(p)).fit(X, y).predict(X_test, return_std=True), exact)).max()
              for p in (2, 6, 14)]  # fmt: skip
    assert errors[0] > errors[1] > errors[2]
    assert errors[2] < 1e-6


def test_equals_the_exact_gp_on_kin8nm(kin8nm):
    X, y = kin8nm[0][:400], kin8nm[1][:400]
    options = {"length_scale": 2.15, "signal_variance": 0.0695, "noise_variance": 0.1353, "random_state": 0}
    for D in (64, 600):
        gp = nf.FeatureGPRegressor(nf.MaclaurinFeatures(D, random_state=0), **options).fit(X[:300], y[:300])
        Phi = gp.feature_map_.transform(X)
        K = Phi @ Phi.T
        solved = np.linalg.solve(K[:300, :300] + 0.1353 * np.eye(300), y[:300] - y[:300].mean())
        assert_allclose(gp.predict(X[300:]), K[300:, :300] @ solved + y[:300].mean(), atol=1e-8)


def test_several_scales_put_maps_side_by_side():
    X, y, X_test = problem()
    options = {"length_scale": [0.3, 2.0], "signal_variance": [0.5, 1.0], "noise_variance": 0.05, "n_scales": 2}
    gp = nf.FeatureGPRegressor(taylor(16), **options, random_state=0).fit(X, y)
    exact = nf.ExactGPRegressor(**options).fit(X, y)
    inside = X_test / 1.5
    assert_allclose(gp.predict(inside, return_std=True), exact.predict(inside, return_std=True), atol=1e-4)
    assert len(gp.feature_map_) == 2


# ---- sums add --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [None, 2])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("feature_map", [taylor(), nf.FourierFeatures(80, random_state=0)], ids=["taylor", "fourier"])
def test_partial_fit_in_chunks_is_one_fit(feature_map, weighted, k):
    X, y, X_test = problem(90, k=k)
    weights = np.linspace(0, 3, 90) if weighted else None
    whole = fixed(feature_map).fit(X, y, weights)
    parts = fixed(feature_map)
    for chunk in np.split(np.arange(90), [40, 41, 70]):
        parts.partial_fit(X[chunk], y[chunk], None if weights is None else weights[chunk])
    assert parts.statistics_.n == whole.statistics_.n
    assert_allclose(parts.y_mean_, whole.y_mean_)
    assert_allclose(parts.predict(X_test, return_std=True), whole.predict(X_test, return_std=True), atol=1e-8)
    assert_allclose(parts.log_marginal_likelihood(), whole.log_marginal_likelihood(), rtol=1e-9)


def test_partial_fit_keeps_hyperparameters_and_map():
    X, y, _ = problem(80)
    gp = nf.FeatureGPRegressor(nf.FourierFeatures(64, random_state=0), random_state=0).partial_fit(X[:50], y[:50])
    learnt, drawn = gp.length_scale_, gp.feature_map_
    gp.partial_fit(X[50:], y[50:])
    assert gp.length_scale_ == learnt
    assert gp.feature_map_ is drawn
    assert gp.statistics_.n == 80
    assert gp.score(X, y) > 0.5


def test_partial_fit_with_wrong_shapes_or_weights_leaves_the_model_as_it_was():
    X, y, X_test = problem()
    gp = fixed(taylor()).fit(X, y)
    before = gp.predict(X_test)
    with pytest.raises(ValueError, match=r"at least (one non-zero|1 sample)"):
        gp.partial_fit(X[:3], y[:3], np.zeros(3))
    with pytest.raises(ValueError, match="1 targets as in fit"):
        gp.partial_fit(X, np.column_stack([y, y]))
    with pytest.raises(ValueError, match="2 features"):
        gp.partial_fit(X[:, :1], y)
    assert np.array_equal(gp.predict(X_test), before)


def test_a_large_mean_costs_no_digits():
    X, y, X_test = problem(90)
    plain, shifted = fixed(taylor()).fit(X, y), fixed(taylor()).fit(X, y + 1e9)
    assert_allclose(shifted.predict(X_test) - 1e9, plain.predict(X_test), atol=1e-5)
    assert_allclose(shifted.log_marginal_likelihood(), plain.log_marginal_likelihood(), rtol=1e-6)
    streamed = fixed(taylor())
    for chunk in np.split(np.arange(90), 3):
        streamed.partial_fit(X[chunk], y[chunk] + 1e9)
    assert_allclose(streamed.log_marginal_likelihood(), plain.log_marginal_likelihood(), rtol=1e-6)


# ---- answers ---------------------------------------------------------------------------------------------------------


def test_observations_have_the_noise_added():
    X, y, X_test = problem()
    gp = fixed(taylor()).fit(X, y)
    latent, observed = (gp.predict(X_test, return_std=True, include_noise=flag)[1] for flag in (False, True))
    assert_allclose(observed**2, latent**2 + 0.05)
    latent, observed = (gp.predict(X_test, return_cov=True, include_noise=flag)[1] for flag in (False, True))
    assert_allclose(observed, latent + 0.05 * np.eye(len(X_test)))


def test_several_targets_are_the_single_ones_side_by_side():
    X, y, X_test = problem(k=3)
    together = fixed(taylor()).fit(X, y)
    mean, std = together.predict(X_test, return_std=True)
    assert together.predict(X_test, return_cov=True)[1].shape == (25, 25, 3)
    for t in range(3):
        alone = fixed(taylor()).fit(X, y[:, t])
        assert_allclose((mean[:, t], std[:, t]), alone.predict(X_test, return_std=True), atol=1e-9)
    assert together.sample_y(X_test, 4).shape == (25, 3, 4)


@far_points
@few_features
@settings(max_examples=20)
@given(st.floats(-6, 1), st.floats(-1, 2), st.sampled_from(list(MAPS.values())))
def test_variances_are_never_negative(log_noise, log_length, feature_map):
    X, y, X_test = problem(40)
    gp = fixed(feature_map, noise_variance=10**log_noise, length_scale=10**log_length).fit(X, y)
    for points in (X, X_test, X_test * 1e3):
        mean, std = gp.predict(points, return_std=True)
        assert np.all(np.isfinite(mean))
        assert np.all(std >= 0)
        assert np.all(np.diagonal(gp.predict(points, return_cov=True)[1]) >= 0)


@far_points
@few_features
def test_far_from_the_data_many_fourier_features_return_to_the_prior():
    X, y, _ = problem(20)
    gp = fixed(nf.FourierFeatures(1500, random_state=0)).fit(X, y)
    _, std = gp.predict(np.array([[30.0, 40.0], [-100.0, 7.0]]), return_std=True)
    assert_allclose(std, np.sqrt(1.5), rtol=0.05)


def test_intervals_cover_what_they_promise():
    covered = []
    for seed in range(4):
        rng = np.random.RandomState(seed)
        X = rng.rand(1000, 2)
        # data from the model itself, the prior of the features
        drawn = nf.FourierFeatures(200, length_scale=0.15, random_state=seed).fit(X)
        y = drawn.transform(X) @ rng.randn(200) + 0.3 * rng.randn(1000)
        gp = nf.FeatureGPRegressor(
            nf.FourierFeatures(200, random_state=seed),
            length_scale=0.15,
            signal_variance=1.0,
            noise_variance=0.09,
            random_state=0,
        ).fit(X[:400], y[:400])
        mean, std = gp.predict(X[400:], return_std=True, include_noise=True)
        covered.append(metrics.coverage(y[400:], mean, std=std))
    assert 0.93 < np.mean(covered) < 0.97


def test_weights_are_precisions():
    X, y, X_test = problem()
    twice = fixed(taylor()).fit(np.repeat(X, 2, axis=0), np.repeat(y, 2)).predict(X_test, return_std=True)
    weighted = fixed(taylor()).fit(X, y, np.full(len(X), 2.0)).predict(X_test, return_std=True)
    assert_allclose(weighted, twice, atol=1e-8)


# ---- cost ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("working_memory", [1e-3, 1, 1024])
def test_chunks_do_not_change_the_answer(working_memory):
    X, y, _ = problem(200)
    X_test = np.random.RandomState(1).rand(500, 2)
    expected = fixed(taylor()).fit(X, y).predict(X_test, return_std=True)
    with sklearn.config_context(working_memory=working_memory):
        gp = fixed(taylor()).fit(X, y)
        assert_allclose(gp.predict(X_test, return_std=True), expected, rtol=1e-8)
        assert_allclose(gp.predict(X_test), expected[0], rtol=1e-8)


def test_features_are_made_in_chunks(monkeypatch):
    X, y, _ = problem()
    gp = fixed(taylor()).fit(X, y)
    sizes = []
    original = FeatureSpace.mean
    monkeypatch.setattr(FeatureSpace, "mean", lambda self, rows: sizes.append(rows.nbytes) or original(self, rows))
    with sklearn.config_context(working_memory=0.1):
        gp.predict(np.zeros((5000, 2)))
    assert len(sizes) > 1
    assert max(sizes) <= 0.1 * 2**20


def test_the_mean_alone_computes_no_variance(monkeypatch):
    X, y, X_test = problem()
    gp = fixed(taylor()).fit(X, y)
    expected = gp.predict(X_test, return_std=True)[0]

    def forbidden(*_):
        raise AssertionError("a variance was computed")

    for name in ("mean_and_variance", "covariance"):
        monkeypatch.setattr(FeatureSpace, name, forbidden)
    monkeypatch.setattr(Cholesky, "whiten", forbidden)
    assert_allclose(gp.predict(X_test), expected)


def test_models_that_do_not_fit_are_refused(monkeypatch):
    X, y, X_test = problem()
    gp = fixed(nf.FourierFeatures(500, random_state=0)).fit(X, y)
    monkeypatch.setattr(memory, "available", lambda: 2**20)
    with pytest.raises(MemoryError, match=r"500 features needs .* MiB.*Fewer features"):
        fixed(nf.FourierFeatures(500, random_state=0)).fit(X, y)
    monkeypatch.setattr(memory, "available", lambda: 1000)
    with pytest.raises(MemoryError, match="covariance matrix of 25 points"):
        gp.predict(X_test, return_cov=True)


# ---- learning --------------------------------------------------------------------------------------------------------


def test_by_default_hyperparameters_are_those_of_the_exact_gp():
    X, y, _ = problem(200)
    exact = nf.ExactGPRegressor(random_state=0).fit(X, y)
    gp = nf.FeatureGPRegressor(taylor(10), random_state=0).fit(X, y)
    assert_allclose(gp.length_scale_, exact.length_scale_, rtol=1e-6)
    assert_allclose(gp.noise_variance_, exact.noise_variance_, rtol=1e-6)
    assert_allclose(gp.feature_map_.length_scale, gp.length_scale_)


@far_points
@few_features
@pytest.mark.parametrize("ard", [False, True])
@pytest.mark.parametrize(
    "feature_map",
    [taylor(3), nf.FourierFeatures(24, random_state=0), nf.FourierFeatures(24, sampling="orthogonal", random_state=0)],
    ids=["taylor", "fourier", "orthogonal"],
)
def test_learning_by_the_likelihood_of_the_features_improves_it(feature_map, ard):
    X, y, X_test = problem(200)
    by_kernel = nf.FeatureGPRegressor(feature_map, random_state=0, ard=ard).fit(X, y)
    by_features = nf.FeatureGPRegressor(feature_map, random_state=0, ard=ard, likelihood="features").fit(X, y)
    assert by_features.log_marginal_likelihood() > by_kernel.log_marginal_likelihood() + 0.1
    # and it is a maximum of what the fitted model itself reports
    top = by_features.log_marginal_likelihood()
    found = {
        "length_scale": by_features.length_scale_,
        "signal_variance": by_features.signal_variance_,
        "noise_variance": by_features.noise_variance_,
    }
    for name in found:
        for factor in (0.9, 1.1):
            moved = {**found, name: found[name] * factor}
            refitted = nf.FeatureGPRegressor(feature_map, **moved, random_state=0).fit(X, y)
            assert refitted.log_marginal_likelihood() < top + 1e-3
    refitted = nf.FeatureGPRegressor(feature_map, **found, random_state=0).fit(X, y)
    assert_allclose(refitted.predict(X_test), by_features.predict(X_test), atol=1e-6)


def test_what_is_fixed_stays_fixed_with_the_likelihood_of_the_features():
    X, y, _ = problem(100)
    options = {"likelihood": "features"}
    gp = nf.FeatureGPRegressor(taylor(4), noise_variance=0.07, random_state=0, **options).fit(X, y)
    assert_allclose(gp.noise_variance_, 0.07)
    gp = nf.FeatureGPRegressor(taylor(4), **FIXED, **options).fit(X, y)
    assert_allclose([gp.length_scale_, gp.signal_variance_, gp.noise_variance_], [0.5, 1.5, 0.05])


def test_learning_reports_and_warns():
    X, y, _ = problem(100)
    calls = []
    options = {"likelihood": "features", "random_state": 0}
    nf.FeatureGPRegressor(taylor(4), progress=lambda *call: calls.append(call), **options).fit(X, y)
    assert {"learning: refine", "learning: features"} <= {stage for stage, _, _ in calls}
    with pytest.warns(ConvergenceWarning, match="time_budget") as record:
        nf.FeatureGPRegressor(taylor(4), time_budget=1e-9, **options).fit(X, y)
    assert {str(w.filename) for w in record} == {__file__}


@pytest.mark.parametrize(
    "feature_map",
    [
        Nystroem(n_components=30, gamma=3.0, random_state=0),
        PolynomialFeatures(3),
        make_pipeline(StandardScaler(), PolynomialFeatures(2)),
    ],
    ids=["nystroem", "polynomials", "pipeline"],
)
def test_other_transformers_are_taken_as_they_are(feature_map):
    X, y, X_test = problem(150)
    gp = nf.FeatureGPRegressor(feature_map).fit(X, y)
    Phi, Phi_test = (clone(feature_map).fit(X).transform(points) for points in (X, X_test))
    K = gp.signal_variance_ * Phi @ Phi.T + gp.noise_variance_ * np.eye(150)
    expected = gp.signal_variance_ * Phi_test @ Phi.T @ np.linalg.solve(K, y - y.mean()) + y.mean()
    assert_allclose(gp.predict(X_test), expected, atol=1e-6)
    assert_allclose(gp.log_marginal_likelihood(), multivariate_normal.logpdf(y - y.mean(), cov=K), rtol=1e-8)
    assert gp.length_scale_ is None
    assert gp.score(X, y) > 0.5
    for factor in (0.5, 2.0):
        moved = {"signal_variance": gp.signal_variance_ * factor, "noise_variance": gp.noise_variance_}
        other = nf.FeatureGPRegressor(feature_map, **moved).fit(X, y)
        assert other.signal_variance_ == pytest.approx(moved["signal_variance"])
        assert other.log_marginal_likelihood() < gp.log_marginal_likelihood()


def test_sparse_features_are_welcome():
    rng = np.random.RandomState(0)
    X = rng.randint(0, 5, (200, 1))
    y = np.arange(5.0)[X[:, 0]] + 0.1 * rng.randn(200)
    gp = nf.FeatureGPRegressor(OneHotEncoder()).fit(X, y)
    assert_allclose(gp.predict(np.arange(5)[:, None]), np.arange(5), atol=0.1)


def test_other_transformers_have_no_length_scale():
    X, y, _ = problem()
    with pytest.raises(ValueError, match=r"'length_scale' .* has no meaning for Nystroem"):
        nf.FeatureGPRegressor(Nystroem(n_components=10), length_scale=1.0).fit(X, y)
    with pytest.raises(ValueError, match=r"'ard' .* must be 'auto' or False for Nystroem"):
        nf.FeatureGPRegressor(Nystroem(n_components=10), ard=True).fit(X, y)
    for options in ({"n_scales": 2}, {"n_scales": "auto"}, {"n_scales": 3, "signal_variance": [1.0, 2.0, 3.0]}):
        with pytest.raises(ValueError, match=r"'n_scales' .* must be 1 for Nystroem"):
            nf.FeatureGPRegressor(Nystroem(n_components=10), **options).fit(X, y)


class Waves(TransformerMixin, BaseEstimator):
    """A transformer of someone else's, which knows nothing of ours but the names of two parameters."""

    def __init__(self, length_scale=1.0, variance=1.0):
        self.length_scale, self.variance = length_scale, variance

    def fit(self, X, y=None):  # noqa: ARG002
        self.frequencies_ = np.random.RandomState(0).randn(X.shape[1], 60)
        return self

    def transform(self, X):
        phases = np.asarray(X) / self.length_scale @ self.frequencies_
        return np.sqrt(self.variance / 60) * np.concatenate([np.cos(phases), np.sin(phases)], axis=1)


def test_other_transformers_with_our_parameters_get_them():
    X, y, X_test = problem()
    gp = nf.FeatureGPRegressor(Waves(), **FIXED).fit(X, y)
    Phi, Phi_test = (Waves(FIXED["length_scale"], FIXED["signal_variance"]).fit(X).transform(Z) for Z in (X, X_test))
    K = Phi @ Phi.T + FIXED["noise_variance"] * np.eye(len(X))
    assert_allclose(gp.predict(X_test), Phi_test @ Phi.T @ np.linalg.solve(K, y - y.mean()) + y.mean(), atol=1e-8)
    two = nf.FeatureGPRegressor(
        Waves(), length_scale=[0.5, 2.0], signal_variance=[1, 1], noise_variance=0.05, n_scales=2, random_state=0
    )
    assert two.fit(X, y).predict(X_test).shape == (len(X_test),)


@pytest.mark.parametrize("feature_map", [None, "fourier", nf.FourierFeatures, object()])
def test_what_is_no_transformer_is_refused(feature_map):
    X, y, _ = problem()
    with pytest.raises(ValueError, match="'feature_map' parameter of FeatureGPRegressor must be a transformer, such"):
        nf.FeatureGPRegressor(feature_map).fit(X, y)


def test_random_state_makes_fits_repeatable_and_leaves_the_global_one_alone():
    X, y, X_test = problem()
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    first, second = (
        nf.FeatureGPRegressor(nf.FourierFeatures(32, random_state=1), random_state=3).fit(X, y) for _ in range(2)
    )
    assert np.array_equal(first.predict(X_test), second.predict(X_test))
    assert np.array_equal(np.random.get_state()[1], before)  # noqa: NPY002


def test_inputs_and_the_map_given_are_not_modified():
    X, y, X_test = problem()
    weights = np.linspace(0, 1, len(X))
    arrays = X, y, X_test, weights
    before = [a.copy() for a in arrays]
    feature_map = taylor()
    nf.FeatureGPRegressor(feature_map, random_state=0, likelihood="features").fit(X, y, weights).predict(
        X_test, return_cov=True, include_noise=True
    )
    for array, kept in zip(arrays, before, strict=True):
        assert np.array_equal(array, kept)
    assert not hasattr(feature_map, "map_")
    assert feature_map.length_scale == 1.0


# ---- scikit-learn ----------------------------------------------------------------------------------------------------


@few_features
@far_points
def test_pipeline_search_clone_and_pickle():
    X, y, X_test = problem()
    pipeline = make_pipeline(StandardScaler(), fixed(nf.TaylorFeatures(8), length_scale=2.0)).fit(X, y)
    assert pipeline.score(X, y) > 0.5
    search = GridSearchCV(
        fixed(nf.TaylorFeatures()), {"length_scale": [0.01, 0.5], "feature_map__degree": [1, 8]}, cv=3
    ).fit(X, y)
    assert search.best_params_ == {"length_scale": 0.5, "feature_map__degree": 8}
    gp = fixed(nf.FourierFeatures(64, random_state=0)).fit(X, y)
    assert not hasattr(clone(gp), "statistics_")
    restored = pickle.loads(pickle.dumps(gp))
    assert np.array_equal(restored.predict(X_test, return_std=True), gp.predict(X_test, return_std=True))
    restored.partial_fit(X[:5], y[:5])
    assert restored.statistics_.n == gp.statistics_.n + 5


def test_no_points_to_predict():
    X, y, _ = problem()
    mean, std = fixed(taylor()).fit(X, y).predict(np.empty((0, 2)), return_std=True)
    assert mean.shape == std.shape == (0,)


# ---- bad input -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"noise_variance": 0}, "'noise_variance' .* must be positive.*ExactGPRegressor"),
        ({"noise_variance": -1}, "'noise_variance' parameter of FeatureGPRegressor"),
        ({"length_scale": "short"}, "'length_scale' parameter of FeatureGPRegressor"),
        ({"signal_variance": np.nan}, "'signal_variance' parameter of FeatureGPRegressor"),
        ({"likelihood": "exact"}, "'likelihood' .* 'kernel', 'features'"),
        ({"likelihood": "features", "n_scales": 2}, "n_scales is not 1"),
        ({"likelihood": "features", "feature_map": nf.MaclaurinFeatures(16)}, "'likelihood' .* must be 'kernel'"),
        (
            {"likelihood": "features", "feature_map": nf.FourierFeatures(16, sampling="structured")},
            "'likelihood' .* must be 'kernel'",
        ),
        ({"feature_map": nf.TaylorFeatures(degree=-1)}, "'degree' parameter of TaylorFeatures"),
    ],
)
def test_bad_parameters_are_named(options, message):
    X, y, _ = problem()
    with pytest.raises(ValueError, match=message):
        nf.FeatureGPRegressor(**{"feature_map": taylor(), "random_state": 0, **options}).fit(X, y)


def test_a_noise_of_zero_is_refused_for_other_transformers_too():
    X, y, _ = problem()
    with pytest.raises(ValueError, match="must be positive"):
        nf.FeatureGPRegressor(PolynomialFeatures(2), noise_variance=0).fit(X, y)


def test_bad_data():
    X, y, X_test = problem()
    gp = fixed(taylor())
    with pytest.raises(ValueError, match=r"1 sample.*minimum of 2"):
        clone(gp).set_params(length_scale=None).fit(X[:1], y[:1])
    assert np.all(clone(gp).fit(X[:1], y[:1]).predict(X_test) == y[0])  # enough where nothing is learnt
    with pytest.raises(ValueError, match="NaN"):
        gp.fit(np.where(X > 0.9, np.nan, X), y)
    with pytest.raises(NotFittedError):
        gp.predict(X_test)
    with pytest.raises(ValueError, match="At most one"):
        gp.fit(X, y).predict(X_test, return_std=True, return_cov=True)


@pytest.mark.parametrize("feature_map", [taylor(), PolynomialFeatures(2)], ids=["taylor", "polynomials"])
@pytest.mark.parametrize("value", [0.0, 0.1, -1e9])
def test_constant_targets(value, feature_map):
    X, _, X_test = problem(43)
    gp = nf.FeatureGPRegressor(feature_map, random_state=0).fit(X, np.full(43, value))
    mean, std = gp.predict(X_test, return_std=True)
    assert_allclose(mean, value, rtol=1e-12, atol=1e-12)
    assert np.all(np.isfinite(std))


@unlike_columns
@pytest.mark.parametrize("ard", [False, True])
def test_one_constant_column_and_columns_of_very_different_scales(ard):
    rng = np.random.RandomState(0)
    Z = rng.rand(300, 3)
    Z[:, 2] = 0.5
    y = np.sin(5 * Z[:, 0]) + np.cos(4 * Z[:, 1]) + 0.1 * rng.randn(300)
    X = Z * np.array([1e-3, 1e6, 1.0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        gp = nf.FeatureGPRegressor(nf.TaylorFeatures(8), ard=ard, random_state=0).fit(X[:200], y[:200])
    mean, std = gp.predict(X[200:], return_std=True)
    assert np.all(np.isfinite([*mean, *std]))
    assert gp.score(X[200:], y[200:]) > (0.95 if ard else 0.2)


@few_features
def test_duplicated_samples():
    X, y, X_test = problem()
    gp = fixed(taylor(), noise_variance=1e-6).fit(np.repeat(X, 5, axis=0), np.repeat(y, 5))
    assert np.all(np.isfinite(gp.predict(X_test, return_std=True)))


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
def test_copies_and_pickles_are_the_whole_model_and_keep_its_rows(again):
    X, y, _ = problem()
    model = fixed(taylor(), noise="local", mean=LinearRegression()).fit(X, y)
    other = again(model)
    np.testing.assert_array_equal(other.loo_.mean, model.loo_.mean)
    np.testing.assert_array_equal(other.loo_.std, model.loo_.std)
    np.testing.assert_array_equal(other.cross_validate(3).mean, model.cross_validate(3).mean)


def test_a_model_file_does_not_hold_the_training_data(tmp_path):
    rng = np.random.default_rng(0)
    X, y = rng.uniform(size=(5000, 2)), rng.standard_normal(5000)
    given = {"length_scale": 1.0, "signal_variance": 1.0, "noise_variance": 0.1, "coordinates": [1], "random_state": 0}
    model = nf.FeatureGPRegressor(nf.FourierFeatures(20, random_state=0), **given).fit(X, y)
    nf.save(model, tmp_path / "model.nf")
    assert (tmp_path / "model.nf").stat().st_size < X.nbytes
    loaded = nf.load(tmp_path / "model.nf")
    assert hasattr(model, "loo_")
    assert not hasattr(loaded, "loo_")
    with pytest.raises(ValueError, match="keeps no training rows"):
        loaded.cross_validate()


@few_features
@few_features
@pytest.mark.parametrize("coordinates", [[2], [1, 2, 0]])
def test_coordinates_are_columns_of_the_training_rows_too(coordinates):
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 5, (400, 3))
    y = np.sin(X[:, 2]) + (0.05 + 0.8 * (X[:, 2] > 2.5)) * rng.standard_normal(400)
    options = {"noise": "local", "length_scale": 1.5, "random_state": 0}
    model = fixed(MAPS["fourier, few"], coordinates=coordinates, **options).fit(X, y)
    by_hand = fixed(MAPS["fourier, few"], **options).fit(X[:, coordinates], y)
    assert model.noise_model_.field is not None
    for ours, theirs in ((model.loo_, by_hand.loo_), (model.cross_validate(3), by_hand.cross_validate(3))):
        assert_allclose(ours.mean, theirs.mean)
        assert_allclose(ours.std, theirs.std)


def test_rounds_of_a_mean_model_know_the_coordinates():
    X, y, T = problem()
    options = {"mean": LinearRegression(), "mean_rounds": 2}
    model = fixed(nf.TaylorFeatures(12, center=[0.5]), coordinates=[1], **options).fit(X, y)
    exact = nf.ExactGPRegressor(**FIXED, coordinates=[1], **options).fit(X, y)
    inside = np.all(T < 1, axis=1)
    assert_allclose(model.predict(T[inside]), exact.predict(T[inside]), atol=1e-4)
