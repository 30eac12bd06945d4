"""Gaussian-process regression from local features: near the exact GP, at scale, and it tells you how near."""

from . import metrics, mixtures
from .estimators import ExactGPRegressor, FeatureGPRegressor, LocalGPRegressor
from .features import FourierFeatures, MaclaurinFeatures, PolynomialSketch, TaylorFeatures

__version__ = "0.1.0.dev0"

__all__ = [
    "ExactGPRegressor",
    "FeatureGPRegressor",
    "FourierFeatures",
    "LocalGPRegressor",
    "MaclaurinFeatures",
    "PolynomialSketch",
    "TaylorFeatures",
    "metrics",
    "mixtures",
]
