"""The model that a page is about, with the words for it, and the points that its charts go by."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ...common.distribution import PredictiveDistribution
from ...common.types import Floats
from ..inputs import distribution, given_or_training, predict

_CHUNK = 8_000


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
        answers, step = [], self._step(points)
        for start in range(0, max(len(points), 1), step):
            mean, std = predict(self.model, points[start : start + step], include_noise)
            answers.append((mean, std) if mean.ndim == 1 else (mean[:, 0], std[:, 0]))
            if self.progress is not None:
                self.progress("predicting", min((start + step) / max(len(points), 1), 1.0))
        means, stds = zip(*answers, strict=True)
        return np.concatenate(means), np.concatenate(stds)

    def distribution(self, points: Floats) -> PredictiveDistribution:
        """Distributions of observations of the first target."""
        parts = []
        for start in range(0, max(len(points), 1), self._step(points)):
            parts.append(distribution(self.model, points[start : start + self._step(points)]).target(0))
        return PredictiveDistribution.joined(parts)

    def doubt(self, points: Floats, std: Floats) -> Floats:
        """Standard deviations (m,) of the function over those of the prior, 1 where the data say nothing."""
        transformed, noise = getattr(self.model, "target_", None), getattr(self.model, "noise_model_", None)
        if (transformed is None or transformed.is_identity) and (noise is None or not noise.of_all):
            share: Floats = std / np.sqrt(self.model.kernel_.variance)
            return share
        steps = range(0, max(len(points), 1), self._step(points))
        return np.concatenate([self.model._share_left(points[i : i + self._step(points)]) for i in steps])

    def _step(self, points: Floats) -> int:
        """Points to predict at once."""
        predictor = getattr(self.model, "_predictor", None)
        # A model too large to keep its local models makes them anew for each call: one call is best then.
        return max(len(points), 1) if predictor is not None and not predictor.models else _CHUNK

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
