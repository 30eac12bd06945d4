r"""Rough kernels as sums of Gaussians.

What `kernel="matern32"` and its like learn the length scale of, here with an accuracy and a smoothness of your choice.
See `expansions` for how the Gaussians are found.
"""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np

from ..common.types import Floats
from . import Kernel
from .expansions import matern_covariance, matern_mixture, rational_quadratic_mixture

__all__ = ["matern", "matern_covariance", "rational_quadratic"]


def matern(nu: float, length_scale: float = 1.0, variance: float = 1.0, accuracy: float = 1e-3) -> Kernel:
    """Sum of Gaussians that stands for a Matern kernel, as parametrised by scikit-learn.

    Parameters
    ----------
    nu : float
        Smoothness: 0.5 is the exponential kernel, 1.5 and 2.5 the usual Matern kernels. At least 0.25; infinity is the
        Gaussian kernel.
    length_scale, variance : float
    accuracy : float, default=1e-3
        Largest error of the covariance, as a share of the variance, between 1e-3 and 100 length scales.

    Returns
    -------
    kernel : Kernel
        For `accuracy=1e-3` of 11 Gaussians for nu = 0.5, fewer for smoother kernels. Its `parameters()` go into any
        estimator.
    """
    _check("nu", nu, 0.25)
    _check_sizes(length_scale, variance, accuracy)
    return _scaled(*matern_mixture(float(nu), accuracy), length_scale, variance)


def rational_quadratic(
    alpha: float, length_scale: float = 1.0, variance: float = 1.0, accuracy: float = 1e-3
) -> Kernel:
    """Sum of Gaussians that stands for a rational quadratic kernel `(1 + r^2 / (2 alpha l^2))^-alpha`.

    Parameters
    ----------
    alpha : float
        Large for one length scale (infinity is the Gaussian kernel), small for many; at least 0.1.
    length_scale, variance, accuracy
        See `matern`.
    """
    _check("alpha", alpha, 0.1)
    _check_sizes(length_scale, variance, accuracy)
    return _scaled(*rational_quadratic_mixture(float(alpha), accuracy), length_scale, variance)


def _scaled(scales: Floats, shares: Floats, length_scale: float, variance: float) -> Kernel:
    return Kernel(length_scale * scales[:, None], variance * shares)


def _check_sizes(length_scale: Any, variance: Any, accuracy: Any) -> None:
    for name, value in (("length_scale", length_scale), ("variance", variance), ("accuracy", accuracy)):
        if not isinstance(value, Real) or not 0 < float(value) < np.inf:
            raise ValueError(f"The {name!r} argument must be positive and finite. Got {value!r}.")


def _check(name: str, value: Any, least: float) -> None:
    if not isinstance(value, Real) or not float(value) >= least:
        raise ValueError(f"The {name!r} argument must be a number of at least {least}. Got {value!r}.")
