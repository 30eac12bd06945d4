r"""Log marginal likelihoods with analytic gradients.

Gradients are with respect to the logarithms of the hyperparameters, in one order throughout the library: every length
scale (component by component, column by column), every signal variance, the noise variance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import LinAlgError
from scipy.spatial.distance import cdist

from ..common.memory import Scratch
from ..common.types import Floats, Integers
from ..kernels import Kernel
from ..kernels.families import FAMILIES
from ..solvers import linalg
from ..solvers.factors import LOG_2PI

MOST_ROUNDING = 0.01  # of a conditional variance
MOST_KEPT = 1 << 17  # numbers of an array that is kept to be written into again


def squared_differences(X: Floats, by_column: bool) -> Floats:
    """Squared differences of the rows of `X` (B, n, d), by column (B, P, d) or summed (B, P, 1).

    They are packed matrices of `P = n (n + 1) / 2` entries; see `linalg`.
    """
    if not by_column:
        return np.stack([linalg.pack(cdist(x, x, "sqeuclidean").T) for x in X])[:, :, None]
    first, second = _packed_pairs(X.shape[1])
    differences = X[:, first] - X[:, second]
    differences *= differences
    return np.ascontiguousarray(differences)


@lru_cache(maxsize=64)
def _packed_pairs(n: int) -> tuple[Integers, Integers]:
    """Row and column of each entry of a packed matrix, each of shape (P,)."""
    numbers = np.arange(float(n * n)).reshape(n, n)
    entries = linalg.pack(np.tril(numbers)).astype(np.int64)
    return entries // n, entries % n


@dataclass(frozen=True, eq=False)
class Stack:
    """Sets of points, of as many each, whose log marginal likelihoods are added up.

    They are those of `y ~ N(0, K + noise_variance * diag(noise_factors))`, with targets independent of each other. With
    a drift they are restricted: of what columns with unknown coefficients cannot explain.

    Attributes
    ----------
    squares : ndarray of shape (B, P, q)
        What `squared_differences` gives.
    y : ndarray of shape (B, n, k)
        Centred targets.
    noise_factors : ndarray of shape (B, n) or None
        Factors of the noise variance; None is 1 everywhere.
    shares : ndarray of shape (B,) or None
        Factors of the terms of the sum.
    drift : ndarray of shape (B, n, p) or None
        Independent columns.
    """

    squares: Floats
    y: Floats
    noise_factors: Floats | None = None
    shares: Floats | None = None
    drift: Floats | None = None

    @property
    def sizes(self) -> Floats:
        """Number of targets that each set stands for, (B,)."""
        _, n, k = self.y.shape
        return _or_ones(self.shares, len(self.y)) * float(n * k)

    def __call__(self, kernel: Kernel, noise_variance: float) -> tuple[float, Floats]:
        """Value, and gradient (J * q + J + 1,); LinAlgError where a covariance matrix is not positive definite."""
        correlations, slopes, K = self._matrices(kernel, noise_variance)
        q, diagonal = self.squares.shape[2], linalg.packed_diagonal(self.y.shape[1])
        shares = _or_ones(self.shares, len(K))
        value = sum(share * self._overwritten(K[i], i) for i, share in enumerate(shares))
        K *= shares[:, None]
        on_diagonal = K[:, diagonal]
        noise_gradient = 0.5 * float(np.sum(on_diagonal * _noise(noise_variance, self.noise_factors)))
        variances = correlations @ K.ravel() - 0.5 * on_diagonal.sum()
        slopes *= K.ravel()
        lengths = slopes @ self.squares.reshape(-1, q) / kernel.length_scales**2
        by_component = np.concatenate([(kernel.variances[:, None] * lengths).ravel(), kernel.variances * variances])
        return float(value), np.append(by_component, noise_gradient)

    def values(self, kernel: Kernel, noise_variance: float) -> Floats:
        """Log likelihood of each set, times its share, (B,); minus infinity where the covariance is not definite."""
        _, _, K = self._matrices(kernel, noise_variance)
        values = np.empty(len(K))
        for i in range(len(K)):
            try:
                values[i] = self._factored(K[i], i)[0]
            except LinAlgError:
                values[i] = -np.inf
        return values * _or_ones(self.shares, len(K))

    def _matrices(self, kernel: Kernel, noise_variance: float) -> tuple[Floats, Floats, Floats]:
        """Correlations of components and their slopes (J, B * P), and the covariance matrices, packed (B, P)."""
        is_small = self.squares[..., 0].size <= MOST_KEPT
        correlations, slopes, total = _sum_of_components(kernel, self.squares, _scratch if is_small else None)
        K = total.reshape(len(self.y), -1)
        K[:, linalg.packed_diagonal(self.y.shape[1])] += _noise(noise_variance, self.noise_factors)
        return correlations, slopes, K

    def _factored(self, K: Floats, i: int) -> tuple[float, Floats, Floats | None]:
        """Log likelihood of a set of points for its packed covariance matrix, overwritten with its factor.

        Also whitened targets, and what the drift adds to them.
        """
        y = self.y[i]
        (n, k), diagonal = y.shape, linalg.packed_diagonal(len(y))
        if not linalg.packed_cholesky(K, n):
            raise LinAlgError("The covariance matrix is not positive definite.")
        log_determinant = 2.0 * float(np.sum(np.log(K[diagonal])))
        half = linalg.packed_solve(K, np.array(y, dtype=np.float64, order="F"))
        n_free, further = n, None
        if self.drift is not None:
            Q, R = np.linalg.qr(linalg.packed_solve(K, np.array(self.drift[i], dtype=np.float64, order="F")))
            half = half - Q @ (Q.T @ half)
            log_determinant += 2.0 * float(np.sum(np.log(np.abs(np.diagonal(R)))))
            n_free, further = n - Q.shape[1], k**0.5 * Q
        value: float = -0.5 * (float(np.sum(half * half)) + k * (log_determinant + n_free * LOG_2PI))
        return value, half, further

    def _overwritten(self, K: Floats, i: int) -> float:
        """Log likelihood of a set of points for its packed covariance matrix, overwritten with `M`.

        A derivative is half the sum of `M * dK`; `M = sum_t alpha_t alpha_t' - k K^-1`. With a drift `K^-1` is less
        the square of further columns.
        """
        value, half, further = self._factored(K, i)
        n, k = half.shape
        roots = half if further is None else np.column_stack([half, further])
        alpha = linalg.packed_solve(K, np.asfortranarray(roots), transposed=True)
        linalg.packed_rank_update(linalg.packed_inverse(K, n), alpha, -k)
        return value


@dataclass(frozen=True, eq=False)
class ConditionalStack:
    """Sets of points, of as many each, whose likelihoods given the first of them are added up.

    They are small and many: all that is done to them is done to all at once, where threads do not wait for Python.

    Attributes
    ----------
    squares : ndarray of shape (B, P, q)
        Squared differences of pairs of points, by column or summed; see `_Pairs`.
    y : ndarray of shape (B, n, k)
    n_given : int
        At least 1, and less than `n`.
    noise_factors : ndarray of shape (B, n) or None
    shares : ndarray of shape (B,) or None
        Factors of the terms of the sum.
    """

    squares: Floats
    y: Floats
    n_given: int
    noise_factors: Floats | None = None
    shares: Floats | None = None

    @classmethod
    def of(
        cls,
        X: Floats,
        y: Floats,
        by_column: bool,
        n_given: int,
        noise_factors: Floats | None = None,
        shares: Floats | None = None,
    ) -> ConditionalStack:
        """Sets of points (B, n, d)."""
        pairs = _pairs(X.shape[1])
        differences = X[:, pairs.first] - X[:, pairs.second]
        differences *= differences
        squares = differences if by_column else differences.sum(axis=2, keepdims=True)
        return cls(np.ascontiguousarray(squares), y, n_given, noise_factors, shares)

    @property
    def sizes(self) -> Floats:
        """Number of targets that each set stands for, (B,)."""
        B, n, k = self.y.shape
        return _or_ones(self.shares, B) * float((n - self.n_given) * k)

    def __call__(self, kernel: Kernel, noise_variance: float) -> tuple[float, Floats]:
        """Value, and gradient (J * q + J + 1,).

        A derivative is half the sum of `M * dK` with `M = sum_t (b_t b_t' + b_t a_t' + a_t b_t') - k C' S^-1 C`. `C`
        takes the targets to residuals, whose covariance is `S`; `b = C' S^-1 C y`, and `a` are the weights of given
        targets, with zeros for the others.
        """
        correlations, slopes, covariances = _sum_of_components(kernel, self.squares, _scratch)
        contrasts, weights, inverse, values = self._conditioned(covariances, noise_variance)
        (B, n, k), given = self.y.shape, self.n_given
        shares = _or_ones(self.shares, B)
        m, transposed = n - given, contrasts.transpose(0, 2, 1)
        b = transposed @ (inverse @ (contrasts @ self.y))
        # M is the product of two factors, with the shares in one of them.
        left, right = _scratch("left", (B, n, m + 2 * k)), _scratch("right", (B, m + 2 * k, n))
        left[:, :, :m], left[:, :, m : m + k], left[:, :, m + k :] = transposed, b, b
        np.matmul(-k * inverse, contrasts, out=right[:, :m])
        right[:, m + k :] = 0.0
        right[:, m + k :, :given] = weights.transpose(0, 2, 1)
        right[:, m : m + k] = b.transpose(0, 2, 1)
        left[:, :given, m : m + k] += weights
        right *= shares[:, None, None]
        M = np.matmul(left, right, out=_scratch("M", (B, n, n)))
        on_diagonal = np.einsum("bii->bi", M)
        noise_gradient = 0.5 * float(np.sum(on_diagonal * _noise(noise_variance, self.noise_factors)))
        on_diagonal *= 0.5  # all others are there twice
        of_pairs = _pairs(n).of(M).ravel()
        shape = len(of_pairs), self.squares.shape[2]
        weighted = np.multiply(of_pairs[:, None], self.squares.reshape(shape), out=_scratch("weighted", shape))
        variances = kernel.variances * (correlations @ of_pairs)
        lengths = kernel.variances[:, None] * (slopes @ weighted) / kernel.length_scales**2
        return float(shares @ values), np.concatenate([lengths.ravel(), variances, [noise_gradient]])

    def values(self, kernel: Kernel, noise_variance: float) -> Floats:
        """Log likelihood of each set, times its share, (B,); minus infinity where the covariance is not definite."""
        try:
            covariances = _sum_of_components(kernel, self.squares, _scratch)[2]
            return self._conditioned(covariances, noise_variance)[3] * _or_ones(self.shares, len(self.y))
        except LinAlgError:
            if len(self.y) == 1:
                return np.array([-np.inf])
        return np.concatenate([self._only(i).values(kernel, noise_variance) for i in range(len(self.y))])

    def _only(self, i: int) -> ConditionalStack:
        rows = slice(i, i + 1)
        factors, shares = (None if each is None else each[rows] for each in (self.noise_factors, self.shares))
        return ConditionalStack(self.squares[rows], self.y[rows], self.n_given, factors, shares)

    def _conditioned(self, covariances: Floats, noise_variance: float) -> tuple[Floats, Floats, Floats, Floats]:
        """Contrasts `C` (B, m, n), weights of given targets, `S^-1` (B, m, m), and values (B,).

        `covariances` are those of pairs (B * P,), without the noise.
        """
        y, (B, n, k), given = self.y, self.y.shape, self.n_given
        K = _pairs(n).matrices(covariances.reshape(B, -1))
        np.einsum("bii->bi", K)[:] += _noise(noise_variance, self.noise_factors)
        m = n - given
        right = np.concatenate([K[:, :given, given:], y[:, :given]], axis=2)
        solution = np.linalg.solve(K[:, :given, :given], right)
        contrasts = np.empty((B, m, n))
        np.negative(solution[:, :, :m].transpose(0, 2, 1), out=contrasts[:, :, :given])
        contrasts[:, :, given:] = np.eye(m)
        S = contrasts @ K[:, :, given:]
        # Where what is left of a variance is lost in rounding errors, matrices are not definite to working precision.
        rounding = np.finfo(np.float64).eps * np.einsum("bij->bi", np.abs(contrasts)) ** 2
        largest = np.einsum("bii->bi", K).max(axis=1, keepdims=True)
        if not bool(np.all(rounding * largest < MOST_ROUNDING * np.einsum("bii->bi", S))):
            raise LinAlgError("The covariance matrix is not positive definite.")
        factors, inverse = np.linalg.cholesky(S), np.linalg.inv(S)
        log_determinants = 2.0 * np.log(np.einsum("bii->bi", factors)).sum(axis=1)
        residuals = contrasts @ y
        quadratic = np.einsum("bik,bik->b", residuals, inverse @ residuals)
        values: Floats = -0.5 * (quadratic + k * (log_determinants + m * LOG_2PI))
        return contrasts, solution[:, :, m:], inverse, values


_scratch = Scratch()


class _Pairs(NamedTuple):
    """Pairs of `n` points, each once and each point with itself: `P = n (n + 1) / 2` of them."""

    first: Integers  # (P,)
    second: Integers  # (P,)
    below: Integers  # (P,): where they are in a matrix of n rows, below its diagonal
    of_matrix: Integers  # (n * n,): the pair of each entry

    def matrices(self, values: Floats) -> Floats:
        """Symmetric matrices (B, n, n) of values (B, P)."""
        B, n = len(values), int(self.second[-1]) + 1
        out = _scratch("matrices", (B, n * n))
        return values.take(self.of_matrix, axis=1, out=out, mode="clip").reshape(B, n, n)

    def of(self, M: Floats) -> Floats:
        """Entries (B, P) of symmetric matrices (B, n, n), each once."""
        entries: Floats = M.reshape(len(M), -1).take(
            self.below, axis=1, out=_scratch("entries", (len(M), len(self.first))), mode="clip"
        )
        return entries


@lru_cache(maxsize=64)
def _pairs(n: int) -> _Pairs:
    first, second = np.tril_indices(n)
    of_matrix = np.empty((n, n), dtype=np.int64)
    of_matrix[first, second] = of_matrix[second, first] = np.arange(len(first))
    return _Pairs(first, second, first * n + second, of_matrix.ravel())


def _or_ones(shares: Floats | None, n: int) -> Floats:
    return np.ones(n) if shares is None else shares


def _noise(noise_variance: float, noise_factors: Floats | None) -> Any:
    return noise_variance if noise_factors is None else noise_variance * noise_factors


def _sum_of_components(
    kernel: Kernel, squares: Floats, scratch: Scratch | None = None
) -> tuple[Floats, Floats, Floats]:
    """Correlations of the components (J, N) at squared differences (..., q), their slopes, and the covariance (N,)."""
    q = squares.shape[-1]
    squares = squares.reshape(-1, q)
    shape = kernel.n_scales, len(squares)
    if kernel.length_scales.shape[1] != q:
        raise ValueError(f"The kernel must have {q} length scales per component.")
    correlations = np.empty(shape) if scratch is None else scratch("correlations", shape)
    for scales, row in zip(kernel.length_scales, correlations, strict=True):
        if q == 1:
            np.multiply(squares[:, 0], scales[0] ** -2, out=row)
        else:
            np.matmul(squares, scales**-2, out=row)
    correlations, slopes = FAMILIES[kernel.family].with_slope(correlations)
    total = np.empty(shape[1]) if scratch is None else scratch("total", shape[1:])
    return correlations, slopes, np.matmul(kernel.variances, correlations, out=total)


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
