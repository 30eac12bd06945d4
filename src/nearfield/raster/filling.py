"""Gaps of a raster filled by a Gaussian process of the cells around them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Any

import numpy as np
from sklearn.base import clone

from ..common.progress import display
from ..common.types import Booleans, Floats
from ..common.warnings import warn
from ..estimators import LocalGPRegressor
from ..reporting.inputs import predict_in_chunks
from ..reporting.masks import distances_to_data
from .coordinates import columns_of

LEAST = 3  # cells with values, to learn from
PLACES = 10_000  # cells without, at which the distance from the exact process is measured
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
        Of two dimensions, or a stack of such. Chunks of Dask are loaded slice by slice, and the answer has the same.
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
        `kl_from_exact_in_nats_per_point` is the measured distance from the exact Gaussian process, of the worst slice.
    """
    import xarray as xr

    if not isinstance(array, xr.DataArray):
        raise TypeError(f"fill takes a DataArray. Got {type(array).__name__}.")
    if progress is True:  # one line for all slices
        progress = display()
    kept = _dims(array, dims)
    regressor = LocalGPRegressor(random_state=0) if model is None else clone(model)
    regressor.set_params(**parameters, progress=progress)
    mean = np.empty(array.shape, dtype=np.float32 if array.dtype == np.float32 else np.float64)
    std = np.zeros_like(mean)
    slices = [_Slice.of(array.isel(place), place) for place in _places(array, kept)]
    usable = [s for s in slices if s.n_values >= LEAST]
    if not usable:
        raise ValueError(
            f"There is nothing to fill the gaps of {array.name or 'the array'} from: "
            f"no slice has {LEAST} cells with a value."
        )
    distances, learnt = [], dict[str, Any]()
    for s in sorted(slices, key=lambda s: -s.n_values):
        part = s.part(array)
        values, gaps = _values(part)
        where = tuple(s.place.get(dim, slice(None)) for dim in array.dims)
        mean[where] = np.where(gaps, np.nan, values)
        std[where] = np.where(gaps, np.nan, 0.0)
        if s.n_values < LEAST or not (gaps.any() or smooth):
            continue
        fitted, answer = _filled(part, values, gaps, regressor, learnt, smooth, include_noise, max_distance, progress)
        mean[where], std[where] = _merged(values, gaps, answer, smooth, max_std)
        if not learnt and _is_series(array, kept):
            learnt = {"noise_variance": fitted.noise_variance_, **fitted.kernel_.parameters()}
        distances.append(fitted.report_.divergence if hasattr(fitted, "report_") else 0.0)
    _say(array, slices, bool(distances))
    return _answer(array, mean, std, return_std, distances)


# ---- slices ------------------------------------------------------------------------------------------------------


class _Slice:
    """Where a slice is in the array, and how many cells of it have a value."""

    def __init__(self, place: dict[Any, int], n_values: int, n_gaps: int) -> None:
        self.place, self.n_values, self.n_gaps = place, n_values, n_gaps

    @classmethod
    def of(cls, part: Any, place: dict[Any, int]) -> _Slice:
        gaps = _values(part)[1]
        return cls(place, int(np.sum(~gaps)), int(np.sum(gaps)))

    def part(self, array: Any) -> Any:
        return array.isel(self.place)


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
    others = [dim for dim in array.dims if dim not in kept]
    for numbers in product(*(range(array.sizes[dim]) for dim in others)):
        yield dict(zip(others, numbers, strict=True))


def _is_series(array: Any, kept: list[Any]) -> bool:
    """Whether slices are the same thing at other times, and not other things, such as bands of an image."""
    others = [dim for dim in array.dims if dim not in kept]
    return all(array[dim].dtype.kind == "M" or str(dim).casefold() in _TIMES for dim in others)


def _values(part: Any) -> tuple[Floats, Booleans]:
    """Values of a slice as float64, and which of them are gaps."""
    if part.dtype.kind not in "iufb":
        raise ValueError(f"Only numbers can be filled. Got an array of {part.dtype}.")
    raw = part.values
    values = raw.astype(np.float64)
    gaps = ~np.isfinite(values)
    for name in ("_FillValue", "missing_value"):
        mark = part.attrs.get(name)
        if mark is not None:  # not decoded: the numbers of a file as they are
            gaps |= raw == mark
    return values, gaps


# ---- filling -----------------------------------------------------------------------------------------------------


