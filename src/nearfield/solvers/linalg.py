"""Factorisations and triangular solves that run side by side in threads.

SciPy's own wrappers of BLAS and LAPACK hold Python's global lock while they work, so threads over many small problems
would take turns. The same routines, reached through the function pointers that SciPy publishes for Cython, release it.

Matrices are in Fortran order unless said otherwise, and results overwrite their input.

A *packed* matrix is the lower triangle of a symmetric one as a vector of `n (n + 1) / 2` numbers, in LAPACK's
rectangular full packed format: half the memory and half the work of every pass over its entries, with factorisations
as fast as those of a full matrix.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError, cython_blas, cython_lapack

from ..common.telling import tell
from ..common.types import Floats, Integers
from ..common.warnings import warn

PANEL = 4096
"""Columns of a Cholesky factorisation that LAPACK is given at once. Its own factorisation of more than 12 000 rows on
several threads has been seen to crash in OpenBLAS 0.3.30, and Ctrl-C is heard between two panels."""
_JITTERS = (1e-12, 1e-10, 1e-8, 1e-6)
SIDES = 256
"""Right-hand sides that are solved for at once: enough for BLAS to be fast, and little memory beside the factor."""
_PREFIX = {"f": "s", "d": "d"}


def _routine(module: Any, name: str) -> Callable[..., None]:
    """Fortran routine behind a Cython function pointer; every argument is an address."""
    capsule = module.__pyx_capi__[name]
    api = ctypes.pythonapi
    api.PyCapsule_GetName.restype = ctypes.c_char_p
    api.PyCapsule_GetName.argtypes = [ctypes.py_object]
    api.PyCapsule_GetPointer.restype = ctypes.c_void_p
    api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    signature = api.PyCapsule_GetName(capsule)
    address = api.PyCapsule_GetPointer(capsule, signature)
    n_arguments = signature.count(b",") + 1
    return ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * n_arguments)(address)


_ROUTINES = {
    (name, code): _routine(module, prefix + name)
    for module, names in (
        (cython_blas, ("syrk", "trsm")),
        (cython_lapack, ("potrf", "potrs", "potri", "pftrf", "pftri", "tfsm", "sfrk", "trttf")),
    )
    for name in names
    for code, prefix in _PREFIX.items()
}
_CHARS = {c: ctypes.c_char(c.encode()) for c in "LURNT"}
_ADDRESS = {c: ctypes.addressof(value) for c, value in _CHARS.items()}
_REALS: dict[str, dict[float, Any]] = {
    "f": {value: ctypes.c_float(value) for value in (-1.0, 0.0, 1.0)},
    "d": {value: ctypes.c_double(value) for value in (-1.0, 0.0, 1.0)},
}


@lru_cache(maxsize=4096)
def _int(value: int) -> Any:
    return ctypes.byref(ctypes.c_int(value))


def _real(code: str, value: float) -> int:
    return ctypes.addressof(_REALS[code][value])


def gram_of_rows(rows: Floats) -> Floats:
    """Lower triangle of `rows @ rows.T`, by a symmetric rank-k update.

    Parameters
    ----------
    rows : ndarray of shape (D, n), C order, or some columns of such an array

    Returns
    -------
    gram : ndarray of shape (D, D), Fortran order; the upper triangle is zero
    """
    D, n = rows.shape
    code = rows.dtype.char
    gram = np.zeros((D, D), dtype=rows.dtype, order="F")
    if n:
        _ROUTINES["syrk", code](
            _ADDRESS["L"], _ADDRESS["T"], _int(D), _int(n), _real(code, 1.0),
            rows.ctypes.data, _int(_stride(rows)), _real(code, 1.0), gram.ctypes.data, _int(D),
        )  # fmt: skip
    return gram


def _stride(rows: Floats) -> int:
    """Numbers from one row to the next of an array in C order, or of some columns of one."""
    if rows.shape[1] > 1 and rows.strides[1] != rows.itemsize:
        raise ValueError("Rows must be in C order.")
    return max(int(rows.strides[0]) // int(rows.itemsize), int(rows.shape[1]))


def cholesky_in_place(A: Floats) -> bool:
    """Overwrite the lower triangle of `A` with its Cholesky factor; the upper triangle is neither read nor written.

    Returns
    -------
    success : bool
        False where `A` is not positive definite; its lower triangle is then spoilt.
    """
    n, code = len(A), A.dtype.char
    info = ctypes.c_int(0)
    for start in range(0, n, PANEL):
        width = min(PANEL, n - start)
        stop, left = start + width, n - start - width
        corner, below, rest = _address(A, start, start), _address(A, stop, start), _address(A, stop, stop)
        _ROUTINES["potrf", code](_ADDRESS["L"], _int(width), corner, _int(n), ctypes.byref(info))
        if info.value:
            return False
        if left:
            _ROUTINES["trsm", code](
                _ADDRESS["R"], _ADDRESS["L"], _ADDRESS["T"], _ADDRESS["N"],
                _int(left), _int(width), _real(code, 1.0), corner, _int(n), below, _int(n),
            )  # fmt: skip
            _ROUTINES["syrk", code](
                _ADDRESS["L"], _ADDRESS["N"], _int(left), _int(width),
                _real(code, -1.0), below, _int(n), _real(code, 1.0), rest, _int(n),
            )  # fmt: skip
            tell("factorising", 1.0 - (left / n) ** 3)
        elif start:
            tell("factorising", 1.0)
    # A NaN can pass through the factorisation; it always reaches the last pivot.
    return n == 0 or bool(np.isfinite(A[-1, -1]))


def _address(A: Floats, i: int, j: int) -> int:
    """Where an entry of a matrix in Fortran order is in memory; it may be one beyond the last."""
    return int(A.ctypes.data) + (i + j * len(A)) * A.itemsize


def inverse_diagonal(L: Floats, rows: Integers) -> Floats:
    """Entries `[A^-1]_ii` (m,) of the inverse of the matrix `A = L L'`, for rows `i` (m,) of it.

    They are the squared lengths of `L^-1 e_i`, whose entries before `i` are zero: only what follows is solved for.
    """
    n, code = len(L), L.dtype.char
    _require_factor(L, n, code)
    entries = np.empty(len(rows), dtype=L.dtype)
    order = np.argsort(rows, kind="stable")
    for start in range(0, len(rows), SIDES):
        chosen = order[start : start + SIDES]
        first = int(rows[chosen[0]])
        columns = np.zeros((n - first, len(chosen)), dtype=L.dtype, order="F")
        columns[rows[chosen] - first, np.arange(len(chosen))] = 1.0
        _ROUTINES["trsm", code](
            _ADDRESS["L"], _ADDRESS["L"], _ADDRESS["N"], _ADDRESS["N"], _int(n - first), _int(len(chosen)),
            _real(code, 1.0), _address(L, first, first), _int(n), columns.ctypes.data, _int(n - first),
        )  # fmt: skip
        entries[chosen] = np.einsum("ij,ij->j", columns, columns)
    return entries


def cholesky(A: Floats, what: str = "covariance matrix") -> tuple[Floats, float]:
    """Lower Cholesky factor of a symmetric matrix, with a little added to the diagonal if it must be.

    Nothing is added in single precision, which is there to save time: where it does not do, double precision may.

    Parameters
    ----------
    A : ndarray of shape (n, n), Fortran order, overwritten (its strict upper triangle with anything)
    what : str
        Name of the matrix for warnings and errors.

    Returns
    -------
    L : ndarray of shape (n, n), the memory of `A`; use its lower triangle only
    jitter : float
        What was added to the diagonal, 0 in all ordinary cases; a warning reports it otherwise.
    """
    n = len(A)
    diagonal = np.diagonal(A).copy()
    scale = float(np.mean(diagonal)) if n else 1.0
    # The upper triangle keeps the original, should the factorisation fail.
    if cholesky_in_place(A):
        return A, 0.0
    if A.dtype == np.float32:
        raise LinAlgError(f"The {what} is not positive definite in single precision.")
    if not np.all(np.isfinite(diagonal)) or scale <= 0:
        raise LinAlgError(f"The {what} has values that are not finite or not positive on its diagonal.")
    for relative in _JITTERS:
        jitter = relative * scale
        for j in range(n - 1):  # column by column: index arrays would take more memory than the matrix
            A[j + 1 :, j] = A[j, j + 1 :]
        np.fill_diagonal(A, diagonal + jitter)
        if cholesky_in_place(A):
            warn(
                f"The {what} is singular to working precision; {jitter:.1e} was added to its diagonal. "
                "A larger noise_variance avoids this.",
                RuntimeWarning,
            )
            return A, jitter
    raise LinAlgError(f"The {what} is not positive definite, even with {_JITTERS[-1]:.0e} of its mean diagonal added.")


def _require_factor(L: Floats, n: int, code: str) -> None:
    """Refuse what the routines, which see addresses only, would read beyond its end."""
    if L.shape != (n, n) or L.dtype.char != code or not L.flags.f_contiguous:
        raise ValueError(f"The factor must have shape ({n}, {n}), the type of the right side, and Fortran order.")


def solve_lower(L: Floats, B: Floats, transposed: bool = False) -> Floats:
    """`L^-1 B`, or `L^-T B`, in place.

    Parameters
    ----------
    L : ndarray of shape (n, n), Fortran order
    B : ndarray of shape (n, m), Fortran order, overwritten
    """
    n, m = B.shape
    code = B.dtype.char
    _require_factor(L, n, code)
    if n and m:
        _ROUTINES["trsm", code](
            _ADDRESS["L"], _ADDRESS["L"], _ADDRESS["T" if transposed else "N"], _ADDRESS["N"],
            _int(n), _int(m), _real(code, 1.0), L.ctypes.data, _int(n), B.ctypes.data, _int(n),
        )  # fmt: skip
    return B


def solve_both(L: Floats, B: Floats) -> Floats:
    """`(L L')^-1 B` in place, for `B` of shape (n, m) in Fortran order."""
    n, m = B.shape
    code = B.dtype.char
    _require_factor(L, n, code)
    if n and m:
        info = ctypes.c_int(0)
        _ROUTINES["potrs", code](
            _ADDRESS["L"], _int(n), _int(m), L.ctypes.data, _int(n), B.ctypes.data, _int(n), ctypes.byref(info)
        )
    return B


def solve_lower_rows(L: Floats, rows: Floats, transposed: bool = False) -> Floats:
    """`L^-1 rows`, or `L^-T rows`, in place, for `rows` (D, m) in C order, or some columns of such an array."""
    D, m = rows.shape
    code = rows.dtype.char
    _require_factor(L, D, code)
    if D and m:
        _ROUTINES["trsm", code](
            _ADDRESS["R"], _ADDRESS["L"], _ADDRESS["N" if transposed else "T"], _ADDRESS["N"],
            _int(m), _int(D), _real(code, 1.0), L.ctypes.data, _int(D), rows.ctypes.data, _int(_stride(rows)),
        )  # fmt: skip
    return rows


def inverse_in_place(L: Floats) -> Floats:
    """Overwrite the lower triangle of a Cholesky factor with that of the inverse of the matrix factored."""
    n = len(L)
    _require_factor(L, n, L.dtype.char)
    if n:
        info = ctypes.c_int(0)
        _ROUTINES["potri", L.dtype.char](_ADDRESS["L"], _int(n), L.ctypes.data, _int(n), ctypes.byref(info))
    return L


def log_determinant(L: Floats) -> float:
    """Logarithm of the determinant of the matrix whose Cholesky factor is `L`."""
    return 2.0 * float(np.sum(np.log(np.diagonal(L))))


# ---- packed matrices, float64 ------------------------------------------------------------------------------------


def pack(A: Floats) -> Floats:
    """Symmetric matrix `A`, of which the lower triangle is read, as a packed one."""
    n = len(A)
    packed = np.empty(n * (n + 1) // 2)
    A = np.asfortranarray(A)
    info = ctypes.c_int(0)
    _ROUTINES["trttf", "d"](
        _ADDRESS["N"], _ADDRESS["L"], _int(n), A.ctypes.data, _int(n), packed.ctypes.data, ctypes.byref(info)
    )
    return packed


@lru_cache(maxsize=64)
def packed_diagonal(n: int) -> Integers:
    """Where the diagonal is in a packed matrix."""
    # A rectangle of odd height holds the first half of the columns; the triangle of the others fits, transposed,
    # above theirs. An even n needs one more row for that, and the first half then starts in the second row.
    height = n + 1 - n % 2
    first, second = (0, height) if n % 2 else (1, 0)
    steps = np.arange(-(-n // 2)) * (height + 1)
    return np.concatenate([first + steps, second + steps[: n // 2]])


def packed_cholesky(packed: Floats, n: int) -> bool:
    """Overwrite a packed matrix with its Cholesky factor; False where it is not positive definite."""
    info = ctypes.c_int(0)
    _ROUTINES["pftrf", "d"](_ADDRESS["N"], _ADDRESS["L"], _int(n), packed.ctypes.data, ctypes.byref(info))
    return info.value == 0 and bool(np.isfinite(packed[packed_diagonal(n)[-1]]))


def packed_solve(factor: Floats, B: Floats, transposed: bool = False) -> Floats:
    """`L^-1 B`, or `L^-T B`, in place, for a packed Cholesky factor and `B` of shape (n, m) in Fortran order."""
    n, m = B.shape
    _ROUTINES["tfsm", "d"](
        _ADDRESS["N"], _ADDRESS["L"], _ADDRESS["L"], _ADDRESS["T" if transposed else "N"], _ADDRESS["N"],
        _int(n), _int(m), _real("d", 1.0), factor.ctypes.data, B.ctypes.data, _int(n),
    )  # fmt: skip
    return B


def packed_inverse(factor: Floats, n: int) -> Floats:
    """Overwrite a packed Cholesky factor with the inverse of the matrix factored."""
    info = ctypes.c_int(0)
    _ROUTINES["pftri", "d"](_ADDRESS["N"], _ADDRESS["L"], _int(n), factor.ctypes.data, ctypes.byref(info))
    return factor


def packed_rank_update(packed: Floats, B: Floats, factor: float) -> Floats:
    """Overwrite a packed matrix with `factor` times itself plus `B B'`, for `B` of shape (n, m) in Fortran order."""
    n, m = B.shape
    _ROUTINES["sfrk", "d"](
        _ADDRESS["N"], _ADDRESS["L"], _ADDRESS["N"], _int(n), _int(m), _real("d", 1.0),
        B.ctypes.data, _int(n), ctypes.byref(ctypes.c_double(factor)), packed.ctypes.data,
    )  # fmt: skip
    return packed
