r"""Log marginal likelihoods with analytic gradients.

Gradients are with respect to the logarithms of the hyperparameters, in one order throughout the library: every length
scale (component by component, column by column), every signal variance, the noise variance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError
from scipy.spatial.distance import cdist

from ..common.types import Floats, Integers
from ..kernels import Kernel
from ..kernels.families import FAMILIES
from ..solvers import linalg
from ..solvers.factors import LOG_2PI


def kernel_log_likelihood(
    kernel: Kernel,
    noise_variance: float,
    X: Floats,
    y: Floats,
    noise_factors: Floats | None = None,
    n_given: int = 0,
    drift: Floats | None = None,
) -> tuple[float, Floats]:
    """Log marginal likelihood of `y ~ N(0, K + noise_variance * diag(noise_factors))`, and its gradient.

    With `n_given`, that of the other rows conditional on the first so many. With `drift`, the restricted likelihood:
    that of what columns with unknown coefficients cannot explain, of all rows.

    Parameters
    ----------
    X : ndarray of shape (n, d)
    y : ndarray of shape (n, k)
        Centred targets, independent of each other.
    noise_factors : ndarray of shape (n,) or None
        Factors of the noise variance; None is 1 everywhere.
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
    squares = squared_differences(X[None], kernel.length_scales.shape[1] > 1)
    factors, columns = (None if each is None else each[None] for each in (noise_factors, drift))
    return Stack(squares, y[None], factors, n_given, drift=columns)(kernel, noise_variance)


def squared_differences(X: Floats, by_column: bool) -> Floats:
    """Squared differences of the rows of `X` (B, n, d), by column (B, P, d) or summed (B, P, 1).

    They are packed matrices of `P = n (n + 1) / 2` entries; see `linalg`.
    """
    if not by_column:
        return np.stack([linalg.pack(cdist(x, x, "sqeuclidean").T) for x in X])[:, :, None]
    first, second = _packed_pairs(X.shape[1])
    differences = X[:, first] - X[:, second]
    differences *= differences
    return differences


@lru_cache(maxsize=64)
def _packed_pairs(n: int) -> tuple[Integers, Integers]:
    """Row and column of each entry of a packed matrix, each of shape (P,)."""
    numbers = np.arange(float(n * n)).reshape(n, n)
    entries = linalg.pack(np.tril(numbers)).astype(np.int64)
    return entries // n, entries % n


