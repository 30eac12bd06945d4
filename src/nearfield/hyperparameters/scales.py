"""How many length scales the data ask for: learnt with one, two, three, and judged on blocks kept aside."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError

from ..common.threads import thread_map
from ..common.types import Floats
from .blocks import Block, make_blocks
from .learning import Learned, complaints, learn, warn
from .likelihood import kernel_log_likelihood
from .space import Fixed

MAX_SCALES = 3
BLOCKS, BLOCKS_ASIDE = 64, 32
LEAST_GAIN = 2e-3  # nats a point that a further scale must gain on blocks kept aside


def learn_with_scales(
    X: Floats,
    y: Floats,
    n_scales: int | None,
    *,
    fixed: Fixed,
    ard: bool,
    rng: np.random.RandomState,
    time_budget: float,
    blocks: list[Block] | None = None,
    **options: Any,
) -> Learned:
    """Learn length scales and variances, the number of Gaussians included.

    Parameters
    ----------
    X : ndarray of shape (n, d)
    y : ndarray of shape (n, k)
        Centred targets.
    n_scales : int or None
        Number of Gaussians, more than 1; None picks it. Those that vanish or coincide are dropped in either case.
    fixed : Fixed
        May give the noise variance.
    blocks : list of Block or None
        Blocks to learn from and to judge by; None chooses them.
    **options
        Further options of `learn`.
    """
    began = time.perf_counter()
    if blocks is None:
        blocks = make_blocks(X, y, options.get("sample_weight"), BLOCKS + BLOCKS_ASIDE, ard, rng)
    used, aside = _divided(blocks)

    def with_scales(J: int) -> Learned:
        left = max(time_budget - (time.perf_counter() - began), 1.0)
        found = learn(
            X,
            y,
            fixed=fixed,
            n_scales=J,
            ard=ard,
            rng=rng,
            time_budget=left,
            blocks=used,
            max_iterations=200 if J == 1 else 80,  # with several scales there are directions that hardly matter
            quiet=True,  # said once, of what is kept
            **options,
        )
        return replace(found, kernel=found.kernel.simplified(found.noise_variance))

    if n_scales is not None:
        best = with_scales(n_scales)
    else:
        best = with_scales(1)
        for J in range(2, MAX_SCALES + 1):
            if time.perf_counter() - began > 0.6 * time_budget:
                break
            further = with_scales(J)
            if further.kernel.n_scales < J or not _is_better(further, best, used, aside, options.get("n_jobs")):
                break
            best = further
    best = replace(best, seconds=time.perf_counter() - began)
    # A further scale on its bound says no more than that it is one too many.
    for message in complaints(best if best.kernel.n_scales == 1 else replace(best, on_bounds=()), time_budget):
        warn(message)
    return best


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
        return kernel_log_likelihood(
            learned.kernel, noise, block.X, block.y, block.noise_factors, block.squared_distances
        )[0]
    except LinAlgError:
        return -np.inf
