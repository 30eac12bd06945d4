"""Size and tails of the noise from left-out residuals: normal, or Student's t with learnt degrees of freedom."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize

from ..common.distribution import log_density_of_t
from ..common.types import Floats

LEAST_DOF, MOST_DOF = 2.5, 100.0  # a variance that is finite, and next to normal
MOST_POINTS = 20_000  # that two numbers are learnt from


def log_densities(residuals: Floats, squared_scales: Floats, dof: float) -> Floats:
    """Logarithms (n,) of the densities of residuals (n,), normal where `dof` is infinite."""
    z = residuals / np.sqrt(squared_scales)
    shape = -0.5 * z * z - 0.5 * np.log(2 * np.pi) if np.isinf(dof) else log_density_of_t(z, dof)
    result: Floats = shape - 0.5 * np.log(squared_scales)
    return result


def fit_tails(residuals: Floats, latent: Floats, noise: Floats, is_student: bool) -> tuple[float, float]:
    """Factor of the noise, and degrees of freedom, that make left-out residuals most likely.

    Parameters
    ----------
    residuals, latent, noise : ndarrays of shape (n,)
        Left-out residuals, variances of the function there, and squared scales of the noise up to a factor.
    is_student : bool
        Otherwise the distribution is normal, and the degrees of freedom are infinite.
    """
    step = max(len(residuals) // MOST_POINTS, 1)
    e, v, s = residuals[::step], latent[::step], noise[::step]

    def loss(theta: Floats) -> float:
        dof = 1.0 / theta[1] if is_student else np.inf
        return -float(np.mean(log_densities(e, v + np.exp(theta[0]) * s, dof)))

    bounds = [(-7.0, 7.0), (1 / MOST_DOF, 1 / LEAST_DOF)]
    start = np.array([0.0, 0.2])
    width = 2 if is_student else 1
    best = minimize(loss, start[:width], method="L-BFGS-B", bounds=bounds[:width]).x
    return float(np.exp(best[0])), 1.0 / float(best[1]) if is_student else np.inf


def precisions(residuals: Floats, squared_scales: Floats, dof: float) -> Floats:
    """Expected precisions (n,) of observations under Student's t, relative to the usual one: small for outliers."""
    if np.isinf(dof):
        return np.ones(len(residuals))
    result: Floats = (dof + 1) / (dof + residuals**2 / squared_scales)
    return result
