r"""Log marginal likelihoods with analytic gradients.

Gradients are with respect to the logarithms of the hyperparameters, in one order throughout the library: every length
scale (component by component, column by column), every signal variance, the noise variance.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.linalg import LinAlgError
from scipy.spatial.distance import cdist

from ..common.types import Floats
from ..kernels import Kernel
from ..solvers import linalg
from ..solvers.factors import LOG_2PI


def kernel_log_likelihood(
    kernel: Kernel,
    noise_variance: float,
    X: Floats,
    y: Floats,
    noise_factors: Floats | None = None,
    squared_distances: Floats | None = None,
    drift: Floats | None = None,
) -> tuple[float, Floats]:
    """Log marginal likelihood of `y ~ N(0, K + noise_variance * diag(noise_factors))`, and its gradient.

    With `drift`, the restricted likelihood: that of what columns with unknown coefficients cannot explain.

    Parameters
    ----------
    X : ndarray of shape (n, d)
    y : ndarray of shape (n, k)
        Centred targets, independent of each other.
    noise_factors : ndarray of shape (n,) or None
        Factors of the noise variance; None is 1 everywhere.
    squared_distances : ndarray of shape (n (n + 1) / 2,) or None
        What `packed_distances(X)` gives, to save its computation where the kernel has one length scale for all columns.
    drift : ndarray of shape (n, p) or None
        Independent columns.

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
    if q > 1:
        squared_distances = None
    elif squared_distances is None:
        squared_distances = packed_distances(X)

    components = [_component(X, scales, variance, squared_distances) for scales, variance in kernel.components()]
    K = components[0].copy()
    for component in components[1:]:
        K += component
    diagonal = linalg.packed_diagonal(n)
    K[diagonal] += noise
    if not linalg.packed_cholesky(K, n):
        raise LinAlgError("The covariance matrix is not positive definite.")
    half = linalg.packed_solve(K, np.array(y, dtype=np.float64, order="F"))
    log_determinant = 2.0 * float(np.sum(np.log(K[diagonal])))
    n_free = n
    if drift is not None:
        Q, R = np.linalg.qr(linalg.packed_solve(K, np.array(drift, dtype=np.float64, order="F")))
        half = half - Q @ (Q.T @ half)
        log_determinant += 2.0 * float(np.sum(np.log(np.abs(np.diagonal(R)))))
        n_free = n - drift.shape[1]
    value = -0.5 * (float(np.sum(half * half)) + k * (log_determinant + n_free * LOG_2PI))
    # With M = sum_t alpha_t alpha_t' - k P, a derivative is half the sum of the entries of M * dK. Here P is K^-1, and
    # with a drift K^-1 less the square of further columns.
    roots = half if drift is None else np.asfortranarray(np.column_stack([half, np.sqrt(k) * Q]))
    alpha = linalg.packed_solve(K, np.asfortranarray(roots), transposed=True)
    M = linalg.packed_rank_update(linalg.packed_inverse(K, n), alpha, -k)

    length_gradient = np.empty((len(components), q))
    variance_gradient = np.empty(len(components))
    for j, component in enumerate(components):
        scales = kernel.length_scales[j]
        component *= M
        variance_gradient[j] = component.sum() - 0.5 * component[diagonal].sum()
        if squared_distances is not None:
            length_gradient[j, 0] = np.vdot(component, squared_distances) / scales[0] ** 2
        else:
            length_gradient[j] = _column_sums((X - X.mean(axis=0)) / scales, component)
    noise_gradient = 0.5 * float(np.sum(M[diagonal] * noise))
    return value, np.concatenate([length_gradient.ravel(), variance_gradient, [noise_gradient]])


def packed_distances(X: Floats) -> Floats:
    """Squared distances of the rows of `X` as a packed matrix (see `linalg`)."""
    return linalg.pack(cdist(X, X, "sqeuclidean").T)


def _component(X: Floats, scales: Floats, variance: float, squared_distances: Floats | None) -> Floats:
    if squared_distances is not None:
        component: Floats = squared_distances * (-0.5 / scales[0] ** 2)
    else:
        component = packed_distances(X / scales)
        component *= -0.5
    np.exp(component, out=component)
    component *= variance
    return component


def _column_sums(Z: Floats, component: Floats) -> Floats:
    """Half the sum over all pairs, `0.5 sum_ab P_ab (z_a - z_b)^2`, for each column of `Z`, as a matrix product."""
    lower = linalg.unpack_lower(component, len(Z))  # each pair once; where a = b there is nothing to add
    sums = lower.sum(axis=0) + lower.sum(axis=1)
    result: Floats = sums @ (Z * Z) - 2 * np.einsum("ac,ac->c", Z, lower @ Z)
    return result


def feature_log_likelihood(
    rows: Floats,
    length_gradients: Sequence[Floats],
    noise_variance: float,
    y: Floats,
    noise_factors: Floats | None = None,
) -> tuple[float, Floats]:
    """Log marginal likelihood of `y ~ N(0, rows' rows + noise)`, and its gradient, in O(n D^2).

    Parameters
    ----------
    rows : ndarray of shape (D, n)
        Features, one per row, the signal variance included.
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
