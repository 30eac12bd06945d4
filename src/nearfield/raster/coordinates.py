"""Coordinates of a DataArray as columns of numbers: degrees, lengths, times."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..common.sphere import are_degrees, degree_columns
from ..common.types import Floats

DAY = np.timedelta64(1, "D")
_DEGREES = {"degrees_east": "lon", "degrees_north": "lat", "degree_east": "lon", "degree_north": "lat"}
_NAMES = {"longitude": "lon", "latitude": "lat"}


@dataclass(frozen=True, eq=False)
class Columns:
    """Columns of numbers, one row per cell of an array.

    Attributes
    ----------
    names : list of str
    X : ndarray of shape (n, d)
        Cells in the order of the array's own.
    on_earth : bool
        Whether the first two are longitude and latitude in degrees.
    has_time : bool
        Whether one of them is time, in days.
    """

    names: list[str]
    X: Floats
    on_earth: bool
    has_time: bool


def columns_of(array: Any) -> Columns:
    """Columns of a DataArray: one per dimension, or longitude and latitude of each cell where coordinates tell."""
    places = _cells_in_degrees(array)
    left = [dim for dim in array.dims if places is None or dim not in places["lon"].dims]
    # xarray numbers the cells of a dimension without coordinates
    coordinates = {**(places or {}), **{str(dim): array[dim] for dim in left}}
    shaped = [coordinate.broadcast_like(array).transpose(*array.dims) for coordinate in coordinates.values()]
    kinds = [coordinate.dtype.kind for coordinate in coordinates.values()]
    columns = {name: _numbers(name, coordinate.values) for name, coordinate in zip(coordinates, shaped, strict=True)}
    names, on_earth = _earth_first(array, coordinates, columns)
    X = np.stack([columns[name].ravel() for name in names], axis=1)
    return Columns(names, X, on_earth, any(kind in "mM" for kind in kinds))


def _cells_in_degrees(array: Any) -> dict[str, Any] | None:
    """Longitude and latitude of each cell, where they are coordinates of two dimensions, as of a curved grid."""
    wide = {name: c for name, c in array.coords.items() if c.ndim == 2 and set(c.dims) <= set(array.dims)}
    kinds = {_kind(name, coordinate): coordinate for name, coordinate in wide.items()}
    return {"lon": kinds["lon"], "lat": kinds["lat"]} if {"lon", "lat"} <= set(kinds) else None


def _kind(name: Any, coordinate: Any) -> str:
    """What a coordinate says that it is, by its attributes or its name: lon, lat or nothing."""
    attributes = coordinate.attrs
    told = _DEGREES.get(str(attributes.get("units", ""))) or _NAMES.get(str(attributes.get("standard_name", "")))
    if told:
        return told
    if degree_columns([name, "lat"]) is not None:
        return "lon"
    return "lat" if degree_columns(["lon", name]) is not None else ""


def _earth_first(array: Any, coordinates: dict[str, Any], columns: dict[str, Floats]) -> tuple[list[str], bool]:
    """Names with longitude and latitude first, and whether there are such: by what coordinates say, or a CRS."""
    kinds = {_kind(name, coordinate): name for name, coordinate in coordinates.items()}
    if _has_geographic_crs(array) and {"x", "y"} <= set(columns):
        kinds = {"lon": "x", "lat": "y"}
    if not {"lon", "lat"} <= set(kinds):
        return list(columns), False
    first = [kinds["lon"], kinds["lat"]]
    if not are_degrees(*(columns[name].ravel() for name in first)):
        raise ValueError(
            f"The coordinates {first[0]!r} and {first[1]!r} are said to be degrees, but go beyond 360 and 90: if they "
            "are metres, set the coordinate reference system right, or rename them."
        )
    return first + [name for name in columns if name not in first], True


def _has_geographic_crs(array: Any) -> bool:
    """Whether a coordinate holds a coordinate reference system in degrees, as rioxarray and CF conventions have it."""
    for coordinate in array.coords.values():
        text = str(coordinate.attrs.get("crs_wkt", coordinate.attrs.get("spatial_ref", "")))
        if text:
            return text.lstrip().upper().startswith(("GEOGCRS", "GEOGCS", "GEODCRS"))
    return False


def _numbers(name: str, values: Any) -> Floats:
    """Coordinates as numbers; times in days from the first."""
    if values.dtype.kind in "mM":
        if np.isnat(values).any():
            raise ValueError(f"The coordinate {name!r} has times that are missing.")
        numbers = (values - values.min()) / DAY
    elif values.dtype.kind in "iufb":
        numbers = values.astype(np.float64)
    else:
        kind = type(values.ravel()[0]).__name__ if values.size else str(values.dtype)
        raise ValueError(f"The coordinate {name!r} must hold numbers or times (datetime64). Got {kind}.")
    if not np.isfinite(numbers).all():
        raise ValueError(f"The coordinate {name!r} has values that are not finite.")
    result: Floats = numbers
    return result
