"""scikit-learn regressors. They validate and orchestrate; the mathematics is in the modules they call."""

from .exact import ExactGPRegressor
from .feature import FeatureGPRegressor

__all__ = ["ExactGPRegressor", "FeatureGPRegressor"]
