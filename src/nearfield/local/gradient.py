r"""Gradients of the mean that local models predict, and how uncertain those of the function are.

The mean is a sum of the means of models, times weights that change from place to place,

.. math:: \nabla \sum_c w_c(x) \, m_c(x) = \sum_c w_c \nabla m_c + m_c \nabla w_c

and so is its gradient: that of features or kernels, and that of the weights. The covariance of the function's gradient
is the weighted sum of those that the models state, as its variance is.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from ..common.derivatives import along_columns
from ..common.memory import batches
from ..common.threads import thread_map
from ..common.types import Floats, Integers
from ..kernels import Kernel
from ..solvers.factors import Factor
from ..solvers.kernel_space import KernelSpace
from ..solvers.products import kernel_sums
from . import blending, ensemble
from .centers import Lattice
from .depth import CellModel
from .fit import FittedLocal
from .global_part import GlobalPart
from .iteration import CUTOFF, ExactMean
from .model import LocalModel, from_statistics
from .moments import MomentModel
from .plan import Plan
from .predictor import SHARED_SIDES, LocalPredictor

PLACES_AT_ONCE = 512  # of a model
MODELS_AT_ONCE = 64


class Slopes(NamedTuple):
    """Values (m, t), gradients (m, d, t) and, where asked for, covariances of the function's gradient (m, d, d)."""

    value: Floats
    gradient: Floats
    covariance: Floats | None


def gradients(fitted: FittedLocal, X: Floats, with_covariance: bool, blend: bool) -> tuple[Floats, Floats | None]:
    """Gradients (m, d, k) of the mean at points (m, d), and covariances (m, d, d) of the function's gradient."""
    predictor, part = fitted.predictor.with_points("gradients need", 0), fitted.global_part
    points = fitted.frame.points(X)
    gradient: Floats
    covariance: Floats | None = None
    if fitted.exact_mean is None or with_covariance:
        slopes = _of_predictor(predictor, points, with_covariance, blend)
        gradient, covariance = slopes.gradient, slopes.covariance
        if part is not None:
            gradient, covariance = _completed(part, points, gradient, covariance)
    if fitted.exact_mean is not None:
        gradient = _of_exact_mean(fitted.exact_mean, points)
    gradient = gradient[:, :, :-1] - gradient[:, :, -1:] * (fitted.y_mean - fitted.frame.offset)
    unit = np.broadcast_to(fitted.frame.unit, X.shape[1])
    gradient /= unit[:, None]
    return gradient, None if covariance is None else covariance / np.outer(unit, unit)


# ---- one model ---------------------------------------------------------------------------------------------------


def kernel_space_slopes(
    kernel: Kernel, X: Floats, factor: Factor, coefficients: Floats, Z: Floats, with_covariance: bool
) -> Slopes:
    """Of a process conditioned on points (n, d), at places (m, d)."""
    cross, slopes = np.zeros((len(Z), len(X))), np.zeros((Z.shape[1], len(Z), len(X)))
    gaps = Z.T[:, :, None] - X.T[:, None, :]
    kernel = kernel.expanded()
    for scales, variance in kernel.components():
        values = Kernel(scales[None], np.array([variance]))(Z, X)
        cross += values
        slopes -= gaps / np.broadcast_to(scales**2, Z.shape[1])[:, None, None] * values
    gradient = np.stack([each @ coefficients for each in slopes], axis=1)
    if not with_covariance:
        return Slopes(cross @ coefficients, gradient, None)
    halves = [factor.whiten(each.T) for each in slopes]
    return Slopes(cross @ coefficients, gradient, prior_covariance(kernel, Z.shape[1]) - _products(halves))


def prior_covariance(kernel: Kernel, d: int) -> Floats:
    """Covariance (d, d) of the gradient of the function before there are data."""
    return np.diag(
        np.sum(np.broadcast_to(kernel.variances[:, None] / kernel.length_scales**2, (kernel.n_scales, d)), 0)
    )


def _products(halves: list[Floats]) -> Floats:
    """Sums over rows of products of (n, m) arrays, one per column: (m, d, d)."""
    stacked = np.stack(halves)
    result: Floats = np.einsum("anm,bnm->mab", stacked, stacked)
    return result


