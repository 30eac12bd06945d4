"""Models learnt in other units than those of the data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..solvers.drift import UniversalKriging
from .exact import ExactGPRegressor
from .feature import FeatureGPRegressor
from .local import LocalGPRegressor


def rescale(model: Any, units: NDArray[np.float64]) -> None:
    """Make a model fitted to `X / units` one of `X` itself, with the same predictions.

    A length scale `l` of a column in units `u` is one of `l * u` in the column's own.

    Parameters
    ----------
    model : LocalGPRegressor, ExactGPRegressor or FeatureGPRegressor
        Fitted, with hyperparameters learnt; changed in place.
    units : ndarray of shape (n_features,)
    """
    if model._roles is not None:
        model._roles = model._roles.rescaled(units)
        model._points = None if model._points is None else model._points * units
        units = units[model.coordinates_]
    if model._box is not None:
        model._box = model._box * units
    if isinstance(model, LocalGPRegressor):
        model._store(model._fitted.rescaled(units))
        return
    model._set_learned(model.learned_.rescaled(units))
    kernel = model.kernel_
    if isinstance(model, ExactGPRegressor):
        process = replace(model._process, kernel=kernel, X=model._process.X * units)
        posterior = model._posterior
        model._posterior = replace(posterior, process=process) if isinstance(posterior, UniversalKriging) else process
    elif isinstance(model, FeatureGPRegressor):
        if hasattr(model, "report_"):
            model.report_ = model._described(model.report_)
        if model._rows_kept is not None:
            X, *others = model._rows_kept
            model._rows_kept = np.column_stack([X[:, : len(units)] * units, X[:, len(units) :]]), *others
        maps = model.feature_map_ if isinstance(model.feature_map_, list) else [model.feature_map_]
        for feature_map, scales in zip(maps, kernel.expanded().length_scales, strict=True):
            feature_map.set_params(length_scale=scales)._rescale(len(units))
            if hasattr(feature_map, "center_"):
                feature_map.center_ = feature_map.center_ * units


def give_names(model: Any, names: Sequence[str], levels: Mapping[int, Sequence[str]] | None = None) -> None:
    """Name the columns of a model that was fitted to an array, and levels of groups, which were 0, 1, ... there."""
    model.feature_names_in_ = np.array(list(names), dtype=object)
    if model._roles is not None:
        model._roles = model._roles.named(tuple(names), levels or {})
    if hasattr(model, "report_"):
        model.report_ = model._described(model.report_)
