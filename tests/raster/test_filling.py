import numpy as np
import pytest

xr = pytest.importorskip("xarray", reason="xarray is not installed")

import nearfield as nf
import nearfield.raster

GIVEN = {"length_scale": 2.0, "signal_variance": 1.0, "noise_variance": 0.01}


def field(y, x):
    return np.sin(x / 2) + np.cos(y / 3)


def image(seed=0, ny=14, nx=20, share=0.3, **options):
    """An image with random gaps and a cloud."""
    rng = np.random.default_rng(seed)
    y, x = np.linspace(10, 0, ny), np.linspace(0, 15, nx)  # rows from north to south
    values = field(y[:, None], x) + 0.1 * rng.standard_normal((ny, nx))
    values[rng.uniform(size=(ny, nx)) < share] = np.nan
    values[3:7, 5:9] = np.nan
    return xr.DataArray(values, {"y": y, "x": x}, name="depth", attrs={"units": "m", "long_name": "depth"}, **options)


def test_gaps_are_filled_by_the_exact_process_and_values_stay():
    gappy = image()
    filled = gappy.nearfield.fill(return_std=True, **GIVEN)
    seen = np.isfinite(gappy.values)
    places = np.stack(np.meshgrid(gappy.y, gappy.x, indexing="ij"), axis=-1)
    exact = nf.ExactGPRegressor(**GIVEN).fit(places[seen], gappy.values[seen])
    mean, std = exact.predict(places[~seen], return_std=True)
    np.testing.assert_allclose(filled["mean"].values[~seen], mean, atol=1e-8)
    np.testing.assert_allclose(filled["std"].values[~seen], std, atol=1e-8)
    np.testing.assert_array_equal(filled["mean"].values[seen], gappy.values[seen])
    assert not filled["std"].values[seen].any()
    assert filled["mean"].attrs["units"] == "m"
    assert filled["std"].attrs["long_name"] == "standard deviation of depth"
    assert filled["mean"].attrs["kl_from_exact_in_nats_per_point"] == 0
    alone = gappy.nearfield.fill(**GIVEN)
    assert alone.name == "depth"
    assert alone.dims == gappy.dims
    assert np.isnan(gappy.values).any()  # as it was
    xr.testing.assert_equal(alone, filled["mean"].rename("depth"))


def test_noise_and_smoothing():
    gappy = image()
    quiet, noisy = (gappy.nearfield.fill(True, include_noise=noise, **GIVEN)["std"] for noise in (False, True))
    gaps = np.isnan(gappy.values)
    np.testing.assert_allclose(noisy.values[gaps] ** 2 - quiet.values[gaps] ** 2, 0.01)
    smooth = gappy.nearfield.fill(True, smooth=True, **GIVEN)
    truth = field(gappy.y.values[:, None], gappy.x.values)
    seen = ~gaps
    assert nf.metrics.rmse(smooth["mean"].values[seen], truth[seen]) < nf.metrics.rmse(gappy.values[seen], truth[seen])
    assert (smooth["std"].values > 0).all()


def test_far_or_unsure_gaps_stay():
    gappy = image(share=0.0)
    whole = gappy.nearfield.fill(True, **GIVEN)
    near = gappy.nearfield.fill(True, max_distance=1.0, **GIVEN)
    sure = gappy.nearfield.fill(True, max_std=0.1, **GIVEN)
    assert 0 < int(near["mean"].isnull().sum()) < 16
    assert (np.isnan(near["mean"].values) == np.isnan(near["std"].values)).all()
    np.testing.assert_array_equal(np.isnan(sure["mean"].values), whole["std"].values > 0.1)
    assert np.isnan(sure["mean"].values).any()


def test_longitude_and_latitude_are_places_on_the_earth():
    lat, lon = np.linspace(60, 80, 9), np.linspace(150, 200, 12)
    values = field(lat[:, None] / 4, lon / 10)
    values[4, 5:8] = np.nan
    given = {**GIVEN, "length_scale": 500.0}
    plain = xr.DataArray(values, {"latitude": lat, "longitude": lon})
    places = np.stack(np.meshgrid(lon, lat), axis=-1)
    seen = np.isfinite(values)
    exact = nf.ExactGPRegressor(metric="sphere", **given).fit(places[seen], values[seen])
    expected = exact.predict(places[~seen])
    np.testing.assert_allclose(plain.nearfield.fill(**given).values[~seen], expected, atol=1e-8)
    by_units = plain.rename(latitude="b", longitude="a")
    by_units["a"].attrs["units"], by_units["b"].attrs["units"] = "degrees_east", "degrees_north"
    np.testing.assert_allclose(by_units.nearfield.fill(**given).values[~seen], expected, atol=1e-8)
    by_crs = plain.rename(latitude="y", longitude="x").assign_coords(spatial_ref=0)
    by_crs["spatial_ref"].attrs["crs_wkt"] = 'GEOGCRS["WGS 84", ...]'
    np.testing.assert_allclose(by_crs.nearfield.fill(**given).values[~seen], expected, atol=1e-8)
    curved = xr.DataArray(values, dims=("j", "i"), coords={"lon": (("j", "i"), places[..., 0])})
    curved = curved.assign_coords(lat=(("j", "i"), places[..., 1]))
    np.testing.assert_allclose(curved.nearfield.fill(**given).values[~seen], expected, atol=1e-8)
    by_crs["x"] = by_crs["x"] * 1000
    with pytest.raises(ValueError, match="'x' and 'y' are said to be degrees"):
        by_crs.nearfield.fill(**given)


