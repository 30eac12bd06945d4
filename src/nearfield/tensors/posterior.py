"""Posterior distributions on a device: the feature-space and the kernel-space solver; see `nearfield.posterior`."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from ..common.arrays import Array as Tensor
from ..kernels import Kernel
from ..solvers.posterior import LOG_2PI
from .models import cholesky


@dataclass(frozen=True, eq=False)
class TensorKernelPosterior:
    """A Gaussian process conditioned on points; see `KernelPosterior`."""

    kernel: Kernel
    X: Tensor
    factor: Tensor
    coefficients: Tensor
    log_likelihood: float

    @classmethod
    def from_points(cls, kernel: Kernel, X: Tensor, y: Tensor, noise: Tensor) -> TensorKernelPosterior:
        """Condition on points `X` (n, d) with centred targets `y` (n, k) and noise variances `noise` (n,)."""
        n, k = y.shape
        K = kernel(X, X)
        K.diagonal().add_(noise)
        factor = cholesky(K, "covariance matrix")
        half = torch.linalg.solve_triangular(factor, y, upper=False)
        determinant = 2 * float(factor.diagonal().log().sum())
        value = -0.5 * (float(half.square().sum()) + k * (determinant + n * LOG_2PI))
        return cls(kernel, X, factor, torch.linalg.solve_triangular(factor.mT, half, upper=True), value)

    def mean(self, X: Tensor) -> Tensor:
        """Means `(m, k)` at points `X` of shape (m, d)."""
        return self.kernel(X, self.X) @ self.coefficients

    def mean_and_variance(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Means `(m, k)` and variances `(m,)` at points `X` of shape (m, d)."""
        cross = self.kernel(self.X, X)
        half = torch.linalg.solve_triangular(self.factor, cross, upper=False)
        variance = self.kernel.variance - half.square().sum(dim=0)
        return cross.mT @ self.coefficients, variance.clamp(min=0)

    def covariance(self, X: Tensor) -> Tensor:
        """Covariance matrix `(m, m)` at points `X` of shape (m, d)."""
        half = torch.linalg.solve_triangular(self.factor, self.kernel(self.X, X), upper=False)
        return self.kernel(X, X) - half.mT @ half


@dataclass(frozen=True, eq=False)
class TensorStatistics:
    """Sums over points; see `Statistics`. They add."""

    gram: Tensor
    cross: Tensor
    targets: Tensor
    log_weight: float
    n: int

    @classmethod
    def of(cls, rows: Tensor, y: Tensor, weights: Tensor) -> TensorStatistics:
        """Sum over points with features `rows` (D, n), targets (n, k) and weights (n,)."""
        root = weights.sqrt()
        weighted = rows * root
        targets = torch.cat([y, torch.ones_like(y[:, :1])], dim=1) * root[:, None]
        log_weight = float(weights.double().log().sum())
        return cls(weighted @ weighted.mT, weighted @ targets, targets.mT @ targets, log_weight, len(y))

    def __add__(self, other: TensorStatistics) -> TensorStatistics:
        return TensorStatistics(
            self.gram + other.gram,
            self.cross + other.cross,
            self.targets + other.targets,
            self.log_weight + other.log_weight,
            self.n + other.n,
        )

    def mean(self) -> Tensor:
        """Weighted mean of the targets, (k,)."""
        return self.targets[-1, :-1] / self.targets[-1, -1]


@dataclass(frozen=True, eq=False)
class TensorFeaturePosterior:
    """Weights of a linear model on features; see `FeaturePosterior`."""

    factor: Tensor
    coefficients: Tensor
    log_likelihood: float

    @classmethod
    def from_statistics(cls, sums: TensorStatistics, mean: Tensor) -> TensorFeaturePosterior:
        """Condition on sums over data, with the targets' `mean`, shape (k,), taken out."""
        A = sums.gram.clone()
        A.diagonal().add_(1.0)
        factor = cholesky(A, "feature matrix")
        cross = sums.cross[:, :-1] - sums.cross[:, -1:] * mean
        squares = sums.targets.diagonal()[:-1] - 2 * mean * sums.targets[-1, :-1] + mean**2 * sums.targets[-1, -1]
        half = torch.linalg.solve_triangular(factor, cross, upper=False)
        quadratic = float(squares.clamp(min=0).sum() - half.square().sum())
        determinant = 2 * float(factor.diagonal().log().sum()) - sums.log_weight
        value = -0.5 * (quadratic + len(mean) * (determinant + sums.n * LOG_2PI))
        return cls(factor, torch.linalg.solve_triangular(factor.mT, half, upper=True), value)

    def mean(self, rows: Tensor) -> Tensor:
        """Means `(m, k)` for features `rows` of shape (D, m)."""
        return rows.mT @ self.coefficients

    def mean_and_variance(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Means `(m, k)` and variances `(m,)` for features `rows` of shape (D, m)."""
        half = torch.linalg.solve_triangular(self.factor, rows, upper=False)
        return rows.mT @ self.coefficients, half.square().sum(dim=0)

    def covariance(self, rows: Tensor) -> Tensor:
        """Covariance matrix `(m, m)` for features `rows` of shape (D, m)."""
        half = torch.linalg.solve_triangular(self.factor, rows, upper=False)
        return half.mT @ half
