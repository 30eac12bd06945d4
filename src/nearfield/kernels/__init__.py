"""The kernel, a sum of Gaussians, and the mixtures that approximate other kernels by one."""

from .gaussians import Kernel, squared_distances

__all__ = ["Kernel", "squared_distances"]
