"""Transformers and mean models in model files."""

import os
import sys

import numpy as np
import pytest
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LinearRegression, RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    OneHotEncoder,
    PolynomialFeatures,
    SplineTransformer,
    StandardScaler,
)
from sklearn.tree import DecisionTreeRegressor

import nearfield as nf
from nearfield.persistence import sklearn_parts

pd = pytest.importorskip("pandas", reason="pandas is not installed")
skops = pytest.importorskip("skops.io", reason="skops is not installed")

RNG = np.random.default_rng(0)
GIVEN = {"length_scale": 1.0, "signal_variance": 0.5, "noise_variance": 0.1, "random_state": 0}
X = pd.DataFrame(RNG.uniform(0, 5, (120, 3)), columns=["east", "north", "age"])
X["kind"] = RNG.choice(["flat", "house"], 120)
Y = np.sin(X["east"]) + X["age"] + (X["kind"] == "flat") + 0.1 * RNG.standard_normal(120)
DRIFT = make_column_transformer(
    (SplineTransformer(4), ["age"]),
    (OneHotEncoder(drop="first", sparse_output=False), ["kind"]),
    (make_pipeline(StandardScaler(), PolynomialFeatures(2, include_bias=False)), ["north"]),
)
MEAN = make_pipeline(make_column_transformer((OneHotEncoder(), ["kind"]), remainder="passthrough"), RidgeCV())
PARAMETERS = {"drift": {"drift": DRIFT}, "mean": {"mean": MEAN}, "both": {"drift": ["age"], "mean": MEAN}}


def make(kind, **parameters):
    given = {**GIVEN, "coordinates": ["east", "north"], **parameters}
    if kind == "feature":
        return nf.FeatureGPRegressor(nf.TaylorFeatures(8), **given)
    return nf.ExactGPRegressor(**given) if kind == "exact" else nf.LocalGPRegressor(**given, n_scales=1)


@pytest.mark.filterwarnings("ignore:Drift column", "ignore:The model is")
@pytest.mark.parametrize("what", PARAMETERS)
@pytest.mark.parametrize("kind", ["exact", "local", "feature"])
def test_a_loaded_model_predicts_the_same(kind, what, tmp_path):
    model = make(kind, **PARAMETERS[what]).fit(X, Y)
    nf.save(model, tmp_path / "model.nf")
    loaded = nf.load(tmp_path / "model.nf")
    for answer, expected in zip(*(m.predict(X[:20], return_std=True) for m in (loaded, model)), strict=True):
        np.testing.assert_allclose(answer, expected, rtol=1e-8)
    if "drift" in PARAMETERS[what]:
        assert loaded.drift_coef_.names == model.drift_coef_.names
    more = [m.partial_fit(X[:30], Y[:30]).predict(X[:5]) for m in (loaded, model)] if kind != "exact" else [0, 0]
    np.testing.assert_allclose(*more, rtol=1e-6)
    if kind == "exact":  # parameters are there, too
        np.testing.assert_allclose(loaded.fit(X, Y).predict(X[:5]), model.predict(X[:5]), rtol=1e-6)


def test_what_is_not_trusted_is_not_stored(tmp_path):
    for mean, name in ((DecisionTreeRegressor(), "Tree"), (make_pipeline(_log(), LinearRegression()), "test_sklearn")):
        model = nf.ExactGPRegressor(**GIVEN, mean=mean).fit(X[["east", "north"]], Y)
        with pytest.raises(
            ValueError, match=rf"cannot be stored since it has a .*{name}.*, and 'mean_?' of this Exact"
        ):
            nf.save(model, tmp_path / "model.nf")


def _log():
    return FunctionTransformer(_logarithm)


def _logarithm(values):
    return np.log1p(values)


def test_altered_bytes_make_nothing():
    with pytest.raises(ValueError, match="No estimator"):
        sklearn_parts.unpacked(np.frombuffer(skops.dumps(FunctionTransformer(os.getcwd)), dtype=np.uint8))
    content = sklearn_parts.packed(StandardScaler())
    assert isinstance(sklearn_parts.unpacked(content), StandardScaler)
    rng = np.random.default_rng(0)
    for _ in range(50):
        altered = content.copy()
        altered[rng.integers(0, len(content), 5)] = rng.integers(0, 256, 5)
        try:
            assert isinstance(sklearn_parts.unpacked(altered), StandardScaler)
        except ValueError:
            continue
    with pytest.raises(ValueError, match="do not fit together"):
        sklearn_parts.unpacked(np.frombuffer(skops.dumps([1, 2]), dtype=np.uint8))


def test_without_skops(tmp_path, monkeypatch):
    model = nf.ExactGPRegressor(**GIVEN, mean=LinearRegression()).fit(X[["east", "north"]], Y)
    nf.save(model, tmp_path / "model.nf")
    monkeypatch.setitem(sys.modules, "skops.io", None)
    with pytest.raises(ImportError, match="pip install skops"):
        nf.load(tmp_path / "model.nf")
    with pytest.raises(ValueError, match=r"without skops, which is not installed .* of this ExactGPRegressor"):
        nf.save(model, tmp_path / "other.nf")
