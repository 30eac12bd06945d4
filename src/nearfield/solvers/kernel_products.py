r"""Products of a short kernel with matrices, without what is too far apart to matter.

Points are put in the order of a balanced k-d tree, so that the points of a leaf lie close together. Each leaf meets the
points within reach of its bounding box in dense blocks, which BLAS multiplies. There are more entries than in a sparse
matrix, but they have no indices, and of two blocks that mirror each other there is only one. A product that computes
them anew takes two to three times as long as one that reads them, and less than that for many columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from ..common import memory
from ..common.errors import OutOfReachError
from ..common.threads import n_threads, thread_map, worker_threads
from ..common.types import Floats, Integers
from ..kernels import Kernel

LEAF = 128  # points per leaf at most: fewer reach less far, more keep BLAS busy
MANY_PAIRS = 100_000  # of leaves, from which on their list may not fit into memory
LEAVES_PER_BLOCK = 32  # at most, so that memory is bounded
TOO_FAR = "The kernel reaches too far for so many points."


class KernelProduct:
    """The matrix `K` of a kernel at `n` points, as something to multiply with.

    Each of the `J` Gaussians is left out where it is below `cutoff / J` of the kernel's variance, by the distance in
    units of the longest length scale per column: an entry is too small by at most `cutoff` times the variance. The
    matrix multiplied with is symmetric, and results do not depend on the number of threads.

    Parameters
    ----------
    kernel : Kernel
    X : ndarray of shape (n, d)
    cutoff : float
        Between 0 and 1.
    n_jobs : int or None
        Threads; None is one per core.
    keep : bool or None
        Whether to keep the blocks of `K` from one product to the next, rather than to compute them anew. None keeps
        them if there is room (`memory.room`).
    max_pairs : float
        Refuse more pairs of points than this, before they are listed: by a rough count, up to some twice `n_pairs`.

    Attributes
    ----------
    n_pairs : int
        Entries of `K` that are not left out, n^2 where none is: what a product costs.
    left_out : float
        Bound on the row sums of what is left out, and so on its spectral norm: an entry of `product(V)` is wrong by at
        most this times the largest absolute value in the column of `V`.
    kept : bool

    Raises
    ------
    OutOfReachError
        Where there are more than `max_pairs`.
    MemoryError
        Where even the list of near points does not fit into memory: the kernel reaches too far for so many points.
    """

    def __init__(
        self,
        kernel: Kernel,
        X: Floats,
        *,
        cutoff: float = 1e-10,
        n_jobs: int | None = None,
        keep: bool | None = None,
        max_pairs: float = np.inf,
    ) -> None:
        if not 0 < cutoff < 1:
            raise ValueError(f"The 'cutoff' argument must lie between 0 and 1. Got {cutoff!r}.")
        self.n_jobs = n_jobs
        self.unit = kernel.length_scales.max(axis=0)
        self.gaussians = Gaussians.of(Kernel(kernel.length_scales / self.unit, kernel.variances), cutoff)
        self.points = _Leaves.of(np.asarray(X, dtype=np.float64) / self.unit, LEAF)
        a, b, lost = _near_leaves(self.points, self.points, self.gaussians)
        sizes = np.diff(self.points.bounds)
        if (n_pairs := sizes[a] @ sizes[b]) > max_pairs:
            raise OutOfReachError(
                f"The kernel reaches across {n_pairs:.2g} pairs of points, more than {max_pairs:.2g}."
            )
        a, b, lost = a[a <= b], b[a <= b], np.repeat(lost, sizes)
        memory.require(4.0 * sizes[b].sum(), "The list of near points", TOO_FAR)
        self.tasks: list[_Task] = []
        for leaf, leaves in _runs(a, b):
            targets, rows, distances = _near_points(self.points, self.points, leaf, leaves)
            task = _Task.of(targets, rows, self.gaussians.counts(distances))
            beyond = self.gaussians.lost(distances)
            lost[targets] += beyond.sum()
            lost[rows] += task.n_targets * beyond
            self.tasks.append(task)
        self.left_out = float(lost.max())
        n_entries = sum(task.n_targets * len(task.sources) for task in self.tasks)
        self.n_pairs = 2 * n_entries - sum(task.n_targets * task.n_own for task in self.tasks)
        self.kept = 8 * n_entries <= memory.room() if keep is None else keep
        if self.kept:
            memory.require(8 * n_entries, "The kernel matrix", "Use keep=False.")
        self.blocks = thread_map(self._block, self.tasks, n_jobs) if self.kept else None

    @property
    def diagonal(self) -> Floats:
        """Diagonal (n,) of `K`."""
        return np.full(len(self.points.X), self.gaussians.kernel.variance)

    def product(self, V: Floats) -> Floats:
        """`K V` of shape (n, r) for `V` of shape (n, r)."""
        V = V.take(self.points.order, axis=0)
        total, workers = np.zeros(V.shape), n_threads(self.n_jobs)

        def contributions(t: int) -> tuple[Floats, Floats]:
            task = self.tasks[t]
            K = self._block(task) if self.blocks is None else self.blocks[t]
            return K @ V[task.sources], K[:, task.n_own :].T @ V[task.targets]

        with worker_threads(workers) as threads:
            ready: Iterable[Any] = ()
            # The sums of a round are made here, in order, while the threads are at the next one.
            for now in [*memory.batches(len(self.tasks), 4 * workers), slice(0)]:
                under_way = zip(self.tasks[now], threads(contributions, range(len(self.tasks))[now]), strict=True)
                for task, (forward, backward) in ready:
                    total[task.targets] += forward
                    total[task.sources[task.n_own :]] += backward
                ready = under_way
        return self.points.restore(total)

    def _block(self, task: _Task) -> Floats:
        return self.gaussians.block(self.points.X[task.targets], self.points.X[task.sources], task.counts)


@dataclass(frozen=True, eq=False)
class NearSums:
    """The function that gives `k(Xs, X) V` (m, r) at points `Xs` (m, d), for points `X` (n, d) and `V` (n, r).

    An entry is wrong by at most `cutoff * variance * n` times the largest absolute value in the column of `V`; in
    general by far less, as with `KernelProduct.left_out`.
    """

    unit: Floats
    gaussians: Gaussians
    points: _Leaves
    V: Floats
    n_jobs: int | None

    @classmethod
    def of(cls, kernel: Kernel, X: Floats, V: Floats, *, cutoff: float, n_jobs: int | None) -> NearSums:
        """See `KernelProduct` for `cutoff` and `n_jobs`."""
        unit = kernel.length_scales.max(axis=0)
        gaussians = Gaussians.of(Kernel(kernel.length_scales / unit, kernel.variances), cutoff)
        points = _Leaves.of(np.asarray(X, dtype=np.float64) / unit, LEAF)
        return cls(unit, gaussians, points, V.take(points.order, axis=0), n_jobs)

    def __call__(self, Xs: Floats) -> Floats:
        """See the class."""
        total = np.zeros((len(Xs), self.V.shape[1]))
        if len(Xs) == 0:
            return total
        # Few points lie far from each other: smaller leaves, that their boxes do not grow much beyond those of X.
        size = min(LEAF, max(8 * LEAF * len(Xs) // len(self.V), 2))
        queries = _Leaves.of(np.asarray(Xs, dtype=np.float64) / self.unit, size)
        a, b, _ = _near_leaves(queries, self.points, self.gaussians)
        starts = np.flatnonzero(np.diff(a, prepend=-1))

        def sum_at(run: slice) -> None:
            for leaf, leaves in _runs(a[run], b[run]):
                targets, rows, distances = _near_points(queries, self.points, leaf, leaves)
                counts = self.gaussians.counts(distances)
                sources = rows[: counts[0]]
                K = self.gaussians.block(queries.X[targets], self.points.X[sources], counts)
                total[targets] += K @ self.V[sources]

        thread_map(sum_at, [slice(*ends) for ends in pairwise([*starts, len(a)])], self.n_jobs)
        return queries.restore(total)


def _near_points(queries: _Leaves, points: _Leaves, leaf: int, leaves: Integers) -> tuple[slice, Integers, Floats]:
    """Rows of the queries in a leaf; rows of the points in some leaves, nearest first, and distances to its box."""
    (low, high), rows = queries.boxes[-1], points.rows(leaves)
    X = points.X[rows]
    gaps = np.maximum(np.maximum(low[leaf] - X, X - high[leaf]), 0.0)
    distances = np.sqrt(np.einsum("ij,ij->i", gaps, gaps))
    order = np.argsort(distances, kind="stable")  # a leaf's own points, which come first, stay there
    return slice(queries.bounds[leaf], queries.bounds[leaf + 1]), rows[order], distances[order]


@dataclass(frozen=True, eq=False)
class _Task:
    """A block of the matrix: rows `targets`, columns `sources`, the first `n_own` of which are the rows themselves.

    `counts` is as in `Gaussians.block`.
    """

    targets: slice
    sources: Integers
    counts: Integers
    n_own: int

    @classmethod
    def of(cls, targets: slice, rows: Integers, counts: Integers) -> _Task:
        n_targets = targets.stop - targets.start
        return cls(targets, rows[: counts[0]].astype(np.int32), counts, n_targets if rows[0] == targets.start else 0)

    @property
    def n_targets(self) -> int:
        return int(self.targets.stop - self.targets.start)


@dataclass(frozen=True, eq=False)
class Gaussians:
    """A kernel whose longest length scale per column is 1, and how far each of its Gaussians reaches.

    Attributes
    ----------
    kernel : Kernel
        Gaussians in the order of their reaches.
    reaches : ndarray of shape (J,)
        Distances up to which each is taken into account; the farthest first.
    """

    kernel: Kernel
    reaches: Floats

    @classmethod
    def of(cls, kernel: Kernel, cutoff: float) -> Gaussians:
        """Each Gaussian reaches to where it is below `cutoff / J` of the kernel's variance."""
        heights = kernel.variances / (cutoff / kernel.n_scales * kernel.variance)
        reaches = kernel.length_scales.max(axis=1) * np.sqrt(2 * np.log(np.maximum(heights, 1.0)))
        order = np.argsort(-reaches)
        return cls(Kernel(kernel.length_scales[order], kernel.variances[order]), reaches[order])

    def lost(self, distances: Floats) -> Floats:
        """Bound on what is left out of the kernel at each of some distances (p,)."""
        lost = np.zeros(len(distances))
        for reach, (scales, variance) in zip(self.reaches, self.kernel.components(), strict=True):
            beyond = distances > reach
            lost[beyond] += variance * np.exp(-0.5 * (distances[beyond] / scales.max()) ** 2)
        return lost

    def counts(self, distances: Floats) -> Integers:
        """Numbers (J,) of sorted distances within the reach of each Gaussian."""
        return np.searchsorted(distances, self.reaches, side="right")

    def block(self, X: Floats, Y: Floats, counts: Integers) -> Floats:
        """Kernel (n, m) of `X` (n, d) and `Y` (m, d), where Gaussian j is of the first `counts[j]` of `Y` only."""
        columns = [
            Kernel(self.kernel.length_scales[:j], self.kernel.variances[:j])(X, Y[start:stop])
            for j, (start, stop) in zip(range(len(counts), 0, -1), pairwise([0, *counts[::-1]]), strict=True)
            if start < stop
        ]
        return columns[0] if len(columns) == 1 else np.concatenate([np.empty((len(X), 0)), *columns], axis=1)


