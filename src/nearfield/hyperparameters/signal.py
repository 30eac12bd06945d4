"""Whether there is anything but noise: a kernel that gains less than chance would is none."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from .blocks import LearningData, are_ordered
from .composite import space_of, to_follow
from .learned import Learned
from .objective import Objective
from .request import LearningRequest

LEAST_POINTS = 200  # of which noise can be told from a function
SURE = 3.0  # times what chance would gain, at which both likelihoods need not be evaluated on the same blocks


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
    is_of_all = (are_ordered(blocks) or len(blocks) == 1) and data.drift is None
    if is_of_all and (learned.log_likelihood - alone) * n > SURE * by_chance:
        return learned
    with_signal = space.vector(learned.kernel, learned.noise_variance)
    J = learned.kernel.n_scales
    noise_alone = with_signal.copy()
    noise_alone[-1 - J : -1] = space.lower[-1 - J : -1]
    noise_alone[-1] = np.log(np.mean(data.y**2 / factors))
    values = Objective.of(space, data, request).values(blocks, [v[space.free] for v in (with_signal, noise_alone)])
    if (values[0] - values[1]) * n > by_chance:
        return learned
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
