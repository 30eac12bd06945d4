r"""Products of a short kernel with matrices, without what is too far apart to matter.

Points are put in the order of a balanced k-d tree, so that the points of a leaf lie close together. Two leaves whose
bounding boxes are farther apart than the kernel reaches are left out; all others meet in dense blocks, which BLAS
multiplies many times faster than a sparse matrix of the same entries, and which take less memory: no indices, and of
two blocks that mirror each other only one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Any

import numpy as np
from scipy.optimize import brentq

from ..common import memory
from ..common.threads import n_threads, thread_map, worker_threads
from ..common.types import Floats, Integers
from ..kernels import Kernel

LEAF = 128  # points per leaf at most: fewer reach less far, more keep BLAS busy
LEAVES_PER_BLOCK = 32  # at most, so that memory is bounded
KEPT_SHARE = 0.25  # of free memory, that kept blocks may take


class KernelProduct:
    """The matrix `K` of a kernel at `n` points, as something to multiply with.

    Entries below `cutoff` times the variance may be left out, by a distance in units of the longest length scale per
    column. `K` lies within `left_out` of the matrix multiplied with, in the largest row sum of absolute values and so
    also in the spectral norm; both are symmetric. Results do not depend on the number of threads.

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
        them if they take at most a quarter of free memory.

    Attributes
    ----------
    n_pairs : int
        Entries of `K` that are not left out, n^2 where none is: what a product costs.
    left_out : float
        Bound on what is left out, see above. An entry of `product(V)` or `cross(Xs, V)` is wrong by at most this (for
        `cross` see there) times the largest absolute value in the column of `V`.
    kept : bool

    Raises
    ------
    MemoryError
        Where even the list of blocks does not fit into memory: the kernel reaches too far for so many points.
    """

    def __init__(
        self, kernel: Kernel, X: Floats, *, cutoff: float = 1e-10, n_jobs: int | None = None, keep: bool | None = None
    ) -> None:
        if not 0 < cutoff < 1:
            raise ValueError(f"The 'cutoff' argument must lie between 0 and 1. Got {cutoff!r}.")
        self.n_jobs = n_jobs
        self.unit = kernel.length_scales.max(axis=0)
        self.kernel = Kernel(kernel.length_scales / self.unit, kernel.variances)
        least = cutoff * kernel.variance
        self.reach = float(
            brentq(lambda r: _envelope(self.kernel, r) / least - 1, 0.0, np.sqrt(-2 * np.log(cutoff)) + 1)
        )
        self.points = _Leaves.of(np.asarray(X, dtype=np.float64) / self.unit, LEAF)
        a, b, lost = _near_leaves(self.points, self.points, self.kernel, self.reach)
        self.left_out = float(lost.max())
        sizes = np.diff(self.points.bounds)
        self.n_pairs = int(sizes[a] @ sizes[b])
        upper = a <= b
        self.tasks = list(chain.from_iterable(_tasks(a[upper], b[upper])))
        n_bytes = 8 * int(sizes[a[upper]] @ sizes[b[upper]])
        self.kept = n_bytes <= KEPT_SHARE * memory.available() if keep is None else keep
        if self.kept:
            memory.require(n_bytes, "The kernel matrix", "Use keep=False.")
        self.blocks = thread_map(self._block, self.tasks, n_jobs) if self.kept else None

    @property
    def diagonal(self) -> Floats:
        """Diagonal (n,) of `K`."""
        return np.full(len(self.points.X), self.kernel.variance)

    def product(self, V: Floats) -> Floats:
        """`K V` of shape (n, r) for `V` of shape (n, r)."""
        V = V.take(self.points.order, axis=0)
        total = np.zeros(V.shape)
        bounds, workers = self.points.bounds, n_threads(self.n_jobs)

        def contributions(t: int) -> tuple[Floats, Floats]:
            a, leaves = self.tasks[t]
            K = self._block(self.tasks[t]) if self.blocks is None else self.blocks[t]
            mirrored = bounds[a + 1] - bounds[a] if leaves[0] == a else 0  # all but the block on the diagonal
            return K @ V[self.points.rows(leaves)], K[:, mirrored:].T @ V[bounds[a] : bounds[a + 1]]

        with worker_threads(workers) as threads:
            tasks = range(len(self.tasks))
            ready: Iterable[Any] = ()
            # The sums of a round are made here, in order, while the threads are at the next one.
            for now in [*memory.batches(len(tasks), 4 * workers), slice(len(tasks), None)]:
                under_way = zip(self.tasks[now], threads(contributions, tasks[now]), strict=True)
                for (a, leaves), (forward, backward) in ready:
                    total[bounds[a] : bounds[a + 1]] += forward
                    total[self.points.rows(leaves[leaves > a])] += backward
                ready = under_way
        return self.points.restore(total)

    def cross(self, Xs: Floats, V: Floats) -> Floats:
        """`k(Xs, X) V` of shape (m, r) for other points `Xs` (m, d) and `V` (n, r).

        An entry is wrong by at most `cutoff * variance * n` times the largest absolute value in the column of `V`;
        by far less in general, as with `left_out`.
        """
        n, m = len(V), len(Xs)
        total = np.zeros((m, V.shape[1]))
        if m == 0:
            return total
        V = V.take(self.points.order, axis=0)
        # Leaves of the size that those of X have, for points that lie alike.
        queries = _Leaves.of(np.asarray(Xs, dtype=np.float64) / self.unit, max(min(LEAF, LEAF * m // n), 2))
        a, b, _ = _near_leaves(queries, self.points, self.kernel, self.reach)

        def sum_at(tasks: list[tuple[int, Integers]]) -> None:
            for a, leaves in tasks:
                targets, sources = slice(queries.bounds[a], queries.bounds[a + 1]), self.points.rows(leaves)
                total[targets] += self.kernel(queries.X[targets], self.points.X[sources]) @ V[sources]

        thread_map(sum_at, _tasks(a, b), self.n_jobs)
        return queries.restore(total)

    def _block(self, task: tuple[int, Integers]) -> Floats:
        a, leaves = task
        X, bounds = self.points.X, self.points.bounds
        K: Floats = self.kernel(X[bounds[a] : bounds[a + 1]], X[self.points.rows(leaves)])
        return K


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


def _envelope(kernel: Kernel, distance: Floats | float) -> Floats:
    """Bound on the kernel at a distance in units of the longest scale per column, which are 1 here."""
    exponents = -0.5 * np.multiply.outer(np.square(distance), kernel.length_scales.max(axis=1) ** -2.0)
    bound: Floats = np.exp(exponents) @ kernel.variances
    return bound


def _near_leaves(A: _Leaves, B: _Leaves, kernel: Kernel, reach: float) -> tuple[Integers, Integers, Floats]:
    """Leaves of `A` and of `B` whose boxes are at most `reach` apart, sorted.

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
        memory.require(256.0 * len(a), "The list of near points", "The kernel reaches too far for so many points.")
        if level and level_a == level:
            a, b, lost = np.concatenate([2 * a, 2 * a + 1]), np.concatenate([b, b]), np.repeat(lost, 2)
        if level and level_b == level:
            a, b = np.concatenate([a, a]), np.concatenate([2 * b, 2 * b + 1])
        (low_a, high_a), (low_b, high_b) = A.boxes[level_a], B.boxes[level_b]
        squares = np.zeros(len(a))
        for c in range(low_a.shape[1]):
            squares += np.maximum(np.maximum(low_a[a, c] - high_b[b, c], low_b[b, c] - high_a[a, c]), 0.0) ** 2
        far = squares > reach**2
        sizes = np.diff(B.bounds[:: 2 ** (depths[1] - level_b)])
        lost += np.bincount(a[far], sizes[b[far]] * _envelope(kernel, np.sqrt(squares[far])), minlength=len(lost))
        a, b = a[~far], b[~far]
    order = np.lexsort((b, a))
    return a[order], b[order], lost


def _tasks(a: Integers, b: Integers) -> Iterable[list[tuple[int, Integers]]]:
    """Per leaf in `a`, which is sorted: pairs of it and of some of the leaves in `b` that go with it."""
    starts = np.flatnonzero(np.diff(a, prepend=-1))
    for start, stop in pairwise([*starts, len(a)]):
        leaves = b[start:stop]
        yield [(int(a[start]), leaves[chunk]) for chunk in memory.batches(len(leaves), LEAVES_PER_BLOCK)]
