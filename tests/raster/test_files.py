import numpy as np
import pytest

xr = pytest.importorskip("xarray", reason="xarray is not installed")
pytest.importorskip("typer")

from nearfield import cli


@pytest.fixture
def scene():
    rng = np.random.default_rng(0)
    lat, lon = np.linspace(50, 45, 12), np.linspace(5, 12, 15)
    values = 280 + np.sin(lon) + np.cos(lat)[:, None] + 0.05 * rng.standard_normal((12, 15))
    values[4:8, 3:9] = np.nan
    return xr.DataArray(
        values, {"lat": lat, "lon": lon}, name="temperature", attrs={"units": "K", "standard_name": "air_temperature"}
    )


@pytest.fixture
def netcdf(tmp_path, scene):
    for library in ("h5netcdf", "h5py"):
        pytest.importorskip(library, reason=f"{library} is not installed")
    encoding = {"temperature": {"dtype": "int16", "scale_factor": 0.01, "add_offset": 273.15, "_FillValue": -999}}
    data = scene.to_dataset().assign(count=scene.lat * 0 + 1, clouds=scene.isnull().astype(np.int8))
    data.to_netcdf(tmp_path / "image.nc", engine="h5netcdf", encoding=encoding)
    return tmp_path / "image.nc"


def run(*argv):
    return cli.main([str(a) for a in argv])


def test_netcdf_in_and_out(netcdf, tmp_path, capsys, scene):
    assert run("fill", netcdf, "--variable", "temperature", "--out", tmp_path / "filled.nc") == 0
    said = capsys.readouterr().out
    assert "temperature: 24 of 180 cells filled" in said
    with xr.open_dataset(tmp_path / "filled.nc", engine="h5netcdf") as opened:
        filled = opened["temperature"].load()
    assert not filled.isnull().any()
    assert filled.attrs["units"] == "K"
    assert filled.encoding["dtype"] == np.dtype("int16")
    assert filled.encoding["scale_factor"] == 0.01
    seen = ~scene.isnull().values
    np.testing.assert_allclose(filled.values[seen], scene.values[seen], atol=0.006)
    truth = 280 + np.sin(scene.lon.values) + np.cos(scene.lat.values)[:, None]
    assert np.sqrt(np.mean((filled.values - truth)[~seen] ** 2)) < 0.4
    xr.testing.assert_equal(filled.lat, scene.lat)


def test_the_standard_deviation_too(netcdf, tmp_path):
    out = tmp_path / "filled.nc"
    assert run("fill", netcdf, "--variable", "temperature", "--std", "--max-distance", "60", "--out", out) == 0
    with xr.open_dataset(out, engine="h5netcdf") as opened:
        assert set(opened.data_vars) == {"mean", "std"}
        assert 0 < int(opened["mean"].isnull().sum()) < 24
        assert float(opened["std"].max()) > 0.01


def test_what_is_refused(netcdf, tmp_path, capsys):
    def complaint(*argv):
        capsys.readouterr()
        assert run("fill", *argv) == 2
        return capsys.readouterr().err

    out = tmp_path / "o.nc"
    assert "has no variable 'temprature'. Did you mean 'temperature'?" in complaint(
        netcdf, "--variable", "temprature", "--out", out
    )
    assert "name one (temperature, clouds)" in complaint(netcdf, "--out", out)
    assert "a NetCDF file (.nc) or a GeoTIFF (.tif)" in complaint(netcdf, "--out", tmp_path / "o.png")
    assert "No such file" in complaint(tmp_path / "none.nc", "--out", out)
    assert "--out is the raster itself" in complaint(netcdf, "--variable", "temperature", "--out", netcdf)
    (tmp_path / "text.nc").write_text("no raster")
    assert "cannot be read as NetCDF" in complaint(tmp_path / "text.nc", "--out", out)
    assert "--max-std must be positive" in complaint(netcdf, "--max-std", "0", "--out", out)
    assert "no dimension" in complaint(netcdf, "--variable", "temperature", "--dims", "a", "--out", out)
    assert not out.exists()


@pytest.mark.filterwarnings("ignore:Use `@` matmul:PendingDeprecationWarning")  # in rioxarray
def test_geotiff_in_and_out(tmp_path, scene):
    rioxarray = pytest.importorskip("rioxarray", reason="rioxarray is not installed")
    image = scene.rename(lat="y", lon="x").rio.write_crs(4326).astype(np.float32)
    image.rio.write_nodata(np.nan).rio.to_raster(tmp_path / "image.tif")
    assert run("fill", tmp_path / "image.tif", "--std", "--out", tmp_path / "filled.tif") == 0
    with rioxarray.open_rasterio(tmp_path / "filled.tif") as filled:
        assert filled.rio.crs.to_epsg() == 4326
        assert filled.sizes["band"] == 2
        assert not filled.isnull().any()
        assert filled.attrs["long_name"] == ("mean", "std")
        np.testing.assert_allclose(filled.rio.bounds(), image.rio.bounds())
    assert run("fill", tmp_path / "image.tif", "--out", tmp_path / "alone.tif") == 0
    with rioxarray.open_rasterio(tmp_path / "alone.tif") as filled:
        assert filled.sizes["band"] == 1
