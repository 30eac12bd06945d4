"""Feature maps of the Gaussian kernel: sampled once, applied many times."""

from .fourier import FourierFeatures
from .maclaurin import MaclaurinFeatures
from .sketch import PolynomialSketch
from .taylor import TaylorFeatures

__all__ = ["FourierFeatures", "MaclaurinFeatures", "PolynomialSketch", "TaylorFeatures"]
