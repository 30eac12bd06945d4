"""Training points with an index of their neighbours, in units of the length scale."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from threading import RLock
from typing import Any

import numpy as np
from scipy.spatial import cKDTree
from sklearn.neighbors import KDTree

from ..common.arrays import column_range
from ..common.types import Floats, Integers
from ..kernels import Kernel
from .cells import MAX_COLUMNS, Cells
from .centers import Placement, place

CELL = 1.0  # length scales: side of the cells
MANY = 50_000  # points, from where on trees are made only if they must be
WIDER = 4  # times that the distance to the nearest points is looked for in a wider circle
FEW = 2000  # centres whose neighbours are found without one
SIMILAR = 1.5  # ratio of scales, up to which two Gaussians measure distances alike


class _NoPoints:
    """The index of no points, which `KDTree` refuses to be."""

    def query_radius(self, centers: Floats, r: float, count_only: bool = False) -> Any:  # noqa: ARG002
        return np.zeros(len(centers), dtype=np.int64) if count_only else np.empty((len(centers), 0), dtype=np.int64)

    def query(self, centers: Floats, k: int, **options: Any) -> Any:  # noqa: ARG002
        return np.empty((len(centers), 0), dtype=np.int64)


def metrics_of(kernel: Kernel) -> list[Floats]:
    """Units (d,) of the Gaussians of a kernel, without those that are proportional to others, or nearly."""
    units: list[Floats] = []
    for scales in kernel.length_scales:
        shape = scales / np.exp(np.mean(np.log(scales)))
        if all(np.max(np.abs(np.log(shape / other))) > np.log(SIMILAR) for other in units):
            units.append(shape)
    return units


@dataclass(frozen=True, eq=False)
class TrainingSet:
    """Points, centred targets and noise variances, with an index of neighbours.

    Attributes
    ----------
    X : ndarray of shape (n, d)
    y : ndarray of shape (n, k + 1)
        Targets, less a constant, and a last column of ones (see `Statistics`).
    noise : ndarray of shape (n,)
    indices : dict
        Indices of the same points, once they were asked for.
    """

    X: Floats
    y: Floats
    noise: Floats
    indices: dict[bytes, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, X: Floats, y: Floats, noise: Floats) -> TrainingSet:
        """Add the column of ones; `y` has shape (n, k)."""
        return cls(X, np.column_stack([y, np.ones(len(X))]), noise)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "indices": {}}  # they are made again

    @property
    def tree(self) -> KDTree:
        """Index of the nearest points."""
        return self._made(b"tree", lambda: KDTree(self.X, leaf_size=100) if len(self.X) else _NoPoints())

    @property
    def cells(self) -> Cells | None:
        """Index of the points within a radius, made in a fraction of the time; None where there can be none."""
        if len(self.X) == 0 or self.X.shape[1] > MAX_COLUMNS:
            return None
        cells: Cells | None = self._made(b"cells", lambda: Cells.of(self.X, CELL))
        return cells

    def _made(self, key: bytes, make: Callable[[], Any]) -> Any:
        """An index, made when it is first asked for."""
        if key not in self.indices:
            # An interrupt on the way out may leave a lock locked: so nobody asks for one whose index is there.
            with self.indices.setdefault(b"lock of " + key, RLock()):
                if key not in self.indices:
                    self.indices[key] = make()
        return self.indices[key]

    @property
    def box(self) -> tuple[Floats, Floats]:
        """Least and largest value of each column, (d,) each."""
        box: tuple[Floats, Floats] = self._made(b"box", lambda: column_range(self.X))
        return box

    @property
    def typical_noise(self) -> float:
        """Median of the noise variances."""
        return float(self._made(b"typical noise", lambda: np.median(self.noise)))

    def grid(self, spacing: float) -> Placement:
        """Centres in the cells of a lattice, made once for each spacing."""
        grid: Placement = self._made(
            b"grid" + np.float64(spacing).tobytes(),
            lambda: place("grid", self.X, spacing, None, np.random.RandomState(0)),  # nothing is random in it
        )
        return grid

    def within(self, centers: Floats, radius: float) -> list[Integers]:
        """Points within `radius` of each centre."""
        if len(self.X) >= MANY and b"tree" not in self.indices and self.cells is not None:
            return self.cells.within(centers, radius)
        return list(self.tree.query_radius(centers, radius))

    def neighbourhoods(
        self, centers: Floats, radius: float | None, count: int | None = None, kernel: Kernel | None = None
    ) -> list[Integers]:
        """Points within `radius` of each centre, or its `count` nearest; with both, never fewer; with neither, all.

        With a kernel whose Gaussians measure distances differently, the nearest are so many in all.
        """
        if radius is None and count is not None and kernel is not None and len(units := metrics_of(kernel)) > 1:
            return self._nearest_by(units, centers, count)
        if radius is None:
            return [np.arange(len(self.X))] * len(centers) if count is None else self._nearest(centers, count)
        found = self.within(centers, radius)
        few = [i for i, f in enumerate(found) if count is not None and len(f) < count]
        if few:
            assert count is not None
            for i, nearest in zip(few, self._nearest(centers[few], count), strict=True):
                found[i] = nearest
        return found

    def _nearest(self, centers: Floats, count: int) -> list[Integers]:
        return list(self.tree.query(centers, k=min(count, len(self.X)), return_distance=False, sort_results=False))

    def _nearest_by(self, units: list[Floats], centers: Floats, count: int) -> list[Integers]:
        """The nearest points of each centre by several metrics, about `count` in all."""
        each = min(-(-count // len(units)), len(self.X))
        by_metric = []
        for unit in units:
            by_metric.append(self.index(unit).query(centers / unit, each)[1].reshape(len(centers), -1))
        return [np.unique(rows) for rows in np.concatenate(by_metric, axis=1)]

    def index(self, unit: Floats | None = None) -> cKDTree:
        """Index of the points in units (d,) of another metric, or in their own; made once."""
        key = b"" if unit is None else unit.tobytes()
        # Of many points, the quicker way to make one; queries take a little longer.
        quick = {"balanced_tree": False, "compact_nodes": False} if len(self.X) >= MANY else {}
        return self._made(key, lambda: cKDTree(self.X if unit is None else self.X / unit, **quick))

    def distances(self, places: Floats, k: int = 1) -> Floats:
        """Distance from each place (m, d) to its `k`-th nearest point, `k` at most the number of points."""
        result, left = np.full(len(places), np.inf), np.arange(len(places))
        if len(self.X) >= MANY and b"" not in self.indices and self.cells is not None:
            radius = self._usual_spacing * (1.0 + k ** (1 / self.X.shape[1]))
            for _ in range(WIDER):
                result[left] = self.cells.distances(places[left], k, radius)
                left = left[np.isinf(result[left])]
                radius *= 2.0
        if len(left):
            result[left] = self.index().query(places[left], [k])[0][:, 0]
        return result

    @property
    def _usual_spacing(self) -> float:
        """Side of a cube that holds one point, were they even over the box that they are in."""
        assert self.cells is not None
        n_cells = float(np.prod(self.cells.extent, dtype=np.float64))
        return float(self.cells.side * (n_cells / len(self.X)) ** (1 / self.X.shape[1]))

    def nearest(self, centers: Floats, count: int) -> Integers:
        """The `count` nearest points of each centre, or all there are, the nearest first: (C, count)."""
        result: Integers = self.tree.query(centers, k=min(count, len(self.X)), return_distance=False)
        return result

    def counts(self, centers: Floats, radius: float | None) -> Integers:
        """How many points are within `radius` of each centre; without it, all."""
        if radius is None or len(centers) == 0:
            return np.full(len(centers), len(self.X))
        if len(self.X) >= MANY and len(centers) <= FEW:
            return np.array([len(near) for near in self.within(centers, radius)])
        result: Integers = self.tree.query_radius(centers, radius, count_only=True)
        return result
