"""Blocks of points whose exact likelihoods add up to the composite likelihood.

A block is a point with its nearest neighbours and a few points from farther and farther away. A random subset of the
same size would blur short length scales; the neighbours keep them, and the far points keep the long ones and the
variance. Few of these are enough, also for several scales, and more of them do harm: real fields are rougher than
their model, and the likelihood of far points then lengthens the scales beyond what predicts best nearby.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.spatial import cKDTree

from ..common.types import Floats, Integers
from ..kernels import Kernel
from .likelihood import kernel_log_likelihood, packed_distances
from .space import Extents, spreads_of

LARGEST_SINGLE_BLOCK = 1000  # points whose exact likelihood is still cheap
BLOCK_SIZE = 256
NEAR = int(0.95 * BLOCK_SIZE)  # points of a block that are nearest neighbours,
FAR = BLOCK_SIZE - NEAR  # and others
MOST_DRIFT = 0.25  # columns of a drift per point of a block


@dataclass(frozen=True, eq=False)
class Block:
    """Points whose exact likelihood is one term of the objective."""

    X: Floats  # (n, d)
    y: Floats  # (n, k)
    noise_factors: Floats | None  # for this and the next see `likelihood.kernel_log_likelihood`
    squared_distances: Floats | None
    drift: Floats | None = None  # (n, p): orthonormal

    @classmethod
    def of(cls, X: Floats, y: Floats, weights: Floats | None, ard: bool, drift: Floats | None = None) -> Block:
        """Block of points with sample weights (n,); with `ard`, their distances are different ones at each step.

        Of drift columns (n, p) those combinations count that are not zero here, unless they leave too few points: then
        targets are taken as they are.
        """
        distances = None if ard else packed_distances(X)
        return cls(X, y, None if weights is None else 1.0 / weights, distances, _span(drift))

    def log_likelihood(self, kernel: Kernel, noise_variance: float) -> tuple[float, Floats]:
        """See `likelihood.kernel_log_likelihood`."""
        given = (self.noise_factors, self.squared_distances, self.drift)
        return kernel_log_likelihood(kernel, noise_variance, self.X, self.y, *given)


def _span(columns: Floats | None) -> Floats | None:
    """Orthonormal columns that span the same; None where there are none, or too many for the points."""
    if columns is None or columns.shape[1] == 0:
        return None
    left, sizes, _ = np.linalg.svd(columns / np.maximum(np.linalg.norm(columns, axis=0), 1e-300), full_matrices=False)
    span: Floats = left[:, sizes > 1e-10 * sizes[0]]
    return span if 0 < span.shape[1] <= MOST_DRIFT * len(columns) else None


Likelihood = Callable[[list[Block], Kernel, float], tuple[float, Floats]]
"""Sum of the log likelihoods of some blocks at a kernel and a noise variance, and its gradient."""


@dataclass(frozen=True, eq=False)
class LearningData:
    """What hyperparameters are learnt from: all data, or a sample of them and blocks of all."""

    X: Floats  # (n, d)
    y: Floats  # (n, k): centred targets
    weights: Floats | None = None  # (n,): the noise variance of point i is `noise_variance / weights[i]`
    blocks: list[Block] | None = None  # blocks to learn from; None makes them of `X` and `y`
    extents: Extents | None = None  # lengths of the data, where they are known already
    likelihood: Likelihood | None = None  # evaluates that of several blocks at once, elsewhere than here
    drift: Floats | None = None  # (n, p): columns with unknown coefficients; `y` are residuals of least squares

    def make_blocks(self, n_blocks: int, ard: bool, rng: np.random.RandomState, tied: int = 0) -> list[Block]:
        """The blocks there are, or else so many new ones."""
        return self.blocks or make_blocks(self.X, self.y, self.weights, n_blocks, ard, rng, tied, self.drift)


def make_blocks(
    X: Floats,
    y: Floats,
    weights: Floats | None,
    n_blocks: int,
    ard: bool,
    rng: np.random.RandomState,
    tied: int = 0,
    drift: Floats | None = None,
) -> list[Block]:
    """Blocks of the composite likelihood; all data as a single block where they are few."""
    n = len(X)
    if n <= LARGEST_SINGLE_BLOCK:
        groups = [np.arange(n)]
    else:
        # With a length scale per column, neighbours are those in columns of unit spread.
        scale = spreads_of(X, tied) if ard else np.ones(X.shape[1])
        scaled = X / np.where(scale > 0, scale, 1.0)
        tree = cKDTree(scaled)
        groups = near_and_far(
            n, n_blocks, rng, lambda seeds, k: tree.query(scaled[seeds], k=k)[1], lambda chosen: scaled[chosen]
        )
    further = [[None if values is None else values[g] for values in (weights, drift)] for g in groups]
    return [Block.of(X[g], y[g], w, ard, F) for g, (w, F) in zip(groups, further, strict=True)]


def near_and_far(
    n: int,
    n_blocks: int,
    rng: np.random.RandomState,
    nearest_of: Callable[[Integers, int], Integers],
    points: Callable[[Integers], Floats],
) -> list[Integers]:
    """Choose, around random points, the nearest neighbours and others from shells of ever larger rank, by index.

    Parameters
    ----------
    n : int
        Number of points.
    n_blocks : int
        Number of blocks; fewer are made of few points.
    nearest_of : callable
        From indices (m,) and a number `k` to the indices (m, k) of the nearest points, wherever the data are.
    points : callable
        From indices (m,) to points (m, d).
    """
    n_blocks = min(n_blocks, -(-4 * n // BLOCK_SIZE))
    seeds = rng.choice(n, n_blocks, replace=False)
    # Exact ranks would need all distances; a random subset has them in good approximation.
    pool = rng.choice(n, min(n, 5000), replace=False)
    candidates = points(pool)
    groups = []
    for seed, neighbours in zip(points(seeds), nearest_of(seeds, NEAR), strict=True):
        distances = np.sum((candidates - seed) ** 2, axis=1)
        order = pool[np.argsort(distances)]
        order = order[~np.isin(order, neighbours)]
        groups.append(np.concatenate([neighbours, order[far_ranks(len(order), rng)]]))
    return groups


def far_ranks(n: int, rng: np.random.RandomState) -> Integers:
    """Which of `n` points, in the order of their distance, a block takes besides the nearest: log-uniform ranks."""
    edges = np.exp(np.linspace(0.0, np.log(n), FAR + 1))
    ranks = (edges[:-1] + rng.random_sample(FAR) * np.diff(edges)).astype(np.int64)
    return np.unique(ranks.clip(1, n)) - 1
