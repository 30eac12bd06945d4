"""What the page shows of functions of two columns, or two coordinates: a map. And the model with its words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ...common.types import Floats
from ..inputs import given_or_training, padded_ranges, predict
from ._numbers import pack

CELLS = 72_000  # of a map: 16 bits each for mean and std, some 400 kB of page
POINTS = 8_000  # that a map shows, at most
_CHUNK = 8_000


@dataclass(frozen=True)
class Projection:
    """Two coordinates to draw a map in, for models with other inputs, such as points of a sphere.

    Attributes
    ----------
    names : pair of str
    bounds : pair of (low, high)
    to_inputs : callable
        From coordinates (m, 2) to inputs of the model (m, d).
    from_inputs : callable
        From inputs (m, d) to coordinates (m, 2).
    """

    names: tuple[str, str]
    bounds: tuple[tuple[float, float], tuple[float, float]]
    to_inputs: Callable[[Floats], Floats]
    from_inputs: Callable[[Floats], Floats]


@dataclass(frozen=True)
class Subject:
    """A model with the words for it, and how its answers become those of the page.

    Attributes
    ----------
    model : fitted regressor
    columns : sequence of str
    target : str
    inverse : callable or None
        Undoes an increasing transformation of the target. Maps and slices then show medians, and half the width of
        central 68 % intervals for the standard deviation.
    progress : callable or None
    """

    model: Any
    columns: Sequence[str]
    target: str
    inverse: Callable[[Floats], Floats] | None = None
    progress: Callable[..., None] | None = None

    @property
    def fitted_target(self) -> str:
        """What the model itself predicts."""
        return self.target if self.inverse is None else f"{self.target}, transformed"

    def predict(self, points: Floats, include_noise: bool = False) -> tuple[Floats, Floats]:
        """Means and standard deviations (m,) of the first target."""
        parts = []
        predictor = getattr(self.model, "_predictor", None)
        # A model too large to keep its local models makes them anew for each call: one call is best then.
        step = max(len(points), 1) if predictor is not None and not predictor.models else _CHUNK
        for start in range(0, max(len(points), 1), step):
            answers = predict(self.model, points[start : start + step], include_noise)
            parts.append([a if a.ndim == 1 else a[:, 0] for a in answers])
            if self.progress is not None:
                self.progress("predicting", min((start + step) / max(len(points), 1), 1.0))
        return np.concatenate([mean for mean, _ in parts]), np.concatenate([std for _, std in parts])

    def shown(self, mean: Floats, std: Floats) -> tuple[Floats, Floats]:
        """Centre and spread in the units that are shown."""
        if self.inverse is None:
            return mean, std
        low, high = self.inverse(mean - std), self.inverse(mean + std)
        return self.inverse(mean), 0.5 * (high - low)


def map_of(subject: Subject, X: ArrayLike | None, projection: Projection | None) -> dict[str, Any]:
    """Data of the map for the page's script: grids of mean and std, points and centres."""
    model = subject.model
    known = known_points(model, X)
    plane = projection or Projection(
        (subject.columns[0], subject.columns[1]), _two(padded_ranges(known)), lambda p: p, lambda p: p
    )
    (x0, x1), (y0, y1) = plane.bounds
    nx, ny = grid_shape((x1 - x0) / (y1 - y0))
    across = x0 + (np.arange(nx) + 0.5) / nx * (x1 - x0)
    up = y0 + (np.arange(ny) + 0.5) / ny * (y1 - y0)
    grid = np.stack(np.meshgrid(across, up), axis=-1).reshape(-1, 2)
    mean, std = subject.predict(plane.to_inputs(grid))
    unknown = std / np.sqrt(model.kernel_.variance)
    centre, spread = subject.shown(mean, std)
    result = {
        "names": list(plane.names),
        "bounds": [[x0, x1], [y0, y1]],
        "shape": [nx, ny],
        "target": subject.target,
        "words": ["mean", "standard deviation"] if subject.inverse is None else ["median", "half of the 68 % interval"],
        "mean": pack(centre),
        "std": pack(spread),
        "known": pack(np.clip(2 * (1 - unknown), 0, 1)),
        "colours": {"mean": _limits(centre, unknown), "std": _limits(spread, np.zeros(1))},
        "points": _scatter(plane.from_inputs(some_of(known))),
    }
    centres = getattr(model, "centers_", None)
    if centres is not None and len(centres) > 1:
        result["centres"] = _scatter(plane.from_inputs(some_of(np.asarray(centres))))
    return result


def _limits(values: Floats, unknown: Floats) -> list[float]:
    """Range of the colours: of places of which something is known, without the most extreme."""
    some = values[unknown < 0.5] if len(unknown) == len(values) else values
    some = values if len(some) < 10 else some
    return [float(v) for v in np.percentile(some, [0.2, 99.8])]


def grid_shape(aspect: float) -> tuple[int, int]:
    """Columns and rows of a grid for a map of that aspect, within reason."""
    aspect = float(np.clip(aspect, 0.5, 2.5))
    ny = int(np.sqrt(CELLS / aspect))
    return int(aspect * ny), ny


def known_points(model: Any, X: ArrayLike | None) -> Floats:
    """Points to draw from: the training data where the model keeps them, else those given (checked before)."""
    points = model._training_points()
    if (points is None or len(points) == 0) and X is not None:
        return np.asarray(X)
    return given_or_training(model, None)


def some_of(points: Any) -> Any:
    """An even choice of at most `POINTS`."""
    if len(points) <= POINTS:
        return points
    return points[np.random.default_rng(0).choice(len(points), POINTS, replace=False)]


def _scatter(points: Floats) -> dict[str, Any]:
    return {"n": len(points), "x": pack(points[:, 0]), "y": pack(points[:, 1])}


def _two(ranges: list[tuple[float, float]]) -> tuple[tuple[float, float], tuple[float, float]]:
    return ranges[0], ranges[1]
