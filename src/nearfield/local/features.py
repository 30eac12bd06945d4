"""Features of a kernel around any centre: one map per Gaussian, side by side."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..common.arrays import Array, like, namespace
from ..common.types import Floats
from ..features import maclaurin, taylor
from ..kernels import Kernel
from .moments import MomentMap, moments_of

FeatureMap = taylor.TaylorMap | maclaurin.MaclaurinMap


@dataclass(frozen=True, eq=False, repr=False)
class LocalFeatures:
    """Features of the kernel around any centre: one map a Gaussian, side by side.

    Taylor features are left unnormalised, which saves a pass over them; the prior precision of their coefficients
    makes up for it.

    Attributes
    ----------
    kernel : Kernel
    maps : tuple of TaylorMap or MaclaurinMap, one a component of the kernel
    precision : ndarray of shape (D,)
        Prior precision of each coefficient.
    """

    kernel: Kernel
    maps: tuple[FeatureMap, ...]
    precision: Floats

    @classmethod
    def of(cls, kernel: Kernel, maps: tuple[FeatureMap, ...]) -> LocalFeatures:
        """Put the maps, one a component of the kernel, side by side."""
        precision = [
            1.0 / (variance * (m.scale**2 if isinstance(m, taylor.TaylorMap) else np.ones(m.n_components)))
            for m, (_, variance) in zip(maps, kernel.components(), strict=True)
        ]
        return cls(kernel, maps, np.concatenate(precision))

    @property
    def n_components(self) -> int:
        """Number of columns `D`."""
        return len(self.precision)

    @property
    def degrees(self) -> tuple[int, ...]:
        """Degrees of the Taylor features, one a scale; none for other maps."""
        return tuple(m.degree for m in self.maps if isinstance(m, taylor.TaylorMap))

    @cached_property
    def moments(self) -> MomentMap | None:
        """Moments in place of products of the features; None where there are none, or they would save nothing."""
        maps = [m for m in self.maps if isinstance(m, taylor.TaylorMap)]
        return moments_of(self.kernel.length_scales, maps) if maps and len(maps) == len(self.maps) else None

    @property
    def n_rows(self) -> int:
        """Numbers that a point takes while it is summed or asked for."""
        return self.n_components if self.moments is None else self.moments.n_rows

    @property
    def n_kept(self) -> int:
        """Numbers that a model keeps, those of each target aside."""
        return self.n_components**2 if self.moments is None else 2 * self.moments.n_moments

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "moments"}  # they follow from the rest

    def __repr__(self) -> str:
        kind = f"Taylor of degree {', '.join(map(str, self.degrees))}" if self.degrees else "Maclaurin"
        return f"LocalFeatures({kind}, {self.n_components} columns)"

    def rows(self, Z: Array, factor: Array | float = 1.0) -> Array:
        """Features times `factor`, one a row, of points relative to the centre: (..., n, d) to (..., D, n), C order."""
        xp = namespace(Z)
        blocks = []
        for feature_map, scales in zip(self.maps, self.kernel.length_scales, strict=True):
            scaled = Z / like(scales, Z)
            if isinstance(feature_map, taylor.TaylorMap):
                first = xp.exp(-0.5 * _squared_norms(scaled)) * factor
                blocks.append(taylor.monomial_rows(feature_map, scaled, first))
            else:
                rows = xp.matrix_transpose(maclaurin.apply(feature_map, scaled))
                rows = rows * (factor if isinstance(factor, float) else factor[..., None, :])
                blocks.append(np.ascontiguousarray(rows) if isinstance(rows, np.ndarray) else rows)
        return blocks[0] if len(blocks) == 1 else xp.concat(blocks, axis=-2)

    def missing_variance(self, Z: Array) -> Array:
        """What the features lack of the prior variance at points relative to the centre: (..., n, d) to (..., n)."""
        missing = 0.0
        for feature_map, (scales, variance) in zip(self.maps, self.kernel.components(), strict=True):
            scaled = Z / like(scales, Z)
            if isinstance(feature_map, taylor.TaylorMap):
                present = taylor.squared_norms(feature_map.degree, _squared_norms(scaled))
            else:
                present = _squared_norms(maclaurin.apply(feature_map, scaled))
            missing = missing + variance * _positive_part(1.0 - present)
        return missing


def _positive_part(values: Array) -> Array:
    return np.maximum(values, 0.0) if isinstance(values, np.ndarray) else values.clip(min=0.0)


def _squared_norms(Z: Array) -> Array:
    """Squared norms (..., n) of the rows of `Z` (..., n, d)."""
    return np.einsum("...ij,...ij->...i", Z, Z) if isinstance(Z, np.ndarray) else namespace(Z).sum(Z * Z, axis=-1)