def _filled(
    part: Any,
    values: Floats,
    gaps: Booleans,
    regressor: Any,
    learnt: dict[str, Any],
    smooth: bool,
    include_noise: bool,
    max_distance: float | None,
    progress: Callable[..., None] | None,
) -> tuple[Any, tuple[Floats, Floats]]:
    """Fitted model of a slice, and its means and standard deviations (shape of the slice, NaN where not asked)."""
    columns = columns_of(part)
    seen = ~gaps.ravel()
    X, y = columns.X[seen], values.ravel()[seen]
    fitted = clone(regressor).set_params(**learnt)
    fitted.set_params(metric="sphere" if columns.on_earth else "euclidean")
    if columns.has_time and len(columns.names) > 1 and fitted.length_scale is None:
        fitted.set_params(ard=True)  # days and lengths share no scale
    asked = np.ones(len(seen), dtype=bool) if smooth else ~seen
    options = {}
    if isinstance(fitted, LocalGPRegressor) and not seen.all():
        options["X_test"] = columns.X[~seen][:: max(int(np.sum(~seen)) // PLACES, 1)]
    fitted.progress = progress
    fitted.fit(X, y, **options)
    if max_distance is not None:
        near = distances_to_data(fitted, columns.X[asked]) <= max_distance
        asked[np.flatnonzero(asked)[~near]] = False
    mean, std = np.full(len(seen), np.nan), np.full(len(seen), np.nan)
    tell = None if progress is None else lambda stage, done: progress(stage, done, 0.0)
    mean[asked], std[asked] = predict_in_chunks(fitted, columns.X[asked], include_noise, tell)
    return fitted, (mean.reshape(values.shape), std.reshape(values.shape))


def _merged(
    values: Floats, gaps: Booleans, answer: tuple[Floats, Floats], smooth: bool, max_std: float | None
) -> tuple[Floats, Floats]:
    """What the raster says, and elsewhere (or everywhere, if `smooth`) what the model does."""
    mean, std = answer
    if max_std is not None:
        unsure = gaps & (std > max_std)
        mean, std = np.where(unsure, np.nan, mean), np.where(unsure, np.nan, std)
    if smooth:
        return mean, std
    return np.where(gaps, mean, values), np.where(gaps, std, 0.0)


def _say(array: Any, slices: list[_Slice], any_filled: bool) -> None:
    name = array.name or "the array"
    if not any_filled:
        warn(f"{name} has no gaps to fill; it is given back as it is.")
    empty = [s.place for s in slices if s.n_values < LEAST and s.n_gaps]
    if empty:
        first = ", ".join(f"{dim} {number}" for dim, number in empty[0].items())
        warn(
            f"{len(empty)} of {len(slices)} slices of {name} have fewer than {LEAST} values and stay as they are, the "
            f"first at {first}: dims={tuple(map(str, array.dims))!r} fills them from their neighbours."
        )


def _answer(array: Any, mean: Floats, std: Floats, return_std: bool, distances: list[float | None]) -> Any:
    told = [distance for distance in distances if distance is not None]
    attributes = {key: value for key, value in array.attrs.items() if key not in ("_FillValue", "missing_value")}
    if told and len(told) == len(distances):
        attributes["kl_from_exact_in_nats_per_point"] = float(max(told))
    chunks = dict(array.chunksizes)
    filled = array.copy(data=mean)
    filled.attrs = attributes
    filled.encoding = _encoding(array)
    if not return_std:
        return filled.chunk(chunks) if chunks else filled
    words = {"long_name": f"standard deviation of {array.attrs.get('long_name', array.name or 'the mean')}"}
    if "units" in array.attrs:
        words["units"] = array.attrs["units"]
    spread = array.copy(data=std)
    spread.attrs, spread.encoding = words, {}
    both = filled.rename("mean").to_dataset().assign(std=spread)
    both["mean"].encoding = filled.encoding
    return both.chunk(chunks) if chunks else both


def _encoding(array: Any) -> dict[str, Any]:
    """How the raster is written to files: as before, but never as whole numbers that were none of the model's."""
    encoding = dict(array.encoding)
    is_whole = np.dtype(encoding.get("dtype", np.float64)).kind in "iu"
    if is_whole and "scale_factor" not in encoding:
        for key in ("dtype", "_FillValue", "missing_value"):
            encoding.pop(key, None)
    return encoding
