"""How unlike targets are at a distance: in the data, and in the model."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial.distance import pdist

from ..common.types import Floats

MOST_POINTS = 3000  # whose pairs are looked at
SHARE = 1 / 3  # of the largest distance: beyond, the same few points meet in all pairs


def distance_unit(model: Any) -> str:
    """What distances of a variogram are in: "km" on the earth, "length scales" where columns have their own, or ""."""
    if model.kernel_.length_scales.shape[1] > 1:
        return "length scales"
    return "km" if model.metric_ == "sphere" else ""


def has_variogram(model: Any) -> bool:
    """Whether the kernel of a model is a function of one distance, so that it has a curve."""
    scales = model.kernel_.length_scales
    return bool(np.all(np.isfinite(scales))) and (scales.shape[1] == 1 or len(scales) == 1)


def empirical_variogram(
    model: Any,
    X: ArrayLike | None = None,
    y: ArrayLike | None = None,
    n_bins: int = 20,
    max_distance: float | None = None,
) -> tuple[Floats, Floats, Floats]:
    """Mean distances, half the mean squared differences of targets, and numbers of pairs, of bins of distances.

    Targets are those of the process: transformed where the model transforms them, and less what its drift or mean model
    says. Without `X` and `y` they are those of the training data; of many, a sample. See `distance_unit`.
    """
    if not has_variogram(model):
        raise ValueError(
            "A variogram goes by one distance: columns with length scales of their own have one where n_scales=1."
        )
    if (X is None) != (y is None):
        raise ValueError("Give both X and y, or neither.")
    if X is None:
        points, targets, _ = model._training_rows()
        targets = targets - model._known_of_training()
    else:
        points, targets = np.asarray(X, dtype=np.float64), np.asarray(y, dtype=np.float64).reshape(len(X), -1)  # type: ignore[arg-type]
        target, known = getattr(model, "target_", None), model._known_mean(points)
        targets = (targets if target is None else target.forward(targets)) - (0.0 if known is None else known)
    rows = np.random.RandomState(0).permutation(len(points))[:MOST_POINTS]
    points, targets = points[rows], np.asarray(targets)[rows]
    if hasattr(model, "drift_coef_"):  # what the data made of its coefficients beyond what was known
        targets = targets - model._parts_at(points)[1][0]
    places = np.asarray(model._inner(points))
    if distance_unit(model) == "length scales":
        places = places / model.kernel_.length_scales[0]
    distances = pdist(places)
    farthest = SHARE * float(distances.max(initial=0.0)) if max_distance is None else float(max_distance)
    near = (distances <= farthest) & (distances > 0)
    if not near.any():
        raise ValueError("No two observations lie within max_distance of each other.")
    halves = 0.5 / targets.shape[1] * pdist(targets, "sqeuclidean")[near]
    # Bins with an equal share of the root of the distance: finer where the curve bends.
    bins = np.minimum((n_bins * np.sqrt(distances[near] / farthest)).astype(np.int64), n_bins - 1)
    counts = np.bincount(bins, minlength=n_bins).astype(np.float64)
    kept = counts > 0
    sums = [np.bincount(bins, weights, minlength=n_bins)[kept] for weights in (distances[near], halves)]
    return sums[0] / counts[kept], sums[1] / counts[kept], counts[kept]


def model_variogram(model: Any, distances: Floats) -> Floats:
    """Semivariance of the model at distances (m,): noise, and what the kernel has lost there."""
    kernel = model.kernel_
    along = np.zeros((len(distances), kernel.length_scales.shape[1]))
    along[:, 0] = distances  # in the direction of one column, which they are measured in
    if distance_unit(model) == "length scales":
        along *= kernel.length_scales[0]
    curve: Floats = kernel.variance - kernel(along, np.zeros((1, along.shape[1])))[:, 0]
    return curve + float(model.noise_variance_)
