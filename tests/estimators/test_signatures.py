"""Arguments of the methods: the same, in the same order and with the same defaults, in every regressor."""

import inspect

import numpy as np
import pytest

import nearfield as nf
from nearfield.common.distribution import PredictiveDistribution
from nearfield.estimators.samples import Sampler

REGRESSORS = {
    "exact": nf.ExactGPRegressor(random_state=0),
    "feature": nf.FeatureGPRegressor(nf.FourierFeatures(20, random_state=0), random_state=0),
    "local": nf.LocalGPRegressor(random_state=0),
}
every_regressor = pytest.mark.parametrize("name", REGRESSORS)
OF_OBSERVATIONS = ("predict_distribution", "predict_interval", "predict_quantiles", "predict_above")
SAID_FOR_NOW = ("predict_frame",)  # asks for an answer until its default is that of the others


def methods(cls):
    """Public methods of a class, without those that scikit-learn makes, with their parameters."""
    found = inspect.getmembers(cls, inspect.isfunction)
    return {name: inspect.signature(f).parameters for name, f in found if not name.startswith(("_", "set_"))}


@every_regressor
def test_after_return_std_arguments_have_names(name):
    X = np.linspace(0, 1, 12)[:, None]
    given = {"length_scale": 0.5, "signal_variance": 1.0, "noise_variance": 0.1}
    model = REGRESSORS[name].set_params(**given).fit(X, X[:, 0])
    assert len(model.predict(X, True)) == 2
    with pytest.raises(TypeError, match="positional arguments"):
        model.predict(X, True, True)
    assert list(methods(type(model))["predict"]) == ["self", "X", "return_std", "return_cov", "include_noise"]


@every_regressor
def test_noise_is_left_out_unless_it_is_asked_for_or_a_probability(name):
    found = methods(type(REGRESSORS[name]))
    defaults = {method: p["include_noise"].default for method, p in found.items() if "include_noise" in p}
    assert {"predict", "sample_y", "predict_grid", "predict_areas", *OF_OBSERVATIONS} < set(defaults)
    for method, default in defaults.items():
        if method not in SAID_FOR_NOW:
            assert default is (method in OF_OBSERVATIONS), method


def test_draws_are_the_same_every_time_unless_told():
    classes = [*map(type, REGRESSORS.values()), Sampler, PredictiveDistribution]
    drawing = {"sample_y", "sampler", "sample", "predict_areas", "cross_validate"}
    found = [p["random_state"].default for cls in classes for m, p in methods(cls).items() if m in drawing]
    assert len(found) == 13
    assert set(found) == {0}
    for cls in classes[:3]:
        parameters = methods(cls)["sample_y"]
        assert list(parameters) == ["self", "X", "n_samples", "random_state", "include_noise"]
