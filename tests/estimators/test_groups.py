"""Groups as random effects: independent normal effects per level, with a learnt variance."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal

import nearfield as nf

pd = pytest.importorskip("pandas", reason="pandas is not installed")

GIVEN = {"length_scale": 1.0, "signal_variance": 0.5, "noise_variance": 0.05, "random_state": 0}
RNG = np.random.default_rng(0)
N, LEVELS = 260, 20
DISTRICT = RNG.integers(0, LEVELS, N)
EFFECTS = 0.9 * RNG.standard_normal(LEVELS)
X = pd.DataFrame({"x": RNG.uniform(0, 6, N), "y": RNG.uniform(0, 6, N), "area": RNG.uniform(50, 200, N)})
X["district"] = [f"d{i:02}" for i in DISTRICT]
PLACES = X[["x", "y"]].to_numpy()


def kernel(A, B):
    return 0.5 * np.exp(-0.5 * np.sum((A[:, None] - B[None]) ** 2, axis=2))


Y = 0.02 * X["area"].to_numpy() + EFFECTS[DISTRICT]
Y = Y + np.linalg.cholesky(kernel(PLACES, PLACES) + 0.05 * np.eye(N)) @ RNG.standard_normal(N)
ROLES = {"coordinates": ["x", "y"], "drift": ["area"], "groups": ["district"]}


@pytest.fixture(scope="module", params=[nf.ExactGPRegressor, nf.LocalGPRegressor, nf.FeatureGPRegressor])
def model(request):
    given = {"feature_map": nf.TaylorFeatures(40)} if request.param is nf.FeatureGPRegressor else {}
    return request.param(**given, **GIVEN, **ROLES).fit(X, Y)


def dense(model, new):
    """Universal kriging with one more component of the kernel: the variance within a level."""
    variance = model.group_variance_["district"]

    def same(a, b):
        return variance * (a["district"].to_numpy()[:, None] == b["district"].to_numpy()[None])

    C = kernel(PLACES, PLACES) + same(X, X) + 0.05 * np.eye(N)
    F, f = (np.column_stack([np.ones(len(t)), t["area"]]) for t in (X, new))
    c = kernel(PLACES, new[["x", "y"]].to_numpy()) + same(X, new)
    inverse = np.linalg.inv(C)
    covariance = np.linalg.inv(F.T @ inverse @ F)
    beta = covariance @ F.T @ inverse @ Y
    h = f - c.T @ inverse @ F
    mean = c.T @ inverse @ Y + h @ beta
    total = 0.5 + variance - np.sum(c * (inverse @ c), axis=0) + np.einsum("ij,jk,ik->i", h, covariance, h)
    return mean, np.sqrt(total), beta, C, F


def test_predictions_are_those_of_one_more_component_of_the_kernel(model):
    new = X[:30].assign(x=X["x"][:30] + 0.3)
    new.loc[new.index[5:8], "district"] = "nowhere"  # gets the prior
    mean, std, beta, *_ = dense(model, new)
    answer, spread = model.predict(new, return_std=True)
    np.testing.assert_allclose(answer, mean, rtol=1e-6)
    np.testing.assert_allclose(spread, std, rtol=1e-6)
    np.testing.assert_allclose(model.drift_coef_.values, beta, rtol=1e-5)
    assert spread[5] > 0.9 * model.group_variance_["district"] ** 0.5


def test_the_variance_maximises_the_restricted_likelihood(model):
    variance = model.group_variance_["district"]
    assert 0.3 < variance < 2.0  # the truth is 0.81

    def likelihood(factor):
        _, _, _, C, F = dense(model, X)
        same = variance * (X["district"].to_numpy()[:, None] == X["district"].to_numpy()[None])
        C = C + (factor - 1) * same
        contrasts = np.linalg.svd(F)[0][:, 2:]
        return multivariate_normal.logpdf(contrasts.T @ Y, cov=contrasts.T @ C @ contrasts)

    assert likelihood(1.0) > max(likelihood(0.9), likelihood(1.1))
    if isinstance(model, nf.ExactGPRegressor):
        _, _, _, C, F = dense(model, X)
        inverse = np.linalg.inv(C)
        r = Y - F @ model.drift_coef_.values
        logs = np.linalg.slogdet(C)[1] + np.linalg.slogdet(F.T @ inverse @ F)[1]
        expected = -0.5 * ((N - 2) * np.log(2 * np.pi) + logs + r @ inverse @ r)
        assert model.log_marginal_likelihood() == pytest.approx(expected, abs=1e-6)


def test_effects_are_near_the_truth_and_their_errors_honest(model):
    effects = model.group_effects_
    assert effects.names == tuple(f"district=d{i:02}" for i in range(LEVELS))
    errors = (effects.values - EFFECTS) / effects.std_errors
    assert np.corrcoef(effects.values, EFFECTS)[0, 1] > 0.9
    assert np.max(np.abs(errors)) < 4
    assert len(model.loo_) == N
    assert model.cross_validate(4).rmse < 1.5


def test_groups_alone_files_and_learning(tmp_path):
    model = nf.ExactGPRegressor(coordinates=["x", "y"], groups="district", random_state=0).fit(X, Y)
    assert model.drift_coef_.names == ("intercept",)
    assert model.y_mean_ == 0
    assert 0.05 < model.noise_variance_ < 1.5
    new = X[:9].assign(district="elsewhere")
    for regressor in (nf.ExactGPRegressor, nf.LocalGPRegressor, nf.FeatureGPRegressor):
        given = {"feature_map": nf.TaylorFeatures(12)} if regressor is nf.FeatureGPRegressor else {}
        fitted = regressor(**given, **GIVEN, **ROLES).fit(X, Y)
        nf.save(fitted, tmp_path / "model.nf")
        loaded = nf.load(tmp_path / "model.nf")
        answers, expected = (each.predict(new, return_std=True) for each in (loaded, fitted))
        np.testing.assert_allclose(answers, expected, rtol=1e-8)
        assert loaded.group_variance_ == pytest.approx(fitted.group_variance_)
        if regressor is nf.ExactGPRegressor:
            assert loaded.log_marginal_likelihood() == pytest.approx(fitted.log_marginal_likelihood())
    local = nf.LocalGPRegressor(**GIVEN, **ROLES).fit(X[:200], Y[:200])
    before = local.group_variance_
    local.partial_fit(X[200:], Y[200:])
    assert local.group_variance_ == before
    assert local.predict(X).shape == (N,)
    features = nf.FeatureGPRegressor(nf.TaylorFeatures(12), **GIVEN, **ROLES).fit(X[:200], Y[:200])
    before = features.group_variance_
    assert features.partial_fit(X[200:], Y[200:]).group_variance_ == before


def test_refusals():
    with pytest.raises(ValueError, match=r"'groups' parameter .* names column 'area', which has another role"):
        nf.ExactGPRegressor(**GIVEN, coordinates=["x", "y"], drift=["area"], groups=["area"]).fit(X, Y)
    with pytest.raises(ValueError, match=r"'groups' parameter .* names column 'distrikt'.* mean 'district'"):
        nf.ExactGPRegressor(**GIVEN, coordinates=["x", "y"], groups=["distrikt"]).fit(X, Y)
    with pytest.raises(AttributeError, match="are of models fitted with groups"):
        nf.ExactGPRegressor(**GIVEN).fit(X[["x", "y"]], Y).group_variance_  # noqa: B018
