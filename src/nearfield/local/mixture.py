"""How many Gaussians stand for a kernel of another family: so many that what they change is a share of the tolerance.

Around some of the data, the process of the nearest points is solved for with the kernel itself and with the mixture.
What lies farther away hardly changes how the two differ.
"""

from __future__ import annotations

import numpy as np

from .. import metrics
from ..common.types import Floats
from ..kernels import Kernel
from ..solvers.kernel_space import KernelSpace
from .distance import SETTINGS, Distance, Figure
from .frame import Frame
from .neighbourhoods import TrainingSet

ACCURACIES = (1e-3, 3e-4, 1e-4, 3e-5, 1e-5)  # of mixtures, as shares of the variance; finer ones are hard to find
PLACES, NEAREST = 12, 300  # places, and points around each
SHARE = 0.05  # of the tolerance, that a mixture may take up


def refined(
    kernel: Kernel, frame: Frame, data: TrainingSet, tolerance: float, with_targets: bool
) -> tuple[Frame, Distance]:
    """Frame with a mixture that is close enough to `kernel`, and the distance per test point that is left of it.

    `kernel` is in the units of the data, and `data` in those of `frame`. `with_targets`, those of `data` are less their
    mean, and the distance is the larger of that for them and that expected of draws of the process.
    """
    X, targets = frame.positions(data.X), data.y[:, : -1 if with_targets else 0]
    rng = np.random.RandomState(0)
    problems = [
        _Problem(kernel, X, targets, data.noise, row)
        for row in rng.choice(len(X), min(PLACES, len(X)), replace=False).tolist()
    ]
    for accuracy in ACCURACIES:
        expanded = kernel.expanded(accuracy)
        found = np.mean([problem.divergences(expanded) for problem in problems], axis=0).max(axis=1)
        if found[0] <= SHARE * tolerance and found[1] <= SHARE * SETTINGS.function_ratio * tolerance:
            break
    return frame.with_kernel(expanded), Distance(*(Figure(nats, 0.0, nats) for nats in found.tolist()))


class _Problem:
    """The exact process at a point of the data, given the nearest others."""

    def __init__(self, kernel: Kernel, X: Floats, y: Floats, noise: Floats, row: int) -> None:
        squares = np.sum(((X - X[row]) / kernel.length_scales[0]) ** 2, axis=1)
        squares[row] = np.inf
        near = np.argpartition(squares, min(NEAREST, len(X) - 1) - 1)[: min(NEAREST, len(X) - 1)]
        self.X, self.y, self.noise = X[near] - X[row], y[near], noise[near]
        self.at, self.noise_at = np.zeros((1, X.shape[1])), float(noise[row])
        self.K = kernel(self.X, self.X) + np.diag(self.noise)
        self.weights, self.variance = self._solved(kernel)

    def _solved(self, kernel: Kernel) -> tuple[Floats, float]:
        """Weights (n,) of the targets in the mean, and the variance of the function."""
        cross = kernel(self.X, self.at)
        weights: Floats = KernelSpace.factorise(kernel, self.X, self.noise).solve(cross)
        least = SETTINGS.least_variance * kernel.variance
        return weights[:, 0], max(kernel.variance - float(np.sum(cross * weights)), least)

    def divergences(self, kernel: Kernel) -> Floats:
        """Of the process with another kernel (2, 2): of observations and of the function.

        Each is expected of draws, and for the targets (0 where there are none).
        """
        weights, variance = self._solved(kernel)
        change = weights - self.weights

        def mean_divergence(shifts: Floats, noise: float) -> float:
            """Of normal distributions whose means are apart by `shifts` (k,); 0 where there are none."""
            ones = np.ones(len(shifts))
            found = metrics.kl_divergence(shifts, (variance + noise) * ones, 0 * ones, (self.variance + noise) * ones)
            return float(found.sum()) / max(len(shifts), 1)

        shifts = np.sqrt([change @ self.K @ change]), change @ self.y
        return np.array([[mean_divergence(each, noise) for each in shifts] for noise in (self.noise_at, 0.0)])
