"""How unlike targets are at a distance: in the data, and in the model."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..common.types import Floats

MOST_POINTS = 3000  # whose pairs are looked at
SHARE = 1 / 3  # of the largest distance: beyond, the same few points meet in all pairs


def empirical_variogram(
    model: Any,
    X: ArrayLike | None = None,
    y: ArrayLike | None = None,
    n_bins: int = 20,
    max_distance: float | None = None,
) -> tuple[Floats, Floats, Floats]:
    """Mean distances, half the mean squared differences of targets, and numbers of pairs, of bins of distances.

    Targets are those of the process: transformed where the model transforms them. Without `X` and `y` they are those of
    the training data; of many, a sample.
    """
    if model.kernel_.length_scales.shape[1] > 1:
        raise ValueError("A variogram is of one length scale for all columns: with ard=False and anisotropy='axes'.")
    if (X is None) != (y is None):
        raise ValueError("Give both X and y, or neither.")
    if X is None:
        points, targets, _ = model._training_rows()
    else:
        points, targets = np.asarray(X, dtype=np.float64), np.asarray(y, dtype=np.float64).reshape(len(X), -1)  # type: ignore[arg-type]
        target = getattr(model, "target_", None)
        targets = targets if target is None else target.forward(targets)
    rows = np.random.RandomState(0).permutation(len(points))[:MOST_POINTS]
    places, values = np.asarray(model._inner(points[rows])), np.asarray(targets)[rows]
    first, second = np.triu_indices(len(rows), 1)
    distances = np.linalg.norm(places[first] - places[second], axis=1)
    farthest = SHARE * float(distances.max(initial=0.0)) if max_distance is None else float(max_distance)
    near = (distances <= farthest) & (distances > 0)
    if not near.any():
        raise ValueError("No two observations lie within max_distance of each other.")
    halves = 0.5 * np.mean((values[first[near]] - values[second[near]]) ** 2, axis=1)
    # Bins with an equal share of the root of the distance: finer where the curve bends.
    bins = np.minimum((n_bins * np.sqrt(distances[near] / farthest)).astype(np.int64), n_bins - 1)
    counts = np.bincount(bins, minlength=n_bins).astype(np.float64)
    kept = counts > 0
    sums = [np.bincount(bins, weights, minlength=n_bins)[kept] for weights in (distances[near], halves)]
    return sums[0] / counts[kept], sums[1] / counts[kept], counts[kept]


def model_variogram(model: Any, distances: Floats) -> Floats:
    """Semivariance of the model at distances (m,): noise, and what the kernel has lost there."""
    kernel = model.kernel_
    curve: Floats = kernel.variance - kernel(np.asarray(distances)[:, None], np.zeros((1, 1)))[:, 0]
    return curve + float(model.noise_variance_)
