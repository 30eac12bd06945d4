"""Gaussian-process regression from local features: near the exact GP, at scale, and it tells you how near."""

from .features import FourierFeatures, MaclaurinFeatures, PolynomialSketch, TaylorFeatures

__version__ = "0.1.0.dev0"

__all__ = ["FourierFeatures", "MaclaurinFeatures", "PolynomialSketch", "TaylorFeatures"]
