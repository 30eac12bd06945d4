"""Local Gaussian processes: one small model around each centre, made from the points of its neighbourhood.

Points are in units of the length scale throughout (`Kernel` included), so that a radius of 3 is three length scales.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.neighbors import KDTree

from . import _memory, linalg
from ._array import Array, like, namespace
from .features import maclaurin, taylor
from .kernels import Kernel

Floats = NDArray[Any]
Integers = NDArray[np.int64]

FeatureMap = taylor.TaylorMap | maclaurin.MaclaurinMap


class _NoPoints:
    """The index of no points, which `KDTree` refuses to be."""

    def query_radius(self, centers: Floats, r: float, count_only: bool = False) -> Any:  # noqa: ARG002
        return np.zeros(len(centers), dtype=np.int64) if count_only else np.empty((len(centers), 0), dtype=np.int64)

    def query(self, centers: Floats, k: int, **options: Any) -> Any:  # noqa: ARG002
        return np.empty((len(centers), 0), dtype=np.int64)


@dataclass(frozen=True, eq=False)
class TrainingSet:
    """Points, centred targets and noise variances, with an index of neighbours.

    Attributes
    ----------
    X : ndarray of shape (n, d)
    y : ndarray of shape (n, k + 1)
        Targets, less a constant, and a last column of ones (see `Statistics`).
    noise : ndarray of shape (n,)
    tree : KDTree
    """

    X: Floats
    y: Floats
    noise: Floats
    tree: KDTree

    @classmethod
    def of(cls, X: Floats, y: Floats, noise: Floats) -> TrainingSet:
        """Build the index; `y` has shape (n, k)."""
        index = KDTree(X, leaf_size=100) if len(X) else _NoPoints()
        return cls(X, np.column_stack([y, np.ones(len(X))]), noise, index)

    def neighbourhoods(self, centers: Floats, radius: float | None, count: int | None = None) -> list[Integers]:
        """Points within `radius` of each centre, or its `count` nearest; with both, never fewer; with neither, all."""
        if radius is None:
            return [np.arange(len(self.X))] * len(centers) if count is None else self._nearest(centers, count)
        found = list(self.tree.query_radius(centers, radius))
        few = [i for i, f in enumerate(found) if count is not None and len(f) < count]
        if few:
            assert count is not None
            for i, nearest in zip(few, self._nearest(centers[few], count), strict=True):
                found[i] = nearest
        return found

    def _nearest(self, centers: Floats, count: int) -> list[Integers]:
        return list(self.tree.query(centers, k=min(count, len(self.X)), return_distance=False, sort_results=False))

    def counts(self, centers: Floats, radius: float | None) -> Integers:
        """How many points are within `radius` of each centre; without it, all."""
        if radius is None or len(centers) == 0:
            return np.full(len(centers), len(self.X))
        result: Integers = self.tree.query_radius(centers, radius, count_only=True)
        return result


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
    """

    kernel: Kernel
    radius: float | None
    features: LocalFeatures | None
    correction: bool = True
    either_side: bool = True
    count: int | None = None

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
        return self.either_side and kernel_cost(n_points) <= feature_cost(n_points, self.features.n_components)

    def total_variance(self, variance: Array, Z: Array) -> Array:
        """Variance of the features' part and, with the correction, of what they lack at points relative to a centre."""
        if not self.correction:
            return variance
        assert self.features is not None
        # Sketches may hold more than the prior has, which data can only lower.
        return namespace(Z).clip(variance + self.features.missing_variance(Z), None, self.kernel.variance)


def kernel_cost(n: float) -> float:
    """Operations of a neighbourhood of `n` points in kernel space (the constant stands for the exponentials)."""
    return n**3 / 3 + 40.0 * n**2


def feature_cost(n: float, D: float) -> float:
    """Operations of a neighbourhood of `n` points with `D` features (the constant stands for their evaluation)."""
    return n * D**2 + 20.0 * n * D + D**3 / 3


