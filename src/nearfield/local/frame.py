"""How local models see the data: lengths in length scales, targets less a constant, noise with a floor."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from ..common.arrays import Array, in_units, like, namespace
from ..common.types import Floats
from ..kernels import Kernel

NO_NOISE = 1e-9  # of the signal variance, that stands for noise of 0: features divide by the noise
LEAST_NOISE = 1e-13  # of the signal variance, beside which less is rounding


@dataclass(frozen=True, eq=False)
class Noise:
    """How noise variances come from sample weights: `variance / weight`, but at least `floor`."""

    variance: float
    floor: float

    @classmethod
    def of(cls, variance: float, kernel: Kernel) -> Noise:
        """Noise beside a process: as it is, unless there is none, or none that numbers can tell."""
        return cls(variance, (LEAST_NOISE if variance > 0 else NO_NOISE) * kernel.variance)

    def __call__(self, like_rows: Array, weights: Array | None) -> Array:
        """Noise variances (n,), of the kind of array of `like_rows` (n, ...)."""
        xp = namespace(like_rows)
        ones = xp.ones_like(like_rows[:, 0])
        return xp.clip(self.variance * ones if weights is None else self.variance / weights, self.floor, None)


@dataclass(frozen=True, eq=False)
class Frame:
    """Units of local models.

    Attributes
    ----------
    unit : ndarray of shape (1,) or (d,)
        The shortest length scale.
    kernel : Kernel
        In these units.
    offset : array of shape (k,)
        What is taken off the targets. The mean of the targets may change later; this does not.
    noise : Noise
    """

    unit: Floats
    kernel: Kernel
    offset: Array
    noise: Noise

    @classmethod
    def of(cls, kernel: Kernel, noise_variance: float, offset: Array) -> Frame:
        """Frame of a kernel in the units of the data, of which local models see a sum of Gaussians."""
        kernel = kernel.expanded()
        whole = cls(kernel.length_scales[0], kernel, offset, Noise.of(noise_variance, kernel))
        return whole.with_kernel(kernel)

    def with_kernel(self, kernel: Kernel) -> Frame:
        """The same for another kernel, in the units of the data, of the same variance."""
        unit = kernel.length_scales[0]
        return replace(self, unit=unit, kernel=replace(kernel, length_scales=kernel.length_scales / unit))

    def points(self, X: Array) -> Array:
        """Points (n, d) in length scales."""
        return in_units(X, self.unit)

    def rows(self, X: Array, y: Array, weights: Array | None) -> tuple[Array, Array, Array]:
        """Points in length scales (n, d), targets less the offset (n, k), noise variances (n,)."""
        return self.points(X), y - self.offset, self.noise(X, weights)

    def positions(self, points: Array) -> Array:
        """The inverse of `points`: from length scales to the units of the data."""
        return points * like(self.unit, points)

    def in_length_scales(self, function: Callable[[Floats], Floats]) -> Callable[[Floats], Floats]:
        """A function from points to points, both in the units of the data, as one of points in length scales."""
        return lambda points: self.points(function(self.positions(points)))

    def rescaled(self, units: Floats) -> Frame:
        """Frame for data whose columns are multiplied by `units` (d,); points in length scales stay as they are."""
        return replace(self, unit=self.unit * units)
