"""How unlike targets are at a distance: in the data, and in the model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial.distance import pdist, squareform
from scipy.stats import chi2

from ..common.types import Floats, Integers
from ..common.validation import check_random_state

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


@dataclass(frozen=True)
class DepartureSettings:
    """How the variogram of the data is compared with that of the model."""

    n_clusters: int = 20
    """Rows whose neighbours are looked at. Pairs of rows within a cluster are near, all others far apart."""

    n_near: int = 10
    """Rows of a cluster."""

    n_rows: int = 50_000
    """Rows, drawn at random, that clusters are taken from; with more, looking for neighbours takes a second."""

    n_bins: int = 4
    """Bins of equally many pairs, for near pairs and for far ones."""

    chance: float = 1e-6
    """A departure that the model makes with more than this probability, over all bins, counts as none."""

    ratio: float = 1.5
    """Semivariances that differ by a smaller factor agree for every practical purpose."""


def departure(
    model: Any, settings: DepartureSettings | None = None, random_state: Any = 0
) -> tuple[float, float] | None:
    """Where the variogram of the data is farther from that of the model than chance allows: (distance, ratio), or None.

    In a bin of pairs, the mean of half the squared differences of `y` is `y' L y / 2n` with a matrix `L` of the pairs.
    Under the model `y ~ N(0, C)`, so its mean is `tr(L C) / 2n`, its variance `2 tr(L C L C) / 4n^2`, and a chi-squared
    distribution of the same two moments says how likely a departure is. Distances are in shortest length scales, and
    the ratio is that of the data to the model.
    """
    chosen = settings or DepartureSettings()
    if np.isfinite(model.noise_model_.dof) or model.noise_model_.of_all:
        return None  # `C` is not the covariance of what was modelled
    X, y, noise = model._training_rows()
    rows = _clusters(model._inner(X), chosen, check_random_state(random_state))
    if len(rows) < 2 * chosen.n_near:
        return None
    places = np.asarray(model._inner(X[rows]))
    y = y[rows, 0] - np.broadcast_to(model._known_of_training(), y.shape)[rows, 0] - float(model.y_mean_[0])
    if hasattr(model, "drift_coef_"):
        y = y - model._parts_at(X[rows])[1][0][:, 0]
    C = model.kernel_(places, places) + np.diag(noise[rows] * model.noise_model_.factors(model._field_points(X[rows])))
    size = float(np.max(np.diag(C)))
    C, y = C / size, y / size**0.5  # squares of huge targets overflow
    distances = squareform(pdist(places / model.kernel_.length_scales.min(axis=0)))
    first, second = np.triu_indices(len(rows), 1)
    cluster = np.arange(len(rows)) // chosen.n_near
    is_near = cluster[first] == cluster[second]
    best: tuple[float, tuple[float, float] | None] = (chosen.chance / (2 * chosen.n_bins), None)
    for pairs in (np.flatnonzero(is_near), np.flatnonzero(~is_near)):
        order = pairs[np.argsort(distances[first[pairs], second[pairs]], kind="stable")]
        for each in np.array_split(order, chosen.n_bins):
            i, j = first[each], second[each]
            L = np.zeros_like(C)
            np.add.at(L, (i, i), 1.0)
            np.add.at(L, (j, j), 1.0)
            L[i, j] -= 1.0
            L[j, i] -= 1.0
            LC = L @ C
            mean, spread = float(np.trace(LC)), 2 * float(np.sum(LC * LC.T))
            ratio = float(y @ L @ y) / mean if mean > 0 else 1.0
            dof = 2 * mean**2 / spread if spread > 0 else np.inf
            chance = float(2 * min(chi2.sf(dof * ratio, dof), chi2.cdf(dof * ratio, dof)))
            if chance < best[0] and not 1 / chosen.ratio < ratio < chosen.ratio:
                best = chance, (float(np.median(distances[i, j])), ratio)
    return best[1]


def _clusters(points: Floats, settings: DepartureSettings, rng: np.random.RandomState) -> Integers:
    """Rows of clusters (n_clusters * n_near,), one cluster after the other, no row twice."""
    left = rng.permutation(len(points))[: settings.n_rows]
    clusters: list[Integers] = []
    while len(left) >= settings.n_near and len(clusters) < settings.n_clusters:
        squares = np.sum((points[left] - points[left[0]]) ** 2, axis=1)
        taken = np.argpartition(squares, settings.n_near - 1)[: settings.n_near]
        clusters.append(left[taken])
        left = np.delete(left, taken)
    return np.concatenate(clusters) if clusters else np.zeros(0, dtype=np.int64)
