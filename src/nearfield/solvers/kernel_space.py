r"""The kernel-space solver: a Gaussian process conditioned on points."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..common import memory
from ..common.arrays import Array, column_products, column_squares, namespace
from ..common.memory import batches
from ..common.threads import thread_map
from ..common.types import Floats
from ..kernels import Kernel
from .factors import Factor, Whitener, factorise, log_density

ROWS_AT_ONCE = 1024
"""Rows and columns of a block of a large covariance matrix: 8 MiB, which is little beside the whole."""
LARGE = 4096
"""Rows from which a covariance matrix is computed block by block, in threads."""


@dataclass(frozen=True, eq=False)
class KernelSpace:
    """A Gaussian process conditioned on points (Eq. 1), or several side by side.

    Targets have their mean already taken out. Arrays are NumPy's, or tensors, which may have leading dimensions, shape
    (...): one process for each set of points, the smaller ones padded. Of NumPy arrays the factor follows from the
    points: pickles leave it out, and it is made again when it is first asked for.
    """

    kernel: Kernel
    X: Floats  # (..., n, d)
    noise: Floats  # (..., n)
    _factor: Factor | None  # see `factor`; None where it is still to be made
    coefficients: Floats  # (..., n, k): `(K + diag(noise))^-1 y`
    quadratic: Floats  # (..., k): `y' (K + diag(noise))^-1 y` of each target

    @classmethod
    def from_points(
        cls,
        kernel: Kernel,
        X: Array,
        y: Array,
        noise: Array,
        real: Array | None = None,
        what: str = "covariance matrix",
    ) -> KernelSpace:
        """Condition on points.

        Parameters
        ----------
        X : array of shape (..., n, d)
        y : array of shape (..., n, k)
        noise : array of shape (..., n)
            Noise variances.
        real : tensor of booleans of shape (..., n), or None
            Which points there are; the others are padding. None is all.
        what : str
            Name of the covariance matrix for warnings and errors.
        """
        if real is not None:
            X = X * real[..., None]  # distances are taken around the mean, which padding must not move far away
        factor = cls.factorise(kernel, X, noise, real, what)
        coefficients = factor.solve(y)
        return cls(kernel, X, noise, factor, coefficients, column_products(y, coefficients))

    @staticmethod
    def factorise(
        kernel: Kernel, X: Array, noise: Array, real: Array | None = None, what: str = "covariance matrix"
    ) -> Factor:
        """Factor of `K + diag(noise)`; see `from_points`."""
        if real is None:
            return factorise(covariance_matrix(kernel, X), noise, what)
        K = kernel(X, X)
        xp = namespace(K)
        K = K * (real[..., :, None] & real[..., None, :])
        factor = factorise(K, xp.where(real, noise, xp.ones_like(noise)), what)
        assert isinstance(factor, Whitener)
        return factor.without_padding(real)

    @property
    def factor(self) -> Factor:
        """Of `K + diag(noise)`, (..., n, n); zero where padding stands for no point."""
        if self._factor is None:
            if len(self.X) > LARGE:
                memory.require(
                    8.0 * 1.1 * len(self.X) ** 2,
                    f"The covariance matrix of {len(self.X)} samples, which variances take,",
                    "Means take none of it.",
                )
            object.__setattr__(self, "_factor", self.factorise(self.kernel, self.X, self.noise))
        assert self._factor is not None
        return self._factor

    def __getstate__(self) -> dict[str, Any]:
        follows = isinstance(self.X, np.ndarray)
        return {**vars(self), "_factor": None} if follows else dict(vars(self))

    def mean(self, X: Array) -> Array:
        """Means `(..., m, k)` at points `X` of shape (..., m, d)."""
        return self.kernel(X, self.X) @ self.coefficients

    def mean_and_variance(self, X: Array) -> tuple[Array, Array]:
        """Means `(..., m, k)` and variances `(..., m)` at points `X` of shape (..., m, d)."""
        cross = self.kernel(X, self.X)
        mean = cross @ self.coefficients
        explained = column_squares(self.factor.whiten(cross.mT, overwrite=True))
        return mean, (self.kernel.variance - explained).clip(min=0.0)

    def covariance(self, X: Array) -> Array:
        """Covariance matrix `(..., m, m)` at points `X` of shape (..., m, d)."""
        half = self.factor.whiten(self.kernel(X, self.X).mT, overwrite=True)
        return self.kernel(X, X) - half.mT @ half

    def log_likelihood(self) -> Array:
        """Log marginal likelihood of each target, (..., k)."""
        return log_density(self.quadratic, self.factor.log_determinant(), self.factor.size)

    def take(self, chosen: Array) -> KernelSpace:
        """Of several processes, those at the indices `chosen` of the first dimension."""
        assert isinstance(self.factor, Whitener)
        names = ("X", "noise", "coefficients", "quadratic")
        return replace(self, _factor=self.factor.take(chosen), **{name: getattr(self, name)[chosen] for name in names})

    @property
    def n_bytes(self) -> int:
        """Memory taken."""
        made = 0 if self._factor is None else self._factor.n_bytes
        return int(made + self.X.nbytes + self.noise.nbytes + self.coefficients.nbytes)


def covariance_matrix(kernel: Kernel, X: Array) -> Array:
    """`K(X, X)`, of shape (..., n, n); a large NumPy matrix is computed in threads, in the memory of one matrix."""
    n = X.shape[-2]
    if n <= LARGE or not isinstance(X, np.ndarray):
        return kernel(X, X)
    K = np.empty((n, n), dtype=X.dtype, order="F")
    blocks = batches(n, ROWS_AT_ONCE)

    def fill(pair: tuple[slice, slice]) -> None:
        rows, columns = pair
        block = kernel(X[rows], X[columns])
        K[rows, columns] = block
        K[columns, rows] = block.T

    thread_map(fill, [(rows, columns) for i, rows in enumerate(blocks) for columns in blocks[: i + 1]], None)
    return K
