r"""The covariance of the exact process at many places, and the variances of weighted sums over them.

.. math:: K_{**} - C^\top M^{-1} C, \qquad C = k(X, X_*), \quad M = K + S

for all places together, or with `C` times the weights of a sum: a right-hand side per sum, however many places it has.
Few data are solved by a factor, many by iteration (see `iteration`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.spatial import cKDTree

from ..common import memory
from ..common.budget import Progress
from ..common.threads import n_threads
from ..common.types import Floats, Integers
from ..features.domain import DomainFeatures
from ..kernels import Kernel
from ..kernels.families import FINE
from ..solvers.factors import Factor
from ..solvers.kernel_products import KernelProduct, NearSums
from ..solvers.kernel_space import KernelSpace
from .global_part import rows_of, split
from .iteration import MOST_PAIRS, System
from .neighbourhoods import TrainingSet

DENSE_UP_TO = 4000  # points, that are solved by a factor
COLUMNS_AT_ONCE = 64  # that are solved together
RESIDUAL, STILL_GOOD = 1e-8, 1e-6  # relative, at which iterations end, and at which rounding may end them
LACK = 1e-12  # of the variance, that features of the long scales may lack
ENOUGH = 8.0  # length scales, beyond which data say nothing of a place
CUTOFF = 1e-12  # of the variance, below which the kernel of two places is left out


@dataclass(frozen=True, eq=False)
class Conditioning:
    """What conditions a Gaussian process on data: the data, and how to solve with their covariance matrix.

    Attributes
    ----------
    kernel : Kernel
        Of the short scales, or all.
    features : tuple of DomainFeatures
        Long scales; there may be none.
    data : TrainingSet
    solve : callable
        Right-hand sides (n, r) to solutions (n, r). It raises OutOfReachError where iterations do not converge.
    product : callable or None
        The matrix times solutions; None where these are exact.
    """

    kernel: Kernel
    features: tuple[DomainFeatures, ...]
    data: TrainingSet
    solve: Callable[[Floats], Floats]
    product: Callable[[Floats], Floats] | None

    @classmethod
    def near(
        cls, kernel: Kernel, data: TrainingSet, places: Floats, n_jobs: int | None, progress: Progress | None
    ) -> Conditioning:
        """On the data that matter to places (m, d).

        Raises
        ------
        OutOfReachError
            Where the kernel reaches across too many pairs of points.
        """
        if len(data.X) <= DENSE_UP_TO:
            return cls.dense(kernel, data)
        kernel = kernel.expanded(FINE)
        short, features = split(kernel, data.X, LACK)
        if not features:
            unit = kernel.length_scales.max(axis=0)
            tree = cKDTree(places / unit)
            distances, _ = tree.query(data.X / unit, distance_upper_bound=ENOUGH, workers=n_threads(n_jobs))
            rows = np.flatnonzero(np.isfinite(distances))
            data = TrainingSet(data.X[rows], data.y[rows], data.noise[rows])
            if len(rows) <= DENSE_UP_TO:
                return cls.dense(kernel, data)
        rng, n_sides = np.random.RandomState(0), COLUMNS_AT_ONCE
        system = System.of(short, features, data.X, data.noise, rng, n_jobs, MOST_PAIRS, n_sides=n_sides)

        def solve(B: Floats) -> Floats:
            runs = memory.batches(B.shape[1], COLUMNS_AT_ONCE)
            return np.concatenate([system.solve(B[:, run], RESIDUAL, progress, STILL_GOOD).x for run in runs], axis=1)

        return cls(short, features, data, solve, system.product)

    @classmethod
    def dense(cls, kernel: Kernel, data: TrainingSet, factor: Factor | None = None) -> Conditioning:
        """By a factor of the matrix."""
        factor = factor or KernelSpace.factorise(kernel, data.X, data.noise)
        return cls(kernel, (), data, factor.solve, None)

    def rows(self, places: Floats, n_jobs: int | None) -> Floats:
        """Features of the long scales (m, D) at places (m, d)."""
        return rows_of(self.features, places, n_jobs) if self.features else np.empty((len(places), 0))


def covariance(given: Conditioning, places: Floats, n_jobs: int | None) -> Floats:
    """Covariance matrix (m, m) of the process at places (m, d): positive semidefinite up to rounding.

    With weights that iterations have left a little off, it is that of the errors of a mean by these weights.
    """
    n, m = len(given.data.X), len(places)
    memory.require(
        8.0 * (3.0 * n * m + 4.0 * m * m),
        f"The covariance matrix of {m} places, given {n} samples,",
        "Fewer places need less; return_std=True and sample_y take any number of them.",
    )
    own, rows = given.rows(given.data.X, n_jobs), given.rows(places, n_jobs)
    prior = given.kernel(places, places) + rows @ rows.T
    cross = given.kernel(given.data.X, places) + own @ rows.T
    weights = given.solve(cross)
    explained = cross.T @ weights
    explained += explained.T
    if given.product is None:
        explained *= 0.5
    else:
        for run in memory.batches(m, COLUMNS_AT_ONCE):
            explained[:, run] -= weights.T @ given.product(weights[:, run])
        explained = 0.5 * (explained + explained.T)
    result: Floats = prior - explained
    return result


def variances_of_sums(
    given: Conditioning, places: Floats, labels: Integers, weights: Floats, n_sums: int, n_jobs: int | None
) -> Floats:
    """Variances (G,) of weighted sums of the process over places (m, d).

    `labels` (m,) say which sum a place belongs to, from 0 to `n_sums` - 1, and `weights` (m,) how much it counts.

    Raises
    ------
    OutOfReachError
        Where the kernel reaches across too many pairs of places, or iterations do not converge.
    """
    X = given.data.X
    memory.require(
        24.0 * len(X) * n_sums, f"The covariance of {n_sums} sums with {len(X)} samples", "Take fewer groups at a time."
    )
    order = np.argsort(labels, kind="stable")
    bounds = np.searchsorted(labels[order], np.arange(n_sums + 1))
    cross, prior = np.zeros((len(X), n_sums)), np.zeros(n_sums)
    long = np.zeros((given.rows(places[:1], n_jobs).shape[1], n_sums))
    for g in range(n_sums):
        own = order[bounds[g] : bounds[g + 1]]
        short = KernelProduct(given.kernel, places[own], cutoff=CUTOFF, n_jobs=n_jobs, keep=False, max_pairs=MOST_PAIRS)
        a = weights[own, None]
        prior[g] = float(np.sum(a * short.product(a)))
        sums = NearSums.of(given.kernel, places[own], a, cutoff=CUTOFF, n_jobs=n_jobs)
        cross[:, g] = sums(X)[:, 0]
        for chunk in memory.batches(len(own), 1 << 14):
            long[:, g] += given.rows(places[own[chunk]], n_jobs).T @ a[chunk, 0]
    prior += np.sum(long * long, axis=0)
    for chunk in memory.batches(len(X), 1 << 14):
        cross[chunk] += given.rows(X[chunk], n_jobs) @ long
    explained = np.sum(cross * given.solve(cross), axis=0)
    result: Floats = np.maximum(prior - explained, 0.0)
    return result
