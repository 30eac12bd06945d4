"""Left-out residuals of a local model: each training point by the cell that predicts it, the point being removed.

Hyperparameters, the mean of the targets, centres and neighbourhoods stay as they are, less the point itself; so does
which solver a neighbourhood is given to. Cells are not blended. What the long scales learnt from the point is removed
as well, and an exact mean is exact without it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from ..common.arrays import as_doubles, is_tensor
from ..common.memory import batches, rows_per_chunk
from ..common.threads import thread_map
from ..common.types import Booleans, Floats, Integers
from ..solvers import left_out as closed_form
from ..solvers.feature_space import FeatureSpace
from ..solvers.kernel_space import KernelSpace
from . import fast_cells, graded
from . import model as local
from .depth import CellModel
from .engine import RaggedEngine
from .fit import FittedLocal
from .neighbourhoods import TrainingSet
from .plan import Plan
from .predictor import KeptModels, LocalPredictor

CELLS_AT_ONCE = 16  # that a thread takes

Answer: TypeAlias = tuple[Floats, Floats]
"""Residuals (m, r + k + 1) and variances (m,), noise included."""


def left_out(fitted: FittedLocal, n_jobs: int | None, rows: Integers | None = None) -> tuple[Floats, Floats]:
    """Residuals (m, k) of training points, all or some rows (m,), and variances (m,) of the function there.

    Raises
    ------
    ValueError
        Where the model keeps no training points.
    """
    predictor = _on_host(fitted.predictor.with_points("left-out residuals need"))
    data, part = predictor.data, fitted.global_part
    rows = np.arange(len(data.X)) if rows is None else rows
    exact = fitted.exact_mean
    if exact is not None and exact.variances is not None:
        residuals, variances = np.empty((len(rows), 0)), exact.variances.left_out(rows) + data.noise[rows]
    else:
        residuals, variances = _by_cells(predictor, rows, n_jobs)
    if part is not None:
        unknown, residuals = residuals[:, : part.n_further], residuals[:, part.n_further :]
        residuals, variances = closed_form.completed(residuals, variances, unknown)
        features = part.rows(data.X[rows])
        variances = variances + np.clip(part.variance - np.sum(features**2, axis=1), 0.0, None)
    if exact is not None:
        # Local models may have chosen to be less precise in their variances.
        residuals = exact.weights[rows] * exact.left_out_variances(variances, rows)[:, None]
    shift = as_doubles(fitted.y_mean) - as_doubles(fitted.frame.offset)
    residuals = residuals[:, :-1] - residuals[:, -1:] * shift
    if fitted.drift is not None:
        k = residuals.shape[1] - fitted.drift.size
        residuals, variances = fitted.drift.left_out(residuals[:, :k], variances, residuals[:, k:])
    latent: Floats = np.maximum(variances - data.noise[rows], 0.0)
    return residuals, latent


def _on_host(predictor: LocalPredictor) -> LocalPredictor:
    """The same with NumPy arrays."""
    data, placement = predictor.data, predictor.placement
    if not is_tensor(data.X):
        return predictor
    X, y, noise = (as_doubles(values) for values in (data.X, data.y, data.noise))
    data = TrainingSet.of(X, y[:, :-1], noise)
    placement = replace(placement, centers=as_doubles(placement.centers))
    return replace(predictor, data=data, placement=placement, engine=RaggedEngine(), models=[], kept=KeptModels())


def _by_cells(predictor: LocalPredictor, rows: Integers, n_jobs: int | None) -> Answer:
    """Residuals (m, r + k + 1) of rows (m,) by local models alone, and their variances (m,), noise included."""
    data, placement = predictor.data, predictor.placement
    if placement.sizes is not None:
        return _by_graded_cells(predictor, rows, n_jobs)
    is_told, (residuals, variances) = _by_predictions(predictor, rows)
    if not is_told.all():
        others = rows[~is_told]
        places, owner = _places(predictor, data.X[others])
        residuals[~is_told], variances[~is_told] = _cell_by_cell(
            lambda batch, own: _around_places(predictor, places[batch], own),
            data.y.shape[1], others, owner, len(places), n_jobs,
        )  # fmt: skip
    return residuals, variances


def _by_graded_cells(predictor: LocalPredictor, rows: Integers, n_jobs: int | None) -> Answer:
    """The same by graded cells, in compiled loops as far as they can do it."""
    plan, data, placement = predictor.plan, predictor.data, predictor.placement
    assert placement.sizes is not None
    owner = graded.weights(placement, data.X[rows], False, n_jobs)[1]
    numbers, owner = np.unique(owner, return_inverse=True)
    order = np.argsort(owner, kind="stable")
    bounds = np.searchsorted(owner[order], np.arange(len(numbers) + 1))
    members = fast_cells.Members(data.X[rows], order, bounds)
    cells = placement.centers[numbers], placement.sizes[numbers], members
    quick = fast_cells.answer(plan, predictor.depth, data, *cells, True, n_jobs, rows, len(placement.centers))
    if quick is not None and not quick.left.any():
        return quick.mean, quick.variance
    models_of = predictor.models_of_cells()
    left = np.ones(len(rows), dtype=bool) if quick is None else quick.left[owner]
    numbers, owner = np.unique(numbers[owner[left]], return_inverse=True)
    residuals, variances = _cell_by_cell(
        lambda batch, own: _in_graded_cells(predictor, numbers[batch], models_of(numbers[batch]), own),
        data.y.shape[1], rows[left], owner, len(numbers), n_jobs,
    )  # fmt: skip
    if quick is None:
        return residuals, variances
    quick.mean[left], quick.variance[left] = residuals, variances
    return quick.mean, quick.variance


def _cell_by_cell(
    answer: Callable[[slice, list[Integers]], list[Answer]],
    width: int,
    rows: Integers,
    owner: Integers,
    n_cells: int,
    n_jobs: int | None,
) -> Answer:
    """Residuals (m, width) and variances (m,) of rows (m,), whose cells are `owner` (m,).

    `answer` gives those of some cells, and is told the rows of each.
    """
    order = np.argsort(owner, kind="stable")
    bounds = np.searchsorted(owner[order], np.arange(n_cells + 1))
    residuals, variances = np.empty((len(rows), width)), np.empty(len(rows))

    def work(batch: slice) -> None:
        members = [order[bounds[i] : bounds[i + 1]] for i in range(batch.start, batch.stop)]
        for chosen, (some, spread) in zip(members, answer(batch, [rows[each] for each in members]), strict=True):
            residuals[chosen], variances[chosen] = some, spread

    thread_map(work, batches(n_cells, min(CELLS_AT_ONCE, max(n_cells // 8, 1))), n_jobs, "noise: left-out residuals")
    return residuals, variances


def _by_predictions(predictor: LocalPredictor, rows: Integers) -> tuple[Booleans, Answer]:
    """Which rows (m,) the models at hand tell about by their predictions, and residuals and variances of those."""
    plan, data, placement = predictor.plan, predictor.data, predictor.placement
    X, y, noise = data.X[rows], data.y[rows], data.noise[rows]
    residuals, variances = np.empty_like(y), np.empty_like(noise)
    told = noise >= closed_form.LEAST_NOISE * plan.kernel.variance
    # A sketch may hold more than the prior has, which predictions do not tell.
    is_taylor = plan.features is None or plan.features.moments is not None
    if not predictor.models or plan.radius is None or plan.count is not None or not is_taylor or not told.any():
        return np.zeros(len(rows), dtype=bool), (residuals, variances)
    distance, owner = predictor.engine.nearest(placement, X, True)
    # Inside the neighbourhood of a model for sure, so that it has seen the point.
    told &= ~predictor._in_hole(distance, owner) & (distance < (1 - 1e-9) * plan.radius)
    X, y, noise, owner = X[told], y[told], noise[told], owner[told]
    mean, variance = predictor.engine.predict(plan, predictor.models, placement.centers, X, owner, True)
    if plan.features is not None and plan.correction:
        in_features = np.array([not isinstance(model, KernelSpace) for model in predictor.models])[owner]
        missing = plan.features.missing_variance(X - placement.centers[owner]) * in_features
        residuals[told], whole = closed_form.of_predictions(mean, variance - missing, y, noise + missing)
        most = np.where(in_features, plan.kernel.variance + noise, np.inf)  # see `Plan.total_variance`
        variances[told] = np.minimum(whole, most)
    else:
        residuals[told], variances[told] = closed_form.of_predictions(mean, variance, y, noise)
    return told, (residuals, variances)


def _places(predictor: LocalPredictor, X: Floats) -> tuple[Floats, Integers]:
    """Centres (C, d) of the cells that predict at points (m, d), and which one (m,) each is in."""
    placement = predictor.placement
    places = X.copy()
    if len(placement.centers):
        distance, owner = predictor.engine.nearest(placement, X, True)
        inside = ~predictor._in_hole(distance, owner)
        places[inside] = placement.centers[owner[inside]]
        if predictor.plan.count is None and placement.lattice is not None:
            lattice = placement.lattice
            places[~inside] = lattice.middles(lattice.indices(X[~inside]))
    distinct, owner = np.unique(places, axis=0, return_inverse=True)
    return distinct, owner.reshape(-1)


def _around_places(predictor: LocalPredictor, places: Floats, own: list[Integers]) -> list[Answer]:
    """Residuals and variances of the points of each place."""
    plan, data = predictor.plan, predictor.data
    near = data.neighbourhoods(places, plan.radius, plan.count, plan.kernel)
    stored = predictor.models[0] if plan.is_exact and len(predictor.models) == 1 else None
    return [_around(plan, data, stored, *each) for each in zip(places, map(np.sort, near), own, strict=True)]


def _around(
    plan: Plan, data: TrainingSet, stored: KernelSpace | None, place: Floats, near: Integers, own: Integers
) -> Answer:
    """The same for one place, with the points of its neighbourhood; `stored` is its model where that is at hand."""
    Z, y, noise = data.X[near] - place, data.y[near], data.noise[near]
    positions, inside = _positions(near, own)
    model: local.LocalModel
    if plan.takes_kernel_space(len(near)):
        model = stored or local.in_kernel_space(plan, Z, y, noise)
        assert isinstance(model, KernelSpace)
        residuals, variances = closed_form.of_kernel_space(model, positions)
    else:
        model = local.solve_one(plan, Z, y, noise)
        assert isinstance(model, FeatureSpace)
        residuals, variances = _with_features(plan, model, *(values[positions] for values in (Z, y, noise)))
        if plan.correction:  # see `Plan.total_variance`
            variances = np.minimum(variances, plan.kernel.variance + noise[positions])
    if inside.all():
        return residuals, variances
    mean, variance = local.mean_and_variance(plan, model, data.X[own[~inside]] - place)
    return _merged(data, own, inside, (residuals, variances), mean, variance)


def _with_features(plan: Plan, model: FeatureSpace, Z: Floats, y: Floats, noise: Floats) -> Answer:
    """Residuals and variances of points (m, d) that a model in feature space was made of."""
    assert plan.features is not None
    residuals, variances = np.empty_like(y), np.empty_like(noise)
    for chunk in batches(len(Z), rows_per_chunk(24 * plan.features.n_components, len(Z))):
        weighted = local.weighted(plan, Z[chunk], y[chunk], noise[chunk])
        residuals[chunk], variances[chunk] = closed_form.of_feature_space(model, *weighted)
    return residuals, variances


def _in_graded_cells(
    predictor: LocalPredictor, numbers: Integers, models: list[CellModel], own: list[Integers]
) -> list[Answer]:
    """Residuals and variances of the points of each graded cell."""
    data, centers = predictor.data, predictor.placement.centers
    answers = []
    for number, model, rows in zip(numbers.tolist(), models, own, strict=True):
        assert model.rows is not None
        order = np.argsort(model.rows)
        positions, inside = _positions(model.rows[order], rows)
        answer = closed_form.of_factor(model.factor, model.y, order[positions])
        if not inside.all():
            others = model.mean_and_variance(data.X[rows[~inside]] - centers[number])
            answer = _merged(data, rows, inside, answer, *others)
        answers.append(answer)
    return answers


def _positions(near: Integers, own: Integers) -> tuple[Integers, Booleans]:
    """Where among the sorted rows `near` those of `own` are that are there, and which are (m,)."""
    positions = np.minimum(np.searchsorted(near, own), max(len(near) - 1, 0))
    inside = near[positions] == own if len(near) else np.zeros(len(own), dtype=bool)
    return positions[inside], inside


def _merged(
    data: TrainingSet, own: Integers, inside: Booleans, answer: Answer, mean: Floats, variance: Floats
) -> Answer:
    """Answers for points of the neighbourhood, and for others, which it never saw."""
    residuals, variances = np.empty((len(own), data.y.shape[1])), np.empty(len(own))
    residuals[inside], variances[inside] = answer
    outside = own[~inside]
    residuals[~inside], variances[~inside] = data.y[outside] - mean, variance + data.noise[outside]
    return residuals, variances
