"""Length scales that several targets share, where each target has signal and noise variances of its own.

The joint log likelihood is the sum of the targets'. Learning first takes all targets for alike, in units of their own
spread: that finds the family of the kernel, the number of components, and where to start. From there Newton's method
maximises the joint likelihood over the shared length scales and the variances of all targets at once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..common.types import Floats, Integers
from ..kernels import Kernel
from .blocks import Block, Evaluation, LearningData, Stacks, are_ordered, sum_of
from .composite import ENOUGH, space_of, to_follow
from .learned import Learned
from .objective import Objective, last_gain
from .optimiser import Climb
from .optimiser import Objective as ObjectiveFunction
from .request import Fixed, LearningRequest
from .space import Space
from .work import Work

Learn = Callable[[LearningData, LearningRequest, np.random.RandomState], Learned]


def learn_shared(
    data: LearningData, request: LearningRequest, rng: np.random.RandomState, learn_alike: Learn
) -> Learned:
    """Kernel whose length scales several targets share; its variances and the noise are means over the targets.

    Parameters
    ----------
    data : LearningData
        With targets (n, k), k > 1.
    request : LearningRequest
        Without length scales that are given. Variances that are given hold for every target.
    learn_alike : callable
        Learns from all targets as if their variances were the same.
    """
    weights = np.ones(len(data.y)) if data.weights is None else data.weights
    spread = np.sqrt(np.average(data.y**2, axis=0, weights=weights))
    varies = np.flatnonzero(spread > 0)
    if len(varies) == 0:
        return learn_alike(data, request, rng)
    spread = spread[varies]
    in_units = [replace(block, y=block.y[:, varies] / spread) for block in data.blocks or []]
    data = replace(data, y=data.y[:, varies] / spread, blocks=in_units or None, stacks=Stacks(), judged={})
    data = data.with_blocks(request.ard, rng, request.tied, request.n_jobs)
    work = request.work or Work(request.time_budget)
    n_scales = 1 if request.is_one_kernel else request.n_scales
    alike = learn_alike(data, replace(request, fixed=Fixed(), n_scales=n_scales), rng)
    if not np.isfinite(alike.log_likelihood):
        return alike
    request = replace(request, family=alike.kernel.family)
    return _Joint.of(data, request, spread, alike.kernel.n_scales, work).maximised(alike)


@dataclass(frozen=True, eq=False)
class _Joint:
    """The likelihood of several targets, per number of theirs, as a function of all logarithms that are free.

    Those of the shared length scales come first, then those of the variances and the noise of each target.
    """

    data: LearningData
    spread: Floats  # (k,): unit of each target
    spaces: list[Space]  # one per target
    objective: Objective  # of the first target: its threads, and what is left of the budget

    @classmethod
    def of(cls, data: LearningData, request: LearningRequest, spread: Floats, n_scales: int, work: Work) -> _Joint:
        """Likelihood of targets (n, k) that were divided by their spread (k,)."""
        fixed, spaces = request.fixed, []
        for j, unit in enumerate(spread):
            variances = None if fixed.variances is None else fixed.variances / unit**2
            noise = None if fixed.noise_variance is None else fixed.noise_variance / unit**2
            alone, own = replace(data, y=data.y[:, [j]]), replace(request, fixed=Fixed(None, variances, noise))
            spaces.append(space_of(alone, own, n_scales))
        return cls(data, spread, spaces, Objective.of(spaces[0], data, request, work))

    def maximised(self, alike: Learned) -> Learned:
        """The maximum, from that of targets taken for alike: on some of the blocks, and then on all."""
        first = to_follow(self.data.blocks or [])
        stages = [(first, last_gain(first))]
        if are_ordered(first):
            stages.append((self.data.exact_early, ENOUGH / self.data.y.size))
        point, n_evaluations, optimum = self._start(alike), alike.n_evaluations, None
        for blocks, enough in stages:
            each = [[replace(block, y=block.y[:, [j]]) for block in blocks] for j in range(len(self.spaces))]
            with self.objective.running(blocks) as run:
                climb = Climb(self._function(blocks, each, run), self._curvature(each), point, self._bounds)
                found = self.objective.finished(climb, [block for own in each for block in own], "all targets", enough)
            n_evaluations += found.n_evaluations * len(each)
            if not np.isfinite(found.value):  # not all blocks can be evaluated where some have their maximum
                break
            point, optimum = found.point, found
        if optimum is None:
            return alike
        kernel, noise = self._mean(point)
        on_bounds = self.spaces[0].on_bounds(kernel, noise)
        return replace(
            alike,
            kernel=kernel,
            noise_variance=noise,
            log_likelihood=optimum.value,
            n_evaluations=n_evaluations,
            converged=optimum.converged,
            on_bounds=tuple(bound for bound in on_bounds if bound.kind == "length_scale"),
            standard_errors=None,
        )

    @property
    def _n_lengths(self) -> int:
        """Number of shared length scales that are free."""
        space = self.spaces[0]
        return int(space.free[: space.n_scales * len(space.columns)].sum())

    def _entries(self, j: int) -> Integers:
        """Where the free logarithms of one target are."""
        shared, own = self._n_lengths, int(self.spaces[0].free.sum()) - self._n_lengths
        return np.concatenate([np.arange(shared), shared + j * own + np.arange(own)])

    @property
    def _bounds(self) -> list[tuple[float, float]]:
        shared = self._n_lengths
        return self.spaces[0].bounds[:shared] + [bound for space in self.spaces for bound in space.bounds[shared:]]

    def _start(self, alike: Learned) -> Floats:
        """Targets of unit spread with the same variances; half of it noise where all together seem to be noise."""
        kernel, noise = alike.kernel, alike.noise_variance
        if any(bound.kind == "signal_variance" for bound in alike.on_bounds):
            kernel, noise = replace(kernel, variances=np.full(kernel.n_scales, 0.5 / kernel.n_scales)), 0.5
        each = [space.vector(kernel, noise)[space.free] for space in self.spaces]
        return np.concatenate([each[0][: self._n_lengths], *(own[self._n_lengths :] for own in each)])

    def _function(self, blocks: list[Block], each: list[list[Block]], run: Any) -> ObjectiveFunction:
        """Value and gradient per number of the targets; `each` are the blocks with one target."""
        size = sum(block.size for block in blocks)
        evaluations = [self._evaluation(blocks, own, j, run) for j, own in enumerate(each)]

        def function(point: Floats) -> tuple[float, Floats]:
            total, slope = 0.0, np.zeros(len(point))
            for j, (space, evaluate) in enumerate(zip(self.spaces, evaluations, strict=True)):
                kernel, noise = space.unpack(space.filled(point[self._entries(j)]))
                value, gradient = evaluate(kernel, max(noise, space.noise_floor))
                total += value
                slope[self._entries(j)] += space.free_gradient(gradient)
            return total / size, slope / size

        return function

    def _evaluation(self, blocks: list[Block], own: list[Block], j: int, run: Any) -> Evaluation:
        if self.data.likelihood is not None:
            return self.data.likelihood(own)
        stacks = self.data.stacks(blocks, len(self.spaces[0].columns) > 1)  # distances are kept once for all targets
        return sum_of([replace(stack, y=stack.y[:, :, [j]]) for stack in stacks], run)

    def _curvature(self, each: list[list[Block]]) -> Callable[[Floats], Floats]:
        """Expected curvature at a point."""
        of_targets = [
            replace(self.objective, space=space).expected_curvature(own)
            for space, own in zip(self.spaces, each, strict=True)
        ]

        def curvature(point: Floats) -> Floats:
            total = np.zeros((len(point), len(point)))
            for j, of_target in enumerate(of_targets):
                entries = self._entries(j)
                total[np.ix_(entries, entries)] += of_target(point[entries]) / len(each)
            return total

        return curvature

    def _mean(self, point: Floats) -> tuple[Kernel, float]:
        """Kernel with the mean variances of the targets, and the mean noise variance, in the units of the data."""
        own = [space.unpack(space.filled(point[self._entries(j)])) for j, space in enumerate(self.spaces)]
        variances = np.mean([unit**2 * kernel.variances for unit, (kernel, _) in zip(self.spread, own, strict=True)], 0)
        noise = float(np.mean(self.spread**2 * [noise for _, noise in own]))
        lengths = own[0][0].length_scales
        order = np.arange(len(lengths))
        if self.spaces[0].fixed.variances is None:
            order = np.argsort(lengths.mean(axis=1))  # the shortest first
        return replace(own[0][0], length_scales=lengths[order], variances=variances[order]), noise