def stack():
    time = np.array(["2024-01-01", "2024-01-02", "2024-01-04"], dtype="datetime64[ns]")
    parts = [image(seed) for seed in range(3)]
    return xr.concat(parts, "time").assign_coords(time=time)


def test_slices_of_a_stack_are_filled_apart():
    stacked = stack()
    filled = stacked.nearfield.fill(**GIVEN)
    for i in range(3):
        np.testing.assert_allclose(filled[i].values, stacked[i].nearfield.fill(**GIVEN).values, atol=1e-10)


def test_a_stack_in_time_learns_once_and_bands_learn_each():
    parts = {"time": stack(), "band": stack().rename(time="band").assign_coords(band=[1, 2, 3])}
    learnt = {"time": [], "band": []}
    for name, array in parts.items():
        nearfield.raster.fill(array, progress=lambda stage, *_, name=name: learnt[name].append(stage))
    count = {name: sum(stage == "learning: refine" for stage in stages) for name, stages in learnt.items()}
    assert count["band"] > 2 * count["time"] > 0
    assert "predicting" in learnt["time"]


@pytest.mark.parametrize("stated", [False, True])
def test_noise_of_each_slice_is_looked_at_unless_it_is_stated(stated):
    """A later slice is noisy in its western half, and that is where its noise is; the first is noisy nowhere."""
    rng = np.random.default_rng(0)
    y, x = np.arange(25.0), np.arange(25.0)
    values = field(y[:, None], x) + 0.1 * rng.standard_normal((2, 25, 25))
    values[1, :, :12] += 1.2 * rng.standard_normal((25, 12))
    values[0, ::7, ::5] = values[1, ::5, ::3] = np.nan
    series = xr.DataArray(values, {"time": [0, 1], "y": y, "x": x})
    model = nf.ExactGPRegressor(n_restarts=0, noise="auto", random_state=0)
    given = {"noise_variance": 0.01} if stated else {}
    std = series.nearfield.fill(True, include_noise=True, model=model, **given)["std"].values[1, ::5, ::3]
    assert (np.median(std[:, :4]) > 3 * np.median(std[:, 4:])) == (not stated)


def test_time_as_a_dimension_of_the_field():
    stacked = stack()
    stacked[1] = np.nan  # clouds all over
    with pytest.warns(UserWarning, match="1 of 3 slices of depth have fewer than 3 values.*the first at time 1"):
        apart = stacked.nearfield.fill(**GIVEN)
    assert apart[1].isnull().all()
    given = {**GIVEN, "length_scale": [2.0, 2.0, 2.0]}
    whole = stacked.nearfield.fill(dims=("time", "y", "x"), **given)
    assert not whole.isnull().any()
    days = np.array([0.0, 1.0, 3.0])
    places = np.stack(np.meshgrid(days, stacked.y, stacked.x, indexing="ij"), axis=-1)
    seen = np.isfinite(stacked.values)
    exact = nf.ExactGPRegressor(**given).fit(places[seen], stacked.values[seen])
    np.testing.assert_allclose(whole.values[~seen], exact.predict(places[~seen]), atol=1e-8)


def test_chunks_of_dask_are_filled_when_they_are_computed():
    pytest.importorskip("dask", reason="Dask is not installed")
    stacked = stack()
    stacked[1] = image(share=0.0).values
    stacked[1, 3:7, 5:9] = 0.5  # no gaps
    loaded = []

    def noted(block, block_info=None):
        loaded.append(tuple(block_info[0]["chunk-location"]))
        return block

    chunked = stacked.chunk(time=2, y=7, x=20)
    chunked = chunked.copy(data=chunked.data.map_blocks(noted, dtype=float))
    filled = chunked.nearfield.fill(return_std=True, **GIVEN)
    assert len(loaded) <= 4 + 2  # values are counted, and one slice is learnt from
    assert filled["mean"].chunksizes == filled["std"].chunksizes == chunked.chunksizes
    assert filled["mean"].attrs == stacked.attrs
    loaded.clear()
    expected = stacked.nearfield.fill(return_std=True, **GIVEN)
    for name in ("mean", "std"):
        np.testing.assert_allclose(filled[name].isel(time=0).values, expected[name].values[0], atol=1e-10)
    assert {place[0] for place in loaded} == {0}  # chunks of other times stay where they are
    filled = filled.compute()
    for name in ("mean", "std"):
        np.testing.assert_allclose(filled[name].values, expected[name].values, atol=1e-10)
    distances = filled["kl_from_exact_in_nats_per_point"]
    assert distances.dims == ("time",)
    np.testing.assert_array_equal(np.isnan(distances.values), [False, True, False])


