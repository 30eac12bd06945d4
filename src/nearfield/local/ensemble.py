"""Many local models: made, brought up to date and asked side by side, in threads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from ..common import memory
from ..common.arrays import column_products
from ..common.memory import batches
from ..common.samples import some_rows
from ..common.threads import thread_map
from ..common.types import Floats, Integers
from ..solvers.kernel_space import KernelSpace
from . import fast
from . import model as local
from .model import LocalModel, and_more, fit_one, from_sums, sums_of, sums_of_each
from .model_stack import ModelStack
from .moments import MomentModel
from .neighbourhoods import TrainingSet
from .plan import Plan

COUNTED = 500  # centres whose neighbours are counted
_BATCH = 64  # centres that a thread takes at once
_GROUP = 1 << 19  # numbers in the features of a group of centres


def fit_all(plan: Plan, data: TrainingSet, centers: Floats, n_jobs: int | None) -> Sequence[LocalModel]:
    """Models around all centres."""
    quick = fast.fit(plan, data, centers, n_jobs)
    if quick is None:
        return _fit_each(plan, data, centers, n_jobs)
    if isinstance(quick, ModelStack):
        return quick
    left = [i for i, model in enumerate(quick) if model is None]
    made = dict(zip(left, _fit_each(plan, data, centers[left], n_jobs), strict=True))
    return [made[i] if model is None else model for i, model in enumerate(quick)]


def _fit_each(plan: Plan, data: TrainingSet, centers: Floats, n_jobs: int | None) -> list[LocalModel]:
    def work(batch: slice) -> list[LocalModel]:
        chosen = centers[batch]
        near = data.neighbourhoods(chosen, plan.radius, plan.count, plan.kernel)
        sizes = [len(points) for points in near]
        groups = groups_in_cache(plan, sizes, [plan.takes_kernel_space(size) for size in sizes])
        return [model for group in groups for model in _fit_group(plan, data, chosen[group], near[group])]

    return _in_threads(work, len(centers), min(_BATCH, max(len(centers) // 8, 1)), 1 if plan.is_quick else n_jobs)


def _in_threads(work: Callable[[slice], list[LocalModel]], n: int, size: int, n_jobs: int | None) -> list[LocalModel]:
    """The models that `work` makes of each run of `size` of `n` centres, in order."""
    return [model for models in thread_map(work, batches(n, size), n_jobs) for model in models]


def model_bytes(plan: Plan, data: TrainingSet, centers: Floats) -> tuple[float, float]:
    """Memory that the largest model takes while it is made, and that the models of all centres take.

    With features, neighbours are counted for some of the centres, since neighbourhoods of few points are solved in
    kernel space.
    """
    least, features = min(plan.count or 0, len(data.X)), plan.features
    counted = centers if features is None else centers[some_rows(len(centers), COUNTED)]
    is_counted = plan.radius is None and least
    sizes = np.full(len(counted), least) if is_counted else np.maximum(data.counts(counted, plan.radius), least)
    squares = 8.0 * sizes.astype(np.float64) ** 2
    if features is None:
        return 1.2 * float(np.max(squares, initial=0.0)), float(np.sum(squares))
    mean = float(np.mean(plan.numbers(sizes.astype(np.float64)))) if len(sizes) else 0.0
    return 24.0 * max(features.n_components, least) ** 2, 8.0 * len(centers) * mean


def _fit_group(plan: Plan, data: TrainingSet, centers: Floats, near: list[Integers]) -> list[LocalModel]:
    """Models of a few centres; their features are evaluated together, which spares most of the calls."""
    if len(near) == 1:
        return [_fit_around(plan, data, centers[0], near[0])]
    sizes, points = [len(indices) for indices in near], np.concatenate(near)
    Z = data.X[points] - np.repeat(centers, sizes, axis=0)
    sums = sums_of_each(plan, Z, data.y[points], data.noise[points], runs_of(sizes))
    return [from_sums(plan, each) for each in sums]


def _fit_around(plan: Plan, data: TrainingSet, center: Floats, near: Integers) -> LocalModel:
    near = np.sort(near)  # so that the same points give the same model to the last digit, whatever else there is
    return fit_one(plan, data.X[near] - center, data.y[near], data.noise[near])


def groups_in_cache(plan: Plan, sizes: Sequence[int], alone: Sequence[bool]) -> list[slice]:
    """Runs of neighbours in feature space whose features together stay in the cache; each that is `alone` by itself."""
    room = _GROUP / plan.features.n_rows if plan.features is not None else 0.0
    groups: list[slice] = []
    total = np.inf
    for i, size in enumerate(sizes):
        if alone[i] or total + size > room:
            groups.append(slice(i, i + 1))
            total = np.inf if alone[i] else size
        else:
            groups[-1] = slice(groups[-1].start, i + 1)
            total += size
    return groups


def runs_of(sizes: Sequence[int]) -> list[slice]:
    """Slices of so many, one after the other."""
    stops = np.cumsum(sizes).tolist()
    return [slice(stop - size, stop) for size, stop in zip(sizes, stops, strict=True)]


def update_all(
    plan: Plan,
    models: Sequence[LocalModel],
    new: TrainingSet,
    data: TrainingSet,
    centers: Floats,
    n_jobs: int | None,
) -> list[LocalModel]:
    """Models with `new` points taken in; `data` holds all points, the new ones last.

    Sums take the new points in by addition. In kernel space, a centre whose neighbourhood has a new point is made
    again, on the side that is now cheaper. All other models stay as they are.
    """
    n_old = len(data.X) - len(new.X)

    def updated(model: LocalModel, center: Floats, added: Integers) -> LocalModel:
        if not isinstance(model, KernelSpace):
            if len(added) == 0:
                return model
            return and_more(plan, model, sums_of(plan, new.X[added] - center, new.y[added], new.noise[added]))
        if len(added) == 0 and plan.count is None:
            return model
        (near,) = data.neighbourhoods(center[None], plan.radius, plan.count, plan.kernel)
        return _fit_around(plan, data, center, near) if np.any(near >= n_old) else model

    def work(batch: slice) -> list[LocalModel]:
        added = new.neighbourhoods(centers[batch], plan.radius)
        return [updated(*each) for each in zip(models[batch], centers[batch], added, strict=True)]

    return _in_threads(work, len(centers), _BATCH, n_jobs)


def remake(
    plan: Plan, models: Sequence[LocalModel | None], data: TrainingSet, centers: Floats, n_jobs: int | None
) -> list[LocalModel]:
    """Models with those that are None made from the data, as `update_all` makes them."""

    def made(center: Floats) -> LocalModel:
        (near,) = data.neighbourhoods(center[None], plan.radius, plan.count, plan.kernel)
        return _fit_around(plan, data, center, near)

    def work(batch: slice) -> list[LocalModel]:
        pairs = zip(models[batch], centers[batch], strict=True)
        return [made(center) if model is None else model for model, center in pairs]

    return _in_threads(work, len(models), _BATCH, n_jobs)


def exact_from_coefficients(plan: Plan, data: TrainingSet, center: Floats, coefficients: Floats) -> KernelSpace:
    """The model of all points around one centre, from its coefficients (n, k + 1), without its factor."""
    quadratic = column_products(data.y, coefficients)
    return KernelSpace(plan.kernel, data.X - center, data.noise, None, coefficients, quadratic)


Run: TypeAlias = tuple[int, slice]  # a centre, and some of its points


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
    if isinstance(models, ModelStack):
        longest, k = models.coefficients.shape[1:]
    else:
        longest, k = max(model.coefficients.shape[0] for model in models), models[0].coefficients.shape[1]
    mean, variance = np.empty((len(X), k)), np.zeros(len(X))
    order = np.argsort(owner, kind="stable")
    bounds = np.searchsorted(owner[order], np.arange(len(centers) + 1))
    step = min(memory.rows_per_chunk(24 * longest, len(X)), 4096)
    # Points in the order of their centres; those of one centre are cut where they are many.
    runs: list[Run] = [
        (int(i), slice(start, min(start + step, int(bounds[i + 1]))))
        for i in np.flatnonzero(np.diff(bounds))
        for start in range(int(bounds[i]), int(bounds[i + 1]), step)
    ]

    def work(batch: slice) -> None:
        own = runs[batch]
        sizes = [run.stop - run.start for _, run in own]
        alone = [not with_variance or isinstance(models[i], KernelSpace) for i, _ in own]
        for group in groups_in_cache(plan, sizes, alone):
            chosen = [i for i, _ in own[group]]
            members = order[own[group.start][1].start : own[group.stop - 1][1].stop]
            if len(chosen) > 1:
                Z = X[members] - np.repeat(centers[chosen], sizes[group], axis=0)
                chosen_models = [models[i] for i in chosen]
                mean[members], variance[members] = _predict_features(plan, chosen_models, Z, sizes[group])
                continue
            model, Z = models[chosen[0]], X[members] - centers[chosen[0]]
            if with_variance:
                mean[members], variance[members] = local.mean_and_variance(plan, model, Z)
            else:
                mean[members] = local.mean(plan, model, Z)

    thread_map(work, batches(len(runs), min(_BATCH, max(len(runs) // 8, 1))), 1 if plan.is_quick else n_jobs)
    return mean, variance


def _predict_features(
    plan: Plan, models: Sequence[LocalModel], Z: Floats, sizes: Sequence[int]
) -> tuple[Floats, Floats]:
    """Means and variances by a few models in feature space, each at so many points; all features are made at once."""
    assert plan.features is not None
    owns = runs_of(sizes)
    if plan.features.moments is not None and all(isinstance(model, MomentModel) for model in models):
        moments = plan.features.moments
        mean = moments.mean([model.coefficients for model in models], Z, owns)
        polynomials = [model.polynomial for model in models if isinstance(model, MomentModel)]
        return mean, plan.total_variance(moments.variance(polynomials, Z, owns), Z)
    mean, variance = np.empty((len(Z), models[0].coefficients.shape[1])), np.empty(len(Z))
    for model, own in zip(models, owns, strict=True):
        mean[own], variance[own] = local.mean_and_variance(plan, model, Z[own])
    return mean, variance
