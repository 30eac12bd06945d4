"""Rotated axes: what `anisotropy` means for the columns of X."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ..common.arrays import Array, is_tensor
from ..common.axes import turned
from ..common.types import Floats
from ..common.validation import check_option, describe, spawn
from ..hyperparameters.blocks import LearningData
from ..hyperparameters.rotation import learn_rotation
from .extent import box_of

ANISOTROPIES = ("axes", "rotated")
MOST_COLUMNS = 3
BUDGET_SHARE = 0.25  # of the time that learning may take


def is_rotated(model: Any) -> bool:
    """Whether a regressor was asked for rotated axes."""
    return check_option(model, "anisotropy", ANISOTROPIES) == "rotated"


def check_rotated(model: Any, X: Array) -> None:
    """Refuse points (n, d), as the kernel would see them, that cannot be rotated, if that is asked for."""
    if not is_rotated(model):
        return
    what = f"{describe(model, 'anisotropy')}='rotated'"
    if is_tensor(X):
        raise ValueError(f"{what} is for arrays and data frames, and X is a tensor.")
    if model._sphere is not None:
        raise ValueError(f"{what} is for coordinates in a plane or in space, and metric='sphere' is neither.")
    d = X.shape[1]
    if not 2 <= d <= MOST_COLUMNS:
        columns = "one column" if d == 1 else f"{d} columns"
        raise ValueError(f"{what} is for two or three coordinates, and the process lives in {columns}.")
    fixed, _ = model._check_hyperparameters(d)
    if fixed.length_scales is not None and fixed.length_scales.shape[1] == 1:
        raise ValueError(
            f"{describe(model, 'length_scale')} must be None, or have one number per rotated axis ({d}), where "
            f"anisotropy='rotated'. Got {model.length_scale!r}."
        )


def rotated(model: Any, X: Floats, y: Floats, weights: Floats | None, drift: Floats | None) -> Floats:
    """Training points (n, d) along axes that are learnt, of which the model takes note; as they are without.

    `y` (n, k) are targets less what is known of their mean, `drift` are columns (n, p) of unknown coefficients.
    """
    if not is_rotated(model):
        return X
    if model._given_rotation is not None:
        return _turned(model, X, model._given_rotation)
    request = model._learning_request(X.shape[1])
    request = replace(request, time_budget=BUDGET_SHARE * request.time_budget)
    residuals = y - y.mean(axis=0)
    spread = residuals.std(axis=0)  # so that the unit of a target does not say how much it counts
    data = LearningData(X, residuals / np.where(spread > 0, spread, 1.0), weights, drift=drift)
    return _turned(model, X, learn_rotation(data, request, spawn(model.random_state, "rotation")))


def _turned(model: Any, X: Floats, axes: Floats) -> Floats:
    model._rotation = axes
    points: Floats = turned(X, axes)
    model._box = box_of(points)
    return points


def refuse_rows_of_rotated(model: Any) -> None:
    """Refuse a source where its columns would be rotated: axes are learnt from arrays."""
    if is_rotated(model) or model._rotation is not None:
        raise ValueError(
            "anisotropy='rotated' needs all of X in memory for a fit, and takes no source or Dask collection there; "
            "predictions do."
        )
