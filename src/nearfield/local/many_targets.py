"""Many targets of local models that are there already, as joint draws need them: means alone, a hundred at a time.

A target is then a column of a few matrix products per centre, and these take nearly all the time. So features are made
for several centres together, and numbers are kept and multiplied in single precision where the targets are: their
rounding is as further noise, which `rounding_of_targets` and `rounding_of_products` hold against the noise there is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
from scipy.spatial import cKDTree

from ..common.memory import batches
from ..common.threads import thread_map
from ..common.types import Booleans, Floats, Integers
from ..solvers.factors import factorise
from ..solvers.kernel_space import KernelSpace
from . import fast
from .blending import weights_by_distance
from .cells import MAX_COLUMNS, Cells
from .centers import Placement
from .ensemble import groups_in_cache, runs_of
from .model import FEATURE_MATRIX, LocalModel, expanded, point_variances
from .moments import MomentModel
from .neighbourhoods import TrainingSet
from .plan import Plan

SINGLE = 2.0**-24  # relative rounding of a number in single precision
NEGLIGIBLE = 1.5e-4  # posterior standard deviations that rounding may be, by its bound; it is about a third of that
MOST_SHARING = 5  # centres of a place; the few places that have more are left to others
_CENTERS_TOGETHER, _PLACES_TOGETHER = 64, 1 << 13  # that a thread takes at once


def rounding_of_targets(largest: float, noise: Floats) -> float:
    """Rounding of targets up to `largest` in single precision, in standard deviations of the least noise (n,)."""
    return float(SINGLE * largest / np.sqrt(noise.min(initial=np.inf)))


def rounding_of_products(plan: Plan, largest: float, n: int, noise: float) -> float:
    """Bound on what rounding in products with `n` points does to a mean, in its posterior standard deviations.

    Products of features and targets, `B = sum w phi t'`, are off by at most `SINGLE * largest * |w phi|` per feature.
    With `A` at least `I` and `|phi|^2` at most the variance of the kernel, the mean `phi' A^-1 B` is then off by the
    root of `phi' A^-1 phi` times this.
    """
    return float(SINGLE * largest * (n * plan.kernel.variance) ** 0.5 / noise)


def fit(
    plan: Plan,
    models: Sequence[LocalModel],
    data: TrainingSet,
    number: Integers,
    centers: Floats,
    n_jobs: int | None,
) -> list[LocalModel]:
    """Models of the same neighbourhoods for other targets; they give means alone.

    `data` holds the points that the models were made of, in any order, with other targets, and `number` (n,) is the
    place that each had. Where the targets are in single precision, so are the coefficients in feature space.
    """
    largest = max(float(data.y.max(initial=0.0)), -float(data.y.min(initial=0.0)))
    least, is_single = float(data.noise.min(initial=np.inf)), data.y.dtype == np.float32
    compiled = fast.products(plan, data, len(centers)) if is_single else None

    def is_rounded(n: int) -> bool:
        return bool(is_single and rounding_of_products(plan, largest, n, least) < NEGLIGIBLE)

    def work(batch: slice) -> list[LocalModel]:
        made, left = dict(enumerate(models[batch])), list(range(batch.stop - batch.start))
        if compiled is not None:
            quick = [i for i, model in made.items() if isinstance(model, MomentModel) and is_rounded(model.sums.n)]
            for i, cross in zip(quick, compiled(centers[batch][quick]), strict=True):
                made[i] = _solved(plan, made[i], cross, data.y.dtype)
            left = sorted(set(left) - set(quick))
        if left:
            made.update(zip(left, fit_some([made[i] for i in left], centers[batch][left]), strict=True))
        return list(made.values())

    def fit_some(chosen: list[LocalModel], middles: Floats) -> list[LocalModel]:
        near = data.neighbourhoods(middles, plan.radius, plan.count, plan.kernel)
        sizes = [len(points) for points in near]
        result: list[LocalModel] = []
        for group in groups_in_cache(plan, sizes, [isinstance(model, KernelSpace) for model in chosen]):
            first = chosen[group.start]
            if isinstance(first, KernelSpace):
                points = near[group.start]
                own = points[np.argsort(number[points])]  # the order in which the model was made
                result.append(replace(first, coefficients=first.factor.solve(data.y[own])))
                continue
            points = np.concatenate(near[group])
            Z = data.X[points] - np.repeat(middles[group], sizes[group], axis=0)
            weights = 1.0 / point_variances(plan, Z, data.noise[points], None)
            rows = _rows(plan, Z, weights, is_rounded(max(sizes[group])))
            for model, run in zip(chosen[group], runs_of(sizes[group]), strict=True):
                result.append(_solved(plan, model, rows[:, run] @ data.y[points[run]], data.y.dtype))
        return result

    size = min(_CENTERS_TOGETHER, max(len(centers) // 8, 1))
    return [model for made in thread_map(work, batches(len(centers), size), n_jobs) for model in made]


def _rows(plan: Plan, Z: Floats, factors: Floats, single: bool) -> Floats:
    """Features (D, n) of points (n, d) relative to centres, times factors (n,), in single precision or not."""
    assert plan.features is not None
    dtype = np.float32 if single else np.float64
    rows: Floats = plan.features.rows(Z.astype(dtype, copy=False), factors.astype(dtype, copy=False))
    return rows.astype(dtype, copy=False)


def _solved(plan: Plan, model: LocalModel, cross: Floats, dtype: np.dtype[np.floating]) -> LocalModel:
    """A model in feature space for other targets, from products of weighted features with them (D, t)."""
    if isinstance(model, MomentModel):
        assert plan.features is not None
        factor = factorise(expanded(plan, model.sums).gram, plan.features.precision, FEATURE_MATRIX, keep=True)
    else:
        factor = model.factor
    return replace(model, coefficients=np.ascontiguousarray(factor.solve(cross), dtype=dtype))


def predict(
    plan: Plan, models: Sequence[LocalModel], placement: Placement, X: Floats, blend: bool, n_jobs: int | None
) -> tuple[Floats, Floats, Booleans] | None:
    """Means (m, k + 1) at `X` (m, d), zeros in place of variances (m,), and which points are left to others, (m,).

    None where all of them are. Answers of several centres are added up as they come, chunk by chunk of places that lie
    together: with many targets, to hold and to weigh them all takes longer than to find them.
    """
    if placement.spacing is None or len(X) == 0 or X.shape[1] > MAX_COLUMNS or plan.count is not None:
        return None
    cells = Cells.of(X, placement.spacing)
    if cells is None:
        return None
    centers, tree = placement.centers, cKDTree(placement.centers)
    n_near = min(MOST_SHARING if blend else 1, len(centers))
    is_single = any(model.coefficients.dtype == np.float32 for model in models)
    shape, dtype = (len(X), models[0].coefficients.shape[1]), np.float32 if is_single else np.float64
    mean, left = np.empty(shape, dtype=dtype), np.empty(len(X), dtype=bool)

    def work(chunk: slice) -> None:
        rows = cells.order[chunk]
        distances, owners = (each.reshape(len(rows), -1) for each in tree.query(X[rows], n_near))
        # Places of the same nearest centre are made neighbours, so that most answers are where they belong.
        order = np.argsort(owners[:, 0], kind="stable")
        rows, distances, owners = rows[order], distances[order], owners[order]
        weights = weights_by_distance(distances)
        is_left = distances[:, 0] > placement.spacing
        if n_near < len(centers) and blend:
            is_left |= weights[:, -1] > 0  # there may be more
        answers, points = np.empty((len(rows), shape[1]), dtype=dtype), X[rows]
        for i in range(n_near):
            place = np.arange(len(rows)) if i == 0 else np.flatnonzero(weights[:, i])
            place = place[np.argsort(owners[place, i], kind="stable")]
            _add(answers, plan, models, centers, points, place, owners[place, i], weights[place, i], i == 0)
        mean[rows], left[rows] = answers, is_left

    thread_map(work, batches(len(X), _PLACES_TOGETHER), n_jobs)
    return mean, np.zeros(len(X)), left


def _add(
    answers: Floats,
    plan: Plan,
    models: Sequence[LocalModel],
    centers: Floats,
    points: Floats,
    place: Integers,
    owner: Integers,
    weights: Floats,
    is_first: bool,
) -> None:
    """Add weighted means of the models of `owner`, in rising order, to the answers at `place`, or put them there.

    Those that are put there are all of the answers, in their order.
    """
    bounds = np.flatnonzero(np.diff(owner, prepend=-1, append=-1)).tolist()
    runs = [slice(*each) for each in pairwise(bounds)]
    numbers, sizes = [int(owner[run.start]) for run in runs], [run.stop - run.start for run in runs]
    for group in groups_in_cache(plan, sizes, [isinstance(models[i], KernelSpace) for i in numbers]):
        whole = slice(runs[group.start].start, runs[group.stop - 1].stop)
        Z = points[place[whole]] - centers[owner[whole]]
        first = models[numbers[group.start]]
        if isinstance(first, KernelSpace):
            rows = first.kernel(first.X, Z) * weights[whole]
        else:
            rows = _rows(plan, Z, weights[whole], answers.dtype == np.float32)
        for i in range(group.start, group.stop):
            own = slice(runs[i].start - whole.start, runs[i].stop - whole.start)
            product = rows[:, own].T @ models[numbers[i]].coefficients
            if is_first:
                answers[runs[i]] = product
            else:
                answers[place[runs[i]]] += product
