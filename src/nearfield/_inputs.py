"""What is known of the inputs of a fitted model: names, ranges, and points to start from."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[Any]


def column_names(model: Any) -> list[str]:
    """Names of the columns the model was fitted on: those of its data, or x0, x1, ..."""
    names = getattr(model, "feature_names_in_", None)
    return [f"x{j}" for j in range(model.n_features_in_)] if names is None else [str(name) for name in names]


def like_training(model: Any, points: Floats) -> Any:
    """Points (m, d) in the form the model was fitted on: a DataFrame where its data had names, so that it can check."""
    if not hasattr(model, "feature_names_in_"):
        return points
    try:
        import pandas as pd
    except ImportError:  # fitted with names elsewhere
        return points
    return pd.DataFrame(points, columns=list(model.feature_names_in_))


def given_or_training(model: Any, X: ArrayLike | None) -> Floats:
    """Points (n, d): those given, or else those the model was trained on."""
    if X is not None:
        return np.asarray(model._validate_test(X))
    points = model._training_points()
    if points is None:
        raise ValueError(f"{type(model).__name__} does not keep its training data; give X, points to go by.")
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
