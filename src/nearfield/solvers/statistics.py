"""The sums over data points from which a feature-space Gaussian process is made. They add.

Chunks, streams, threads and machines compute the same sums in another order, so they give the same model.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce
from operator import add

import numpy as np

from ..common.types import Floats
from .linalg import gram_of_rows


@dataclass(frozen=True, eq=False)
class Statistics:
    """Weighted sums over points with features `phi`, targets `t = (y, 1)` and weights `w`.

    The constant 1 rides along as a last target, so that the mean of `y` may be taken out, and may change, afterwards.

    Attributes
    ----------
    gram : ndarray of shape (D, D), Fortran order
        `sum w phi phi'`, lower triangle; the upper one is zero.
    cross : ndarray of shape (D, k + 1)
        `sum w phi t'`.
    targets : ndarray of shape (k + 1, k + 1)
        `sum w t t'`.
    log_weight : float
        `sum log w`.
    n : int
        Number of points.
    """

    gram: Floats
    cross: Floats
    targets: Floats
    log_weight: float
    n: int

    def __add__(self, other: Statistics) -> Statistics:
        return Statistics(
            self.gram + other.gram,
            self.cross + other.cross,
            self.targets + other.targets,
            self.log_weight + other.log_weight,
            self.n + other.n,
        )

    def centered(self, mean: Floats) -> tuple[Floats, Floats]:
        """`sum w phi (y - mean)'`, shape (D, k), and `sum w (y - mean)^2`, shape (k,)."""
        cross = self.cross[:, :-1] - self.cross[:, -1:] * mean
        squares = np.diagonal(self.targets)[:-1] - 2 * mean * self.targets[-1, :-1] + mean**2 * self.targets[-1, -1]
        return cross, np.maximum(squares, 0.0)


def accumulate(rows: Floats, y: Floats, weights: Floats) -> Statistics:
    """Sum over one set of points.

    Parameters
    ----------
    rows : ndarray of shape (D, n)
        Features, one a row. C order saves a copy.
    y : ndarray of shape (n, k)
    weights : ndarray of shape (n,)
        Inverse noise variances, positive.
    """
    root = np.sqrt(weights)
    weighted = np.ascontiguousarray(rows * root)
    targets = np.empty((y.shape[0], y.shape[1] + 1), dtype=rows.dtype)
    targets[:, :-1] = y * root[:, None]
    targets[:, -1] = root
    return Statistics(
        gram_of_rows(weighted), weighted @ targets, targets.T @ targets, float(np.sum(np.log(weights))), len(y)
    )


def nothing(n_components: int, n_targets: int) -> Statistics:
    """Sums over no points, of so many features and targets."""
    D, k = n_components, n_targets
    return Statistics(np.zeros((D, D), order="F"), np.zeros((D, k + 1)), np.zeros((k + 1, k + 1)), 0.0, 0)


def total(parts: Iterable[Statistics]) -> Statistics:
    """Sum of several statistics, at least one."""
    return reduce(add, parts)
