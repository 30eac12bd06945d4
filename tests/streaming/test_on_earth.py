"""Rows of longitude and latitude from sources and Dask collections, as points of the sphere."""

import pickle

import numpy as np
import pandas as pd
import pytest

import nearfield as nf
from nearfield.sources import ArraySource, BatchSource

GIVEN = {"length_scale": 900.0, "signal_variance": 1.0, "noise_variance": 0.01, "metric": "sphere"}
PLANNED = {**GIVEN, "spacing": 1.5, "radius": 2.5, "features": nf.TaylorFeatures(7), "random_state": 0}
LATER = 1400  # row from which on there are more data, for `partial_fit`


def make_data(n=2000, seed=0):
    """Places around the date line up to the pole, with values that do not know of either."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.uniform(150, 210, n), np.degrees(np.arcsin(rng.uniform(0.5, 1, n)))])
    X[:, 0] = (X[:, 0] + 180) % 360 - 180
    lon, lat = np.radians(X).T
    x, y, z = np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)
    waves = [np.sin(8 * x + 3 * y), np.sin(7 * y - 4 * z + 1), np.cos(6 * z + 5 * x), np.cos(5 * x - 7 * y)]
    return X, np.sum(waves, axis=0) + 0.1 * rng.standard_normal(n)


X, Y = make_data()
NEW = make_data(400, 1)[0]
CENTERS = make_data(60, 2)[0]  # given, since the axes of grids of centres lie by a sample of the rows


def streamed(X=X, y=Y):
    """Few rows in the sample, so that it is passes that fit the model."""
    return ArraySource(X, y, batch_size=450, sample_size=600)


@pytest.fixture(scope="module")
def in_memory():
    return nf.LocalGPRegressor(**PLANNED, centers=CENTERS).fit(X, Y)


@pytest.fixture(scope="module")
def from_source():
    return nf.LocalGPRegressor(**PLANNED, centers=CENTERS).fit(streamed())


def assert_same(first, second):
    for a, b in zip(first.predict(NEW, return_std=True), second.predict(NEW, return_std=True), strict=True):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=0, atol=1e-8)


def test_a_source_gives_what_arrays_do(from_source, in_memory):
    assert from_source.metric_ == "sphere"
    assert_same(from_source, in_memory)
    assert np.abs(from_source.centers_[:, 1]).max() <= 90
    assert_same(pickle.loads(pickle.dumps(from_source)), in_memory)


def test_dask_collections(in_memory):
    da = pytest.importorskip("dask.array", reason="Dask is not installed")
    dd = pytest.importorskip("dask.dataframe", reason="Dask is not installed")
    source = nf.sources.DaskSource(da.from_array(X, chunks=(700, 1)), da.from_array(Y, chunks=900), sample_size=600)
    model = nf.LocalGPRegressor(**PLANNED, centers=CENTERS).fit(source)
    assert_same(model, in_memory)
    answers = model.predict(da.from_array(NEW, chunks=(150, 2)), return_std=True)
    np.testing.assert_allclose(answers[1].compute(), in_memory.predict(NEW, return_std=True)[1], atol=1e-8)
    table = dd.from_pandas(pd.DataFrame({"lat": X[:, 1], "lon": X[:, 0], "y": Y}), npartitions=4)
    by_name = nf.LocalGPRegressor(**PLANNED, centers=CENTERS[:, ::-1]).fit(
        nf.sources.DaskSource(table[["lat", "lon"]], table["y"], sample_size=600)
    )
    np.testing.assert_allclose(
        by_name.predict(pd.DataFrame({"lat": NEW[:, 1], "lon": NEW[:, 0]})), in_memory.predict(NEW), atol=1e-8
    )


def test_more_rows_later(in_memory):
    for first in (X[:LATER], Y[:LATER]), (streamed(X[:LATER], Y[:LATER]),):
        for more in (X[LATER:], Y[LATER:]), (streamed(X[LATER:], Y[LATER:]),):
            model = nf.LocalGPRegressor(**PLANNED, centers=CENTERS).fit(*first).partial_fit(*more)
            assert_same(model, in_memory)


def test_one_feature_map_from_passes():
    features = nf.FourierFeatures(200, random_state=0)
    model = nf.FeatureGPRegressor(features, **GIVEN, random_state=0).fit(streamed(X[:LATER], Y[:LATER]))
    model.partial_fit(streamed(X[LATER:], Y[LATER:]))
    # The same points, in km: Fourier features do not depend on the axes of the sphere in distribution, but in value.
    whole = nf.FeatureGPRegressor(features, **GIVEN, random_state=0).fit(X, Y)
    assert np.sqrt(np.mean((model.predict(NEW) - whole.predict(NEW)) ** 2)) < 0.1
    again = (
        nf.FeatureGPRegressor(features, **GIVEN, random_state=0)
        .fit(streamed(X[:LATER], Y[:LATER]))
        .partial_fit(X[LATER:], Y[LATER:])
    )
    assert_same(again, model)


def test_learnt_from_a_source_and_chosen_by_its_neighbourhoods():
    model = nf.LocalGPRegressor(metric="sphere", n_scales=1, random_state=0, n_restarts=0)
    model.fit(streamed(X[:LATER], Y[:LATER]))
    learnt = {name: getattr(model, f"{name}_") for name in ("length_scale", "signal_variance", "noise_variance")}
    exact = nf.ExactGPRegressor(metric="sphere", **learnt).fit(X[:LATER], Y[:LATER])
    assert 1000 < model.length_scale_ < 2500
    assert model.noise_variance_ == pytest.approx(0.01, rel=0.1)
    truth, std = exact.predict(NEW, return_std=True, include_noise=True)
    mean, spread = model.predict(NEW, return_std=True, include_noise=True)
    assert np.mean(nf.metrics.kl_divergence(mean, spread**2, truth, std**2)) < 2e-3
    assert model.report_.divergence < 1e-3


def test_rows_that_are_no_degrees_are_named():
    wrong = X.copy()
    wrong[1345, 1] = 91.0
    with pytest.raises(ValueError, match=r"latitudes from -90 to 90 in degrees. Got 91 in row 1345"):
        nf.LocalGPRegressor(**PLANNED).fit(streamed(wrong))
    da = pytest.importorskip("dask.array", reason="Dask is not installed")
    with pytest.raises(ValueError, match="row 345 of partition 1"):
        nf.LocalGPRegressor(**PLANNED).fit(da.from_array(wrong, chunks=(1000, 2)), da.from_array(Y, chunks=1000))


def test_predictions_for_rows_that_are_no_degrees(from_source):
    with pytest.raises(ValueError, match="swapped"):
        from_source.predict(ArraySource(NEW[:, ::-1]))


def test_a_warning_where_degrees_of_a_source_are_taken_for_lengths():
    rows = BatchSource(lambda: iter([(X[:300], Y[:300])]), names=["lon", "lat"])
    with pytest.warns(UserWarning, match="metric='sphere' measures in km"):
        nf.LocalGPRegressor(**{**GIVEN, "metric": "auto", "length_scale": 5.0}, random_state=0).fit(rows)


def test_questions_far_from_a_source_are_told(from_source):
    with pytest.warns(UserWarning, match="length scales outside of the data"):
        from_source.predict(np.array([[0.0, -60.0]]))
