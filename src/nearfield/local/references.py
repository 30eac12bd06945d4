"""Answers of models of neighbourhoods: of the exact process, which candidates are held against, and of candidates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TypeAlias

import numpy as np
from scipy.linalg import LinAlgError

from ..common.types import Floats
from ..kernels import Kernel
from ..solvers.factors import Cholesky, factorise
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


Reference: TypeAlias = Callable[[NeighbourhoodSample, Floats, Draw], tuple[Floats, Floats, Floats]]
"""From a neighbourhood and places (m, d) to what can be trusted.

Means (m, k + s) and variances (m,) at the places, and draws of the process (n, s), which are the last of the targets.
"""


def exactly(
    kernel: Kernel, sample: NeighbourhoodSample, places: Floats, draw: Draw, tolerance: float
) -> tuple[Floats, Floats, Floats]:
    """The exact process as a `Reference`."""
    given = (sample.X[None], sample.y[None], sample.noise[None], places[None])
    ((half, targets),), (factor,) = whitened(kernel, *given, tolerance)
    normals = draw(len(sample.X))
    variance = (kernel.variance - np.sum(half**2, axis=1)).clip(min=0.0)
    return half @ np.concatenate([targets, normals.T]).T, variance, factor.times(normals)


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
            answers.append(exactly(plan.kernel, samples[0], places[0], nothing_drawn, tolerance)[:2])
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
