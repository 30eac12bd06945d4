"""How many components the data ask for: one more, and one more, as long as the likelihood gains enough."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np

from ..common.types import Floats
from ..kernels import Kernel
from .blocks import LearningData
from .composite import gains, maximise_composite_likelihood, with_extents
from .learned import Learned
from .request import LearningRequest
from .screening import screen
from .work import Work

MAX_SCALES, MAX_PER_COLUMN = 5, 3  # components; with a length scale per column each takes far longer
LEAST_GAIN, LEAST_ERRORS = 3e-4, 1.5  # nats per target that a further scale must gain, and in standard errors
APART = 3.0  # factor between the length scales that one is split into


def learn_with_scales(
    data: LearningData, request: LearningRequest, rng: np.random.RandomState, work: Work | None = None
) -> Learned:
    """Learn length scales and variances, the number of components included.

    `request.n_scales` is more than 1, or None to learn it. Components that vanish or coincide are dropped in either
    case. Of the hyperparameters the noise variance may be given. `work` is what is left of the budget, or all of it.
    """
    began, work = time.perf_counter(), work or Work(request.time_budget)
    data = data.with_blocks(request.ard, rng, request.tied)

    def with_scales(J: int, before: Learned | None) -> Learned:
        # With a length scale per column, components differ in which columns matter, and not in length alone.
        goes_on = before is not None and before.kernel.n_scales == J - 1 and not request.ard
        return maximise_composite_likelihood(
            data,
            request,
            rng,
            n_scales=J,
            simplify=True,
            work=work,
            starts=_with_one_more(before) if before is not None and goes_on else None,
        )

    best = with_scales(1, None)
    n_evaluations = best.n_evaluations
    most = request.n_scales or (MAX_PER_COLUMN if request.ard else MAX_SCALES)
    screened = screen(best, data, request) if request.ard and most > 1 else None
    if screened is not None:
        data, best = with_extents(screened.data(data), request), screened.narrowed(best)
    for J in range(2, most + 1):
        if work.is_done:
            best = replace(best, converged=False)
            break
        further = with_scales(J, best)
        n_evaluations += further.n_evaluations
        if request.n_scales is not None:
            best = max(best, further, key=lambda learned: learned.log_likelihood)
        elif further.kernel.n_scales < J or not _is_better(further, best, data, request):
            break
        else:
            best = further
    best = best if screened is None else screened.widened(best)
    return replace(best, seconds=time.perf_counter() - began, n_evaluations=n_evaluations)


def _with_one_more(learned: Learned) -> list[tuple[Kernel, float]]:
    """Kernels of one component more to start from, and noise variances.

    The largest in two, a longer one, a shorter one out of noise, and one between the two that are farthest apart.
    """
    kernel, noise_variance = learned.kernel, learned.noise_variance
    scales, variances = kernel.length_scales, kernel.variances
    j = int(np.argmax(variances))
    halves = np.delete(variances, j), np.full(2, 0.5 * variances[j])
    split = np.concatenate([np.delete(scales, j, axis=0), scales[[j]] / APART**0.5, scales[[j]] * APART**0.5])
    tenth = 0.1 * variances.sum()
    starts = [
        (replace(kernel, length_scales=split, variances=np.concatenate(halves)), noise_variance),
        (_joined(kernel, scales[[-1]] * APART, tenth), noise_variance),
        (_joined(kernel, scales[[0]] / APART, 0.5 * noise_variance + 0.1 * tenth), 0.5 * noise_variance),
    ]
    if len(scales) > 1:
        steps = np.log(scales[1:] / scales[:-1])
        i = int(np.argmax(steps.mean(axis=1)))
        middle = (variances[i] * variances[i + 1]) ** 0.5
        starts.append((_joined(kernel, scales[[i]] * np.exp(0.5 * steps[i]), 0.5 * middle), noise_variance))
    return starts


def _joined(kernel: Kernel, scales: Floats, variance: float) -> Kernel:
    return replace(
        kernel,
        length_scales=np.concatenate([kernel.length_scales, scales]),
        variances=np.append(kernel.variances, variance),
    )


def _is_better(further: Learned, best: Learned, data: LearningData, request: LearningRequest) -> bool:
    """Whether a further scale pays: its gain is clear beside its error, and worth it.

    Where there are no blocks aside to judge by, it must also be beyond Schwarz's criterion.
    """
    gain, error, is_aside = gains(further, best, data, request)
    n = data.y.size
    extra = (1 + further.kernel.length_scales.shape[1]) * (further.kernel.n_scales - best.kernel.n_scales)
    least = max(LEAST_GAIN, LEAST_ERRORS * error) if is_aside else 0.5 * extra * np.log(n) / n
    return bool(gain > least)
