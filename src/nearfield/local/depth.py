r"""How many neighbours a cell takes: more where the data on one side are far away.

Leaving out points makes the variance larger, and the mean differs from the exact one by just as much: its expected
square is the excess of the variance. With points in the order of their distances, one factorisation tells the variance
for every smaller number of them, and so what the farther half contributed. Where that is too much, the number is
doubled. The expected KL divergence is half the excess over the variance of an observation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import TypeAlias

import numpy as np

from ..common.threads import thread_map
from ..common.types import Floats
from ..solvers.kernel_space import KernelSpace
from .model import in_kernel_space
from .neighbourhoods import TrainingSet
from .plan import Plan

CELLS_AT_ONCE = 16  # that a thread takes
Nearest: TypeAlias = Callable[[int], tuple[Floats, Floats, Floats]]
"""So many nearest points relative to the centre, (n, d), targets (n, k + 1) and noise (n,), the nearest first."""


@dataclass(frozen=True)
class Depth:
    """When to take more neighbours.

    Attributes
    ----------
    excess : float
        Nats that the farther half of the neighbours may contribute.
    most : int
        Largest number of neighbours.
    noise : float
        Noise variance of an observation.
    """

    excess: float
    most: int
    noise: float

    def contribution(self, model: KernelSpace, places: Floats) -> float:
        """Nats that the farther half of the points of a model contributes, the most at any of the places (m, d).

        The points of the model are in the order of their distances.
        """
        kernel = model.kernel
        squares = model.factor.whiten(kernel(model.X, places)) ** 2
        variance = np.clip(kernel.variance - squares.sum(axis=0), 0.0, None) + self.noise
        return float(np.max(0.5 * squares[len(squares) // 2 :].sum(axis=0) / variance, initial=0.0))


def fit_cell(plan: Plan, depth: Depth | None, nearest: Nearest, n: int, size: float) -> KernelSpace:
    """Model of one cell of half diagonal `size`, with as many of the `n` points as it needs."""
    count = plan.count or 1
    while True:
        Z, y, noise = nearest(min(count, n))
        model = in_kernel_space(plan, Z, y, noise)
        if depth is None or count >= min(depth.most, n):
            return model
        if depth.contribution(model, places_in_cell(size, Z.shape[1])) <= depth.excess:
            return model
        count *= 2


def fit_cells(
    plan: Plan, depth: Depth | None, data: TrainingSet, centers: Floats, sizes: Floats, n_jobs: int | None
) -> list[KernelSpace]:
    """Models of graded cells around centres (C, d), with half diagonals (C,), each with as many neighbours as it needs."""

    def fit_one(center: Floats, size: float) -> KernelSpace:
        def nearest(count: int) -> tuple[Floats, Floats, Floats]:
            near = data.tree.query(center[None], k=count, return_distance=False)[0]
            return data.X[near] - center, data.y[near], data.noise[near]

        return fit_cell(plan, depth, nearest, len(data.X), size)

    def work(batch: slice) -> list[KernelSpace]:
        return [fit_one(*each) for each in zip(centers[batch], sizes[batch], strict=True)]

    batches = [slice(start, start + CELLS_AT_ONCE) for start in range(0, len(centers), CELLS_AT_ONCE)]
    return [model for models in thread_map(work, batches, n_jobs) for model in models]


def places_in_cell(size: float, d: int) -> Floats:
    """The middle of a cell, as the origin, and a place towards each of its corners, (2^d + 1, d)."""
    corners = np.array(list(product((-0.8, 0.8), repeat=d))) * size / d**0.5
    return np.concatenate([np.zeros((1, d)), corners])