@dataclass(frozen=True, eq=False)
class _Leaves:
    """Points in the order of a balanced k-d tree, all of whose leaves have the same depth.

    Attributes
    ----------
    X : ndarray of shape (n, d)
        Points in the order of the tree.
    order : ndarray of shape (n,)
        Rows that they had.
    bounds : ndarray of shape (2^depth + 1,)
        Leaf `i` has the points from `bounds[i]` to `bounds[i + 1]`.
    boxes : list of pairs of ndarrays of shape (2^level, d)
        Lower and upper corners of the bounding boxes per level, from the root to the leaves.
    """

    X: Floats
    order: Integers
    bounds: Integers
    boxes: list[tuple[Floats, Floats]]

    @classmethod
    def of(cls, X: Floats, size: int) -> _Leaves:
        """Tree with at most `size` points per leaf, 2 or more."""
        order, bounds = np.arange(len(X)), np.array([0, len(X)])
        while np.diff(bounds).max() > size:
            middles = (bounds[:-1] + bounds[1:]) // 2
            for low, middle, high in zip(bounds[:-1], middles, bounds[1:], strict=True):
                points = X[order[low:high]]
                widest = np.argmax(np.ptp(points, axis=0))
                order[low:high] = order[low:high][np.argpartition(points[:, widest], middle - low)]
            bounds = np.sort(np.concatenate([bounds, middles]))
        X = X[order]
        boxes = [(np.minimum.reduceat(X, bounds[:-1], axis=0), np.maximum.reduceat(X, bounds[:-1], axis=0))]
        while len(boxes[0][0]) > 1:
            lows, highs = (corners.reshape(-1, 2, X.shape[1]) for corners in boxes[0])
            boxes.insert(0, (lows.min(axis=1), highs.max(axis=1)))
        return cls(X, order, bounds, boxes)

    def rows(self, leaves: Integers) -> Integers:
        """Rows of `X` that belong to some leaves."""
        bounds = self.bounds
        return np.concatenate([np.arange(bounds[i], bounds[i + 1]) for i in leaves] or [np.arange(0)])

    def restore(self, values: Floats) -> Floats:
        """Rows of `values` in the order in which the points came."""
        result = np.empty_like(values)
        result[self.order] = values
        return result


