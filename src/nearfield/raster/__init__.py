"""Gaps of rasters, filled in one line: importing this gives every xarray DataArray a `.nearfield` with `fill`.

import nearfield.raster
filled = image.nearfield.fill()
"""

from .accessor import GapFiller
from .filling import fill

__all__ = ["GapFiller", "fill"]