@dataclass(frozen=True, eq=False)
class Stack:
    """Sets of points, of as many each, whose likelihoods are added up; see `kernel_log_likelihood`.

    Attributes
    ----------
    squares : ndarray of shape (B, P, q)
        What `squared_differences` gives.
    y : ndarray of shape (B, n, k)
    noise_factors : ndarray of shape (B, n) or None
    n_given : int
    shares : ndarray of shape (B,) or None
        Factors of the terms of the sum.
    drift : ndarray of shape (B, n, p) or None
    """

    squares: Floats
    y: Floats
    noise_factors: Floats | None = None
    n_given: int = 0
    shares: Floats | None = None
    drift: Floats | None = None

    @property
    def sizes(self) -> Floats:
        """Number of targets that each set stands for, (B,)."""
        _, n, k = self.y.shape
        shares = np.ones(len(self.y)) if self.shares is None else self.shares
        return shares * float((n - self.n_given) * k)

    def __call__(self, kernel: Kernel, noise_variance: float) -> tuple[float, Floats]:
        """Value, and gradient (J * q + J + 1,)."""
        components, slopes, K = self._matrices(kernel, noise_variance)
        q, diagonal = self.squares.shape[2], linalg.packed_diagonal(self.y.shape[1])
        noise = self._noise(noise_variance)
        shares = np.ones(len(K)) if self.shares is None else self.shares
        value = sum(share * self._overwritten(K[i], i) for i, share in enumerate(shares))
        K *= shares[:, None]
        lengths, variances = np.empty((len(components), q)), np.empty(len(components))
        on_diagonal = K[:, diagonal]
        for j, (component, slope) in enumerate(zip(components, slopes, strict=True)):
            variances[j] = np.vdot(component, K) - 0.5 * np.vdot(component[:, diagonal], on_diagonal)
            slope *= K
            lengths[j] = slope.ravel() @ self.squares.reshape(-1, q) / kernel.length_scales[j] ** 2
        noise_gradient = 0.5 * float(np.sum(on_diagonal * noise))
        return float(value), np.concatenate([lengths.ravel(), variances, [noise_gradient]])

    def values(self, kernel: Kernel, noise_variance: float) -> Floats:
        """Log likelihood of each set, times its share, (B,); minus infinity where the covariance is not definite."""
        _, _, K = self._matrices(kernel, noise_variance)
        values = np.empty(len(K))
        for i in range(len(K)):
            try:
                values[i] = self._factored(K[i], i)[0]
            except LinAlgError:
                values[i] = -np.inf
        return values if self.shares is None else values * self.shares

    def _noise(self, noise_variance: float) -> Any:
        return noise_variance if self.noise_factors is None else noise_variance * self.noise_factors

    def _matrices(self, kernel: Kernel, noise_variance: float) -> tuple[list[Floats], list[Floats], Floats]:
        """Components and their slopes, and the covariance matrices, packed: each (B, P)."""
        q = self.squares.shape[2]
        if kernel.length_scales.shape[1] != q:
            raise ValueError(f"The kernel must have {q} length scales per component.")
        family, diagonal = FAMILIES[kernel.family], linalg.packed_diagonal(self.y.shape[1])
        components, slopes = [], []
        for scales, variance in kernel.components():
            squares = self.squares[:, :, 0] / scales[0] ** 2 if q == 1 else self.squares @ (1.0 / scales**2)
            component, slope = family.with_slope(squares)
            component *= variance
            if slope is not component:
                slope *= variance
            components.append(component)
            slopes.append(slope)
        K = components[0].copy()
        for component in components[1:]:
            K += component
        K[:, diagonal] += self._noise(noise_variance)
        return components, slopes, K

    def _factored(self, K: Floats, i: int) -> tuple[float, Floats, Floats | None]:
        """Log likelihood of a set of points for its packed covariance matrix, overwritten with its factor.

        Also whitened targets, and what the drift adds to them.
        """
        y, n_given = self.y[i], self.n_given
        (n, k), diagonal = y.shape, linalg.packed_diagonal(len(y))
        if not linalg.packed_cholesky(K, n):
            raise LinAlgError("The covariance matrix is not positive definite.")
        log_determinant = 2.0 * float(np.sum(np.log(K[diagonal[n_given:]])))
        half = linalg.packed_solve(K, np.array(y, dtype=np.float64, order="F"))
        n_free, further = n - n_given, None
        if self.drift is not None:
            Q, R = np.linalg.qr(linalg.packed_solve(K, np.array(self.drift[i], dtype=np.float64, order="F")))
            half = half - Q @ (Q.T @ half)
            log_determinant += 2.0 * float(np.sum(np.log(np.abs(np.diagonal(R)))))
            n_free, further = n - Q.shape[1], k**0.5 * Q
        own = half[n_given:]
        value: float = -0.5 * (float(np.sum(own * own)) + k * (log_determinant + n_free * LOG_2PI))
        return value, half, further

    def _overwritten(self, K: Floats, i: int) -> float:
        """Log likelihood of a set of points for its packed covariance matrix, overwritten with `M`.

        A derivative is half the sum of `M * dK`; `M = sum_t alpha_t alpha_t' - k K^-1`, less that of the given rows.
        With a drift `K^-1` is less the square of further columns.
        """
        value, half, further = self._factored(K, i)
        (n, k), n_given = half.shape, self.n_given
        own = half[n_given:].copy()
        if n_given == 0:
            roots = half if further is None else np.column_stack([half, further])
            alpha = linalg.packed_solve(K, np.asfortranarray(roots), transposed=True)
            linalg.packed_rank_update(linalg.packed_inverse(K, n), alpha, -k)
            return value
        # Inverses of all rows and of those given differ by U' U, with U the last rows of the inverse factor.
        right = np.zeros((n, k + n - n_given), order="F")
        right[:, :k] = half
        right[n_given:, k:].flat[:: n - n_given + 1] = 1.0
        linalg.packed_solve(K, right, transposed=True)
        alpha = right[:, :k].copy(order="F")
        right[:, :k] -= right[:, k:] @ own  # that of the given rows
        if k > 1:
            right[:, k:] *= k**0.5
        linalg.packed_rank_update(linalg.packed_rank_update(K, right, 0.0), alpha, -1.0)
        return value


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
