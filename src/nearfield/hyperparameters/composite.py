"""The likelihood of blocks and its maximum, for kernels of a given number of components.

Starts are compared on few blocks, the best is followed on more of them, and the end is on all: from there, where the
curvature is known, a few steps of Newton's method are enough. Until then blocks in order are given fewer points.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ..common.threads import thread_map
from ..common.types import Floats
from ..kernels import Kernel
from .blocks import N_BLOCKS, N_EARLY, Block, LearningData, are_ordered, lighter, thinned, with_exact_early
from .learned import Learned
from .objective import Objective
from .request import Fixed, LearningRequest
from .space import Space
from .work import Work

ENOUGH = 0.2  # nats of the whole likelihood that are not worth a step: estimates are uncertain by half a nat each
TO_COMPARE, TO_APPROACH, TO_FOLLOW = (12, 36), (40, 160), (40, 768)  # early blocks, and all, of those that are in order
N_STEPS = 3  # by which starts are compared
TO_CURVE = 40, 160  # the same, whose second derivatives are found
N_FEW = 12  # independent blocks that starts are compared on
MOST_DIFFERENCES = 15  # hyperparameters of blocks that are not in order
THIRD = 3  # of the latter, one in so many is asked
JUDGES, LEAST_ASIDE = 1536, 16  # blocks to judge by: of those in order at first, of others at least
UNCLEAR = 3.0  # standard errors of a gain, within which all blocks are asked


def maximise_composite_likelihood(
    data: LearningData,
    request: LearningRequest,
    rng: np.random.RandomState,
    *,
    n_scales: int,
    simplify: bool = False,
    starts: list[tuple[Kernel, float]] | None = None,
    work: Work | None = None,
) -> Learned:
    """Maximise the likelihood of some of the blocks over all hyperparameters that are not given.

    Parameters
    ----------
    n_scales : int
        Number of components, where given hyperparameters do not tell.
    simplify : bool
        Drop the components that vanish or coincide.
    starts : list of pairs or None
        Kernels and noise variances to start from; None takes those of `Space`.
    work : Work or None
        What is left of the budget; None takes that of the request.
    """
    began = time.perf_counter()
    space = space_of(data, request, n_scales)
    if not space.free.any():
        return Learned(*space.unpack(space.given))
    if space.is_degenerate:
        return Learned(*space.unpack(space.fallback()))

    data = data.with_blocks(len(space.columns) > 1, rng, request.tied, request.n_jobs)
    blocks = data.blocks or []
    objective = Objective.of(space, data, request, work)
    vectors = space.starts(request.n_restarts, rng) if starts is None else [space.vector(*start) for start in starts]
    followed = to_follow(blocks)
    few = to_compare(blocks) if starts is None else thinned(followed, *TO_APPROACH)
    final = objective.ascend([few, few, followed] if len(vectors) > 1 else [few, followed], vectors, N_STEPS)
    theta = space.sorted(space.filled(final.point))
    kernel, noise = space.unpack(theta)
    kernel = kernel.simplified(noise, space.spread) if simplify else kernel
    return Learned(
        kernel,
        noise,
        final.value,
        len(followed),
        sum(len(block.X) for block in followed) // len(followed),
        final.n_evaluations,
        time.perf_counter() - began,
        final.converged,
        space.on_bounds(kernel, noise) if np.isfinite(final.value) else (),
    )


def finish(
    learned: Learned, data: LearningData, request: LearningRequest, rng: np.random.RandomState, work: Work | None = None
) -> Learned:
    """Go to the maximum on all blocks from that of some, and say how sure the hyperparameters are."""
    began = time.perf_counter()
    space = space_of(data, request, learned.kernel.n_scales)
    if not space.free.any() or space.is_degenerate or not np.isfinite(learned.log_likelihood):
        return learned
    data = data.with_blocks(len(space.columns) > 1, rng, request.tied, request.n_jobs)
    blocks = data.blocks or []
    objective = Objective.of(space, data, request, work)
    was_done = objective.work.is_done  # then more might have been found
    theta = space.vector(learned.kernel, learned.noise_variance)
    some = to_follow(blocks)
    is_ordered = are_ordered(blocks)
    blocks = data.exact_early if is_ordered else blocks  # long scales are told by the early ones
    with objective.running(blocks) as run:
        # Differences take an evaluation per hyperparameter, of which there may be many.
        is_short = is_ordered or space.free.sum() <= MOST_DIFFERENCES
        find = objective.curvature if is_short else objective.information
        asked = thinned(some, *TO_CURVE) if is_ordered else some[::THIRD]
        curvature = find(asked, theta[space.free], run)
        if curvature is None:
            return learned
        size = min(sum(block.size for block in blocks), data.y.size)  # blocks may overlap
        if is_ordered:
            # Some blocks may tell nothing of a direction, by chance, where information is on the safe side.
            expected = objective.information(with_exact_early(asked, N_EARLY), theta[space.free], run)
            steps_by = curvature if expected is None else 0.5 * (curvature + expected)
            optimum = objective.polish(blocks, theta[space.free], steps_by, ENOUGH / size, run)
            if not np.isfinite(optimum.value):  # not all blocks can be evaluated where some have their maximum
                return learned
            if np.linalg.eigvalsh(curvature)[0] <= 0:  # which gives no standard errors
                curvature = steps_by if optimum.curvature is None else optimum.curvature
            theta = space.sorted(space.filled(optimum.point))
            kernel, noise = space.unpack(theta)
            learned = replace(
                learned,
                kernel=kernel,
                noise_variance=noise,
                log_likelihood=optimum.value,
                n_blocks=len(blocks),
                n_evaluations=learned.n_evaluations + optimum.n_evaluations,
                converged=optimum.converged and not was_done,
                on_bounds=space.on_bounds(kernel, noise),
            )
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
    space = space_of(data, request, learned.kernel.n_scales)
    blocks = to_follow(data.blocks or [])
    if are_ordered(blocks):
        blocks = with_exact_early(blocks, N_EARLY)
    best = space.vector(learned.kernel, learned.noise_variance)
    values, heights = best[entry] + steps, []
    for value in values:
        given = space.given.copy()
        given[entry] = value
        held = replace(space, given=given, fixed=Fixed())
        objective = Objective.of(held, data, request)
        start = held.vector(learned.kernel, learned.noise_variance)[held.free]
        with objective.running(blocks) as run:
            heights.append(objective.height(blocks, start, run))
    return np.exp(values), data.y.size * np.array(heights)


class Gain(NamedTuple):
    """What one kernel gains over another, in nats per target."""

    mean: float
    error: float  # its standard error; infinite where it is not known
    n_targets: float  # whose likelihoods tell it; 0 where these do not add up to that of the data


def gains(better: Learned, worse: Learned, data: LearningData, request: LearningRequest) -> Gain:
    """What one gains over another, learnt from the same data.

    Blocks in order tell it, terms of the likelihood of all data: some, and where it is not clear all. Others overlap,
    so those tell it that are aside and have not been learnt from, if there are enough.
    """
    blocks = data.blocks or []
    if are_ordered(blocks):
        judges = thinned(data.exact_early, 1, JUDGES)
        mean, error = _gains_on(judges, better, worse, data, request)
        if len(blocks) > JUDGES and abs(mean) < UNCLEAR * error:
            judges = data.exact_early
            mean, error = _gains_on(judges, better, worse, data, request)
        return Gain(mean, error, sum(block.size / block.share for block in judges))
    followed = to_follow(blocks)
    used = {id(block.X) for block in followed}
    aside = [block for block in blocks if id(block.X) not in used]
    if len(aside) >= LEAST_ASIDE:
        return Gain(*_gains_on(aside, better, worse, data, request), 0.0)
    return Gain(_gains_on(followed, better, worse, data, request)[0], np.inf, data.y.size)


def _gains_on(
    blocks: list[Block], better: Learned, worse: Learned, data: LearningData, request: LearningRequest
) -> tuple[float, float]:
    """Mean gain on some blocks, and its standard error."""
    stacks = data.stacks(blocks, better.kernel.length_scales.shape[1] > 1)
    sizes = np.concatenate([stack.sizes for stack in stacks])

    def values(learned: Learned) -> Floats:
        key = learned, len(blocks)
        if key not in data.judged:
            noise = max(learned.noise_variance, 1e-12 * learned.kernel.variance)
            rows = thread_map(lambda stack: stack.values(learned.kernel, noise), stacks, request.n_jobs)
            data.judged[key] = np.concatenate(rows)
        return data.judged[key]

    differences = values(better) - values(worse)
    mean = float(differences.sum() / sizes.sum())
    spread = differences - mean * sizes
    return mean, float(np.sqrt(np.sum(spread**2)) / sizes.sum())


def with_extents(data: LearningData, request: LearningRequest) -> LearningData:
    """The same with the lengths of the data, which are those of any number of components."""
    return replace(data, extents=space_of(data, request, 1).extents)


def space_of(data: LearningData, request: LearningRequest, n_scales: int) -> Space:
    """Space of the hyperparameters that a request leaves open."""
    return Space.of(
        data.X, data.y, request.fixed, n_scales, request.ard, data.extents, request.tied, family=request.family
    )


def to_compare(blocks: list[Block]) -> list[Block]:
    """Blocks to compare starts on."""
    if are_ordered(blocks):
        return thinned(lighter(blocks), *TO_COMPARE)
    followed = to_follow(blocks)
    return followed[:: max(len(followed) // N_FEW, 1)]


def to_follow(blocks: list[Block]) -> list[Block]:
    """Blocks to follow the best start on; of many independent ones every third is aside, to judge by."""
    if are_ordered(blocks):
        return thinned(lighter(blocks), *TO_FOLLOW)
    return [b for i, b in enumerate(blocks) if i % 3 != 2] if len(blocks) > N_BLOCKS else blocks
