"""The kernel, a sum of Gaussians, and mixtures that approximate other kernels by one; imports `common`."""

from .gaussians import Kernel, squared_distances

__all__ = ["Kernel", "squared_distances"]
