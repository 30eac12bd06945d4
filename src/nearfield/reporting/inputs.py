"""The inputs of a fitted model: names of columns, ranges, and points to start from."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..common.distribution import PredictiveDistribution
from ..common.types import Floats


def column_names(model: Any) -> list[str]:
    """Names of the columns the model was fitted on: those of its data, or x0, x1, ..."""
    names = getattr(model, "feature_names_in_", None)
    return [f"x{j}" for j in range(model.n_features_in_)] if names is None else [str(name) for name in names]


def check_level(level: Any) -> None:
    """Refuse what is no probability of an interval."""
    if not isinstance(level, Real) or not 0 < float(level) < 1:
        raise ValueError(f"The 'level' argument must lie between 0 and 1. Got {level!r}.")


def points_in_memory(model: Any, X: Any) -> Floats:
    """Points (n, d) that were given, checked against those the model was fitted on."""
    if hasattr(X, "batches"):
        raise TypeError(f"X must be rows in memory, as an array or a DataFrame. Got {type(X).__name__}.")
    return np.asarray(model._validate_test(X))


def predict(model: Any, points: Floats, include_noise: bool = False) -> tuple[Floats, Floats]:
    """Means and standard deviations at points (m, d) whose columns are in the model's order."""
    mean, std = model._predict_points(points, return_std=True, include_noise=include_noise)
    return mean, std


def distribution(model: Any, points: Floats, include_noise: bool = True) -> PredictiveDistribution:
    """Predictive distributions at points (m, d) whose columns are in the model's order."""
    result: PredictiveDistribution = model._distribution_at(points, include_noise)
    return result


def given_or_training(model: Any, X: ArrayLike | None, otherwise: str = "X, points to go by") -> Floats:
    """Points (n, d): those given, or else those the model was trained on; `otherwise` is what to give without them."""
    if X is not None:
        return points_in_memory(model, X)
    points = model._training_points()
    if points is None:
        raise ValueError(f"{type(model).__name__} does not keep its training data; give {otherwise}.")
    if len(points) == 0:
        raise ValueError(f"This {type(model).__name__} has forgotten its training data; give {otherwise}.")
    return np.asarray(points)


def padded_ranges(points: Floats, share: float = 0.02) -> list[tuple[float, float]]:
    """Range of each column, a little widened, and never empty."""
    if len(points) == 0:
        raise ValueError("There are no points to go by: X is empty.")
    ranges = []
    for low, high in zip(points.min(axis=0), points.max(axis=0), strict=True):
        pad = share * (high - low) or 0.5 * max(abs(low), 1.0)
        ranges.append((float(low - pad), float(high + pad)))
    return ranges
