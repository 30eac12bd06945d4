r"""How many neighbours a cell takes: more where the data on one side are far away.

Leaving out points makes the variance larger, and the mean differs from the exact one by just as much: its expected
square is the excess of the variance. With points in the order of their distances, one factorisation tells the variance
for every smaller number of them, and so what the farther half contributed. Where that is too much, the number is
doubled. The expected KL divergence is half the excess over the variance of an observation.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np

from ..common.arrays import column_squares
from ..common.types import Floats, Integers
from ..kernels import Kernel
from ..solvers import linalg
from ..solvers.factors import Cholesky, Factor, factorise
from ..solvers.kernel_space import KernelSpace
from .neighbourhoods import TrainingSet
from .plan import Plan

ROUNDING = 1e-13  # of squared distances, times the points: what noise must be larger than


@dataclass(frozen=True, eq=False)
class CellModel:
    """The process of one cell: points in the order of their distances, and their targets.

    Cells are asked for few places and have many targets, so weights are found for places, and not for targets.

    Attributes
    ----------
    kernel : Kernel
    X : ndarray of shape (n, d)
        Relative to the centre.
    y : ndarray of shape (n, k + 1)
    factor : Cholesky
        Of `K + diag(noise)`.
    lacking : float
        Nats that the farther half of the points contributes where there were to be more, but must not be; else 0.
    rows : ndarray of shape (n,) or None
        Which training points these are, where that is known.
    """

    kernel: Kernel
    X: Floats
    y: Floats
    factor: Cholesky
    lacking: float = 0.0
    rows: Integers | None = None

    def mean_and_variance(self, X: Floats) -> tuple[Floats, Floats]:
        """Means (m, k + 1) and variances (m,) at places (m, d)."""
        half = self._whitened(X)
        variance = self._variance(half)
        return linalg.solve_lower(self.factor.lower, half, transposed=True).T @ self.y, variance

    def variance(self, X: Floats) -> Floats:
        """Variances (m,) alone."""
        return self._variance(self._whitened(X))

    def _whitened(self, X: Floats) -> Floats:
        half: Floats = self.factor.whiten(self.kernel(X, self.X).T, overwrite=True)
        return half

    def _variance(self, half: Floats) -> Floats:
        variance: Floats = (self.kernel.variance - column_squares(half)).clip(min=0.0)
        return variance

    @property
    def n_bytes(self) -> int:
        """Memory taken."""
        return int(self.factor.n_bytes + self.X.nbytes + self.y.nbytes)


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
    tolerance : float
        Nats that are still tolerated where there must not be more neighbours.
    variance_only : bool
        Whether the mean is by other means, and only the variance suffers from too few.
    """

    excess: float
    most: int
    noise: float
    tolerance: float = np.inf
    variance_only: bool = False

    def nats(self, contribution: float) -> float:
        """What a contribution that is left out does: to the mean by as much, to the variance by its square."""
        return contribution**2 if self.variance_only else contribution

    def contributions(self, kernel: Kernel, X: Floats, factors: list[Cholesky], places: Floats) -> Floats:
        """Nats that the farther half of points (C, n, d), in the order of their distances, contributes: (C,).

        That is the most at any of the places (C, m, d).
        """
        if places.shape[1] == 0:
            return np.zeros(len(X))
        squares = kernel(X, places)
        for cross, factor in zip(squares, factors, strict=True):
            factor.whiten(cross, overwrite=True)
        squares *= squares
        variance = np.clip(kernel.variance - squares.sum(axis=1), 0.0, None) + self.noise
        farther = squares[:, squares.shape[1] // 2 :].sum(axis=1)
        result: Floats = np.max(0.5 * farther / variance, axis=1, initial=0.0)
        return result


def fit_cells(plan: Plan, depth: Depth | None, data: TrainingSet, centers: Floats, sizes: Floats) -> list[CellModel]:
    """Models of graded cells around centres (C, d), with half diagonals (C,): each with the neighbours it needs.

    All cells that take the same number of neighbours are made side by side.
    """
    models: dict[int, CellModel] = {}
    n, d, count, todo = len(data.X), data.X.shape[1], plan.count or 1, np.arange(len(centers))
    while len(todo):
        rows, Z, factors = _neighbours(plan.kernel, data, centers[todo], count)
        ends = depth is None or count >= n
        contributions = np.zeros(len(todo))
        if depth is not None and not ends:
            contributions = depth.contributions(plan.kernel, Z, factors, _corners(sizes[todo], d))
        deep_enough = contributions <= depth.excess if depth is not None else np.ones(len(todo), dtype=bool)
        ends = ends or (depth is not None and count >= depth.most)
        for i in np.flatnonzero(deep_enough | ends):
            lacking = 0.0 if depth is None or deep_enough[i] else depth.nats(float(contributions[i]))
            models[int(todo[i])] = CellModel(plan.kernel, Z[i], data.y[rows[i]], factors[i], lacking, rows[i])
        todo = todo[:0] if ends else todo[~deep_enough]
        count = 2 * count if depth is None else min(2 * count, depth.most)
    return [models[i] for i in range(len(centers))]


def contributions_of(plan: Plan, depth: Depth, data: TrainingSet, centers: Floats, sizes: Floats) -> Floats:
    """Nats (C,) that the farther half of so many neighbours contributes to graded cells; see `Depth`."""
    _, Z, factors = _neighbours(plan.kernel, data, centers, plan.count or 1)
    return depth.contributions(plan.kernel, Z, factors, _corners(sizes, data.X.shape[1]))


def _neighbours(
    kernel: Kernel, data: TrainingSet, centers: Floats, count: int
) -> tuple[Integers, Floats, list[Cholesky]]:
    """The nearest points of centres (C, d): rows (C, n), relative positions (C, n, d), factors of their covariances."""
    rows = data.nearest(centers, count)
    Z = data.X[rows] - centers[:, None]
    return rows, Z, _factors(kernel, Z, data.noise[rows])


def _corners(sizes: Floats, d: int) -> Floats:
    """Places (C, m, d) in cells with half diagonals (C,); see `places_in_cell`."""
    result: Floats = sizes[:, None, None] * places_in_cell(1.0, d)
    return result


def _factors(kernel: Kernel, Z: Floats, noise: Floats) -> list[Cholesky]:
    """Factors of the covariances of points (C, n, d) with noise (C, n)."""
    what, n = "covariance matrix of a neighbourhood", Z.shape[1]
    farthest = float(np.max(np.sum((Z / kernel.length_scales[0]) ** 2, axis=2), initial=0.0))
    if ROUNDING * n * farthest * kernel.variance > float(noise.min(initial=np.inf)):
        # Distances by products would not tell near points apart well enough.
        return [_cholesky(KernelSpace.factorise(kernel, *each, what=what)) for each in zip(Z, noise, strict=True)]
    return [_cholesky(factorise(K.T, own, what)) for K, own in zip(kernel(Z, Z), noise, strict=True)]


def _cholesky(factor: Factor) -> Cholesky:
    assert isinstance(factor, Cholesky)
    return factor


def places_in_cell(size: float, d: int) -> Floats:
    """The middle of a cell, as the origin, and a place towards each of its corners, (2^d + 1, d)."""
    corners = np.array(list(product((-0.8, 0.8), repeat=d))) * size / d**0.5
    return np.concatenate([np.zeros((1, d)), corners])
