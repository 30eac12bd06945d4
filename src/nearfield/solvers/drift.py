r"""A drift with unknown coefficients beside a process: generalised least squares, and universal kriging.

.. math:: y = F \beta + g + \varepsilon,

with `F` known, `g` a Gaussian process, and a prior of `beta` that says nothing. With `C` the covariance of `g` and the
noise, `beta` has mean `A^-1 F' C^-1 y` and covariance `A^-1`, where `A = F' C^-1 F`. At a place with drift columns `f`
and covariances `c` with the data, `h = f - F' C^-1 c` is what the process cannot tell of the columns, and there

.. math:: mean = c' C^{-1} y + h' \beta, \qquad variance = k - c' C^{-1} c + h' A^{-1} h.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.linalg import cho_solve
from scipy.optimize import minimize

from ..common.types import Floats, Integers
from ..kernels import Kernel
from .factors import Cholesky, log_density
from .kernel_space import KernelSpace
from .left_out import completed, of_kernel_space
from .statistics import Statistics

LEAST_GROUP, MOST_GROUP = 1e-8, 1e4  # variances of effects of groups, of that of the targets
UNTOLD = (
    "The samples do not tell all coefficients of the drift: there are fewer samples than columns, or some columns are "
    "combinations of others among these samples."
)


@dataclass(frozen=True, eq=False)
class Coefficients:
    """What data say of the coefficients `beta` of `p` drift columns, for each of `k` targets.

    Attributes
    ----------
    gram : ndarray of shape (p, p)
        `A = F' C^-1 F`.
    cross : ndarray of shape (p, k)
        `F' C^-1 y`.
    prior : ndarray of shape (p,) or None
        Prior precisions of the coefficients, which are added to the diagonal of `A`: 0 says nothing, and so does None.
        Effects of groups have a positive one.
    """

    gram: Floats
    cross: Floats
    prior: Floats | None = None

    @classmethod
    def from_products(cls, products: Floats, n_targets: int) -> Coefficients:
        """From `T' C^-1 T`, (k + p, k + p), of targets `T = [y, F]`."""
        k = n_targets
        gram = products[k:, k:]
        return cls(0.5 * (gram + gram.T), products[k:, :k])

    @cached_property
    def _factor(self) -> tuple[Floats, Floats]:
        """Lower factor of `A` with ones on its diagonal, and what its rows were divided by.

        Raises
        ------
        ValueError
            Where the data do not tell all coefficients.
        """
        A = self.gram if self.prior is None else self.gram + np.diag(self.prior)
        scale = np.sqrt(np.clip(np.diagonal(A), 0.0, None))
        if not (scale > 0).all():
            raise ValueError(UNTOLD)
        try:
            return np.linalg.cholesky(A / np.outer(scale, scale)), scale
        except np.linalg.LinAlgError:
            raise ValueError(UNTOLD) from None

    @property
    def size(self) -> int:
        """Number of columns `p`."""
        return len(self.gram)

    @cached_property
    def mean(self) -> Floats:
        """Of `beta`, (p, k)."""
        lower, scale = self._factor
        result: Floats = cho_solve((lower, True), self.cross / scale[:, None]) / scale[:, None]
        return result

    @cached_property
    def root(self) -> Floats:
        """`R` (p, p) with `R R' = A^-1`."""
        lower, scale = self._factor
        result: Floats = np.linalg.solve(lower, np.eye(self.size)).T / scale[:, None]
        return result

    @property
    def covariance(self) -> Floats:
        """Of `beta`, (p, p): the same for all targets."""
        return self.root @ self.root.T

    def log_determinant(self) -> float:
        """Of `A`, less that of the prior where it says something."""
        lower, scale = self._factor
        prior = 0.0 if self.prior is None else float(np.sum(np.log(self.prior[self.prior > 0])))
        return 2.0 * float(np.sum(np.log(np.diagonal(lower))) + np.sum(np.log(scale))) - prior

    @property
    def n_diffuse(self) -> int:
        """Number of columns of whose coefficients nothing is known before."""
        return self.size if self.prior is None else int(np.count_nonzero(self.prior == 0))

    def with_learnt_prior(self, groups: Sequence[slice], unit: float) -> Coefficients:
        """The same with the prior variance of each group of columns that makes the data likeliest.

        `unit` is a variance of the size of the targets': others are within a factor of it.
        """

        def with_variances(logarithms: Floats) -> Coefficients:
            prior = np.zeros(self.size)
            for columns, value in zip(groups, logarithms, strict=True):
                prior[columns] = np.exp(-value)
            return replace(self, prior=prior)

        def loss(logarithms: Floats) -> float:
            c = with_variances(logarithms)
            explained = float(np.sum(self.cross * c.mean))
            return 0.5 * (len(self.cross.T) * c.log_determinant() - explained)

        bounds = [(np.log(LEAST_GROUP * unit), np.log(MOST_GROUP * unit))] * len(groups)
        start = np.full(len(groups), np.log(0.1 * unit))
        return with_variances(minimize(loss, start, method="L-BFGS-B", bounds=bounds).x)

    def variance(self, unknown: Floats) -> Floats:
        """What coefficients add to the variance, (m,), at places where `h` is `unknown` (m, p)."""
        result: Floats = np.sum((unknown @ self.root) ** 2, axis=1)
        return result

    def completed(
        self, mean: Floats, variance: Floats, unknown: Floats, with_variance: bool = True
    ) -> tuple[Floats, Floats]:
        """Means (m, k) and variances (m,) with the drift, from those of the process alone, and `h` (m, p)."""
        mean = mean + unknown @ self.mean
        return mean, variance + self.variance(unknown) if with_variance else variance

    def parts(
        self, process: tuple[Floats, Floats], F: Floats, unknown: Floats
    ) -> tuple[tuple[Floats, Floats], tuple[Floats, Floats], Floats]:
        """Means (m, k) and variances (m,) of process and drift, and variances (m,) of their sum.

        `process` are means and variances at known coefficients, `F` (m, p) the drift columns, and `unknown` is `h`.
        """
        mean, variance = process
        drift = F @ self.mean, self.variance(F)
        return (mean, variance + self.variance(F - unknown)), drift, variance + self.variance(unknown)

    def left_out(self, residuals: Floats, variances: Floats, unknown: Floats) -> tuple[Floats, Floats]:
        """Left-out residuals (m, k) and variances (m,) with coefficients learnt without the point, too.

        They are given for known coefficients, along with the left-out residuals of the drift columns, (m, p).
        """
        return completed(residuals - unknown @ self.mean, variances, unknown @ self.root)


def told_beyond_features(sums: Statistics, p: int) -> Coefficients:
    """What sums tell of the coefficients of their last `p` features, beside the others, which are standard normal."""
    gram, D = sums.gram + np.tril(sums.gram, -1).T, len(sums.gram) - p
    inner = gram[:D, :D] + np.eye(D)
    solved = np.linalg.solve(inner, np.column_stack([gram[:D, D:], sums.cross[:D, :-1]]))
    rest = gram[D:, D:] - gram[D:, :D] @ solved[:, :p]
    return Coefficients(0.5 * (rest + rest.T), sums.cross[D:, :-1] - gram[D:, :D] @ solved[:, p:])


def gram_and_cross(F: Floats, solved: Floats, n_targets: int) -> Coefficients:
    """Coefficients of columns `F` (n, p) from `C^-1 [y, F]`, (n, k + p)."""
    products = F.T @ solved
    gram = products[:, n_targets:]
    return Coefficients(0.5 * (gram + gram.T), products[:, :n_targets])


@dataclass(frozen=True, eq=False)
class UniversalKriging:
    """A process conditioned on points, with a drift; rows are points followed by their drift columns, (m, d + p).

    Attributes
    ----------
    process : KernelSpace
        Of targets less the drift at its coefficients' means.
    F : ndarray of shape (n, p)
        Drift columns of the points.
    solved : ndarray of shape (n, p)
        `C^-1 F`.
    drift : Coefficients
    """

    process: KernelSpace
    F: Floats
    solved: Floats
    drift: Coefficients

    @classmethod
    def from_points(
        cls,
        kernel: Kernel,
        X: Floats,
        F: Floats,
        y: Floats,
        noise: Floats,
        prior: Floats | Sequence[slice] | None = None,
    ) -> UniversalKriging:
        """Condition on points (n, d) with drift columns (n, p), targets (n, k) and noise variances (n,).

        `prior` are the precisions of coefficients (p,), or columns whose effects share a variance that is to be learnt.
        """
        factor = KernelSpace.factorise(kernel, X, noise)
        assert isinstance(factor, Cholesky)
        white = factor.whiten(np.column_stack([y, F]))
        k = y.shape[1]
        drift = Coefficients.from_products(white.T @ white, k)
        if isinstance(prior, np.ndarray):
            drift = replace(drift, prior=prior)
        elif prior:
            drift = drift.with_learnt_prior(prior, kernel.variance + float(np.mean(noise)))
        return cls.from_residuals(kernel, X, F, y - F @ drift.mean, noise, factor, drift)

    @classmethod
    def from_residuals(
        cls,
        kernel: Kernel,
        X: Floats,
        F: Floats,
        residuals: Floats,
        noise: Floats,
        factor: Cholesky,
        drift: Coefficients,
    ) -> UniversalKriging:
        """From targets less the drift, (n, k), and the factor of their covariance."""
        k = residuals.shape[1]
        solved = factor.solve(np.column_stack([residuals, F]))
        coefficients = solved[:, :k]
        quadratic = np.einsum("ij,ij->j", residuals, coefficients)
        if drift.prior is not None:
            quadratic = quadratic + drift.prior @ drift.mean**2
        return cls(KernelSpace(kernel, X, noise, factor, coefficients, quadratic), F, solved[:, k:], drift)

    @property
    def n_bytes(self) -> int:
        """Memory taken."""
        return self.process.n_bytes + int(self.F.nbytes + self.solved.nbytes)

    def _parts(self, rows: Floats) -> tuple[Floats, Floats]:
        d = self.process.X.shape[1]
        return rows[:, :d], rows[:, d:]

    def mean(self, rows: Floats) -> Floats:
        """Means (m, k)."""
        X, F = self._parts(rows)
        result: Floats = self.process.mean(X) + F @ self.drift.mean
        return result

    def mean_and_variance(self, rows: Floats) -> tuple[Floats, Floats]:
        """Means (m, k) and variances (m,)."""
        X, F = self._parts(rows)
        mean, variance = self.process.mean_and_variance(X)
        return mean + F @ self.drift.mean, variance + self.drift.variance(self.unknown(X, F))

    def covariance(self, rows: Floats) -> Floats:
        """Covariance matrix (m, m)."""
        X, F = self._parts(rows)
        half = self.unknown(X, F) @ self.drift.root
        result: Floats = self.process.covariance(X) + half @ half.T
        return result

    def unknown(self, X: Floats, F: Floats) -> Floats:
        """`h` (m, p): drift columns less what the process makes of them."""
        result: Floats = F - self.process.kernel(X, self.process.X) @ self.solved
        return result

    def log_likelihood(self) -> Floats:
        """Restricted log likelihood of each target, (k,), for the drift columns as they are here."""
        q = self.process
        log_determinant = q.factor.log_determinant() + self.drift.log_determinant()
        result: Floats = log_density(q.quadratic, log_determinant, q.factor.size - self.drift.n_diffuse)
        return result

    def left_out(self, rows: Integers) -> tuple[Floats, Floats]:
        """Left-out residuals (m, k) of some rows of the points, and their variances (m,), noise included."""
        residuals, variances = of_kernel_space(self.process, rows)  # of y - F beta
        return completed(residuals, variances, (self.solved[rows] * variances[:, None]) @ self.drift.root)
