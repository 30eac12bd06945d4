"""What the page shows of functions of one column, or of more than two: slices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri

from ...common.types import Floats
from ..inputs import padded_ranges
from . import _categories
from ._maps import Subject, known_points, some_of
from ._numbers import number, pack
from ._svg import Chart, Scale

Band = tuple[Floats, Floats]

MAX_SLICES = 24
POINTS = 160


@dataclass(frozen=True, eq=False)
class Slice:
    """A column `name` from end to end: positions, centre and spread of the function, and bounds of intervals."""

    name: str
    x: Floats
    centre: Floats
    spread: Floats
    bands: tuple[Band, Band]

    def packed(self) -> dict[str, Any]:
        """For the page's script."""
        ends = [float(self.x[0]), float(self.x[-1])]
        return {"name": self.name, "x": ends, "mean": pack(self.centre), "std": pack(self.spread)}


@dataclass(frozen=True, eq=False)
class Pictures:
    """Charts as SVG: of columns, with the same as data for the page's script, and of categories.

    `n_left_out` columns are not shown.
    """

    slices: list[str]
    data: list[dict[str, Any]]
    categories: list[str]
    n_left_out: int


def slices_of(subject: Subject, X: ArrayLike | None, y: ArrayLike | None) -> Pictures:
    """A slice for each column, the others at their medians or most common categories.

    All have the same vertical axis, so that it shows which columns matter. Data are shown where there is one column.
    """
    known = known_points(subject.model, X)
    groups = _categories.groups_of(subject.columns, known)
    grouped = {j for js in groups.values() for j in js}
    plain = [j for j in range(len(subject.columns)) if j not in grouped]
    slices = [_slice(subject, known, j) for j in plain[:MAX_SLICES]]
    shown = dict(list(groups.items())[:MAX_SLICES])
    sides = {name: _side_by_side(subject, known, js) for name, js in shown.items()}
    seen = _observations(subject, X, y) if len(subject.columns) == 1 else None
    bands = [one.bands for one in slices] + [one.bands for one in sides.values()]
    values = [bound for both in bands for band in both for bound in band]
    vertical = Scale.around(np.concatenate(values + ([seen[1]] if seen else [])), subject.target)
    return Pictures(
        [_picture(one, vertical, seen) for one in slices],
        [one.packed() for one in slices],
        [_categories.picture(one.name, one.categories, one.centre, one.bands, vertical) for one in sides.values()],
        len(plain) - len(slices) + len(groups) - len(sides),
    )


@dataclass(frozen=True, eq=False)
class Side:
    """A column `name` at each of its categories: centre of the function, and bounds of intervals."""

    name: str
    categories: list[str]
    centre: Floats
    bands: tuple[Band, Band]


def _side_by_side(subject: Subject, known: Floats, columns: list[int]) -> Side:
    name = subject.columns[columns[0]].partition("=")[0]
    kept = _categories.most_common(columns, known)
    if len(kept) < len(columns):
        name = f"{name} ({len(kept)} most common of {len(columns)})"
    points = np.tile(base_of(known), (len(kept), 1))
    points[:, columns] = 0.0
    points[np.arange(len(kept)), kept] = 1.0
    centre, _, bands = _answers(subject, points)
    return Side(name, [subject.columns[j].partition("=")[2] for j in kept], centre, bands)


def _slice(subject: Subject, known: Floats, j: int) -> Slice:
    whole = known.shape[1] == 1
    low, high = np.percentile(known[:, j], [0, 100] if whole else [1, 99])
    low, high = (low, high) if high > low else padded_ranges(known)[j]
    x = np.linspace(low, high, (3 if whole else 1) * POINTS)
    points = np.tile(base_of(known), (len(x), 1))
    points[:, j] = x
    return Slice(subject.columns[j], x, *_answers(subject, points))


def _answers(subject: Subject, points: Floats) -> tuple[Floats, Floats, tuple[Band, Band]]:
    """Centre and spread of the function, and intervals of observations and of the function."""
    mean, std = subject.predict(points)
    noisy = np.sqrt(std**2 + subject.model.noise_variance_)
    return *subject.shown(mean, std), (_interval(subject, mean, noisy), _interval(subject, mean, std))


def base_of(known: Floats) -> Floats:
    """What slices go through: medians, and of columns of zeros and ones the combination that most rows have.

    Medians would leave a row without any category, where each is a column.
    """
    base: Floats = np.median(known, axis=0)
    flags = _categories.flags_of(known)
    if flags.any():
        combinations, counts = np.unique(np.rint(known[:, flags]), axis=0, return_counts=True)
        base[flags] = combinations[np.argmax(counts)]
    return base


def _interval(subject: Subject, mean: Floats, std: Floats) -> tuple[Floats, Floats]:
    half = ndtri(0.975) * std
    low, high = mean - half, mean + half
    return (low, high) if subject.inverse is None else (subject.inverse(low), subject.inverse(high))


def _observations(subject: Subject, X: ArrayLike | None, y: ArrayLike | None) -> tuple[Floats, Floats] | None:
    if X is None or y is None:
        return None
    given = np.asarray(X)
    rows = some_of(np.arange(len(given)))
    observed = np.asarray(y, dtype=np.float64).reshape(len(given), -1)[rows, 0]
    return given[rows, 0], observed if subject.inverse is None else subject.inverse(observed)


def _picture(one: Slice, vertical: Scale, seen: tuple[Floats, Floats] | None) -> str:
    chart = Chart(
        Scale(float(one.x[0]), float(one.x[-1]), one.name),
        vertical,
        f"{vertical.label} along {one.name}: from {number(one.centre[0])} to {number(one.centre[-1])}, between "
        f"{number(one.centre.min())} and {number(one.centre.max())}, with 95 % intervals",
    )
    for kind, (low, high) in zip(("band", "band inner"), one.bands, strict=True):
        chart.band(one.x, low, high, kind)
    if seen is not None:
        chart.dots(*seen, "dots", float(np.clip(400 / len(seen[0]), 0.15, 0.8)))
    chart.line(one.x, one.centre, "curve")
    return chart.svg()
