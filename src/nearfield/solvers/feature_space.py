r"""The feature-space solver: a linear model on features, from sums over the data."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..common.arrays import Array, column_products, column_squares, like, namespace
from ..common.types import Floats
from .factors import Factor, Whitener, factorise, log_density, with_diagonal
from .statistics import Statistics


@dataclass(frozen=True, eq=False)
class FeatureSpace:
    """Posterior of the coefficients of `D` features (Eq. 2), or of several models side by side.

    With `A = diag(precision) + sum w phi phi'` and `B = sum w phi t'`: mean `phi' A^-1 B`, variance `phi' A^-1 phi`.
    A precision of 0 is that of a drift column, of whose coefficient nothing is known before.
    Arrays are NumPy's, or tensors, which may have leading dimensions, shape (...): one model for each set of points.
    The last target is the constant 1; see `Statistics`.
    """

    factor: Factor  # of `A`, (..., D, D)
    coefficients: Floats  # (..., D, k + 1): `A^-1 B`
    precision: Floats  # (D,): prior precision of each coefficient
    cross: Floats  # for this and the rest see `Statistics`
    targets: Floats
    log_weight: float
    n: int

    @classmethod
    def from_statistics(
        cls, sums: Statistics, precision: Floats | None = None, what: str = "feature matrix"
    ) -> FeatureSpace:
        """Condition on sums over data; without `precision`, the prior is standard normal."""
        prior = like(np.ones(sums.gram.shape[-1]) if precision is None else precision, sums.gram)
        factor = factorise(sums.gram, prior, what, keep=True)
        return cls(factor, factor.solve(sums.cross), prior, sums.cross, sums.targets, sums.log_weight, sums.n)

    def mean(self, rows: Array) -> Array:
        """Means `(..., m, k + 1)` for features `rows` of shape (..., D, m)."""
        return rows.mT @ self.coefficients

    def mean_and_variance(self, rows: Array, overwrite: bool = False) -> tuple[Array, Array]:
        """Means `(..., m, k + 1)` and variances `(..., m)` for features `rows` of shape (..., D, m)."""
        mean = self.mean(rows)
        return mean, column_squares(self.factor.whiten(rows, overwrite))

    def covariance(self, rows: Array) -> Array:
        """Covariance matrix `(..., m, m)` for features `rows` of shape (..., D, m)."""
        half = self.factor.whiten(rows)
        return half.mT @ half

    def log_likelihood(self) -> Array:
        """Log marginal likelihood of each target, (..., k + 1), as if it were alone."""
        xp = namespace(self.cross)
        squares = xp.linalg.diagonal(self.targets).clip(min=0.0)
        explained = column_products(self.cross, self.coefficients)
        precision, n = xp.astype(self.precision, xp.float64), self.n
        if isinstance(precision, np.ndarray) and not precision.all():  # the likelihood is restricted then
            n, precision = n - int(np.count_nonzero(precision == 0)), precision[precision > 0]
        prior = xp.sum(xp.log(precision))
        return log_density(squares - explained, self.factor.log_determinant() - prior - self.log_weight, n)

    def without_drift(self, p: int) -> FeatureSpace:
        """The model of the features before the last `p`, at the means of the coefficients of these."""
        gram, D = self.statistics().gram, len(self.precision) - p
        cross = self.cross[:D] - gram[D:, :D].T @ self.coefficients[D:]
        factor = factorise(np.asfortranarray(gram[:D, :D]), self.precision[:D], "feature matrix", keep=True)
        return replace(self, factor=factor, coefficients=factor.solve(cross), precision=self.precision[:D], cross=cross)

    def statistics(self) -> Statistics:
        """The sums that the model was made of, to go on from."""
        gram = with_diagonal(self.factor.matrix(), -self.precision)
        if isinstance(gram, np.ndarray):
            gram = np.asfortranarray(np.tril(gram))
        return Statistics(gram, self.cross, self.targets, self.log_weight, self.n)

    def take(self, chosen: Array) -> FeatureSpace:
        """Of several models, those at the indices `chosen` of the first dimension."""
        assert isinstance(self.factor, Whitener)
        names = ("coefficients", "cross", "targets", "log_weight", "n")
        return replace(self, factor=self.factor.take(chosen), **{name: getattr(self, name)[chosen] for name in names})

    @property
    def n_bytes(self) -> int:
        """Memory taken."""
        return int(self.factor.n_bytes + self.coefficients.nbytes + self.cross.nbytes + self.targets.nbytes)
