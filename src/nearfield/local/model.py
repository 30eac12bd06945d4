"""One local model: a small Gaussian process around a centre, made from the points of its neighbourhood.

Points are in units of the length scale throughout (`Kernel` included), so that a radius of 3 is three length scales.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..common import memory
from ..common.memory import batches
from ..common.types import Floats
from ..kernels import Kernel
from ..solvers import linalg
from .plan import Plan


@dataclass(frozen=True, eq=False)
class FeatureModel:
    """Posterior around a centre in feature space.

    Attributes
    ----------
    factor : ndarray of shape (D, D)
        Lower Cholesky factor of `I + sum w phi phi'`.
    cross : ndarray of shape (D, k + 1)
        `sum w phi (y, 1)'`.
    coefficients : ndarray of shape (D, k + 1)
    """

    factor: Floats
    cross: Floats
    coefficients: Floats

    @property
    def n_bytes(self) -> int:
        """Memory taken."""
        return self.factor.nbytes + self.cross.nbytes + self.coefficients.nbytes

    def predict(self, plan: Plan, Z: Floats, with_variance: bool) -> tuple[Floats, Floats | None]:
        """Means (m, k + 1) and variances (m,) at points relative to the centre."""
        assert plan.features is not None
        rows = plan.features.rows(Z)
        mean = rows.T @ self.coefficients
        if not with_variance:
            return mean, None
        half = linalg.solve_lower_rows(self.factor, rows)
        return mean, plan.total_variance(np.einsum("ij,ij->j", half, half), Z)


@dataclass(frozen=True, eq=False)
class KernelModel:
    """Posterior around a centre in kernel space, which needs its points.

    Attributes
    ----------
    Z : ndarray of shape (n, d)
        Points relative to the centre.
    factor : ndarray of shape (n, n)
    coefficients : ndarray of shape (n, k + 1)
    """

    Z: Floats
    factor: Floats
    coefficients: Floats

    @property
    def n_bytes(self) -> int:
        """Memory taken."""
        return self.Z.nbytes + self.factor.nbytes + self.coefficients.nbytes

    def predict(self, plan: Plan, Z: Floats, with_variance: bool) -> tuple[Floats, Floats | None]:
        """Means (m, k + 1) and variances (m,) at points relative to the centre."""
        cross = plan.kernel(Z, self.Z)
        mean = cross @ self.coefficients
        if not with_variance:
            return mean, None
        half = linalg.solve_lower(self.factor, cross.T)
        return mean, np.maximum(plan.kernel.variance - np.einsum("ij,ij->j", half, half), 0.0)


LocalModel = FeatureModel | KernelModel


def fit_one(plan: Plan, Z: Floats, y: Floats, noise: Floats, counts: Floats | None = None) -> LocalModel:
    """Model around one centre from its neighbourhood: points relative to the centre, targets (n, k + 1), noise (n,).

    With `counts` (n,), each point is the average of so many, with the noise of an average.
    """
    if plan.takes_kernel_space(len(Z) if counts is None else int(counts.sum())):
        return _fit_kernel(plan.kernel, Z, y, noise)
    return finish(plan, *sums(plan, Z, y, noise, counts))


def sums(plan: Plan, Z: Floats, y: Floats, noise: Floats, counts: Floats | None = None) -> tuple[Floats, Floats]:
    """`sum w phi phi'` (D, D), lower triangle, and `sum w phi (y, 1)'` (D, k + 1) over a neighbourhood."""
    assert plan.features is not None
    D = plan.features.n_components
    gram, cross = np.zeros((D, D), order="F"), np.zeros((D, y.shape[1]))
    for chunk in batches(len(Z), memory.rows_per_chunk(24 * D, len(Z))):
        variance = noise[chunk]
        if plan.correction:
            missing = plan.features.missing_variance(Z[chunk])
            variance = variance + (missing if counts is None else missing / counts[chunk])
        root = 1.0 / np.sqrt(variance)
        rows = plan.features.rows(Z[chunk], root)
        linalg.add_gram_of_rows(rows, gram)
        cross += rows @ (y[chunk] * root[:, None])
    return gram, cross


def finish(plan: Plan, gram: Floats, cross: Floats) -> FeatureModel:
    """Model around one centre from its sums; `gram` is overwritten."""
    assert plan.features is not None
    D = len(gram)
    gram.flat[:: D + 1] += plan.features.precision
    factor = gram.copy(order="F")
    if not linalg.cholesky_in_place(factor):
        factor, _ = linalg.cholesky(gram + np.tril(gram, -1).T, "feature matrix of a centre")
    coefficients = linalg.solve_lower(factor, np.array(cross, order="F"))
    return FeatureModel(factor, cross, linalg.solve_lower(factor, coefficients, transposed=True))


def _fit_kernel(kernel: Kernel, Z: Floats, y: Floats, noise: Floats) -> KernelModel:
    n = len(Z)
    K = kernel(Z, Z)
    K.flat[:: n + 1] += noise
    factor, _ = linalg.cholesky(K.T, "covariance matrix of a neighbourhood")
    coefficients = linalg.solve_lower(factor, np.array(y, order="F"))
    return KernelModel(Z, factor, linalg.solve_lower(factor, coefficients, transposed=True))
