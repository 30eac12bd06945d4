"""The posterior by the textbook's formulas: dense, with inverses, and without a line of the library."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np


def gaussian(length_scale: Any, variance: float) -> Callable[[Any, Any], Any]:
    """The Gaussian kernel, with a length scale for all columns or one each."""

    def kernel(A: Any, B: Any) -> Any:
        scaled = (A[:, None, :] - B[None, :, :]) / np.asarray(length_scale)
        return variance * np.exp(-0.5 * np.sum(scaled**2, axis=2))

    return kernel


def matern32(length_scale: Any, variance: float) -> Callable[[Any, Any], Any]:
    """The Matern kernel of order 3/2."""

    def kernel(A: Any, B: Any) -> Any:
        scaled = (A[:, None, :] - B[None, :, :]) / np.asarray(length_scale)
        distance = np.sqrt(3 * np.sum(scaled**2, axis=2))
        return variance * (1 + distance) * np.exp(-distance)

    return kernel


@dataclass(frozen=True)
class Posterior:
    """A process plus columns of unknown coefficients, given noisy targets.

    Attributes
    ----------
    kernel : callable of points (m, d) and (n, d)
    Z : ndarray of shape (n, d)
        Points as the kernel sees them.
    F : ndarray of shape (n, p)
        Columns of drift and groups; p may be 0.
    precision : ndarray of shape (p,)
        Of the coefficients, before the data: 0 says nothing.
    r : ndarray of shape (n, k)
        Targets less what is known of their mean.
    noise : ndarray of shape (n,)
    """

    kernel: Callable[[Any, Any], Any]
    Z: Any
    F: Any
    precision: Any
    r: Any
    noise: Any

    @cached_property
    def C(self) -> Any:
        return self.kernel(self.Z, self.Z) + np.diag(self.noise)

    @cached_property
    def inverse(self) -> Any:
        return np.linalg.inv(self.C)

    @cached_property
    def covariance_of_coefficients(self) -> Any:
        return np.linalg.inv(self.F.T @ self.inverse @ self.F + np.diag(self.precision))

    @cached_property
    def coefficients(self) -> Any:
        return self.covariance_of_coefficients @ self.F.T @ self.inverse @ self.r

    def process_mean(self, z: Any) -> Any:
        return self.kernel(z, self.Z) @ self.inverse @ (self.r - self.F @ self.coefficients)

    def mean(self, z: Any, f: Any) -> Any:
        """Means (m, k) at points (m, d) with columns (m, p)."""
        return f @ self.coefficients + self.process_mean(z)

    def covariance(self, z: Any, f: Any, other_z: Any = None, other_f: Any = None) -> Any:
        """Covariance (m, m) of the sum, or between two lots of points; with `f` of zeros, of the process alone."""
        other_z, other_f = (z, f) if other_z is None else (other_z, other_f)
        k, other_k = self.kernel(z, self.Z), self.kernel(other_z, self.Z)
        u, other_u = f - k @ self.inverse @ self.F, other_f - other_k @ self.inverse @ self.F
        explained = k @ self.inverse @ other_k.T
        return self.kernel(z, other_z) - explained + u @ self.covariance_of_coefficients @ other_u.T

    def without(self, rows: Any) -> Posterior:
        """The same given the other rows alone."""
        keep = ~rows
        others = replace(self, Z=self.Z[keep], F=self.F[keep], r=self.r[keep], noise=self.noise[keep])
        others.__dict__["C"] = self.C[np.ix_(keep, keep)]
        return others

    def log_likelihood(self) -> float:
        """Restricted by the columns of which nothing is known; summed over targets."""
        flat = self.precision == 0
        known = self.F[:, ~flat]
        C, F, (n, k) = self.C + known / self.precision[~flat] @ known.T, self.F[:, flat], self.r.shape
        inverse = np.linalg.inv(C)
        within = F.T @ inverse @ F
        rest = self.r - F @ np.linalg.solve(within, F.T @ inverse @ self.r) if F.shape[1] else self.r
        determinants = np.linalg.slogdet(C)[1] + (np.linalg.slogdet(within)[1] if F.shape[1] else 0.0)
        squares = np.sum(rest * (inverse @ rest))
        return float(-0.5 * (k * ((n - F.shape[1]) * np.log(2 * np.pi) + determinants) + squares))
