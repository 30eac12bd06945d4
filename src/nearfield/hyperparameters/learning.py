"""Hyperparameters from data: what every estimator calls."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ..common.budget import Progress
from ..common.types import Booleans, Floats
from ..common.warnings import warn
from .ard import decide_ard
from .blocks import Block, LearningData
from .composite import finish, maximise_composite_likelihood, space_of, with_extents
from .families import compare_families
from .learned import Learned, OnBoundWarning, not_converged_message, on_bounds_message
from .likelihood import feature_log_likelihood
from .optimiser import Optimum, maximise
from .request import Fixed, LearningRequest
from .scales import learn_with_scales
from .several import learn_shared
from .signal import without_chance
from .work import Work

__all__ = [
    "Fixed",
    "Learned",
    "LearningData",
    "LearningRequest",
    "learn",
    "learn_hyperparameters",
    "maximise_feature_likelihood",
]


def learn_hyperparameters(
    X: Floats,
    y: Floats,
    weights: Floats | None,
    request: LearningRequest,
    rng: np.random.RandomState,
    make_blocks: Callable[[bool], list[Block]] | None = None,
    drift: Floats | None = None,
) -> Learned:
    """Learn all hyperparameters that are not given from arrays; for these see `LearningData`.

    Where they are a sample of a stream, `make_blocks` gives blocks of the whole stream; it is told whether each column
    has a length scale of its own.
    """
    data = LearningData(X, y, weights, drift=drift)
    request = decide_ard(data, request, rng)
    if make_blocks is not None and not request.fixed.is_complete:
        data = replace(data, blocks=make_blocks(request.ard))
    return learn(data, request, rng)


def learn(data: LearningData, request: LearningRequest, rng: np.random.RandomState) -> Learned:
    """Learn all hyperparameters that are not given, and warn of what a user should know.

    `rng` is for the blocks and the random starts. Whether columns share a length scale is no longer open. Several
    targets share the length scales that are learnt, and the variances found are means over them.
    """
    fixed, wanted = request.fixed, request.n_scales
    if request.ard and fixed.length_scales is not None and fixed.length_scales.shape[1] < data.X.shape[1]:
        warn("ard=True has no effect where length_scale is given: give one length scale per column instead.")
    if not fixed.is_complete:
        data = with_extents(data, request)
    are_variances_given = fixed.variances is not None and fixed.noise_variance is not None
    if data.y.shape[1] > 1 and fixed.length_scales is None and not are_variances_given:
        learned = learn_shared(data, request, rng, _learn_alike)
    else:
        learned = _learn_alike(data, request, rng)
    learned = replace(learned, ard_reason=request.ard_reason)
    n_free = 0 if fixed.is_complete else int(space_of(data, request, 1).free.sum())
    if request.progress is not None and not fixed.is_complete:
        request.progress("learning", 1.0, learned.log_likelihood)
    if data.y.size <= n_free and (learned.on_bounds or not learned.converged):
        warn(
            f"{len(data.y)} samples do not determine the {n_free} hyperparameters that are to be learnt, so these are "
            f"guesses: give more than {n_free} samples, or the hyperparameters."
        )
        return replace(learned, converged=False)
    if request.is_one_kernel:
        _warn_of(learned, request)
        return learned
    n_scales = learned.kernel.n_scales
    # A further scale on its bound says no more than that it is one too many.
    _warn_of(learned if n_scales == 1 else replace(learned, on_bounds=()), request)
    if wanted is not None and n_scales < wanted:
        warn(f"n_scales={wanted}, but the data tell only {n_scales} apart; those are kept.")
    return learned


def _learn_alike(data: LearningData, request: LearningRequest, rng: np.random.RandomState) -> Learned:
    """What is not given, of one target or of several with the same variances."""
    fixed = request.fixed
    if fixed.is_complete:
        data = replace(data, X=data.X[:1], y=data.y[:1], drift=None)  # there is nothing to look at the others for
    else:
        data = data.with_blocks(request.ard, rng, request.tied, request.n_jobs)
    work = request.work or Work(request.time_budget)
    if request.family != "auto":
        learned = _learn_family(data, request, rng, work)
    elif fixed.is_complete:
        learned = _learn_family(data, replace(request, family="gaussian"), rng, work)
    else:
        learned = compare_families(data, request, lambda one: _learn_family(data, one, rng, work))
    learned = finish(learned, data, replace(request, family=learned.kernel.family), rng, work)
    return without_chance(learned, data, request)


def _learn_family(data: LearningData, request: LearningRequest, rng: np.random.RandomState, work: Work) -> Learned:
    """Learn with a kernel of one family, from some of the blocks."""
    if request.is_one_kernel:
        return maximise_composite_likelihood(data, request, rng, n_scales=request.n_given, work=work)
    return learn_with_scales(data, request, rng, work)


def _warn_of(learned: Learned, request: LearningRequest) -> None:
    if not learned.converged:
        how = learned.log_likelihood, learned.seconds, learned.n_evaluations, request.time_budget
        warn(not_converged_message(*how), ConvergenceWarning)
    if learned.surprising_bounds:
        warn(on_bounds_message(learned, request.columns), OnBoundWarning)


def maximise_feature_likelihood(
    features: Callable[[Floats], tuple[Floats, Sequence[Floats]]],
    start: Floats,
    free: Booleans,
    bounds: Sequence[tuple[float, float]],
    y: Floats,
    *,
    sample_weight: Floats | None = None,
    time_budget: float = 60.0,
    progress: Progress | None = None,
) -> Optimum:
    """Maximise the likelihood of a kernel given by features, per number of the targets.

    Parameters
    ----------
    features : callable
        Takes all logarithms (length scales, signal variance, noise variance); gives features of shape (D, n) and their
        derivatives with respect to the logarithm of each length scale.
    start : ndarray of shape (p,)
        Logarithms to start from.
    free : ndarray of bool of shape (p,)
        Which of them to learn.
    bounds : sequence of pairs
        Bounds of the free ones.
    y : ndarray of shape (n, k)
        Centred targets.

    Returns
    -------
    optimum : Optimum
        Its point is of all logarithms (p,).
    """
    began = time.perf_counter()
    factors = None if sample_weight is None else 1.0 / sample_weight

    def filled(values: Floats) -> Floats:
        theta = start.copy()
        theta[free] = values
        return theta

    def objective(values: Floats) -> tuple[float, Floats]:
        theta = filled(values)
        rows, directions = features(theta)
        value, gradient = feature_log_likelihood(rows, directions, float(np.exp(theta[-1])), y, factors)
        return value / y.size, gradient[free] / y.size

    def report(done: float, value: float) -> None:
        if progress is not None:
            progress("learning: features", done, value)

    optimum = maximise(objective, start[free], bounds, deadline=began + time_budget, progress=report)
    if not optimum.converged:
        how = optimum.value, time.perf_counter() - began, optimum.n_evaluations, time_budget
        warn(not_converged_message(*how), ConvergenceWarning)
    return replace(optimum, point=filled(optimum.point))
