r"""Log marginal likelihoods with analytic gradients.

Gradients are with respect to the logarithms of the hyperparameters, in one order throughout the library: every length
scale (component by component, column by column), every signal variance, the noise variance.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError
from scipy.spatial.distance import cdist

from . import linalg
from .kernels import Kernel
from .posterior import LOG_2PI

Floats = NDArray[Any]


def kernel_log_likelihood(
    kernel: Kernel,
    noise_variance: float,
    X: Floats,
    y: Floats,
    noise_factors: Floats | None = None,
    squared_distances: Floats | None = None,
) -> tuple[float, Floats]:
    """Log marginal likelihood of `y ~ N(0, K + noise_variance * diag(noise_factors))`, and its gradient.

    Parameters
    ----------
    X : ndarray of shape (n, d)
    y : ndarray of shape (n, k)
        Centred targets, independent of each other.
    noise_factors : ndarray of shape (n,) or None
        Factors of the noise variance; None is 1 everywhere.
    squared_distances : ndarray of shape (n, n) or None
        Of the unscaled points, to save their computation where the kernel has one length scale for all columns.

    Returns
    -------
    value : float
    gradient : ndarray of shape (J * q + J + 1,)

    Raises
    ------
    LinAlgError
        Where the covariance matrix is not positive definite.
    """
    n, k = y.shape
    q = kernel.length_scales.shape[1]
    noise = noise_variance if noise_factors is None else noise_variance * noise_factors
    if q == 1 and squared_distances is None:
        squared_distances = cdist(X, X, "sqeuclidean")

    parts = [_component(X, scales, variance, squared_distances) for scales, variance in kernel.components()]
    K = np.array(parts[0], order="F") if len(parts) == 1 else np.asfortranarray(sum(parts[1:], parts[0]))
    K.flat[:: n + 1] += noise
    K = np.asfortranarray(np.tril(K))
    if not linalg.cholesky_in_place(K):
        raise LinAlgError("The covariance matrix is not positive definite.")
    half = linalg.solve_lower(K, np.array(y, order="F"))
    value = -0.5 * (float(np.sum(half * half)) + k * (linalg.log_determinant(K) + n * LOG_2PI))
    alpha = linalg.solve_lower(K, half, transposed=True)
    linalg.inverse_in_place(K)
    # Below, M = sum_t alpha_t alpha_t' - k K^-1, and a derivative is half the sum of the entries of M * dK.
    M = _symmetric(K)
    M *= -k
    M += alpha @ alpha.T

    length_gradient = np.empty((len(parts), q))
    variance_gradient = np.empty(len(parts))
    for j, (part, scales) in enumerate(zip(parts, kernel.length_scales, strict=True)):
        part *= M
        row_sums = part.sum(axis=1)
        variance_gradient[j] = 0.5 * row_sums.sum()
        if q == 1:
            assert squared_distances is not None
            length_gradient[j, 0] = 0.5 * np.vdot(part, squared_distances) / scales[0] ** 2
        else:
            # sum_ab P_ab (x_a - x_b)^2 for each column, as a matrix product
            Z = (X - X.mean(axis=0)) / scales
            length_gradient[j] = row_sums @ (Z * Z) - np.einsum("ac,ac->c", Z, part @ Z)
    noise_gradient = 0.5 * float(np.sum(np.diagonal(M) * noise))
    return value, np.concatenate([length_gradient.ravel(), variance_gradient, [noise_gradient]])


def _component(X: Floats, scales: Floats, variance: float, squared_distances: Floats | None) -> Floats:
    if len(scales) == 1 and squared_distances is not None:
        part = squared_distances * (-0.5 / scales[0] ** 2)
    else:
        part = cdist(X / scales, X / scales, "sqeuclidean")
        part *= -0.5
    np.exp(part, out=part)
    part *= variance
    return part


def _symmetric(lower: Floats) -> Floats:
    """Full matrix from its lower triangle; the upper one must be zero."""
    full = lower + lower.T
    full.flat[:: len(full) + 1] *= 0.5
    return full


def feature_log_likelihood(
    rows: Floats,
    length_gradients: Sequence[Floats],
    noise_variance: float,
    y: Floats,
    noise_factors: Floats | None = None,
) -> tuple[float, Floats]:
    """The same for a kernel given by features: `y ~ N(0, rows' rows + noise)`, in O(n D^2).

    Parameters
    ----------
    rows : ndarray of shape (D, n)
        Features, one a row, the signal variance included.
    length_gradients : sequence of ndarrays of shape (D, n)
        Derivatives of `rows` with respect to the logarithm of each length scale.
    y : ndarray of shape (n, k)

    Returns
    -------
    value : float
    gradient : ndarray of shape (len(length_gradients) + 2,)
    """
    D, n = rows.shape
    k = y.shape[1]
    noise = np.full(n, noise_variance) if noise_factors is None else noise_variance * noise_factors
    weighted = np.ascontiguousarray(rows / noise)
    A = np.asfortranarray(rows @ weighted.T)
    A.flat[:: D + 1] += 1.0
    factor, _ = linalg.cholesky(A, "feature matrix")
    half = linalg.solve_lower(factor, np.asfortranarray(weighted @ y))
    quadratic = float(np.sum(y * y / noise[:, None]) - np.sum(half * half))
    log_determinant = linalg.log_determinant(factor) + float(np.sum(np.log(noise)))
    value = -0.5 * (quadratic + k * (log_determinant + n * LOG_2PI))

    coefficients = linalg.solve_lower(factor, half, transposed=True)
    alpha = (y - rows.T @ coefficients) / noise[:, None]
    projected = rows @ alpha
    # K^-1 Phi = noise^-1 Phi A^-1, and with it tr(dPhi' K^-1 Phi) without any n x n matrix
    whitened = linalg.solve_lower_rows(factor, weighted.copy())
    solved = linalg.solve_lower(factor, np.asfortranarray(whitened), transposed=True)

    def along(direction: Floats) -> float:
        return float(np.sum((direction @ alpha) * projected) - k * np.vdot(solved, direction))

    inverse_diagonal = 1 / noise - np.einsum("ij,ij->j", whitened, whitened)
    noise_gradient = 0.5 * float(np.sum(noise * (np.sum(alpha * alpha, axis=1) - k * inverse_diagonal)))
    return value, np.array([*(along(g) for g in length_gradients), along(0.5 * rows), noise_gradient])
