r"""Posterior distributions: the feature-space and the kernel-space solver, side by side.

Both answer the same questions about the latent function at test points: mean, variance, covariance, and the log
marginal likelihood of what they were conditioned on. Targets have their mean already taken out.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..common.types import Floats
from ..kernels import Kernel
from . import linalg
from .statistics import Statistics

LOG_2PI = float(np.log(2 * np.pi))


@dataclass(frozen=True, eq=False)
class FeaturePosterior:
    """Weights of a linear model on `D` features with a standard normal prior (Eq. 2).

    With `A = I + sum w phi phi'` and `b = sum w phi y`: mean `phi' A^-1 b`, variance `phi' A^-1 phi`.

    Attributes
    ----------
    factor : ndarray of shape (D, D)
        Lower Cholesky factor of `A`.
    coefficients : ndarray of shape (D, k)
        `A^-1 b`.
    log_likelihood : float
    """

    factor: Floats
    coefficients: Floats
    log_likelihood: float

    @classmethod
    def from_statistics(cls, statistics: Statistics, mean: Floats) -> FeaturePosterior:
        """Condition on sums over data, with the targets' `mean`, shape (k,), taken out."""
        D, k = len(statistics.gram), len(mean)
        A = statistics.gram.copy(order="F")
        A += np.tril(A, -1).T
        A.flat[:: D + 1] += 1.0
        factor, _ = linalg.cholesky(A, "feature matrix")
        cross, squares = statistics.centered(mean)
        half = linalg.solve_lower(factor, np.asfortranarray(cross))
        quadratic = float(squares.sum() - np.sum(half * half))
        log_likelihood = -0.5 * (
            quadratic + k * (linalg.log_determinant(factor) - statistics.log_weight + statistics.n * LOG_2PI)
        )
        return cls(factor, linalg.solve_lower(factor, half, transposed=True), log_likelihood)

    def mean(self, rows: Floats) -> Floats:
        """Means `(m, k)` for features `rows` of shape (D, m)."""
        result: Floats = rows.T @ self.coefficients
        return result

    def variance(self, rows: Floats) -> Floats:
        """Variances `(m,)` for features `rows` of shape (D, m)."""
        half = linalg.solve_lower_rows(self.factor, np.array(rows, order="C"))
        result: Floats = np.einsum("ij,ij->j", half, half)
        return result

    def covariance(self, rows: Floats) -> Floats:
        """Covariance matrix `(m, m)` for features `rows` of shape (D, m)."""
        half = linalg.solve_lower_rows(self.factor, np.array(rows, order="C"))
        result: Floats = half.T @ half
        return result


@dataclass(frozen=True, eq=False)
class KernelPosterior:
    """A Gaussian process conditioned on points (Eq. 1).

    Attributes
    ----------
    kernel : Kernel
    X : ndarray of shape (n, d)
    noise : ndarray of shape (n,)
    factor : ndarray of shape (n, n)
        Lower Cholesky factor of `K + diag(noise)`.
    coefficients : ndarray of shape (n, k)
        `(K + diag(noise))^-1 y`.
    log_likelihood : float
    """

    kernel: Kernel
    X: Floats
    noise: Floats
    factor: Floats
    coefficients: Floats
    log_likelihood: float

    @classmethod
    def from_points(cls, kernel: Kernel, X: Floats, y: Floats, noise: Floats) -> KernelPosterior:
        """Condition on points `X` (n, d) with centred targets `y` (n, k) and noise variances `noise` (n,)."""
        n, k = y.shape
        factor = cls.factorise(kernel, X, noise)
        half = linalg.solve_lower(factor, np.array(y, dtype=factor.dtype, order="F"))
        quadratic = float(np.sum(half * half))
        log_likelihood = -0.5 * (quadratic + k * (linalg.log_determinant(factor) + n * LOG_2PI))
        return cls(kernel, X, noise, factor, linalg.solve_lower(factor, half, transposed=True), log_likelihood)

    @staticmethod
    def factorise(kernel: Kernel, X: Floats, noise: Floats) -> Floats:
        """Lower Cholesky factor of `K + diag(noise)`."""
        K = kernel(X, X)
        K.flat[:: len(X) + 1] += noise
        factor, _ = linalg.cholesky(K.T)  # symmetric, and its transpose is in Fortran order
        return factor

    def mean(self, X: Floats) -> Floats:
        """Means `(m, k)` at points `X` of shape (m, d)."""
        result: Floats = self.kernel(X, self.X) @ self.coefficients
        return result

    def mean_and_variance(self, X: Floats) -> tuple[Floats, Floats]:
        """Means `(m, k)` and variances `(m,)` at points `X` of shape (m, d)."""
        cross = self.kernel(X, self.X)
        mean = cross @ self.coefficients
        half = linalg.solve_lower(self.factor, cross.T)
        variance = self.kernel.variance - np.einsum("ij,ij->j", half, half)
        return mean, np.maximum(variance, 0.0)

    def covariance(self, X: Floats) -> Floats:
        """Covariance matrix `(m, m)` at points `X` of shape (m, d)."""
        half = linalg.solve_lower(self.factor, self.kernel(X, self.X).T)
        result: Floats = self.kernel(X, X) - half.T @ half
        return result
