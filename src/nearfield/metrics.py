"""Scores of predictions, one per test point.

Each takes the observations first. What was predicted comes second: what `predict_distribution` gives, for `coverage`
also what `predict_interval` gives, or means with the spread of normal distributions by name: `std=` as
`predict(..., return_std=True, include_noise=True)` gives it, or `var=`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr, ndtri

from .common.distribution import PredictiveDistribution, check_level
from .common.types import Floats
from .common.validation import refuse_masked

Spread = ArrayLike | None
Predicted = PredictiveDistribution | ArrayLike
LEVEL = 0.95  # probability of the intervals whose coverage is told, unless another is asked for


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


def rmse(y: ArrayLike, predicted: Predicted) -> float:
    """Root of the mean squared error of means, or of those of distributions."""
    mean = predicted.mean if isinstance(predicted, PredictiveDistribution) else predicted
    y, mean = _together(y=y, mean=mean)
    return float(np.sqrt(np.mean((y - mean) ** 2)))


def mean_nll(y: ArrayLike, predicted: Predicted, *unnamed: object, std: Spread = None, var: Spread = None) -> float:
    """Mean negative log likelihood of observations `y`.

    Parameters
    ----------
    y : array
    predicted : PredictiveDistribution, or array of the shape of `y`
        What `predict_distribution` gives; or means, of normal distributions with one of the following.
    std, var : array of the shape of `y`
        Standard deviations or variances of observations, noise included: one of the two, by name.

    Returns
    -------
    nll : float, in nats
    """
    if isinstance(predicted, PredictiveDistribution):
        return float(-np.mean(predicted.logpdf(_scored("mean_nll", y, predicted, unnamed, std, var))))
    y, mean, var = _with_variance("mean_nll", y, predicted, unnamed, std, var)
    return float(np.mean(0.5 * (np.log(2 * np.pi * var) + (y - mean) ** 2 / var)))


def crps(y: ArrayLike, predicted: Predicted, *unnamed: object, std: Spread = None, var: Spread = None) -> float:
    """Mean continuous ranked probability score of observations `y`, in their units.

    Parameters are those of `mean_nll`.
    """
    if isinstance(predicted, PredictiveDistribution):
        return float(np.mean(predicted.crps(_scored("crps", y, predicted, unnamed, std, var))))
    y, mean, var = _with_variance("crps", y, predicted, unnamed, std, var)
    std = np.sqrt(var)
    z = (y - mean) / std
    density = np.exp(-0.5 * z * z) / np.sqrt(2 * np.pi)
    return float(np.mean(std * (z * (2 * ndtr(z) - 1) + 2 * density - 1 / np.sqrt(np.pi))))


def coverage(
    y: ArrayLike,
    predicted: Predicted | tuple[ArrayLike, ArrayLike],
    *unnamed: object,
    level: float | None = None,
    std: Spread = None,
    var: Spread = None,
) -> float:
    """Share of observations `y` inside their intervals.

    Parameters
    ----------
    y : array
    predicted : PredictiveDistribution, pair of arrays, or array of the shape of `y`
        What `predict_distribution` gives; or the lower and upper bounds that `predict_interval` gives, as one argument;
        or means, of normal distributions with `std` or `var`.
    level : float, default=0.95
        Probability of the central intervals of the distributions; bounds have their own.
    std, var : array of the shape of `y`
        As for `mean_nll`.
    """
    if level is not None:
        check_level(level)
    if isinstance(predicted, PredictiveDistribution):
        y = _scored("coverage", y, predicted, unnamed, std, var)
        lower, upper = predicted.interval(LEVEL if level is None else level)
    elif isinstance(predicted, tuple) and len(predicted) == 2 and not unnamed and std is None and var is None:
        if level is not None:
            raise TypeError("coverage takes no level= beside bounds of intervals: it is that of predict_interval.")
        y, lower, upper = _together(y=y, lower=predicted[0], upper=predicted[1])
        if np.any(lower > upper):
            raise ValueError("The lower bounds must not exceed the upper ones: give (lower, upper) in this order.")
    else:
        y, mean, var = _with_variance("coverage", y, predicted, unnamed, std, var)  # type: ignore[arg-type]
        half = ndtri(0.5 + (LEVEL if level is None else level) / 2) * np.sqrt(var)
        lower, upper = mean - half, mean + half
    return float(np.mean((y >= lower) & (y <= upper)))


def refuse_unnamed(name: str, unnamed: tuple[object, ...]) -> None:
    """Refuse a third argument without a name, which could mean anything."""
    if unnamed:
        raise TypeError(
            f"{name} takes no third argument by position, which could be a standard deviation, a variance or a bound: "
            f"give {name}(y, model.predict_distribution(X)), or means and the std= of observations, by name."
        )


def _scored(
    name: str, y: ArrayLike, predicted: PredictiveDistribution, unnamed: tuple[object, ...], std: Spread, var: Spread
) -> Floats:
    """Observations, one for each distribution."""
    refuse_unnamed(name, unnamed)
    if std is not None or var is not None:
        raise TypeError(f"{name} takes neither std= nor var= beside distributions, which have their own.")
    return _together(y=y, mean=predicted.mean)[0]


def _with_variance(
    name: str, y: ArrayLike, mean: ArrayLike, unnamed: tuple[object, ...], std: Spread, var: Spread
) -> tuple[Floats, ...]:
    """Observations, means and variances of normal distributions."""
    refuse_unnamed(name, unnamed)
    if (std is None) == (var is None):
        raise TypeError(f"{name} takes what predict_distribution gives, or means and either std= or var=, by name.")
    given = {"var": var} if std is None else {"std": std}
    y, mean, amount = _together(y=y, mean=mean, **given)
    _require_positive(**{next(iter(given)): amount})
    return y, mean, amount if std is None else amount**2


def _together(**arguments: ArrayLike) -> tuple[Floats, ...]:
    for name, value in arguments.items():
        refuse_masked(value, name)
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
