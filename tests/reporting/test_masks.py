import numpy as np
import pytest

import nearfield as nf
from nearfield.reporting.masks import are_inside

xr = pytest.importorskip("xarray")
pd = pytest.importorskip("pandas")

FIXED = {"length_scale": 1.0, "signal_variance": 1.0, "noise_variance": 0.09}
ELL = np.array([[0.0, 0.0], [4.0, 0.0], [4.0, 1.0], [1.0, 1.0], [1.0, 3.0], [0.0, 3.0]])


@pytest.fixture(scope="module")
def model():
    X = pd.DataFrame(np.random.default_rng(0).uniform(0, 4, (40, 2)), columns=["lon", "lat"])
    return nf.ExactGPRegressor(**FIXED).fit(X, np.sin(X["lon"] + X["lat"]))


def test_inside_of_an_outline():
    x, y = np.array([0.5, 3.0, 2.0, 0.5, -1.0]), np.array([2.0, 0.5, 2.0, 3.5, 0.5])
    expected = [True, True, False, False, False]
    assert are_inside(ELL, x, y).tolist() == expected
    assert are_inside(ELL[::-1], x, y).tolist() == expected
    shapely = pytest.importorskip("shapely", reason="Shapely is not installed")
    places = np.random.default_rng(0).uniform(-1, 5, (500, 2)).T
    np.testing.assert_array_equal(are_inside(ELL, *places), are_inside(shapely.Polygon(ELL), *places))
    for wrong in (ELL[:2], "ell", 3):
        with pytest.raises(ValueError, match="at least three corners"):
            are_inside(wrong, x, y)


def test_a_template_gives_its_coordinates_names_and_order(model):
    sides = {"latitude": [3.0, 2.0, 1.0], "longitude": [0.0, 1.0, 2.0, 3.0]}
    template = xr.DataArray(np.zeros((3, 4)), sides).assign_coords(crs=0)
    template["latitude"].attrs["units"] = "degrees_north"
    grid = model.predict_grid(like=template)
    assert grid["mean"].dims == ("latitude", "longitude")
    assert grid["latitude"].attrs["units"] == "degrees_north"
    assert "crs" in grid.coords
    place = grid["mean"].sel(latitude=2.0, longitude=3.0)
    assert float(place) == pytest.approx(model.predict(pd.DataFrame({"lon": [3.0], "lat": [2.0]}))[0])
    with pytest.raises(ValueError, match="none of which is one of the model's columns"):
        model.predict_grid(like=xr.DataArray(np.zeros((2, 2)), dims=("a", "b")))
    with pytest.raises(ValueError, match="must be a DataArray"):
        model.predict_grid(like=np.zeros((2, 2)))


def test_masks_of_all_kinds(model):
    whole = model.predict_grid(size=9)
    mask = np.zeros((9, 9), dtype=bool)
    mask[2:5, 3] = True
    masked = model.predict_grid(size=9, mask=mask)
    np.testing.assert_array_equal(np.isfinite(masked["mean"].values), mask)
    np.testing.assert_allclose(masked["std"].values[mask], whole["std"].values[mask])
    turned = xr.DataArray(mask.T, dims=("lat", "lon"))
    xr.testing.assert_equal(model.predict_grid(size=9, mask=turned)["mean"], masked["mean"])
    outlined = model.predict_grid(size=9, polygon=ELL)
    lon, lat = np.meshgrid(whole.lon, whole.lat, indexing="ij")
    inside = are_inside(ELL, lon.ravel(), lat.ravel()).reshape(9, 9)
    np.testing.assert_array_equal(np.isfinite(outlined["mean"].values), inside)
    near = model.predict_grid(size=9, max_distance=0.2)
    data = model._training_points()
    distance = np.sqrt(((np.stack([lon, lat], -1)[:, :, None] - data) ** 2).sum(-1)).min(-1)
    np.testing.assert_array_equal(np.isfinite(near["mean"].values), distance <= 0.2)
    sure = model.predict_grid(size=9, max_std=0.3)
    np.testing.assert_array_equal(np.isfinite(sure["mean"].values), whole["std"].values <= 0.3)
    for wrong in (mask[:4], mask.astype(int)):
        with pytest.raises(ValueError, match="True or False for each of 9 x 9 places"):
            model.predict_grid(size=9, mask=wrong)


def test_progress(model):
    told = []
    model.predict_grid(size=120, progress=lambda stage, done: told.append((stage, done)))
    assert len(told) == 2
    assert told[-1] == ("predicting", 1.0)