@pytest.mark.parametrize("dims", [None, ("time", "y", "x"), ("x", "time")])
def test_chunks_and_dimensions(dims):
    pytest.importorskip("dask", reason="Dask is not installed")
    stacked, given = stack().astype(np.float32), {**GIVEN, "features": "kernel"}
    if dims is not None:
        given["length_scale"] = [2.0] * len(dims)
    chunked = stacked.chunk(time=1, y=5, x=7).nearfield.fill(dims=dims, **given)
    assert chunked.dtype == np.float32
    assert chunked.chunksizes == stacked.chunk(time=1, y=5, x=7).chunksizes
    np.testing.assert_allclose(chunked.values, stacked.nearfield.fill(dims=dims, **given).values, atol=1e-6)


def test_hyperparameters_of_chunks_are_learnt_once():
    pytest.importorskip("dask", reason="Dask is not installed")
    stages = []
    lazy = stack().chunk(time=1).nearfield.fill(progress=lambda stage, *_: stages.append(stage), n_scales=1)
    assert "learning: refine" in stages
    stages.clear()
    lazy.compute()
    assert not stages
    np.testing.assert_allclose(lazy.values, stack().nearfield.fill(n_scales=1).values, atol=1e-8)


def test_chunks_that_cannot_be_filled():
    pytest.importorskip("dask", reason="Dask is not installed")
    with pytest.raises(ValueError, match="nothing to fill the gaps of depth from"):
        (image() * np.nan).rename("depth").chunk(y=3).nearfield.fill()
    with pytest.warns(UserWarning, match="depth has no gaps to fill"):
        whole = image().fillna(1.0).chunk(y=3).nearfield.fill()
    xr.testing.assert_equal(whole.drop_vars("kl_from_exact_in_nats_per_point"), image().fillna(1.0))


def test_whole_numbers_and_their_fill_value():
    whole = (10 * image(share=0.0)).fillna(-99).astype(np.int16).assign_attrs(_FillValue=np.int16(-99))
    filled = whole.nearfield.fill(**{**GIVEN, "signal_variance": 100.0})
    assert filled.dtype == np.float64
    assert (filled.values > -40).all()
    assert "_FillValue" not in filled.attrs
    single = image().astype(np.float32)
    assert single.nearfield.fill(**GIVEN).dtype == np.float32
    masked = image()
    masked = masked.copy(data=np.ma.masked_invalid(masked.values))
    np.testing.assert_allclose(masked.nearfield.fill(**GIVEN).values, image().nearfield.fill(**GIVEN).values)


def test_dimensions_without_coordinates_and_irregular_ones():
    values = image().values
    bare = xr.DataArray(values).nearfield.fill(**GIVEN)
    assert not bare.isnull().any()
    numbered = xr.DataArray(values, {"a": np.arange(14), "b": np.arange(20)}, dims=("a", "b")).nearfield.fill(**GIVEN)
    np.testing.assert_allclose(bare.values, numbered.values)
    order = np.random.default_rng(0).permutation(20)
    shuffled = image().isel(x=order).nearfield.fill(**GIVEN)
    np.testing.assert_allclose(shuffled.values, image().nearfield.fill(**GIVEN).isel(x=order).values, atol=1e-9)


def test_what_cannot_be_filled_is_said():
    whole = image().fillna(1.0)
    with pytest.warns(UserWarning, match="depth has no gaps to fill"):
        xr.testing.assert_equal(whole.nearfield.fill(), whole)
    filled = image().nearfield.fill(**GIVEN)
    with pytest.warns(UserWarning, match="depth has no gaps to fill"):
        again = filled.nearfield.fill()
    assert "kl_from_exact_in_nats_per_point" not in again.attrs  # of another fill
    with pytest.raises(ValueError, match="nothing to fill the gaps of depth from"):
        (image() * np.nan).rename("depth").nearfield.fill()
    with pytest.raises(ValueError, match="dims names 'z', which is no dimension"):
        image().nearfield.fill(dims=("z",))
    with pytest.raises(ValueError, match="Only numbers can be filled"):
        xr.DataArray([["a", "b"], ["c", "d"]]).nearfield.fill()
    with pytest.raises(ValueError, match="'x' must hold numbers or times"):
        image().assign_coords(x=[str(i) for i in range(20)]).nearfield.fill(**GIVEN)
    with pytest.raises(TypeError, match=r"fill takes a DataArray\. Got ndarray"):
        nearfield.raster.fill(np.zeros((2, 2)))


def test_another_regressor():
    gappy = image()
    filled = nearfield.raster.fill(gappy, model=nf.ExactGPRegressor(**GIVEN))
    np.testing.assert_allclose(filled.values, gappy.nearfield.fill(**GIVEN).values, atol=1e-8)
