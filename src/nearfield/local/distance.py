r"""How far an approximation is from the exact process: of noisy observations, and of the function without noise.

At a place let the exact process have the mean `m` and the variance `v` of the function, the approximation `m + e` and
`w`, and let `s` be the noise variance. The distance of the function is `KL(N(m + e, w) || N(m, v))`, in nats. That of
an observation has `s` added to both variances, and is never larger: an error of the mean weighs `(v + s) / v` times
less. Predictions, areas, gradients and samples are of the function; intervals of observations have the noise.

Both are means over probes, which have an upper confidence bound: most of a mean may come from few places, and some
dozens of probes may miss them. The bound is that of the t statistic with Chen's correction for skewness (Chen 1995,
Journal of the American Statistical Association 90, 767-772), since distances are never negative and have a long tail.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy import stats

from .. import metrics
from ..common.types import Floats


@dataclass(frozen=True)
class DistanceSettings:
    """What is promised of a distance, and how sure it has to be."""

    function_ratio: float = 10.0
    """The distance of the function may be so many times the tolerance, which is for observations. One tenth of a nat
    per thousand points costs little then; who needs more lowers the tolerance."""

    least_variance: float = 1e-6
    """Share of the signal variance: a smaller variance of the function counts as so much. Without noise it vanishes at
    the data, where two variances that differ by rounding would be far apart."""

    confidence: float = 0.95
    """Probability with which the upper bound of a mean over probes exceeds what all places would give."""


SETTINGS = DistanceSettings()


@dataclass(frozen=True)
class Figure:
    """A mean over probes, in nats: its standard error and its upper confidence bound."""

    mean: float = 0.0
    error: float = 0.0
    upper: float = 0.0

    @classmethod
    def of(cls, values: Floats, relative_error: float = 0.0) -> Figure:
        """Of values (m,) at neighbourhoods that do not depend on one another.

        `relative_error` is a share of the mean that it may be off by, beside what the spread of the values tells.
        """
        mean, n = float(np.mean(values)), len(values)
        if n < 2:
            return cls(mean, relative_error * mean, (1 + 2 * relative_error) * mean)
        error = float(np.std(values, ddof=1)) / n**0.5
        t = float(stats.t.ppf(SETTINGS.confidence, n - 1))
        deviations = (values - mean) / max(error * (n - 1) ** 0.5, np.finfo(float).tiny)  # in standard deviations
        a = float(np.mean(deviations**3)) / (6 * n**0.5)
        t += a * (1 + 2 * t**2) + 4 * a**2 * (t + 2 * t**3)
        spread = float(np.hypot(error, relative_error * mean))
        return cls(mean, spread, mean + t * error + 2 * relative_error * mean)

    def plus(self, other: Figure, share: float = 1.0) -> Figure:
        """Add a share of another figure, from other probes."""
        error = float(np.hypot(self.error, share * other.error))
        return Figure(self.mean + share * other.mean, error, self.upper + share * other.upper)

    def shifted(self, nats: float) -> Figure:
        """Add something that is known."""
        return Figure(self.mean + nats, self.error, self.upper + nats)


NOTHING = Figure()


@dataclass(frozen=True)
class Distance:
    """Of noisy observations and of the function, in nats per place."""

    observations: Figure = NOTHING
    function: Figure = NOTHING

    @classmethod
    def of(cls, values: Floats, relative_error: float = 0.0) -> Distance:
        """From values (2, m) of observations and of the function at independent neighbourhoods."""
        return cls(*(Figure.of(each, relative_error) for each in values))

    @property
    def binding(self) -> Figure:
        """The figure that is held against the tolerance: that of observations, or the function's over its ratio.

        Whichever is nearer to what is promised of it.
        """
        function = self.function
        scaled = Figure(*(value / SETTINGS.function_ratio for value in (function.mean, function.error, function.upper)))
        return max(self.observations, scaled, key=lambda figure: figure.mean + figure.error)

    def within(self, tolerance: float) -> bool:
        """Whether the upper bounds of both figures keep what is promised."""
        function_tolerance = SETTINGS.function_ratio * tolerance
        return self.observations.upper <= tolerance and self.function.upper <= function_tolerance

    def plus(self, other: Distance, share: float = 1.0) -> Distance:
        """Add a share of another distance, from other probes."""
        return Distance(self.observations.plus(other.observations, share), self.function.plus(other.function, share))

    def shifted(self, observations: float, function: float) -> Distance:
        """Add what else is known to be left."""
        return replace(
            self,
            observations=self.observations.shifted(observations),
            function=self.function.shifted(function),
        )

    def larger(self, other: Distance | None) -> Distance:
        """The larger of two, figure by figure."""
        if other is None:
            return self
        pairs = ((self.observations, other.observations), (self.function, other.function))
        return Distance(*(max(pair, key=lambda figure: figure.mean) for pair in pairs)).with_upper(
            *(max(figure.upper for figure in pair) for pair in pairs)
        )

    def with_upper(self, observations: float, function: float) -> Distance:
        """The same with other upper bounds."""
        return Distance(replace(self.observations, upper=observations), replace(self.function, upper=function))


@dataclass(frozen=True, eq=False)
class Reference:
    """Answers of a process that can be trusted, at m places.

    Attributes
    ----------
    mean, variance : ndarrays of shape (m, k), (m,)
        Of the function.
    excess : ndarray of shape (m,)
        By how much the variance of the exact process is smaller, as far as can be told, where this is a neighbourhood
        of the data alone. The exact mean differs from `mean` by just as much, squared and on average.
    """

    mean: Floats
    variance: Floats
    excess: Floats


def divergences(
    mean: Floats,
    variance: Floats,
    reference: Reference,
    noise: Floats,
    signal_variance: float,
    n_drawn: int = 0,
    exact_mean: bool = False,
) -> Floats:
    """KL of observations and of the function at m places, (2, m), for means (m, k) and variances (m,) of the function.

    Of several targets it is the mean. The last `n_drawn` of them are draws of the process, which have half of the
    weight. With `exact_mean`, the mean is that of the exact process, and only variances are apart.
    """
    exact_variance = np.maximum(reference.variance - reference.excess, 0.0)
    excess = 0.0 if exact_mean else reference.excess
    mean = reference.mean if exact_mean else mean
    floor = SETTINGS.least_variance * signal_variance
    answers = []
    for added, least in ((noise, 0.0), (0.0, floor)):
        asked, exact = (np.maximum(each, least) + added for each in (variance, exact_variance))
        asked, exact = (np.maximum(each, floor) for each in (asked, exact))
        answers.append(_mean_of_targets(mean, asked, reference.mean, exact, n_drawn) + 0.5 * excess / exact)
    return np.array(answers)


def _mean_of_targets(mean: Floats, variance: Floats, mean_ref: Floats, variance_ref: Floats, n_drawn: int) -> Floats:
    columns = mean.shape[1]
    asked, exact = (np.repeat(each[:, None], columns, axis=1) for each in (variance, variance_ref))
    kl, k = metrics.kl_divergence(mean, asked, mean_ref, exact), columns - n_drawn
    result: Floats = kl[:, :k].mean(axis=1)
    return 0.5 * (result + kl[:, k:].mean(axis=1)) if n_drawn else result
