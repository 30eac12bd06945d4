"""The name `nearfield` on xarray's DataArrays."""

from __future__ import annotations

from typing import Any

try:
    import xarray as xr
except ImportError:
    raise ImportError("Rasters need xarray: pip install 'nearfield[raster]'.") from None

from .filling import fill

_register: Any = xr.register_dataarray_accessor


class GapFiller:
    """What nearfield does for a DataArray: `da.nearfield.fill()`."""

    def __init__(self, array: xr.DataArray) -> None:
        self._array = array

    def fill(self, return_std: bool = False, **options: Any) -> Any:
        """Fill the gaps; see `nearfield.raster.fill` for the options and the answer."""
        return fill(self._array, return_std, **options)


_register("nearfield")(GapFiller)
