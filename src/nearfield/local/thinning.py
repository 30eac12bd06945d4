"""Neighbourhoods of many points, as fewer rows that say nearly the same: averages over small cells."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from ..common.arrays import column_range
from ..common.types import Floats, Integers
from .centers import group_rows

MAX_ROWS = 1200  # of a neighbourhood around a probe,
MAX_AVERAGES = 500  # and where they can be averaged, which loses less
ENOUGH_AVERAGES = 200  # below, points are not averaged
SIDE = 0.5  # length scales, of cells over which averages say what their points do
MAX_CELLS = 1e5  # of a neighbourhood, up to which they are counted and not sorted
FINER = 20  # times that the cells of averages may be made smaller
MAX_AVERAGED_COLUMNS = 3  # up to which neighbours are averaged where they are many


@dataclass(frozen=True, eq=False)
class NeighbourhoodSample:
    """What is kept of the points of a neighbourhood: all of them, averages, or a random subset.

    Attributes
    ----------
    X, y, noise : ndarrays of shape (n, d), (n, k), (n,)
        Targets are without the column of ones.
    counts : ndarray of shape (n,)
        Each row is the average of so many points, with the noise of an average.
    n_points : float
        How many points the neighbourhood really holds: the sum of `counts`, or more where rows are a random subset.
    """

    X: Floats
    y: Floats
    noise: Floats
    counts: Floats
    n_points: float

    @classmethod
    def of(cls, X: Floats, y: Floats, noise: Floats) -> Self:
        """All points of a neighbourhood."""
        return cls(X, y, noise, np.ones(len(X)), float(len(X)))

    def points_at(self, rows: Any) -> float:
        """How many points there really are where some of the rows are, by indices or a mask."""
        return float(self.counts[rows].sum()) * self.n_points / max(float(self.counts.sum()), 1.0)

    def subset(self, rows: Integers) -> NeighbourhoodSample:
        """Some of the rows, to stand for all."""
        return NeighbourhoodSample(self.X[rows], self.y[rows], self.noise[rows], self.counts[rows], self.n_points)

    def around(self, center: Floats, rows: Integers) -> NeighbourhoodSample:
        """Some of the rows, relative to a centre, to stand for themselves."""
        return replace(self.subset(rows), X=self.X[rows] - center, n_points=self.points_at(rows))

    def __add__(self, other: NeighbourhoodSample) -> NeighbourhoodSample:
        return NeighbourhoodSample(
            np.concatenate([self.X, other.X]),
            np.concatenate([self.y, other.y]),
            np.concatenate([self.noise, other.noise]),
            np.concatenate([self.counts, other.counts]),
            self.n_points + other.n_points,
        )


def averaged(sample: NeighbourhoodSample, owner: Integers) -> NeighbourhoodSample:
    """One average for each group of rows, weighted by the inverse noise; `owner` (n,) are the groups, from 0 on."""
    weights = 1 / sample.noise
    total = np.bincount(owner, weights)

    def average(values: Floats) -> Floats:
        return np.stack([np.bincount(owner, weights * v) / total for v in values.T], axis=1)

    return NeighbourhoodSample(
        average(sample.X), average(sample.y), 1 / total, np.bincount(owner, sample.counts), sample.n_points
    )


def thinned(sample: NeighbourhoodSample, rng: np.random.RandomState, length_scale: float = 1.0) -> NeighbourhoodSample:
    """Not too many rows: averages over cells that are small beside the length scale.

    A random subset where there are too many columns, since cells are of no use where space is wide.
    """
    n, d = sample.X.shape
    if d > MAX_AVERAGED_COLUMNS:
        return sample if n <= MAX_ROWS else sample.subset(rng.choice(n, MAX_ROWS, replace=False))
    most = min(MAX_AVERAGES, MAX_ROWS)
    enough = min(ENOUGH_AVERAGES, most // 2)
    if n <= enough:
        return sample
    low, high = column_range(sample.X)
    side = min(SIDE * length_scale, max(float(np.max(high - low)), 1e-300) / enough ** (1 / d))
    owner = _cells(sample.X, low, high, side)
    for _ in range(FINER):  # points on a sheet or a line leave most cells empty
        if owner.max() + 1 >= enough:
            break
        side /= 1.3
        owner = _cells(sample.X, low, high, side)
    while owner.max() + 1 > most:
        side *= 1.15
        owner = _cells(sample.X, low, high, side)
    return averaged(sample, owner)


def _cells(X: Floats, low: Floats, high: Floats, side: float) -> Integers:
    """Which cubic cell each of some points (n, d) is in, by numbers from 0 on without gaps; all are in a box."""
    cells = ((X - low) / side).astype(np.int64)
    extent = ((high - low) / side).astype(np.int64) + 1
    if float(np.prod(extent, dtype=np.float64)) > MAX_CELLS:
        return group_rows(cells)[1]
    keys = np.ravel_multi_index(tuple(cells.T), tuple(extent))
    is_taken = np.zeros(np.prod(extent), dtype=bool)
    is_taken[keys] = True
    result: Integers = (np.cumsum(is_taken) - 1)[keys]
    return result
