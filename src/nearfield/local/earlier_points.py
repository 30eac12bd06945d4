"""Whether cells are given enough earlier points: what twice as many would change in what is known of long scales.

Of `b - A beta`, which is zero where coefficients are right, and of `A` each cell has its share (see `global_part`).
With more earlier points a share changes. Some cells tell how much: by their mean, which adds up over all cells, and by
their spread, which adds up like noise.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..common.threads import thread_map
from ..common.types import Floats, Integers
from ..kernels import Kernel
from .neighbourhoods import TrainingSet
from .whitening import Block


def shortfall(
    kernel: Kernel,
    data: TrainingSet,
    blocks: list[Block],
    n_cells: int,
    targets: Callable[[Integers], tuple[Floats, Floats]],
    variances: Floats,
    n_jobs: int | None,
    single: bool = False,
) -> float:
    """KL per place, in nats, between answers with half and with all of the earlier points that blocks have.

    Parameters
    ----------
    kernel : Kernel
        Short scales.
    data : TrainingSet
    blocks : list of Block
        A sample of the cells, with the earlier points of each in the order of their distances.
    n_cells : int
        Number of all cells.
    targets : callable
        From rows (m,) to how they count for coefficients at some places, `Phi A^-1 phi*`, (m, P), and to residuals
        (m, k).
    variances : ndarray of shape (P,)
        Of an observation at these places.
    single : bool
        Whether single precision does.
    """

    def share(block: Block, n_earlier: int) -> tuple[Floats, Floats]:
        """What a cell says of means (P, k) and of variances (P,) at the places."""
        own = Block(block.own, block.earlier[:n_earlier])
        effects, residuals = targets(own.points)
        factor = own.factor(kernel, data.X, data.noise, single)
        W = factor.whiten(np.column_stack([effects, residuals]))[len(own.earlier) :].astype(np.float64)
        P = effects.shape[1]
        return W[:, :P].T @ W[:, P:], np.sum(W[:, :P] ** 2, axis=0)

    def change(block: Block) -> tuple[Floats, Floats]:
        more, fewer = share(block, len(block.earlier)), share(block, len(block.earlier) // 2)
        return more[0] - fewer[0], more[1] - fewer[1]

    changes = thread_map(change, blocks, n_jobs)
    of_means, of_variances = (np.array(each) for each in zip(*changes, strict=True))
    mean, spread = of_means.mean(axis=0), of_means.var(axis=0, ddof=1)
    # The square of a sum over all cells: of their mean, as far as it is more than chance, and of what differs.
    squares = n_cells**2 * np.clip(mean**2 - spread / len(blocks), 0.0, None) + n_cells * spread
    by_mean = 0.5 * squares.mean(axis=1) / variances
    by_variance = 0.25 * (n_cells * of_variances.mean(axis=0) / variances) ** 2
    return float(np.mean(by_mean + by_variance))
