"""The bridge to the array API: one place that knows more than one array library.

Functions of the library take NumPy arrays or any other array of the array-API standard (PyTorch tensors, for one) and
answer with the same kind of array, of the same dtype, on the same device.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import array_api_compat
import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = Any
"""An array of the array-API standard."""

FARTHEST = 1e100  # length scales from anything: squares of such distances are still numbers


def namespace(*arrays: Array) -> Any:
    """Array library of `arrays`, as a namespace of the array-API standard."""
    return array_api_compat.array_namespace(*arrays)


def like(values: Any, reference: Array) -> Array:
    """`values` as an array of the kind, dtype and device of `reference`."""
    if isinstance(reference, np.ndarray):  # in a fraction of the time
        return np.asarray(values, dtype=reference.dtype)
    xp = namespace(reference)
    return xp.asarray(values, dtype=reference.dtype, device=array_api_compat.device(reference))


def indices_like(values: Any, reference: Array) -> Array:
    """`values` as an integer array of the kind and device of `reference`."""
    xp = namespace(reference)
    return xp.asarray(values, dtype=xp.int64, device=array_api_compat.device(reference))


def empty_like_shape(shape: tuple[int, ...], reference: Array) -> Array:
    """Uninitialised array of `shape` of the kind, dtype and device of `reference`."""
    xp = namespace(reference)
    return xp.empty(shape, dtype=reference.dtype, device=array_api_compat.device(reference))


def is_tensor(values: Any) -> bool:
    """Whether these are a PyTorch tensor; PyTorch is not imported to find out."""
    return bool(array_api_compat.is_torch_array(values))


def on_host(values: Array) -> NDArray[Any]:
    """The same as a NumPy array."""
    return values.detach().cpu().numpy() if is_tensor(values) else np.asarray(values)


def as_doubles(values: Array) -> NDArray[np.float64]:
    """The same as a NumPy array in double precision."""
    return np.asarray(on_host(values), dtype=np.float64)


def in_units(X: Array, unit: Any) -> Array:
    """Points (n, d) in units of one length, or one per column; never so far that squares of distances overflow."""
    with np.errstate(over="ignore"):
        scaled = X / like(unit, X)
    farthest = FARTHEST if scaled.dtype.itemsize == 8 else 1e15
    return namespace(X).clip(scaled, -farthest, farthest)


def sum_runs(values: Array, counts: Array) -> Array:
    """Sums over runs of `counts` (m,) rows, each at least 1, of `values` (counts.sum(), ...); shape (m, ...)."""
    if not is_tensor(values):
        return np.add.reduceat(values, np.cumsum(counts) - counts) if len(counts) else values[:0]
    total = values.new_zeros((len(counts), *values.shape[1:]))
    xp = namespace(values)
    return total.index_add_(0, xp.repeat(xp.arange(len(counts), device=values.device), counts), values)


def side_by_side(answers: list[Any]) -> Any:
    """Arrays of one shape with one more axis at the end; of tuples of arrays, entry by entry."""
    if isinstance(answers[0], tuple):
        return tuple(side_by_side(list(each)) for each in zip(*answers, strict=True))
    if type(answers[0]).__module__.partition(".")[0] == "dask":
        import dask.array as da

        return da.stack(answers, axis=-1, allow_unknown_chunksizes=True)
    return namespace(*answers).stack(answers, axis=-1)


def weighted_mean(y: Array, weights: Array | None) -> Array:
    """Mean (k,) of the rows of `y` (n, k), with weights (n,); of equal numbers it is just these."""
    xp = namespace(y)
    mean = xp.mean(y, axis=0) if weights is None else xp.sum(y * weights[:, None], axis=0) / xp.sum(weights)
    # The mean of equal numbers may differ from them by rounding, and what that leaves would pass for a signal.
    return xp.where(xp.min(y, axis=0) == xp.max(y, axis=0), y[0, :], mean)


def column_range(X: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Least and largest value of each column of a matrix (n, d), n > 0: (d,) each.

    Column by column, which takes a hundredth of the time of `X.min(axis=0)` where columns are few.
    """
    return np.array([column.min() for column in X.T]), np.array([column.max() for column in X.T])


def stable_order(keys: NDArray[np.int64]) -> NDArray[np.int64]:
    """Order (n,) of numbers (n,) from 0 on, equal ones as they were: as a stable `argsort`, but in time linear in n."""
    order: NDArray[np.int64] = np.argsort((keys & 0xFFFF).astype(np.uint16), kind="stable")  # which counts
    digit = 16
    while len(keys) and int(keys.max()) >> digit:
        digits = ((keys >> digit) & 0xFFFF).astype(np.uint16)
        order = order[np.argsort(digits[order], kind="stable")]
        digit += 16
    return order


def column_products(A: Array, B: Array) -> Array:
    """Products (..., m) of each column of `A` (..., n, m) with its like in `B`."""
    return np.einsum("...ij,...ij->...j", A, B) if isinstance(A, np.ndarray) else namespace(A).vecdot(A, B, axis=-2)


def column_squares(A: Array) -> Array:
    """Squared norms (..., m) of the columns of `A` (..., n, m)."""
    return column_products(A, A)
