"""What the page shows of categories, which a model knows as columns of zeros and ones named `column=category`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import numpy as np

from ...common.types import Booleans, Floats
from ..numbers import typeset
from .svg import LEFT, RIGHT, WIDTH, Chart, Scale, fitted

MOST = 8  # categories side by side


@dataclass(frozen=True)
class Names(Scale):
    """An axis of words, at 0, 1, 2, ..."""

    names: Sequence[str] = ()

    def ticks(self) -> list[float]:
        """Where the words are."""
        return [float(i) for i in range(len(self.names))]

    def text(self, tick: float) -> str:
        """The word at a place."""
        return escape(fitted(self.names[int(tick)], (WIDTH - LEFT - RIGHT) / len(self.names)))


def flags_of(points: Floats) -> Booleans:
    """Which columns of the points (n, d) hold nothing but zeros and ones."""
    result: Booleans = np.all(np.minimum(np.abs(points), np.abs(points - 1)) <= 1e-9, axis=0)
    return result


def groups_of(columns: Sequence[str], points: Floats) -> dict[str, list[int]]:
    """Columns that are categories of the same thing, by its name: each of the points (n, d) has at most one of them."""
    flags, groups = flags_of(points), dict[str, list[int]]()
    for j, column in enumerate(columns):
        name, sign, _ = column.partition("=")
        if sign and name and flags[j]:
            groups.setdefault(name, []).append(j)
    return {name: js for name, js in groups.items() if len(js) > 1 and points[:, js].sum(axis=1).max() < 1.5}


def most_common(columns: list[int], points: Floats) -> list[int]:
    """Columns of the categories that most points have, in the order given."""
    counts = points[:, columns].sum(axis=0)
    kept = np.sort(np.argsort(-counts, kind="stable")[:MOST])
    return [columns[i] for i in kept]


def picture(
    label: str, names: Sequence[str], centre: Floats, bands: Sequence[tuple[Floats, Floats]], vertical: Scale
) -> str:
    """A bar for each category: its mean, and intervals of the function and of observations."""
    axis = Names(-0.5, len(names) - 0.5, label, names=names)
    words = ", ".join(f"{name} {typeset(value)}" for name, value in zip(names, centre, strict=True))
    chart = Chart(axis, vertical, f"{vertical.label} by {label}: {words}, with 95 % intervals")
    for i, value in enumerate(centre):
        ends = [i - 0.3, i + 0.3]
        for kind, (low, high) in zip(("band", "band inner"), bands, strict=True):
            chart.band(ends, [low[i]] * 2, [high[i]] * 2, kind)
        chart.line(ends, [value] * 2, "curve")
    return chart.svg()
