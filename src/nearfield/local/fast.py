"""Many centres in compiled loops, where Numba is installed and there are enough of them to be worth it.

What is done here is done in `ensemble` too, in NumPy and with the same results up to rounding; loops take the common
case, which is one Gaussian in up to three columns with neighbourhoods by radius, and leave the rest to `ensemble`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..common import compiling
from ..common.arrays import stable_order
from ..common.memory import batches
from ..common.threads import single_threaded_blas, thread_map
from ..common.types import Booleans, Floats, Integers
from . import blending
from .cells import MAX_COLUMNS, Cells, keys_of
from .centers import Placement
from .model import LocalModel
from .model_stack import ModelStack, forms_of
from .moments import MomentMap, MomentSums
from .neighbourhoods import TrainingSet
from .plan import Plan

MIN_CENTERS = 2000  # below, NumPy is done before loops are loaded
FEWER = 10  # times fewer centres are enough where there are many rows
MANY_ROWS, BATCH_ROWS = 300_000, 50_000  # and in one batch of many, for which loops are loaded once
MAX_RADIUS = 20.0  # length scales, within which no power overflows
_CENTERS_AT_ONCE, _POINTS_AT_ONCE = 64, 1 << 14  # that a thread takes


def _loops() -> Any:
    """The compiled loops; None without Numba."""
    return compiling.loops("nearfield.local.compiled")


def _moments(plan: Plan, n_centers: int, n_rows: int, many_rows: int = MANY_ROWS) -> MomentMap | None:
    """Moments of a plan that loops can do, where so many centres and rows are worth it; else None."""
    if n_centers * (FEWER if n_rows >= many_rows else 1) < MIN_CENTERS:
        return None
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
    shape: tuple[int, int]  # numbers of monomials of both
    of_features: tuple[int, int, Integers, Floats]  # numbers that make features, where these are, and times what

    @classmethod
    def of(cls, plan: Plan, moments: MomentMap) -> _Tables:
        gaussian, pair = moments.gaussians[0], moments.pairs[0]
        correction = float(plan.kernel.variance) if plan.correction else 0.0
        halves = tuple(array for half in pair.monomials.halves for array in _steps(half))
        n_first, degree = gaussian.monomials.n_first, gaussian.monomials.degree
        of_features = (*gaussian.monomials.shape, gaussian.places, gaussian.factor)
        return cls(gaussian.unit, n_first, degree, correction, halves, pair.monomials.shape, of_features)


def _steps(half: Any) -> tuple[Integers, Integers, Floats]:
    parents, variables, steps = np.zeros((3, half.n_components))
    for start, stop, parent, variable, degree in half._runs:
        parents[start:stop] = np.arange(parent, parent + stop - start)
        variables[start:stop], steps[start:stop] = variable, degree**-0.5
    return parents.astype(np.int64), variables.astype(np.int64), steps


def fit(plan: Plan, data: TrainingSet, centers: Floats, n_jobs: int | None) -> Sequence[LocalModel | None] | None:
    """Models around centres, None for those that are left to `ensemble`; None where all of them are."""
    moments = _moments(plan, len(centers), len(data.X))
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
    chosen = np.flatnonzero(~plan.in_kernel_space(counts))
    if len(chosen) == 0:
        return None
    tables, D, k, C = _Tables.of(plan, moments), len(moments.factor), data.y.shape[1], len(chosen)
    sums, polynomials = (np.empty((C, moments.n_moments)) for _ in range(2))
    cross, coefficients = (np.empty((C, D, k)) for _ in range(2))
    targets, log_weight, failed = np.empty((C, k, k)), np.empty(C), np.empty(C, dtype=bool)
    results = (sums.reshape(C, *tables.shape), cross, targets, log_weight, coefficients, polynomials, failed)
    y, noise = data.y.take(cells.order, axis=0), data.noise[cells.order]
    lower = np.tril_indices(D)
    index, factor = moments.index[lower].astype(np.int32), moments.factor[lower]

    def solve(run: slice) -> None:
        rows = chosen[run]
        loops.fit(
            centers[rows], counts[rows], plan.radius, cells.X, y, noise, *where[1:], *tables[:4], *tables.halves,
            *tables.of_features, index, factor, precision, *(each[run] for each in results),
        )  # fmt: skip

    precision = plan.features.precision
    with single_threaded_blas():
        thread_map(solve, batches(C, _CENTERS_AT_ONCE), n_jobs)
    stack = ModelStack(coefficients, polynomials, sums, cross, targets, log_weight, counts[chosen])
    if len(centers) == C and not failed.any():
        return stack
    models: list[LocalModel | None] = [None] * len(centers)
    for i in np.flatnonzero(~failed).tolist():
        models[chosen[i]] = stack[i]
    return models


class Summing:
    """Sums over neighbourhoods of some points. Threads may share it.

    Parameters
    ----------
    loops : module
    plan : Plan
    moments : MomentMap
        See `_moments`.
    data : TrainingSet
    cells : Cells
        Of the points.
    """

    def __init__(self, loops: Any, plan: Plan, moments: MomentMap, data: TrainingSet, cells: Cells) -> None:
        self._loops, self._radius, self._tables = loops, plan.radius, _Tables.of(plan, moments)
        self._X, *self._where = cells[1:]
        self._y, self._noise = data.y.take(cells.order, axis=0), data.noise[cells.order]
        self._n_moments, self._n_features = moments.n_moments, len(moments.factor)

    def counts(self, centers: Floats) -> Integers:
        """Number of points around each centre, (C,)."""
        counts = np.empty(len(centers), dtype=np.int64)
        self._loops.count(centers, self._radius, self._X, *self._where, counts)
        return counts

    def sums(self, centers: Floats, counts: Integers) -> list[MomentSums]:
        """Sums over the neighbourhoods of centres, which have so many points, (C,)."""
        C, D, k, tables = len(centers), self._n_features, self._y.shape[1], self._tables
        moments, cross, targets = np.empty((C, self._n_moments)), np.empty((C, D, k)), np.empty((C, k, k))
        log_weight = np.empty(C)
        self._loops.sums(
            centers, counts, self._radius, self._X, self._y, self._noise, *self._where, *tables[:4], *tables.halves,
            *tables.of_features, moments.reshape(C, *tables.shape), cross, targets, log_weight,
        )  # fmt: skip
        each = zip(moments, cross, targets, log_weight.tolist(), counts.tolist(), strict=True)
        return [MomentSums(*sums) for sums in each]


def summing(plan: Plan, data: TrainingSet, n_centers: int) -> Summing | None:
    """Sums over neighbourhoods of so many centres; None where they are left to `model`."""
    moments = _moments(plan, n_centers, len(data.X), BATCH_ROWS)
    loops = None if moments is None else _loops()
    if moments is None or loops is None or data.cells is None:
        return None
    return Summing(loops, plan, moments, data, data.cells)


def products(plan: Plan, data: TrainingSet, n_centers: int) -> Callable[[Floats], Floats] | None:
    """A function that gives products (C, D, t) of features around some centres with targets in single precision.

    Features are weighted as those of models are. Threads may share it. None where `many_targets` does as much.
    """
    moments = _moments(plan, n_centers, len(data.X))
    loops, cells = None if moments is None else _loops(), data.cells
    if moments is None or loops is None or cells is None:
        return None
    if not np.array_equal(cells.order, np.arange(len(cells.order))):
        return None
    tables, where = _Tables.of(plan, moments), cells[1:]
    D, t = len(moments.factor), data.y.shape[1]

    def of_centers(centers: Floats) -> Floats:
        counts, cross = np.empty(len(centers), dtype=np.int64), np.empty((len(centers), D, t), dtype=np.float32)
        loops.count(centers, plan.radius, *where, counts)
        loops.products(
            centers, counts, plan.radius, cells.X, data.y, data.noise, *where[1:], *tables[:4], *tables.halves,
            *tables.of_features, cross,
        )  # fmt: skip
        return cross

    return of_centers


def predict(
    plan: Plan, models: Sequence[LocalModel], placement: Placement, X: Floats, blend: bool, n_jobs: int | None
) -> tuple[Floats, Floats, Booleans] | None:
    """Means (m, k + 1) and variances (m,) at `X` (m, d), and which points are left to others, (m,).

    None where all of them are.
    """
    moments = None if placement.spacing is None else _moments(plan, len(models), len(X))
    loops = None if moments is None else _loops()
    if moments is None or loops is None or placement.spacing is None:
        return None
    close, reach = blending.CLOSE if blend else 1.0, blending.SLACK * placement.spacing
    cells = Cells.of(placement.centers, close * reach)
    if cells is None:
        return None
    forms = forms_of(models)
    if forms is None:
        return None
    tables, k = _Tables.of(plan, moments), forms[1].shape[2]
    can_answer = forms[0][cells.order]
    order = stable_order(keys_of(X, cells.low, cells.side, cells.extent))
    mean, variance, left = np.empty((len(X), k)), np.empty(len(X)), np.empty(len(X), dtype=bool)

    def ask(run: slice) -> None:
        loops.predict(
            X, order[run], reach, close, blending.TINY, *cells, can_answer, *forms[1:], *tables[:4],
            float(plan.kernel.variance), *tables.halves, *tables.of_features, mean, variance, left,
        )  # fmt: skip

    with single_threaded_blas():
        thread_map(ask, batches(len(X), _POINTS_AT_ONCE), n_jobs)
    return mean, variance, left
