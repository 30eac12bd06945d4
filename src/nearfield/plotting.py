"""Pictures of fitted models, with matplotlib."""

from .reporting.plots import (
    calibration,
    error_against_cost,
    mean_map,
    prediction,
    probabilities,
    residuals,
    samples,
    std_map,
    variogram,
)

__all__ = [
    "calibration",
    "error_against_cost",
    "mean_map",
    "prediction",
    "probabilities",
    "residuals",
    "samples",
    "std_map",
    "variogram",
]
