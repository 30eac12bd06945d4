r"""Features of a long Gaussian over a whole domain.

A Gaussian is a product over columns. In each column the functions `k(u_i, x)` of a fine lattice of points `u` span the
kernel on an interval to rounding; rotated to their principal directions over that interval, few of them matter, and
their number falls off faster than exponentially. Products across columns, ordered by their share of the variance,
are the features: near the fewest there can be, and cheap, since only functions of one column are ever evaluated.
Outside the domain they fade away, as the kernel itself does.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..common.arrays import Array, indices_like, like, namespace
from ..common.types import Floats, Integers

STEP = 0.3  # of the lattice, in length scales
MARGIN = 1.5  # by which the lattice is wider than the domain, in length scales
NEGLIGIBLE = 1e-14  # eigenvalue, beside the largest, of directions that rounding has taken


@dataclass(frozen=True, eq=False)
class Interval:
    """Features of one column.

    Attributes
    ----------
    points : ndarray of shape (p,)
        The lattice.
    length_scale : float
    weights : ndarray of shape (p, q)
        From the kernel with the lattice to features, the largest first.
    shares : ndarray of shape (q,)
        Mean square of each feature over the interval; together they are 1.
    """

    points: Floats
    length_scale: float
    weights: Floats
    shares: Floats

    @classmethod
    def of(cls, low: float, high: float, length_scale: float) -> Interval:
        """Features of the Gaussian with this length scale between `low` and `high`."""
        wide = MARGIN * length_scale
        n = max(int(np.ceil((high - low + 2 * wide) / (STEP * length_scale))) + 1, 4)
        points = np.linspace(low - wide, high + wide, n)
        values, vectors = np.linalg.eigh(_gaussian(points, points, length_scale))
        kept = values > NEGLIGIBLE * values[-1]
        weights = vectors[:, kept] / np.sqrt(values[kept])
        inside = _gaussian(np.linspace(low, high, 4 * n), points, length_scale) @ weights
        shares, rotation = np.linalg.eigh(inside.T @ inside / len(inside))
        return cls(
            points, length_scale, np.ascontiguousarray((weights @ rotation)[:, ::-1]), np.maximum(shares[::-1], 0.0)
        )

    def __call__(self, x: Array) -> Array:
        """Features (q, n) at places (n,), one per row."""
        return like(self.weights.T, x) @ _gaussian(like(self.points, x), x, self.length_scale)


def _gaussian(x: Array, y: Array, length_scale: float) -> Array:
    return namespace(x).exp(-0.5 * ((x[:, None] - y[None, :]) / length_scale) ** 2)


@dataclass(frozen=True, eq=False)
class DomainFeatures:
    """Features of one Gaussian over a box.

    Attributes
    ----------
    low, high : ndarrays of shape (d,)
        Corners of the box.
    length_scales : ndarray of shape (d,)
    variance : float
    picks : ndarray of shape (D, d)
        Which feature of each column a product is made of.
    """

    low: Floats
    high: Floats
    length_scales: Floats
    variance: float
    picks: Integers

    @classmethod
    def covering(
        cls, low: Floats, high: Floats, length_scales: Floats, variance: float, lack: float, most: int
    ) -> DomainFeatures | None:
        """As few features as lack a share `lack` of the variance, on average over the box; None if more than `most`."""
        lengths = np.broadcast_to(length_scales, low.shape).astype(np.float64)
        widths = (high - low) / lengths
        if np.max(widths) > 1.2 * most or np.prod(np.maximum(widths, 0.5)) > 4.0 * most:  # hopeless, and slow to see
            return None
        intervals = [Interval.of(*each) for each in zip(low, high, lengths, strict=True)]
        picks, shares = np.empty((1, 0), dtype=np.int64), np.ones(1)
        for interval in intervals:
            products = shares[:, None] * interval.shares
            rows, column = np.nonzero(products > 1e-3 * lack / most)
            if len(rows) > 100 * most:
                return None
            picks, shares = np.column_stack([picks[rows], column]), products[rows, column]
        order = np.argsort(-shares, kind="stable")
        n = min(int(np.searchsorted(np.cumsum(shares[order]), 1 - lack)) + 1, len(order))
        if n > most:
            return None
        return cls(low, high, lengths, variance, picks[order[:n]])

    @property
    def n_components(self) -> int:
        """Number of features `D`."""
        return len(self.picks)

    @cached_property
    def intervals(self) -> tuple[Interval, ...]:
        """Features of each column."""
        return tuple(Interval.of(*each) for each in zip(self.low, self.high, self.length_scales, strict=True))

    def __call__(self, X: Array) -> Array:
        """Features (n, D) at points (n, d)."""
        result = self.variance**0.5
        for j, interval in enumerate(self.intervals):
            picks = self.picks[:, j] if isinstance(X, np.ndarray) else indices_like(self.picks[:, j], X)
            result = interval(X[:, j])[picks] * result  # by rows, which are quick to pick
        return result.T
