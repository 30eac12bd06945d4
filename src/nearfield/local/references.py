"""Answers of models of neighbourhoods: of the exact process, which candidates are held against, and of candidates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeAlias

import numpy as np
from scipy.linalg import LinAlgError

from ..common.types import Floats, Integers
from ..kernels import Kernel
from ..solvers.factors import Cholesky, Factor, factorise
from ..solvers.kernel_space import KernelSpace
from .distance import Reference
from .ensemble import groups_in_cache, runs_of
from .model import expanded, from_statistics, sums_of_each
from .plan import Plan
from .quick_whitening import fill, serves
from .thinning import NeighbourhoodSample

ROUNDING_SHARE = 0.03  # of the tolerance, that rounding in single precision may take up
PER_SQUARE = 1e-3  # divergence over the square of what rounding adds to the matrix, over the noise: 5e-4 in trials

Draw: TypeAlias = Callable[[int], Floats]
"""From a number of rows to standard normal numbers, of which each column makes a draw of the process."""


def nothing_drawn(n: int) -> Floats:
    """A `Draw` without columns."""
    return np.empty((n, 0))


SolvedReference: TypeAlias = tuple[Reference, Floats]
"""Answers at some places, and draws of the process (n, s) at the data, which are the last of the targets."""

Solver: TypeAlias = Callable[[NeighbourhoodSample, Floats, Draw], SolvedReference]
"""From a neighbourhood and places (m, d) to answers that can be trusted."""

LARGEST_RATIO = 0.8
"""Of what two successive shells of data take off the variance: a larger one tells nothing of those beyond, and what
they take off is counted as four times that of the last."""

LARGEST_EXCESS = 0.5
"""Share of the variance that data beyond a neighbourhood may take off, as far as it is believed."""


def exactly(
    kernel: Kernel, sample: NeighbourhoodSample, places: Floats, draw: Draw, tolerance: float, complete: bool = False
) -> SolvedReference:
    """The exact process of a neighbourhood of the first place, which is `complete` where there are no data beyond it.

    Positions are relative to that place. The nearest points are those that correlate most with it.
    """
    order = np.argsort(-kernel(sample.X, np.zeros((1, sample.X.shape[1])))[:, 0], kind="stable")
    X, y, noise = sample.X[order], sample.y[order], sample.noise[order]
    ((half, targets),), (factor,) = whitened(kernel, X[None], y[None], noise[None], places[None], tolerance)
    normals, squares = draw(len(X)), half**2
    variance = (kernel.variance - np.sum(squares, axis=1)).clip(min=0.0)
    drawn = np.empty_like(normals)
    drawn[order] = factor.times(normals)
    excess = np.zeros(len(places))
    if not complete and variance[0] > 0:  # the shells are around the first place, and others are near it
        excess = variance * min(beyond(squares[0]) / variance[0], LARGEST_EXCESS)
    return Reference(half @ np.concatenate([targets, normals.T]).T, variance, excess), drawn


def beyond(squares: Floats) -> float:
    """What data beyond a neighbourhood would take off the variance in its middle, about.

    Parameters
    ----------
    squares : ndarray of shape (n,)
        What each point of the neighbourhood takes off, given the nearer ones, the nearest first.

    The farther half of the points and the quarter before it are shells, each of which has twice as many points within
    it as the one before. What the shells take off falls from one to the next, at least as fast beyond as from the first
    to the second, so that a geometric series bounds what is left.
    """
    n = len(squares)
    before, last = float(squares[n // 4 : n // 2].sum()), float(squares[n // 2 :].sum())
    ratio = LARGEST_RATIO if last >= LARGEST_RATIO * before else last / before
    return last * ratio / (1 - ratio)


@dataclass(frozen=True, eq=False)
class WholeProcess:
    """The exact process of all data, any of whose rows may be set aside: the reference in many columns.

    Attributes
    ----------
    kernel : Kernel
    X : ndarray of shape (n, d)
    y : ndarray of shape (n, k + s)
        Targets, and draws of the process.
    noise : ndarray of shape (n,)
    factor : Factor
        Of the covariance matrix of `y`.
    n_drawn : int
        s.
    """

    kernel: Kernel
    X: Floats
    y: Floats
    noise: Floats
    factor: Factor
    n_drawn: int = 0

    @classmethod
    def of(
        cls, kernel: Kernel, X: Floats, y: Floats, noise: Floats, rng: np.random.RandomState, n_drawn: int = 0
    ) -> WholeProcess:
        """From points (n, d), targets (n, k) and noise variances (n,)."""
        factor = KernelSpace.factorise(kernel, X, noise)
        if n_drawn and isinstance(factor, Cholesky):
            y = np.concatenate([y, factor.times(rng.standard_normal((len(X), n_drawn)))], axis=1)
        return cls(kernel, X, y, noise, factor, n_drawn if isinstance(factor, Cholesky) else 0)

    @cached_property
    def _solved(self) -> Floats:
        solved: Floats = self.factor.solve(self.y)
        return solved

    def left_out(self, rows: Integers) -> Reference:
        """The process at some rows (m,), given all others: from the block of the inverse matrix that is theirs."""
        columns = np.zeros((len(self.X), len(rows)))
        columns[rows, np.arange(len(rows))] = 1.0
        block = np.linalg.inv(self.factor.solve(columns)[rows])
        mean = self.y[rows] - block @ self._solved[rows]
        variance = np.clip(np.diagonal(block) - self.noise[rows], 0.0, None)
        return Reference(mean, variance, np.zeros(len(rows)))

    def at(self, places: Floats) -> Reference:
        """The process at places (m, d)."""
        cross = self.kernel(self.X, places)
        variance = self.kernel.variance - np.sum(cross * self.factor.solve(cross), axis=0)
        return Reference(cross.T @ self._solved, np.clip(variance, 0.0, None), np.zeros(len(places)))


def whitened(
    kernel: Kernel, X: Floats, y: Floats, noise: Floats, places: Floats, tolerance: float
) -> tuple[list[tuple[Floats, Floats]], list[Cholesky]]:
    """Covariances with places (C, m, d) and targets (C, n, k) of points (C, n, d), whitened: (m, n) and (k, n) each.

    Also the factors by which they are. In single precision where that does for the tolerance, and for the matrices.
    """
    if noise.size > 0 and serves(kernel, noise) and _rounding(kernel, noise) <= ROUNDING_SHARE * tolerance:
        with suppress(LinAlgError):
            return _whitened(kernel, X, y, noise, places, single=True)
    return _whitened(kernel, X, y, noise, places, single=False)


def _rounding(kernel: Kernel, noise: Floats) -> float:
    """About the divergence that rounding in single precision makes, for noise variances (C, n)."""
    raised = float(np.finfo(np.float32).eps) * noise.shape[1] * kernel.variance / float(noise.min())
    return float(PER_SQUARE * raised**2)


def _whitened(
    kernel: Kernel, X: Floats, y: Floats, noise: Floats, places: Floats, single: bool
) -> tuple[list[tuple[Floats, Floats]], list[Cholesky]]:
    dtype, m = np.float32 if single else np.float64, places.shape[1]
    Z, at = X.astype(dtype), places.astype(dtype)
    K = np.empty((*noise.shape, noise.shape[1] if single else 0), dtype=dtype)
    if single:
        fill(K, kernel, Z)
    sides = np.concatenate([kernel(Z, at), y.astype(dtype)], axis=2).transpose(0, 2, 1).copy()
    factors = []
    for i, side in enumerate(sides):
        factor = factorise(K[i] if single else kernel(Z[i], Z[i]), noise[i], "covariance matrix around a probe")
        assert isinstance(factor, Cholesky)
        factor.whiten(side.T, overwrite=True)
        factors.append(factor)
    return [(side[:m], side[m:]) for side in sides.astype(np.float64)], factors


def answers_of_each(
    plan: Plan, asked: Sequence[tuple[NeighbourhoodSample, Floats]], tolerance: float
) -> list[tuple[Floats, Floats]]:
    """Means (m, k) and variances (m,) of the models of some neighbourhoods, each at places (m, d) around its origin.

    Rows may be so few that they would be solved in kernel space, which the points they stand for will not be.
    """
    sizes = [len(sample.X) for sample, _ in asked]
    in_kernel_space = [plan.takes_kernel_space(int(sample.n_points)) for sample, _ in asked]
    together = replace(plan, either_side=False, count=None)
    answers: list[tuple[Floats, Floats]] = []
    for group in groups_in_cache(plan, sizes, in_kernel_space):
        samples, places = zip(*asked[group], strict=True)
        if in_kernel_space[group.start]:
            exact, _ = exactly(plan.kernel, samples[0], places[0], nothing_drawn, tolerance)
            answers.append((exact.mean, exact.variance))
            continue
        X, y, noise, counts = (
            np.concatenate([getattr(sample, name) for sample in samples]) for name in ("X", "y", "noise", "counts")
        )
        sums = sums_of_each(together, X, y, noise, runs_of(sizes[group]), counts)
        Z, owns = np.concatenate(places), runs_of([len(at) for at in places])
        assert plan.features is not None
        rows, mean, variance = plan.features.rows(Z), np.empty((len(Z), y.shape[1])), np.empty(len(Z))
        for each, own in zip(sums, owns, strict=True):
            model = from_statistics(together, expanded(together, each))
            mean[own], variance[own] = model.mean_and_variance(rows[:, own], overwrite=True)
        variance = together.total_variance(variance, Z)
        answers += [(mean[own], variance[own]) for own in owns]
    return answers