@dataclass(frozen=True, eq=False)
class FeatureModel:
    """Posterior around a centre in feature space.

    Attributes
    ----------
    factor : ndarray of shape (D, D)
        Lower Cholesky factor of `I + sum w phi phi'`.
    cross : ndarray of shape (D, k + 1)
        `sum w phi (y, 1)'`.
    coefficients : ndarray of shape (D, k + 1)
    """

    factor: Floats
    cross: Floats
    coefficients: Floats

    @property
    def n_bytes(self) -> int:
        """Memory taken."""
        return self.factor.nbytes + self.cross.nbytes + self.coefficients.nbytes

    def predict(self, plan: Plan, Z: Floats, with_variance: bool) -> tuple[Floats, Floats | None]:
        """Means (m, k + 1) and variances (m,) at points relative to the centre."""
        assert plan.features is not None
        rows = plan.features.rows(Z)
        mean = rows.T @ self.coefficients
        if not with_variance:
            return mean, None
        half = linalg.solve_lower_rows(self.factor, rows)
        return mean, plan.total_variance(np.einsum("ij,ij->j", half, half), Z)


@dataclass(frozen=True, eq=False)
class KernelModel:
    """Posterior around a centre in kernel space, which needs its points.

    Attributes
    ----------
    Z : ndarray of shape (n, d)
        Points relative to the centre.
    factor : ndarray of shape (n, n)
    coefficients : ndarray of shape (n, k + 1)
    """

    Z: Floats
    factor: Floats
    coefficients: Floats

    @property
    def n_bytes(self) -> int:
        """Memory taken."""
        return self.Z.nbytes + self.factor.nbytes + self.coefficients.nbytes

    def predict(self, plan: Plan, Z: Floats, with_variance: bool) -> tuple[Floats, Floats | None]:
        """Means (m, k + 1) and variances (m,) at points relative to the centre."""
        cross = plan.kernel(Z, self.Z)
        mean = cross @ self.coefficients
        if not with_variance:
            return mean, None
        half = linalg.solve_lower(self.factor, cross.T)
        return mean, np.maximum(plan.kernel.variance - np.einsum("ij,ij->j", half, half), 0.0)


LocalModel = FeatureModel | KernelModel


def fit_one(plan: Plan, Z: Floats, y: Floats, noise: Floats, counts: Floats | None = None) -> LocalModel:
    """Model around one centre from its neighbourhood: points relative to the centre, targets (n, k + 1), noise (n,).

    With `counts` (n,), each point is the average of so many, with the noise of an average.
    """
    if plan.takes_kernel_space(len(Z) if counts is None else int(counts.sum())):
        return _fit_kernel(plan.kernel, Z, y, noise)
    return finish(plan, *sums(plan, Z, y, noise, counts))


def sums(plan: Plan, Z: Floats, y: Floats, noise: Floats, counts: Floats | None = None) -> tuple[Floats, Floats]:
    """`sum w phi phi'` (D, D), lower triangle, and `sum w phi (y, 1)'` (D, k + 1) over a neighbourhood."""
    assert plan.features is not None
    D = plan.features.n_components
    gram, cross = np.zeros((D, D), order="F"), np.zeros((D, y.shape[1]))
    for chunk in batches(len(Z), _memory.rows_per_chunk(24 * D, len(Z))):
        variance = noise[chunk]
        if plan.correction:
            missing = plan.features.missing_variance(Z[chunk])
            variance = variance + (missing if counts is None else missing / counts[chunk])
        root = 1.0 / np.sqrt(variance)
        rows = plan.features.rows(Z[chunk], root)
        linalg.add_gram_of_rows(rows, gram)
        cross += rows @ (y[chunk] * root[:, None])
    return gram, cross


def finish(plan: Plan, gram: Floats, cross: Floats) -> FeatureModel:
    """Model around one centre from its sums; `gram` is overwritten."""
    assert plan.features is not None
    D = len(gram)
    gram.flat[:: D + 1] += plan.features.precision
    factor = gram.copy(order="F")
    if not linalg.cholesky_in_place(factor):
        factor, _ = linalg.cholesky(gram + np.tril(gram, -1).T, "feature matrix of a centre")
    coefficients = linalg.solve_lower(factor, np.array(cross, order="F"))
    return FeatureModel(factor, cross, linalg.solve_lower(factor, coefficients, transposed=True))


def _fit_kernel(kernel: Kernel, Z: Floats, y: Floats, noise: Floats) -> KernelModel:
    n = len(Z)
    K = kernel(Z, Z)
    K.flat[:: n + 1] += noise
    factor, _ = linalg.cholesky(K.T, "covariance matrix of a neighbourhood")
    coefficients = linalg.solve_lower(factor, np.array(y, order="F"))
    return KernelModel(Z, factor, linalg.solve_lower(factor, coefficients, transposed=True))


def batches(n: int, size: int = 64) -> list[slice]:
    """Slices of at most `size` that cover `range(n)`."""
    return [slice(start, min(start + size, n)) for start in range(0, n, size)]
