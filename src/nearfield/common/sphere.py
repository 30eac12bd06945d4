"""Places on the earth: longitude and latitude in degrees as points of a sphere, in km, so that distances are chords.

A chord is the straight line through the earth. Up to 3000 km it is less than 1 % shorter than the way along the ground,
and kernels that are valid in space are valid for it everywhere, across the date line and at the poles.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .arrays import Array, as_doubles, namespace
from .types import Floats

EARTH_RADIUS = 6371.0088  # mean, in km
N_CHORD_COLUMNS = 3  # x, y, z take the place of two columns
LONGITUDES = frozenset({"lon", "lons", "long", "lng", "longitude", "londeg", "longitudedeg", "decimallongitude"})
LATITUDES = frozenset({"lat", "lats", "latitude", "latdeg", "latitudedeg", "decimallatitude"})
_ROUNDING = 1e-6  # degrees beyond a pole that a file may have put a place
_FARTHEST_LONGITUDE = 360.0
_STRAY = 0.25  # of all latitudes: so many beyond 90 are slips, and more of them are longitudes
_DISTORTED = 1.5  # times as long is a degree of longitude in one part of the data as in another


def numbered_row(number: int) -> str:
    """What a message calls a row."""
    return f"row {number}"


@dataclass(frozen=True)
class Sphere:
    """Which columns hold longitude and latitude, and where the data lie.

    Axes point up, east and north from the middle of the data. Kernels do not care, but a region is then a thin sheet
    along two of three axes, and boxes around it are mostly full.

    Attributes
    ----------
    longitude, latitude : int
        Numbers of the columns.
    meridian, parallel : float
        Longitude and latitude of the middle of the data. Longitudes are given back within 180 degrees of it.
    """

    longitude: int = 0
    latitude: int = 1
    meridian: float = 0.0
    parallel: float = 0.0

    def others(self, n_columns: int) -> list[int]:
        """The columns (of so many) that are neither longitude nor latitude."""
        return [j for j in range(n_columns) if j not in (self.longitude, self.latitude)]

    def points(self, X: Array) -> Array:
        """From rows (n, d) in degrees to rows (n, d + 1): up, east and north in km, then the other columns."""
        xp = namespace(X)
        lon, lat = (X[:, self.longitude] - self.meridian) * (np.pi / 180), X[:, self.latitude] * (np.pi / 180)
        x, y, z = xp.cos(lat) * xp.cos(lon), xp.cos(lat) * xp.sin(lon), xp.sin(lat)
        cos, sin = self._tilt()
        chords = [EARTH_RADIUS * (cos * x + sin * z), EARTH_RADIUS * y, EARTH_RADIUS * (cos * z - sin * x)]
        return xp.stack([*chords, *(X[:, j] for j in self.others(X.shape[1]))], axis=1)

    def places(self, points: Array) -> Array:
        """From rows (n, d + 1) to rows (n, d) in degrees: the inverse of `points`, above or below which they lie."""
        xp = namespace(points)
        up, y, north = (points[:, j] for j in range(N_CHORD_COLUMNS))
        cos, sin = self._tilt()
        x, z = cos * up - sin * north, sin * up + cos * north
        lon = xp.atan2(y, x) * (180 / np.pi) + self.meridian
        lat = xp.atan2(z, xp.sqrt(x * x + y * y)) * (180 / np.pi)
        columns = {self.longitude: lon, self.latitude: lat}
        further = iter(range(N_CHORD_COLUMNS, points.shape[1]))
        return xp.stack(
            [columns[j] if j in columns else points[:, next(further)] for j in range(points.shape[1] - 1)], axis=1
        )

    def _tilt(self) -> tuple[float, float]:
        angle = np.radians(self.parallel)
        return float(np.cos(angle)), float(np.sin(angle))

    def onto(self, points: Floats) -> Floats:
        """Points (n, d + 1) moved along the vertical to the surface; the middle of the earth has no vertical."""
        distance = np.linalg.norm(points[:, :N_CHORD_COLUMNS], axis=1, keepdims=True)
        result = points.copy()
        result[:, :N_CHORD_COLUMNS] *= EARTH_RADIUS / np.where(distance > 0, distance, np.inf)
        return result

    def names(self, columns: Sequence[str]) -> list[str]:
        """Names of the columns of `points`."""
        return ["the earth (km)"] * N_CHORD_COLUMNS + [columns[j] for j in self.others(len(columns))]

    def check(
        self, X: Array, names: Sequence[Any] | None = None, row_name: Callable[[int], str] = numbered_row
    ) -> None:
        """Refuse rows (n, d) that hold no degrees, or latitudes where longitudes should be.

        Messages call columns by their names where there are any, and rows by `row_name` of their number.
        """
        lon, lat = (as_doubles(X[:, j]) for j in (self.longitude, self.latitude))
        beyond = np.flatnonzero(np.abs(lat) > 90 + _ROUNDING)
        too_far = np.flatnonzero(np.abs(lon) > _FARTHEST_LONGITUDE + _ROUNDING)
        if len(beyond) == 0 and len(too_far) == 0:
            return
        if len(beyond):
            row, value, j, what = beyond[0], lat[beyond[0]], self.latitude, "latitudes from -90 to 90"
        else:
            row, value, j, what = (
                too_far[0],
                lon[too_far[0]],
                self.longitude,
                "longitudes from -180 to 180, or 0 to 360",
            )
        hint = ""
        could_be = np.nanmax(np.abs(lon)) <= 90 and np.nanmax(np.abs(lat)) <= _FARTHEST_LONGITUDE
        if could_be and len(beyond) > _STRAY * len(lat):
            hint = " Are the two swapped?" + ("" if degree_columns(names) else " Longitude comes first.")
        elif max(np.nanmax(np.abs(lon)), np.nanmax(np.abs(lat))) > 1000:
            hint = " Projected coordinates, such as metres, take no metric."
        column = j if names is None else repr(str(names[j]))
        raise ValueError(
            f"On the sphere, column {column} must hold {what} in degrees. Got {value:g} in {row_name(int(row))}.{hint}"
        )


def sphere_of(X: Array, longitude: int = 0, latitude: int = 1) -> Sphere:
    """Sphere for data (n, d) in degrees, around the middle of them."""
    lon, lat = as_doubles(X[:, longitude]), as_doubles(X[:, latitude])
    if len(lon) == 0:
        return Sphere(longitude, latitude)
    around = np.sort(lon % 360.0)
    gaps = np.diff(np.append(around, around[0] + 360.0))
    widest = int(np.argmax(gaps))
    is_usual = lon.max() <= 180
    if gaps[widest] < 180:  # around the globe
        return Sphere(longitude, latitude, 0.0 if is_usual else 180.0)
    middle = around[widest] + gaps[widest] / 2 + 180.0
    lowest = -180.0 if is_usual else 0.0
    meridian = float((middle - lowest) % 360.0 + lowest)
    return Sphere(longitude, latitude, meridian, float(lat.min() + lat.max()) / 2)


def degree_columns(names: Sequence[Any] | None) -> tuple[int, int] | None:
    """Which columns are named as longitude and latitude are; None where not one of each is."""
    if names is None:
        return None
    plain = [re.sub(r"[^a-z]", "", str(name).casefold()) for name in names]
    lon, lat = ([j for j, name in enumerate(plain) if name in family] for family in (LONGITUDES, LATITUDES))
    return (lon[0], lat[0]) if len(lon) == len(lat) == 1 else None


def are_degrees(lon: Floats, lat: Floats) -> bool:
    """Whether numbers can be longitudes and latitudes."""
    return bool(len(lon) and np.abs(lon).max() <= _FARTHEST_LONGITUDE and np.abs(lat).max() <= 90)


def is_distorted(lon: Floats, lat: Floats) -> bool:
    """Whether degrees are no lengths: data around the globe, or from where meridians are far apart to where not."""
    shortest, longest = (
        float(np.cos(np.radians(np.abs(lat)))[k]) for k in (np.abs(lat).argmax(), np.abs(lat).argmin())
    )
    return float(np.ptp(lon)) > 180 or shortest * _DISTORTED < longest
