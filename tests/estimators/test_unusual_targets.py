"""Inputs at the edge of what can be fitted: masked values, huge and tiny targets, two rows."""

import numpy as np
import pytest

import nearfield as nf

from ..warned import far_points

FIXED = {"length_scale": 1.0, "signal_variance": 1.0, "noise_variance": 0.1}
RNG = np.random.default_rng(0)
X = RNG.uniform(0, 8, (60, 2))
Y = np.sin(X[:, 0]) + 0.3 * RNG.standard_normal(60)
REGRESSORS = {
    "exact": lambda **given: nf.ExactGPRegressor(random_state=0, **given),
    "local": lambda **given: nf.LocalGPRegressor(random_state=0, **given),
    "feature": lambda **given: nf.FeatureGPRegressor(nf.TaylorFeatures(30), random_state=0, **given),
}


@pytest.fixture(params=REGRESSORS)
def regressor(request):
    return REGRESSORS[request.param]


@pytest.mark.parametrize("roles", [{}, {"coordinates": [0, 1], "drift": "linear"}])
def test_masked_values_are_refused_and_masks_without_any_are_not(regressor, roles):
    masked_X = np.ma.masked_equal(np.where(X > 7, -9999.0, X), -9999.0)
    masked_y = np.ma.masked_less(Y, -0.5)
    model = regressor(**FIXED, **roles)
    for name, given in (
        ("X", (masked_X, Y)),
        ("y", (X, masked_y)),
        ("sample_weight", (X, Y, np.ma.masked_less(np.arange(60.0), 3))),
    ):
        with pytest.raises(ValueError, match=rf"Input {name} has masked values in \d+ of its 60 rows"):
            model.fit(*given)
    model.fit(np.ma.asarray(X), np.ma.asarray(Y))
    np.testing.assert_array_equal(model.predict(np.ma.asarray(X)), regressor(**FIXED, **roles).fit(X, Y).predict(X))
    with pytest.raises(ValueError, match="Input X has masked values"):
        model.predict(masked_X)


def test_masked_values_are_refused_in_sources_maps_and_scores():
    masked = np.ma.masked_less(X, 1.0)
    with pytest.raises(ValueError, match=r"Rows 0 to 59: Input X has masked values"):
        nf.FeatureGPRegressor(nf.TaylorFeatures(4), **FIXED, random_state=0).fit(nf.sources.ArraySource(masked, Y))
    with pytest.raises(ValueError, match="Input X has masked values"):
        nf.TaylorFeatures(4).fit(masked)
    with pytest.raises(ValueError, match="Input y has masked values"):
        nf.metrics.rmse(np.ma.masked_less(Y, 0.0), Y)


@pytest.mark.parametrize("unit", [1e149, 1e100, 1e-100, 1e-149])
def test_learning_does_not_depend_on_the_unit_of_targets_however_large(regressor, unit):
    model, plain = regressor().fit(X, unit * Y), regressor().fit(X, Y)
    np.testing.assert_allclose(model.predict(X) / unit, plain.predict(X), rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(model.loo_.std / unit, plain.loo_.std, rtol=1e-2)


@pytest.mark.parametrize(("unit", "what"), [(1e160, "reaches 1.[0-9]+e.160"), (1e-160, "varies by 2.[0-9]+e-160")])
def test_targets_whose_variance_is_no_number_are_refused(regressor, unit, what):
    with pytest.raises(ValueError, match=rf"Input y {what}, the square of which .* divide y by [1-3]e"):
        regressor(**FIXED).fit(X, unit * Y)
    with pytest.raises(ValueError, match="the square of which"):
        nf.FeatureGPRegressor(nf.TaylorFeatures(4), **FIXED, random_state=0).fit(nf.sources.ArraySource(X, unit * Y))


@far_points
@pytest.mark.parametrize("n", [2, 3])
def test_few_rows_say_how_many_it_takes(regressor, n):
    with pytest.warns(UserWarning, match=f"{n} samples do not determine the 3 hyperparameters .* more than 3 samples"):
        model = regressor().fit(X[:n], Y[:n])
    assert np.isfinite(model.predict(X)).all()
    if hasattr(model, "report_"):
        assert f"{n} samples do not determine the hyperparameters" in model.report_.verdict
    regressor(**FIXED).fit(X[:n], Y[:n])  # there is nothing to learn