def _of_features(plan: Plan, model: LocalModel, Z: Floats, with_covariance: bool) -> Slopes:
    features = plan.features
    assert features is not None
    slopes = along_columns(features.rows, Z)
    value = features.rows(Z).T @ model.coefficients
    gradient = np.stack([each.T @ model.coefficients for each in slopes], axis=1)
    if not with_covariance:
        return Slopes(value, gradient, None)
    if isinstance(model, MomentModel):
        assert features.moments is not None
        factor = from_statistics(plan, features.moments.expanded(model.sums)).factor
    else:
        factor = model.factor
    covariance = _products([factor.whiten(each) for each in slopes])
    if plan.correction:  # what features lack of the prior
        d, roots = Z.shape[1], 1 / np.sqrt(features.precision)[:, None]
        missing = prior_covariance(plan.kernel, d) - _products([each * roots for each in slopes])
        diagonal = np.arange(d)
        covariance[:, diagonal, diagonal] += np.maximum(missing[:, diagonal, diagonal], 0.0)
    return Slopes(value, gradient, covariance)


def _of_model(plan: Plan, model: LocalModel | CellModel, Z: Floats, with_covariance: bool) -> Slopes:
    """At places relative to the centre, (m, d)."""
    if isinstance(model, KernelSpace):
        return kernel_space_slopes(
            model.kernel.expanded(), model.X, model.factor, model.coefficients, Z, with_covariance
        )
    if isinstance(model, CellModel):
        coefficients = model.factor.solve(model.y)
        return kernel_space_slopes(model.kernel, model.X, model.factor, coefficients, Z, with_covariance)
    return _of_features(plan, model, Z, with_covariance)


# ---- all of them -------------------------------------------------------------------------------------------------


class _Terms(NamedTuple):
    """Models that share in the answers at places."""

    rows: Integers  # (t,): which place
    weights: Floats  # (t,)
    slopes: Floats  # (t, d): of the weights
    owner: Integers | None  # (t,): number of the model's centre
    middles: Floats  # (t, d): its place

    def scaled(self, factors: Floats, slopes: Floats) -> _Terms:
        """With weights times factors (m,) of the places, whose slopes are (m, d)."""
        f, df = factors[self.rows], slopes[self.rows]
        changed = f[:, None] * self.slopes + self.weights[:, None] * df
        return self._replace(weights=f * self.weights, slopes=changed)

    def at(self, places: Integers) -> _Terms:
        """The same for rows that were counted among some places only."""
        return self._replace(rows=places[self.rows])


def _of_predictor(predictor: LocalPredictor, X: Floats, with_covariance: bool, blend: bool) -> Slopes:
    """Of all targets that a predictor stores, at points (m, d) in length scales."""
    m, d, t = len(X), X.shape[1], predictor.n_columns
    gradient, total = np.zeros((m, d, t)), np.zeros(m)
    covariance = np.zeros((m, d, d)) if with_covariance else None
    n_jobs = getattr(predictor.engine, "n_jobs", None)
    for terms in _terms(predictor, X, blend):
        np.add.at(total, terms.rows, terms.weights)
        for batch in _batches_of_models(predictor, terms):

            def answer(item: tuple[Integers, Any]) -> Slopes:
                own, model = item
                Z = X[terms.rows[own]] - terms.middles[own[0]]  # noqa: B023
                return _of_model(predictor.plan, model, Z, with_covariance)

            for (own, _), slopes in zip(batch, thread_map(answer, batch, n_jobs), strict=True):
                rows, weights = terms.rows[own], terms.weights[own]
                gradient[rows] += weights[:, None, None] * slopes.gradient
                gradient[rows] += terms.slopes[own][:, :, None] * slopes.value[:, None, :]
                if covariance is not None:
                    covariance[rows] += weights[:, None, None] * slopes.covariance
    if covariance is not None:  # where no model answers, the prior does
        covariance += (1.0 - total)[:, None, None] * prior_covariance(predictor.plan.kernel.expanded(), d)
    return Slopes(np.empty((m, 0)), gradient, covariance)


