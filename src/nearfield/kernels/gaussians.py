r"""The kernel: a sum of Gaussians, of which one is the plain case, or of kernels of another family.

.. math:: k(x, x') = \sum_j v_j \, c\left(\sum_c (x_c - x'_c)^2 / l_{jc}^2\right), \qquad c(s) = e^{-s / 2}
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache, reduce
from typing import Any

import array_api_compat
import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.spatial.distance import cdist

from ..common.arrays import Array, like, namespace
from .expansions import matern_mixture, rational_quadratic_mixture
from .families import ACCURACY, ALPHA, FAMILIES

COINCIDE = 1.25  # length scales closer than this factor are one
FEW_COLUMNS = 3  # in which differences are squared as fast as they are expanded, and keep their digits everywhere
VANISH = 1e-3  # share of all variance below which a component says nothing


@dataclass(frozen=True, eq=False)
class Kernel:
    """Immutable sum of `J` Gaussians, or kernels of another family.

    Attributes
    ----------
    length_scales : ndarray of shape (J, 1) or (J, d)
        One row per component; one column, or one per input column.
    variances : ndarray of shape (J,)
    family : str
        Of all components; see `families`.
    """

    length_scales: NDArray[np.float64]
    variances: NDArray[np.float64]
    family: str = "gaussian"

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
        """Number of components `J`."""
        return len(self.variances)

    def parameters(self) -> dict[str, Any]:
        """Keyword arguments of an estimator with this kernel."""
        return {
            "length_scale": self.length_scales,
            "signal_variance": self.variances,
            "n_scales": self.n_scales,
            "kernel": self.family,
        }

    def expanded(self, accuracy: float = ACCURACY) -> Kernel:
        """The same as a sum of Gaussians, to a share `accuracy` of the variance; shortest length scales first."""
        if self.family == "gaussian":
            return self
        ratios, shares = _expansion(self.family, accuracy)
        scales = np.concatenate([scales * ratios[:, None] for scales in self.length_scales])
        variances = np.concatenate([variance * shares for variance in self.variances])
        order = np.argsort(np.log(scales).mean(axis=1), kind="stable")
        return Kernel(scales[order], variances[order])

    def plain(self) -> tuple[Any, Any]:
        """Length scale and signal variance as users see them: numbers where there is one, else arrays.

        Length scales have shape () or (d,) for one Gaussian, (J,) or (J, d) for several; variances () or (J,).
        """
        scales = self.length_scales[:, 0] if self.length_scales.shape[1] == 1 else self.length_scales
        if self.n_scales > 1:
            return scales, self.variances
        return (float(scales[0]) if scales.ndim == 1 else scales[0]), float(self.variances[0])

    def simplified(self, noise_variance: float, spread: float = np.inf) -> Kernel:
        """The same without components that vanish, and with those that coincide made one; shortest scales first.

        Components vanish beside all variance, but at most `spread`, that of the data: a long one may have far more.
        """
        whole = min(float(self.variances.sum()) + noise_variance, spread)
        order = np.argsort(np.exp(np.log(self.length_scales).mean(axis=1)))
        scales, variances = self.length_scales[order], self.variances[order]
        kept: list[int] = []
        merged = variances.copy()
        for j in range(len(merged)):
            if kept and np.all(np.abs(np.log(scales[j] / scales[kept[-1]])) < np.log(COINCIDE)):
                merged[kept[-1]] += merged[j]
            elif merged[j] > VANISH * whole or (j == len(merged) - 1 and not kept):
                kept.append(j)
        return replace(self, length_scales=scales[kept], variances=merged[kept])

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
                self._component(squared_distances(X / like(scales, X), Y / like(scales, Y)), 1.0, variance)
                for scales, variance in self.components()
            )
            return reduce(operator.iadd, parts)
        # One length scale for all columns: the distances serve every component, the last in their own memory.
        unit = float(self.length_scales[-1, 0])
        distances = squared_distances(X / unit, Y / unit)
        last = self.n_scales - 1
        parts = (
            self._component(distances if j == last else +distances, float(scales[0]) / unit, variance)
            for j, (scales, variance) in enumerate(self.components())
        )
        return reduce(operator.iadd, parts)

    def _component(self, squared_distances: Array, length_scale: float, variance: float) -> Array:
        """One component; NumPy arrays are overwritten, since these matrices are what fills the memory."""
        K = FAMILIES[self.family].correlation(squared_distances, 1.0 / length_scale**2)
        if isinstance(K, np.ndarray):
            K *= variance
            return K
        return variance * K


@lru_cache(maxsize=16)
def _expansion(family: str, accuracy: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Length scales and shares of the Gaussians that a kernel of unit length scale and variance is a mixture of."""
    nu = FAMILIES[family].smoothness
    return rational_quadratic_mixture(ALPHA, accuracy) if nu is None else matern_mixture(nu, accuracy)


def squared_distances(X: Array, Y: Array) -> Array:
    """Squared Euclidean distances `(..., n, m)` between rows of `X` (..., n, d) and `Y` (..., m, d)."""
    if array_api_compat.is_numpy_array(X) and X.ndim == 2 and (X.dtype == np.float64 or X.shape[1] <= FEW_COLUMNS):
        return cdist(X, Y, "sqeuclidean").astype(X.dtype, copy=False)
    xp = namespace(X, Y)
    # Squares are expanded for speed; around a common centre, so that nearby points keep their digits.
    center = xp.mean(Y, axis=-2, keepdims=True)
    X, Y = X - center, Y - center
    of_rows, of_columns = xp.sum(X * X, axis=-1)[..., :, None], xp.sum(Y * Y, axis=-1)[..., None, :]
    products = X @ xp.matrix_transpose(Y)
    if isinstance(products, np.ndarray):  # these matrices are what takes the time
        products *= -2
        products += of_rows
        products += of_columns
        return np.maximum(products, 0.0, out=products)
    distances = of_rows + of_columns - 2 * products
    return xp.where(distances > 0, distances, xp.zeros_like(distances))
