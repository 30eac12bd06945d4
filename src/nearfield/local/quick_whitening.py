"""Whitening of very many points, in single precision and many cells at a time.

It does what `whitening` does, and costs a quarter. Cells are conditioned on the nearest points of the nearest earlier
cells. Single precision is enough where noise is no less than a thousandth of the variance, which `serves` tells:
matrices are then so well conditioned that what is rounded off is far below what neighbours do not tell.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..common.memory import batches
from ..common.threads import thread_map
from ..common.types import Floats, Integers
from ..kernels import Kernel
from ..solvers import linalg
from ..solvers.ordered_cells import equal_cells, nearest_earlier_cells
from .neighbourhoods import TrainingSet
from .whitening import Block, whitened

CELL_POINTS, EARLIER = 128, 64
NEAR_CELLS = 6  # earlier ones, whose points are looked at
CELLS_AT_ONCE = 16
LEAST_NOISE = 1e-3  # of the variance of the kernel
NOTHING = 1e12  # times that variance, noise that makes a point say nothing
HUGE = 1e30  # on the diagonal of rows that are solved for along with a factorisation, and are not factors themselves


def serves(kernel: Kernel, noise: Floats) -> bool:
    """Whether single precision does, for noise variances (n,)."""
    return float(noise.min()) >= LEAST_NOISE * kernel.variance


def quickly_whitened(kernel: Kernel, data: TrainingSet, n_jobs: int | None) -> Floats:
    """`T' C^-1 T`, (t, t), of all targets `T` (n, t) but the column of ones, under a sum of Gaussians.

    See `whitening.whitened`.
    """
    lattice = data.cells  # an order in which neighbours are near in memory, too: trees are made in half of the time
    order = np.arange(len(data.X)) if lattice is None else lattice.order
    cells, lacking = equal_cells(data.X if lattice is None else lattice.X, CELL_POINTS, np.random.RandomState(0))
    cells = order[cells]
    # Points of a cell lie side by side in memory: most of the time would go into fetching them otherwise.
    X, noise = data.X[cells], data.noise[cells].astype(np.float32)
    T = data.y[:, :-1].astype(np.float32)[cells]
    size, t = EARLIER + X.shape[1], T.shape[2]
    middles = 0.5 * (X.min(axis=1) + X.max(axis=1))
    near = nearest_earlier_cells(middles, NEAR_CELLS, n_jobs)
    noise[lacking, -1] = NOTHING * (kernel.variance + float(noise.max()))  # a point that is there twice counts once

    def in_double(number: int, earlier: Integers) -> Floats:
        own = cells[number, : -1 if lacking[number] else None]
        return whitened(kernel, data.X, data.noise, [Block(own, earlier)], lambda rows: data.y[rows, :-1], 1)[0]

    def work(run: slice) -> Floats:
        others, middle = near[run], middles[run, None]
        candidates = X[others, :-1].reshape(len(others), -1, X.shape[2]) - middle
        squares = np.einsum("bij,bij->bi", candidates, candidates)
        chosen = np.argpartition(squares, EARLIER, axis=1)[:, :EARLIER]
        cell, place = np.divmod(chosen, X.shape[1] - 1)
        cell = np.take_along_axis(others, cell, axis=1)

        def joined(of_cells: Any) -> Any:
            """What is of the earlier points chosen, and of the cells' own, (B, size, ...)."""
            return np.concatenate([of_cells[cell, place], of_cells[run]], axis=1)

        # Targets are further rows of the matrices: factors have them whitened there.
        K = np.empty((len(others), size + t, size + t), dtype=np.float32)
        fill(K[:, :size, :size], kernel, (joined(X) - middle).astype(np.float32))
        K[:, :size, size:], K[:, size:, size:] = joined(T), 0.0
        diagonal = np.einsum("bii->bi", K)
        diagonal[:, :size] += joined(noise)
        diagonal[:, size:] = HUGE
        failed = [i for i in range(len(K)) if not linalg.cholesky_in_place(K[i].T)]
        W = K[:, EARLIER:size, size:]
        W[failed] = 0.0
        W = W.reshape(-1, t).astype(np.float64)
        return sum((in_double(run.start + i, cells[cell[i], place[i]]) for i in failed), W.T @ W)

    first = NEAR_CELLS  # cells that have fewer before them
    sums = [in_double(i, cells[:i, :-1].ravel()) for i in range(first)]
    runs = [slice(first + run.start, first + run.stop) for run in batches(len(cells) - first, CELLS_AT_ONCE)]
    return sum(thread_map(work, runs, n_jobs), sum(sums[1:], sums[0]))


def fill(K: Floats, kernel: Kernel, Z: Floats) -> None:
    """Put covariances (B, m, m) of points (B, m, d) near zero, under a sum of Gaussians, into `K`.

    Exponents are products of rows with two more columns, `z z' - |z|^2 / 2 - |z'|^2 / 2 + log v`, so that matrices are
    gone through twice for each Gaussian.
    """
    for number, (scales, variance) in enumerate(kernel.components()):
        scaled = Z / scales.astype(np.float32)
        halves, ones = 0.5 * np.sum(scaled * scaled, axis=2, keepdims=True), np.ones_like(Z[:, :, :1])
        left = np.concatenate([scaled, np.log(np.float32(variance)) - halves, -ones], axis=2)
        right = np.concatenate([scaled, ones, halves], axis=2).transpose(0, 2, 1)
        if number == 0:
            np.exp(np.matmul(left, right, out=K), out=K)
        else:
            exponents = left @ right
            K += np.exp(exponents, out=exponents)
