"""The composite likelihood and its maximum, for kernels of a given number of Gaussians.

Up to about a thousand points the exact marginal likelihood is maximised. Beyond, the *composite* likelihood takes its
place: the sum of the exact likelihoods of a few dozen blocks of neighbouring and farther points (see `blocks`).
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

import numpy as np

from ..common.threads import n_threads, single_threaded_blas, thread_map, worker_threads
from ..common.types import Floats
from .blocks import Block, LearningData, Likelihood
from .learned import Learned
from .optimiser import Optimum, maximise
from .request import LearningRequest, Progress
from .space import Space

N_BLOCKS = 64
COARSE_BLOCKS = 12  # of them, to compare starts


def maximise_composite_likelihood(
    data: LearningData,
    request: LearningRequest,
    rng: np.random.RandomState,
    *,
    n_scales: int,
    max_iterations: int = 200,
    simplify: bool = False,
) -> Learned:
    """Maximise the likelihood over all hyperparameters that are not given.

    Parameters
    ----------
    n_scales : int
        Number of Gaussians, where given hyperparameters do not tell.
    max_iterations : int
        Steps from the best start.
    simplify : bool
        Drop the Gaussians that vanish or coincide.
    """
    began = time.perf_counter()
    space = Space.of(data.X, data.y, request.fixed, n_scales, request.ard, data.extents, request.tied)
    if not space.free.any():
        return Learned(*space.unpack(space.given))
    if space.is_degenerate:
        return Learned(*space.unpack(space.fallback()))

    blocks = data.make_blocks(N_BLOCKS, len(space.columns) > 1, rng, request.tied)
    deadline = began + request.time_budget
    objective = _Objective(space, deadline, n_threads(request.n_jobs), request.progress, data.likelihood)
    coarse = blocks[:: max(len(blocks) // COARSE_BLOCKS, 1)]
    optima = objective.compare(coarse, space.starts(request.n_restarts, rng))
    refined = []
    for optimum in sorted(optima, key=lambda optimum: optimum.value, reverse=True):
        refined.append(objective.refine(blocks, optimum.point, max_iterations))
        if np.isfinite(refined[-1].value):  # otherwise not all blocks can be evaluated there
            break
    final = max(refined, key=lambda optimum: optimum.value)
    theta = space.sorted(space.filled(final.point))
    kernel, noise = space.unpack(theta)
    kernel = kernel.simplified(noise) if simplify else kernel
    return Learned(
        kernel,
        noise,
        final.value,
        len(blocks),
        sum(len(block.X) for block in blocks) // len(blocks),
        sum(optimum.n_evaluations for optimum in (*optima, *refined)),
        time.perf_counter() - began,
        final.converged,
        space.on_bounds(kernel, noise) if np.isfinite(final.value) else (),
    )


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

    def compare(self, blocks: list[Block], starts: list[Floats]) -> list[Optimum]:
        """Take a few steps from each start."""
        stages = [f"start {i + 1} of {len(starts)}" for i in range(len(starts))]
        free = self.space.free

        def from_start(item: tuple[Floats, str]) -> Optimum:
            start, stage = item
            return self._maximise(blocks, start[free], stage, 20, 1e-6, map)

        return thread_map(from_start, zip(starts, stages, strict=True), self.n_threads)

    def refine(self, blocks: list[Block], start: Floats, max_iterations: int) -> Optimum:
        """Go all the way to the maximum."""
        if len(blocks) == 1 or self.likelihood is not None:
            with single_threaded_blas():
                return self._maximise(blocks, start, "refine", max_iterations, 1e-8, map)
        with worker_threads(self.n_threads) as run:
            return self._maximise(blocks, start, "refine", max_iterations, 1e-8, run)

    def _maximise(
        self, blocks: list[Block], start: Floats, stage: str, max_iterations: int, tolerance: float, run: Any
    ) -> Optimum:
        size = sum(block.y.size for block in blocks)

        def objective(values: Floats) -> tuple[float, Floats]:
            value, gradient = self._evaluate(blocks, self.space.filled(values), run)
            return value / size, self.space.free_gradient(gradient) / size

        def report(done: float, value: float) -> None:
            if self.progress is not None:
                with self.lock:  # several starts may report at once
                    self.progress(f"learning: {stage}", done, value)

        return maximise(
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

        values, gradients = zip(*run(lambda block: block.log_likelihood(kernel, noise), blocks), strict=True)
        return sum(values), np.sum(gradients, axis=0)
