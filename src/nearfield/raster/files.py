"""Rasters in files: NetCDF by xarray, GeoTIFF by rioxarray where that is installed."""

from __future__ import annotations

import difflib
import os
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from ..common.files import atomic

NETCDF = (".nc", ".nc4", ".h5", ".cdf")
GEOTIFF = (".tif", ".tiff")


def check_name(path: str) -> None:
    """Refuse a file whose name does not say what it is."""
    if Path(path).suffix.lower() not in NETCDF + GEOTIFF:
        raise ValueError(f"{path}: a raster is a NetCDF file (.nc) or a GeoTIFF (.tif).")


def read(path: str, variable: str | None) -> Any:
    """DataArray of a file: the variable of that name, or the only one that there is."""
    if not os.path.isfile(path):
        raise FileNotFoundError(2, "No such file", path)
    return _read_geotiff(path) if Path(path).suffix.lower() in GEOTIFF else _read_netcdf(path, variable)


def _read_geotiff(path: str) -> Any:
    rioxarray = _rioxarray()
    with rioxarray.open_rasterio(path, masked=True) as opened:
        array = opened.load()
    return array.squeeze("band", drop=True) if array.sizes.get("band") == 1 else array


def _read_netcdf(path: str, variable: str | None) -> Any:
    import xarray as xr

    try:
        # What a grid mapping refers to becomes a coordinate, and so stays with the variable.
        opened = xr.open_dataset(path, decode_coords="all", engine=_engine())
    except (OSError, ValueError) as error:
        raise ValueError(f"{path} cannot be read as NetCDF: {' '.join(str(error).split())[:200]}") from None
    with opened:
        names = [str(name) for name, array in opened.data_vars.items() if array.ndim >= 2 and array.dtype.kind in "iuf"]
        if variable is None and len(names) != 1:
            raise ValueError(f"{path} has {len(names)} variables of two dimensions: name one ({', '.join(names[:9])}).")
        name = variable or names[0]
        if name not in opened.data_vars:
            near = difflib.get_close_matches(name, names, 1)
            hint = f"Did you mean {near[0]!r}?" if near else f"It has {', '.join(names[:9]) or 'none'}."
            raise ValueError(f"{path} has no variable {name!r}. {hint}")
        return opened[name].load()


def write(answer: Any, path: str) -> None:
    """Write a DataArray or Dataset, whole or not at all; a GeoTIFF has the standard deviations as further bands."""
    if Path(path).suffix.lower() in GEOTIFF:
        _rioxarray()
        with atomic(path) as temporary:
            _bands(answer).rio.to_raster(temporary, driver="GTiff")
        return
    with atomic(path) as temporary:
        try:
            answer.to_netcdf(temporary, engine=_engine())
        except (TypeError, ValueError) as error:
            raise ValueError(f"{path} cannot be written: {' '.join(str(error).split())[:200]}") from None


def _bands(answer: Any) -> Any:
    """A Dataset of mean and std as one array of bands; a DataArray as it is."""
    import xarray as xr

    if isinstance(answer, xr.DataArray):
        return answer
    bands = [answer[name] for name in answer.data_vars]
    stacked = xr.concat(
        [b if "band" in b.dims else b.expand_dims("band") for b in bands], "band", combine_attrs="drop_conflicts"
    )
    names = [name for name, b in zip(answer.data_vars, bands, strict=True) for _ in range(b.sizes.get("band", 1))]
    stacked = stacked.assign_coords(band=range(1, len(names) + 1))
    stacked.attrs = {"long_name": tuple(map(str, names))}
    stacked.encoding = {}
    return stacked


def _engine() -> str:
    """The library for NetCDF 4."""
    for name, modules in (("h5netcdf", ("h5netcdf", "h5py")), ("netcdf4", ("netCDF4",))):
        with suppress(ImportError):
            for module in modules:
                import_module(module)
            return name
    raise ImportError("NetCDF files need h5netcdf: pip install 'nearfield[raster]'.")


def _rioxarray() -> Any:
    try:
        import rioxarray
    except ImportError:
        raise ImportError("GeoTIFF files need rioxarray: pip install rioxarray.") from None
    return rioxarray
