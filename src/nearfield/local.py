"""Local Gaussian processes: one small model around each centre, made from the points of its neighbourhood.

Points are in units of the length scale throughout (`Kernel` included), so that a radius of 3 is three length scales.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.neighbors import KDTree

from . import _memory, linalg
from ._parallel import thread_map
from .features import maclaurin, taylor
from .kernels import Kernel

Floats = NDArray[Any]
Integers = NDArray[np.int64]

FeatureMap = taylor.TaylorMap | maclaurin.MaclaurinMap

_BATCH = 64


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
        return cls(X, np.column_stack([y, np.ones(len(X))]), noise, KDTree(X, leaf_size=100))

    def neighbourhoods(self, centers: Floats, radius: float | None, count: int | None = None) -> list[Integers]:
        """Points within `radius` of each centre, or its `count` nearest; without either, all points."""
        if count is not None:
            nearest = self.tree.query(centers, k=min(count, len(self.X)), return_distance=False, sort_results=False)
            return list(nearest)
        if radius is None:
            return [np.arange(len(self.X))] * len(centers)
        return list(self.tree.query_radius(centers, radius))


@dataclass(frozen=True, eq=False)
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

    def rows(self, Z: Floats, factor: Floats | float = 1.0) -> Floats:
        """Features times `factor`, one a row, of points relative to the centre: (n, d) to (D, n), in C order."""
        blocks = []
        for feature_map, scales in zip(self.maps, self.kernel.length_scales, strict=True):
            scaled = Z / scales
            if isinstance(feature_map, taylor.TaylorMap):
                first = np.exp(-0.5 * np.einsum("ij,ij->i", scaled, scaled)) * factor
                blocks.append(taylor.monomial_rows(feature_map, scaled, first))
            else:
                blocks.append(np.ascontiguousarray(maclaurin.apply(feature_map, scaled).T * factor))
        return blocks[0] if len(blocks) == 1 else np.concatenate(blocks)

    def missing_variance(self, Z: Floats) -> Floats:
        """What the features lack of the prior variance at points relative to the centre: (n, d) to (n,)."""
        missing = np.zeros(len(Z))
        for feature_map, (scales, variance) in zip(self.maps, self.kernel.components(), strict=True):
            scaled = Z / scales
            if isinstance(feature_map, taylor.TaylorMap):
                present = taylor.squared_norms(feature_map.degree, np.einsum("ij,ij->i", scaled, scaled))
            else:
                features = maclaurin.apply(feature_map, scaled)
                present = np.einsum("ij,ij->i", features, features)
            missing += variance * np.maximum(1.0 - present, 0.0)
        return missing


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
        Neighbourhoods of so many nearest points, instead of a radius.
    """

    kernel: Kernel
    radius: float | None
    features: LocalFeatures | None
    correction: bool = True
    either_side: bool = True
    count: int | None = None

    def takes_kernel_space(self, n_points: int) -> bool:
        """Whether a neighbourhood of so many points is solved in kernel space."""
        if self.features is None:
            return True
        return self.either_side and kernel_cost(n_points) <= feature_cost(n_points, self.features.n_components)


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
        variance = np.einsum("ij,ij->j", half, half)
        if plan.correction:
            # Sketches may hold more than the prior has, which data can only lower.
            variance = np.minimum(variance + plan.features.missing_variance(Z), plan.kernel.variance)
        return mean, variance


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


def fit_one(plan: Plan, Z: Floats, y: Floats, noise: Floats) -> LocalModel:
    """Model around one centre from its neighbourhood: points relative to the centre, targets (n, k + 1), noise (n,)."""
    if plan.takes_kernel_space(len(Z)):
        return _fit_kernel(plan.kernel, Z, y, noise)
    return finish(plan, *sums(plan, Z, y, noise))


def sums(plan: Plan, Z: Floats, y: Floats, noise: Floats) -> tuple[Floats, Floats]:
    """`sum w phi phi'` (D, D), lower triangle, and `sum w phi (y, 1)'` (D, k + 1) over a neighbourhood."""
    assert plan.features is not None
    D = plan.features.n_components
    gram, cross = np.zeros((D, D), order="F"), np.zeros((D, y.shape[1]))
    for chunk in batches(len(Z), _memory.rows_per_chunk(24 * D)):
        variance = noise[chunk]
        if plan.correction:
            variance = variance + plan.features.missing_variance(Z[chunk])
        root = 1.0 / np.sqrt(variance)
        rows = plan.features.rows(Z[chunk], root)
        linalg.add_gram_of_rows(rows, gram)
        cross += rows @ (y[chunk] * root[:, None])
    return gram, cross


