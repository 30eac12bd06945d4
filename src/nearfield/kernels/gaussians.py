r"""The kernel: a sum of Gaussians, of which one is the plain case.

.. math:: k(x, x') = \sum_j v_j \exp\left(-\tfrac12 \sum_c (x_c - x'_c)^2 / l_{jc}^2\right)
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from typing import Any

import array_api_compat
import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.spatial.distance import cdist

from ..common.arrays import Array, like, namespace

COINCIDE = 1.25  # length scales closer than this factor are one
VANISH = 1e-3  # share of all variance below which a component says nothing


@dataclass(frozen=True, eq=False)
class Kernel:
    """Immutable sum of `J` Gaussians.

    Attributes
    ----------
    length_scales : ndarray of shape (J, 1) or (J, d)
        One row per component; one column, or one per input column.
    variances : ndarray of shape (J,)
    """

    length_scales: NDArray[np.float64]
    variances: NDArray[np.float64]

    @classmethod
    def gaussian(cls, length_scale: ArrayLike, variance: float = 1.0) -> Kernel:
        """One Gaussian with one length scale, or one per column."""
        scales = np.atleast_1d(np.asarray(length_scale, dtype=np.float64))
        return cls(scales[None, :], np.array([variance], dtype=np.float64))

    @property
    def variance(self) -> float:
        """Kernel value at distance zero."""
        return float(self.variances.sum())

    @property
    def n_scales(self) -> int:
        """Number of Gaussians `J`."""
        return len(self.variances)

    def parameters(self) -> dict[str, Any]:
        """Keyword arguments `length_scale`, `signal_variance` and `n_scales` of an estimator with this kernel."""
        return {"length_scale": self.length_scales, "signal_variance": self.variances, "n_scales": self.n_scales}

    def plain(self) -> tuple[Any, Any]:
        """Length scale and signal variance as users see them: numbers where there is one, else arrays.

        Length scales have shape () or (d,) for one Gaussian, (J,) or (J, d) for several; variances () or (J,).
        """
        scales = self.length_scales[:, 0] if self.length_scales.shape[1] == 1 else self.length_scales
        if self.n_scales > 1:
            return scales, self.variances
        return (float(scales[0]) if scales.ndim == 1 else scales[0]), float(self.variances[0])

    def simplified(self, noise_variance: float) -> Kernel:
        """The same without components that vanish, and with those that coincide made one; shortest scales first."""
        order = np.argsort(np.exp(np.log(self.length_scales).mean(axis=1)))
        scales, variances = self.length_scales[order], self.variances[order]
        kept: list[int] = []
        merged = variances.copy()
        for j in range(len(merged)):
            if kept and np.all(np.abs(np.log(scales[j] / scales[kept[-1]])) < np.log(COINCIDE)):
                merged[kept[-1]] += merged[j]
            elif merged[j] > VANISH * (variances.sum() + noise_variance) or (j == len(merged) - 1 and not kept):
                kept.append(j)
        return Kernel(scales[kept], merged[kept])

    def components(self) -> Iterator[tuple[NDArray[np.float64], float]]:
        """Length scales and variance of each Gaussian."""
        for scales, variance in zip(self.length_scales, self.variances, strict=True):
            yield scales, float(variance)

    def __call__(self, X: Array, Y: Array) -> Array:
        """Covariance matrix.

        Parameters
        ----------
        X : array of shape (..., n, d)
        Y : array of shape (..., m, d)

        Returns
        -------
        K : array of shape (..., n, m)
        """
        if self.length_scales.shape[1] > 1:
            parts = (
                _gaussian(squared_distances(X / like(scales, X), Y / like(scales, Y)), 1.0, variance)
                for scales, variance in self.components()
            )
            return reduce(operator.iadd, parts)
        # One length scale for all columns: the distances serve every component, the last in their own memory.
        unit = float(self.length_scales[-1, 0])
        distances = squared_distances(X / unit, Y / unit)
        last = self.n_scales - 1
        parts = (
            _gaussian(distances if j == last else +distances, float(scales[0]) / unit, variance)
            for j, (scales, variance) in enumerate(self.components())
        )
        return reduce(operator.iadd, parts)


def _gaussian(squared_distances: Array, length_scale: float, variance: float) -> Array:
    """Kernel of one Gaussian; NumPy arrays are overwritten, since these matrices are what fills the memory."""
    K = squared_distances
    if isinstance(K, np.ndarray):
        K *= -0.5 / length_scale**2
        np.exp(K, out=K)
        K *= variance
        return K
    return variance * namespace(K).exp((-0.5 / length_scale**2) * K)


def squared_distances(X: Array, Y: Array) -> Array:
    """Squared Euclidean distances `(..., n, m)` between rows of `X` (..., n, d) and `Y` (..., m, d)."""
    if array_api_compat.is_numpy_array(X) and X.ndim == 2 and X.dtype == np.float64:
        return cdist(X, Y, "sqeuclidean")
    xp = namespace(X, Y)
    # Squares are expanded for speed; around a common centre, so that nearby points keep their digits.
    center = xp.mean(Y, axis=-2, keepdims=True)
    X, Y = X - center, Y - center
    squares = xp.sum(X * X, axis=-1)[..., :, None] + xp.sum(Y * Y, axis=-1)[..., None, :]
    distances = squares - 2 * (X @ xp.matrix_transpose(Y))
    return xp.where(distances > 0, distances, xp.zeros_like(distances))
