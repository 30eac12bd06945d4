"""Derivatives of functions that are written down for real numbers, to rounding."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .types import Floats

_STEP = 1e-30  # nothing cancels, so it can be as small as one likes


def along_columns(function: Callable[[Floats], Floats], X: Floats) -> list[Floats]:
    """Derivatives of `function` at points (n, d) with respect to each column, by a step into the complex plane.

    The imaginary part of `f(x + i h) / h` is the derivative, without a difference being taken. The function must be
    analytic, each of its values depend on one point, and what it is made of take complex numbers.
    """
    result = []
    for c in range(X.shape[1]):
        stepped = X.astype(np.complex128)
        stepped[:, c] += 1j * _STEP
        result.append(np.imag(function(stepped)) / _STEP)
    return result
