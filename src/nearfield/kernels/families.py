r"""Kernels that a regressor can be asked for by name, as functions of `s`, the squared distance in length scales.

Each is a mixture of Gaussians with length scales in fixed ratios (see `mixtures`), so that whatever needs features has
them; where a covariance matrix is made, it is the closed form that is evaluated.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..common.arrays import Array, namespace

ACCURACY, FINE = 1e-3, 1e-5  # of mixtures, as shares of the variance: what usually does, and what is as good as exact
ALPHA = 1.0  # shape of the rational quadratic kernel
NOWHERE = 1e-9
LEAST_EXPONENT = -300.0  # as good as none; below -708 the exponential of NumPy takes seven times as long


@dataclass(frozen=True)
class Family:
    """A kernel of one length scale and one variance."""

    name: str
    label: str  # in words
    smoothness: float | None = None  # nu of a Matern kernel

    def correlation(self, s: Array, factor: float = 1.0) -> Array:
        """Correlation at squared distances `factor * s`; NumPy arrays `s` may be overwritten."""
        if self.name == "gaussian":
            return _exp(s, -0.5 * factor)
        if self.name == "rational_quadratic":
            return 1.0 / (1.0 + (0.5 / ALPHA * factor) * s) ** ALPHA
        r = namespace(s).sqrt((2 * self._nu * factor) * s)
        decay = namespace(s).exp(-r)
        return decay if self._nu == 0.5 else (1.0 + r) * decay if self._nu == 1.5 else (1.0 + r + r * r / 3.0) * decay

    def with_slope(self, s: Array) -> tuple[Array, Array]:
        """Correlation, and what times `s` is its derivative by the logarithm of the length scale; `s` may be spoilt."""
        if self.name == "gaussian":
            correlation = _exp(s, -0.5)
            return correlation, correlation
        if self.name == "rational_quadratic":
            base = 1.0 + (0.5 / ALPHA) * s
            correlation = base**-ALPHA
            return correlation, correlation / base
        xp = namespace(s)
        r = xp.sqrt((2 * self._nu) * s)
        decay = xp.exp(-r)
        if self._nu == 0.5:
            apart = r > NOWHERE  # beyond rounding; at distance zero the derivative is
            return decay, xp.where(apart, decay / xp.where(apart, r, 1.0), 0.0)
        if self._nu == 1.5:
            return (1.0 + r) * decay, 3.0 * decay
        return (1.0 + r + r * r / 3.0) * decay, (5.0 / 3.0) * (1.0 + r) * decay

    @property
    def _nu(self) -> float:
        assert self.smoothness is not None
        return self.smoothness


def _exp(s: Array, factor: float) -> Array:
    """`exp(factor * s)`, in place of NumPy arrays; far out it stops falling, at less than 1e-100."""
    if isinstance(s, np.ndarray):  # these matrices are what fills the memory
        s *= factor
        if s.dtype == np.float64:
            np.maximum(s, LEAST_EXPONENT, out=s)
        return np.exp(s, out=s)
    result: Any = namespace(s).exp(factor * s)
    return result


FAMILIES = {
    family.name: family
    for family in (
        Family("gaussian", "Gaussian"),
        Family("matern12", "Matérn 1/2", 0.5),
        Family("matern32", "Matérn 3/2", 1.5),
        Family("matern52", "Matérn 5/2", 2.5),
        Family("rational_quadratic", "rational quadratic"),
    )
}
