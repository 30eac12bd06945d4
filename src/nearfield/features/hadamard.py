"""The Walsh-Hadamard transform in O(d log d)."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import hadamard

from ..common.arrays import Array, like, namespace

_LARGEST_FACTOR = 32


def next_power_of_two(n: int) -> int:
    """Smallest power of two that is at least `n`."""
    return 1 << max(n - 1, 0).bit_length()


def hadamard_transform(x: Array) -> Array:
    """Multiply the last axis by the unnormalised Walsh-Hadamard matrix `H_d` of entries +1 and -1.

    `H_d` is the Kronecker product of small Hadamard matrices of up to 32 rows; each is applied in turn as a matrix
    product. That is O(d log d) with the arithmetic where a processor is fastest, and several times faster than
    log2(d) passes of additions over memory.

    Parameters
    ----------
    x : array of shape (..., d), d a power of two

    Returns
    -------
    transformed : array of shape (..., d)
    """
    d = x.shape[-1]
    if d != next_power_of_two(d):
        raise ValueError(f"The last axis must be a power of two long. Got {d}.")
    xp = namespace(x)
    shape = x.shape
    stride = 1
    while stride < d:
        factor = min(_LARGEST_FACTOR, d // stride)
        matrix = like(_small_hadamard(factor), x)
        x = xp.reshape(x, (-1, factor)) @ matrix if stride == 1 else matrix @ xp.reshape(x, (-1, factor, stride))
        stride *= factor
    return xp.reshape(x, shape)


def pad_columns(x: Array, width: int) -> Array:
    """Append columns of zeros until the last axis is `width` long."""
    missing = width - x.shape[-1]
    if missing == 0:
        return x
    xp = namespace(x)
    zeros = xp.zeros_like(x[..., :1])
    return xp.concat([x, xp.broadcast_to(zeros, (*x.shape[:-1], missing))], axis=-1)


@lru_cache(maxsize=8)
def _small_hadamard(n: int) -> NDArray[np.float64]:
    return np.asarray(hadamard(n), dtype=np.float64)
