"""Training points with an index of their neighbours, in units of the length scale."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.neighbors import KDTree

from ..common.types import Floats, Integers


class _NoPoints:
    """The index of no points, which `KDTree` refuses to be."""

    def query_radius(self, centers: Floats, r: float, count_only: bool = False) -> Any:  # noqa: ARG002
        return np.zeros(len(centers), dtype=np.int64) if count_only else np.empty((len(centers), 0), dtype=np.int64)

    def query(self, centers: Floats, k: int, **options: Any) -> Any:  # noqa: ARG002
        return np.empty((len(centers), 0), dtype=np.int64)


@dataclass(frozen=True, eq=False)
class TrainingSet:
    """Points, centred targets and noise variances, with an index of neighbours.

    Attributes
    ----------
    X : ndarray of shape (n, d)
    y : ndarray of shape (n, k + 1)
        Targets, less a constant, and a last column of ones (see `Statistics`).
    noise : ndarray of shape (n,)
    tree : KDTree
    """

    X: Floats
    y: Floats
    noise: Floats
    tree: KDTree

    @classmethod
    def of(cls, X: Floats, y: Floats, noise: Floats) -> TrainingSet:
        """Build the index; `y` has shape (n, k)."""
        index = KDTree(X, leaf_size=100) if len(X) else _NoPoints()
        return cls(X, np.column_stack([y, np.ones(len(X))]), noise, index)

    def neighbourhoods(self, centers: Floats, radius: float | None, count: int | None = None) -> list[Integers]:
        """Points within `radius` of each centre, or its `count` nearest; with both, never fewer; with neither, all."""
        if radius is None:
            return [np.arange(len(self.X))] * len(centers) if count is None else self._nearest(centers, count)
        found = list(self.tree.query_radius(centers, radius))
        few = [i for i, f in enumerate(found) if count is not None and len(f) < count]
        if few:
            assert count is not None
            for i, nearest in zip(few, self._nearest(centers[few], count), strict=True):
                found[i] = nearest
        return found

    def _nearest(self, centers: Floats, count: int) -> list[Integers]:
        return list(self.tree.query(centers, k=min(count, len(self.X)), return_distance=False, sort_results=False))

    def nearest(self, centers: Floats, count: int) -> Integers:
        """The `count` nearest points of each centre, or all there are, the nearest first: (C, count)."""
        result: Integers = self.tree.query(centers, k=min(count, len(self.X)), return_distance=False)
        return result

    def counts(self, centers: Floats, radius: float | None) -> Integers:
        """How many points are within `radius` of each centre; without it, all."""
        if radius is None or len(centers) == 0:
            return np.full(len(centers), len(self.X))
        result: Integers = self.tree.query_radius(centers, radius, count_only=True)
        return result
