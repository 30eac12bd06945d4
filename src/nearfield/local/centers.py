"""Where the features are centred. All lengths are in the units of the points given."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.spatial import cKDTree
from sklearn.cluster import MiniBatchKMeans

from ..common.arrays import Array, column_range, like, namespace, on_host, stable_order
from ..common.types import Booleans, Floats, Integers


def farthest_points(X: Floats, threshold: float | None, n_centers: int | None = None) -> Floats:
    """Farthest-point clustering from the mean of the points (Algorithm 1 of the paper).

    Points are added, the farthest from all centres first, until every point is closer than `threshold` to one, or
    there are `n_centers`.

    Returns
    -------
    centers : ndarray of shape (n_centers, d), the mean first
    """
    centers = [X.mean(axis=0)]
    gaps = np.sum((X - centers[0]) ** 2, axis=1)
    limit = 0.0 if threshold is None else threshold**2
    tree: cKDTree | None = None
    while n_centers is None or len(centers) < n_centers:
        farthest = int(np.argmax(gaps))
        gap = gaps[farthest]
        if gap < limit or gap == 0:
            break
        center = X[farthest]
        centers.append(center)
        if len(centers) < 32:
            np.minimum(gaps, np.sum((X - center) ** 2, axis=1), out=gaps)
        else:
            # A new centre can only matter to points closer to it than the largest gap, few once gaps are small.
            tree = tree or cKDTree(X)
            near = tree.query_ball_point(center, gap**0.5 * (1 + 1e-9), return_sorted=False)
            gaps[near] = np.minimum(gaps[near], np.sum((X[near] - center) ** 2, axis=1))
    return np.array(centers)


def greedy_net(X: Floats, threshold: float, rng: np.random.RandomState) -> Floats:
    """Points of `X` in random order, each farther than `threshold` from those before: a covering in about O(n)."""
    tree = cKDTree(X)
    covered = np.zeros(len(X), dtype=bool)
    centers = []
    for i in rng.permutation(len(X)):
        if not covered[i]:
            centers.append(i)
            covered[tree.query_ball_point(X[i], threshold, return_sorted=False)] = True
    return X[centers]


def kmeans(X: Floats, n_centers: int, rng: np.random.RandomState) -> Floats:
    """Centroids of k-means."""
    n_centers = min(n_centers, len(np.unique(X, axis=0)))
    model = MiniBatchKMeans(n_centers, random_state=rng, n_init=1, batch_size=4096)
    result: Floats = model.fit(X).cluster_centers_
    return result


@dataclass(frozen=True, eq=False)
class Lattice:
    """Cubic cells whose corners are `threshold` from their middle.

    A cell is known by whole numbers, so which cell a point belongs to depends on nothing but the point: predictions do
    not change with the other points asked for.

    Attributes
    ----------
    origin : ndarray of shape (d,)
    side : float
    """

    origin: Floats
    side: float

    @classmethod
    def covering(cls, X: Floats, threshold: float) -> Lattice:
        """Lattice whose cells reach no farther than `threshold` from their middles, with the data in whole cells."""
        return cls.covering_box(*column_range(X), lambda: np.median(X, axis=0), threshold)

    @classmethod
    def covering_box(cls, low: Floats, high: Floats, median: Callable[[], Floats], threshold: float) -> Lattice:
        """The same from the corners of the data's box, and their median where it is needed, each of shape (d,)."""
        side = 2 * threshold / len(low) ** 0.5
        # Centre the cells over the data, so that the outermost ones are used evenly; but an outlier must not take the
        # origin so far away that the digits of the other points are lost.
        excess = np.ceil((high - low) / side + 1e-9) * side - (high - low)
        wide = high - low >= 2.0**30 * side
        return cls(np.where(wide, median(), low - 0.5 * excess) if wide.any() else low - 0.5 * excess, side)

    def indices(self, X: Array) -> Array:
        """Cell of each point: whole numbers, of the type of the points, of shape (n, d)."""
        xp = namespace(X)
        # Beyond 2^52 cells from the origin no two points share a cell, and all that matters is that nothing overflows.
        return xp.clip(xp.floor((X - like(self.origin, X)) / self.side), -(2.0**52), 2.0**52)

    def cells(self, X: Floats) -> Integers:
        """Cell of each point as integers of shape (n, d)."""
        result: Integers = self.indices(X).astype(np.int64)
        return result

    def middles(self, indices: Array) -> Array:
        """Middle of each cell (C, d), given by `cells` or `indices`."""
        origin = self.origin if isinstance(indices, np.ndarray) else like(self.origin, indices)
        return origin + (indices + 0.5) * self.side

    def occupied(self, X: Floats) -> tuple[Integers, Integers]:
        """Cells that hold points, (C, d) in lexicographic order, and the place of each point's cell among them."""
        return group_rows(self.cells(X))


def middle(X: Floats) -> Floats:
    """Mean of the points, or their median where an outlier takes the mean so far away that their digits are lost."""
    mean, median = X.mean(axis=0), np.median(X, axis=0)
    result: Floats = np.where(np.abs(mean - median) < 2.0**20, mean, median)
    return result


def sorted_groups(rows: Integers) -> tuple[Integers, Integers]:
    """Order of rows (n, d) in which like are together, and where each group starts."""
    keys = _keys(rows)
    if keys is None:
        _, keys = group_rows(rows)
    order = stable_order(keys)
    keys = keys[order]
    return order, np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]]))


