"""The likelihood of blocks and its maximum, for kernels of a given number of components.

Starts are compared on few blocks, the best is followed on more of them, and the end is on all: from there, where the
curvature is known, a few steps of Newton's method are enough.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError

from ..common.threads import n_threads, single_threaded_blas, thread_map, worker_threads
from ..common.types import Floats
from ..kernels import Kernel
from .blocks import N_BLOCKS, N_EARLY, Block, Evaluation, LearningData, Likelihood, joined, stacked, sum_of, thinned
from .learned import Learned
from .optimiser import Optimum, maximise, polish
from .request import Fixed, LearningRequest, Progress
from .space import Space

TO_COMPARE, TO_FOLLOW = (16, 48), (64, 256)  # early blocks, and all of them, of those that are in order
N_FEW = 12  # independent blocks that starts are compared on
ASIDE, LEAST_ASIDE = 1024, 16  # blocks to judge by: at most, and at least
DIFFERENCE = 1e-3  # step of its finite differences


def maximise_composite_likelihood(
    data: LearningData,
    request: LearningRequest,
    rng: np.random.RandomState,
    *,
    n_scales: int,
    max_iterations: int = 200,
    simplify: bool = False,
    starts: list[tuple[Kernel, float]] | None = None,
) -> Learned:
    """Maximise the likelihood of some of the blocks over all hyperparameters that are not given.

    Parameters
    ----------
    n_scales : int
        Number of components, where given hyperparameters do not tell.
    max_iterations : int
        Steps from the best start.
    simplify : bool
        Drop the components that vanish or coincide.
    starts : list of pairs or None
        Kernels and noise variances to start from; None takes those of `Space`.
    """
    began = time.perf_counter()
    space = _space(data, request, n_scales)
    if not space.free.any():
        return Learned(*space.unpack(space.given))
    if space.is_degenerate:
        return Learned(*space.unpack(space.fallback()))

    data = data.with_blocks(len(space.columns) > 1, rng, request.tied)
    blocks = data.blocks or []
    objective = _Objective.of(space, data, request, began)
    if starts is None:
        vectors = space.starts(request.n_restarts, rng)
    else:
        vectors = [space.vector(*start) for start in starts]
        if n_scales == 2:
            vectors += space.starts(0, rng)[:1]
    followed = to_follow(blocks)
    # Few blocks do to tell length scales apart, but not to tell what one more gains.
    optima = objective.compare(
        to_compare(blocks) if starts is None else followed, vectors, 20 if starts is None else 10
    )
    refined = []
    for optimum in sorted(optima, key=lambda optimum: optimum.value, reverse=True):
        refined.append(objective.refine(followed, optimum.point, max_iterations))
        if np.isfinite(refined[-1].value):  # otherwise not all blocks can be evaluated there
            break
    final = max(refined, key=lambda optimum: optimum.value)
    theta = space.sorted(space.filled(final.point))
    kernel, noise = space.unpack(theta)
    kernel = kernel.simplified(noise, space.spread) if simplify else kernel
    return Learned(
        kernel,
        noise,
        final.value,
        len(followed),
        sum(len(block.X) for block in followed) // len(followed),
        sum(optimum.n_evaluations for optimum in (*optima, *refined)),
        time.perf_counter() - began,
        final.converged,
        space.on_bounds(kernel, noise) if np.isfinite(final.value) else (),
    )


def finish(learned: Learned, data: LearningData, request: LearningRequest, rng: np.random.RandomState) -> Learned:
    """Go to the maximum on all blocks from that of some, and say how sure the hyperparameters are."""
    began = time.perf_counter()
    space = _space(data, request, learned.kernel.n_scales)
    if not space.free.any() or space.is_degenerate or not np.isfinite(learned.log_likelihood):
        return learned
    data = data.with_blocks(len(space.columns) > 1, rng, request.tied)
    blocks = data.blocks or []
    objective = _Objective.of(space, data, request, began)
    theta = space.vector(learned.kernel, learned.noise_variance)
    some = to_follow(blocks)
    is_ordered = _are_ordered(blocks)
    if is_ordered:  # long scales are told by the early ones: together, they are exact
        blocks = [joined(blocks[:N_EARLY]), *blocks[N_EARLY:]]
    with objective.running(blocks) as run:
        # One evaluation per hyperparameter: for standard errors of many, some of the blocks are enough.
        curvature = objective.curvature(some if is_ordered else some[::3], theta[space.free], run)
        if curvature is None:
            return learned
        size = sum(block.size for block in blocks)
        if is_ordered:
            optimum = objective.polish(blocks, theta[space.free], curvature, size, run)
            if not np.isfinite(optimum.value):  # not all blocks can be evaluated where some have their maximum
                return learned
            theta = space.sorted(space.filled(optimum.point))
            kernel, noise = space.unpack(theta)
            learned = replace(
                learned,
                kernel=kernel,
                noise_variance=noise,
                log_likelihood=optimum.value,
                n_blocks=len(blocks),
                n_evaluations=learned.n_evaluations + optimum.n_evaluations,
                converged=optimum.converged,
                on_bounds=space.on_bounds(kernel, noise),
            )
            curvature = np.asarray(optimum.curvature)
    return replace(
        learned,
        standard_errors=space.standard_errors(curvature * size),
        seconds=learned.seconds + time.perf_counter() - began,
    )


def along(
    learned: Learned, data: LearningData, request: LearningRequest, entry: int, steps: Floats
) -> tuple[Floats, Floats]:
    """Values of one hyperparameter, `steps` (m,) of its logarithm from that learnt, and log likelihoods of all data.

    All others that are free are at their best for each. The likelihood is that of the blocks which learning follows,
    in proportion.
    """
    space = _space(data, request, learned.kernel.n_scales)
    blocks = to_follow(data.blocks or [])
    if _are_ordered(blocks):
        blocks = [joined(blocks[:N_EARLY]), *blocks[N_EARLY:]]
    best = space.vector(learned.kernel, learned.noise_variance)
    values, heights = best[entry] + steps, []
    for value in values:
        given = space.given.copy()
        given[entry] = value
        held = replace(space, given=given, fixed=Fixed())
        objective = _Objective.of(held, data, request, time.perf_counter())
        start = held.vector(learned.kernel, learned.noise_variance)[held.free]
        with objective.running(blocks) as run:
            heights.append(objective.height(blocks, start, run))
    return np.exp(values), data.y.size * np.array(heights)


def gains(better: Learned, worse: Learned, data: LearningData, request: LearningRequest) -> tuple[float, float, bool]:
    """What one gains over another, in nats per target, its standard error, and whether it is that of blocks aside.

    These have not been learnt from. Where there are too few of them, it is that of the others.
    """
    blocks = data.blocks or []
    followed = to_follow(blocks)
    used = {id(block.X) for block in followed}
    aside = [block for block in blocks if id(block.X) not in used]
    is_aside = len(aside) >= LEAST_ASIDE
    blocks = thinned(aside, 0, ASIDE) if is_aside else followed
    stacks = stacked(blocks, better.kernel.length_scales.shape[1] > 1)
    sizes = np.concatenate([stack.sizes for stack in stacks])

    def values(learned: Learned) -> Floats:
        noise = max(learned.noise_variance, 1e-12 * learned.kernel.variance)
        return np.concatenate(thread_map(lambda stack: stack.values(learned.kernel, noise), stacks, request.n_jobs))

    differences = values(better) - values(worse)
    mean = float(differences.sum() / sizes.sum())
    spread = differences - mean * sizes
    return mean, float(np.sqrt(np.sum(spread**2)) / sizes.sum()), is_aside


def _space(data: LearningData, request: LearningRequest, n_scales: int) -> Space:
    return Space.of(
        data.X, data.y, request.fixed, n_scales, request.ard, data.extents, request.tied, family=request.family
    )


def _are_ordered(blocks: list[Block]) -> bool:
    return any(block.n_given for block in blocks)


def to_compare(blocks: list[Block]) -> list[Block]:
    """Blocks to compare starts on."""
    if _are_ordered(blocks):
        return thinned(blocks, *TO_COMPARE)
    followed = to_follow(blocks)
    return followed[:: max(len(followed) // N_FEW, 1)]


def to_follow(blocks: list[Block]) -> list[Block]:
    """Blocks to follow the best start on; of many independent ones every third is aside, to judge by."""
    if _are_ordered(blocks):
        return thinned(blocks, *TO_FOLLOW)
    return [b for i, b in enumerate(blocks) if i % 3 != 2] if len(blocks) > N_BLOCKS else blocks


@dataclass(frozen=True, eq=False)
class _Objective:
    """Likelihood per target of some blocks, and its maximum.

    BLAS has one thread throughout: starts, and then blocks, are what runs side by side.
    """

    space: Space
    deadline: float
    n_threads: int
    progress: Progress | None
    likelihood: Likelihood | None
    lock: Any = field(default_factory=Lock)

    @classmethod
    def of(cls, space: Space, data: LearningData, request: LearningRequest, began: float) -> _Objective:
        deadline = began + request.time_budget
        return cls(space, deadline, n_threads(request.n_jobs), request.progress, data.likelihood)

    @contextmanager
    def running(self, blocks: list[Block]) -> Iterator[Any]:
        """What maps a function over blocks, in threads where there are several."""
        if len(blocks) == 1 or self.likelihood is not None:
            with single_threaded_blas():
                yield map
        else:
            with worker_threads(self.n_threads) as run:
                yield run

    def compare(self, blocks: list[Block], starts: list[Floats], n_steps: int) -> list[Optimum]:
        """Take a few steps from each start."""
        stages = [f"start {i + 1} of {len(starts)}" for i in range(len(starts))]
        free = self.space.free

        def from_start(item: tuple[Floats, str]) -> Optimum:
            start, stage = item
            return self._maximise(blocks, start[free], stage, n_steps, 1e-5, map)

        return thread_map(from_start, zip(starts, stages, strict=True), self.n_threads)

    def refine(self, blocks: list[Block], start: Floats, max_iterations: int) -> Optimum:
        """Go all the way to the maximum."""
        with self.running(blocks) as run:
            # The last digits can wait where all blocks are gone to later, and are next to nothing beside the
            # uncertainty of many length scales.
            tolerance = 1e-9 if len(blocks) == 1 else 1e-6 if _are_ordered(blocks) else 3e-6
            return self._maximise(blocks, start, "refine", max_iterations, tolerance, run)

    def height(self, blocks: list[Block], start: Floats, run: Any) -> float:
        """Largest value that a few steps lead to."""
        return self._maximise(blocks, start, "profile", 20, 1e-7, run).value

    def polish(self, blocks: list[Block], start: Floats, curvature: Floats, size: float, run: Any) -> Optimum:
        """Go to the maximum from near it."""
        return polish(
            self._function(blocks, run),
            start,
            self.space.bounds,
            curvature,
            size,
            deadline=self.deadline,
            progress=lambda done, value: self._report("all data", done, value),
        )

    def curvature(self, blocks: list[Block], point: Floats, run: Any) -> Floats | None:
        """Minus the second derivatives (p, p) per target, by differences of gradients; None where there are none."""
        objective = self._function(blocks, run)
        steps = DIFFERENCE * np.eye(len(point))
        upper = np.array([high for _, high in self.space.bounds])
        steps[point + DIFFERENCE > upper] *= -1.0
        try:
            here = objective(point)[1]
            H = np.array([(here - objective(point + step)[1]) / step.sum() for step in steps])
        except LinAlgError:
            return None
        symmetric: Floats = 0.5 * (H + H.T)
        return symmetric

    def _function(self, blocks: list[Block], run: Any) -> Any:
        """Value and gradient per target, as a function of the free entries."""
        size = sum(block.size for block in blocks)
        evaluate = self._evaluation(blocks, run)

        def objective(values: Floats) -> tuple[float, Floats]:
            kernel, noise = self.space.unpack(self.space.filled(values))
            value, gradient = evaluate(kernel, max(noise, self.space.noise_floor))
            return value / size, self.space.free_gradient(gradient) / size

        return objective

    def _evaluation(self, blocks: list[Block], run: Any) -> Evaluation:
        if self.likelihood is not None:
            return self.likelihood(blocks)
        return sum_of(stacked(blocks, len(self.space.columns) > 1), run)

    def _maximise(
        self, blocks: list[Block], start: Floats, stage: str, max_iterations: int, tolerance: float, run: Any
    ) -> Optimum:
        return maximise(
            self._function(blocks, run),
            start,
            self.space.bounds,
            max_iterations=max_iterations,
            tolerance=tolerance,
            deadline=self.deadline,
            progress=lambda done, value: self._report(stage, done, value),
        )

    def _report(self, stage: str, done: float, value: float) -> None:
        if self.progress is not None:
            with self.lock:  # several starts may report at once
                self.progress(f"learning: {stage}", done, value)
