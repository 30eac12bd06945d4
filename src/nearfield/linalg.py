"""Factorisations and triangular solves that run side by side in threads.

SciPy's own wrappers of BLAS and LAPACK hold Python's global lock while they work, so threads over many small problems
would take turns. The same routines, reached through the function pointers that SciPy publishes for Cython, release it.

Matrices are in Fortran order unless said otherwise, and results overwrite their input.
"""

from __future__ import annotations

import ctypes
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cython_blas, cython_lapack

Floats = NDArray[Any]

_JITTERS = (1e-12, 1e-10, 1e-8, 1e-6)
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
    for module, names in ((cython_blas, ("syrk", "trsm")), (cython_lapack, ("potrf", "potri")))
    for name in names
    for code, prefix in _PREFIX.items()
}
_CHARS = {c: ctypes.c_char(c.encode()) for c in "LURNT"}
_ADDRESS = {c: ctypes.addressof(value) for c, value in _CHARS.items()}
_REALS = {
    "f": {0.0: ctypes.c_float(0.0), 1.0: ctypes.c_float(1.0)},
    "d": {0.0: ctypes.c_double(0.0), 1.0: ctypes.c_double(1.0)},
}


def _int(value: int) -> Any:
    return ctypes.byref(ctypes.c_int(value))


def _real(code: str, value: float) -> int:
    return ctypes.addressof(_REALS[code][value])


def gram_of_rows(rows: Floats) -> Floats:
    """Lower triangle of `rows @ rows.T` by a symmetric rank-k update.

    Parameters
    ----------
    rows : ndarray of shape (D, n), C order

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
            rows.ctypes.data, _int(n), _real(code, 0.0), gram.ctypes.data, _int(D),
        )  # fmt: skip
    return gram


def cholesky_in_place(A: Floats) -> bool:
    """Overwrite the lower triangle of `A` with its Cholesky factor; the upper triangle is neither read nor written.

    Returns
    -------
    success : bool
        False where `A` is not positive definite; its lower triangle is then spoilt.
    """
    n = len(A)
    if n == 0:
        return True
    info = ctypes.c_int(0)
    _ROUTINES["potrf", A.dtype.char](_ADDRESS["L"], _int(n), A.ctypes.data, _int(n), ctypes.byref(info))
    # A NaN can pass through the factorisation; it always reaches the last pivot.
    return info.value == 0 and bool(np.isfinite(A[-1, -1]))


def cholesky(A: Floats, what: str = "covariance matrix") -> tuple[Floats, float]:
    """Lower Cholesky factor of a symmetric matrix, with a little added to the diagonal if it must be.

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
    if not np.all(np.isfinite(diagonal)) or scale <= 0:
        raise LinAlgError(f"The {what} has values that are not finite or not positive on its diagonal.")
    for relative in _JITTERS:
        jitter = relative * scale
        lower = np.tril_indices(n, -1)
        A[lower] = A.T[lower]
        np.fill_diagonal(A, diagonal + jitter)
        if cholesky_in_place(A):
            warnings.warn(
                f"The {what} is singular to working precision; {jitter:.1e} was added to its diagonal. "
                "A larger noise_variance avoids this.",
                RuntimeWarning,
                stacklevel=3,
            )
            return A, jitter
    raise LinAlgError(f"The {what} is not positive definite, even with {_JITTERS[-1]:.0e} of its mean diagonal added.")


def inverse_in_place(L: Floats) -> None:
    """Overwrite the lower triangle of a Cholesky factor with that of the inverse of the matrix factored."""
    n = len(L)
    info = ctypes.c_int(0)
    _ROUTINES["potri", L.dtype.char](_ADDRESS["L"], _int(n), L.ctypes.data, _int(n), ctypes.byref(info))


def solve_lower(L: Floats, B: Floats, transposed: bool = False) -> Floats:
    """`L^-1 B`, or `L^-T B`, in place.

    Parameters
    ----------
    L : ndarray of shape (n, n), Fortran order
    B : ndarray of shape (n, m), Fortran order, overwritten
    """
    n, m = B.shape
    code = B.dtype.char
    if n and m:
        _ROUTINES["trsm", code](
            _ADDRESS["L"], _ADDRESS["L"], _ADDRESS["T" if transposed else "N"], _ADDRESS["N"],
            _int(n), _int(m), _real(code, 1.0), L.ctypes.data, _int(n), B.ctypes.data, _int(n),
        )  # fmt: skip
    return B


def solve_lower_rows(L: Floats, rows: Floats) -> Floats:
    """`L^-1 rows` in place, for `rows` of shape (D, m) in C order."""
    D, m = rows.shape
    code = rows.dtype.char
    if D and m:
        _ROUTINES["trsm", code](
            _ADDRESS["R"], _ADDRESS["L"], _ADDRESS["T"], _ADDRESS["N"],
            _int(m), _int(D), _real(code, 1.0), L.ctypes.data, _int(D), rows.ctypes.data, _int(m),
        )  # fmt: skip
    return rows


def log_determinant(L: Floats) -> float:
    """Logarithm of the determinant of the matrix whose Cholesky factor is `L`."""
    return 2.0 * float(np.sum(np.log(np.diagonal(L))))
