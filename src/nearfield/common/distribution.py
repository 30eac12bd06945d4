"""Predictive distributions: normal, or Student's t, moved and scaled for each place, and checked by left-out residuals.

A `Calibration` says how probabilities that a model states turn out among left-out residuals; stated ones are mapped to
those.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.interpolate import PchipInterpolator
from scipy.special import beta, gammaln, ndtr, ndtri, stdtr, stdtrit

from .arrays import side_by_side
from .targets import Target
from .types import Floats
from .validation import as_numbers, check_random_state, is_whole

LEVELS = (0.005, 0.025, 0.1, 0.25, 0.5, 0.75, 0.9, 0.975, 0.995)  # at which left-out residuals are counted
FARTHEST = 37.0  # normal scores beyond which probabilities are 0 or 1
LARGEST = 1e150  # standardised value, whose square is still a number
STEP = 0.15  # in normal scores, between nodes that a mean without closed form is made of
NORMAL_REACH, T_REACH = 12.0, 3.3  # normal scores that it takes in
STEPS = 200  # quantiles that a score without closed form is made of


@dataclass(frozen=True, eq=False)
class Calibration:
    """A map from normal scores of stated probabilities to those of the probabilities that hold: increasing, smooth.

    Attributes
    ----------
    stated, held : ndarrays of shape (J,)
        Scores at which the map is known, increasing. Beyond them it goes on with slope 1.
    """

    stated: Floats
    held: Floats

    @classmethod
    def of(cls, scores: Floats) -> Calibration:
        """From the normal scores (n,) of left-out observations."""
        stated = np.quantile(scores, LEVELS)
        # Equal quantiles, as of a target with few values, must still make an increasing map, and lie inside intervals.
        stated = np.maximum.accumulate(stated) + 1e-6 * (np.arange(len(LEVELS)) - len(LEVELS) // 2)
        return cls(stated, ndtri(LEVELS))

    def to_held(self, scores: Floats) -> Floats:
        """Scores of the probabilities that hold."""
        return _mapped(scores, self.stated, self.held)

    def to_stated(self, scores: Floats) -> Floats:
        """The inverse of `to_held`, to rounding."""
        inner = np.clip(scores, self.held[0], self.held[-1])
        low, high = np.full_like(inner, self.stated[0]), np.full_like(inner, self.stated[-1])
        for _ in range(52):  # by halving: the map has no inverse in closed form
            middle = 0.5 * (low + high)
            above = _mapped(middle, self.stated, self.held) > inner
            low, high = np.where(above, low, middle), np.where(above, middle, high)
        result: Floats = 0.5 * (low + high) + (scores - inner)
        return result

    def slope(self, scores: Floats) -> Floats:
        """Derivative of `to_held`."""
        inside = (scores > self.stated[0]) & (scores < self.stated[-1])
        slopes = PchipInterpolator(self.stated, self.held).derivative()(np.where(inside, scores, self.stated[0]))
        result: Floats = np.where(inside, np.maximum(slopes, 1e-6), 1.0)
        return result


def _mapped(values: Floats, start: Floats, stop: Floats) -> Floats:
    inner = np.clip(values, start[0], start[-1])
    result: Floats = PchipInterpolator(start, stop)(inner) + (values - inner)
    return result


@dataclass(frozen=True, eq=False)
class PredictiveDistribution:
    """Distributions of an observation, or of the function, at each of some places.

    Attributes
    ----------
    mean, std : ndarrays of shape (m,) or (m, k)
        As `predict` gives them.
    scale : ndarray of the same shape
        Standard deviation of the normal distribution, or scale of Student's t.
    dof : float
        Degrees of freedom; infinite for the normal distribution.
    calibration : Calibration or None
        By left-out residuals, where probabilities were found to be off.
    location : ndarray of the shape of `mean`, or None
        Middle of the distribution; None is the mean.
    units : Target or None
        Of what location and scale are the numbers, where that is not the target itself.
    """

    mean: Floats
    std: Floats
    scale: Floats
    dof: float = np.inf
    calibration: Calibration | None = None
    location: Floats | None = None
    units: Target | None = None

    def in_units(self, units: Target) -> PredictiveDistribution:
        """Distributions of the target itself, where these are those of the target transformed.

        Means and standard deviations are those of the whole distribution where it is normal, and those of the central
        99.9 % where it is Student's t, whose own may be infinite.
        """
        if units.is_identity:
            return self
        is_normal = np.isinf(self.dof)
        if is_normal and self.calibration is None and units.is_log:
            mean, std = units.lognormal_moments(self.mean, self.scale)
        else:
            mean, std = self._moments_in(units, NORMAL_REACH if is_normal else T_REACH)
        return replace(self, mean=mean, std=std, location=self.mean, units=units)

    def _moments_in(self, units: Target, reach: float) -> tuple[Floats, Floats]:
        """Means and standard deviations of the target between two normal scores, by the trapezoidal rule."""
        middle, steps = units.inverse(self.mean), STEP * np.arange(1, round(reach / STEP) + 1)
        first, second, total = np.zeros(self.mean.shape), np.zeros(self.mean.shape), 1.0
        for side in (steps, -steps):
            excess = np.zeros(self.mean.shape)
            for z, weight in zip(self._of_scores(side), np.exp(-0.5 * side**2), strict=True):
                with np.errstate(all="ignore"):  # a transformer may have no number for what is beyond its range
                    value = np.clip(units.inverse(self.mean + self.scale * z) - middle, -LARGEST, LARGEST)
                excess = np.where(np.isnan(value), excess, value)
                first += weight * excess
                second += weight * excess**2
                total += weight
        first, second = first / total, second / total
        return middle + first, np.sqrt(np.maximum(second - first**2, 0.0))

    @property
    def _middle(self) -> Floats:
        return self.mean if self.location is None else self.location

    def _from_inner(self, values: Floats) -> Floats:
        return values if self.units is None else self.units.inverse(values)

    def _of_scores(self, scores: Floats) -> Floats:
        """Quantiles of the standardised distribution, for probabilities given by their normal scores."""
        if self.calibration is not None:
            scores = self.calibration.to_stated(scores)
        result: Floats = scores if np.isinf(self.dof) else stdtrit(self.dof, ndtr(scores))
        return result

    @staticmethod
    def joined(parts: Sequence[PredictiveDistribution]) -> PredictiveDistribution:
        """Distributions at places one after the other, by one model."""
        if isinstance(parts[0], DistributionsOfTargets):
            each = zip(*(part.targets for part in parts if isinstance(part, DistributionsOfTargets)), strict=True)
            return DistributionsOfTargets.of([PredictiveDistribution.joined(own) for own in each])
        names = ("mean", "std", "scale", "_middle")
        mean, std, scale, middle = (np.concatenate([getattr(part, name) for part in parts]) for name in names)
        return replace(parts[0], mean=mean, std=std, scale=scale, location=middle)

    def target(self, number: int) -> PredictiveDistribution:
        """Of several targets, the distributions of one."""
        if self.mean.ndim == 1:
            return self
        mean, std, scale, middle = (values[:, number] for values in (self.mean, self.std, self.scale, self._middle))
        return replace(self, mean=mean, std=std, scale=scale, location=middle)

    def scores(self, y: ArrayLike) -> Floats:
        """Normal scores of `y`: standard normal if the distributions are right."""
        scores = self._scores(self._standardised(y))
        return scores if self.calibration is None else self.calibration.to_held(scores)

    def cdf(self, y: ArrayLike) -> Floats:
        """Probabilities of at most `y`, a number or one for each place."""
        z = self._standardised(y)
        if self.calibration is None:
            return self._probability(z)
        result: Floats = ndtr(self.calibration.to_held(self._scores(z)))
        return result

    def ppf(self, q: ArrayLike) -> Floats:
        """Quantiles, each of the shape of `mean`; for several probabilities (Q,), one more axis at the end."""
        levels = check_quantiles(q)
        z = self._of_scores(ndtri(levels))
        result = self._from_inner(self._middle[..., None] + self.scale[..., None] * z)
        return result[..., 0] if levels.ndim == 0 else result

    def interval(self, level: float = 0.95) -> tuple[Floats, Floats]:
        """Bounds of the central interval of probability `level`."""
        check_level(level)
        low, high = np.moveaxis(self.ppf([0.5 - level / 2, 0.5 + level / 2]), -1, 0)
        return low, high

    def logpdf(self, y: ArrayLike) -> Floats:
        """Logarithms of the densities at `y`, a number or one for each place."""
        z, scale = self._standardised(y), self._positive_scale
        density = _log_density_of_normal(z) if np.isinf(self.dof) else log_density_of_t(z, self.dof)
        if self.calibration is not None:
            scores = self._scores(z)
            held = self.calibration.to_held(scores)
            density = density + np.log(self.calibration.slope(scores)) + 0.5 * (scores**2 - held**2)
        result: Floats = density - np.log(scale)
        return result if self.units is None else result + self.units.log_derivative(np.asarray(y, dtype=np.float64))

    def crps(self, y: ArrayLike) -> Floats:
        """Continuous ranked probability scores at `y`, in its units."""
        z, scale = self._standardised(y), self._positive_scale
        if self.calibration is not None or self.units is not None:
            levels = (np.arange(STEPS) + 0.5) / STEPS
            excess = np.asarray(y, dtype=np.float64)[..., None] - self.ppf(levels)
            result: Floats = 2.0 * np.mean(excess * (levels - (excess < 0)), axis=-1)
        elif np.isinf(self.dof):
            density = np.exp(_log_density_of_normal(z))
            result = scale * (z * (2 * ndtr(z) - 1) + 2 * density - 1 / np.sqrt(np.pi))
        else:
            nu, density = self.dof, np.exp(log_density_of_t(z, self.dof))
            spread = 2 * np.sqrt(nu) / (nu - 1) * beta(0.5, nu - 0.5) / beta(0.5, nu / 2) ** 2
            result = scale * (z * (2 * stdtr(nu, z) - 1) + 2 * density * (nu + z * z) / (nu - 1) - spread)
        return result

    def sample(self, n_samples: int = 1, random_state: Any = 0) -> Floats:
        """Draws, (m, n_samples) or (m, k, n_samples): each place by itself, without regard to the others.

        The same integer as `random_state` gives the same draws; None new ones every time.
        """
        if not is_whole(n_samples, 0):
            raise ValueError(f"The 'n_samples' argument must be an integer of at least 0. Got {n_samples!r}.")
        rng = check_random_state(random_state)
        shape = (*self.mean.shape, int(n_samples))
        if self.calibration is None:
            z = rng.standard_normal(shape) if np.isinf(self.dof) else rng.standard_t(self.dof, shape)
        else:
            z = self._of_scores(rng.standard_normal(shape))
        return self._from_inner(self._middle[..., None] + self.scale[..., None] * z)

    def above(self, threshold: ArrayLike) -> Floats:
        """Probabilities of more than a threshold, a number or one for each place."""
        result: Floats = 1.0 - self.cdf(threshold)
        return result

    @property
    def _positive_scale(self) -> Floats:
        return np.maximum(self.scale, np.finfo(np.float64).tiny)

    def _standardised(self, y: ArrayLike) -> Floats:
        values = np.asarray(y, dtype=np.float64)
        if values.shape not in ((), self.mean.shape):
            raise ValueError(
                f"The values must be a number, or one for each place, {self.mean.shape}. Got the shape {values.shape}."
            )
        if np.isnan(values).any():
            raise ValueError("The values must be numbers, and some are NaN.")
        if self.units is not None:
            values = self.units.forward(values)
        with np.errstate(over="ignore"):
            result: Floats = np.clip((values - self._middle) / self._positive_scale, -LARGEST, LARGEST)
        return result

    def _probability(self, z: Floats) -> Floats:
        result: Floats = ndtr(z) if np.isinf(self.dof) else stdtr(self.dof, z)
        return result

    def _scores(self, z: Floats) -> Floats:
        """Normal scores of standardised values."""
        return scores_of(z, self.dof)


@dataclass(frozen=True, eq=False)
class DistributionsOfTargets(PredictiveDistribution):
    """Distributions of several targets at each of some places, each target with tails and a calibration of its own.

    Attributes
    ----------
    targets : tuple of PredictiveDistribution
        One per target, each at the same places (m,).
    """

    targets: tuple[PredictiveDistribution, ...] = ()

    @classmethod
    def of(cls, targets: Sequence[PredictiveDistribution]) -> DistributionsOfTargets:
        """Distributions (m, k), from those of each target (m,)."""
        mean, std, scale = side_by_side([(each.mean, each.std, each.scale) for each in targets])
        return cls(mean, std, scale, targets=tuple(targets))

    def target(self, number: int) -> PredictiveDistribution:
        """See `PredictiveDistribution`."""
        return self.targets[number]

    def scores(self, y: ArrayLike) -> Floats:
        """See `PredictiveDistribution`."""
        return self._of_each("scores", y)

    def cdf(self, y: ArrayLike) -> Floats:
        """See `PredictiveDistribution`."""
        return self._of_each("cdf", y)

    def logpdf(self, y: ArrayLike) -> Floats:
        """See `PredictiveDistribution`."""
        return self._of_each("logpdf", y)

    def crps(self, y: ArrayLike) -> Floats:
        """See `PredictiveDistribution`."""
        return self._of_each("crps", y)

    def ppf(self, q: ArrayLike) -> Floats:
        """See `PredictiveDistribution`."""
        return np.stack([target.ppf(q) for target in self.targets], axis=1)

    def sample(self, n_samples: int = 1, random_state: Any = 0) -> Floats:
        """See `PredictiveDistribution`."""
        rng = check_random_state(random_state)
        return np.stack([target.sample(n_samples, rng) for target in self.targets], axis=1)

    def _of_each(self, method: str, y: ArrayLike) -> Floats:
        """What a method of each target's distributions says of its values, which are (m, k) or one number."""
        values = np.asarray(y, dtype=np.float64)
        if values.shape not in ((), self.mean.shape):
            self._standardised(values)  # refuses them
        columns = np.broadcast_to(values, self.mean.shape).T
        answers = [getattr(each, method)(own) for each, own in zip(self.targets, columns, strict=True)]
        return np.stack(answers, axis=1)


