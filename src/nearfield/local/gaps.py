"""Places where predictions are asked for: those that were named, or the gaps of the data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..common.samples import some_rows
from ..common.types import Booleans, Floats, Integers
from .neighbourhoods import TrainingSet

MAX_COLUMNS = 3  # beyond, nearly every place between two points is far from all
TYPICAL = 1000  # points whose distances to their neighbours tell what is usual
FLAT = 0.05  # length scales: standard deviation of the data in a direction in which they hardly extend
COPIES = 10  # measurements at every place, from where on places are few
ALIKE = 0.25  # length scales within which other places are like them
APART = (0.5, 2.0)  # length scales from all others, where little is known of a point, and not nothing
OUTLYING = 0.05  # share of the data that are farther from their neighbours than is usual
FAR = 0.95  # times the usual distance, beyond which a place is in a gap


@dataclass(frozen=True, eq=False)
class Places:
    """Training points, and places (m, d) where predictions will be asked for, if they are known.

    `onto` brings places between the data to the surface that the data lie on, where they do.
    """

    data: TrainingSet
    named: Floats | None = None
    onto: Callable[[Floats], Floats] | None = None

    @cached_property
    def _rows(self) -> Integers:
        """Numbers of points that tell what is usual."""
        return some_rows(len(self.data.X), TYPICAL)

    @cached_property
    def _some(self) -> Floats:
        """These points."""
        return self.data.X[self._rows]

    @cached_property
    def _coincide(self) -> bool:
        """Whether all points are at a few places, where each was measured many times."""
        return len(self.data.X) >= COPIES and not self.data.distances(self._some, COPIES).any()

    @cached_property
    def _distances(self) -> Floats:
        """Distances of these points to the nearest other one; to one of the next where all coincide with others."""
        n = len(self.data.X)
        k = min(2, n)
        distances = self.data.distances(self._some, k)
        while not distances.any() and k < n:
            k = min(2 * k, n)
            distances = self.data.distances(self._some, k)
        return distances

    @cached_property
    def usual_distance(self) -> float:
        """Distance to the nearest point that nearly all training points have."""
        distances = self._distances
        usual = float(np.quantile(distances[distances > 0], 1.0 - OUTLYING)) if distances.any() else 0.0
        return min(usual, ALIKE) if self._coincide else usual

    @cached_property
    def outlying(self) -> tuple[Integers, float]:
        """Numbers (m,) of some training points that stand apart, and the share of all that do.

        None where most do: any others are like them.
        """
        rows = self._rows[(self._distances > APART[0]) & (self._distances < APART[1])]
        share = len(rows) / len(self._some)
        return (rows, share) if share < 0.5 else (rows[:0], 0.0)

    def _flat_directions(self) -> Floats:
        """Directions (f, d) of unit length in which the data hardly extend."""
        squares, directions = np.linalg.eigh(np.atleast_2d(np.cov(self._some.T, bias=True)))
        result: Floats = directions.T[squares <= FLAT**2]
        return result

    def are_gaps(self, places: Floats) -> Booleans:
        """Whether each place (m, d) is farther from the data than they are from one another."""
        result: Booleans = self.data.distances(places) > FAR * self.usual_distance
        return result

    def near_data(self, n: int, rng: np.random.RandomState) -> Floats:
        """At most `n` of the places named that are not in gaps."""
        if self.named is None:
            return self.data.X[:0]
        places = self.named[rng.choice(len(self.named), min(len(self.named), 50 * n), replace=False)]
        result: Floats = places[~self.are_gaps(places)][:n]
        return result

    def in_gaps(self, n: int, rng: np.random.RandomState) -> Floats:
        """At most `n` places in gaps: of those named, or between data; none where there are none."""
        if self.named is not None:
            places = self.named[rng.choice(len(self.named), min(len(self.named), 50 * n), replace=False)]
        elif self.data.X.shape[1] > MAX_COLUMNS:
            return self.data.X[:0]
        else:
            # On lines between two points: inside of what the data enclose, wherever they have a gap.
            first, second = (self.data.X[rng.randint(len(self.data.X), size=50 * n)] for _ in range(2))
            places = first + rng.uniform(size=(50 * n, 1)) * (second - first)
            if self.onto is not None:
                places = self.onto(places)
            elif self._coincide:  # around the places that there are
                places[::2] = first[::2] + rng.uniform(-2.0, 2.0, first[::2].shape)
            elif len(flat := self._flat_directions()):
                # All data are on a line, a sheet or a point: half of the places are off it, by up to two length scales.
                places[::2] += rng.uniform(-2.0, 2.0, (len(places[::2]), len(flat))) @ flat
        distances = self.data.distances(places)
        gaps = np.flatnonzero(distances > FAR * self.usual_distance)
        # Near the data and far from them alike: how well a model does there depends on little else.
        gaps = gaps[np.argsort(distances[gaps], kind="stable")]
        evenly = ((np.arange(n) + 0.5) * len(gaps) / n).astype(np.int64) if len(gaps) > n else slice(None)
        result: Floats = places[gaps[evenly]]
        return result
