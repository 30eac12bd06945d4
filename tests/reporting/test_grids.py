import sys

import numpy as np
import pytest

import nearfield as nf
from nearfield.sources import ArraySource

xr = pytest.importorskip("xarray")
pd = pytest.importorskip("pandas")

FIXED = {"length_scale": 1.0, "signal_variance": 1.0, "noise_variance": 0.09}


@pytest.fixture(scope="module")
def plane():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.uniform([0, 10], [5, 14], (80, 2)), columns=["lon", "lat"])
    return nf.ExactGPRegressor(**FIXED).fit(X, np.sin(X["lon"] + X["lat"])), X


def test_a_grid_is_the_predictions_at_its_coordinates(plane):
    model, X = plane
    grid = model.predict_grid(size={"lon": 7, "lat": 4})
    assert grid["mean"].dims == ("lon", "lat")
    assert grid["mean"].shape == grid["std"].shape == (7, 4)
    assert float(grid.lon.min()) == X["lon"].min()
    assert float(grid.lat.max()) == X["lat"].max()
    place = grid.isel(lon=5, lat=2)
    mean, std = model.predict(pd.DataFrame({"lon": [place.lon], "lat": [place.lat]}, dtype=float), return_std=True)
    assert float(place["mean"]) == pytest.approx(mean[0])
    assert float(place["std"]) == pytest.approx(std[0])


def test_axes_by_coordinates_range_and_number(plane):
    model, _ = plane
    grid = model.predict_grid({"lon": [1.0, 1.5, 4.0], "lat": (11, 13)}, spacing=0.5)
    assert grid["mean"].shape == (3, 5)
    np.testing.assert_allclose(grid.lat, [11, 11.5, 12, 12.5, 13])
    held = model.predict_grid({"lat": 12.0}, size=6)
    assert held["mean"].dims == ("lon",)
    assert float(held.lat) == 12.0
    by_place = model.predict_grid([[1.0, 1.5, 4.0], (11, 13)], size=5)
    np.testing.assert_allclose(by_place["mean"], grid["mean"])


def test_noise_widens_the_std(plane):
    model, _ = plane
    quiet, noisy = model.predict_grid(size=3), model.predict_grid(size=3, include_noise=True)
    np.testing.assert_allclose(noisy["std"] ** 2 - quiet["std"] ** 2, 0.09)


def test_columns_without_names_and_several_targets():
    X = np.random.default_rng(0).uniform(0, 3, (40, 2))
    model = nf.LocalGPRegressor(**FIXED).fit(X, np.column_stack([X[:, 0], X[:, 1]]))
    grid = model.predict_grid(size=3)
    assert grid["mean"].dims == ("x0", "x1", "target")
    assert grid["std"].shape == (3, 3, 2)
    assert grid.attrs["kl_from_exact_in_nats_per_point"] == 0


def test_a_grid_survives_netcdf(plane, tmp_path):
    grid = plane[0].predict_grid(size=5)
    grid.to_netcdf(tmp_path / "grid.nc", engine="scipy")
    with xr.open_dataset(tmp_path / "grid.nc", engine="scipy") as back:
        xr.testing.assert_allclose(back.load(), grid)
        assert back.attrs["noise_variance"] == pytest.approx(0.09)
        assert "nearfield" in back.attrs["source"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"axes": {"lno": [1.0]}}, "lno.*lon, lat"),
        ({"axes": [[1.0]]}, "2 columns"),
        ({"axes": {"lon": [np.nan]}}, "lon.*finite"),
        ({"axes": {"lon": (2, 1)}}, "lon"),
        ({"axes": 3.0}, "axes must be a mapping.*Got 3.0"),
        ({"axes": "ab"}, "axes must be a mapping.*Got 'ab'"),
        ({"axes": {"lon": "a"}}, "axis 'lon' must be finite numbers.*Got 'a'"),
        ({"axes": {"lon": [1.0, "a"]}}, "axis 'lon' must be finite numbers"),
        ({"axes": {"lon": [[1.0], [2.0, 3.0]]}}, "axis 'lon' must be finite numbers"),
        ({"size": 0}, "size.*lon"),
        ({"spacing": -1.0}, "spacing.*lon"),
        ({"size": 10**7}, "smaller"),
    ],
)
def test_axes_that_make_no_grid_are_refused(plane, options, words):
    with pytest.raises((ValueError, MemoryError), match=words):
        plane[0].predict_grid(**options)


def test_a_column_with_the_name_of_an_answer_is_refused():
    X = pd.DataFrame({"mean": [0.0, 1.0, 2.0]})
    model = nf.ExactGPRegressor(**FIXED).fit(X, [0.0, 1.0, 2.0])
    with pytest.raises(ValueError, match="'mean'"):
        model.predict_grid()


def test_a_model_without_training_data_needs_axes():
    X = np.linspace(0, 3, 20)[:, None]
    model = nf.FeatureGPRegressor(nf.TaylorFeatures(8), **FIXED, random_state=0).fit(X, X[:, 0])
    with pytest.raises(ValueError, match="does not keep its training data; give axes, with coordinates of 'x0'"):
        model.predict_grid()
    assert model.predict_grid({"x0": (0, 1)}, size=4)["mean"].shape == (4,)


def test_a_model_that_forgot_its_training_data_needs_axes():
    X = np.linspace(0, 3, 20)[:, None]
    model = nf.LocalGPRegressor(**FIXED).fit(X, X[:, 0]).partial_fit(ArraySource(X[:0], X[:0, 0]), forget=True)
    with pytest.raises(ValueError, match="has forgotten its training data; give axes"):
        model.predict_grid()


@pytest.mark.parametrize("n_targets", [1, 2])
def test_a_grid_with_every_column_held_is_a_point(n_targets):
    X = np.linspace(0, 3, 20)[:, None]
    y = X[:, 0] if n_targets == 1 else np.column_stack([X, -X])
    model = nf.ExactGPRegressor(**FIXED).fit(X, y)
    grid = model.predict_grid({"x0": 2.0})
    assert float(grid.x0) == 2.0
    np.testing.assert_allclose(grid["mean"], np.squeeze(model.predict([[2.0]])))


def test_a_constant_column_is_held():
    X = np.column_stack([np.linspace(0, 3, 20), np.full(20, 7.0)])
    grid = nf.ExactGPRegressor(**FIXED).fit(X, X[:, 0]).predict_grid(size=5)
    assert grid["mean"].dims == ("x0",)
    assert float(grid.x1) == 7.0


def test_without_xarray_one_sentence_says_what_to_install(plane, monkeypatch):
    monkeypatch.setitem(sys.modules, "xarray", None)
    with pytest.raises(ImportError, match=r"nearfield\[grid\]"):
        plane[0].predict_grid()
