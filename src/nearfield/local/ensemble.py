"""Many local models: made, brought up to date and asked side by side, in threads."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..common import memory
from ..common.memory import batches
from ..common.threads import thread_map
from ..common.types import Floats, Integers
from ..solvers import linalg
from .model import FeatureModel, KernelModel, LocalModel, finish, fit_one, sums
from .neighbourhoods import TrainingSet
from .plan import Plan

_BATCH = 64  # centres that a thread takes at once
_GROUP = 1 << 19  # numbers in the features of a group of centres


def fit_all(plan: Plan, data: TrainingSet, centers: Floats, n_jobs: int | None) -> list[LocalModel]:
    """Models around all centres."""

    def work(batch: slice) -> list[LocalModel]:
        chosen = centers[batch]
        found = data.neighbourhoods(chosen, plan.radius, plan.count)
        return [
            m for part in _groups([len(f) for f in found], plan) for m in _fit_group(plan, data, chosen, found, part)
        ]

    pieces = batches(len(centers), min(_BATCH, max(len(centers) // 8, 1)))
    return [model for part in thread_map(work, pieces, n_jobs) for model in part]


def model_bytes(plan: Plan, data: TrainingSet, centers: Floats) -> tuple[float, float]:
    """Memory that the largest model takes while it is made, and that the models of all centres take.

    Neighbours are not counted for features: a neighbourhood solved in kernel space although there are features may
    take three times what they do.
    """
    least = min(plan.count or 0, len(data.X))
    if plan.features is not None:
        sizes, copies = np.full(len(centers), max(plan.features.n_components, least)), 3.0
    else:
        sizes = np.full(len(centers), least) if plan.radius is None and least else data.counts(centers, plan.radius)
        sizes, copies = np.maximum(sizes, least), 1.2 if plan.kernel.n_scales == 1 else 2.2
    squares = 8.0 * sizes.astype(np.float64) ** 2
    return copies * float(np.max(squares, initial=0.0)), float(np.sum(squares))


def _fit_group(plan: Plan, data: TrainingSet, centers: Floats, found: list[Integers], group: slice) -> list[LocalModel]:
    """Models of a few centres; their features are evaluated together, which spares most of the calls."""
    centers, found = centers[group], found[group]
    if len(found) == 1 or plan.features is None:
        return [
            fit_one(plan, data.X[f] - center, data.y[f], data.noise[f])
            for center, f in zip(centers, found, strict=True)
        ]
    sizes = np.array([len(f) for f in found])
    every = np.concatenate(found)
    Z = data.X[every] - np.repeat(centers, sizes, axis=0)
    variance = data.noise[every]
    if plan.correction:
        variance = variance + plan.features.missing_variance(Z)
    root = 1.0 / np.sqrt(variance)
    rows, targets = plan.features.rows(Z, root), data.y[every] * root[:, None]
    models: list[LocalModel] = []
    for stop, size in zip(np.cumsum(sizes), sizes, strict=True):
        own = slice(stop - size, stop)
        models.append(finish(plan, linalg.gram_of_rows(rows[:, own]), rows[:, own] @ targets[own]))
    return models


def _groups(sizes: Sequence[int], plan: Plan) -> list[slice]:
    """Runs of neighbours in feature space whose features together stay in the cache; each other one by itself."""
    room = _GROUP / plan.features.n_components if plan.features is not None else 0.0
    groups: list[slice] = []
    total = np.inf
    for i, size in enumerate(sizes):
        alone = plan.takes_kernel_space(size)
        if alone or total + size > room:
            groups.append(slice(i, i + 1))
            total = np.inf if alone else size
        else:
            groups[-1] = slice(groups[-1].start, i + 1)
            total += size
    return groups


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

    return [model for part in thread_map(work, batches(len(centers), _BATCH), n_jobs) for model in part]


def remake(
    plan: Plan, models: Sequence[LocalModel | None], data: TrainingSet, centers: Floats, n_jobs: int | None
) -> list[LocalModel]:
    """Models with those that are None made from the data, as `update_all` makes them."""

    def work(batch: slice) -> list[LocalModel]:
        result: list[LocalModel] = []
        for i in range(batch.start, batch.stop):
            model = models[i]
            if model is None:
                around = data.neighbourhoods(centers[i][None], plan.radius, plan.count)[0]
                model = fit_one(plan, data.X[around] - centers[i], data.y[around], data.noise[around])
            result.append(model)
        return result

    return [model for part in thread_map(work, batches(len(models)), n_jobs) for model in part]


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
    step = min(memory.rows_per_chunk(24 * longest, len(X)), 4096)
    # A piece of work is a run of points in the order of their centres; large groups are cut.
    pieces = [
        (int(i), slice(start, min(start + step, int(bounds[i + 1]))))
        for i in np.flatnonzero(np.diff(bounds))
        for start in range(int(bounds[i]), int(bounds[i + 1]), step)
    ]

    def work(batch: slice) -> None:
        part = pieces[batch]
        for group in _predict_together(part, models, plan):
            if len(group) == 1 or not with_variance:
                for i, run in group:
                    members = order[run]
                    m, v = models[i].predict(plan, X[members] - centers[i], with_variance)
                    mean[members] = m
                    if v is not None:
                        variance[members] = v
            else:
                members = order[group[0][1].start : group[-1][1].stop]
                mean[members], variance[members] = _predict_features(plan, models, centers, X[members], group)

    thread_map(work, batches(len(pieces), min(_BATCH, max(len(pieces) // 8, 1))), n_jobs)
    return mean, variance


Piece = tuple[int, slice]


def _predict_together(pieces: list[Piece], models: Sequence[LocalModel], plan: Plan) -> list[list[Piece]]:
    """Runs of pieces in feature space whose features together stay in the cache; each other one by itself."""
    room = _GROUP / plan.features.n_components if plan.features is not None else 0.0
    groups: list[list[Piece]] = []
    total = np.inf
    for i, run in pieces:
        alone, size = isinstance(models[i], KernelModel), run.stop - run.start
        if alone or total + size > room:
            groups.append([(i, run)])
            total = np.inf if alone else size
        else:
            groups[-1].append((i, run))
            total += size
    return groups


def _predict_features(
    plan: Plan, models: Sequence[LocalModel], centers: Floats, X: Floats, group: list[Piece]
) -> tuple[Floats, Floats]:
    """Means and variances of a few pieces in feature space, with their features evaluated together."""
    assert plan.features is not None
    sizes = np.array([run.stop - run.start for _, run in group])
    Z = X - np.repeat(centers[[i for i, _ in group]], sizes, axis=0)
    rows = plan.features.rows(Z)
    mean = np.empty((len(X), models[group[0][0]].coefficients.shape[1]))
    for (i, _), stop, size in zip(group, np.cumsum(sizes), sizes, strict=True):
        own = slice(stop - size, stop)
        mean[own] = rows[:, own].T @ models[i].coefficients
        linalg.solve_lower_rows(models[i].factor, rows[:, own])
    return mean, plan.total_variance(np.einsum("ij,ij->j", rows, rows), Z)
