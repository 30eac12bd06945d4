"""The likelihood of blocks as a function of the hyperparameters that are free, and ways up to its maximum."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import pairwise
from threading import Lock
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError

from ..common.budget import Progress
from ..common.threads import n_threads, single_threaded_blas, thread_map, worker_threads
from ..common.types import Floats
from ..kernels import Kernel
from .blocks import Block, Evaluation, LearningData, Likelihood, Stacks, are_ordered, sum_of, thinned, with_exact_early
from .information import information
from .optimiser import Climb, Optimum
from .request import LearningRequest
from .space import Space
from .work import Work

NOT_YET = 3e-5  # gain per target that starts are not compared for
LAST_IN_ORDER, LAST, LAST_OF_ONE = (
    5e-5,
    3e-6,
    1e-10,
)  # gain per target of the last step: of blocks in order, others, one
NEAR = 3e-4  # the same, before more blocks are gone to
CLOSE = 5e-3  # nats per target that a start may be behind the best of them, with blocks in order
MOST_STEPS = 60
TO_INFORM, LEAST_TO_INFORM = (4, 32), 4  # blocks that tell the curvature: early and all of those in order; others
TO_SCAN = (8, 48)  # the same where it is that of many components
DIFFERENCE = 1e-3  # step of finite differences


@dataclass(frozen=True, eq=False)
class Objective:
    """Likelihood per target of some blocks, and its maximum.

    BLAS has one thread throughout: starts, and then blocks, are what runs side by side.
    """

    space: Space
    work: Work
    n_threads: int
    progress: Progress | None
    likelihood: Likelihood | None
    stacks: Stacks
    lock: Any = field(default_factory=Lock)

    @classmethod
    def of(cls, space: Space, data: LearningData, request: LearningRequest, work: Work | None = None) -> Objective:
        """Objective of data and a request, of whose budget `work` is left, or all of it."""
        work = work or Work(request.time_budget)
        return cls(space, work, n_threads(request.n_jobs), request.progress, data.likelihood, data.stacks)

    @contextmanager
    def running(self, blocks: list[Block]) -> Iterator[Any]:
        """What maps a function over blocks, in threads where there are several."""
        if len(blocks) == 1 or self.likelihood is not None:
            with single_threaded_blas():
                yield map
        else:
            with worker_threads(self.n_threads) as run:
                yield run

    def ascend(self, stages: list[list[Block]], starts: list[Floats], n_steps: int) -> Optimum:
        """Go up from starts, some steps on the blocks of each stage, after which the better half of them goes on.

        The best goes all the way to the maximum on the blocks of the last.
        """
        last, is_ordered = stages[-1], are_ordered(stages[-1])
        with self.running(last) as run:
            climbs = self._climbs(stages[0], [start[self.space.free] for start in starts], run)
            all_climbs = list(climbs)
            others: list[Climb] = []
            for before, blocks in pairwise(stages):
                if len(climbs) > 1:
                    climbs = self._race(climbs, before, n_steps, run)
                else:
                    self.finished(climbs[0], before, "approach", NEAR)
                least = climbs[0].best.value - (CLOSE if is_ordered else np.inf)
                n_left = sum(climb.best.value >= least for climb in climbs[: -(-len(climbs) // 2)])
                others = climbs[n_left:] + others
                climbs = climbs[:n_left]
                if blocks is not before:
                    climbs = self._climbs(blocks, [climb.best.point for climb in climbs], run)
                    all_climbs += climbs
            # The last digits can wait where all blocks are gone to later, and are next to nothing beside the
            # uncertainty of many length scales.
            enough = last_gain(last)
            best = self.finished(climbs[0], last, "refine", enough)
            for climb in climbs[1:] + others:
                if np.isfinite(best.value):  # otherwise not all blocks can be evaluated there
                    break
                all_climbs += self._climbs(last, [climb.best.point], run)
                best = self.finished(all_climbs[-1], last, "refine", enough)
        return replace(best, n_evaluations=sum(climb.best.n_evaluations for climb in all_climbs))

    def information(self, blocks: list[Block], point: Floats, _: Any) -> Floats | None:
        """Expected second derivatives in place of `curvature`."""
        F = self._information_of(blocks, point)
        return F if np.isfinite(F).all() else None

    def _climbs(self, blocks: list[Block], starts: list[Floats], run: Any) -> list[Climb]:
        objective, curvature = self._function(blocks, run), self.expected_curvature(blocks)
        return [Climb(objective, curvature, start, self.space.bounds) for start in starts]

    def _race(self, climbs: list[Climb], blocks: list[Block], n_steps: int, run: Any) -> list[Climb]:
        """All of them after a few steps from each on some blocks, best first."""
        before = sum(climb.best.n_evaluations for climb in climbs)
        stages = [f"start {i + 1} of {len(climbs)}" for i in range(len(climbs))]
        items = zip(climbs, stages, strict=True)
        # Where blocks run side by side, starts are one after the other.
        thread_map(lambda item: self._go(*item, n_steps, NOT_YET), items, self.n_threads if run is map else 1)
        self.work.spend(blocks, sum(climb.best.n_evaluations for climb in climbs) - before)
        return sorted(climbs, key=lambda climb: climb.best.value, reverse=True)

    def finished(self, climb: Climb, blocks: list[Block], stage: str, enough: float) -> Optimum:
        """The end of a climb on some blocks, or as far as there is work left."""
        before = climb.best.n_evaluations
        n_steps = min(max(self.work.evaluations_of(blocks), 1), MOST_STEPS)
        best = self._go(climb, stage, n_steps, enough)
        self.work.spend(blocks, best.n_evaluations - before)
        return best

    def values(self, blocks: list[Block], points: list[Floats]) -> Floats:
        """Likelihood per target of some blocks at points; minus infinity where it cannot be evaluated."""
        size = _size(blocks)
        stacks = self.stacks(blocks, len(self.space.columns) > 1) if self.likelihood is None else []

        def value(point: Floats, run: Any) -> float:
            kernel, noise = self.space.unpack(self.space.filled(point))
            noise = max(noise, self.space.noise_floor)
            if self.likelihood is None:
                return sum(float(each.sum()) for each in run(lambda stack: stack.values(kernel, noise), stacks)) / size
            try:
                return self.likelihood(blocks)(kernel, noise)[0] / size
            except LinAlgError:
                return -np.inf

        with self.running(blocks) as run:
            return np.array([value(point, run) for point in points])

    def gradient_and_information(
        self, blocks: list[Block], kernel: Kernel, noise_variance: float
    ) -> tuple[Floats, Floats]:
        """Gradient (p,) per target in the logarithms of all hyperparameters of any kernel, and information (p, p).

        Raises
        ------
        LinAlgError
            Where a covariance matrix is not positive definite.
        """
        noise = max(noise_variance, self.space.noise_floor)
        some = _to_inform(blocks, *TO_SCAN)
        with self.running(blocks) as run:
            gradient = self._evaluation(blocks, run)(kernel, noise)[1]
            F = information(some, kernel, noise)
        return gradient / _size(blocks), F / _size(some)

    def height(self, blocks: list[Block], start: Floats, run: Any) -> float:
        """Largest value that a few steps lead to; that of the start where nothing is free."""
        if len(start) == 0:
            return float(self.values(blocks, [start])[0])
        [climb] = self._climbs(blocks, [start], run)
        return self._go(climb, "profile", 20, 1e-7).value

    def polish(self, blocks: list[Block], start: Floats, curvature: Floats, enough: float, run: Any) -> Optimum:
        """Go to the maximum from near it, until less than `enough` is to be gained per target."""
        climb = Climb(self._function(blocks, run), curvature, start, self.space.bounds)
        return self.finished(climb, blocks, "all data", enough)

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

    def _go(self, climb: Climb, stage: str, max_steps: int, enough: float) -> Optimum:
        """Go on with a climb, and report how far it came."""

        def report(done: float, value: float) -> None:
            if self.progress is not None:
                with self.lock:  # several starts may report at once
                    self.progress(f"learning: {stage}", done, value)

        return climb.go(max_steps, enough, deadline=self.work.deadline, progress=report)

    def expected_curvature(self, blocks: list[Block]) -> Callable[[Floats], Floats]:
        """Expected curvature per target, as a function of the free entries, from some of the blocks."""
        some = _to_inform(blocks, *TO_INFORM)

        def curvature(values: Floats) -> Floats:
            F = self._information_of(some, values)
            return F if np.isfinite(F).all() else np.eye(len(values))

        return curvature

    def _information_of(self, blocks: list[Block], values: Floats) -> Floats:
        """Information of blocks per target about the free entries; not finite where it cannot be told."""
        kernel, noise = self.space.unpack(self.space.filled(values))
        try:
            F = information(blocks, kernel, max(noise, self.space.noise_floor))
        except LinAlgError:
            return np.full((len(values),) * 2, np.nan)
        return self.space.free_matrix(F) / _size(blocks)

    def _function(self, blocks: list[Block], run: Any) -> Any:
        """Value and gradient per target, as a function of the free entries."""
        size = _size(blocks)
        evaluate = self._evaluation(blocks, run)

        def objective(values: Floats) -> tuple[float, Floats]:
            kernel, noise = self.space.unpack(self.space.filled(values))
            value, gradient = evaluate(kernel, max(noise, self.space.noise_floor))
            return value / size, self.space.free_gradient(gradient) / size

        return objective

    def _evaluation(self, blocks: list[Block], run: Any) -> Evaluation:
        if self.likelihood is not None:
            return self.likelihood(blocks)
        return sum_of(self.stacks(blocks, len(self.space.columns) > 1), run)


def _to_inform(blocks: list[Block], n_early: int, most: int) -> list[Block]:
    """Blocks that tell the curvature: early ones and so many in all, of those in order, or a fifth of others."""
    if are_ordered(blocks):
        return with_exact_early(thinned(blocks, n_early, most), n_early)
    n_others = max(LEAST_TO_INFORM, len(blocks) // 5)
    return blocks[:: max(len(blocks) // n_others, 1)]


def last_gain(blocks: list[Block]) -> float:
    """Gain per target of the last step of a climb on these blocks."""
    return LAST_OF_ONE if len(blocks) == 1 else LAST_IN_ORDER if are_ordered(blocks) else LAST


def _size(blocks: list[Block]) -> float:
    """Number of targets that blocks stand for."""
    return sum(block.size for block in blocks)
