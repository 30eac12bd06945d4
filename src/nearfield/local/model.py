"""One local model: a small Gaussian process around a centre, made from the points of its neighbourhood.

Points are in units of the length scale throughout (`Kernel` included), so that a radius of 3 is three length scales,
and relative to the centre. Functions take NumPy arrays for one centre, and tensors with leading dimensions for many.
"""

from __future__ import annotations

from typing import TypeAlias

from ..common import memory
from ..common.arrays import Array
from ..common.memory import batches
from ..common.types import Floats
from ..solvers import statistics
from ..solvers.feature_space import FeatureSpace
from ..solvers.kernel_space import KernelSpace
from ..solvers.statistics import Statistics
from .plan import Plan

LocalModel: TypeAlias = FeatureSpace | KernelSpace


def fit_one(plan: Plan, Z: Floats, y: Floats, noise: Floats, counts: Floats | None = None) -> LocalModel:
    """Model around one centre from its neighbourhood: points relative to the centre, targets (n, k + 1), noise (n,).

    With `counts` (n,), each point is the average of so many, with the noise of an average.
    """
    if plan.takes_kernel_space(len(Z) if counts is None else int(counts.sum())):
        return in_kernel_space(plan, Z, y, noise)
    return from_statistics(plan, statistics_of(plan, Z, y, noise, counts))


def in_kernel_space(plan: Plan, Z: Array, y: Array, noise: Array, real: Array | None = None) -> KernelSpace:
    """Model from points relative to the centre; see `KernelSpace.from_points`."""
    return KernelSpace.from_points(plan.kernel, Z, y, noise, real, "covariance matrix of a neighbourhood")


def from_statistics(plan: Plan, sums: Statistics) -> FeatureSpace:
    """Model from sums over a neighbourhood."""
    assert plan.features is not None
    return FeatureSpace.from_statistics(sums, plan.features.precision, "feature matrix of a centre")


def statistics_of(plan: Plan, Z: Floats, y: Floats, noise: Floats, counts: Floats | None = None) -> Statistics:
    """Sums over a neighbourhood, in chunks that memory has room for; see `fit_one`."""
    assert plan.features is not None
    chunks = batches(len(Z), memory.rows_per_chunk(24 * plan.features.n_components, len(Z))) or [slice(0)]
    return statistics.total(
        Statistics.of_weighted(
            *weighted(plan, Z[chunk], y[chunk], noise[chunk], counts if counts is None else counts[chunk])
        )
        for chunk in chunks
    )


def weighted(
    plan: Plan, Z: Array, y: Array, noise: Array, counts: Array | None = None, real: Array | None = None
) -> tuple[Array, Array, Array]:
    """Features (..., D, n) and targets (..., n, k + 1) times the roots of the points' weights, and the roots, (..., n).

    The weight of a point is the inverse of its noise variance, to which the correction adds what the features lack; it
    is zero where a point is not `real`, (..., n).
    """
    assert plan.features is not None
    variance = noise
    if plan.correction:
        missing = plan.features.missing_variance(Z)
        variance = noise + (missing if counts is None else missing / counts)
    root = 1.0 / variance**0.5
    if real is not None:
        root = root * real
    return plan.features.rows(Z, root), y * root[..., None], root


def mean(plan: Plan, model: LocalModel, Z: Array) -> Array:
    """Means (..., m, k + 1) at points relative to the centre, (..., m, d)."""
    if isinstance(model, KernelSpace):
        return model.mean(Z)
    assert plan.features is not None
    return model.mean(plan.features.rows(Z))


def mean_and_variance(plan: Plan, model: LocalModel, Z: Array) -> tuple[Array, Array]:
    """Means (..., m, k + 1) and variances (..., m) at points relative to the centre, (..., m, d)."""
    if isinstance(model, KernelSpace):
        return model.mean_and_variance(Z)
    assert plan.features is not None
    answer, variance = model.mean_and_variance(plan.features.rows(Z), overwrite=True)
    return answer, plan.total_variance(variance, Z)
