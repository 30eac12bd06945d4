"""A drift with unknown coefficients: generalised least squares, universal kriging, restricted likelihood."""

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.base import clone
from sklearn.preprocessing import SplineTransformer

import nearfield as nf

from ..warned import far_points, few_features

pytestmark = pytest.mark.usefixtures("few_probes_in_module")
GIVEN = {"length_scale": 1.3, "signal_variance": 0.8, "noise_variance": 0.05}
RNG = np.random.default_rng(0)
N, M = 120, 30
X = np.column_stack([RNG.uniform(0, 6, (N, 2)), RNG.uniform(50, 200, N), RNG.normal(10, 3, N)])
WEIGHTS = RNG.uniform(0.5, 2.0, N)
Y = 3 + 0.02 * X[:, 2] - 0.1 * X[:, 3] + np.sin(X[:, 0]) * np.cos(X[:, 1]) + 0.2 * RNG.standard_normal(N)
PLACES = np.column_stack([RNG.uniform(-2, 8, (M, 2)), RNG.uniform(20, 250, M), RNG.normal(10, 5, M)])
ROLES = {"coordinates": [0, 1], "drift": [2, 3]}


def kernel(A, B, length_scale=1.3, variance=0.8):
    return variance * np.exp(-0.5 * np.sum((A[:, None] - B[None]) ** 2, axis=2) / length_scale**2)


class Dense:
    """Generalised least squares and universal kriging with an intercept, written out."""

    def __init__(self, X, y, weights=None, n_coordinates=2):
        self.noise = 0.05 / (np.ones(len(X)) if weights is None else weights)
        self.places, self.y = X[:, :n_coordinates], y
        self.F = self.columns(X)
        self.C = kernel(self.places, self.places) + np.diag(self.noise)
        self.inverse = np.linalg.inv(self.C)
        self.A = self.F.T @ self.inverse @ self.F
        self.covariance = np.linalg.inv(self.A)
        self.beta = self.covariance @ self.F.T @ self.inverse @ y

    def columns(self, X):
        return np.column_stack([np.ones(len(X)), X[:, 2:]])

    def predict(self, X):
        c = kernel(self.places, X[:, :2])
        F = self.columns(X)
        h = F - c.T @ self.inverse @ self.F
        process = c.T @ self.inverse @ (self.y - self.F @ self.beta)
        covariance = kernel(X[:, :2], X[:, :2]) - c.T @ self.inverse @ c
        drift = np.sqrt(np.einsum("ij,jk,ik->i", F, self.covariance, F))
        alone = F - h
        spread = np.sqrt(np.diag(covariance) + np.einsum("ij,jk,ik->i", alone, self.covariance, alone))
        total = covariance + h @ self.covariance @ h.T
        return F @ self.beta + process, total, (F @ self.beta, drift), (process, spread)

    def restricted_likelihood(self):
        r, (n, p) = self.y - self.F @ self.beta, self.F.shape
        logs = np.linalg.slogdet(self.C)[1] + np.linalg.slogdet(self.A)[1]
        return -0.5 * ((n - p) * np.log(2 * np.pi) + logs + r @ self.inverse @ r)


@pytest.fixture(scope="module", params=[None, WEIGHTS], ids=["plain", "weighted"])
def both(request):
    return nf.ExactGPRegressor(**GIVEN, **ROLES).fit(X, Y, request.param), Dense(X, Y, request.param)


