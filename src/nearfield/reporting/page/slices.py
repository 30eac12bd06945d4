"""What the page shows of functions of one column, or of more than two: slices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri

from ...common.types import Floats
from ..inputs import padded_ranges
from ..numbers import typeset
from . import categories
from .packing import pack
from .subject import Subject, subsample
from .svg import Chart, Scale

Band = tuple[Floats, Floats]

MAX_SLICES = 24
POINTS = 160  # along a slice
MAX_DOTS = 8_000


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
    points = subject.points(X)
    groups = categories.groups_of(subject.columns, points)
    grouped = {j for js in groups.values() for j in js}
    plain = [j for j in range(len(subject.columns)) if j not in grouped]
    slices = [_slice(subject, points, j) for j in plain[:MAX_SLICES]]
    sides = [_side_by_side(subject, points, js) for js in list(groups.values())[:MAX_SLICES]]
    observed = _observations(subject, X, y) if len(subject.columns) == 1 else None
    bands = [shown.bands for shown in slices] + [shown.bands for shown in sides]
    values = [bound for both in bands for band in both for bound in band]
    vertical = Scale.around(np.concatenate(values + ([observed[1]] if observed else [])), subject.target)
    return Pictures(
        [_picture(shown, vertical, observed) for shown in slices],
        [shown.packed() for shown in slices],
        [categories.picture(shown.name, shown.categories, shown.centre, shown.bands, vertical) for shown in sides],
        len(plain) - len(slices) + len(groups) - len(sides),
    )


@dataclass(frozen=True, eq=False)
class Side:
    """A column `name` at each of its categories: centre of the function, and bounds of intervals."""

    name: str
    categories: list[str]
    centre: Floats
    bands: tuple[Band, Band]


def _side_by_side(subject: Subject, points: Floats, columns: list[int]) -> Side:
    name = subject.columns[columns[0]].partition("=")[0]
    kept = categories.most_common(columns, points)
    if len(kept) < len(columns):
        name = f"{name} ({len(kept)} most common of {len(columns)})"
    places = np.tile(base_of(points), (len(kept), 1))
    places[:, columns] = 0.0
    places[np.arange(len(kept)), kept] = 1.0
    centre, _, bands = _answers(subject, places)
    return Side(name, [subject.columns[j].partition("=")[2] for j in kept], centre, bands)


def _slice(subject: Subject, points: Floats, j: int) -> Slice:
    whole = points.shape[1] == 1
    low, high = np.percentile(points[:, j], [0, 100] if whole else [1, 99])
    low, high = (low, high) if high > low else padded_ranges(points)[j]
    x = np.linspace(low, high, (3 if whole else 1) * POINTS)
    places = np.tile(base_of(points), (len(x), 1))
    places[:, j] = x
    return Slice(subject.columns[j], x, *_answers(subject, places))


def _answers(subject: Subject, points: Floats) -> tuple[Floats, Floats, tuple[Band, Band]]:
    """Centre and spread of the function, and intervals of observations and of the function."""
    mean, std = subject.predict(points)
    noisy = np.sqrt(std**2 + subject.model.noise_variance_)
    return *subject.shown(mean, std), (_interval(subject, mean, noisy), _interval(subject, mean, std))


def base_of(points: Floats) -> Floats:
    """What slices go through: medians, and of columns of zeros and ones the combination that most rows have.

    Medians would leave a row without any category, where each is a column.
    """
    base: Floats = np.median(points, axis=0)
    flags = categories.flags_of(points)
    if flags.any():
        combinations, counts = np.unique(np.rint(points[:, flags]), axis=0, return_counts=True)
        base[flags] = combinations[np.argmax(counts)]
    return base


def _interval(subject: Subject, mean: Floats, std: Floats) -> tuple[Floats, Floats]:
    half = ndtri(0.975) * std
    low, high = mean - half, mean + half
    return (low, high) if subject.inverse is None else (subject.inverse(low), subject.inverse(high))


def _observations(subject: Subject, X: ArrayLike | None, y: ArrayLike | None) -> tuple[Floats, Floats] | None:
    if X is None or y is None:
        return None
    points = np.asarray(X)
    rows = subsample(np.arange(len(points)), MAX_DOTS)
    observed = np.asarray(y, dtype=np.float64).reshape(len(points), -1)[rows, 0]
    return points[rows, 0], observed if subject.inverse is None else subject.inverse(observed)


def _picture(shown: Slice, vertical: Scale, observed: tuple[Floats, Floats] | None) -> str:
    centre = shown.centre
    chart = Chart(
        Scale(float(shown.x[0]), float(shown.x[-1]), shown.name),
        vertical,
        f"{vertical.label} along {shown.name}: from {typeset(centre[0])} to {typeset(centre[-1])}, between "
        f"{typeset(centre.min())} and {typeset(centre.max())}, with 95 % intervals",
    )
    for kind, (low, high) in zip(("band", "band inner"), shown.bands, strict=True):
        chart.band(shown.x, low, high, kind)
    if observed is not None:
        chart.dots(*observed, "dots", float(np.clip(400 / len(observed[0]), 0.15, 0.8)))
    chart.line(shown.x, centre, "curve")
    return chart.svg()