def scores_of(z: Floats, dof: float) -> Floats:
    """Normal scores with the probabilities that standardised values have, normal or t with `dof` degrees of freedom."""
    if np.isinf(dof):
        return np.clip(z, -FARTHEST, FARTHEST)
    # By the smaller tail, which keeps its digits.
    result: Floats = np.clip(ndtri(stdtr(dof, -np.abs(z))), -FARTHEST, 0.0) * -np.sign(z)
    return result


def _log_density_of_normal(z: Floats) -> Floats:
    result: Floats = -0.5 * z * z - 0.5 * np.log(2 * np.pi)
    return result


def log_density_of_t(z: Floats, dof: float) -> Floats:
    """Logarithm of the density of Student's t."""
    constant = gammaln((dof + 1) / 2) - gammaln(dof / 2) - 0.5 * np.log(dof * np.pi)
    result: Floats = constant - (dof + 1) / 2 * np.log1p(z * z / dof)
    return result


def check_quantiles(q: ArrayLike) -> Floats:
    """Probabilities strictly between 0 and 1, a number or a list (Q,)."""
    levels = as_numbers(q)
    if levels.ndim > 1 or not np.all((levels > 0) & (levels < 1)):
        raise ValueError(f"The 'q' argument must be one or more probabilities between 0 and 1. Got {q!r}.")
    return levels


def check_level(level: Any) -> None:
    """Refuse what is no probability of an interval."""
    value = as_numbers(level)
    if value.ndim > 0 or not 0 < float(value) < 1:
        raise ValueError(f"The 'level' argument must lie between 0 and 1. Got {level!r}.")
