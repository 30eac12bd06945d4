"""What the page shows of functions of one column, or of more than two: slices."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...common.types import Floats
from ..inputs import distribution, levels_of, padded_ranges, used_columns
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
    """The function along a column: positions, or names of categories; centre and spread there, bounds of intervals."""

    name: str
    x: Floats
    names: list[str]
    centre: Floats
    spread: Floats
    bands: tuple[Band, Band]


def section(subject: Subject, X: Floats | None, y: Floats | None) -> tuple[str, dict[str, Any]]:
    """A slice per column, the others at their medians or most common categories: HTML, and data for the page's script.

    All have the same vertical axis, so that it shows which columns matter. Data are shown where there is one column.
    """
    points = subject.points(X)
    single = len(subject.columns) == 1
    groups = categories.groups_of(subject.columns, points)
    coded = levels_of(subject.model)
    grouped = {j for js in groups.values() for j in js} | set(coded)
    plain = [j for j in used_columns(subject.model) if j not in grouped]
    slices = [_along(subject, points, j) for j in plain[:MAX_SLICES]]
    sides = [_side_by_side(subject, points, js) for js in list(groups.values())[:MAX_SLICES]]
    sides += [_by_level(subject, points, j, levels) for j, levels in list(coded.items())[:MAX_SLICES]]
    observed = None
    if single and X is not None and y is not None:
        rows = subsample(np.arange(len(y)), MAX_DOTS)
        observed = X[rows, 0], y[rows] if subject.inverse is None else subject.inverse(y[rows])
    values = [bound for shown in slices + sides for band in shown.bands for bound in band]
    vertical = Scale.around(np.concatenate(values + ([observed[1]] if observed else [])), subject.target)
    along = "The" if single else "Along each column, the others at their medians or most common categories: the"
    lead = (
        f"<p>{along} mean, and 95 % intervals of the function (darker) and of observations (lighter). "
        "Point at a chart, or use the arrow keys, for values.</p>"
    )
    n_left_out = len(plain) - len(slices) + len(groups) + len(coded) - len(sides)
    if n_left_out:
        lead += f"<p>{n_left_out} more columns are not shown.</p>"
    charts = "".join(
        f'<figure class="slice" data-slice="{j}" tabindex="0">{_picture(shown, vertical, observed)}'
        "<figcaption><output></output></figcaption></figure>"
        for j, shown in enumerate(slices)
    )
    for shown in sides:
        chart = categories.picture(shown.name, shown.names, shown.centre, shown.bands, vertical)
        charts += f"<figure>{chart}</figure>"
    html = f'{lead}<div class="{"single" if single else "charts"}">{charts}</div>'
    data = [
        {"name": shown.name, "x": shown.x[[0, -1]].tolist(), "mean": pack(shown.centre), "std": pack(shown.spread)}
        for shown in slices
    ]
    return html, {"slices": data}


def _along(subject: Subject, points: Floats, j: int) -> Slice:
    whole = points.shape[1] == 1
    low, high = np.nanpercentile(points[:, j], [0, 100] if whole else [1, 99])
    low, high = (low, high) if high > low else padded_ranges(points)[j]
    x = np.linspace(low, high, (3 if whole else 1) * POINTS)
    places = np.tile(base_of(points, levels_of(subject.model)), (len(x), 1))
    places[:, j] = x
    return Slice(subject.columns[j], x, [], *_answers(subject, places))


def _side_by_side(subject: Subject, points: Floats, columns: list[int]) -> Slice:
    name = subject.columns[columns[0]].partition("=")[0]
    kept = categories.most_common(columns, points)
    if len(kept) < len(columns):
        name = f"{name} ({len(kept)} most common of {len(columns)})"
    places = np.tile(base_of(points, levels_of(subject.model)), (len(kept), 1))
    places[:, columns] = 0.0
    places[np.arange(len(kept)), kept] = 1.0
    names = [subject.columns[j].partition("=")[2] for j in kept]
    return Slice(name, np.empty(0), names, *_answers(subject, places))


def _by_level(subject: Subject, points: Floats, j: int, levels: tuple[str, ...]) -> Slice:
    """The categories of a column side by side, the most common ones where they are many."""
    counts = np.bincount(points[:, j].astype(np.int64), minlength=len(levels))
    kept = np.sort(np.argsort(-counts, kind="stable")[: categories.MOST])
    name = subject.columns[j]
    if len(kept) < len(levels):
        name = f"{name} ({len(kept)} most common of {len(levels)})"
    places = np.tile(base_of(points, levels_of(subject.model)), (len(kept), 1))
    places[:, j] = kept
    return Slice(name, np.empty(0), [levels[i] for i in kept], *_answers(subject, places))


def _answers(subject: Subject, points: Floats) -> tuple[Floats, Floats, tuple[Band, Band]]:
    """Centre and spread of the function, and 95 % intervals of observations and of the function."""
    mean, std = subject.predict(points)

    def interval(include_noise: bool) -> Band:
        low, high = distribution(subject.model, points, include_noise).target(0).interval(0.95)
        return (low, high) if subject.inverse is None else (subject.inverse(low), subject.inverse(high))

    return *subject.shown(mean, std), (interval(True), interval(False))


def base_of(points: Floats, coded: Iterable[int] = ()) -> Floats:
    """What slices go through: medians, and of columns of zeros and ones the combination that most rows have.

    Medians would leave a row without any category, where each is a column. Columns that hold numbers of categories are
    `coded`: the most common is taken.
    """
    base: Floats = np.nanmedian(points, axis=0)
    for j in coded:
        base[j] = np.argmax(np.bincount(points[:, j].astype(np.int64)))
    flags = categories.flags_of(points)
    if flags.any():
        combinations, counts = np.unique(np.rint(points[:, flags]), axis=0, return_counts=True)
        base[flags] = combinations[np.argmax(counts)]
    return base


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
