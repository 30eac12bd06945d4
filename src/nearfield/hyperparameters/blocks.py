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
from .likelihood import packed_distances

LARGEST_SINGLE_BLOCK = 1000  # points whose exact likelihood is still cheap
BLOCK_SIZE = 256
NEAR_SHARE = 0.95


@dataclass(frozen=True, eq=False)
class Block:
    """Points whose exact likelihood is one term of the objective.

    Attributes
    ----------
    X : ndarray of shape (n, d)
    y : ndarray of shape (n, k)
    noise_factors, squared_distances : ndarray or None
        See `likelihood.kernel_log_likelihood`.
    """

    X: Floats
    y: Floats
    noise_factors: Floats | None
    squared_distances: Floats | None


def make_blocks(
    X: Floats, y: Floats, sample_weight: Floats | None, n_blocks: int, ard: bool, rng: np.random.RandomState
) -> list[Block]:
    """Blocks of the composite likelihood; all data as a single block where they are few."""
    n = len(X)
    if n <= LARGEST_SINGLE_BLOCK:
        groups = [np.arange(n)]
    else:
        # With a length scale per column, neighbours are those in columns of unit spread.
        scale = X.std(axis=0) if ard else np.ones(X.shape[1])
        scaled = X / np.where(scale > 0, scale, 1.0)
        tree = cKDTree(scaled)
        groups = near_and_far(
            n, n_blocks, rng, lambda seeds, k: tree.query(scaled[seeds], k=k)[1], lambda chosen: scaled[chosen]
        )
    factors = None if sample_weight is None else 1.0 / sample_weight
    return [
        Block(
            X[group],
            y[group],
            None if factors is None else factors[group],
            None if ard else packed_distances(X[group]),
        )
        for group in groups
    ]


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
    near = int(NEAR_SHARE * BLOCK_SIZE)
    far = BLOCK_SIZE - near
    seeds = rng.choice(n, n_blocks, replace=False)
    # Beyond the nearest, ranks are log-uniform. Exact ranks would need all distances; a random subset has them in
    # good approximation.
    pool = rng.choice(n, min(n, 5000), replace=False)
    candidates = points(pool)
    groups = []
    for seed, neighbours in zip(points(seeds), nearest_of(seeds, near), strict=True):
        distances = np.sum((candidates - seed) ** 2, axis=1)
        order = pool[np.argsort(distances)]
        order = order[~np.isin(order, neighbours)]
        edges = np.exp(np.linspace(0.0, np.log(len(order)), far + 1))
        ranks = np.unique((edges[:-1] + rng.random_sample(far) * np.diff(edges)).astype(np.int64).clip(1, len(order)))
        groups.append(np.concatenate([neighbours, order[ranks - 1]]))
    return groups
