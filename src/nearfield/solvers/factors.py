"""Factors of symmetric positive definite matrices: one small interface for NumPy arrays and for tensors.

A factor of `A = L L'`, with `L` lower triangular, gives `solve(B)`, which is `A^-1 B`; `whiten(B)`, which is `L^-1 B`;
`log_determinant()` and `matrix()` of `A`; and `size`, its number of rows. `Cholesky` holds `L`, of one matrix.
`Whitener` holds `L^-1`, of many: a device is fast at many small products, and slow at many small triangular solves.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from scipy.linalg import blas

from ..common.arrays import Array, like, namespace
from ..common.warnings import warn
from . import linalg

LOG_2PI = float(np.log(2 * np.pi))
MOST_JITTER = 1e-2  # of the diagonal of a tensor
MANY_SIDES = 32  # right-hand sides, beyond which they are solved for as rows


@dataclass(frozen=True, eq=False)
class Cholesky:
    """One factor. A NumPy array is in Fortran order, and its upper triangle may hold anything."""

    lower: Array  # (n, n): `L`

    @property
    def size(self) -> int:
        """Number of rows."""
        return int(self.lower.shape[0])

    @property
    def n_bytes(self) -> int:
        """Memory taken."""
        return int(self.lower.nbytes)

    def solve(self, B: Array) -> Array:
        """`A^-1 B`, for `B` of shape (n, m)."""
        L = self.lower
        if isinstance(L, np.ndarray) and B.shape[1] > MANY_SIDES:  # which takes BLAS three quarters of the time
            rows = linalg.solve_lower_rows(L, np.array(B, dtype=L.dtype, order="C"))
            return linalg.solve_lower_rows(L, rows, transposed=True)
        if isinstance(L, np.ndarray):
            return linalg.solve_both(L, np.array(B, dtype=L.dtype, order="F"))
        return namespace(L).linalg.solve_triangular(L.mT, self.whiten(B), upper=True)

    def whiten(self, B: Array, overwrite: bool = False) -> Array:
        """`L^-1 B`, for `B` of shape (n, m).

        With `overwrite`, a NumPy array in C or Fortran order, or some columns of one, is solved in its own memory.
        """
        L = self.lower
        if not isinstance(L, np.ndarray):
            return namespace(L).linalg.solve_triangular(L, B, upper=False)
        if not overwrite:
            B = np.array(B, dtype=L.dtype, order="F")
        return linalg.solve_lower(L, B) if B.flags.f_contiguous else linalg.solve_lower_rows(L, B)

    def times(self, B: Array) -> Array:
        """`L B`, for a NumPy array `B` of shape (n, m), in double precision."""
        if 0 in B.shape:
            return np.zeros(B.shape)
        multiply = blas.strmm if self.lower.dtype == np.float32 else blas.dtrmm
        return multiply(1.0, self.lower, B, lower=1).astype(np.float64)

    def log_determinant(self) -> Array:
        """Logarithm of the determinant of `A`, in double precision."""
        xp = namespace(self.lower)
        return 2.0 * xp.sum(xp.log(xp.astype(xp.linalg.diagonal(self.lower), xp.float64)))

    def matrix(self) -> Array:
        """`A`, of shape (n, n)."""
        lower = namespace(self.lower).tril(self.lower)
        return lower @ lower.mT


@dataclass(frozen=True, eq=False)
class Whitener:
    """Many factors, of tensors.

    Where a row and its column are zero they stand for nothing: matrices of several sizes are side by side.
    """

    inverse: Array  # (..., n, n): `L^-1`

    @property
    def size(self) -> Array:
        """Number of rows that stand for something, (...)."""
        return (self._diagonal() > 0).sum(-1)

    @property
    def n_bytes(self) -> int:
        """Memory taken."""
        return int(self.inverse.nbytes)

    def solve(self, B: Array) -> Array:
        """`A^-1 B`, for `B` of shape (..., n, m)."""
        return self.inverse.mT @ (self.inverse @ B)

    def whiten(self, B: Array, overwrite: bool = False) -> Array:  # noqa: ARG002
        """`L^-1 B`, for `B` of shape (..., n, m)."""
        return self.inverse @ B

    def log_determinant(self) -> Array:
        """Logarithms of the determinants of `A`, (...), in double precision."""
        xp = namespace(self.inverse)
        diagonal = xp.astype(self._diagonal(), xp.float64)
        return -2.0 * xp.sum(xp.log(xp.where(diagonal > 0, diagonal, xp.ones_like(diagonal))), axis=-1)

    def matrix(self) -> Array:
        """`A`, of shape (..., n, n); there must be no rows that stand for nothing."""
        lower = inverse_of_lower(self.inverse)
        return lower @ lower.mT

    def take(self, chosen: Array) -> Whitener:
        """The factors at the indices `chosen` of the first dimension."""
        return Whitener(self.inverse[chosen])

    def without_padding(self, real: Array) -> Whitener:
        """The same without what is not `real`, (..., n), where `A` is the identity; overwrites it with zeros."""
        self._diagonal().mul_(real)
        return self

    def _diagonal(self) -> Array:
        return self.inverse.diagonal(dim1=-2, dim2=-1)


Factor: TypeAlias = Cholesky | Whitener


def factorise(A: Array, diagonal: Array, what: str, keep: bool = False) -> Factor:
    """Factor of `A + diag(diagonal)`, with a little added to the diagonal, and a warning, if need be.

    Parameters
    ----------
    A : array of shape (n, n), or tensor of shape (..., n, n)
        Symmetric.
    diagonal : array of shape (..., n)
    what : str
        Name of the matrix for warnings and errors.
    keep : bool
        Whether `A` stays as it is; of a NumPy array, only the lower triangle is read then. Otherwise it is overwritten.
    """
    if not isinstance(A, np.ndarray):
        lower = tensor_cholesky(with_diagonal(A.clone() if keep else A, diagonal), what)
        return Cholesky(lower) if A.ndim == 2 else Whitener(inverse_of_lower(lower))
    if keep:
        raised = with_diagonal(A.copy(order="F"), diagonal)
        if linalg.cholesky_in_place(raised):
            return Cholesky(raised)
        A = A + np.tril(A, -1).T  # mending a matrix takes both triangles
    whole = A if A.flags.f_contiguous else A.T
    return Cholesky(linalg.cholesky(with_diagonal(whole, diagonal), what)[0])


def with_diagonal(A: Array, values: Array) -> Array:
    """`A` (..., n, n) with `values` (..., n) added to its diagonal in place."""
    if isinstance(A, np.ndarray):
        A.flat[:: len(A) + 1] += values
    else:
        A.diagonal(dim1=-2, dim2=-1).add_(values)
    return A


def tensor_cholesky(A: Array, what: str) -> Array:
    """Lower factors of tensors (..., n, n); with a share of the diagonal added, and a warning, where it must be."""
    xp = namespace(A)
    lower, failed = xp.linalg.cholesky_ex(A)
    jitter = xp.finfo(A.dtype).eps * A.shape[-1]
    while bool((failed > 0).any()):
        if jitter > MOST_JITTER:
            raise xp.linalg.LinAlgError(
                f"The {what} is not positive definite. A larger noise_variance, or float64 instead of float32, helps."
            )
        bad = failed > 0
        # A share of each entry, so that it does not matter in which units the rows are.
        raised = A[bad]
        raised.diagonal(dim1=-2, dim2=-1).mul_(1 + jitter)
        lower[bad], failed[bad] = xp.linalg.cholesky_ex(raised)
        warn(
            f"{int(bad.sum())} of the matrices ({what}) were not positive definite: {jitter:.0e} of their diagonal was "
            "added.",
        )
        jitter *= 10
    return lower


def inverse_of_lower(lower: Array) -> Array:
    """Inverses of lower triangular tensors (..., n, n)."""
    xp = namespace(lower)
    eye = xp.eye(lower.shape[-1], dtype=lower.dtype, device=lower.device)
    return xp.linalg.solve_triangular(lower, eye.expand_as(lower), upper=False)


def log_density(quadratic: Array, log_determinant: Array, n: Any) -> Array:
    """Logarithms (..., k) of Gaussian densities, from the quadratic forms (..., k) of `k` vectors of `n` numbers."""
    xp = namespace(quadratic)
    double = xp.astype(quadratic, xp.float64)
    return -0.5 * (double + (log_determinant + like(n, double) * LOG_2PI)[..., None])