def _batches_of_models(predictor: LocalPredictor, terms: _Terms) -> Iterator[list[tuple[Integers, Any]]]:
    """Models, a few at a time, each with some of the terms that are its own."""
    plan, centers = predictor.plan, predictor.placement.centers
    if terms.owner is None:
        distinct, owner = np.unique(terms.middles, axis=0, return_inverse=True)
        owner = owner.reshape(-1)
        numbers = np.arange(len(distinct))
    else:
        distinct, owner = centers, terms.owner
        numbers = np.unique(owner)
    order = np.argsort(owner, kind="stable")
    bounds = np.searchsorted(owner[order], np.append(numbers, numbers[-1] + 1 if len(numbers) else 0))
    for batch in batches(len(numbers), MODELS_AT_ONCE):
        chosen = numbers[batch]
        models: list[Any]
        if terms.owner is not None and predictor.placement.sizes is not None:
            models = list(predictor._models(chosen))
        elif terms.owner is not None and predictor.models:
            models = [predictor.models[i] for i in chosen]
        else:
            models = list(ensemble.fit_all(plan, predictor.data, distinct[chosen], None))
        yield [
            (order[bounds[i] : bounds[i + 1]][chunk], model)
            for i, model in zip(range(batch.start, batch.stop), models, strict=True)
            for chunk in batches(int(bounds[i + 1] - bounds[i]), PLACES_AT_ONCE)
        ]


def _terms(predictor: LocalPredictor, X: Floats, blend: bool) -> Iterator[_Terms]:
    """The models that answer at points (m, d), as those of `Predictor` do."""
    placement, engine = predictor.placement, predictor.engine
    everywhere = np.arange(len(X))
    if len(X) == 0:
        return
    if placement.sizes is not None:
        counts, owner, _ = engine.weights(placement, X, blend)
        yield _shared(X, counts, owner, placement.centers, placement.sizes)
        return
    if len(placement.centers) == 0:
        yield _alone(everywhere, X, None)
        return
    distance, nearest = engine.nearest(placement, X, not predictor._opens_cells)
    if not blend or not predictor.can_blend:
        in_hole = predictor._in_hole(distance, nearest)
        near, away = np.flatnonzero(~in_hole), np.flatnonzero(in_hole)
        yield _alone(near, placement.centers[nearest[near]], nearest[near])
        if len(away):
            yield from _in_holes(predictor, X, away)
        return
    opened, rise = np.zeros(len(X)), np.zeros_like(X)
    if predictor._opens and placement.spacing is not None:
        opened = blending.weight_of_opened_cells(distance, placement.spacing)
        width = (blending.REACH - blending.SLACK) * placement.spacing
        towards = (X - placement.centers[nearest]) / np.maximum(distance, blending.TINY)[:, None]
        rise = _slope((distance - blending.SLACK * placement.spacing) / width)[:, None] * towards / width
    near, away = np.flatnonzero(opened < 1), np.flatnonzero(opened > 0)
    if len(near):
        counts, owner = engine.within(placement, X[near], blending.reach_of_centers(distance[near]))
        shared = _shared(X[near], counts, owner, placement.centers, None)
        yield shared.at(near).scaled(1 - opened, -rise)
    if len(away):
        for terms in _in_blended_holes(predictor, X, away):
            yield terms.scaled(opened, rise)


def _alone(rows: Integers, middles: Floats, owner: Integers | None) -> _Terms:
    """One model for each of some places."""
    return _Terms(rows, np.ones(len(rows)), np.zeros_like(middles), owner, middles)


def _in_holes(predictor: LocalPredictor, X: Floats, away: Integers) -> Iterator[_Terms]:
    lattice = predictor.placement.lattice
    if predictor.plan.count is not None or lattice is None:
        yield _alone(away, X[away], None)
        return
    reached = away[predictor._in_reach(X[away])]
    yield _alone(reached, lattice.middles(lattice.indices(X[reached])), None)


def _in_blended_holes(predictor: LocalPredictor, X: Floats, away: Integers) -> Iterator[_Terms]:
    lattice, reached = predictor.placement.lattice, away[predictor._in_reach(X[away])]
    if lattice is None or X.shape[1] > SHARED_SIDES:
        yield _alone(reached, X[reached], None)
        return
    for chosen, middles, weights in blending.weights_of_cells(lattice, X[reached]):
        slopes = _slopes_of_cells(lattice, X[reached][chosen], middles)
        yield _Terms(reached[chosen], weights, slopes, None, middles)


def _slope(t: Floats) -> Floats:
    """Derivative of the smooth step of `blending`."""
    t = np.clip(t, 0.0, 1.0)
    result: Floats = 6 * t * (1 - t)
    return result


