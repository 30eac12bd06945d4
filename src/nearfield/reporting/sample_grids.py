"""Functions drawn from the posterior on a grid, as an xarray DataArray."""

from __future__ import annotations

from typing import Any

import numpy as np

from .grids import _attributes, _axes_of, _by_name, _laid_out, _sides
from .inputs import column_names


def sample_grid(sampler: Any, axes: Any, size: Any, spacing: Any, include_noise: bool, like: Any) -> Any:
    """See `Sampler.on_grid`."""
    try:
        import xarray as xr
    except ImportError:
        raise ImportError("A grid needs xarray: pip install 'nearfield[grid]'.") from None
    model = sampler.model
    names = column_names(model)
    if "sample" in names:
        raise ValueError("A column is named 'sample', which a grid cannot tell apart; rename it and fit again.")
    if like is not None:
        axes = {**_axes_of(like, names), **_by_name(axes, names, "axes")}
    sides = _sides(model, names, axes, size, spacing)
    free = {name: side for name, side in sides.items() if side.ndim == 1}
    points = np.stack([side.ravel() for side in np.meshgrid(*sides.values(), indexing="ij")], axis=-1)
    values = sampler._at(points, include_noise)
    dims = [*free, *(["target"] if values.ndim > 2 else []), "sample"]
    shape = (*(len(side) for side in free.values()), *values.shape[1:])
    attributes = {**_attributes(model, include_noise), "title": "draws from a Gaussian process given data"}
    grid = xr.DataArray(values.reshape(shape), dims=dims, coords=sides, name="sample", attrs=attributes)
    return grid if like is None else _laid_out(grid, like, names)
