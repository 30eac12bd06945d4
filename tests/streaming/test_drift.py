"""Columns with roles in sources and Dask collections: the same models as from arrays."""

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression
from sklearn.preprocessing import SplineTransformer

import nearfield as nf

from ..warned import few_features

RNG = np.random.default_rng(0)
N = 700
X = np.column_stack([RNG.uniform(0, 6, (N, 2)), RNG.standard_normal(N), RNG.integers(1, 4, N)])
Y = np.sin(X[:, 0]) + 2 * X[:, 2] + (X[:, 3] == 2) + 3 + 0.2 * RNG.standard_normal(N)
WEIGHTS = RNG.uniform(0.5, 2.0, N)
NAMES = ("east", "north", "area", "kind")
GIVEN = {"length_scale": 1.0, "signal_variance": 0.8, "noise_variance": 0.05, "random_state": 0}
ROLES = {"coordinates": ["east", "north"], "drift": ["area", "C(kind)", "east"]}
NUMBERED = {"coordinates": [0, 1], "drift": [2, 0]}


def table(rows=slice(None)):
    pd = pytest.importorskip("pandas", reason="pandas is not installed")
    return pd.DataFrame(X[rows], columns=list(NAMES))


def batches(rows=slice(None)):
    """A source of which a small part is looked at first."""

    def start():
        for chunk in np.array_split(np.arange(N)[rows], 7):
            yield X[chunk], Y[chunk], WEIGHTS[chunk]

    return nf.sources.BatchSource(start, names=NAMES, sample_size=200)


def make(kind, **parameters):
    if kind == "feature":
        return nf.FeatureGPRegressor(nf.FourierFeatures(200, random_state=0), **GIVEN, **parameters)
    return nf.LocalGPRegressor(**GIVEN, n_scales=1, **parameters)


def assert_same(model, other, rows):
    for answer, expected in zip(*(m.predict(rows, return_std=True) for m in (model, other)), strict=True):
        np.testing.assert_allclose(answer, expected, rtol=1e-6, atol=1e-8)
    first, second = model.drift_coef_, other.drift_coef_
    assert first.names == second.names
    np.testing.assert_allclose(first.values, second.values, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(first.std_errors, second.std_errors, rtol=1e-6)


@pytest.mark.parametrize("kind", ["local", "feature"])
def test_a_source_gives_the_model_of_its_rows(kind):
    rows = table()
    streamed = make(kind, **ROLES).fit(batches())
    assert_same(streamed, make(kind, **ROLES).fit(rows, Y, sample_weight=WEIGHTS), rows[:50])
    # and answers for a source as for its rows, categories included
    np.testing.assert_allclose(streamed.predict(batches()), streamed.predict(rows), rtol=1e-12)


@pytest.mark.parametrize("kind", ["local", "feature"])
def test_more_rows_of_a_source(kind):
    whole = make(kind, **ROLES).fit(table(), Y, sample_weight=WEIGHTS)
    first = slice(0, 500) if kind == "feature" else slice(0, 690)  # coefficients are found anew with all rows
    parts = make(kind, **ROLES).fit(batches(first)).partial_fit(batches(slice(first.stop, N)))
    np.testing.assert_allclose(parts.predict(table()), whole.predict(table()), rtol=1e-6, atol=1e-3)
    np.testing.assert_allclose(parts.drift_coef_.values, whole.drift_coef_.values, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("kind", ["local", "feature"])
@few_features
def test_no_mean_and_numbered_columns(kind):
    source = nf.sources.ArraySource(X, Y, batch_size=150, sample_size=200)
    assert_same(make(kind, **NUMBERED).fit(source), make(kind, **NUMBERED).fit(X, Y), X[:40])
    source = nf.sources.ArraySource(X[:, :2], Y, batch_size=150, sample_size=200)
    plain, arrays = (make(kind, drift=None).fit(*given) for given in ((source,), (X[:, :2], Y)))
    np.testing.assert_allclose(plain.predict(X[:40, :2]), arrays.predict(X[:40, :2]), rtol=1e-6, atol=1e-8)
    np.testing.assert_array_equal(plain.y_mean_, [0.0])


@pytest.mark.parametrize("kind", ["local", "feature"])
def test_dask(kind):
    da = pytest.importorskip("dask.array", reason="Dask is not installed")
    points, targets = da.from_array(X, chunks=(150, 4)), da.from_array(Y, chunks=150)
    model = make(kind, **NUMBERED).fit(points, targets)
    assert_same(model, make(kind, **NUMBERED).fit(X, Y), X[:40])
    np.testing.assert_allclose(model.predict(points).compute(), model.predict(X), rtol=1e-10)


def test_learning_goes_by_the_sample():
    model = nf.FeatureGPRegressor(nf.TaylorFeatures(14), random_state=0, **NUMBERED)
    model.fit(nf.sources.ArraySource(X, Y - (X[:, 3] == 2), sample_size=300))
    assert 0.5 < np.min(model.length_scale_) < 4
    assert model.drift_coef_.values[1] == pytest.approx(2.0, abs=0.1)


def test_what_takes_all_rows():
    source = nf.sources.ArraySource(X, Y)
    local = nf.LocalGPRegressor(**GIVEN, coordinates=[0, 1], groups=[3], n_scales=1).fit(source)
    assert set(local.group_effects_.names) == {"x3=1", "x3=2", "x3=3"}
    for name, value in {"mean": LinearRegression(), "groups": [3], "drift": SplineTransformer()}.items():
        model = make("feature", **{"coordinates": [0, 1], name: value})
        with pytest.raises(ValueError, match=rf"'{name}' parameter .* data frames, but not .*rows of a source"):
            model.fit(source)
    empty = nf.sources.BatchSource(lambda: iter([]))
    with pytest.raises(ValueError, match="0 rows"):
        make("local", **NUMBERED).fit(empty)
