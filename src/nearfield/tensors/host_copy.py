"""Training data copied to the host, where candidates are measured, with neighbours that the device finds."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch

from ..common.arrays import Array as Tensor
from ..common.arrays import as_doubles, like
from ..common.types import Floats, Integers
from ..local.neighbourhoods import WIDER, TrainingSet
from . import cells
from .cells import CellIndex, Neighbourhoods

SIDE = 1.0  # length scales, of the cells of the index


@dataclass(frozen=True, eq=False)
class HostCopy(TrainingSet):
    """See `TrainingSet`; an index on the host would take longer to make than all that is asked of it.

    Attributes
    ----------
    source : tensor of shape (n, d)
        The points on the device, at least one, in up to three columns.
    source_index : CellIndex
        Of them.
    """

    source: Tensor = field(kw_only=True, repr=False)
    source_index: CellIndex = field(kw_only=True, repr=False)

    @classmethod
    def copied(cls, X: Tensor, y: Tensor, noise: Tensor) -> HostCopy:
        """Of points (n, d), targets (n, k) without the column of ones, and noise (n,)."""
        targets = torch.cat([y, y.new_ones((len(y), 1))], dim=1)
        given = (as_doubles(X), as_doubles(targets), as_doubles(noise))
        return cls(*given, source=X, source_index=CellIndex(X, SIDE))

    @property
    def cells(self) -> None:
        """There are none on the host."""
        return

    @property
    def box(self) -> tuple[Floats, Floats]:
        """See `TrainingSet`."""
        box: tuple[Floats, Floats] = self._made(b"box", lambda: tuple(map(as_doubles, self.source.aminmax(dim=0))))
        return box

    def within(self, centers: Floats, radius: float) -> list[Integers]:
        """See `TrainingSet`."""
        near = self._near(centers, radius)
        points, counts = as_indices(self.source_index.order[near.points]), as_indices(near.counts)
        return np.split(points, np.cumsum(counts)[:-1])

    def counts(self, centers: Floats, radius: float | None) -> Integers:
        """See `TrainingSet`."""
        if radius is None or len(centers) == 0:
            return super().counts(centers, radius)
        return as_indices(self._near(centers, radius).counts)

    def distances(self, places: Floats, k: int = 1) -> Floats:
        """See `TrainingSet`."""
        result, left = np.full(len(places), np.inf), np.arange(len(places))
        low, high = self.box
        n, d = self.X.shape
        radius = float(np.prod(np.maximum(high - low, 1e-12)) / n) ** (1 / d) * (1.0 + k ** (1 / d))
        for _ in range(WIDER):
            if len(left) == 0:
                return result
            result[left] = self._kth_within(places[left], k, radius)
            left = left[np.isinf(result[left])]
            radius *= 2.0
        at = like(places[left], self.source)
        nearest = self.source[cells.nearest_points(self.source, at, k, in_order=True)[:, k - 1]]
        result[left] = as_doubles(((nearest - at) ** 2).sum(dim=1).sqrt())
        return result

    def _kth_within(self, places: Floats, k: int, radius: float) -> Floats:
        """Distances of the `k`-th nearest points (m,), infinite where fewer are within a radius."""
        near, at = self._near(places, radius), like(places, self.source)
        points = self.source_index.columns[:, near.points].mT
        owner = torch.repeat_interleave(near.counts)
        squares, order = torch.sort(((points - at[owner]) ** 2).sum(dim=1))
        squares = squares[torch.argsort(owner[order], stable=True)]
        kth = (near.starts + k - 1).clamp(max=max(len(squares) - 1, 0))
        found = near.counts >= k
        result = at.new_full((len(at),), torch.inf)
        result[found] = squares[kth[found]].sqrt()
        return as_doubles(result)

    def _near(self, centers: Floats, radius: float) -> Neighbourhoods:
        """By their places in the order of the index."""
        at = like(centers, self.source)
        return self.source_index.within(at, radius, self.source_index.strips(at, radius))


def as_indices(values: Tensor) -> Integers:
    """Whole numbers on the host."""
    result: Integers = values.cpu().numpy()
    return result
