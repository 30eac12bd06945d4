"""Models learnt in other units than those of the data."""

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import nearfield as nf
from nearfield.estimators.units import rescale

from ..warned import few_features

RNG = np.random.default_rng(0)
X = RNG.uniform(0, 6, (150, 2)) * [1.0, 300.0]
Y = np.column_stack([np.sin(X[:, 0]), np.cos(X[:, 1] / 300)]) + 0.05 * RNG.standard_normal((150, 2))
UNITS = np.array([0.5, 200.0])
GIVEN = {"signal_variance": 1.0, "noise_variance": 0.01}


@pytest.mark.parametrize("ard", [False, True])
def test_estimates_on_a_bound_are_in_the_new_units(ard):
    x = X[:, 1:] / UNITS[1:]
    with pytest.warns(ConvergenceWarning, match="on a bound"):
        model = nf.ExactGPRegressor(ard=ard, random_state=0).fit(np.column_stack([x, x]), 3 * x[:, 0])
    before = model.learned_.on_bounds
    assert {estimate.kind for estimate in before} > {"noise_variance"}
    rescale(model, UNITS)
    for estimate in model.learned_.on_bounds:
        if estimate.kind == "length_scale":
            assert estimate.value == pytest.approx(model.length_scale_[estimate.column])
        else:
            assert estimate in before


@few_features
@pytest.mark.parametrize("length_scale", [1.5, [1.0, 2.0], [[1.0, 2.0], [3.0, 4.0]]])
@pytest.mark.parametrize(
    "make",
    [
        nf.ExactGPRegressor,
        lambda **p: nf.LocalGPRegressor(**p, spacing=1.5, radius=4.0, features="kernel", random_state=0),
        lambda **p: nf.LocalGPRegressor(**p, random_state=0),
        lambda **p: nf.FeatureGPRegressor(nf.FourierFeatures(40, random_state=0), **p, random_state=0),
        lambda **p: nf.FeatureGPRegressor(nf.TaylorFeatures(5), **p, random_state=0),
    ],
)
def test_predictions_stay_and_length_scales_change(make, length_scale):
    two = np.ndim(length_scale) == 2
    given = {**GIVEN, "signal_variance": [0.5, 0.5], "n_scales": 2} if two else {**GIVEN, "n_scales": 1}
    a = make(length_scale=length_scale, **given).fit(X / UNITS, Y)
    before = a.predict(X / UNITS + 0.1, return_std=True)
    rescale(a, UNITS)
    np.testing.assert_allclose(a.predict(X + 0.1 * UNITS, return_std=True), before, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(a.length_scale_, np.asarray(length_scale) * UNITS)
    np.testing.assert_allclose(a.learned_.kernel.length_scales, np.atleast_2d(a.length_scale_))
    if isinstance(a, nf.LocalGPRegressor):
        np.testing.assert_array_equal(a.report_.hyperparameters["length_scale"], a.length_scale_)
        assert np.all((a.centers_ > X.min(axis=0) - 1e-9) & (a.centers_ < X.max(axis=0) + 1e-9))
    if hasattr(a, "partial_fit"):
        b = make(length_scale=np.asarray(length_scale) * UNITS, **given).fit(X, Y)
        a.partial_fit(X[:20] + 0.2 * UNITS, Y[:20])
        if isinstance(a, nf.FeatureGPRegressor):
            b.partial_fit(X[:20] + 0.2 * UNITS, Y[:20])
            np.testing.assert_allclose(a.predict(X), b.predict(X), rtol=1e-6, atol=1e-8)
