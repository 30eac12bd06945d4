"""Charts as SVG text: they scale, print, follow the page's colours and need no script."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from unicodedata import east_asian_width

import numpy as np
from numpy.typing import ArrayLike

from ...common.types import Floats
from ._numbers import number, power

WIDTH = 400
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
    def around(cls, values: ArrayLike, label: str, log: bool = False, pad: float = 0.06) -> Scale:
        """An axis that holds the values with a margin."""
        v = np.asarray(values, dtype=np.float64)
        v = np.log10(v) if log else v
        low, high = float(v.min()), float(v.max())
        margin = pad * (high - low) or 0.5 * max(abs(low), 1e-300 if not log else 1.0) or 0.5
        low, high = low - margin, high + margin
        return cls(10**low, 10**high, label, True) if log else cls(low, high, label)

    def __call__(self, values: ArrayLike) -> Floats:
        """Positions from 0 to 1."""
        v = np.asarray(values, dtype=np.float64)
        at: Floats = (v - self.low) / (self.high - self.low)
        return np.log(v / self.low) / np.log(self.high / self.low) if self.log else at

    def ticks(self) -> list[float]:
        """Round numbers along the axis."""
        if self.log:
            first, last = int(np.ceil(np.log10(self.low))), int(np.floor(np.log10(self.high)))
            decades = list(range(first, last + 1))
            if len(decades) > 1:
                return [10.0**e for e in decades[:: (len(decades) - 1) // 6 + 1]]
            between = [f * 10.0**e for e in range(first - 1, last + 1) for f in (1, 2, 5) if self._holds(f * 10.0**e)]
            if len(between) > 1:
                return between
        rough = (self.high - self.low) / 5
        power = 10.0 ** np.floor(np.log10(rough))
        step = power * next(f for f in (1, 2, 5, 10) if f * power >= rough * 0.999)
        return [float(k * step) for k in range(int(np.ceil(self.low / step)), int(np.floor(self.high / step)) + 1)]

    def text(self, tick: float) -> str:
        """A tick in words; decades of a logarithmic axis as powers, which are short."""
        exponent = np.log10(tick) if self.log else 0.0
        if abs(exponent) >= 2 and abs(exponent - round(exponent)) < 1e-9:
            return power(round(exponent))
        return number(tick, 3)

    def _holds(self, value: float) -> bool:
        return self.low <= value <= self.high


@dataclass
class Chart:
    """A chart that shapes are added to; `description` is what it says to those who do not see it."""

    x: Scale
    y: Scale
    description: str
    width: int = WIDTH
    height: int = 290
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
        """Many points, as one path of dots."""
        moves = "".join(f"M{a:.1f} {b:.1f}h0" for a, b in zip(*self._place(x, y), strict=True))
        self._shapes.append(f'<path class="{kind}" style="opacity:{opacity:.2f}" d="{moves}"/>')

    def mark(self, x: float, y: float, kind: str, title: str) -> None:
        """A single point with words of its own."""
        (a,), (b,) = self._place([x], [y])
        self._shapes.append(
            f'<circle class="{kind}" cx="{a:.1f}" cy="{b:.1f}" r="6"><title>{escape(title)}</title></circle>'
        )

    def bars(self, edges: Sequence[float], heights: ArrayLike) -> None:
        """A histogram."""
        for low, high, height in zip(edges[:-1], edges[1:], np.asarray(heights), strict=True):
            (a, b), (top, foot) = self._place([low, high], [height, self.y.low])
            self._shapes.append(
                f'<rect class="bar" x="{a + 0.5:.1f}" y="{top:.1f}" width="{b - a - 1:.1f}" height="{foot - top:.1f}"/>'
            )

    def words(self, x: float, y: float, text: str) -> None:
        """Text that ends at a point, above it."""
        (a,), (b,) = self._place([x], [y])
        self._shapes.append(f'<text class="note" x="{a:.1f}" y="{b - 6:.1f}" text-anchor="end">{escape(text)}</text>')

    def svg(self) -> str:
        """The chart as text."""
        right, foot = self.width - RIGHT, self.height - BOTTOM
        parts = [
            f'<svg viewBox="0 0 {self.width} {self.height}" role="img" aria-label="{escape(self.description)}" '
            f'data-left="{LEFT}" data-right="{right}">'
        ]
        for tick in self.x.ticks():
            (a,), _ = self._place([tick], [self.y.low])
            parts.append(f'<path class="rule" d="M{a:.1f} {TOP}V{foot}"/>')
            parts.append(
                f'<text class="tick" x="{a:.1f}" y="{foot + 17}" text-anchor="middle">{self.x.text(tick)}</text>'
            )
        for tick in self.y.ticks():
            _, (b,) = self._place([self.x.low], [tick])
            parts.append(f'<path class="rule" d="M{LEFT} {b:.1f}H{right}"/>')
            parts.append(
                f'<text class="tick" x="{LEFT - 6}" y="{b + 4:.1f}" text-anchor="end">{self.y.text(tick)}</text>'
            )
        middle = 0.5 * (LEFT + right)
        parts.append(f'<text class="label" x="{middle}" y="{self.height - 8}" text-anchor="middle">')
        parts.append(f"{escape(fitted(self.x.label, 2 * min(middle, self.width - middle)))}</text>")
        turned, label = f'transform="translate(12 {0.5 * (TOP + foot)}) rotate(-90)"', fitted(self.y.label, TOP + foot)
        parts.append(f'<text class="label" {turned} text-anchor="middle">{escape(label)}</text>')
        return "".join([*parts, *self._shapes, "</svg>"])

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
