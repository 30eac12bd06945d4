"""Whether there is anything but noise: a kernel that gains less than chance would is none."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.spatial import cKDTree

from ..common.warnings import warn
from ..kernels import Kernel
from .blocks import Block, LearningData, are_ordered
from .composite import space_of, to_follow
from .learned import Learned
from .objective import Objective
from .request import LearningRequest

LEAST_POINTS = 200  # of which noise can be told from a function
SURE = 3.0  # times what chance would gain, at which both likelihoods need not be evaluated on the same blocks
REACH, FEW = 2.0, 0.1  # length scales within which points are alike (by 0.14), and the share of points that have such
N_LOOKED_AT = 64  # blocks in which neighbours are looked for, at most
WRONG_WEIGHTS = (
    "The noise does not follow sample_weight: part of it has one variance everywhere, so that samples of large weight "
    "are trusted too much. Weights are precisions (the noise variance of a sample is noise_variance / weight): leave "
    "sample_weight out if yours are something else."
)


def is_noise_in_disguise(kernel: Kernel, blocks: list[Block]) -> bool:
    """Whether a component is shorter than the distances between weighted points, and so describes no function.

    Where weights are not precisions, such a component is the part of the noise that they do not scale. The likelihood
    gains by it, but no point says anything of any other, and the model would go through all observations. Without
    weights it is the same as noise, and where points are in one place these tell the two apart.
    """
    if not blocks or blocks[0].noise_factors is None:
        return False
    some = blocks[:: -(-len(blocks) // N_LOOKED_AT)]
    for lengths in kernel.length_scales:
        nearest = [cKDTree(block.X / lengths).query(block.X[block.n_given :] / lengths, 2)[0][:, 1] for block in some]
        if np.mean(np.concatenate(nearest) < REACH) < FEW:
            return True
    return False


def without_chance(learned: Learned, data: LearningData, request: LearningRequest) -> Learned:
    """What was learnt, or noise alone where that is as likely by Schwarz's criterion.

    The signal variance is then the least that is allowed, which is how learning says so.
    """
    fixed, n = request.fixed, data.y.size
    is_free = fixed.length_scales is None and fixed.variances is None and fixed.noise_variance is None
    if not is_free or n < LEAST_POINTS or not np.isfinite(learned.log_likelihood):
        return learned
    request = replace(request, family=learned.kernel.family)
    space = space_of(data, request, learned.kernel.n_scales)
    if not space.free.any() or space.is_degenerate:
        return learned
    blocks = to_follow(data.blocks or [])
    factors = 1.0 if data.weights is None else 1.0 / data.weights[:, None]
    by_chance = 0.5 * (int(space.free.sum()) - 1) * np.log(n)
    alone = -0.5 * float(np.log(2 * np.pi * np.mean(data.y**2 / factors)) + 1 + np.mean(np.log(factors)))
    is_disguised = not request.is_again and is_noise_in_disguise(learned.kernel, data.blocks or [])
    is_of_all = (are_ordered(blocks) or len(blocks) == 1) and data.drift is None
    if not is_disguised and is_of_all and (learned.log_likelihood - alone) * n > SURE * by_chance:
        return learned
    with_signal = space.vector(learned.kernel, learned.noise_variance)
    J = learned.kernel.n_scales
    noise_alone = with_signal.copy()
    noise_alone[-1 - J : -1] = space.lower[-1 - J : -1]
    noise_alone[-1] = np.log(np.mean(data.y**2 / factors))
    values = Objective.of(space, data, request).values(blocks, [v[space.free] for v in (with_signal, noise_alone)])
    if (values[0] - values[1]) * n > by_chance:
        if not is_disguised:
            return learned
        warn(WRONG_WEIGHTS)
    kernel, noise = space.unpack(noise_alone)
    largest = [int(np.argmax(learned.kernel.variances))]
    kernel = replace(kernel, length_scales=kernel.length_scales[largest], variances=kernel.variances[largest])
    return replace(
        learned,
        kernel=kernel,
        noise_variance=noise,
        log_likelihood=float(values[1]),
        on_bounds=tuple(b for b in space.on_bounds(kernel, noise) if b.kind == "signal_variance"),
        standard_errors=None,
    )
