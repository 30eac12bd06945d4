"""Gaps of a raster filled by a Gaussian process of the cells around them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

import numpy as np
from sklearn.base import clone

from ..common.progress import display
from ..common.warnings import warn
from ..estimators import LocalGPRegressor
from .slices import LEAST, Filler, gaps_of

DISTANCE = "kl_from_exact_in_nats_per_point"
_TIMES = ("time", "t", "date", "day", "month", "year")


def fill(
    array: Any,
    return_std: bool = False,
    *,
    dims: Sequence[str] | None = None,
    smooth: bool = False,
    include_noise: bool = False,
    max_distance: float | None = None,
    max_std: float | None = None,
    model: Any = None,
    progress: Any = None,
    **parameters: Any,
) -> Any:
    """Fill the gaps of a raster: cells that are NaN, infinite, or the fill value of an integer array.

    Coordinates are taken as they are: longitude and latitude (by name, units or coordinate reference system) are
    places on the earth, with distances in km; times count in days; dimensions without coordinates count their cells.
    They may descend, be irregular, or be two-dimensional, as longitude and latitude of a curved grid.

    Parameters
    ----------
    array : xarray.DataArray
        Of two dimensions, or a stack of such. Of an array with chunks of Dask values are counted at once, and the
        fullest slice of a series in time is learnt from; slices are filled when they are computed, each by a task that
        holds it whole. The answer has the same chunks.
    return_std : bool, default=False
        A Dataset of `mean` and `std` instead of the DataArray alone; `std` is 0 where the raster has a value.
    dims : sequence of str or None, default=None
        Dimensions that the field varies over. None is the last two: slices of a stack are then filled apart, and
        hyperparameters are learnt for each, but for a stack in time only from the slice that has most values. With
        ("time", "y", "x"), cells near in time help as well.
    smooth : bool, default=False
        Replace values that are there by the mean of the process too, which leaves their noise out.
    include_noise : bool, default=False
        Standard deviations of values as they would be measured, instead of those of the field without noise.
    max_distance : float or None, default=None
        Leave gaps that are farther from all values than this, in the units of the coordinates or in km on the earth.
    max_std : float or None, default=None
        Leave gaps where the standard deviation is larger.
    model : regressor or None, default=None
        What to fit, unfitted; None is `LocalGPRegressor(random_state=0)`.
    progress : callable, bool or None, default=None
        See `LocalGPRegressor`; predictions are reported as well.
    **parameters
        Parameters of the regressor, such as `tolerance`.

    Returns
    -------
    filled : DataArray, or Dataset with `mean` and `std` if `return_std`
        With the coordinates, attributes, encoding and order of the raster. The attribute
        `kl_from_exact_in_nats_per_point` is the measured distance from the exact Gaussian process, of the worst slice;
        with chunks of Dask it is a coordinate instead, one number per slice, yet to be computed.
    """
    import xarray as xr

    if not isinstance(array, xr.DataArray):
        raise TypeError(f"fill takes a DataArray. Got {type(array).__name__}.")
    if progress is True:  # one line for all slices
        progress = display()
    kept = _dims(array, dims)
    regressor = LocalGPRegressor(random_state=0) if model is None else clone(model)
    regressor.set_params(**parameters, progress=progress)
    filler = Filler(regressor, smooth, include_noise, max_distance, max_std, progress)
    gaps = gaps_of(array).sum(kept).values.ravel()  # per slice, as are values
    values = array.size // len(gaps) - gaps
    if values.max() < LEAST:
        raise ValueError(
            f"There is nothing to fill the gaps of {array.name or 'the array'} from: "
            f"no slice has {LEAST} cells with a value."
        )
    places = list(_places(array, kept))
    is_filled = (values >= LEAST) & ((gaps > 0) | smooth)
    _say(array, [place for place, left in zip(places, (values < LEAST) & (gaps > 0), strict=True) if left], len(places))
    if not is_filled.any():
        warn(f"{array.name or 'the array'} has no gaps to fill; it is given back as it is.")
    order = [places[i] for i in np.argsort(-values, kind="stable") if is_filled[i]]
    is_series = _is_series(array, kept)
    if array.chunks is not None:
        from . import lazily

        mean, std, distances = lazily.filled(array, kept, order, filler, is_series)
        others = [dim for dim in array.dims if dim not in kept]
        return _answer(array, mean, std, return_std).assign_coords({DISTANCE: (others, distances)})
    mean, std = array.values.astype(_type_of(array)), np.zeros(array.shape, dtype=_type_of(array))
    mean[gaps_of(array).values] = std[gaps_of(array).values] = np.nan
    told, learnt = list[float | None](), dict[str, Any]()
    for place in order:
        where = tuple(place.get(dim, slice(None)) for dim in array.dims)
        filled = filler(array.isel(place), learnt)
        mean[where], std[where] = filled.mean, filled.std
        learnt = learnt or (filled.learnt if is_series else {})
        told.append(filled.divergence)
    answer = _answer(array, mean, std, return_std)
    if told and None not in told:
        (answer["mean"] if return_std else answer).attrs[DISTANCE] = float(max(d for d in told if d is not None))
    return answer


# ---- slices ------------------------------------------------------------------------------------------------------


def _dims(array: Any, dims: Sequence[str] | None) -> list[Any]:
    """Dimensions that the field varies over."""
    if array.ndim < 1 or array.size == 0:
        raise ValueError(f"An array to fill must have cells. Got shape {array.shape}.")
    if dims is None:
        return list(array.dims[-2:])
    named = [dims] if isinstance(dims, str) else list(dims)
    for dim in named:
        if dim not in array.dims:
            raise ValueError(f"dims names {dim!r}, which is no dimension; those are {', '.join(map(str, array.dims))}.")
    return named


def _places(array: Any, kept: list[Any]) -> Iterator[dict[Any, int]]:
    """Where the slices are, in the order of the array."""
    others = [dim for dim in array.dims if dim not in kept]
    for numbers in product(*(range(array.sizes[dim]) for dim in others)):
        yield dict(zip(others, numbers, strict=True))


def _is_series(array: Any, kept: list[Any]) -> bool:
    """Whether slices are the same thing at other times, and not other things, such as bands of an image."""
    others = [dim for dim in array.dims if dim not in kept]
    return all(array[dim].dtype.kind == "M" or str(dim).casefold() in _TIMES for dim in others)


def _say(array: Any, empty: list[dict[Any, int]], n_slices: int) -> None:
    """Tell of slices that stay as they are."""
    if empty:
        first = ", ".join(f"{dim} {number}" for dim, number in empty[0].items())
        warn(
            f"{len(empty)} of {n_slices} slices of {array.name or 'the array'} have fewer than {LEAST} values and stay "
            f"as they are, the first at {first}: dims={tuple(map(str, array.dims))!r} fills them from their neighbours."
        )


# ---- the answer --------------------------------------------------------------------------------------------------


def _type_of(array: Any) -> Any:
    """Type of the numbers of the answer."""
    return np.float32 if array.dtype == np.float32 else np.float64


def _answer(array: Any, mean: Any, std: Any, return_std: bool) -> Any:
    """Arrays of the shape of the raster as a DataArray, or a Dataset of both, with what the raster says of itself."""
    filled = array.copy(data=mean)
    left_out = ("_FillValue", "missing_value", DISTANCE)  # what an earlier fill measured says nothing of this one
    filled.attrs = {key: value for key, value in array.attrs.items() if key not in left_out}
    filled.encoding = _encoding(array)
    if not return_std:
        return filled
    words = {"long_name": f"standard deviation of {array.attrs.get('long_name', array.name or 'the mean')}"}
    if "units" in array.attrs:
        words["units"] = array.attrs["units"]
    spread = array.copy(data=std)
    spread.attrs, spread.encoding = words, {}
    both = filled.rename("mean").to_dataset().assign(std=spread)
    both["mean"].encoding = filled.encoding
    return both


def _encoding(array: Any) -> dict[str, Any]:
    """How the raster is written to files: as before, but never as whole numbers that were none of the model's."""
    encoding = dict(array.encoding)
    is_whole = np.dtype(encoding.get("dtype", np.float64)).kind in "iu"
    if is_whole and "scale_factor" not in encoding:
        for key in ("dtype", "_FillValue", "missing_value"):
            encoding.pop(key, None)
    return encoding
