"""Models learnt in other units than those of the data."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..hyperparameters.learned import OnBound
from ..kernels import Kernel
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
    kernel = _rescaled(model.kernel_, units)
    model._set_hyperparameters(kernel, model.noise_variance_)
    learned = model.learned_
    on_bounds = tuple(estimate for before in learned.on_bounds for estimate in _bound_in_units(before, units))
    model.learned_ = replace(learned, kernel=_rescaled(learned.kernel, units), on_bounds=on_bounds)
    if isinstance(model, LocalGPRegressor):
        model._store(model._fitted.rescaled(units))
    elif isinstance(model, ExactGPRegressor):
        model._posterior = replace(model._posterior, kernel=kernel, X=model._posterior.X * units)
    elif isinstance(model, FeatureGPRegressor):
        maps = model.feature_map_ if isinstance(model.feature_map_, list) else [model.feature_map_]
        for feature_map, scales in zip(maps, kernel.length_scales, strict=True):
            feature_map.set_params(length_scale=scales)._rescale(len(units))
            if hasattr(feature_map, "center_"):
                feature_map.center_ = feature_map.center_ * units


def _rescaled(kernel: Kernel, units: NDArray[np.float64]) -> Kernel:
    return Kernel(kernel.length_scales * units, kernel.variances)


def _bound_in_units(estimate: OnBound, units: NDArray[np.float64]) -> list[OnBound]:
    """The same estimate; a length scale of all columns becomes one per column, as in the kernel."""
    if estimate.kind != "length_scale":
        return [estimate]
    if len(units) == 1:
        return [replace(estimate, value=float(estimate.value * units[0]))]
    columns = range(len(units)) if estimate.column is None else [estimate.column]
    return [replace(estimate, column=c, value=float(estimate.value * units[c])) for c in columns]
