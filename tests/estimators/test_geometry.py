import numpy as np
import pytest
from sklearn.linear_model import LinearRegression

gpd = pytest.importorskip("geopandas", reason="GeoPandas is not installed")

import nearfield as nf

GIVEN = {"length_scale": 300.0, "signal_variance": 1.0, "noise_variance": 0.01}


@pytest.fixture(scope="module")
def stations():
    rng = np.random.default_rng(0)
    lon, lat = rng.uniform(5, 15, 60), rng.uniform(45, 55, 60)
    table = {"height": rng.uniform(0, 500, 60)}
    return gpd.GeoDataFrame(table, geometry=gpd.points_from_xy(lon, lat), crs=4326), np.sin(lon) + np.cos(lat)


def test_a_geographic_crs_is_the_sphere_and_predictions_have_a_geometry(stations):
    frame, y = stations
    model = nf.ExactGPRegressor(**GIVEN).fit(frame[["geometry"]], y)
    assert model.metric_ == "sphere"
    assert model.feature_names_in_.tolist() == ["lon", "lat"]
    degrees = np.column_stack([frame.geometry.x, frame.geometry.y])
    plain = nf.ExactGPRegressor(metric="sphere", **GIVEN).fit(degrees, y)
    new = frame.iloc[:7].copy().set_index(np.arange(10, 17))
    np.testing.assert_allclose(model.predict(new[["geometry"]]), plain.predict(degrees[:7]), atol=1e-12)
    np.testing.assert_allclose(model.predict(new.geometry), plain.predict(degrees[:7]), atol=1e-12)
    answers = model.predict_frame(new[["geometry"]], include_noise=True)
    assert isinstance(answers, gpd.GeoDataFrame)
    assert answers.crs == new.crs
    assert answers.index.tolist() == list(range(10, 17))
    assert (answers.geometry == new.geometry).all()
    # The same places in metres are brought to the system of the fit.
    np.testing.assert_allclose(
        model.predict(new[["geometry"]].to_crs(3035)), model.predict(new[["geometry"]]), atol=1e-6
    )


def test_a_projected_crs_is_a_plane_and_further_columns_follow(stations):
    frame, y = stations
    metres = frame.to_crs(3035)
    model = nf.ExactGPRegressor(length_scale=[3e5, 3e5, 1e3], signal_variance=1.0, noise_variance=0.01).fit(metres, y)
    assert model.metric_ == "euclidean"
    assert model.feature_names_in_.tolist() == ["x", "y", "height"]
    np.testing.assert_allclose(model.predict(frame), model.predict(metres), atol=1e-8)
    with pytest.raises(ValueError, match="EPSG:3035, which is projected"):
        nf.ExactGPRegressor(metric="sphere", **GIVEN).fit(metres, y)


def test_files_keep_the_crs(stations, tmp_path):
    frame, y = stations
    model = nf.LocalGPRegressor(**GIVEN).fit(frame[["geometry"]], y)
    nf.save(model, tmp_path / "m.nf")
    metres = frame[["geometry"]].to_crs(3035)
    np.testing.assert_allclose(nf.load(tmp_path / "m.nf").predict(metres), model.predict(metres), atol=1e-10)


def test_what_is_refused(stations):
    frame, y = stations
    nowhere = gpd.GeoDataFrame(geometry=np.asarray(frame.geometry.array))
    with pytest.raises(ValueError, match="no coordinate reference system"):
        nf.ExactGPRegressor(**GIVEN).fit(nowhere, y)
    assert nf.ExactGPRegressor(metric="sphere", **GIVEN).fit(nowhere, y).metric_ == "sphere"
    wrong = frame[["geometry"]].to_crs(3035).set_crs(4326, allow_override=True)
    with pytest.raises(ValueError, match=r"'lat' must hold latitudes .* Projected coordinates"):
        nf.ExactGPRegressor(**GIVEN).fit(wrong, y)
    areas = frame[["geometry"]].to_crs(3035).set_geometry(frame.to_crs(3035).geometry.buffer(10))
    with pytest.raises(ValueError, match=r"must be points\. Got Polygon"):
        nf.ExactGPRegressor(**GIVEN).fit(areas, y)
    twice = frame[["geometry"]].assign(lon=1.0)
    with pytest.raises(ValueError, match="a column 'lon' besides"):
        nf.ExactGPRegressor(**GIVEN).fit(twice, y)


def test_rounds_of_a_mean_model_measure_on_the_earth():
    rng = np.random.default_rng(0)
    lon, lat, height = rng.uniform(0, 30, 80), rng.uniform(60, 80, 80), rng.standard_normal(80)
    y = height + np.sin(np.radians(12 * lon)) + 0.1 * rng.standard_normal(80)
    frame = gpd.GeoDataFrame({"height": height}, geometry=gpd.points_from_xy(lon, lat), crs=4326)
    given = {**GIVEN, "mean": LinearRegression(), "mean_rounds": 2, "random_state": 0}
    model = nf.ExactGPRegressor(**given, coordinates=["lon", "lat"]).fit(frame, y)
    by_hand = nf.ExactGPRegressor(**given, coordinates=[0, 1], metric="sphere")
    by_hand.fit(np.column_stack([lon, lat, height]), y)
    np.testing.assert_allclose(model.mean_.coef_, by_hand.mean_.coef_)
    np.testing.assert_allclose(model.predict(frame), by_hand.predict(np.column_stack([lon, lat, height])))
