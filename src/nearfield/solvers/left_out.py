r"""Left-out residuals in closed form: what a model says at a training point that it has not seen.

With `C = K + diag(noise)` the residual is `[C^-1 y]_i / [C^-1]_ii` and its variance `1 / [C^-1]_ii`. With features, `h`
the share that a point has in its own prediction, both are those of the fit divided by `1 - h`. Hyperparameters stay.
"""

from __future__ import annotations

import numpy as np

from ..common.arrays import column_squares
from ..common.types import Floats, Integers
from . import linalg
from .factors import Cholesky
from .feature_space import FeatureSpace
from .kernel_space import KernelSpace

LEAST = 1e-10  # of 1 - h: less is rounding
LEAST_NOISE = 1e-3  # of the signal variance, from which predictions of training points tell what they are left out


def of_kernel_space(model: KernelSpace, rows: Integers) -> tuple[Floats, Floats]:
    """Residuals (m, k) of some rows of the points, and their variances (m,), noise included."""
    assert isinstance(model.factor, Cholesky)
    inverse_diagonal = linalg.inverse_diagonal(model.factor.lower, rows)
    return model.coefficients[rows] / inverse_diagonal[:, None], 1.0 / inverse_diagonal


def of_factor(factor: Cholesky, y: Floats, rows: Integers) -> tuple[Floats, Floats]:
    """The same from the factor of `C` and targets (n, k), for few rows and many targets."""
    columns = factor.solve(_unit_columns(factor.size, rows))
    inverse_diagonal = columns[rows, np.arange(len(rows))]
    return columns.T @ y / inverse_diagonal[:, None], 1.0 / inverse_diagonal


def of_predictions(mean: Floats, variance: Floats, y: Floats, noise: Floats) -> tuple[Floats, Floats]:
    """The same from what a model that has seen the points says there: means (m, k) and variances (m,) of the function.

    Digits are lost where the noise (m,) is small beside the variance before any data; see `LEAST_NOISE`.
    """
    rest = np.maximum(1.0 - variance / noise, LEAST)
    return (y - mean) / rest[:, None], noise / rest


def of_feature_space(model: FeatureSpace, features: Floats, y: Floats, root: Floats) -> tuple[Floats, Floats]:
    """Residuals (m, k) of points with features (D, m) and targets (m, k), both times `root` (m,), and their variances.

    `root` is the inverse of the standard deviation of the points' noise.
    """
    residuals = (y - features.T @ model.coefficients) / root[:, None]
    rest = np.maximum(1.0 - column_squares(model.factor.whiten(features)), LEAST)
    return residuals / rest[:, None], 1.0 / (root**2 * rest)


def completed(residuals: Floats, variances: Floats, unknown: Floats) -> tuple[Floats, Floats]:
    """Residuals (m, k) and variances (m,) with coefficients of features left to be found, too.

    To the process without these features, `unknown` (m, r) are the residuals of further targets, whose squares add up
    to the variance that is due to coefficients known from all points, this one included.
    """
    rest = np.maximum(1.0 - np.sum(unknown**2, axis=1) / variances, 1e-3)  # negative only by approximation
    return residuals / rest[:, None], variances / rest


def _unit_columns(n: int, rows: Integers) -> Floats:
    columns = np.zeros((n, len(rows)), order="F")
    columns[rows, np.arange(len(rows))] = 1.0
    return columns
