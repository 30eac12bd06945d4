"""Many centres in compiled loops, where Numba is installed and there are enough of them to be worth it.

What is done here is done in `ensemble` too, in NumPy and with the same results up to rounding; loops take the common
case, which is one Gaussian in up to three columns with neighbourhoods by radius, and leave the rest to `ensemble`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import cache
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np

from ..common.memory import batches
from ..common.threads import thread_map
from ..common.types import Booleans, Floats, Integers
from . import blending
from .cells import MAX_COLUMNS, Cells, keys_of
from .centers import Placement
from .model import LocalModel
from .moments import MomentMap, MomentModel, MomentSums, Monomials
from .neighbourhoods import TrainingSet
from .plan import Plan

MIN_CENTERS = 2000  # below, NumPy is done before loops are loaded
MAX_RADIUS = 20.0  # length scales, within which no power overflows
_CENTERS_AT_ONCE, _POINTS_AT_ONCE = 64, 1 << 14  # that a thread takes
_logger = logging.getLogger(__name__)


@cache
def _loops() -> Any:
    """The compiled loops; None without Numba. They are compiled when first used, and kept on disk if they can be."""
    if find_spec("numba") is None:
        return None
    _logger.info("loading compiled loops; the first time on a machine they are compiled, which takes some seconds")
    try:
        from . import compiled
    except ImportError as error:  # a Numba that does not go with the NumPy installed says so
        _logger.warning("Numba cannot be used: %s", error)
        return None
    return compiled


def _moments(plan: Plan) -> MomentMap | None:
    """Moments of a plan that loops can do; else None."""
    moments = None if plan.features is None else plan.features.moments
    if moments is None or len(moments.gaussians) > 1 or plan.radius is None or plan.count is not None:
        return None
    unit = moments.gaussians[0].unit
    return moments if len(unit) <= MAX_COLUMNS and plan.radius / unit.min() <= MAX_RADIUS else None


class _Tables(NamedTuple):
    """Monomials of both halves as the loops take them."""

    unit: Floats
    n_first: int
    degree: int
    correction: float  # the variance that features may lack, where that is to be corrected
    halves: tuple[Any, ...]  # parents, variables and steps of both
    limits: Integers  # for each monomial of the first half, how many of the second there are up to the degree
    feature_limits: Integers

    @classmethod
    def of(cls, plan: Plan, moments: MomentMap) -> _Tables:
        gaussian, pair = moments.gaussians[0], moments.pairs[0]
        correction = float(plan.kernel.variance) if plan.correction else 0.0
        halves = tuple(array for half in pair.monomials.halves for array in _steps(half))
        n_first, degree = gaussian.monomials.n_first, gaussian.monomials.degree
        limits, feature_limits = _limits(pair.monomials), _limits(gaussian.monomials)
        return cls(gaussian.unit, n_first, degree, correction, halves, limits, feature_limits)


def _steps(half: Any) -> tuple[Integers, Integers, Floats]:
    parents, variables, steps = np.zeros((3, half.n_components))
    for start, stop, parent, variable, degree in half._runs:
        parents[start:stop] = np.arange(parent, parent + stop - start)
        variables[start:stop], steps[start:stop] = variable, degree**-0.5
    return parents.astype(np.int64), variables.astype(np.int64), steps


def _limits(monomials: Monomials) -> Integers:
    first, second = (half.exponents.sum(axis=1) for half in monomials.halves)
    result: Integers = np.searchsorted(second, monomials.degree - first, side="right")
    return result


def fit(plan: Plan, data: TrainingSet, centers: Floats, n_jobs: int | None) -> list[LocalModel | None] | None:
    """Models around centres, None for those that are left to `ensemble`; None where all of them are."""
    moments = _moments(plan) if len(centers) >= MIN_CENTERS else None
    loops = None if moments is None else _loops()
    if moments is None or loops is None or plan.radius is None or plan.features is None:
        return None
    cells = data.cells
    if cells is None:
        return None
    counts = np.empty(len(centers), dtype=np.int64)
    where = (cells.X, cells.keys, cells.low, cells.side, cells.extent)

    def count(run: slice) -> None:
        loops.count(centers[run], plan.radius, *where, counts[run])

    thread_map(count, batches(len(centers), _CENTERS_AT_ONCE), n_jobs)
    in_kernel_space = {n: plan.takes_kernel_space(n) for n in np.unique(counts).tolist()}
    chosen = np.flatnonzero([not in_kernel_space[n] for n in counts.tolist()])
    if len(chosen) == 0:
        return None
    tables, D, k, C = _Tables.of(plan, moments), len(moments.factor), data.y.shape[1], len(chosen)
    shape = moments.pairs[0].monomials.shape
    sums, cross, targets = np.zeros((C, *shape)), np.zeros((C, D, k)), np.zeros((C, k, k))
    log_weight, failed = np.zeros(C), np.zeros(C, dtype=bool)
    coefficients, polynomials = np.zeros((C, D, k)), np.zeros((C, moments.n_moments))
    results = (sums, cross, targets, log_weight, coefficients, polynomials, failed)
    y, noise = data.y[cells.order], data.noise[cells.order]
    gaussian = moments.gaussians[0]
    lower = np.tril_indices(D)
    index, factor = moments.index[lower].astype(np.int32), moments.factor[lower]

    def solve(run: slice) -> None:
        rows = chosen[run]
        loops.fit(
            centers[rows], counts[rows], plan.radius, cells.X, y, noise, *where[1:], *tables[:4], *tables.halves,
            *tables[5:], gaussian.places, gaussian.factor, index, factor, precision, *(each[run] for each in results),
        )  # fmt: skip

    precision = plan.features.precision
    thread_map(solve, batches(C, _CENTERS_AT_ONCE), n_jobs)
    models: list[LocalModel | None] = [None] * len(centers)
    flat = sums.reshape(C, -1)
    for i, c in enumerate(chosen.tolist()):
        if not failed[i]:
            parts = MomentSums(flat[i], cross[i], targets[i], float(log_weight[i]), int(counts[c]))
            models[c] = MomentModel(coefficients[i], polynomials[i], parts)
    return models


def products(plan: Plan, data: TrainingSet, n_centers: int) -> Callable[[Floats], Floats] | None:
    """A function that gives products (C, D, t) of features around some centres with targets in single precision.

    Features are weighted as those of models are. Threads may share it. None where `many_targets` does as much.
    """
    moments = _moments(plan) if n_centers >= MIN_CENTERS else None
    loops, cells = None if moments is None else _loops(), data.cells
    if moments is None or loops is None or cells is None:
        return None
    if not np.array_equal(cells.order, np.arange(len(cells.order))):
        return None
    tables, gaussian, where = _Tables.of(plan, moments), moments.gaussians[0], cells[1:]
    D, t = len(moments.factor), data.y.shape[1]

    def of_centers(centers: Floats) -> Floats:
        counts, cross = np.empty(len(centers), dtype=np.int64), np.empty((len(centers), D, t), dtype=np.float32)
        loops.count(centers, plan.radius, *where, counts)
        loops.products(
            centers, counts, plan.radius, cells.X, data.y, data.noise, *where[1:], *tables[:4], *tables.halves,
            tables.feature_limits, gaussian.places, gaussian.factor, cross,
        )  # fmt: skip
        return cross

    return of_centers


def predict(
    plan: Plan, models: Sequence[LocalModel], placement: Placement, X: Floats, blend: bool, n_jobs: int | None
) -> tuple[Floats, Floats, Booleans] | None:
    """Means (m, k + 1) and variances (m,) at `X` (m, d), and which points are left to others, (m,).

    None where all of them are.
    """
    moments = _moments(plan) if len(models) >= MIN_CENTERS and placement.spacing is not None else None
    loops = None if moments is None else _loops()
    if moments is None or loops is None or placement.spacing is None:
        return None
    close, reach = (blending.CLOSE, placement.spacing) if blend else (1.0, placement.spacing)
    cells = Cells.of(placement.centers, close * reach)
    if cells is None:
        return None
    tables, gaussian, k = _Tables.of(plan, moments), moments.gaussians[0], models[0].coefficients.shape[1]
    is_solved = np.array([isinstance(model, MomentModel) for model in models])[cells.order]
    shape = gaussian.monomials.shape
    is_wide = k > loops.FEW_TARGETS
    places, width = gaussian.places, shape[0] * shape[1]
    if is_wide:  # features in the order in which they are made, one row of them per target
        used = np.concatenate([q * shape[1] + np.arange(n) for q, n in enumerate(tables.feature_limits)])
        places, width = np.searchsorted(used, places), len(used)
    grids, polynomials = np.zeros((len(models), k, width)), np.zeros((len(models), moments.n_moments))
    for i, c in enumerate(cells.order.tolist()):
        model = models[c]
        if isinstance(model, MomentModel):
            grids[i][:, places] = gaussian.factor * model.coefficients.T
            polynomials[i] = model.polynomial
    of_targets = grids[:, None] if is_wide else grids.reshape(-1, k, *shape)
    forms = of_targets, polynomials.reshape(len(models), *moments.pairs[0].monomials.shape)
    order = np.argsort(keys_of(X, cells.low, cells.side, cells.extent), kind="stable")
    mean, variance, left = np.empty((len(X), k)), np.empty(len(X)), np.empty(len(X), dtype=bool)

    def ask(run: slice) -> None:
        rows = order[run]
        answers = np.empty((len(rows), k)), np.empty(len(rows)), np.empty(len(rows), dtype=bool)
        loops.predict(
            X[rows], reach, close, blending.TINY, *cells[1:], is_solved, *forms, *tables[:4],
            float(plan.kernel.variance), *tables.halves, *tables[5:], *answers,
        )  # fmt: skip
        mean[rows], variance[rows], left[rows] = answers

    thread_map(ask, batches(len(X), _POINTS_AT_ONCE), n_jobs)
    return mean, variance, left
