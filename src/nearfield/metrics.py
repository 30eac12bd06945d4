"""Scores of predictive distributions, all Gaussian and one per test point.

Spreads go by name: `std=` as `predict(..., return_std=True, include_noise=True)` gives it, or `var=`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr, ndtri

from .common.types import Floats
from .common.warnings import warn

Spread = ArrayLike | None


def kl_divergence(mean: ArrayLike, var: ArrayLike, mean_ref: ArrayLike, var_ref: ArrayLike) -> Floats:
    """Kullback-Leibler divergence of each test point, KL(approximation || reference).

    Parameters
    ----------
    mean, var : arrays of one shape
        Approximation: means and variances. Those of observations (noise included) are the usual choice.
    mean_ref, var_ref : arrays of that shape
        Reference, for example the exact Gaussian process.

    Returns
    -------
    kl : ndarray of that shape, in nats, never negative
    """
    mean, var, mean_ref, var_ref = _together(mean=mean, var=var, mean_ref=mean_ref, var_ref=var_ref)
    _require_positive(var=var, var_ref=var_ref)
    ratio = var / var_ref
    # ratio - 1 - log(ratio) in a form that keeps its digits where the two nearly agree.
    excess = ratio - 1.0
    shape = np.where(np.abs(excess) < 1e-4, excess**2 * (0.5 - excess / 3 + excess**2 / 4), excess - np.log(ratio))
    result: Floats = 0.5 * (np.maximum(shape, 0.0) + (mean - mean_ref) ** 2 / var_ref)
    return result


def rmse(y: ArrayLike, mean: ArrayLike) -> float:
    """Root of the mean squared error."""
    y, mean = _together(y=y, mean=mean)
    return float(np.sqrt(np.mean((y - mean) ** 2)))


def mean_nll(y: ArrayLike, mean: ArrayLike, *spread: ArrayLike, std: Spread = None, var: Spread = None) -> float:
    """Mean negative log likelihood of observations `y` under `N(mean, std^2)`.

    Parameters
    ----------
    y, mean : arrays of one shape
    std, var : array of that shape
        Standard deviations or variances of observations, noise included: one of the two, by name.

    Returns
    -------
    nll : float, in nats
    """
    y, mean, var = _with_variance("mean_nll", y, mean, spread, std, var)
    return float(np.mean(0.5 * (np.log(2 * np.pi * var) + (y - mean) ** 2 / var)))


def crps(y: ArrayLike, mean: ArrayLike, *spread: ArrayLike, std: Spread = None, var: Spread = None) -> float:
    """Mean continuous ranked probability score of observations `y` under `N(mean, std^2)`, in the units of `y`.

    Parameters are those of `mean_nll`.
    """
    y, mean, var = _with_variance("crps", y, mean, spread, std, var)
    std = np.sqrt(var)
    z = (y - mean) / std
    density = np.exp(-0.5 * z * z) / np.sqrt(2 * np.pi)
    return float(np.mean(std * (z * (2 * ndtr(z) - 1) + 2 * density - 1 / np.sqrt(np.pi))))


def coverage(
    y: ArrayLike, mean: ArrayLike, *spread: ArrayLike, level: float = 0.95, std: Spread = None, var: Spread = None
) -> float:
    """Share of observations `y` inside the central interval of probability `level` of `N(mean, std^2)`.

    Further parameters are those of `mean_nll`.
    """
    if len(spread) == 2:  # the level used to come fourth
        level = float(np.asarray(spread[-1]))
        spread = spread[:1]
    y, mean, var = _with_variance("coverage", y, mean, spread, std, var)
    if not 0 < level < 1:
        raise ValueError(f"The 'level' argument must lie between 0 and 1. Got {level!r}.")
    return float(np.mean(np.abs(y - mean) <= ndtri(0.5 + level / 2) * np.sqrt(var)))


def _with_variance(
    name: str, y: ArrayLike, mean: ArrayLike, spread: tuple[ArrayLike, ...], std: Spread, var: Spread
) -> tuple[Floats, ...]:
    """Observations, means and variances, of spreads that were given by name, or without one as variances."""
    if len(spread) > 1 or len(spread) + (std is not None) + (var is not None) != 1:
        raise TypeError(f"{name} takes either std= or var=, by name.")
    if spread:
        warn(
            f"The third argument of metrics.{name} is a variance now, and will be a standard deviation in the next "
            "release, as everywhere else: say std= or var=.",
            FutureWarning,
        )
        var = spread[0]
    given = {"var": var} if std is None else {"std": std}
    y, mean, amount = _together(y=y, mean=mean, **given)
    _require_positive(**{next(iter(given)): amount})
    return y, mean, amount if std is None else amount**2


def _together(**arguments: ArrayLike) -> tuple[Floats, ...]:
    arrays = {name: np.asarray(value, dtype=np.float64) for name, value in arguments.items()}
    shapes = {array.shape for array in arrays.values()}
    if len(shapes) > 1:
        shown = ", ".join(f"{name} {array.shape}" for name, array in arrays.items())
        raise ValueError(f"The arguments must have one shape. Got {shown}.")
    for name, array in arrays.items():
        if not np.all(np.isfinite(array)):
            raise ValueError(f"The {name!r} argument has values that are not finite.")
    return tuple(arrays.values())


def _require_positive(**variances: Floats) -> None:
    for name, variance in variances.items():
        if np.any(variance <= 0):
            raise ValueError(f"The {name!r} argument must be positive everywhere.")
