"""The inputs of a fitted model: names of columns, ranges, and points to start from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..common.axes import axis_names, in_words
from ..common.distribution import PredictiveDistribution
from ..common.types import Floats
from ..common.warnings import warn

CHUNK = 8_000  # points predicted at a time, between reports of progress


def column_names(model: Any) -> list[str]:
    """Names of the columns the model was fitted on: those of its data, or x0, x1, ..."""
    names = getattr(model, "feature_names_in_", None)
    return [f"x{j}" for j in range(model.n_features_in_)] if names is None else [str(name) for name in names]


def coordinate_columns(model: Any) -> list[int]:
    """Numbers of the columns that the process lives in."""
    roles = getattr(model, "_roles", None)
    return list(range(model.n_features_in_)) if roles is None else list(roles.coordinates)


def sphere_columns(model: Any) -> tuple[int, int] | None:
    """Numbers of the columns of longitude and latitude; None where the process lives in a plane."""
    sphere = getattr(model, "_sphere", None)
    if sphere is None:
        return None
    columns = coordinate_columns(model)
    return columns[sphere.longitude], columns[sphere.latitude]


def levels_of(model: Any) -> dict[int, tuple[str, ...]]:
    """Categories of the columns that hold some, which points have the numbers of."""
    roles = getattr(model, "_roles", None)
    return {} if roles is None else {int(j): levels for j, levels in roles.encoding.levels.items()}


def used_columns(model: Any) -> list[int]:
    """Numbers of the columns that matter to a model."""
    roles = getattr(model, "_roles", None)
    return list(range(model.n_features_in_)) if roles is None else list(roles.encoding.used)


def named_length_scales(model: Any, columns: Sequence[str] | None = None) -> tuple[list[str], Floats]:
    """Names (q) of what length scales belong to, and these (J, q); a single name where one is for all columns.

    Longitude and latitude share one, in km; rotated axes are called by their directions.
    """
    names, scales = list(columns or column_names(model)), np.asarray(model.kernel_.length_scales)
    names = [names[j] for j in coordinate_columns(model)]
    rotation, sphere = getattr(model, "_rotation", None), getattr(model, "_sphere", None)
    if rotation is not None:
        return axis_names(rotation), scales
    if sphere is not None:
        others = [names[j] for j in sphere.others(len(names))]
        return ["on the earth (km)", *others], scales[:, -1 - len(others) :]
    return (names, scales) if scales.shape[1] > 1 else (["every column" if len(names) > 1 else names[0]], scales)


def axes_in_words(model: Any, columns: Sequence[str] | None = None) -> str:
    """Where rotated axes are; empty where length scales belong to columns."""
    rotation, names = getattr(model, "_rotation", None), columns or column_names(model)
    return "" if rotation is None else in_words(rotation, [names[j] for j in coordinate_columns(model)])


def check_level(level: Any) -> None:
    """Refuse what is no probability of an interval."""
    if not isinstance(level, Real) or not 0 < float(level) < 1:
        raise ValueError(f"The 'level' argument must lie between 0 and 1. Got {level!r}.")


def noise_unless_told(include_noise: bool | None, where: str) -> bool:
    """What was asked for, or today's default with a warning: one day noise is left out everywhere unless asked for."""
    if include_noise is None:
        warn(
            f"{where} includes noise in its intervals now, and will leave it out in the next release, as predict and "
            "predict_grid do: say include_noise=True or include_noise=False.",
            FutureWarning,
        )
        return True
    return bool(include_noise)


def points_in_memory(model: Any, X: Any) -> Floats:
    """Points (n, d) that were given, checked against those the model was fitted on."""
    if hasattr(X, "batches"):
        raise TypeError(f"X must be rows in memory, as an array or a DataFrame. Got {type(X).__name__}.")
    return np.asarray(model._validate_test(X))


def predict(model: Any, points: Floats, include_noise: bool = False) -> tuple[Floats, Floats]:
    """Means and standard deviations at points (m, d) whose columns are in the model's order."""
    mean, std = model._predict_points(points, return_std=True, include_noise=include_noise)
    return mean, std


def predict_in_chunks(
    model: Any, points: Floats, include_noise: bool = False, progress: Callable[..., None] | None = None
) -> tuple[Floats, Floats]:
    """The same as `predict`, some points at a time, with progress."""
    answers, step = [], at_once(model, points)
    for start in range(0, max(len(points), 1), step):
        answers.append(predict(model, points[start : start + step], include_noise))
        if progress is not None:
            progress("predicting", min((start + step) / max(len(points), 1), 1.0))
    means, stds = zip(*answers, strict=True)
    return np.concatenate(means), np.concatenate(stds)


def at_once(model: Any, points: Floats) -> int:
    """How many points to predict at a time."""
    predictor = getattr(model, "_predictor", None)
    # A model too large to keep its local models makes them anew for each call: one call is best then.
    return max(len(points), 1) if predictor is not None and not predictor.models else CHUNK


def of_first_target(model: Any) -> Any:
    """The regressor of the first of several targets, where each has its own."""
    return getattr(model, "estimators_", (model,))[0]


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


def padded_ranges(points: Floats, share: float = 0.02, model: Any = None) -> list[tuple[float, float]]:
    """Range of each column, a little widened, and never empty; those of places on the earth end at the poles."""
    if len(points) == 0:
        raise ValueError("There are no points to go by: X is empty.")
    ranges = []
    for low, high in zip(np.nanmin(points, axis=0), np.nanmax(points, axis=0), strict=True):
        pad = share * (high - low) or 0.5 * max(abs(low), 1.0)
        ranges.append((float(low - pad), float(high + pad)))
    columns = None if model is None else sphere_columns(model)
    if columns is not None:
        longitude, latitude = columns
        west, east = ranges[longitude]
        middle, half = (west + east) / 2, min((east - west) / 2, 180.0)
        if half > 170:  # all around
            middle, half = model._sphere.meridian, 180.0
        ranges[longitude] = middle - half, middle + half
        south, north = ranges[latitude]
        ranges[latitude] = max(south, -90.0), min(north, 90.0)
    return ranges
