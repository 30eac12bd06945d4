"""Which family of kernels the data ask for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from ..kernels.families import FAMILIES
from .blocks import LearningData
from .composite import gains
from .learned import Learned
from .request import LearningRequest

COMPARED = ("matern12", "matern32", "matern52")  # besides a sum of Gaussians


def compare_families(
    data: LearningData, request: LearningRequest, learn: Callable[[LearningRequest], Learned]
) -> Learned:
    """The likeliest of a sum of Gaussians and of Matern kernels with one length scale, by Schwarz's criterion."""
    best = learn(replace(request, family="gaussian"))
    compared = [(_in_words(best), best.log_likelihood)]
    n_evaluations, seconds, n = best.n_evaluations, best.seconds, data.y.size
    for family in COMPARED:
        n_scales = request.n_scales or 1
        other = learn(replace(request, family=family, n_scales=n_scales))
        compared.append((_in_words(other), other.log_likelihood))
        n_evaluations, seconds = n_evaluations + other.n_evaluations, seconds + other.seconds
        spared = _n_parameters(best) - _n_parameters(other)
        if gains(other, best, data, request)[0] > -0.5 * spared * np.log(n) / n:
            best = other
    return replace(best, compared=tuple(compared), n_evaluations=n_evaluations, seconds=seconds)


def _n_parameters(learned: Learned) -> int:
    return int(learned.kernel.length_scales.size + learned.kernel.variances.size)


def _in_words(learned: Learned) -> str:
    label, n = FAMILIES[learned.kernel.family].label, learned.kernel.n_scales
    return label if n == 1 else f"sum of {n} ({label})"