def _keys(rows: Integers) -> Integers | None:
    """One number per row (n, d), in the order of the rows; None where there are too many for that."""
    low, high = column_range(rows)
    extent = (high - low).astype(np.float64) + 1
    if not np.prod(extent) < 2.0**62:
        return None
    keys = np.zeros(len(rows), dtype=np.int64)
    for j, count in enumerate(extent.astype(np.int64)):
        keys *= count
        keys += rows[:, j] - low[j]
    return keys


def middles_of_groups(X: Floats, owner: Integers, n_groups: int) -> Floats:
    """Middle of the bounding box of each group of points: nearer to them than the middle of their cell."""
    order = np.argsort(owner, kind="stable")
    return middles_of_boxes(X[order], np.searchsorted(owner[order], np.arange(n_groups)))


def middles_of_boxes(X: Floats, starts: Integers) -> Floats:
    """The same for groups of points that are one after the other, and start at some rows."""
    if len(starts) == 0:
        return X[:0]
    result: Floats = 0.5 * (np.minimum.reduceat(X, starts) + np.maximum.reduceat(X, starts))
    return result


def group_rows(rows: Integers) -> tuple[Integers, Integers]:
    """Distinct rows, and for each row the place of its like among them; faster than `numpy.unique` along an axis."""
    if len(rows) == 0:
        return rows, np.empty(0, dtype=np.int64)
    keys = _keys(rows)
    if keys is not None:
        _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
        return rows[first], inverse
    distinct, inverse = np.unique(rows, axis=0, return_inverse=True)
    return distinct, inverse.reshape(-1)


NEAR = 0.4  # of the distance to the last of a centre's neighbours, within which those are neighbours of a point too


@dataclass(frozen=True, eq=False)
class Placement:
    """Centres and the cells they stand for.

    Attributes
    ----------
    centers : ndarray of shape (C, d)
    spacing : float or None
        Every training point has a centre within it; None where there is no such promise.
    lattice : Lattice or None
        Its cells hold the centres opened for test points far from all others.
    cells : ndarray of shape (C, d) or None
        Cell of each centre, where centres are one a cell.
    reach : ndarray of shape (C,) or None
        How far from each centre its neighbours serve, where cells differ in size.
    sizes : ndarray of shape (C,) or None
        Half the diagonal of each cell, where cells of several sizes cover all places, occupied or not.
    near : float or None
        How these were made; see `graded.cells`. None where they are not to be made again.
    n_chosen : int
        The first centres, that are no cells' middles.
    """

    centers: Floats
    spacing: float | None
    lattice: Lattice | None
    cells: Integers | None = None
    reach: Floats | None = None
    sizes: Floats | None = None
    near: float | None = None
    n_chosen: int = 0

    @cached_property
    def tree(self) -> cKDTree:
        """Index of the centres."""
        return cKDTree(on_host(self.centers))

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "tree"}  # follows from the centres

    def covers(self, X: Array) -> Booleans:
        """Whether each point (n, d) is as near to a centre as was promised."""
        reach = self.sizes if self.reach is None else on_host(self.reach)
        if len(self.centers) == 0 or (reach is None and self.spacing is None):
            return np.ones(len(X), dtype=bool)
        distance, owner = self.tree.query(on_host(X))
        limit: Any = self.spacing if reach is None else reach[owner]
        result: Booleans = distance <= limit * (1 + 1e-9)
        return result


def kind_for(kind: str, d: int) -> str:
    """The kind of centres that "auto" stands for in `d` columns, or the one that was named."""
    if kind != "auto":
        return kind
    return "grid" if d <= 3 else "net"


def place(
    kind: str | int | Floats, X: Floats, spacing: float | None, n: int | None, rng: np.random.RandomState
) -> Placement:
    """Centres for the points `X`.

    Parameters
    ----------
    kind : str, int or ndarray of shape (C, d)
        "grid", "net", "farthest", "kmeans", "random", "mean", "test" (none before prediction), "auto"; a number of
        farthest points; or the centres.
    spacing : float or None
        Covering radius; None for a single centre.
    n : int or None
        Number of centres, for the kinds that need one.
    """
    lattice = None if spacing is None else Lattice.covering(X, spacing)
    if isinstance(kind, np.ndarray):
        return Placement(kind, spacing, lattice)
    if not isinstance(kind, str):
        return Placement(farthest_points(X, None, int(kind)), spacing, lattice)
    kind = kind_for(kind, X.shape[1])
    if kind == "test":
        return Placement(np.empty((0, X.shape[1])), spacing, lattice)
    if kind == "farthest" and (spacing is not None or n is not None):
        return Placement(farthest_points(X, spacing, n), spacing, lattice)
    if kind == "kmeans" and n is not None:
        return Placement(kmeans(X, n, rng), spacing, lattice)
    if kind == "random" and n is not None:
        return Placement(X[rng.choice(len(X), min(n, len(X)), replace=False)], spacing, lattice)
    if kind == "mean":
        return Placement(X.mean(axis=0)[None], spacing, lattice)
    if spacing is None or lattice is None:
        return Placement(middle(X)[None], spacing, lattice)
    if kind == "net":
        return Placement(greedy_net(X, spacing, rng), spacing, lattice)
    cells = lattice.cells(X)
    order, starts = sorted_groups(cells)
    middles = middles_of_boxes(X.take(order, axis=0), starts)
    return Placement(middles, spacing, lattice, cells[order[starts]])
