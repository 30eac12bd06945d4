"""Cells of points in random order, each with the nearest points of earlier cells.

What block-wise conditioning of a Gaussian process on earlier points (Vecchia's approximation, by blocks) starts from.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.spatial import cKDTree
from sklearn.neighbors import KDTree

from ..common.threads import n_threads
from ..common.types import Booleans, Floats, Integers


class OrderedCell(NamedTuple):
    """Rows of a cell, and of the earlier points it is conditioned on."""

    own: Integers
    earlier: Integers

    @property
    def points(self) -> Integers:
        """All rows, the earlier ones first."""
        return np.concatenate([self.earlier, self.own])


def ordered_cells(
    X: Floats,
    cell_points: int,
    n_earlier: int,
    rng: np.random.RandomState,
    n_jobs: int | None,
    n_before: int = 0,
    choose: Callable[[int], Integers] = np.arange,
) -> list[OrderedCell]:
    """Cells of at most `cell_points` of the points (n, d), in random order, with their nearest earlier points.

    The first `n_before` points are earlier than all others, and are in no cell. `choose` says, from their number, which
    of the cells in their order are wanted.
    """
    cells = _leaves(X[n_before:], cell_points)
    cells = [n_before + cells[i] for i in rng.permutation(len(cells))]
    wanted = choose(len(cells))
    nearest = _earlier(X, cells, wanted, n_earlier, n_before, n_jobs)
    return [OrderedCell(cells[i], near) for i, near in zip(wanted, nearest, strict=True)]


def _leaves(X: Floats, cell_points: int) -> list[Integers]:
    """Cells of about equal numbers of points."""
    order, starts, stops = _leaf_runs(X, cell_points)
    return [order[start:stop] for start, stop in zip(starts, stops, strict=True)]


def _leaf_runs(X: Floats, cell_points: int) -> tuple[Integers, Integers, Integers]:
    """The same as runs of an order of the points: it, and where cells start and stop in it."""
    _, order, nodes, _ = KDTree(X, leaf_size=max(cell_points // 2, 1)).get_arrays()  # which hold up to twice as many
    is_leaf = nodes["is_leaf"].astype(bool)
    return np.asarray(order), nodes["idx_start"][is_leaf], nodes["idx_end"][is_leaf]


def equal_cells(X: Floats, cell_points: int, rng: np.random.RandomState) -> tuple[Integers, Booleans]:
    """Cells (C, m) of at most `cell_points` of the points (n, d), in random order, and which lack a point, (C,).

    The last point of those that do is there twice.
    """
    order, starts, stops = _leaf_runs(X, cell_points)  # whose numbers of points differ by one at most
    sizes = stops - starts
    shuffled = rng.permutation(len(starts))
    within = np.minimum(np.arange(sizes.max()), sizes[:, None] - 1)
    return order[(starts[:, None] + within)[shuffled]], (sizes < sizes.max())[shuffled]


def nearest_earlier_cells(middles: Floats, count: int, n_jobs: int | None) -> Integers:
    """Of cells in their order, the `count` whose middles are nearest among earlier ones: (C, count).

    The first `count` cells have fewer before them; their rows say nothing.
    """
    numbers = np.arange(len(middles))
    nearest = _earlier(middles, list(numbers[:, None]), numbers[count:], count, 0, n_jobs)
    return np.array([*([numbers[:count]] * count), *nearest])


def _earlier(
    X: Floats, cells: list[Integers], wanted: Integers, count: int, n_before: int, n_jobs: int | None
) -> list[Integers]:
    """The `count` nearest points to the middle of each of the cells wanted, in ascending order, in earlier cells.

    Points are searched in ever longer beginnings of the order, twice as long each time, so that about half of what is
    found is earlier.
    """
    sizes = np.array([len(cell) for cell in cells])
    order = np.concatenate([np.arange(n_before), *cells])
    ends = n_before + np.cumsum(sizes)
    rank = np.full(len(X), -1)
    rank[order[n_before:]] = np.repeat(np.arange(len(cells)), sizes)
    starts, ordered = ends - sizes, X[order]
    middles = 0.5 * (np.minimum.reduceat(ordered, starts) + np.maximum.reduceat(ordered, starts))
    nearest: list[Integers] = []
    start = 0
    while start < len(cells):
        stop = min(max(2 * start, 8), len(cells))
        todo = wanted[(wanted >= start) & (wanted < stop)]
        nearest += _nearest_earlier(X, order[: ends[stop - 1]], rank, todo, middles[todo], count, n_jobs)
        start = stop
    return nearest


def _nearest_earlier(
    X: Floats, candidates: Integers, rank: Integers, cells: Integers, middles: Floats, count: int, n_jobs: int | None
) -> list[Integers]:
    """Of candidates, by row, the nearest whose cell has a smaller rank than each of the cells, by rank."""
    nearest: list[Integers] = [np.empty(0, dtype=np.int64)] * len(cells)
    if len(cells) == 0:
        return nearest
    tree, todo, k = cKDTree(X[candidates]), np.arange(len(cells)), 2 * count + 64
    while len(todo):
        k = min(k, len(candidates))
        near = candidates[tree.query(middles[todo], k, workers=n_threads(n_jobs))[1].reshape(len(todo), -1)]
        is_earlier = rank[near] < cells[todo][:, None]
        enough = is_earlier.sum(axis=1) >= (count if k < len(candidates) else 0)
        for i in np.flatnonzero(enough):
            nearest[todo[i]] = near[i][is_earlier[i]][:count]
        todo, k = todo[~enough], 3 * k
    return nearest
