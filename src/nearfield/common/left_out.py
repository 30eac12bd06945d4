"""Left-out predictions of training points, and how good they were."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .arrays import side_by_side
from .distribution import DistributionsOfTargets, PredictiveDistribution, check_level
from .types import Floats


@dataclass(frozen=True, eq=False)
class LeftOut:
    """What a model says of observations that it has not seen, each left out in turn.

    Attributes
    ----------
    y : ndarray of shape (n,) or (n, n_targets)
        The observations.
    distribution : PredictiveDistribution
        Of an observation, without the one that is left out.
    """

    y: Floats
    distribution: PredictiveDistribution

    @staticmethod
    def of_targets(answers: list[LeftOut]) -> LeftOut:
        """Those of several targets, from those of each."""
        together = DistributionsOfTargets.of([each.distribution for each in answers])
        return LeftOut(side_by_side([each.y for each in answers]), together)

    def __len__(self) -> int:
        return len(self.y)

    @property
    def mean(self) -> Floats:
        """Predicted means, of the shape of `y`."""
        return self.distribution.mean

    @property
    def std(self) -> Floats:
        """Predicted standard deviations of observations, of the shape of `y`."""
        return self.distribution.std

    @property
    def residuals(self) -> Floats:
        """Observations less predicted means."""
        return self.y - self.mean

    @property
    def standardised(self) -> Floats:
        """Residuals in standard deviations."""
        return self.residuals / np.maximum(self.std, np.finfo(np.float64).tiny)

    @property
    def probabilities(self) -> Floats:
        """Where in its distribution each observation falls: uniform from 0 to 1 if the model is right."""
        return self.distribution.cdf(self.y)

    @property
    def rmse(self) -> float:
        """Root of the mean squared residual."""
        return float(np.sqrt(np.mean(self.residuals**2)))

    @property
    def nll(self) -> float:
        """Mean negative log likelihood."""
        return float(-np.mean(self.distribution.logpdf(self.y)))

    @property
    def crps(self) -> float:
        """Mean continuous ranked probability score."""
        return float(np.mean(self.distribution.crps(self.y)))

    def coverage(self, level: float = 0.95) -> float:
        """Share of the observations inside their central intervals of probability `level`."""
        check_level(level)
        low, high = self.distribution.interval(level)
        return float(np.mean((self.y >= low) & (self.y <= high)))

    def __str__(self) -> str:
        return (
            f"{len(self)} samples, each left out: RMSE {self.rmse:.4g}, NLL {self.nll:.4g}, CRPS {self.crps:.4g}, "
            f"95 % intervals cover {self.coverage():.1%}"
        )
