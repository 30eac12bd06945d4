"""Where the data are: a warning for questions far outside, and for columns that cannot share a length scale."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..common.arrays import as_doubles, column_range, like, namespace, on_host
from ..common.sphere import N_CHORD_COLUMNS
from ..common.types import Booleans, Floats
from ..common.warnings import warn

FAR = 3.0  # length scales from the box around the data, where correlations are below 0.02
BEYOND = 2.0  # times as far from the box as it is wide, whatever the longest length scale
UNLIKE = 1000.0  # times as wide spread is a column as another


def box_of(points: Any) -> Floats:
    """Least and largest value of each column of points (n, d), as rows."""
    if isinstance(points, np.ndarray):
        return np.stack(column_range(points)).astype(np.float64)
    xp = namespace(points)
    return np.stack([as_doubles(xp.min(points, axis=0)), as_doubles(xp.max(points, axis=0))])


def joined(first: Floats, second: Floats) -> Floats:
    """The box around two boxes."""
    return np.stack([np.minimum(first[0], second[0]), np.maximum(first[1], second[1])])


def are_outside(box: Floats, reach: Floats, points: Any) -> Booleans:
    """Which points (m, d) are farther than `reach` (d,) or (1,) outside of the box in some column."""
    low, high = like(box[0] - reach, points), like(box[1] + reach, points)
    if isinstance(points, np.ndarray) and len(points):
        around = box_of(points)
        if np.all(around[0] >= low) and np.all(around[1] <= high):  # sooner known, and nearly always so
            return np.zeros(len(points), dtype=bool)
    result: Booleans = on_host(namespace(points).any((points < low) | (points > high), axis=1))
    return result


def outside_message(
    n_outside: int, n: int, first: int, are_swapped: bool, has_drift: bool = False, is_silent: bool = True
) -> str:
    """Sentence about points outside: where the data are silent, or are extrapolated by a long length scale."""
    share = f"{n_outside} of {n} points lie" if n > 1 else "The point lies"
    where = f", the first of them in row {first}" if n > 1 else ""
    hint = " With the first two coordinates swapped they would be inside: is that it?" if are_swapped else ""
    if not is_silent:
        wide = f"more than {BEYOND:g} times as far outside of the data as these extend"
        return f"{share} {wide}{where}: all that is said there is extrapolated.{hint}"
    answers = "the drift alone" if has_drift else "the prior"
    return f"{share} more than {FAR:g} length scales outside of the data{where}: {answers} answers there.{hint}"


class Outside:
    """Counts points outside of a model's data, in batches that come one after the other."""

    def __init__(self, model: Any) -> None:
        self._model, self._box = model, model._box_of_data()
        scales = np.asarray(model.kernel_.length_scales)
        self._reach = self._silence = FAR * scales.max(axis=0)  # beyond, the data say nothing
        self._has_drift, self._is_silent = hasattr(model, "drift_coef_"), True
        if self._box is not None and not self._has_drift:
            self._reach = np.minimum(self._silence, self._extrapolated(self._box, FAR * scales.min(axis=0)))
        self.n = self.n_outside = 0
        self.first: int | None = None
        self._swapped = True

    def _extrapolated(self, box: Floats, least: Floats) -> Floats:
        """How far outside of the box all is extrapolated; the columns of the earth are as wide as the widest."""
        extents = box[1] - box[0]
        if self._model.metric_ == "sphere":
            extents[:N_CHORD_COLUMNS] = extents[:N_CHORD_COLUMNS].max()
        return np.where(extents > 0, np.maximum(BEYOND * extents, least), np.inf)

    def add(self, X: Any) -> None:
        """Take in rows (m, n_features) in the columns of the user."""
        if self._box is None or len(X) == 0:
            self.n += len(X)
            return
        inner = self._model._inner(X)
        outside = are_outside(self._box, self._reach, inner)
        if outside.any():
            self._is_silent = self._is_silent and not np.any(outside & ~are_outside(self._box, self._silence, inner))
            if self.first is None:
                self.first = self.n + int(np.argmax(outside))
            self._swapped = self._swapped and self._inside_if_swapped(X, outside)
        self.n, self.n_outside = self.n + len(X), self.n_outside + int(outside.sum())

    def _inside_if_swapped(self, X: Any, outside: Booleans) -> bool:
        rows, places = as_doubles(X)[outside], self._model.coordinates_[:2]
        if len(places) < 2 or self._box is None:
            return False
        swapped = rows.copy()
        swapped[:, places] = rows[:, places[::-1]]
        return not are_outside(self._box, self._reach, self._model._inner(swapped)).any()

    def message(self, counted_from: int = 0) -> str | None:
        """What to say of them; None where there are none."""
        if self.first is None:
            return None
        first = self.first + counted_from
        return outside_message(self.n_outside, self.n, first, self._swapped, self._has_drift, self._is_silent)


def warn_of_outside(model: Any, X: Any) -> None:
    """Warn once where points (m, n_features) are far outside of the data."""
    outside = Outside(model)
    outside.add(X)
    message = outside.message()
    if message is not None:
        warn(message)


def warn_of_unlike_columns(points: Floats, names: Any, are_rotated: bool = False) -> None:
    """Warn where columns (n, d) of very different spread are to share a length scale, or to be rotated."""
    spreads = np.array([column.std() for column in as_doubles(points).T])
    if len(spreads) < 2 or not (spreads > 0).any():
        return
    wide, narrow = int(np.argmax(spreads)), int(np.argmin(np.where(spreads > 0, spreads, np.inf)))
    ratio = spreads[wide] / spreads[narrow]
    if ratio > UNLIKE:
        first, second = (repr(str(names[j])) if names is not None else str(j) for j in (wide, narrow))
        share = "and they share a length scale, so that the latter says nothing: ard=True learns one for each, or"
        mixed = "and rotated axes are directions among columns of like units: take anisotropy='axes', or"
        warn(
            f"Column {first} spreads {ratio:.0f} times as wide as column {second}, {mixed if are_rotated else share} "
            "bring them to like units first."
        )
