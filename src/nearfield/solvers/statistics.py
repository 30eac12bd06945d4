"""The sums over data points from which a feature-space Gaussian process is made. They add.

Chunks, streams, threads and machines compute the same sums in another order, so they give the same model.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce
from operator import add

import numpy as np

from ..common.arrays import Array, like, namespace
from ..common.types import Floats
from .linalg import gram_of_rows


@dataclass(frozen=True, eq=False)
class Statistics:
    """Weighted sums over points with features `phi`, targets `t = (y, 1)` and weights `w`.

    The constant 1 rides along as a last target, so that the mean of `y` may be taken out, and may change, afterwards.
    Arrays are NumPy's, or tensors, which may have leading dimensions, shape (...): sums over several sets of points.
    Of `gram`, a NumPy array is in Fortran order and holds the lower triangle; the upper one is zero.
    """

    gram: Floats  # (..., D, D): `sum w phi phi'`
    cross: Floats  # (..., D, k + 1): `sum w phi t'`
    targets: Floats  # (..., k + 1, k + 1): `sum w t t'`
    log_weight: float  # or array of shape (...): `sum log w`
    n: int  # or array of shape (...): number of points

    @classmethod
    def of_weighted(cls, rows: Array, targets: Array, root: Array) -> Statistics:
        """Sum over points whose features and targets were multiplied by the square roots of their weights.

        Parameters
        ----------
        rows : array of shape (..., D, n), C order
        targets : array of shape (..., n, k + 1)
        root : array of shape (..., n)
            The square roots; zeros of a tensor stand for no points.
        """
        if isinstance(rows, np.ndarray):
            log_weight = 2.0 * float(np.log(root).sum(dtype=np.float64))
            return cls(gram_of_rows(rows), rows @ targets, targets.T @ targets, log_weight, len(root))
        xp = namespace(rows)
        positive = xp.astype(xp.where(root > 0, root, xp.ones_like(root)), xp.float64)
        log_weight, n = 2.0 * xp.sum(xp.log(positive), axis=-1), (root > 0).sum(-1)
        return cls(rows @ rows.mT, rows @ targets, targets.mT @ targets, log_weight, n)

    def __add__(self, other: Statistics) -> Statistics:
        return Statistics(
            self.gram + other.gram,
            self.cross + other.cross,
            self.targets + other.targets,
            self.log_weight + other.log_weight,
            self.n + other.n,
        )

    def mean(self) -> Array:
        """Weighted mean of `y`, (..., k)."""
        return self.targets[..., -1, :-1] / self.targets[..., -1, -1:]

    def centred(self, mean: Floats) -> Statistics:
        """The same for targets `(y - mean, 1)`, with a `mean` of shape (k,)."""
        xp = namespace(self.cross)
        shift = xp.concat([mean, like([0.0], mean)])
        last = self.targets[..., -1:, :]
        moved = shift[:, None] * last
        targets = self.targets - moved - moved.mT + shift[:, None] * last[..., -1:] * shift
        return Statistics(self.gram, self.cross - self.cross[..., -1:] * shift, targets, self.log_weight, self.n)


def accumulate(rows: Array, y: Array, weights: Array) -> Statistics:
    """Sum over one set of points.

    Parameters
    ----------
    rows : array of shape (D, n)
        Features, one per row. C order saves a copy.
    y : array of shape (n, k)
    weights : array of shape (n,)
        Inverse noise variances, positive.
    """
    xp = namespace(rows)
    root = xp.sqrt(weights)
    targets = xp.concat([xp.astype(y, rows.dtype, copy=False) * root[:, None], root[:, None]], axis=1)
    weighted = np.ascontiguousarray(rows * root) if isinstance(rows, np.ndarray) else rows * root
    return Statistics.of_weighted(weighted, targets, root)


def nothing(n_components: int, n_targets: int) -> Statistics:
    """Sums over no points, of so many features and targets."""
    D, k = n_components, n_targets
    return Statistics(np.zeros((D, D), order="F"), np.zeros((D, k + 1)), np.zeros((k + 1, k + 1)), 0.0, 0)


def total(parts: Iterable[Statistics]) -> Statistics:
    """Sum of several statistics, at least one."""
    return reduce(add, parts)
