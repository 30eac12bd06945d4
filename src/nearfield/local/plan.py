"""What to do around each centre, and what it costs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..common.arrays import Array, namespace
from ..common.types import Booleans, Floats, Integers
from ..kernels import Kernel
from .features import LocalFeatures

FEW_FEATURES = 64  # of a model, so that most of its time is Python's
USUAL_SIDES = 2  # a target and a constant, which the costs below include


@dataclass(frozen=True, eq=False)
class Plan:
    """What to do around each centre.

    Attributes
    ----------
    kernel : Kernel
    radius : float or None
        Of the neighbourhoods; None takes all points.
    features : LocalFeatures or None
        None solves every neighbourhood in kernel space.
    correction : bool
        Give back what the features cannot represent as independent noise.
    either_side : bool
        Solve in kernel space where that is cheaper than with the features.
    count : int or None
        Neighbourhoods of so many nearest points, instead of a radius; with a radius, the least number of points, and
        neighbourhoods that must reach beyond the radius for it are solved in kernel space.
    feature_speed : float
        How many times as fast features are beside kernel space as their operations tell: devices may have kernels of
        their own for them.
    n_sides : int
        Right-hand sides of a model: targets, features of long scales, drift columns, and a constant.
    """

    kernel: Kernel
    radius: float | None
    features: LocalFeatures | None
    correction: bool = True
    either_side: bool = True
    count: int | None = None
    feature_speed: float = 1.0
    n_sides: int = USUAL_SIDES

    @property
    def is_quick(self) -> bool:
        """Whether a model takes a fraction of a millisecond: threads would but wait for each other's turn in Python."""
        return self.features is not None and self.features.n_components <= FEW_FEATURES

    @property
    def is_exact(self) -> bool:
        """Whether every centre is the exact Gaussian process."""
        return self.features is None and self.radius is None and self.count is None

    def takes_kernel_space(self, n_points: int) -> bool:
        """Whether a neighbourhood of so many points is solved in kernel space."""
        if self.features is None:
            return True
        if self.count is not None and n_points <= self.count:
            return True
        return self.either_side and bool(
            self.feature_speed * self.kernel_cost(n_points) <= self.features_cost(n_points)
        )

    def in_kernel_space(self, counts: Integers | Floats) -> Booleans:
        """The same for many neighbourhoods at once, (C,)."""
        if self.features is None:
            return np.ones(len(counts), dtype=bool)
        n = counts.astype(np.float64)
        cheaper: Booleans = self.feature_speed * self.kernel_cost(n) <= self.features_cost(n)
        few = n <= (-1 if self.count is None else self.count)
        return few | (cheaper & self.either_side)

    def kernel_cost(self, n_points: Any) -> Any:
        """Operations of a neighbourhood of so many points in kernel space, of one Gaussian."""
        return kernel_cost(n_points) + 2.0 * (self.n_sides - USUAL_SIDES) * n_points**2

    def features_cost(self, n_points: Any) -> Any:
        """Operations of a neighbourhood of so many points in feature space."""
        assert self.features is not None
        D, moments, k = self.features.n_components, self.features.moments, self.n_sides - USUAL_SIDES
        further = k * (2.0 * D**2 + 2.0 * D * n_points + k * n_points)
        return further + (
            feature_cost(n_points, D) if moments is None else moments_cost(n_points, D, moments.n_moments)
        )

    def prediction_cost(self, n_points: Any = None) -> Any:
        """Operations of a prediction from so many points in kernel space, or in feature space."""
        k = self.n_sides - USUAL_SIDES
        if n_points is not None:
            return 2.0 * n_points * (n_points + k)
        assert self.features is not None
        D, moments = self.features.n_components, self.features.moments
        return 2.0 * ((D**2 if moments is None else moments.n_moments) + D * k)

    def numbers(self, n_points: Floats) -> Floats:
        """Numbers that models of neighbourhoods of so many points (C,) keep, (C,)."""
        k = self.n_sides
        kept: Floats = n_points * (n_points + k)
        if self.features is None:
            return kept
        by_features = self.features.n_kept + 2.0 * self.features.n_components * k + float(k**2)
        numbers: Floats = np.where(self.in_kernel_space(n_points), kept, by_features)
        return numbers

    def total_variance(self, variance: Array, Z: Array) -> Array:
        """Variance of the features' part and, with the correction, of what they lack at points relative to a centre."""
        if not self.correction:
            return variance
        assert self.features is not None
        # Sketches may hold more than the prior has, which data can only lower.
        return namespace(Z).clip(variance + self.features.missing_variance(Z), None, self.kernel.variance)


def kernel_cost(n: Any) -> Any:
    """Operations of a neighbourhood of `n` points in kernel space (the constant stands for the exponentials)."""
    return n**3 / 3 + 40.0 * n**2


def moments_cost(n: Any, D: float, n_moments: float) -> Any:
    """The same where moments take the place of products; the inverse is needed for the variance.

    Moments are a matrix product, of which processors do three times as many operations a second as of the rest.
    """
    return n * (0.7 * n_moments + 15.0 * n_moments**0.5) + D**3 + 20.0 * D**2


def feature_cost(n: Any, D: float) -> Any:
    """Operations of a neighbourhood of `n` points with `D` features (the constant stands for their evaluation)."""
    return n * D**2 + 20.0 * n * D + D**3 / 3