def finish(plan: Plan, gram: Floats, cross: Floats) -> FeatureModel:
    """Model around one centre from its sums; `gram` is overwritten."""
    assert plan.features is not None
    D = len(gram)
    # The upper triangle keeps a copy: the factorisation leaves it alone, and needs it should it fail.
    gram += np.tril(gram, -1).T
    gram.flat[:: D + 1] += plan.features.precision
    factor, _ = linalg.cholesky(gram, "feature matrix of a centre")
    coefficients = linalg.solve_lower(factor, np.array(cross, order="F"))
    return FeatureModel(factor, cross, linalg.solve_lower(factor, coefficients, transposed=True))


def _fit_kernel(kernel: Kernel, Z: Floats, y: Floats, noise: Floats) -> KernelModel:
    n = len(Z)
    K = kernel(Z, Z)
    K.flat[:: n + 1] += noise
    factor, _ = linalg.cholesky(K.T, "covariance matrix of a neighbourhood")
    coefficients = linalg.solve_lower(factor, np.array(y, order="F"))
    return KernelModel(Z, factor, linalg.solve_lower(factor, coefficients, transposed=True))


def fit_all(plan: Plan, data: TrainingSet, centers: Floats, n_jobs: int | None) -> list[LocalModel]:
    """Models around all centres."""

    def work(batch: slice) -> list[LocalModel]:
        chosen = centers[batch]
        neighbourhoods = data.neighbourhoods(chosen, plan.radius, plan.count)
        return [
            fit_one(plan, data.X[found] - center, data.y[found], data.noise[found])
            for center, found in zip(chosen, neighbourhoods, strict=True)
        ]

    pieces = batches(len(centers), min(_BATCH, max(len(centers) // 8, 1)))
    return [model for part in thread_map(work, pieces, n_jobs) for model in part]


def update_all(
    plan: Plan,
    models: Sequence[LocalModel],
    new: TrainingSet,
    data: TrainingSet,
    centers: Floats,
    n_jobs: int | None,
) -> list[LocalModel]:
    """Models with `new` points taken in; `data` holds all points, old and new.

    Sums take the new points in by addition. A centre in kernel space is made again, on the side that is now cheaper.
    """

    def work(batch: slice) -> list[LocalModel]:
        result: list[LocalModel] = []
        added = new.neighbourhoods(centers[batch], plan.radius)
        for i, found in zip(range(batch.start, batch.stop), added, strict=True):
            model, center = models[i], centers[i]
            if isinstance(model, FeatureModel) and len(found):
                gram, cross = sums(plan, new.X[found] - center, new.y[found], new.noise[found])
                lower = np.tril(model.factor)
                before = np.asfortranarray(np.tril(lower @ lower.T))
                assert plan.features is not None
                before.flat[:: len(before) + 1] -= plan.features.precision
                model = finish(plan, before + gram, model.cross + cross)
            elif isinstance(model, KernelModel):
                around = data.neighbourhoods(center[None], plan.radius, plan.count)[0]
                model = fit_one(plan, data.X[around] - center, data.y[around], data.noise[around])
            result.append(model)
        return result

    return [model for part in thread_map(work, batches(len(centers)), n_jobs) for model in part]


def predict_groups(
    plan: Plan,
    models: Sequence[LocalModel],
    centers: Floats,
    X: Floats,
    owner: Integers,
    with_variance: bool,
    n_jobs: int | None,
) -> tuple[Floats, Floats]:
    """Means (m, k + 1) and variances (m,) at `X`, each point by the model of its centre `owner`."""
    k = models[0].coefficients.shape[1]
    mean, variance = np.empty((len(X), k)), np.zeros(len(X))
    order = np.argsort(owner, kind="stable")
    bounds = np.searchsorted(owner[order], np.arange(len(centers) + 1))
    longest = max(model.factor.shape[0] for model in models)
    step = min(_memory.rows_per_chunk(24 * longest), 4096)
    # A piece of work is a run of points in the order of their centres; large groups are cut.
    pieces = [
        (int(i), slice(start, min(start + step, int(bounds[i + 1]))))
        for i in np.flatnonzero(np.diff(bounds))
        for start in range(int(bounds[i]), int(bounds[i + 1]), step)
    ]

    def work(batch: slice) -> None:
        for i, run in pieces[batch]:
            members = order[run]
            m, v = models[i].predict(plan, X[members] - centers[i], with_variance)
            mean[members] = m
            if v is not None:
                variance[members] = v

    thread_map(work, batches(len(pieces), min(_BATCH, max(len(pieces) // 8, 1))), n_jobs)
    return mean, variance


def batches(n: int, size: int = _BATCH) -> list[slice]:
    """Slices of at most `size` that cover `range(n)`."""
    return [slice(start, min(start + size, n)) for start in range(0, n, size)]