def _near_leaves(A: _Leaves, B: _Leaves, gaussians: Gaussians) -> tuple[Integers, Integers, Floats]:
    """Leaves of `A` and of `B` whose boxes the kernel reaches across, sorted.

    Returns
    -------
    a, b : ndarrays of shape (p,)
    lost : ndarray with one entry per leaf of A
        Bound on the sum of the kernel between a point of the leaf and all points that are not near.
    """
    a = b = np.zeros(1, dtype=np.int64)
    lost = np.zeros(1)
    depths = len(A.boxes) - 1, len(B.boxes) - 1
    for level in range(max(depths) + 1):
        level_a, level_b = min(level, depths[0]), min(level, depths[1])
        if len(a) > MANY_PAIRS:
            memory.require(256.0 * len(a), "The list of near points", TOO_FAR)
        if level and level_a == level:
            a, b, lost = np.concatenate([2 * a, 2 * a + 1]), np.concatenate([b, b]), np.repeat(lost, 2)
        if level and level_b == level:
            a, b = np.concatenate([a, a]), np.concatenate([2 * b, 2 * b + 1])
        (low_a, high_a), (low_b, high_b) = A.boxes[level_a], B.boxes[level_b]
        squares = np.zeros(len(a))  # column by column: there may be many pairs
        for c in range(low_a.shape[1]):
            squares += np.maximum(np.maximum(low_a[a, c] - high_b[b, c], low_b[b, c] - high_a[a, c]), 0.0) ** 2
        distances = np.sqrt(squares)
        far = distances > gaussians.reaches[0]
        sizes = np.diff(B.bounds[:: 2 ** (depths[1] - level_b)])
        lost += np.bincount(a[far], sizes[b[far]] * gaussians.lost(distances[far]), minlength=len(lost))
        a, b = a[~far], b[~far]
    order = np.lexsort((b, a))
    return a[order], b[order], lost


def _runs(a: Integers, b: Integers) -> Iterator[tuple[int, Integers]]:
    """Per leaf in `a`, which is sorted: that leaf and the leaves of `b` that go with it, a block's worth at a time."""
    starts = np.flatnonzero(np.diff(a, prepend=-1))
    for start, stop in pairwise([*starts, len(a)]):
        for chunk in memory.batches(stop - start, LEAVES_PER_BLOCK):
            yield int(a[start]), b[start:stop][chunk]
