"""The model that a page is about, with the words for it, and the points that its charts go by."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ...common.distribution import PredictiveDistribution
from ...common.types import Floats
from ..inputs import at_once, distribution, given_or_training, predict_in_chunks


@dataclass(frozen=True)
class Subject:
    """A fitted model with the words for it, and how its answers become those of the page.

    `inverse` undoes an increasing transformation of the target. Maps and slices then show medians, and half the width
    of central 68 % intervals for the standard deviation.
    """

    model: Any
    columns: Sequence[str]
    target: str
    inverse: Callable[[Floats], Floats] | None = None
    progress: Callable[..., None] | None = None

    @property
    def fitted_target(self) -> str:
        """What the model itself predicts."""
        transformed = getattr(self.model, "target_", None)
        plain = self.inverse is None and (transformed is None or transformed.is_identity)
        return self.target if plain else f"{self.target}, transformed"

    @property
    def scored_target(self) -> str:
        """What observations are of."""
        return self.target if self.inverse is None else f"{self.target}, transformed"

    def predict(self, points: Floats, include_noise: bool = False) -> tuple[Floats, Floats]:
        """Means and standard deviations (m,) of the first target."""
        mean, std = predict_in_chunks(self.model, points, include_noise, self.progress)
        return (mean, std) if mean.ndim == 1 else (mean[:, 0], std[:, 0])

    def distribution(self, points: Floats) -> PredictiveDistribution:
        """Distributions of observations of the first target."""
        return PredictiveDistribution.joined(
            [distribution(self.model, points[run]).target(0) for run in self._runs(points)]
        )

    def doubt(self, points: Floats, std: Floats) -> Floats:
        """Standard deviations (m,) of the function over those of the prior, 1 where the data say nothing."""
        transformed, noise = getattr(self.model, "target_", None), getattr(self.model, "noise_model_", None)
        if (transformed is None or transformed.is_identity) and (noise is None or not noise.of_all):
            share: Floats = std / np.sqrt(self.model.kernel_.variance)
            return share
        return np.concatenate([self.model._share_left(points[run]) for run in self._runs(points)])

    def noise(self, points: Floats) -> Floats | None:
        """Standard deviations (m,) of the noise of what the model itself predicts; None where all are the same."""
        if getattr(getattr(self.model, "noise_model_", None), "field", None) is None:
            return None
        variance: Floats = np.concatenate([self.model._noise_at(points[run]) for run in self._runs(points)])
        return np.sqrt(variance)

    def _runs(self, points: Floats) -> list[slice]:
        """Points to predict together."""
        step = at_once(self.model, points)
        return [slice(start, start + step) for start in range(0, max(len(points), 1), step)]

    def shown(self, mean: Floats, std: Floats) -> tuple[Floats, Floats]:
        """Centre and spread in the units that are shown."""
        if self.inverse is None:
            return mean, std
        low, high = self.inverse(mean - std), self.inverse(mean + std)
        return self.inverse(mean), 0.5 * (high - low)

    def points(self, X: ArrayLike | None) -> Floats:
        """Points (n, d) to go by: the training data where the model keeps them, else those given (checked before)."""
        training = self.model._training_points()
        if (training is None or len(training) == 0) and X is not None:
            return np.asarray(X)
        return given_or_training(self.model, None)


def subsample(values: Any, size: int) -> Any:
    """At most `size` of the values, drawn at random, always the same."""
    if len(values) <= size:
        return values
    return values[np.random.default_rng(0).choice(len(values), size, replace=False)]
