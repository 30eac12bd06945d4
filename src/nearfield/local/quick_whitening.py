"""Whitening of very many points, in single precision and many cells at a time.

It does what `whitening` does, and costs a third. Cells are conditioned on the nearest points of the nearest earlier
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


def serves(kernel: Kernel, noise: Floats) -> bool:
    """Whether single precision does, for noise variances (n,)."""
    return float(noise.min()) >= LEAST_NOISE * kernel.variance


def quickly_whitened(kernel: Kernel, data: TrainingSet, n_jobs: int | None) -> Floats:
    """`T' C^-1 T`, (t, t), of all targets `T` (n, t); see `whitening.whitened`."""
    cells, lacking = equal_cells(data.X, CELL_POINTS, np.random.RandomState(0))
    # Points of a cell lie side by side in memory: most of the time would go into fetching them otherwise.
    X, noise = data.X[cells], data.noise[cells].astype(np.float32)
    T = data.y.astype(np.float32)[cells]
    t = T.shape[2]
    middles = 0.5 * (X.min(axis=1) + X.max(axis=1))
    near = nearest_earlier_cells(middles, NEAR_CELLS, n_jobs)
    noise[lacking, -1] = NOTHING * (kernel.variance + float(noise.max()))  # a point that is there twice counts once

    def in_double(number: int, earlier: Integers) -> Floats:
        own = cells[number, : -1 if lacking[number] else None]
        return whitened(kernel, data.X, data.noise, [Block(own, earlier)], lambda rows: data.y[rows], 1)[0]

    def work(run: slice) -> Floats:
        others, middle = near[run], middles[run, None]
        candidates = X[others, :-1].reshape(len(others), -1, X.shape[2]) - middle
        squares = np.einsum("bij,bij->bi", candidates, candidates)
        chosen = np.argpartition(squares, EARLIER, axis=1)[:, :EARLIER]

        def joined(of_cells: Any) -> Any:
            """What is of the earlier points chosen, and of the cells' own, (B, m, ...)."""
            cell, place = np.divmod(chosen, X.shape[1] - 1)
            return np.concatenate([of_cells[np.take_along_axis(others, cell, axis=1), place], of_cells[run]], axis=1)

        places, values, diagonal = (joined(X) - middle).astype(np.float32), joined(T), np.arange(EARLIER + X.shape[1])
        K = kernel(places, places)
        K[:, diagonal, diagonal] += joined(noise)
        gram = np.zeros((t, t))
        for i, number in enumerate(range(run.start, run.stop)):
            if linalg.cholesky_in_place(K[i].T):
                W = linalg.solve_lower_rows(K[i].T, values[i])[EARLIER:]
                gram += W.T @ W
            else:
                gram += in_double(number, joined(cells)[i, :EARLIER])
        return gram

    first = NEAR_CELLS  # cells that have fewer before them
    sums = [in_double(i, cells[:i, :-1].ravel()) for i in range(first)]
    runs = [slice(first + run.start, first + run.stop) for run in batches(len(cells) - first, CELLS_AT_ONCE)]
    result: Floats = np.sum(sums + thread_map(work, runs, n_jobs), axis=0)
    return result
