"""Charts that answer the pointer, as SVG text: they scale, print, and follow the page's colours."""

from __future__ import annotations

from dataclasses import dataclass, field
from html import escape
from unicodedata import east_asian_width

import numpy as np
from numpy.typing import ArrayLike

from ...common.types import Floats
from ..numbers import round_numbers, typeset

WIDTH, HEIGHT = 400, 290
LEFT, RIGHT, TOP, BOTTOM = 68, 14, 12, 46
_FONT = 13.5  # of the page's style
_BROAD = frozenset("mwMW@%—…ABCDEGHKNOQRSUVXYÄÖÜшщжюфШЩЖЮФ")


@dataclass(frozen=True)
class Scale:
    """An axis from `low` to `high`."""

    low: float
    high: float
    label: str

    @classmethod
    def around(cls, values: ArrayLike, label: str) -> Scale:
        """An axis that holds the values with a margin."""
        low, high = float(np.min(values)), float(np.max(values))
        margin = 0.06 * (high - low) or 0.5 * abs(low) or 0.5
        return cls(low - margin, high + margin, label)

    def __call__(self, values: ArrayLike) -> Floats:
        """Positions from 0 to 1."""
        at: Floats = (np.asarray(values, dtype=np.float64) - self.low) / (self.high - self.low)
        return at

    def ticks(self) -> list[float]:
        """Round numbers along the axis."""
        return round_numbers(self.low, self.high)

    def text(self, tick: float) -> str:
        """The label of a tick, with as many digits as tell it from the others."""
        ticks = self.ticks()
        digits = next((d for d in range(3, 12) if len({typeset(t, d) for t in ticks}) == len(ticks)), 12)
        return typeset(tick, digits)


@dataclass
class Chart:
    """A chart that shapes are added to; `description` is what it says to those who do not see it."""

    x: Scale
    y: Scale
    description: str
    _shapes: list[str] = field(default_factory=list)

    def line(self, x: ArrayLike, y: ArrayLike, kind: str) -> None:
        """A line through the points."""
        self._shapes.append(f'<path class="{kind}" d="{self._path(x, y)}"/>')

    def band(self, x: ArrayLike, low: ArrayLike, high: ArrayLike, kind: str = "band") -> None:
        """The area between two curves."""
        x = np.asarray(x)
        back = self._path(x[::-1], np.asarray(low)[::-1])
        self._shapes.append(f'<path class="{kind}" d="{self._path(x, high)}L{back[1:]}Z"/>')

    def dots(self, x: ArrayLike, y: ArrayLike, kind: str, opacity: float = 1.0) -> None:
        """Points, as one path of dots."""
        moves = "".join(f"M{a:.1f} {b:.1f}h0" for a, b in zip(*self._place(x, y), strict=True))
        self._shapes.append(f'<path class="{kind}" style="opacity:{opacity:.2f}" d="{moves}"/>')

    def svg(self) -> str:
        """The chart as text."""
        right, foot, middle = WIDTH - RIGHT, HEIGHT - BOTTOM, 0.5 * (LEFT + WIDTH - RIGHT)
        text = (
            f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(self.description)}" '
            f'data-left="{LEFT}" data-right="{right}">'
        )
        for tick in self.x.ticks():
            (a,), _ = self._place([tick], [self.y.low])
            text += f'<path class="rule" d="M{a:.1f} {TOP}V{foot}"/>'
            label = self.x.text(tick)
            # A long label at the edge ends there, and does not leave the chart.
            at = min(a, WIDTH - 0.3 * _FONT * len(label))
            text += f'<text class="tick" x="{at:.1f}" y="{foot + 17}" text-anchor="middle">{label}</text>'
        for tick in self.y.ticks():
            _, (b,) = self._place([self.x.low], [tick])
            text += f'<path class="rule" d="M{LEFT} {b:.1f}H{right}"/>'
            text += f'<text class="tick" x="{LEFT - 6}" y="{b + 4:.1f}" text-anchor="end">{self.y.text(tick)}</text>'
        below, beside = fitted(self.x.label, 2 * (WIDTH - middle)), fitted(self.y.label, TOP + foot)
        text += f'<text class="label" x="{middle}" y="{HEIGHT - 8}" text-anchor="middle">{escape(below)}</text>'
        turned = f'transform="translate(12 {0.5 * (TOP + foot)}) rotate(-90)"'
        text += f'<text class="label" {turned} text-anchor="middle">{escape(beside)}</text>'
        return "".join([text, *self._shapes, "</svg>"])

    def _place(self, x: ArrayLike, y: ArrayLike) -> tuple[Floats, Floats]:
        across = LEFT + np.clip(self.x(x), -0.02, 1.02) * (WIDTH - LEFT - RIGHT)
        down = HEIGHT - BOTTOM - np.clip(self.y(y), -0.02, 1.02) * (HEIGHT - TOP - BOTTOM)
        return across, down

    def _path(self, x: ArrayLike, y: ArrayLike) -> str:
        return "M" + "L".join(f"{a:.1f} {b:.1f}" for a, b in zip(*self._place(x, y), strict=True))


def fitted(text: str, room: float) -> str:
    """Text cut to so many units of the chart, by what its letters take at most in most fonts."""
    ends = np.cumsum([_FONT * (1.0 if east_asian_width(c) in "WF" else 0.9 if c in _BROAD else 0.6) for c in text])
    return text if len(text) == 0 or ends[-1] <= room else text[: int(np.sum(ends <= room - _FONT))] + "…"
