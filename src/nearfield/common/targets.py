"""Increasing transformations of the target: a model of `z = forward(y)` that answers in the units of `y`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import boxcox as power
from scipy.special import boxcox1p, inv_boxcox, inv_boxcox1p

from .types import Floats

KINDS = ("identity", "log", "sqrt", "boxcox", "yeojohnson", "transformer")
LARGEST = 1e300


@dataclass(frozen=True, eq=False)
class Target:
    """An increasing transformation of the target.

    Attributes
    ----------
    kind : str
        One of `KINDS`.
    power : float
        Of "boxcox" and "yeojohnson".
    unit : float
        What targets are divided by first.
    transformer : object or None
        With `transform` and `inverse_transform` for columns (n, 1).
    """

    kind: str = "identity"
    power: float = 1.0
    unit: float = 1.0
    transformer: Any = None

    @property
    def is_identity(self) -> bool:
        """Whether targets are taken as they are."""
        return self.kind == "identity"

    @property
    def is_log(self) -> bool:
        """Whether the transformation is a logarithm."""
        return self.kind == "log" or (self.kind == "boxcox" and self.power == 0)

    def forward(self, y: Floats) -> Floats:
        """Transformed values; minus infinity below what can be transformed."""
        y = np.asarray(y, dtype=np.float64)
        if self.kind == "identity":
            return y
        if self.kind == "transformer":
            column = np.asarray(self.transformer.transform(y.reshape(-1, 1)), dtype=np.float64)
            return column.reshape(y.shape)
        t = y / self.unit
        with np.errstate(divide="ignore", invalid="ignore"):
            if self.kind == "yeojohnson":
                return _yeo_johnson(t, self.power)
            if self.kind == "log":
                result = np.log(np.maximum(t, 0.0))
            elif self.kind == "sqrt":
                result = np.where(t >= 0, np.sqrt(np.maximum(t, 0.0)), -np.inf)
            else:
                result = np.where(t > 0, power(np.maximum(t, 1e-300), self.power), -np.inf)
        return np.asarray(result)

    def inverse(self, z: Floats) -> Floats:
        """Values in the units of the target; those beyond its range are at its end."""
        z = np.asarray(z, dtype=np.float64)
        if self.kind == "identity":
            return z
        if self.kind == "transformer":
            return np.asarray(self.transformer.inverse_transform(z.reshape(-1, 1)), dtype=np.float64).reshape(z.shape)
        with np.errstate(over="ignore"):
            if self.kind == "log":
                t = np.exp(z)
            elif self.kind == "sqrt":
                t = np.maximum(z, 0.0) ** 2
            elif self.kind == "boxcox":
                t = inv_boxcox(np.maximum(z, -1 / self.power if self.power > 0 else -np.inf), self.power)
            else:
                t = _inverse_yeo_johnson(z, self.power)
            result: Floats = np.clip(t * self.unit, -LARGEST, LARGEST)
        return result

    def lognormal_moments(self, mean: Floats, std: Floats) -> tuple[Floats, Floats]:
        """Means and standard deviations of targets whose logarithms are normal with these."""
        with np.errstate(over="ignore"):
            middle = self.unit * np.exp(mean + 0.5 * std**2)
            return np.minimum(middle, LARGEST), np.minimum(middle * np.sqrt(np.expm1(std**2)), LARGEST)

    def log_derivative(self, y: Floats) -> Floats:
        """Logarithm of the derivative of `forward`; minus infinity below what can be transformed."""
        y = np.asarray(y, dtype=np.float64)
        if self.kind == "identity":
            return np.zeros(y.shape)
        if self.kind == "transformer":
            step = 1e-5 * np.maximum(np.abs(y), 1e-3)
            slope = (self.forward(y + step) - self.forward(y - step)) / (2 * step)
            return np.asarray(np.log(np.maximum(slope, 1e-300)))
        t = y / self.unit
        exponent = {"log": 0.0, "sqrt": 0.5}.get(self.kind, self.power)
        with np.errstate(divide="ignore"):
            if self.kind == "yeojohnson":
                result = np.sign(t) * (self.power - 1) * np.log1p(np.abs(t))
            else:
                result = np.where(t > 0, (exponent - 1) * np.log(np.maximum(t, 1e-300)), -np.inf)
        return np.asarray(result - np.log(self.unit) + (np.log(0.5) if self.kind == "sqrt" else 0.0))

    def check(self, y: Floats, name: str = "y") -> None:
        """Refuse targets that cannot be transformed."""
        lowest = float(np.min(y, initial=np.inf))
        if self.kind in ("log", "boxcox") and lowest <= 0:
            raise ValueError(
                f"The {name!r} argument must be positive for target={self.kind!r}. Got {lowest:g}; 'yeojohnson' takes "
                "any number."
            )
        if self.kind == "sqrt" and lowest < 0:
            raise ValueError(f"The {name!r} argument must not be negative for target='sqrt'. Got {lowest:g}.")

    def in_words(self) -> str:
        """Name, and power where there is one."""
        if self.kind == "transformer":
            return type(self.transformer).__name__
        return f"{self.kind} with power {self.power:.2g}" if self.kind in ("boxcox", "yeojohnson") else self.kind


def _yeo_johnson(t: Floats, lam: float) -> Floats:
    result: Floats = np.where(t >= 0, boxcox1p(np.maximum(t, 0.0), lam), -boxcox1p(np.maximum(-t, 0.0), 2 - lam))
    return result


def _inverse_yeo_johnson(z: Floats, lam: float) -> Floats:
    # For powers from 0 to 2 every number has an inverse.
    above, below = inv_boxcox1p(np.maximum(z, 0.0), lam), inv_boxcox1p(np.maximum(-z, 0.0), 2 - lam)
    result: Floats = np.where(z >= 0, above, -below)
    return result