def _slopes_of_cells(lattice: Lattice, X: Floats, middles: Floats) -> Floats:
    """Slopes (m, d) of the weights that cells around middles (m, d) have at points (m, d)."""
    band, width = blending.BAND, 2 * blending.BAND
    place = (X - middles) / lattice.side  # beyond half a side, the cell is not the point's own
    t = (0.5 - np.abs(place) + band) / width
    factors = blending.smooth(t)
    slopes = -np.sign(place) * _slope(t) / (width * lattice.side)
    d = X.shape[1]
    others = np.stack([np.prod(np.delete(factors, c, axis=1), axis=1) for c in range(d)], axis=1)
    result: Floats = slopes * others
    return result


def _shared(X: Floats, counts: Integers, owner: Integers, centers: Floats, sizes: Floats | None) -> _Terms:
    """Weights of centres around each point, with distances in units of `sizes`; see `blending.weights_by_distance`."""
    rows = np.repeat(np.arange(len(X)), counts)
    starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
    scale = np.ones(len(owner)) if sizes is None else sizes[owner]
    gaps = (X[rows] - centers[owner]) / scale[:, None]
    squares, slopes = np.sum(gaps * gaps, axis=1), 2 * gaps / scale[:, None]
    least = np.minimum.reduceat(squares, starts)
    first = np.full(len(X), len(owner))
    np.minimum.at(first, rows, np.where(squares == least[rows], np.arange(len(owner)), len(owner)))
    unit = blending.CLOSE**2 * np.maximum(least, blending.TINY**2)
    unit_slopes = np.where((least > blending.TINY**2)[:, None], blending.CLOSE**2 * slopes[first], 0.0)
    share = squares / unit[rows]
    share_slopes = (slopes - share[:, None] * unit_slopes[rows]) / unit[rows, None]
    rest = np.maximum(1.0 - share, 0.0)
    weights, weight_slopes = rest**2, -2 * rest[:, None] * share_slopes
    total = np.add.reduceat(weights, starts)[rows]
    total_slopes = np.add.reduceat(weight_slopes, starts, axis=0)[rows]
    weights /= total
    return _Terms(
        rows, weights, (weight_slopes - weights[:, None] * total_slopes) / total[:, None], owner, centers[owner]
    )


# ---- what knows all data -----------------------------------------------------------------------------------------


def _completed(
    part: GlobalPart, X: Floats, gradient: Floats, covariance: Floats | None
) -> tuple[Floats, Floats | None]:
    """Gradients (m, d, k + 1) and covariances, from those of local models; see `GlobalPart.completed`."""
    r = part.n_further
    rows = np.stack(along_columns(part.rows, X), axis=1)
    answers = gradient[:, :, r:] + rows @ part.coefficients
    if covariance is not None:
        unknown = rows @ part.spread - gradient[:, :, :r]
        covariance = covariance + np.einsum("mar,mbr->mab", unknown, unknown)
        prior = sum(np.diag(each.variance / each.length_scales**2) for each in part.features)
        diagonal = np.arange(X.shape[1])
        missing = np.maximum(np.diag(prior) - np.sum(rows * rows, axis=2), 0.0)
        covariance[:, diagonal, diagonal] += missing
    return answers, covariance


def _of_exact_mean(exact: ExactMean, X: Floats) -> Floats:
    """Gradients (m, d, k + 1) of the mean that is solved for all data."""
    d = exact.X.shape[1]
    middle = exact.X.mean(axis=0)
    points, places, k = exact.X - middle, X - middle, exact.weights.shape[1]
    result = np.zeros((len(X), d, k))
    for c in range(d):
        scales = np.broadcast_to(exact.kernel.length_scales, (exact.kernel.n_scales, d))
        kernel = Kernel(exact.kernel.length_scales, exact.kernel.variances / scales[:, c] ** 2)
        V = np.concatenate([exact.weights, points[:, [c]] * exact.weights], axis=1)
        sums = kernel_sums(kernel, points, V, cutoff=CUTOFF, n_jobs=exact.n_jobs)(places)
        result[:, c] = sums[:, k:] - places[:, [c]] * sums[:, :k]
    if exact.features:
        for chunk in batches(len(X), PLACES_AT_ONCE):
            for features, weights in zip(exact.features, _split(exact), strict=True):
                result[chunk] += np.stack(along_columns(features, X[chunk]), axis=1) @ weights
    return result


def _split(exact: ExactMean) -> list[Floats]:
    """Weights of the features of each long scale."""
    ends = np.cumsum([each.n_components for each in exact.features])[:-1]
    return np.split(exact.long_weights, ends)
