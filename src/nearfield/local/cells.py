"""Points in the order of the cells of a lattice: neighbours are in a few runs of them, and no tree has to be built."""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

import numpy as np

from ..common.arrays import column_range, stable_order
from ..common.memory import batches
from ..common.types import Floats, Integers

MAX_COLUMNS = 3  # beyond, a ball meets too many cells
_PLACES_AT_ONCE = 1024


class Cells(NamedTuple):
    """Points sorted by the number of their cell; along the last column, cells count by one."""

    order: Integers  # (n,)
    X: Floats  # (n, d), in this order
    keys: Integers  # (n,): number of the cell of each
    low: Floats  # (d,): corner of the lattice
    side: float
    extent: Integers  # (d,): numbers of cells

    @classmethod
    def of(cls, X: Floats, side: float) -> Cells | None:
        """Sort points (n, d), at least one; None where the lattice has more cells than can be counted."""
        low, high = column_range(X)
        extent = np.floor((high - low) / side) + 1
        if not np.prod(extent) < 2.0**62:
            return None
        numbers = extent.astype(np.int64)
        keys = keys_of(X, low, side, numbers)
        order = stable_order(keys)
        return cls(order, X.take(order, axis=0), keys[order], low, side, numbers)

    def within(self, places: Floats, radius: float) -> list[Integers]:
        """Points within a radius of each place (m, d), by their number before they were sorted."""
        result: list[Integers] = []
        for batch in batches(len(places), _PLACES_AT_ONCE):
            owner, rows = self._within(places[batch], radius)
            counts = np.bincount(owner, minlength=batch.stop - batch.start)
            result += np.split(self.order[rows], np.cumsum(counts)[:-1])
        return result

    def distances(self, places: Floats, k: int, radius: float) -> Floats:
        """Distance from each place (m, d) to its `k`-th nearest point; infinite where it is not within the radius."""
        result = np.full(len(places), np.inf)
        for batch in batches(len(places), _PLACES_AT_ONCE):
            owner, rows = self._within(places[batch], radius)
            squares = self._squares(rows, places[batch], owner)
            order = np.lexsort((squares, owner))
            counts = np.bincount(owner, minlength=batch.stop - batch.start)
            enough = np.flatnonzero(counts >= k)
            result[batch.start + enough] = np.sqrt(squares[order[(np.cumsum(counts) - counts)[enough] + k - 1]])
        return result

    def _within(self, places: Floats, radius: float) -> tuple[Integers, Integers]:
        """Pairs of places and sorted points, place by place."""
        first, last = (
            np.clip(np.floor((places + step - self.low) / self.side), 0, self.extent - 1).astype(np.int64)
            for step in (-radius, radius)
        )
        # A line of cells along the last column is a run of points; places that have fewer lines repeat none.
        longest = (last - first).max(axis=0)[:-1] + 1
        offsets = np.array(list(product(*map(range, longest.tolist()))), dtype=np.int64)
        lines = first[:, None, :-1] + offsets
        exists = (lines <= last[:, None, :-1]).all(axis=2)
        base = np.zeros(lines.shape[:2], dtype=np.int64)
        for j in range(len(self.extent)):
            base *= self.extent[j]
            if j < len(self.extent) - 1:
                base += lines[:, :, j]
        place, line = np.nonzero(exists)
        start = np.searchsorted(self.keys, base[place, line] + first[place, -1])
        stop = np.searchsorted(self.keys, base[place, line] + last[place, -1], side="right")
        lengths = stop - start
        rows = np.repeat(start - (np.cumsum(lengths) - lengths), lengths) + np.arange(lengths.sum())
        owner = np.repeat(place, lengths)
        near = self._squares(rows, places, owner) <= radius**2
        return owner[near], rows[near]

    def _squares(self, rows: Integers, places: Floats, owner: Integers) -> Floats:
        """Squared distances of pairs of sorted points and places."""
        differences = self.X.take(rows, axis=0) - places.take(owner, axis=0)
        result: Floats = np.einsum("ij,ij->i", differences, differences)
        return result


def keys_of(X: Floats, low: Floats, side: float, extent: Integers) -> Integers:
    """Numbers (m,) of the cells of points (m, d); a point outside the lattice counts to the nearest of its cells."""
    keys = np.zeros(len(X), dtype=np.int64)
    for j in range(X.shape[1]):
        keys *= extent[j]
        keys += np.clip(np.floor((X[:, j] - low[j]) / side), 0, extent[j] - 1).astype(np.int64)
    return keys