def test_coefficients_are_those_of_generalised_least_squares(both):
    model, dense = both
    coef = model.drift_coef_
    assert coef.names == ("intercept", "x2", "x3")
    np.testing.assert_allclose(coef.values, dense.beta, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(coef.std_errors, np.sqrt(np.diag(dense.covariance)), rtol=1e-8)
    np.testing.assert_allclose(coef.covariance, dense.covariance, rtol=1e-7, atol=1e-12)
    assert coef["x2"].std_error == coef.std_errors[1]
    lower, upper = coef.interval(0.95)
    np.testing.assert_allclose(upper - lower, 2 * norm.ppf(0.975) * coef.std_errors)


def test_predictions_are_those_of_universal_kriging(both):
    model, dense = both
    mean, covariance, drift, process = dense.predict(PLACES)
    answer, std = model.predict(PLACES, return_std=True)
    np.testing.assert_allclose(answer, mean, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(std, np.sqrt(np.diag(covariance)), rtol=1e-8)
    np.testing.assert_allclose(model.predict(PLACES, return_cov=True)[1], covariance, rtol=1e-7, atol=1e-8)
    parts = model.predict_parts(PLACES)
    for part, (means, stds) in ((parts.drift, drift), (parts.process, process)):
        np.testing.assert_allclose(part.mean, means, rtol=1e-8, atol=1e-8)
        np.testing.assert_allclose(part.std, stds, rtol=1e-8)
    np.testing.assert_allclose(parts.total.mean, answer)
    np.testing.assert_allclose(parts.total.std, std)
    np.testing.assert_allclose(parts.drift.mean + parts.process.mean, answer)


def test_likelihood_is_the_restricted_one(both):
    model, dense = both
    assert model.log_marginal_likelihood() == pytest.approx(dense.restricted_likelihood(), abs=1e-8)


def test_left_out_predictions_are_those_of_fits_without_the_sample(both):
    model, dense = both
    weights = 0.05 / dense.noise

    def without(rows):
        return Dense(X[~rows], Y[~rows], weights[~rows]).predict(X[rows])

    for i in (0, 17):
        mean, covariance, *_ = without(np.arange(N) == i)
        assert model.loo_.mean[i] == pytest.approx(mean[0], abs=1e-8)
        assert model.loo_.std[i] ** 2 == pytest.approx(covariance[0, 0] + dense.noise[i], abs=1e-8)
    blocks = np.arange(N) % 3
    mean, covariance, *_ = without(blocks == 1)
    np.testing.assert_allclose(model.cross_validate(blocks).mean[blocks == 1], mean, atol=1e-8)


@few_features
@pytest.mark.parametrize("kind", ["exact", "local", "feature"])
def test_blocks_that_have_a_category_alone_are_refused_by_name(kind):
    """Without them nothing tells its effect, so that any prediction of it would be made up."""
    make = {
        "exact": nf.ExactGPRegressor,
        "local": nf.LocalGPRegressor,
        "feature": lambda **given: nf.FeatureGPRegressor(nf.FourierFeatures(100, random_state=0), **given),
    }[kind]
    pd = pytest.importorskip("pandas")
    zone = np.array(["barn", "flat", "house"])[np.arange(N) % 3]
    table = pd.DataFrame({"east": X[:, 0], "north": X[:, 1], "zone": zone})
    model = make(coordinates=["east", "north"], drift=["zone"], random_state=0, **GIVEN).fit(table, Y)
    with pytest.raises(
        ValueError, match=r"has the block 'flat', without which .* the effect of drift column 'zone=flat'"
    ):
        model.cross_validate(np.where(zone == "flat", "flat", "other"))
    assert np.isfinite(model.cross_validate(np.arange(N) % 4).nll)


def test_quadratic_drift_in_coordinates_far_from_zero():
    far = X[:, :2] + [5e5, 4e6]
    model = nf.ExactGPRegressor(**GIVEN, drift="quadratic").fit(far, Y)
    here = nf.ExactGPRegressor(**GIVEN, drift="quadratic").fit(X[:, :2], Y)
    answers, expected = model.predict(far[:9] + 3, return_std=True), here.predict(X[:9, :2] + 3, return_std=True)
    np.testing.assert_allclose(answers, expected, rtol=1e-5)  # such coordinates have so few digits left
    assert here.drift_coef_.names == ("intercept", "x0", "x1", "x0^2", "x0 x1", "x1^2")
    a, b = X[:, 0], X[:, 1]
    F = np.column_stack([np.ones(N), a, b, a * a, a * b, b * b])
    inverse = np.linalg.inv(kernel(X[:, :2], X[:, :2]) + 0.05 * np.eye(N))
    covariance = np.linalg.inv(F.T @ inverse @ F)
    np.testing.assert_allclose(here.drift_coef_.values, covariance @ F.T @ inverse @ Y, rtol=1e-7)
    np.testing.assert_allclose(here.drift_coef_.std_errors, np.sqrt(np.diag(covariance)), rtol=1e-7)
    assert model.drift_coef_["x0^2"].value == pytest.approx(here.drift_coef_["x0^2"].value, rel=1e-4)


@far_points
def test_a_constant_mean_is_what_it_was():
    plain = nf.ExactGPRegressor(**GIVEN).fit(X, Y)
    C = kernel(X, X) + 0.05 * np.eye(N)
    expected = Y.mean() + kernel(PLACES, X) @ np.linalg.solve(C, Y - Y.mean())
    np.testing.assert_allclose(plain.predict(PLACES), expected)
    assert plain.y_mean_ == pytest.approx(Y.mean())
    zero = nf.ExactGPRegressor(**GIVEN, drift=None).fit(X, Y)
    np.testing.assert_allclose(zero.predict(PLACES), kernel(PLACES, X) @ np.linalg.solve(C, Y), atol=1e-100)
    assert not hasattr(plain, "drift_coef_")
    parts = plain.predict_parts(PLACES)
    np.testing.assert_allclose(parts.drift.mean, Y.mean())
    np.testing.assert_allclose(parts.drift.mean + parts.process.mean, plain.predict(PLACES))


def test_no_columns_are_ordinary_kriging():
    model = nf.ExactGPRegressor(**GIVEN, drift=[]).fit(X[:, :2], Y)
    inverse = np.linalg.inv(kernel(X[:, :2], X[:, :2]) + 0.05 * np.eye(N))
    assert model.drift_coef_["intercept"].value == pytest.approx(inverse.sum(axis=0) @ Y / inverse.sum())
    assert model.drift_coef_["intercept"].std_error == pytest.approx(inverse.sum() ** -0.5)


def test_learning_maximises_the_restricted_likelihood():
    model = nf.ExactGPRegressor(**ROLES, random_state=0).fit(X, Y)
    best = model.log_marginal_likelihood()
    learnt = {name: getattr(model, f"{name}_") for name in GIVEN}
    for name in GIVEN:
        for factor in (0.9, 1.1):
            other = nf.ExactGPRegressor(**ROLES, **{**learnt, name: learnt[name] * factor}).fit(X, Y)
            assert other.log_marginal_likelihood() < best


def test_several_targets_are_each_as_if_alone():
    two = nf.ExactGPRegressor(**GIVEN, **ROLES).fit(X, np.column_stack([Y, Y**2]))
    alone = nf.ExactGPRegressor(**GIVEN, **ROLES).fit(X, Y**2)
    np.testing.assert_allclose(two.predict(PLACES)[:, 1], alone.predict(PLACES))
    np.testing.assert_allclose(two.drift_coef_.values[:, 1], alone.drift_coef_.values)
    assert len(two.drift_coef_.rows()) == 6
    assert two.predict_parts(PLACES).drift.mean.shape == (M, 2)


def test_without_noise_the_model_passes_through_the_data():
    model = nf.ExactGPRegressor(length_scale=0.5, signal_variance=1.0, noise_variance=0, **ROLES).fit(X, Y)
    mean, std = model.predict(X, return_std=True)
    np.testing.assert_allclose(mean, Y, atol=1e-6)
    assert std.max() < 1e-3


def test_outside_of_the_data_a_trend_goes_on_and_its_uncertainty_grows():
    x = np.linspace(0, 10, 60)[:, None]
    y = 2 * x[:, 0] + np.sin(3 * x[:, 0])
    far = np.array([[20.0], [40.0], [80.0]])
    given = {"length_scale": 0.5, "signal_variance": 1.0, "noise_variance": 0.01}
    sloping, level = (nf.ExactGPRegressor(**given, drift=drift).fit(x, y) for drift in ("linear", "constant"))
    with pytest.warns(UserWarning, match="the drift alone answers there"):
        mean, std = sloping.predict(far, return_std=True)
    with pytest.warns(UserWarning, match="the prior answers there"):
        flat = level.predict(far)
    assert np.all(np.abs(mean - 2 * far[:, 0]) < 4 * std)
    assert np.all(np.abs(mean - 2 * far[:, 0]) < 10)
    assert np.all(np.diff(std) > 0.5)
    np.testing.assert_allclose(flat, y.mean())


def test_intervals_of_coefficients_cover_and_those_of_least_squares_do_not():
    """200 draws are as many targets of one fit; 95 % intervals then cover 91 to 98 % with probability 0.99."""
    rng = np.random.default_rng(1)
    n, truth = 150, np.array([1.0, 2.0, -1.0])
    places = rng.uniform(0, 10, (n, 2))
    smooth = np.sin(places[:, :1] / 2) + 0.1 * rng.standard_normal((n, 1))  # a covariate that varies in space itself
    columns = np.column_stack([places, smooth, rng.standard_normal(n)])
    F = np.column_stack([np.ones(n), columns[:, 2:]])
    root = np.linalg.cholesky(kernel(places, places, 1.0, 1.0) + 0.1 * np.eye(n))
    draws = (F @ truth)[:, None] + root @ rng.standard_normal((n, 200))
    model = nf.ExactGPRegressor(length_scale=1.0, signal_variance=1.0, noise_variance=0.1, **ROLES).fit(columns, draws)
    lower, upper = model.drift_coef_.interval(0.95)
    inside = np.mean((lower <= truth[:, None]) & (truth[:, None] <= upper), axis=1)
    assert np.all((inside >= 0.91) & (inside <= 0.98))
    ordinary = np.linalg.lstsq(F, draws, rcond=None)[0]
    variance = np.sum((draws - F @ ordinary) ** 2, axis=0) / (n - 3)
    half = 1.96 * np.sqrt(np.diag(np.linalg.inv(F.T @ F))[:, None] * variance)
    naive = np.mean(np.abs(ordinary - truth[:, None]) <= half, axis=1)
    assert naive[0] < 0.8
    assert naive[1] < 0.8


# ---- other regressors ------------------------------------------------------------------------------------------------

BIG = 1800
BIG_X = np.column_stack([RNG.uniform(0, 30, (BIG, 2)), RNG.uniform(50, 200, BIG), RNG.normal(10, 3, BIG)])
BIG_Y = 0.02 * BIG_X[:, 2] - 0.1 * BIG_X[:, 3] + np.sin(BIG_X[:, 0]) * np.cos(BIG_X[:, 1])
BIG_Y += 0.2 * RNG.standard_normal(BIG)
BIG_PLACES = np.column_stack([RNG.uniform(0, 30, (200, 2)), RNG.uniform(20, 250, 200), RNG.normal(10, 5, 200)])
KERNELS = {
    "one": GIVEN,
    "two": {"length_scale": [0.8, 9.0], "signal_variance": [0.5, 0.4], "noise_variance": 0.05},
    "exact mean": {"length_scale": [0.4, 0.8], "signal_variance": [0.5, 0.4], "noise_variance": 0.002},
}


@pytest.fixture(scope="module", params=list(KERNELS))
def local_and_exact(request):
    given = KERNELS[request.param]
    exact = nf.ExactGPRegressor(**given, **ROLES).fit(BIG_X, BIG_Y)
    return nf.LocalGPRegressor(**given, **ROLES, random_state=0).fit(BIG_X, BIG_Y), exact


def test_local_models_are_near_universal_kriging(local_and_exact):
    local, exact = local_and_exact
    noise = exact.noise_variance_
    assert local.report_.method != "the exact Gaussian process"
    mean, std = local.predict(BIG_PLACES, return_std=True)
    expected, spread = exact.predict(BIG_PLACES, return_std=True)
    divergence = nf.metrics.kl_divergence(mean, std**2 + noise, expected, spread**2 + noise)
    assert np.mean(divergence) < local.tolerance
    np.testing.assert_allclose(local.predict(BIG_PLACES), mean, atol=1e-9)
    errors = exact.drift_coef_.std_errors
    assert np.max(np.abs(local.drift_coef_.values - exact.drift_coef_.values) / errors) < 0.25
    np.testing.assert_allclose(local.drift_coef_.std_errors, errors, rtol=0.05)


def test_certificates_are_of_universal_kriging(local_and_exact):
    local, exact = local_and_exact
    certificate = local.certify(BIG_PLACES[:20])
    mean, std = exact.predict(BIG_PLACES[:20], return_std=True, include_noise=True)
    np.testing.assert_allclose(certificate.mean, mean, atol=1e-4)
    np.testing.assert_allclose(certificate.std, std, rtol=1e-4)
    assert certificate.divergence < local.tolerance


def test_sources_are_predicted_from(local_and_exact):
    local, _ = local_and_exact
    source = nf.sources.ArraySource(BIG_PLACES, np.zeros(len(BIG_PLACES)), batch_size=64)
    np.testing.assert_allclose(local.predict(source, return_std=True), local.predict(BIG_PLACES, return_std=True))


def test_parts_of_local_models(local_and_exact):
    local, exact = local_and_exact
    parts, expected = local.predict_parts(BIG_PLACES), exact.predict_parts(BIG_PLACES)
    np.testing.assert_allclose(parts.drift.mean + parts.process.mean, local.predict(BIG_PLACES))
    for name in ("drift", "process", "total"):
        part, other = getattr(parts, name), getattr(expected, name)
        assert np.max(np.abs(part.mean - other.mean) / other.std) < 0.5
        np.testing.assert_allclose(part.std, other.std, rtol=0.1)


def test_left_out_predictions_of_local_models(local_and_exact):
    local, exact = local_and_exact
    some = slice(0, 300)
    assert np.max(np.abs(local.loo_.mean - exact.loo_.mean)[some] / exact.loo_.std[some]) < 0.3
    np.testing.assert_allclose(local.loo_.std[some], exact.loo_.std[some], rtol=0.1)


def test_more_data_are_taken_in_as_if_they_had_been_there(local_and_exact):
    local, exact = local_and_exact
    given = {name: getattr(local, name) for name in GIVEN}
    first = nf.LocalGPRegressor(**given, **ROLES, random_state=0).fit(BIG_X[:1600], BIG_Y[:1600])
    first.partial_fit(BIG_X[1600:], BIG_Y[1600:])
    mean, std = first.predict(BIG_PLACES, return_std=True)
    expected, spread = exact.predict(BIG_PLACES, return_std=True)
    assert np.max(np.abs(mean - expected) / np.sqrt(spread**2 + exact.noise_variance_)) < 0.3
    np.testing.assert_allclose(std, spread, rtol=0.1)
    assert len(first._training_rows()[0]) == BIG


def test_small_local_models_are_exact():
    local = nf.LocalGPRegressor(**GIVEN, **ROLES).fit(X, Y)
    exact = nf.ExactGPRegressor(**GIVEN, **ROLES).fit(X, Y)
    np.testing.assert_allclose(
        local.predict(PLACES, return_std=True), exact.predict(PLACES, return_std=True), rtol=1e-8
    )
    np.testing.assert_allclose(local.drift_coef_.values, exact.drift_coef_.values, rtol=1e-8)
    np.testing.assert_allclose(local.cross_validate(4).mean, exact.cross_validate(4).mean, rtol=1e-8)
    zero = nf.LocalGPRegressor(**GIVEN, drift=None).fit(X[:, :2], Y)
    same = nf.ExactGPRegressor(**GIVEN, drift=None).fit(X[:, :2], Y)
    np.testing.assert_allclose(zero.predict(PLACES[:, :2]), same.predict(PLACES[:, :2]), rtol=1e-8)
    assert zero.y_mean_ == 0


def test_noise_is_settled_with_a_drift():
    rng = np.random.default_rng(2)
    y = BIG_Y + 0.2 * rng.standard_t(3, BIG)
    given = {"length_scale": 1.3, "signal_variance": 0.3}
    model = nf.LocalGPRegressor(**given, **ROLES, likelihood="student", noise="constant", random_state=0)
    model.fit(BIG_X[:800], y[:800])
    assert np.isfinite(model.noise_model_.dof)
    assert model.report_.left_out["rmse"] == pytest.approx(model.loo_.rmse, rel=1e-6)
    lower, upper = model.predict_interval(BIG_X[800:], 0.9)
    assert 0.85 < np.mean((lower <= y[800:]) & (y[800:] <= upper)) < 0.95
    assert model.drift_coef_["x2"].value == pytest.approx(0.02, abs=0.002)


def test_features_with_a_drift_are_the_same_model():
    exact = nf.ExactGPRegressor(**GIVEN, **ROLES).fit(X, Y, WEIGHTS)
    model = nf.FeatureGPRegressor(nf.TaylorFeatures(28), **GIVEN, **ROLES, random_state=0).fit(X, Y, WEIGHTS)
    inside = X[:20] + 0.1
    np.testing.assert_allclose(
        model.predict(inside, return_std=True), exact.predict(inside, return_std=True), rtol=1e-4
    )
    np.testing.assert_allclose(model.drift_coef_.values, exact.drift_coef_.values, rtol=1e-5)
    np.testing.assert_allclose(model.drift_coef_.std_errors, exact.drift_coef_.std_errors, rtol=1e-5)
    assert model.log_marginal_likelihood() == pytest.approx(exact.log_marginal_likelihood(), abs=1e-3)
    assert model.report_.divergence < 1e-6
    for name in ("drift", "process", "total"):
        part, other = getattr(model.predict_parts(inside), name), getattr(exact.predict_parts(inside), name)
        np.testing.assert_allclose(part.mean, other.mean, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(part.std, other.std, rtol=1e-4)
    np.testing.assert_allclose(model.loo_.mean, exact.loo_.mean, atol=1e-4)
    np.testing.assert_allclose(model.cross_validate(4).mean, exact.cross_validate(4).mean, atol=1e-3)
    later = nf.FeatureGPRegressor(nf.TaylorFeatures(28), **GIVEN, **ROLES, random_state=0).fit(
        X[:100], Y[:100], WEIGHTS[:100]
    )
    later.partial_fit(X[100:], Y[100:], WEIGHTS[100:])
    np.testing.assert_allclose(later.predict(inside), model.predict(inside), rtol=1e-4)
    with pytest.raises(ValueError, match="fewer samples than columns"):
        later.partial_fit(X[:2], Y[:2], forget=True)


# ---- other libraries -------------------------------------------------------------------------------------------------


def test_statsmodels_agrees(both):
    api = pytest.importorskip("statsmodels.regression.linear_model", reason="statsmodels is not installed")
    model, dense = both
    result = api.GLS(Y, dense.F, sigma=dense.C).fit()
    np.testing.assert_allclose(model.drift_coef_.values, result.params, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(model.drift_coef_.covariance, result.normalized_cov_params, rtol=1e-6, atol=1e-12)


def test_pykrige_agrees():
    kriging = pytest.importorskip("pykrige.uk", reason="PyKrige is not installed")
    reach = 7 / 4 * np.sqrt(2) * 1.3  # its Gaussian variogram is 1 - exp(-h^2 / (4/7 range)^2)
    theirs = kriging.UniversalKriging(
        *X[:, :2].T,
        Y,
        variogram_model="gaussian",
        variogram_parameters={"psill": 0.8, "range": reach, "nugget": 0.05},
        drift_terms=["regional_linear", "specified"],
        specified_drift=[X[:, 2]],
    )
    mean, variance = theirs.execute("points", *PLACES[:, :2].T, specified_drift_arrays=[PLACES[:, 2]])
    ours = nf.ExactGPRegressor(**GIVEN, coordinates=[0, 1], drift=[0, 1, 2]).fit(X, Y)
    answer, std = ours.predict(PLACES, return_std=True, include_noise=True)
    np.testing.assert_allclose(answer, mean, rtol=1e-6)
    np.testing.assert_allclose(std**2, variance, rtol=1e-6)


# ---- conventions -----------------------------------------------------------------------------------------------------


def test_a_spline_of_a_column_and_clones():
    from sklearn.compose import make_column_transformer

    spline = make_column_transformer((SplineTransformer(4, degree=2), [2]))
    model = nf.ExactGPRegressor(**GIVEN, coordinates=[0, 1], drift=spline).fit(X, Y)
    assert "intercept" not in model.drift_coef_.names  # splines add up to one
    F = SplineTransformer(4, degree=2).fit(X[:, 2:3]).transform(X[:, 2:3])
    inverse = np.linalg.inv(kernel(X[:, :2], X[:, :2]) + 0.05 * np.eye(N))
    beta = np.linalg.solve(F.T @ inverse @ F, F.T @ inverse @ Y)
    np.testing.assert_allclose(model.drift_coef_.values, beta, rtol=1e-7)
    again = clone(model).fit(X, Y)
    np.testing.assert_allclose(again.predict(X), model.predict(X))
    assert not hasattr(spline, "transformers_")  # the user's own is left alone
