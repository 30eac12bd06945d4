"""Matern and rational quadratic kernels as sums of Gaussians."""

from .kernels.mixtures import matern, rational_quadratic

__all__ = ["matern", "rational_quadratic"]
