"""How many neighbours variances take beside landmarks, in many columns, where the mean is exact.

Rows of the data are probes. What the exact process says there, given all other rows, follows from the diagonal of the
inverse of the covariance matrix, which the iteration that finds the mean finds along with it.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..common.budget import Budget
from ..common.types import Integers
from ..kernels import Kernel
from . import distance
from .choices import CHEAPEST, CLOSEST, Candidate, Choice, Trial
from .distance import Distance, Reference
from .iteration import ExactMean
from .plan import Plan

COUNTS = (50, 100, 200, 400)
"""Numbers of neighbours: each takes some five times as long as the one before."""
CHOOSING_SHARE = 0.7
"""Share of what is promised that a figure may take up where it chooses."""


def choose(kernel: Kernel, tolerance: float, budget: Budget, mean: ExactMean) -> tuple[Choice, ExactMean]:
    """Fewest neighbours that keep what is promised, and the mean with the variances that they give.

    A third of the probes chooses, and the figure is from the others.
    """
    assert mean.variances is not None
    assert mean.probes is not None
    rows, variances, model = mean.probes
    first, second = np.split(np.arange(len(rows)), [max(len(rows) // 3, 1)])
    trials: list[Trial] = []

    def measure(count: int, which: Integers) -> Trial:
        found = model.with_count(count).without(rows)[which]
        zeros = np.zeros((len(which), 1))
        reference = Reference(zeros, variances[which], zeros[:, 0])
        noise = model.noise[rows[which]]
        values = distance.divergences(zeros, found, reference, noise, kernel.variance, exact_mean=True)
        label = f"landmarks, and for each prediction the {count} data points that tell most of what they leave"
        plan = Plan(kernel, None, None, count=min(count, len(mean.X)))
        cost = 2.0 * len(mean.X) * count**2
        candidate = Candidate(np.inf, plan, label, exact_mean=True)
        trials.append(Trial(candidate, Distance.of(values), cost, float(values[0].max())))
        return trials[-1]

    counts = [count for count in COUNTS if count < len(mean.X)] or [max(len(mean.X) - 1, 1)]
    for count in counts:
        if measure(count, first).distance.within(CHOOSING_SHARE * tolerance):
            break
        if budget.is_over:
            break
    chosen = measure(count, second)
    met = chosen.distance.within(tolerance)
    floor = distance.SETTINGS.least_variance * kernel.variance
    choice = Choice(
        chosen.candidate,
        chosen.distance,
        met,
        CHEAPEST if met else CLOSEST,
        tuple(trials),
        len(second),
        largest=chosen.largest,
        inverse_variance=float(np.mean(1 / np.maximum(variances, floor))),
    )
    return choice, replace(mean, variances=mean.variances.with_count(count), probes=None)
