"""Whitening of all data by the local process, block by block.

Cells in random order; the points of each are conditioned on the nearest points of earlier cells. With `C` the
covariance of the local process and the noise, the rows that come out, `W = U T` for targets `T`, are such that `W' W`
is close to `T' C^-1 T`, and they add up over cells.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_matrix
from scipy.spatial import cKDTree
from sklearn.neighbors import KDTree

from ..common.threads import n_threads, thread_map
from ..common.types import Floats, Integers
from ..kernels import Kernel
from ..solvers.factors import Cholesky
from ..solvers.kernel_space import KernelSpace
from .centers import middles_of_groups

CELLS_AT_ONCE = 16  # whose rows are multiplied together
BATCHES = 16  # shared out among threads


class Block(NamedTuple):
    """Rows of a cell, and of the earlier points it is conditioned on."""

    own: Integers
    earlier: Integers

    @property
    def points(self) -> Integers:
        """All rows, the earlier ones first."""
        return np.concatenate([self.earlier, self.own])

    def factor(self, kernel: Kernel, X: Floats, noise: Floats) -> Cholesky:
        """Factor of the covariance of its points."""
        points = self.points
        factor = KernelSpace.factorise(kernel, X[points], noise[points], what="covariance matrix of a cell")
        assert isinstance(factor, Cholesky)
        return factor


def make_blocks(
    X: Floats, cell_points: int, n_earlier: int, rng: np.random.RandomState, n_jobs: int | None, n_before: int = 0
) -> list[Block]:
    """Cells of at most `cell_points` of the points (n, d), in random order, with their nearest earlier points.

    The first `n_before` points are earlier than all others, and are in no cell.
    """
    cells = _leaves(X[n_before:], cell_points)
    cells = [n_before + cells[i] for i in rng.permutation(len(cells))]
    return [Block(*pair) for pair in zip(cells, _earlier(X, cells, n_earlier, n_before, n_jobs), strict=True)]


def _leaves(X: Floats, cell_points: int) -> list[Integers]:
    """Cells of about equal numbers of points."""
    _, order, nodes, _ = KDTree(X, leaf_size=max(cell_points // 2, 1)).get_arrays()  # which hold up to twice as many
    is_leaf = nodes["is_leaf"].astype(bool)
    bounds = zip(nodes["idx_start"][is_leaf], nodes["idx_end"][is_leaf], strict=True)
    return [np.asarray(order[start:stop]) for start, stop in bounds]


def _earlier(X: Floats, cells: list[Integers], count: int, n_before: int, n_jobs: int | None) -> list[Integers]:
    """The `count` nearest points to the middle of each cell among those of earlier cells.

    Points are searched in ever longer beginnings of the order, twice as long each time, so that about half of what is
    found is earlier.
    """
    sizes = np.array([len(cell) for cell in cells])
    order = np.concatenate([np.arange(n_before), *cells])
    ends = n_before + np.cumsum(sizes)
    rank = np.full(len(X), -1)
    rank[order[n_before:]] = np.repeat(np.arange(len(cells)), sizes)
    middles = middles_of_groups(X[order[n_before:]], rank[order[n_before:]], len(cells))
    nearest: list[Integers] = [np.empty(0, dtype=np.int64)] * len(cells)
    start = 0
    while start < len(cells):
        stop = min(max(2 * start, 8), len(cells))
        candidates = order[: ends[stop - 1]]
        tree, todo, k = cKDTree(X[candidates]), np.arange(start, stop), 2 * count + 64
        while len(todo):
            k = min(k, len(candidates))
            found = candidates[tree.query(middles[todo], k, workers=n_threads(n_jobs))[1].reshape(len(todo), -1)]
            is_earlier = rank[found] < todo[:, None]
            enough = is_earlier.sum(axis=1) >= (count if k < len(candidates) else 0)
            for i in np.flatnonzero(enough):
                nearest[todo[i]] = found[i][is_earlier[i]][:count]
            todo, k = todo[~enough], 3 * k
        start = stop
    return nearest


def whitened(
    kernel: Kernel,
    X: Floats,
    noise: Floats,
    blocks: list[Block],
    targets: Callable[[Integers], Floats],
    n_jobs: int | None,
) -> tuple[Floats, float]:
    """`T' C^-1 T`, (t, t), and the logarithm of the determinant of `C`, for targets `T` (m, t) of given rows (m,)."""

    def work(batch: list[Block]) -> tuple[Floats, float]:
        gram, log_determinant = 0.0, 0.0
        for group in _runs(batch, CELLS_AT_ONCE):
            rows = []
            for block in group:
                factor, start = block.factor(kernel, X, noise), len(block.earlier)
                rows.append(factor.whiten(targets(block.points))[start:])
                log_determinant += 2.0 * float(np.log(np.diagonal(factor.lower)[start:]).sum())
            W = np.concatenate(rows)
            gram = gram + W.T @ W
        return np.asarray(gram), log_determinant

    sums = thread_map(work, _runs(blocks, max(len(blocks) // BATCHES, CELLS_AT_ONCE)), n_jobs)
    return sum((gram for gram, _ in sums[1:]), sums[0][0]), sum(log_determinant for _, log_determinant in sums)


def whitening_matrix(kernel: Kernel, X: Floats, noise: Floats, blocks: list[Block], n_jobs: int | None) -> csr_matrix:
    """`U` (n, n) with `U' U` close to the inverse of `K + diag(noise)`; see `whitened`. Its rows are in any order."""

    def rows_of_block(block: Block) -> tuple[Floats, Integers]:
        points = block.points
        return block.factor(kernel, X, noise).whiten(np.eye(len(points)))[len(block.earlier) :], points

    made = thread_map(rows_of_block, blocks, n_jobs)
    counts = np.concatenate([np.full(len(rows), rows.shape[1]) for rows, _ in made])
    columns = np.concatenate([np.tile(points, len(rows)) for rows, points in made])
    values = np.concatenate([rows.ravel() for rows, _ in made])
    return csr_matrix((values, columns.astype(np.int32), np.concatenate([[0], np.cumsum(counts)])), shape=(len(X),) * 2)


def _runs(blocks: list[Block], size: int) -> list[list[Block]]:
    return [blocks[start : start + size] for start in range(0, len(blocks), size)]
