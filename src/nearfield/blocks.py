"""Blocks of points whose exact likelihoods add up to the composite likelihood.

A block is a point with its nearest neighbours and a few points from farther and farther away. A random subset of the
same size would blur short length scales; the neighbours keep them, and the far points keep the long ones and the
variance. Few of these are enough, also for several scales, and more of them do harm: real fields are rougher than
their model, and the likelihood of far points then lengthens the scales beyond what predicts best nearby.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from .likelihood import packed_distances

Floats = NDArray[Any]

MAX_EXACT = 1000
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
    if n <= MAX_EXACT:
        groups = [np.arange(n)]
    else:
        # With a length scale per column, neighbours are those in columns of unit spread.
        scale = X.std(axis=0) if ard else np.ones(X.shape[1])
        groups = near_and_far(X / np.where(scale > 0, scale, 1.0), min(n_blocks, -(-4 * n // BLOCK_SIZE)), rng)
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


def near_and_far(X: Floats, n_blocks: int, rng: np.random.RandomState) -> list[NDArray[np.int64]]:
    """Choose, around random points, the nearest neighbours and others from shells of ever larger rank, by index."""
    n = len(X)
    near = int(NEAR_SHARE * BLOCK_SIZE)
    far = BLOCK_SIZE - near
    tree = cKDTree(X)
    seeds = rng.choice(n, n_blocks, replace=False)
    # Beyond the nearest, ranks are log-uniform. Exact ranks would need all distances; a random subset has them in
    # good approximation.
    pool = rng.choice(n, min(n, 5000), replace=False)
    nearest = tree.query(X[seeds], k=near)[1]
    groups = []
    for seed, neighbours in zip(seeds, nearest, strict=True):
        distances = np.sum((X[pool] - X[seed]) ** 2, axis=1)
        order = pool[np.argsort(distances)]
        order = order[~np.isin(order, neighbours)]
        edges = np.exp(np.linspace(0.0, np.log(len(order)), far + 1))
        ranks = np.unique((edges[:-1] + rng.random_sample(far) * np.diff(edges)).astype(np.int64).clip(1, len(order)))
        groups.append(np.concatenate([neighbours, order[ranks - 1]]))
    return groups
