"""Left-out residuals of a local model: each training point by the cell that predicts it, the point being removed.

Hyperparameters, the mean of the targets, centres and neighbourhoods stay as they are, less the point itself; so does
which solver a neighbourhood is given to. Cells are not blended. What the long scales learnt from the point is removed
as well, and an exact mean is exact without it.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..common.arrays import as_doubles, is_tensor
from ..common.memory import batches, rows_per_chunk
from ..common.threads import thread_map
from ..common.types import Booleans, Floats, Integers
from ..solvers import left_out as closed_form
from ..solvers.feature_space import FeatureSpace
from ..solvers.kernel_space import KernelSpace
from . import graded
from . import model as local
from .depth import fit_cells
from .engine import RaggedEngine
from .fit import FittedLocal
from .neighbourhoods import TrainingSet
from .plan import Plan
from .predictor import LocalPredictor

CELLS_AT_ONCE = 16  # that a thread takes


def left_out(fitted: FittedLocal, n_jobs: int | None, rows: Integers | None = None) -> tuple[Floats, Floats]:
    """Residuals (m, k) of training points, all or some rows (m,), and variances (m,) of the function there.

    Raises
    ------
    ValueError
        Where the model keeps no training points.
    """
    predictor = fitted.predictor
    if not isinstance(predictor, LocalPredictor) or predictor.n_samples == 0:
        raise ValueError("The model keeps no training points, which left-out residuals need: fit it to arrays.")
    predictor = _on_host(predictor)
    data, part = predictor.data, fitted.global_part
    rows = np.arange(len(data.X)) if rows is None else rows
    residuals, variances = _by_cells(predictor, rows, n_jobs)
    if part is not None:
        unknown, residuals = residuals[:, : part.n_further], residuals[:, part.n_further :]
        residuals, variances = closed_form.completed(residuals, variances, unknown)
        features = part.rows(data.X[rows])
        variances = variances + np.clip(part.variance - np.sum(features**2, axis=1), 0.0, None)
    if fitted.exact_mean is not None:
        # Local models may have chosen to be less precise in their variances.
        residuals = fitted.exact_mean.weights[rows] * fitted.exact_mean.left_out_variances(variances, rows)[:, None]
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
    return replace(predictor, data=data, placement=placement, engine=RaggedEngine(), models=[], kept={})


def _by_cells(predictor: LocalPredictor, rows: Integers, n_jobs: int | None) -> tuple[Floats, Floats]:
    """Residuals (m, r + k + 1) of rows (m,) by local models alone, and their variances (m,), noise included."""
    data, placement = predictor.data, predictor.placement
    is_graded = placement.sizes is not None
    if is_graded:
        _, owner, _ = graded.weights(placement, data.X[rows], False, n_jobs)
        used, owner = np.unique(owner, return_inverse=True)
        places = placement.centers[used]
    else:
        places, owner = _places(predictor, data.X[rows])
    order = np.argsort(owner, kind="stable")
    bounds = np.searchsorted(owner[order], np.arange(len(places) + 1))
    residuals, variances = np.empty((len(rows), data.y.shape[1])), np.empty(len(rows))

    def work(batch: slice) -> None:
        numbers = range(batch.start, batch.stop)
        members = [order[bounds[i] : bounds[i + 1]] for i in numbers]
        own = [rows[chosen] for chosen in members]
        if is_graded:
            assert placement.sizes is not None
            answers = _in_graded_cells(predictor, places[batch], placement.sizes[used[batch]], own)
        else:
            answers = _around_places(predictor, places[batch], own)
        for chosen, (some, spread) in zip(members, answers, strict=True):
            residuals[chosen], variances[chosen] = some, spread

    thread_map(work, batches(len(places), min(CELLS_AT_ONCE, max(len(places) // 8, 1))), n_jobs)
    return residuals, variances


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


Answer = tuple[Floats, Floats]


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


def _in_graded_cells(predictor: LocalPredictor, centers: Floats, sizes: Floats, own: list[Integers]) -> list[Answer]:
    """Residuals and variances of the points of each graded cell."""
    data = predictor.data
    answers = []
    models = fit_cells(predictor.plan, predictor.depth, data, centers, sizes)
    for model, center, rows in zip(models, centers, own, strict=True):
        (near,) = data.nearest(center[None], len(model.X))
        order = np.argsort(near)
        positions, inside = _positions(near[order], rows)
        answer = closed_form.of_factor(model.factor, model.y, order[positions])
        if not inside.all():
            answer = _merged(data, rows, inside, answer, *model.mean_and_variance(data.X[rows[~inside]] - center))
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
