r"""Other kernels as mixtures of Gaussians: length scales and shares.

Matern and rational quadratic kernels are mixtures of Gaussians over all length scales,

.. math:: k(r) = v \int p(\ell) \, e^{-r^2 / (2 \ell^2)} \, d\ell,

with `l^2` (Matern) or `1 / l^2` (rational quadratic) following a gamma distribution. A few length scales, evenly spread
where that distribution has its mass, with weights found by least squares, make a short sum of it.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.optimize import nnls
from scipy.special import gammaln, kv

from ..common.types import Floats

# Distances, in length scales, over which the accuracy is promised.
DISTANCES = np.geomspace(1e-3, 1e2, 400)
SMOOTH = 30.0  # nu from which the Matern kernel is computed as a mixture itself


def matern_mixture(nu: float, accuracy: float) -> tuple[Floats, Floats]:
    """Length scales (J,) and shares (J,) of Gaussians that add up to a Matern kernel of unit length scale."""
    # The square of the length scale is gamma distributed with shape nu and mean 1.
    return _mixture(nu, lambda t: nu * t - nu * np.exp(t), lambda r: matern_covariance(nu, r), accuracy)


def rational_quadratic_mixture(alpha: float, accuracy: float) -> tuple[Floats, Floats]:
    """The same for the rational quadratic kernel `(1 + r^2 / (2 alpha))^-alpha`."""
    # The inverse square of the length scale is gamma distributed with shape alpha and mean 1.
    return _mixture(
        alpha,
        lambda t: -alpha * t - alpha * np.exp(-t),
        lambda r: (1 + r**2 / (2 * alpha)) ** -alpha,
        accuracy,
    )


def matern_covariance(nu: float, r: Floats) -> Floats:
    """Matern correlation at distances `r` > 0 in units of the length scale."""
    if nu > SMOOTH:  # Bessel functions would overflow: the mean of Gaussians over the distribution of the length scale
        t = np.linspace(-12, 12, 400) / np.sqrt(nu)
        p = np.exp(nu * (t - np.expm1(t)))
        mean: Floats = np.exp(-0.5 * np.asarray(r)[:, None] ** 2 * np.exp(-t)) @ (p / p.sum())
        return mean
    s = np.sqrt(2 * nu) * r
    with np.errstate(under="ignore", over="ignore", invalid="ignore"):
        value = np.exp((1 - nu) * np.log(2) - gammaln(nu) + nu * np.log(s)) * kv(nu, s)
    result: Floats = np.nan_to_num(value, nan=0.0)
    return result


def _mixture(
    shape: float, log_density: Callable[[Floats], Floats], target: Callable[[Floats], Floats], accuracy: float
) -> tuple[Floats, Floats]:
    """Fewest Gaussians, evenly spread in `t = log l^2`, that reach the accuracy; weights by least squares.

    `log_density` of `t` tells where the mixture has its mass; it need not be normalised. `shape` is that of the gamma
    distribution.
    """
    if shape * accuracy >= 1:  # the mixture is within 0.3 / shape of its mean
        return np.ones(1), np.ones(1)
    fine = np.linspace(-60.0, 60.0, 24_001)
    log_p = log_density(fine)
    cumulative = np.cumsum(np.exp(log_p - log_p.max()))
    cumulative /= cumulative[-1]
    distances = np.concatenate([[0.0], DISTANCES])
    wanted = np.concatenate([[1.0], target(DISTANCES)])
    emphasis = np.ones(len(distances))
    emphasis[0] = 1e3  # the variance itself is to be right
    for n in range(1, 60):
        for share in (2.0, 1.0, 0.5, 0.2):  # of the accuracy: mass that may lie beyond the outermost Gaussians
            low, high = np.interp([share * accuracy, 1 - share * accuracy], cumulative, fine)
            t = np.linspace(low, high, n)
            basis = np.exp(-0.5 * distances[:, None] ** 2 / np.exp(t))
            weights, _ = nnls(basis * emphasis[:, None], wanted * emphasis)
            weights /= weights.sum()
            if np.max(np.abs(basis @ weights - wanted)) <= accuracy:
                used = weights > 0
                return np.exp(0.5 * t[used]), weights[used]
    raise ValueError(f"The 'accuracy' argument is out of reach: {accuracy!r}.")
