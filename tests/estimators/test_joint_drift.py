"""Draws, covariances, areas and gradients of models with a drift, beside dense universal kriging."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression
from sklearn.preprocessing import SplineTransformer

import nearfield as nf

from ..warned import far_points, few_features

GIVEN = {"length_scale": 1.0, "signal_variance": 1.3, "noise_variance": 0.1}
ROLES = {"coordinates": ["east", "north"], "drift": ["area", "kind", "east"]}
LOCAL = {"n_scales": 1, "noise": "constant", "likelihood": "gaussian", "random_state": 0}


def houses(n, seed):
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(rng.uniform(0, 6, (n, 2)), columns=["east", "north"])
    table["area"] = rng.standard_normal(n) + np.sin(table["east"])
    table["kind"] = rng.choice(["flat", "house"], n)
    return table


def prices(table, seed):
    noise = np.random.default_rng(seed).standard_normal(len(table))
    levels = 2 + table["area"] + (table["kind"] == "house") + np.cos(table["north"])
    return (levels + 0.3 * noise).to_numpy()


TABLE = houses(180, 0)
PRICES = prices(TABLE, 1)
PLACES = houses(30, 2)
PLACES.loc[25:, "east"] += 8.0  # outside of the data, where coefficients are what one is unsure of


@pytest.fixture(scope="module", params=["exact", "local", "feature"])
def model(request):
    if request.param == "exact":
        return nf.ExactGPRegressor(**GIVEN, **ROLES).fit(TABLE, PRICES)
    if request.param == "local":
        return nf.LocalGPRegressor(**GIVEN, **ROLES, **LOCAL).fit(TABLE, PRICES)
    return nf.FeatureGPRegressor(nf.TaylorFeatures(24), **GIVEN, **ROLES, random_state=0).fit(TABLE, PRICES)


@pytest.fixture(scope="module")
def dense():
    """Means (m,) and covariance (m, m) at PLACES of the formulas written out."""

    def columns(table):
        return np.column_stack([np.ones(len(table)), table["area"], table["kind"] == "house", table["east"]])

    def kernel(a, b):
        a, b = (t[["east", "north"]].to_numpy() for t in (a, b))
        return 1.3 * np.exp(-0.5 * np.sum((a[:, None] - b[None]) ** 2, axis=2))

    C = kernel(TABLE, TABLE) + 0.1 * np.eye(len(TABLE))
    F, c = columns(TABLE), kernel(TABLE, PLACES)
    A, h = F.T @ np.linalg.solve(C, F), columns(PLACES) - c.T @ np.linalg.solve(C, F)
    beta = np.linalg.solve(A, F.T @ np.linalg.solve(C, PRICES))
    covariance = kernel(PLACES, PLACES) - c.T @ np.linalg.solve(C, c) + h @ np.linalg.solve(A, h.T)
    return c.T @ np.linalg.solve(C, PRICES) + h @ beta, covariance


def close(model):
    """How near the formulas a model must be: features lack a little beyond the data, where the kernel ends."""
    return 2e-2 if isinstance(model, nf.FeatureGPRegressor) else 1e-7


def inside(model):
    return slice(0, 25) if isinstance(model, nf.FeatureGPRegressor) else slice(None)


@far_points
@few_features
def test_covariances_are_those_of_universal_kriging(model, dense):
    mean, covariance = model.predict(PLACES, return_cov=True)
    own = inside(model)
    np.testing.assert_allclose(mean[own], dense[0][own], atol=close(model))
    np.testing.assert_allclose(covariance[own, own], dense[1][own, own], atol=close(model))


def test_draws_have_this_mean_and_covariance(model, dense):
    n = 4000
    draws = model.sampler(n, random_state=0)(PLACES)
    own = inside(model)
    spread = np.sqrt(np.diag(dense[1]))
    errors = (draws.mean(axis=1) - dense[0]) / (spread / n**0.5)
    assert np.abs(errors[own]).max() < 4.5
    covariance = np.cov(draws)
    size = np.sqrt((np.outer(spread**2, spread**2) + dense[1] ** 2) / n)  # standard errors of entries
    assert np.abs((covariance - dense[1]) / size)[own, own].max() < 4.8


def test_a_sampler_gives_the_same_functions_again(model):
    first, again = model.sampler(3, random_state=5), model.sampler(3, random_state=5)
    np.testing.assert_allclose(first(PLACES)[4:9], again(PLACES[4:9]), atol=1e-5)


def test_areas_in_closed_form_and_by_draws(model, dense):
    own = np.arange(30)[inside(model)]
    labels, weights = own % 3, 1.0 + own % 2
    areas = model.predict_areas(PLACES.iloc[own], labels, weights, method="exact")
    drawn = model.predict_areas(PLACES.iloc[own], labels, weights, method="samples", n_samples=1500)
    for g in range(3):
        w = np.where(labels == g, weights, 0.0)
        w /= w.sum()
        assert areas.mean[g] == pytest.approx(w @ dense[0][own], abs=close(model))
        assert areas.std[g] == pytest.approx(np.sqrt(w @ dense[1][np.ix_(own, own)] @ w), rel=close(model))
        assert drawn.std[g] == pytest.approx(areas.std[g], abs=4.5 * drawn.std_error[g])


def test_gradients_are_those_of_mean_and_covariance(model):
    gradient, std = model.predict_gradient(PLACES[:6], return_std=True)
    assert gradient.shape == std.shape == (6, 4)
    step = 1e-3
    for j, name in enumerate(["east", "north", "area"]):
        low, high = PLACES[:6].copy(), PLACES[:6].copy()
        low[name] -= step
        high[name] += step
        mean, covariance = model.predict(pd.concat([low, high]), return_cov=True)
        np.testing.assert_allclose(gradient[:, j], (mean[6:] - mean[:6]) / (2 * step), atol=1e-4)
        first, second, both = np.diag(covariance)[:6], np.diag(covariance)[6:], np.diag(covariance[:6, 6:])
        variance = (first + second - 2 * both) / (2 * step) ** 2
        np.testing.assert_allclose(std[:, j], np.sqrt(np.maximum(variance, 0.0)), rtol=1e-3, atol=1e-5)
    assert np.all(gradient[:, 3] == 0)  # a category
    assert np.all(std[:, 3] == 0)


def test_groups_and_several_targets_are_drawn_too():
    y = np.column_stack([PRICES, 2 * PRICES + TABLE["north"]])
    roles = {"coordinates": ["east", "north"], "drift": ["area"], "groups": ["kind"]}
    exact = nf.ExactGPRegressor(**GIVEN, **roles).fit(TABLE, y)
    places = PLACES[:8].assign(kind=["flat", "villa"] * 4)  # a level that fit has not seen
    mean, covariance = exact.predict(places, return_cov=True)
    for model in (exact, nf.LocalGPRegressor(**GIVEN, **roles, **LOCAL).fit(TABLE, y)):
        draws = model.sampler(3000, random_state=1)(places)
        assert draws.shape == (8, 2, 3000)
        spread = np.sqrt(np.diag(covariance[:, :, 0]))
        assert np.abs((draws.mean(axis=2) - mean) / spread[:, None]).max() < 4.5 / 3000**0.5
        np.testing.assert_allclose(draws.std(axis=2), np.tile(spread[:, None], 2), rtol=0.07)


def test_a_mean_model_is_in_draws_and_areas_and_has_no_gradient():
    model = nf.LocalGPRegressor(**GIVEN, **LOCAL, coordinates=[0, 1], mean=LinearRegression())
    X = TABLE[["east", "north", "area"]].to_numpy()
    model.fit(X, PRICES)
    draws = model.sampler(2000, random_state=0)(X[:5])
    mean, std = model.predict(X[:5], return_std=True)
    assert np.abs((draws.mean(axis=1) - mean) / std).max() < 4.5 / 2000**0.5
    assert model.predict_areas(X[:5], np.zeros(5)).mean[0] == pytest.approx(mean.mean())
    with pytest.raises(ValueError, match=r"'mean' parameter.* no gradient"):
        model.predict_gradient(X[:5])


def test_a_transformer_has_no_gradient():
    with pytest.warns(UserWarning, match="Drift column 'north_sp_4' is a linear combination"):
        model = nf.ExactGPRegressor(**GIVEN, drift=SplineTransformer(3)).fit(TABLE[["east", "north"]], PRICES)
    assert model.sample_y(TABLE[["east", "north"]][:4], 3, random_state=0).shape == (4, 3)
    with pytest.raises(ValueError, match=r"'drift' parameter.* no gradient"):
        model.predict_gradient(TABLE[["east", "north"]][:4])


@far_points
def test_many_local_models_agree_with_the_exact_process():
    table = houses(900, 3)
    y = prices(table, 4)
    exact = nf.ExactGPRegressor(**GIVEN, **ROLES).fit(table, y)
    local = nf.LocalGPRegressor(**GIVEN, **ROLES, **LOCAL, spacing=1.5, radius=4.0, features=nf.TaylorFeatures(16))
    local.fit(table, y)
    assert len(local.centers_) > 4
    spread = exact.predict(PLACES, return_std=True)[1]
    for i, (a, b) in enumerate(zip(*(m.predict(PLACES, return_cov=True) for m in (local, exact)), strict=True)):
        assert np.abs(a - b).max() < 0.25 * spread.max() ** (i + 1)
    drawn = local.sampler(2000, random_state=0)(PLACES).std(axis=1)
    np.testing.assert_allclose(drawn, spread, rtol=0.1)
    slopes = [m.predict_gradient(PLACES[:25], return_std=True) for m in (local, exact)]
    np.testing.assert_allclose(slopes[0][0], slopes[1][0], atol=0.15)
    np.testing.assert_allclose(slopes[0][1], slopes[1][1], atol=0.1)
