r"""One component more: where to start it, and what it may gain.

At the maximum for some components, the slope of the likelihood in the variance of a further one, which is still zero,
tells for each length scale whether it is missed; with Fisher's information it tells how much of it, what becomes of
the other components, and what is gained (Rao's score test). So one evaluation, of candidates of all lengths at once,
stands for many ways up.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ..common.types import Floats
from ..kernels import Kernel
from .blocks import Block
from .learned import Learned
from .objective import Objective

N_LENGTHS = 12  # of candidates
SHORT, LONG = 0.5, 2.0  # of the least distance of neighbours, and the extent of the data
NEXT_TO_NONE = 1e-6  # variance of candidates, as a share of that of the others
MOST_VARIANCE = 0.5  # of the new component, the same
FARTHEST = 1.0  # step of the logarithms of the others
MOST_STARTS, WORSE = 2, 0.5  # and the share of the best gain that is expected of others at least


class Further(NamedTuple):
    """A kernel with one component more to start from, a noise variance, and the gain per target that is expected."""

    kernel: Kernel
    noise_variance: float
    gain: float


def with_one_more(learned: Learned, objective: Objective, blocks: list[Block]) -> list[Further]:
    """Where to start with one component more than those learnt, of one length scale each, from the same blocks.

    Those are the best lengths that are better than their neighbours, best first. There are none where none is missed,
    or the likelihood cannot be told.
    """
    kernel, noise_variance, J = learned.kernel, learned.noise_variance, learned.kernel.n_scales
    extents = objective.space.extents
    if not 0 < extents.least <= extents.extent:  # all points are one
        return []
    lengths = np.geomspace(SHORT * extents.least, LONG * extents.extent, N_LENGTHS)
    candidates = _joined(kernel, lengths[:, None], np.full(N_LENGTHS, NEXT_TO_NONE * kernel.variance))
    try:
        gradient, F = objective.gradient_and_information(blocks, candidates, noise_variance)
    except np.linalg.LinAlgError:
        return []
    # Logarithms of lengths, variances and noise: those of the components that are there. The new variances
    # are shares of that of the others, whatever the unit of the targets.
    total = J + N_LENGTHS
    has_noise = bool(np.isnan(objective.space.given[-1]))
    old = np.array([*range(J), *range(total, total + J), *[2 * total] * has_noise])
    new = np.arange(total + J, 2 * total)
    units = np.ones(2 * total + 1)
    units[new] = NEXT_TO_NONE
    gradient, F = gradient / units, F / np.outer(units, units)
    others = F[np.ix_(old, old)]
    others += 1e-6 * np.trace(others) / len(old) * np.eye(len(old))
    response = np.linalg.solve(others, F[np.ix_(old, new)])  # by which the old ones fall for each new variance
    slopes = gradient[new] - response.T @ gradient[old]
    curvatures = np.diagonal(F)[new] - np.einsum("ij,ij->j", response, F[np.ix_(old, new)])
    best_variances = np.maximum(slopes, 0.0) / np.maximum(curvatures, 1e-300)
    variances = np.minimum(best_variances, MOST_VARIANCE)
    gains = slopes * variances - 0.5 * curvatures * variances**2

    def started(i: int) -> Further:
        steps = np.zeros(2 * J + 1)
        steps[: len(old)] = np.clip(-variances[i] * response[:, i], -FARTHEST, FARTHEST)
        factors = np.exp(steps)
        moved = replace(
            kernel,
            length_scales=kernel.length_scales * factors[:J, None],
            variances=kernel.variances * factors[J : 2 * J],
        )
        more = _joined(moved, lengths[[i], None], variances[[i]] * kernel.variance)
        return Further(more, noise_variance * float(factors[-1]), float(gains[i]))

    around = np.concatenate([[-np.inf], gains, [-np.inf]])
    peaks = np.flatnonzero((gains > max(WORSE * gains.max(), 0.0)) & (gains >= around[:-2]) & (gains > around[2:]))
    return [started(int(i)) for i in peaks[np.argsort(-gains[peaks])][:MOST_STARTS]]


def _joined(kernel: Kernel, scales: Floats, variances: Floats) -> Kernel:
    return replace(
        kernel,
        length_scales=np.concatenate([kernel.length_scales, scales]),
        variances=np.concatenate([kernel.variances, variances]),
    )
