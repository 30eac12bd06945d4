"""What is known of the inputs of a fitted model: names, ranges, and points to start from."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..common.types import Floats


def column_names(model: Any) -> list[str]:
    """Names of the columns the model was fitted on: those of its data, or x0, x1, ..."""
    names = getattr(model, "feature_names_in_", None)
    return [f"x{j}" for j in range(model.n_features_in_)] if names is None else [str(name) for name in names]


def predict(model: Any, points: Floats, include_noise: bool = False) -> tuple[Floats, Floats]:
    """Means and standard deviations at points (m, d) whose columns are known to be in the model's order."""
    mean, std = model._predict_points(points, return_std=True, include_noise=include_noise)
    return mean, std


def given_or_training(model: Any, X: ArrayLike | None, otherwise: str = "X, points to go by") -> Floats:
    """Points (n, d): those given, or else those the model was trained on; `otherwise` is what to give without them."""
    if X is not None:
        return np.asarray(model._validate_test(X))
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
