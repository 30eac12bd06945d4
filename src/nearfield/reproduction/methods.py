"""The approximations compared: predictive means and standard deviations of observations at a problem's test points."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from sklearn.neighbors import KDTree

from ..common.types import Floats
from ..estimators import FeatureGPRegressor, LocalGPRegressor
from ..features import FourierFeatures, MaclaurinFeatures, TaylorFeatures
from ..local import centers
from ..local.model import fit_one, mean_and_variance
from .authors import authors_plan
from .problems import Problem
from .shifting import ShiftedSketches

Prediction = tuple[Floats, Floats]

SPACING = 2.0  # of our own local models, in length scales
SEVERAL, SMALL = 8, 256  # centroids from which, and features up to which, the factors of sketches are worth keeping
CROWDED = 1.25  # neighbourhoods may hold this many times D points on average and still be solved in kernel space


class StoppedError(Exception):
    """The run was interrupted."""


def never() -> bool:
    """The default of `stopped`."""
    return False


def fourier(problem: Problem, sampling: str, D: int) -> Prediction:
    """One map of Fourier features."""
    features = FourierFeatures(D, sampling=sampling, random_state=problem.seed)
    given = problem.hyperparameters.as_parameters()
    model = FeatureGPRegressor(features, **given, n_jobs=1, random_state=problem.seed)
    return _predict(model, problem)


def maclaurin(
    problem: Problem, sampling: str, D: int, spacings: Sequence[float | None], stopped: Callable[[], bool] = never
) -> list[Prediction]:
    """The paper's method for several thresholds theta, in length scales; None is the map around the training mean.

    This is `LocalGPRegressor.from_paper` for each spacing, but for the allocation, which is the authors'. Only
    centroids that answer for a test point are made, and each once: those of a large threshold are among those of a
    small one.
    """
    fixed = problem.hyperparameters
    base = LocalGPRegressor.from_paper(
        D, sampling=sampling, centers="mean", random_state=problem.seed, n_jobs=1, **fixed.as_parameters()
    ).fit(problem.X, problem.y)
    predictor = base._predictor.with_points("the reproduction needs")
    data = predictor.data
    plan = authors_plan(predictor.plan, data.X, D, sampling, problem.seed)
    X_test = problem.X_test / fixed.length_scale
    owners = [problem.owners(spacing) for spacing in spacings]
    finest = min((s for s in spacings if s is not None), default=None)
    centroids = problem.X.mean(axis=0)[None] / fixed.length_scale if finest is None else problem.centroids(finest)
    mean, variance = np.empty((len(spacings), len(X_test))), np.empty((len(spacings), len(X_test)))
    asking = np.unique(np.concatenate(owners))
    shifted = ShiftedSketches.of(plan, data) if len(asking) >= SEVERAL and D <= SMALL else None
    for c in asking:
        if stopped():
            raise StoppedError
        model = shifted.fit(centroids[c]) if shifted else fit_one(plan, data.X - centroids[c], data.y, data.noise)
        asked = np.flatnonzero(np.any([owner == c for owner in owners], axis=0))
        means, spread = mean_and_variance(plan, model, X_test[asked] - centroids[c])
        for i, owner in enumerate(owners):
            here = owner[asked] == c
            mean[i, asked[here]], variance[i, asked[here]] = means[here, 0], spread[here]
    std = np.sqrt(np.maximum(variance, 0.0) + fixed.noise_variance)
    return list(zip(mean + base.y_mean_[0], std, strict=True))


def ours(problem: Problem, D: int) -> tuple[Prediction, int]:
    """Our own local models of about `D` features, and how many centres they have."""
    parameters = our_parameters(problem.X / problem.hyperparameters.length_scale, D)
    model = LocalGPRegressor(
        n_scales=1, random_state=problem.seed, n_jobs=1, **problem.hyperparameters.as_parameters(), **parameters
    )
    return _predict(model, problem), len(model.centers_)


def our_parameters(Z: Floats, D: int) -> dict[str, Any]:
    """Parameters of `LocalGPRegressor` for about `D` unknowns per centre; `Z` are training points in length scales.

    Up to three columns, every monomial of the degree `p` that `D` columns afford, on neighbourhoods of the radius
    `sqrt(p)` that such a degree serves. In more columns the process itself on neighbourhoods of at most about `D`
    points, where those reach as far as the centres are apart; else the data are smooth, and one centre with its low
    degrees exact does.
    """
    d = Z.shape[1]
    if d <= 3:
        degree = max(p for p in range(1, D) if math.comb(d + p, p) <= D)
        return {"features": TaylorFeatures(degree), "spacing": SPACING, "radius": max(degree**0.5, SPACING)}
    tree, middles = KDTree(Z), centers.farthest_points(Z, SPACING)
    radii = np.arange(SPACING, 10.01, 0.5)
    crowds = [float(np.mean(tree.query_radius(middles, radius, count_only=True))) for radius in radii]
    fitting = [float(radius) for radius, crowd in zip(radii, crowds, strict=True) if crowd <= CROWDED * D]
    if fitting:
        return {"features": "kernel", "spacing": SPACING, "radius": max(fitting)}
    return {"features": MaclaurinFeatures(D), "radius": None, "centers": "mean", "correction": False}


def _predict(model: Any, problem: Problem) -> Prediction:
    model.fit(problem.X, problem.y)
    mean, std = model.predict(problem.X_test, return_std=True, include_noise=True)
    return mean, std
