"""Targets of 0 and 1, and small counts, are told once at fit; measurements that are rounded are not."""

import warnings

import numpy as np
import pytest

import nearfield as nf

FIXED = {"length_scale": 1.0, "signal_variance": 1.0, "noise_variance": 0.1, "random_state": 0}
RNG = np.random.default_rng(0)
N = 60
X = RNG.uniform(0, 8, (N, 2))
REGRESSORS = {
    "exact": nf.ExactGPRegressor(**FIXED),
    "local": nf.LocalGPRegressor(**FIXED),
    "feature": nf.FeatureGPRegressor(nf.TaylorFeatures(30), **FIXED),
}
BINARY = (X[:, 0] > 4).astype(float)
COUNTS = RNG.poisson(1.3, N).astype(float)


def told(model, *given):
    """The messages of a fit about discrete targets."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(*given)
    return [str(warning.message) for warning in caught if "normal target" in str(warning.message)]


@pytest.mark.parametrize("name", REGRESSORS)
def test_two_values_and_small_counts_are_told_once(name):
    model = REGRESSORS[name]
    (message,) = told(model, X, BINARY)
    assert message.startswith("y takes two values only, 0 and 1, but intervals, quantiles and the NLL are those of")
    assert "the mean as the probability of 1 at most, or use a classifier" in message
    (message,) = told(model, X, BINARY > 0)
    assert "two values" in message
    (message,) = told(model, X, COUNTS)
    assert message.startswith("y holds small counts, whole numbers from 0 with a mean of")
    assert "loss='poisson'" in message
    (message,) = told(model, X, np.column_stack([X[:, 0], np.where(BINARY, 2.0, 7.0)]))
    assert "2 and 7" in message


@pytest.mark.parametrize("name", ["local", "feature"])
def test_the_sample_of_a_source_is_told(name):
    (message,) = told(REGRESSORS[name], nf.sources.ArraySource(X, BINARY))
    assert "two values" in message


def test_tables_with_roles_are_told():
    pd = pytest.importorskip("pandas", reason="pandas is not installed")
    table = pd.DataFrame({"x": X[:, 0], "y": X[:, 1]})
    (message,) = told(nf.ExactGPRegressor(**FIXED, coordinates=["x"], drift=["y"]), table, BINARY)
    assert "two values" in message


@pytest.mark.parametrize(
    "y",
    [
        np.rint(50 + 20 * np.sin(X[:, 0])),
        np.rint(20 * X[:, 0]),
        RNG.integers(1, 6, N).astype(float),
        1000.0 * RNG.integers(0, 4, N) + 500,
        np.full(N, 3.0),
        RNG.poisson(30, N).astype(float),
        RNG.integers(0, 10, N).astype(float),
        np.rint(3 * np.sin(X[:, 0])),
        0.5 * RNG.integers(0, 4, N),
    ],
    ids=["rounded", "large", "grades", "prices", "constant", "large counts", "grades from 0", "signed", "halves"],
)
def test_rounded_measurements_are_not_told(y):
    assert told(REGRESSORS["exact"], X, y) == []


def test_few_rows_and_transformed_counts_are_not_told():
    assert told(REGRESSORS["exact"], X[:19], BINARY[:19]) == []
    assert told(nf.LocalGPRegressor(**FIXED, target="sqrt"), X, COUNTS) == []
