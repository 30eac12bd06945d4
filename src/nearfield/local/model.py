"""One local model: a small Gaussian process around a centre, made from the points of its neighbourhood.

Points are in units of the length scale throughout (`Kernel` included), so that a radius of 3 is three length scales,
and relative to the centre. Functions take NumPy arrays for one centre, and tensors with leading dimensions for many.
"""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from operator import add
from typing import TypeAlias

from ..common import memory
from ..common.arrays import Array
from ..common.memory import batches
from ..common.types import Floats
from ..solvers.feature_space import FeatureSpace
from ..solvers.kernel_space import KernelSpace
from ..solvers.statistics import Statistics
from .moments import MomentModel, MomentSums
from .plan import Plan

LocalModel: TypeAlias = MomentModel | FeatureSpace | KernelSpace
LocalSums: TypeAlias = MomentSums | Statistics
"""Sums over a neighbourhood: moments of Taylor features where these are fewer, else products of the features."""

FEATURE_MATRIX = "feature matrix of a centre"
MANY_TARGETS = 6  # from where on one product with all features takes less time than one polynomial per target


def fit_one(plan: Plan, Z: Floats, y: Floats, noise: Floats) -> LocalModel:
    """Model around one centre from its neighbourhood: points relative to the centre, targets (n, k + 1), noise (n,)."""
    if plan.takes_kernel_space(len(Z)):
        return in_kernel_space(plan, Z, y, noise)
    return from_sums(plan, sums_of(plan, Z, y, noise))


def solve_one(
    plan: Plan, Z: Floats, y: Floats, noise: Floats, counts: Floats | None = None
) -> FeatureSpace | KernelSpace:
    """The same, to be asked for a few predictions only.

    With `counts` (n,), each point is the average of so many, with the noise of an average.
    """
    if plan.takes_kernel_space(len(Z) if counts is None else int(counts.sum())):
        return in_kernel_space(plan, Z, y, noise)
    return from_statistics(plan, expanded(plan, sums_of(plan, Z, y, noise, counts)))


def in_kernel_space(plan: Plan, Z: Array, y: Array, noise: Array, real: Array | None = None) -> KernelSpace:
    """Model from points relative to the centre; see `KernelSpace.from_points`."""
    return KernelSpace.from_points(plan.kernel, Z, y, noise, real, "covariance matrix of a neighbourhood")


def from_sums(plan: Plan, sums: LocalSums) -> MomentModel | FeatureSpace:
    """Model from sums over a neighbourhood."""
    if isinstance(sums, Statistics):
        return from_statistics(plan, sums)
    assert plan.features is not None
    assert plan.features.moments is not None
    return MomentModel.from_sums(plan.features.moments, sums, plan.features.precision, FEATURE_MATRIX)


def and_more(plan: Plan, model: MomentModel | FeatureSpace, sums: LocalSums) -> MomentModel | FeatureSpace:
    """The model with sums over further points taken in."""
    if isinstance(model, MomentModel):
        assert isinstance(sums, MomentSums)
        return from_sums(plan, model.sums + sums)
    return from_statistics(plan, model.statistics() + expanded(plan, sums))


def expanded(plan: Plan, sums: LocalSums) -> Statistics:
    """Sums with the whole Gram matrix."""
    if isinstance(sums, Statistics):
        return sums
    assert plan.features is not None
    assert plan.features.moments is not None
    return plan.features.moments.expanded(sums)


def from_statistics(plan: Plan, sums: Statistics) -> FeatureSpace:
    """Model from sums of products of features."""
    assert plan.features is not None
    return FeatureSpace.from_statistics(sums, plan.features.precision, FEATURE_MATRIX)


def sums_of(plan: Plan, Z: Floats, y: Floats, noise: Floats, counts: Floats | None = None) -> LocalSums:
    """Sums over a neighbourhood, in chunks that memory has room for; see `fit_one` and `solve_one`."""
    assert plan.features is not None
    chunks = batches(len(Z), memory.rows_per_chunk(24 * plan.features.n_rows, len(Z))) or [slice(0)]
    parts = (
        sums_of_each(plan, Z[chunk], y[chunk], noise[chunk], [slice(None)], counts if counts is None else counts[chunk])
        for chunk in chunks
    )
    return reduce(add, (sums for part in parts for sums in part))


def sums_of_each(
    plan: Plan, Z: Floats, y: Floats, noise: Floats, owns: list[slice], counts: Floats | None = None
) -> list[LocalSums]:
    """Sums over several neighbourhoods, each a slice of the points; their features are evaluated together."""
    assert plan.features is not None
    moments = plan.features.moments
    if moments is None:
        rows, targets, root = weighted(plan, Z, y, noise, counts)
        return [Statistics.of_weighted(rows[:, own], targets[own], root[own]) for own in owns]
    weights = 1.0 / point_variances(plan, Z, noise, counts)
    rows_of_halves = moments.rows(Z, weights)
    if y.shape[1] < MANY_TARGETS:
        return [moments.sums(rows_of_halves, own, y[own], weights[own]) for own in owns]
    rows, without = plan.features.rows(Z, weights), y[:, :0]
    return [
        replace(
            moments.sums(rows_of_halves, own, without[own], weights[own]),
            cross=rows[:, own] @ y[own],
            targets=(y[own] * weights[own, None]).T @ y[own],
        )
        for own in owns
    ]


def point_variances(plan: Plan, Z: Array, noise: Array, counts: Array | None) -> Array:
    """Noise of points, to which the correction adds what the features lack."""
    if not plan.correction:
        return noise
    assert plan.features is not None
    missing = plan.features.missing_variance(Z)
    return noise + (missing if counts is None else missing / counts)


def weighted(
    plan: Plan, Z: Array, y: Array, noise: Array, counts: Array | None = None, real: Array | None = None
) -> tuple[Array, Array, Array]:
    """Features (..., D, n) and targets (..., n, k + 1) times the roots of the points' weights, and the roots, (..., n).

    The weight of a point is the inverse of its noise variance, to which the correction adds what the features lack; it
    is zero where a point is not `real`, (..., n).
    """
    assert plan.features is not None
    root = 1.0 / point_variances(plan, Z, noise, counts) ** 0.5
    if real is not None:
        root = root * real
    return plan.features.rows(Z, root), y * root[..., None], root


def mean(plan: Plan, model: LocalModel, Z: Array) -> Array:
    """Means (..., m, k + 1) at points relative to the centre, (..., m, d)."""
    if isinstance(model, KernelSpace):
        return model.mean(Z)
    assert plan.features is not None
    if isinstance(model, MomentModel):
        if model.coefficients.shape[1] >= MANY_TARGETS:
            rows = plan.features.rows(Z)
            return rows.T @ model.coefficients
        assert plan.features.moments is not None
        return plan.features.moments.mean([model.coefficients], Z, [slice(None)])
    return model.mean(plan.features.rows(Z))


def mean_and_variance(plan: Plan, model: LocalModel, Z: Array) -> tuple[Array, Array]:
    """Means (..., m, k + 1) and variances (..., m) at points relative to the centre, (..., m, d)."""
    if isinstance(model, KernelSpace):
        return model.mean_and_variance(Z)
    assert plan.features is not None
    if isinstance(model, MomentModel):
        assert plan.features.moments is not None
        variance = plan.features.moments.variance([model.polynomial], Z, [slice(None)])
        return mean(plan, model, Z), plan.total_variance(variance, Z)
    answer, variance = model.mean_and_variance(plan.features.rows(Z), overwrite=True)
    return answer, plan.total_variance(variance, Z)
