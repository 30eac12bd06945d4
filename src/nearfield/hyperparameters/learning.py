"""Hyperparameters from data: one function for every estimator.

Up to about a thousand points the exact marginal likelihood is maximised. Beyond, the *composite* likelihood takes its
place: the sum of the exact likelihoods of a few dozen blocks of neighbouring and farther points (see `blocks`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ..common import warnings as _warnings
from ..common.threads import n_threads, single_threaded_blas, thread_map, worker_threads
from ..common.types import Booleans, Floats
from ..kernels import Kernel
from .blocks import Block, make_blocks
from .likelihood import feature_log_likelihood, kernel_log_likelihood
from .optimiser import Climb, climb
from .space import Extents, Fixed, Space

__all__ = ["Fixed", "Learned", "Progress", "learn", "maximise_feature_likelihood"]

Progress = Callable[[str, float, float], None]
"""Called as `progress(stage, done, value)`, with `done` from 0 to 1 and the likelihood per point reached."""

Likelihood = Callable[[list[Block], Kernel, float], tuple[float, Floats]]
"""Sum of the log likelihoods of some blocks at a kernel and a noise variance, and its gradient."""

COARSE_BLOCKS = 12


@dataclass(frozen=True, eq=False)
class Learned:
    """What learning found, and how.

    Attributes
    ----------
    kernel : Kernel
    noise_variance : float
    log_likelihood : float
        Per point, of the blocks used (of all data where `n_blocks` is 1); NaN where nothing was to be learnt.
    n_blocks, block_size : int
    n_evaluations : int
    seconds : float
    converged : bool
    on_bounds : tuple of str
        Names of the estimates that sit on a bound.
    """

    kernel: Kernel
    noise_variance: float
    log_likelihood: float = float("nan")
    n_blocks: int = 0
    block_size: int = 0
    n_evaluations: int = 0
    seconds: float = 0.0
    converged: bool = True
    on_bounds: tuple[str, ...] = ()


def learn(
    X: Floats,
    y: Floats,
    *,
    fixed: Fixed,
    n_scales: int = 1,
    ard: bool = False,
    sample_weight: Floats | None = None,
    n_restarts: int = 2,
    n_blocks: int = 64,
    time_budget: float = 60.0,
    max_iterations: int = 200,
    n_jobs: int | None = None,
    rng: np.random.RandomState,
    progress: Progress | None = None,
    blocks: list[Block] | None = None,
    extents: Extents | None = None,
    likelihood: Likelihood | None = None,
    quiet: bool = False,
) -> Learned:
    """Maximise the likelihood over all hyperparameters that are not fixed.

    Parameters
    ----------
    X : ndarray of shape (n, d)
    y : ndarray of shape (n, k)
        Centred targets.
    sample_weight : ndarray of shape (n,) or None
        The noise variance of point i is `noise_variance / sample_weight[i]`.
    n_restarts : int
        Random starts besides the systematic ones.
    n_blocks : int
        Number of blocks of the composite likelihood.
    time_budget : float
        Seconds after which the best found so far is returned, with a warning.
    blocks : list of Block or None
        Blocks to learn from; None chooses them.
    extents : Extents or None
        Lengths of the data, where `X` and `y` are but a sample of what the blocks come from.
    likelihood : callable or None
        Evaluates the likelihood of many blocks at once, elsewhere than here.
    quiet : bool
        Leave the complaints to the caller.

    Returns
    -------
    learned : Learned
    """
    began = time.perf_counter()
    space = Space.of(X, y, fixed, n_scales, ard, extents)
    if not space.free.any():
        return Learned(*space.unpack(space.given))
    if space.is_degenerate:
        return Learned(*space.unpack(space.fallback()))

    if blocks is None:
        blocks = make_blocks(X, y, sample_weight, n_blocks, len(space.columns) > 1, rng)
    objective = _Objective(space, began + time_budget, n_threads(n_jobs), progress, likelihood)
    climbs = objective.compare(blocks[:: max(len(blocks) // COARSE_BLOCKS, 1)], space.starts(n_restarts, rng))
    best = max(climbs, key=lambda c: c.value)
    final = objective.refine(blocks, best.point, max_iterations)
    theta = space.sorted(space.filled(final.point))
    learned = Learned(
        *space.unpack(theta),
        final.value,
        len(blocks),
        sum(len(block.X) for block in blocks) // len(blocks),
        sum(c.n_evaluations for c in (*climbs, final)),
        time.perf_counter() - began,
        final.converged,
        space.on_bounds(theta),
    )
    if not quiet:
        for message in complaints(learned, time_budget):
            warn(message)
    return learned


def complaints(learned: Learned, time_budget: float) -> list[str]:
    """What a user should know of how learning went: nothing, where all went well."""
    messages = []
    if not learned.converged:
        messages.append(_early_stop(learned.seconds, learned.n_evaluations, time_budget))
    if learned.on_bounds:
        messages.append(f"These estimates sit on a bound: {'; '.join(learned.on_bounds)}.")
    return messages


def _early_stop(seconds: float, n_evaluations: int, time_budget: float) -> str:
    return (
        f"Learning stopped after {seconds:.2g} s and {n_evaluations} evaluations before it converged. The best found "
        f"so far is used; raise time_budget ({time_budget:g} s) or fix some hyperparameters."
    )


def warn(message: str) -> None:
    """Warn of how learning went, at the line that called `fit`."""
    _warnings.warn(message, ConvergenceWarning)


@dataclass(frozen=True, eq=False)
class _Objective:
    """Likelihood per point of some blocks, and its maximum.

    BLAS has one thread throughout: starts, and then blocks, are what runs side by side.
    """

    space: Space
    deadline: float
    n_threads: int
    progress: Progress | None
    likelihood: Likelihood | None
    lock: Any = field(default_factory=Lock)

    def compare(self, blocks: list[Block], starts: list[Floats]) -> list[Climb]:
        """Climb a few steps from each start."""
        stages = [f"start {i + 1} of {len(starts)}" for i in range(len(starts))]
        free = self.space.free

        def one(item: tuple[Floats, str]) -> Climb:
            start, stage = item
            return self._climb(blocks, start[free], stage, 20, 1e-6, map)

        return thread_map(one, zip(starts, stages, strict=True), self.n_threads)

    def refine(self, blocks: list[Block], start: Floats, max_iterations: int) -> Climb:
        """Climb to the top."""
        if len(blocks) == 1 or self.likelihood is not None:
            with single_threaded_blas():
                return self._climb(blocks, start, "refine", max_iterations, 1e-8, map)
        with worker_threads(self.n_threads) as run:
            return self._climb(blocks, start, "refine", max_iterations, 1e-8, run)

    def _climb(
        self, blocks: list[Block], start: Floats, stage: str, max_iterations: int, tolerance: float, run: Any
    ) -> Climb:
        free = self.space.free
        size = sum(block.y.size for block in blocks)

        def objective(values: Floats) -> tuple[float, Floats]:
            value, gradient = self._evaluate(blocks, self.space.filled(values), run)
            return value / size, gradient[free] / size

        def report(done: float, value: float) -> None:
            if self.progress is not None:
                with self.lock:  # several starts may report at once
                    self.progress(f"learning: {stage}", done, value)

        return climb(
            objective,
            start,
            self.space.bounds,
            max_iterations=max_iterations,
            tolerance=tolerance,
            deadline=self.deadline,
            progress=report,
        )

    def _evaluate(self, blocks: list[Block], theta: Floats, run: Any) -> tuple[float, Floats]:
        kernel, noise = self.space.unpack(theta)
        noise = max(noise, self.space.noise_floor)
        if self.likelihood is not None:
            return self.likelihood(blocks, kernel, noise)

        def one(block: Block) -> tuple[float, Floats]:
            return kernel_log_likelihood(kernel, noise, block.X, block.y, block.noise_factors, block.squared_distances)

        parts = list(run(one, blocks))
        return sum(value for value, _ in parts), np.sum([gradient for _, gradient in parts], axis=0)


def maximise_feature_likelihood(
    features: Callable[[Floats], tuple[Floats, Sequence[Floats]]],
    start: Floats,
    free: Booleans,
    bounds: Sequence[tuple[float, float]],
    y: Floats,
    *,
    sample_weight: Floats | None = None,
    time_budget: float = 60.0,
    progress: Progress | None = None,
) -> Floats:
    """Maximise the likelihood of a kernel given by features.

    Parameters
    ----------
    features : callable
        Takes all logarithms (length scales, signal variance, noise variance); gives features of shape (D, n) and their
        derivatives with respect to the logarithm of each length scale.
    start : ndarray of shape (p,)
        Logarithms to start from.
    free : ndarray of bool of shape (p,)
        Which of them to learn.
    bounds : sequence of pairs
        Bounds of the free ones.
    y : ndarray of shape (n, k)
        Centred targets.

    Returns
    -------
    theta : ndarray of shape (p,)
    """
    began = time.perf_counter()
    factors = None if sample_weight is None else 1.0 / sample_weight

    def filled(values: Floats) -> Floats:
        theta = start.copy()
        theta[free] = values
        return theta

    def objective(values: Floats) -> tuple[float, Floats]:
        theta = filled(values)
        rows, directions = features(theta)
        value, gradient = feature_log_likelihood(rows, directions, float(np.exp(theta[-1])), y, factors)
        return value / y.size, gradient[free] / y.size

    def report(done: float, value: float) -> None:
        if progress is not None:
            progress("learning: features", done, value)

    top = climb(objective, start[free], bounds, deadline=began + time_budget, progress=report)
    if not top.converged:
        warn(_early_stop(time.perf_counter() - began, top.n_evaluations, time_budget))
    return filled(top.point)
