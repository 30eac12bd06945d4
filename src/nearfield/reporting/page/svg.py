"""Charts that answer the pointer, as SVG text: they scale, print, and follow the page's colours."""

from __future__ import annotations

from dataclasses import dataclass, field
from html import escape
from unicodedata import east_asian_width

import numpy as np
from numpy.typing import ArrayLike

from ...common.types import Floats
from ..ticks import round_numbers, tick_label

WIDTH, HEIGHT = 400, 290
LEFT, RIGHT, TOP, BOTTOM = 68, 14, 12, 46
_FONT = 13.5  # of the page's style
_BROAD = frozenset("mwMW@%—…ABCDEGHKNOQRSUVXYÄÖÜшщжюфШЩЖЮФ")


@dataclass(frozen=True)
class Scale:
    """An axis from `low` to `high`; with `log`, both are positive."""

    low: float
    high: float
    label: str
    log: bool = False

    @classmethod
    def around(cls, values: ArrayLike, label: str) -> Scale:
        """An axis that holds the values with a margin."""
        low, high = float(np.min(values)), float(np.max(values))
        margin = 0.06 * (high - low) or 0.5 * abs(low) or 0.5
        return cls(low - margin, high + margin, label)

    def __call__(self, values: ArrayLike) -> Floats:
        """Positions from 0 to 1."""
        v = np.asarray(values, dtype=np.float64)
        at: Floats = (v - self.low) / (self.high - self.low)
        return np.log(v / self.low) / np.log(self.high / self.low) if self.log else at

    def ticks(self) -> list[float]:
        """Round numbers along the axis."""
        return round_numbers(self.low, self.high, self.log)

    def text(self, tick: float) -> str:
        """The label of a tick."""
        return tick_label(tick, self.log)


@dataclass
class Chart:
    """A chart that shapes are added to; `description` is what it says to those who do not see it."""

    x: Scale
    y: Scale
    description: str
    width: int = WIDTH
    height: int = HEIGHT
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
        right, foot = self.width - RIGHT, self.height - BOTTOM
        marks = [
            f'<svg viewBox="0 0 {self.width} {self.height}" role="img" aria-label="{escape(self.description)}" '
            f'data-left="{LEFT}" data-right="{right}">'
        ]
        for tick in self.x.ticks():
            (a,), _ = self._place([tick], [self.y.low])
            marks.append(f'<path class="rule" d="M{a:.1f} {TOP}V{foot}"/>')
            marks.append(
                f'<text class="tick" x="{a:.1f}" y="{foot + 17}" text-anchor="middle">{self.x.text(tick)}</text>'
            )
        for tick in self.y.ticks():
            _, (b,) = self._place([self.x.low], [tick])
            marks.append(f'<path class="rule" d="M{LEFT} {b:.1f}H{right}"/>')
            marks.append(
                f'<text class="tick" x="{LEFT - 6}" y="{b + 4:.1f}" text-anchor="end">{self.y.text(tick)}</text>'
            )
        middle = 0.5 * (LEFT + right)
        marks.append(f'<text class="label" x="{middle}" y="{self.height - 8}" text-anchor="middle">')
        marks.append(f"{escape(fitted(self.x.label, 2 * min(middle, self.width - middle)))}</text>")
        turned, words = f'transform="translate(12 {0.5 * (TOP + foot)}) rotate(-90)"', fitted(self.y.label, TOP + foot)
        marks.append(f'<text class="label" {turned} text-anchor="middle">{escape(words)}</text>')
        return "".join([*marks, *self._shapes, "</svg>"])

    def _place(self, x: ArrayLike, y: ArrayLike) -> tuple[Floats, Floats]:
        across = LEFT + np.clip(self.x(x), -0.02, 1.02) * (self.width - LEFT - RIGHT)
        down = self.height - BOTTOM - np.clip(self.y(y), -0.02, 1.02) * (self.height - TOP - BOTTOM)
        return across, down

    def _path(self, x: ArrayLike, y: ArrayLike) -> str:
        return "M" + "L".join(f"{a:.1f} {b:.1f}" for a, b in zip(*self._place(x, y), strict=True))


def fitted(text: str, room: float) -> str:
    """Text cut to so many units of the chart, by what its letters take at most in most fonts."""
    ends = np.cumsum([_FONT * (1.0 if east_asian_width(c) in "WF" else 0.9 if c in _BROAD else 0.6) for c in text])
    return text if len(text) == 0 or ends[-1] <= room else text[: int(np.sum(ends <= room - _FONT))] + "…"
