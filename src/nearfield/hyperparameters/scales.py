"""How many length scales the data ask for: learnt with one, two, three, and judged on blocks kept aside."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
from scipy.linalg import LinAlgError

from ..common.threads import thread_map
from .blocks import Block, LearningData
from .composite import N_BLOCKS, maximise_composite_likelihood
from .learned import Learned
from .request import LearningRequest

MAX_SCALES = 3
N_BLOCKS_ASIDE = 32
LEAST_GAIN = 2e-3  # nats per point that a further scale must gain on blocks kept aside


def learn_with_scales(data: LearningData, request: LearningRequest, rng: np.random.RandomState) -> Learned:
    """Learn length scales and variances, the number of Gaussians included.

    `request.n_scales` is more than 1, or None to learn it. Gaussians that vanish or coincide are dropped in either
    case. Of the hyperparameters the noise variance may be given. Blocks are to learn from and to judge by.
    """
    began = time.perf_counter()
    blocks = data.make_blocks(N_BLOCKS + N_BLOCKS_ASIDE, request.ard, rng, request.tied)
    used, aside = _divided(blocks)

    def with_scales(J: int) -> Learned:
        left = max(request.time_budget - (time.perf_counter() - began), 1.0)
        return maximise_composite_likelihood(
            replace(data, blocks=used),
            replace(request, time_budget=left),
            rng,
            n_scales=J,
            max_iterations=200 if J == 1 else 80,  # with several scales there are directions that hardly matter
            simplify=True,
        )

    if request.n_scales is not None:
        best = with_scales(request.n_scales)
    else:
        best = with_scales(1)
        for J in range(2, MAX_SCALES + 1):
            if time.perf_counter() - began > 0.6 * request.time_budget:
                break
            further = with_scales(J)
            if further.kernel.n_scales < J or not _is_better(further, best, used, aside, request.n_jobs):
                break
            best = further
    return replace(best, seconds=time.perf_counter() - began)


def _divided(blocks: list[Block]) -> tuple[list[Block], list[Block]]:
    """Two blocks of three to learn from and the third aside; a single block is for both."""
    if len(blocks) < 6:
        return blocks, []
    return [b for i, b in enumerate(blocks) if i % 3 != 2], blocks[2::3]


def _is_better(further: Learned, best: Learned, used: list[Block], aside: list[Block], n_jobs: int | None) -> bool:
    """Whether a further scale pays: on blocks kept aside, or where there are none by Schwarz's criterion."""
    if not aside:
        n = sum(block.y.size for block in used)
        extra = (1 + further.kernel.length_scales.shape[1]) * (further.kernel.n_scales - best.kernel.n_scales)
        return bool((further.log_likelihood - best.log_likelihood) * n > 0.5 * extra * np.log(n))
    gains = np.array(
        thread_map(lambda block: (_value(further, block) - _value(best, block)) / block.y.size, aside, n_jobs)
    )
    return bool(gains.mean() > max(LEAST_GAIN, gains.std(ddof=1) / len(gains) ** 0.5))


def _value(learned: Learned, block: Block) -> float:
    noise = max(learned.noise_variance, 1e-12 * learned.kernel.variance)
    try:
        return block.log_likelihood(learned.kernel, noise)[0]
    except LinAlgError:
        return -np.inf
