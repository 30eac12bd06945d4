"""How many components the data ask for: one more, and one more, as long as the likelihood gains enough."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np

from ..common.warnings import warn
from ..kernels import Kernel
from .blocks import LearningData
from .composite import gains, maximise_composite_likelihood, space_of, to_follow, with_extents
from .further import with_one_more
from .learned import Learned
from .objective import Objective
from .request import LearningRequest
from .screening import screen
from .signal import WRONG_WEIGHTS, is_noise_in_disguise
from .work import Work

MAX_SCALES, MAX_PER_COLUMN = 5, 3  # components; with a length scale per column each takes far longer
LEAST_GAIN, LEAST_ERRORS = 3e-4, 1.5  # nats per target that a further scale must gain, and in standard errors
HOPELESS = 5e-5  # the same that is expected of one that is not worth trying


def learn_with_scales(
    data: LearningData, request: LearningRequest, rng: np.random.RandomState, work: Work | None = None
) -> Learned:
    """Learn length scales and variances, the number of components included.

    `request.n_scales` is more than 1, or None to learn it. Components that vanish or coincide are dropped in either
    case. Of the hyperparameters the noise variance may be given. `work` is what is left of the budget, or all of it.
    """
    began, work = time.perf_counter(), work or Work(request.time_budget)
    data = data.with_blocks(request.ard, rng, request.tied, request.n_jobs)

    def with_scales(J: int, starts: list[tuple[Kernel, float]] | None = None) -> Learned:
        return maximise_composite_likelihood(data, request, rng, n_scales=J, simplify=True, work=work, starts=starts)

    best = with_scales(1)
    n_evaluations = best.n_evaluations
    most = request.n_scales or (MAX_PER_COLUMN if request.ard else MAX_SCALES)
    screened = screen(best, data, request) if request.ard and most > 1 else None
    if screened is not None:
        data, best = with_extents(screened.data(data), request), screened.narrowed(best)
    for J in range(2, most + 1):
        if work.is_done:
            best = replace(best, converged=False)
            break
        starts = None
        if not request.ard and best.kernel.n_scales == J - 1:
            # With a length scale per column, components differ in which columns matter, and not in length alone.
            objective = Objective.of(space_of(data, request, J - 1), data, request, work)
            starts = with_one_more(best, objective, to_follow(data.blocks or []))
            n_evaluations += 1
            if not starts or (request.n_scales is None and starts[0].gain < HOPELESS):
                break
        further = with_scales(J, None if starts is None else [start[:2] for start in starts])
        n_evaluations += further.n_evaluations
        if is_noise_in_disguise(further.kernel, data.blocks or []):
            if not request.is_again and _is_better(further, best, data, request):
                warn(WRONG_WEIGHTS)
            break
        if request.n_scales is not None:
            best = max(best, further, key=lambda learned: learned.log_likelihood)
        elif further.kernel.n_scales < J or not _is_better(further, best, data, request):
            break
        else:
            best = further
    best = best if screened is None else screened.widened(best)
    return replace(best, seconds=time.perf_counter() - began, n_evaluations=n_evaluations)


def _is_better(further: Learned, best: Learned, data: LearningData, request: LearningRequest) -> bool:
    """Whether a further scale pays: its gain is worth it, and clear beside its error or by Schwarz's criterion."""
    gain = gains(further, best, data, request)
    extra = (1 + further.kernel.length_scales.shape[1]) * (further.kernel.n_scales - best.kernel.n_scales)
    schwarz = 0.5 * extra * np.log(gain.n_targets) / gain.n_targets if gain.n_targets else np.inf
    return bool(gain.mean > max(LEAST_GAIN, min(LEAST_ERRORS * gain.error, schwarz)))
