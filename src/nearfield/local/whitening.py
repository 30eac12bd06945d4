"""Whitening of all data by the local process, block by block.

Cells in random order; the points of each are conditioned on the nearest points of earlier cells. With `C` the
covariance of the local process and the noise, the rows that come out, `W = U T` for targets `T`, are such that `W' W`
is close to `T' C^-1 T`, and they add up over cells.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError

from ..common.threads import thread_map
from ..common.types import Floats, Integers
from ..kernels import Kernel
from ..solvers.factors import Cholesky
from ..solvers.kernel_space import KernelSpace
from ..solvers.ordered_cells import OrderedCell, ordered_cells

CELLS_AT_ONCE = 16  # whose rows are multiplied together
BATCHES = 16  # shared out among threads


class Block(OrderedCell):
    """Rows of a cell, and of the earlier points it is conditioned on."""

    def factor(self, kernel: Kernel, X: Floats, noise: Floats, single: bool = False) -> Cholesky:
        """Factor of the covariance of its points: in double precision, or in single precision where that can be."""
        points = self.points
        places, variances = X[points], noise[points]

        def in_precision(dtype: type[np.floating[Any]]) -> Cholesky:
            given = (places - places[-1]).astype(dtype), variances.astype(dtype)
            factor = KernelSpace.factorise(kernel, *given, what="covariance matrix of a cell")
            assert isinstance(factor, Cholesky)
            return factor

        if single:
            with suppress(LinAlgError):
                return in_precision(np.float32)
        return in_precision(np.float64)


def make_blocks(
    X: Floats, cell_points: int, n_earlier: int, rng: np.random.RandomState, n_jobs: int | None, n_before: int = 0
) -> list[Block]:
    """See `ordered_cells`."""
    return [Block(*cell) for cell in ordered_cells(X, cell_points, n_earlier, rng, n_jobs, n_before)]


def whitened(
    kernel: Kernel,
    X: Floats,
    noise: Floats,
    blocks: list[Block],
    targets: Callable[[Integers], Floats],
    n_jobs: int | None,
    single: bool = False,
) -> tuple[Floats, float]:
    """`T' C^-1 T`, (t, t), and the logarithm of the determinant of `C`, for targets `T` (m, t) of given rows (m,).

    In single precision, where that is good enough, it takes half the time; sums over many cells are in double.
    """

    def work(batch: list[Block]) -> tuple[Floats, float]:
        gram, log_determinant = 0.0, 0.0
        for group in _runs(batch, CELLS_AT_ONCE):
            rows = []
            for block in group:
                factor, start = block.factor(kernel, X, noise, single), len(block.earlier)
                rows.append(factor.whiten(targets(block.points))[start:])
                log_determinant += 2.0 * float(np.log(np.diagonal(factor.lower)[start:]).sum())
            W = np.concatenate(rows)
            gram = gram + (W.T @ W).astype(np.float64)
        return np.asarray(gram), log_determinant

    sums = thread_map(work, _runs(blocks, max(len(blocks) // BATCHES, CELLS_AT_ONCE)), n_jobs)
    return sum((gram for gram, _ in sums[1:]), sums[0][0]), sum(log_determinant for _, log_determinant in sums)


def _runs(blocks: list[Block], size: int) -> list[list[Block]]:
    return [blocks[start : start + size] for start in range(0, len(blocks), size)]
