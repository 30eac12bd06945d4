"""The likelihood of all data at given hyperparameters, and along one of them."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from ..common import memory
from ..common.threads import n_threads, worker_threads
from ..common.types import Floats
from ..kernels import Kernel
from ..solvers.ordered_cells import ordered_cells
from .blocks import LARGEST_SINGLE_BLOCK, Block, LearningData, stacked, sum_of
from .composite import along
from .learned import Learned
from .likelihood import Stack, squared_differences
from .request import LearningRequest

CELL_POINTS, N_EARLIER = 32, 128
MOST_PAIRS = 4 * 10**7  # of points of blocks that are held at once


def log_likelihood_of_all(
    kernel: Kernel, noise_variance: float, X: Floats, y: Floats, noise: Floats, n_jobs: int | None = None
) -> tuple[float, Floats]:
    """Log marginal likelihood of centred targets `y` (n, k) with noise variances (n,), and its gradient.

    Up to a thousand points it is exact. Beyond, cells of points in random order are conditioned on the nearest points
    of earlier cells. The gradient is in the logarithms of length scales, variances and noise variance, to which the
    noise of all points is in proportion.
    """
    noise_variance = noise_variance or 1.0  # `noise` is what stands in for none
    factors = noise / noise_variance
    if len(X) <= LARGEST_SINGLE_BLOCK:
        blocks = [Block(X, y, factors)]
    else:
        metric = kernel.length_scales[-1]  # one for all columns, or one each
        cells = ordered_cells(X / metric, CELL_POINTS, N_EARLIER, np.random.RandomState(0), n_jobs)
        rows = [(cell.points, len(cell.earlier)) for cell in cells]
        blocks = [Block(X[points], y[points], factors[points], n_given) for points, n_given in rows]
    by_column = kernel.length_scales.shape[1] > 1
    n_columns = X.shape[1] if by_column else 1
    size = max(MOST_PAIRS // ((CELL_POINTS + N_EARLIER) ** 2 // 2 * n_columns), 1)
    value, gradient = 0.0, np.zeros(kernel.length_scales.size + kernel.n_scales + 1)
    with worker_threads(n_threads(n_jobs)) as run:
        for start in range(0, len(blocks), size):
            some = sum_of(stacked(blocks[start : start + size], by_column), run)(kernel, noise_variance)
            value, gradient = value + some[0], gradient + some[1]
    return value, gradient


def gradient_of_dense(
    kernel: Kernel, noise_variance: float, X: Floats, y: Floats, noise: Floats, drift: Floats | None = None
) -> Floats:
    """The same gradient for any number of points without approximation, of the restricted likelihood with a drift.

    Columns of the drift (n, p) are independent. It takes O(n^3) time.
    """
    n, q = len(X), kernel.length_scales.shape[1]
    memory.require(
        4.0 * n * n * (3 * q + 2 * kernel.n_scales + 2),
        f"The gradient of the likelihood of {n} samples",
        "LocalGPRegressor needs less.",
    )
    factors = None if noise_variance == 0 else noise[None] / noise_variance
    columns = None if drift is None else drift[None]
    stack = Stack(squared_differences(X[None], q > 1), y[None], factors, drift=columns)
    return stack(kernel, noise_variance)[1]


class Profile(NamedTuple):
    """Log likelihood of the data along one hyperparameter, all others at their best for each value of it."""

    name: str
    values: Floats  # (m,)
    log_likelihood: Floats  # (m,): less that of the largest

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Values whose likelihood is not significantly smaller than the largest, by interpolation."""
        drop = float(ndtri(0.5 + 0.5 * level)) ** 2 / 2  # half a quantile of chi squared
        inside = self.log_likelihood >= -drop
        logs, peak = np.log(self.values), int(np.argmax(self.log_likelihood))
        ends = []
        for side in (range(peak, -1, -1), range(peak, len(logs))):
            steps = list(side)
            out = next((i for i in steps if not inside[i]), None)
            if out is None:
                ends.append(float(self.values[steps[-1]]))
                continue
            before = out + (1 if steps[-1] < peak else -1)
            heights = self.log_likelihood[[out, before]]
            share = (-drop - heights[0]) / (heights[1] - heights[0])
            ends.append(float(np.exp(logs[out] + share * (logs[before] - logs[out]))))
        return ends[0], ends[1]


def profile(
    learned: Learned, data: LearningData, request: LearningRequest, entry: int, name: str, n_values: int
) -> Profile:
    """Likelihood along the logarithm with number `entry`, in the order of gradients, three standard errors each way."""
    errors = learned.standard_errors
    error = 0.3 if errors is None or not np.isfinite(errors[entry]) else float(np.clip(errors[entry], 1e-3, 1.0))
    steps = np.linspace(-3.0, 3.0, n_values) * error
    request = replace(request, family=learned.kernel.family)
    data = data.with_blocks(request.ard, np.random.RandomState(0), request.tied, request.n_jobs)
    values, heights = along(learned, data, request, entry, steps)
    return Profile(name, values, heights - heights.max())
