"""scikit-learn regressors. They validate and orchestrate; the mathematics is in the modules they call."""

from .exact import ExactGPRegressor
from .feature import FeatureGPRegressor
from .local import LocalGPRegressor

__all__ = ["ExactGPRegressor", "FeatureGPRegressor", "LocalGPRegressor"]
