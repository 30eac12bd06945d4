"""One map of sketches around many centres: what is linear in the points is computed once.

A factor of a sketch is linear, `W (x - c) = W x - W c`, so moving the centre costs a subtraction where a new map would
cost a product or a transform. For hundreds of centres on thousands of points that is most of the work.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import lgamma
from typing import Any, Self

import numpy as np

from ..common.types import Floats
from ..estimators import LocalGPRegressor
from ..features import maclaurin, sketch
from ..local.model import from_statistics, mean_and_variance
from ..local.neighbourhoods import TrainingSet
from ..local.plan import Plan
from ..solvers import statistics
from ..solvers.feature_space import FeatureSpace
from ..solvers.statistics import Statistics

CHUNK = 512  # points whose features stay in the cache
# Squared distance, in length scales, beyond which features of degree up to 15 are rounding errors: exp(-r^2) r^30 / 15!
# is 1e-28 there, with room for the scatter of the sketches.
NOTHING = 110.0


@dataclass(frozen=True, eq=False)
class ShiftedSketches:
    """Factors of all sketches of a map at the training points, ready to be moved to any centre."""

    plan: Plan  # with a single map of the paper's kind: the constant exact, sketches above
    X: Floats  # (n, d): training points, so ordered that neighbours in space are near in memory
    y: Floats  # (n, k + 1): their targets
    noise: Floats  # (n,): and noise
    lower: Floats  # (n_chunks, d): boxes around the points of each chunk
    upper: Floats  # (n_chunks, d)
    map: maclaurin.MaclaurinMap
    factors: list[list[Floats]]  # `W_i X'` (D_n, n) for each sketch and each of its factors

    @classmethod
    def of(cls, plan: Plan, data: TrainingSet) -> ShiftedSketches:
        """Apply the factors to the training points."""
        assert plan.features is not None
        (drawn,) = plan.features.maps
        assert isinstance(drawn, maclaurin.MaclaurinMap)
        assert drawn.monomials.n_components == 1
        order = np.asarray(data.tree.get_arrays()[1])
        X = data.X[order]
        starts = np.arange(0, len(X), CHUNK)
        lower, upper = np.minimum.reduceat(X, starts), np.maximum.reduceat(X, starts)
        factors = [_factors(part, X) for _, part in drawn.sketches]
        return cls(plan, X, data.y[order], data.noise[order], lower, upper, drawn, factors)

    def fit(self, center: Floats) -> FeatureSpace:
        """The model around a centre on all points: `fit_one`, up to rounding."""
        moves = [_factors(part, center[None]) for _, part in self.map.sketches]
        sums = statistics.nothing(self.map.n_components, self.y.shape[1] - 1)
        gaps = np.maximum(np.maximum(self.lower - center, center - self.upper), 0.0)
        for i in np.flatnonzero(np.einsum("ij,ij->i", gaps, gaps) < NOTHING):
            chunk = slice(i * CHUNK, (i + 1) * CHUNK)
            rows = self._rows(center, moves, chunk)
            root = 1.0 / np.sqrt(self.noise[chunk])
            rows *= root
            sums = sums + Statistics.of_weighted(rows, self.y[chunk] * root[:, None], root)
        return from_statistics(self.plan, sums)

    def _rows(self, center: Floats, moves: list[list[Floats]], chunk: slice) -> Floats:
        Z = self.X[chunk] - center
        prefactor = np.exp(-0.5 * np.einsum("ij,ij->i", Z, Z))
        rows = np.empty((self.map.n_components, len(Z)))
        rows[0] = prefactor
        place = 1
        for (weight, part), factors, shifts in zip(self.map.sketches, self.factors, moves, strict=True):
            block = rows[place : place + part.n_components]
            np.subtract(factors[0][:, chunk], shifts[0], out=block)
            for factor, shift in zip(factors[1:], shifts[1:], strict=True):
                block *= factor[:, chunk] - shift
            scale = (weight / part.n_components) ** 0.5 * np.exp(-0.5 * lgamma(part.degree + 1))
            block *= prefactor * scale
            place += part.n_components
        return rows


class AroundTestPoints:
    """The paper's method without clustering: a model around every test point, made when it is asked for.

    The same as `LocalGPRegressor.from_paper(..., centers="test")`, in less time.
    """

    def __init__(self, n_components: int, **parameters: Any) -> None:
        self.base = LocalGPRegressor.from_paper(n_components, centers="mean", **parameters)

    def fit(self, X: Floats, y: Floats) -> Self:
        """Draw the map, and apply its factors to the training points."""
        self.base.fit(X, y)
        predictor = self.base._predictor.with_points("the reproduction needs")
        self.shifted = ShiftedSketches.of(predictor.plan, predictor.data)
        return self

    def predict(self, X: Floats, return_std: bool, include_noise: bool) -> tuple[Floats, Floats]:
        """Means and standard deviations, as `LocalGPRegressor.predict` with `return_std`."""
        assert return_std
        mean, variance = np.empty(len(X)), np.empty(len(X))
        origin = np.zeros((1, X.shape[1]))
        for i, point in enumerate(X / self.base.length_scale_):
            means, spread = mean_and_variance(self.shifted.plan, self.shifted.fit(point), origin)
            mean[i], variance[i] = means[0, 0], spread[0]
        noise = self.base.noise_variance_ if include_noise else 0.0
        return mean + self.base.y_mean_[0], np.sqrt(np.maximum(variance, 0.0) + noise)


def _factors(part: sketch.Sketch, X: Floats) -> list[Floats]:
    """Each factor of a sketch at points (n, d), one feature per row."""
    factor: Any = sketch._dense_factor if isinstance(part, sketch.DenseSketch) else sketch._srht_factor
    return [np.ascontiguousarray(factor(part, X, i).T) for i in range(part.degree)]
