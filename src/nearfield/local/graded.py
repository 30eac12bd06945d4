"""Cells that cover a box and are as small as the data around them are dense, occupied or not.

The box is halved, and halved again, until every cell is small beside the distances from its middle to so many
neighbours: these then serve all places in the cell. Distances change slowly from place to place, and so does the size
of the cells. Which cell a place belongs to depends on nothing but the training data.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.spatial import cKDTree

from ..common.arrays import as_doubles, column_range, like
from ..common.threads import n_threads
from ..common.types import Floats, Integers
from ..kernels import Kernel
from .blending import weights_by_distance
from .centers import Placement

SMALLEST = 0.05  # half a diagonal, in length scales, within which all places are alike
IN_GAPS = 0.25  # of the distance to the data, that half a diagonal may be in gaps
MARGIN = 3.0  # around the data, in length scales of the longest


def covering_box(X: Floats, length_scales: Floats) -> tuple[Floats, Floats]:
    """Corners of a box around the points (n, d) and all places that they say much about."""
    low, high = column_range(X)
    margin = np.minimum(MARGIN * length_scales.max(axis=0), np.maximum(high - low, SMALLEST))
    return low - margin, high + margin


def cells(
    low: Floats, high: Floats, tree: cKDTree, count: int, near: float, n_jobs: int | None
) -> tuple[Floats, Floats]:
    """Cells of the box.

    Parameters
    ----------
    low, high : ndarrays of shape (d,)
    tree : cKDTree
        Of the training points.
    count : int
        Number of neighbours.
    near : float
        Half the diagonal of a cell is at most so much of how much farther the last neighbour of its middle is than
        the first, and a part of the distance to the first.

    Returns
    -------
    middles : ndarray of shape (C, d)
    halves : ndarray of shape (C,)
        Half the diagonal of each.
    """
    corners, width = low[None], high - low
    middles, halves = [], []
    while len(corners):
        middle, half = corners + 0.5 * width, 0.5 * float(np.sqrt(np.sum(width**2)))
        reach = sizes_around(middle, tree, count, near, n_jobs)
        done = (reach >= half) | (half <= SMALLEST)
        middles.append(middle[done])
        halves.append(np.full(int(done.sum()), half))
        axis = int(np.argmax(width))
        width = width.copy()
        width[axis] *= 0.5
        split = corners[~done]
        upper = split.copy()
        upper[:, axis] += width[axis]
        corners = np.concatenate([split, upper])
    return np.concatenate(middles), np.concatenate(halves)


def cells_of(
    low: Floats, high: Floats, tree: cKDTree, count: int, near: float, places: Floats
) -> tuple[Floats, Floats]:
    """The cells of `cells` that places (m, d) in the box are in: middles (m, d) and half diagonals (m,)."""
    corners, width = np.repeat(low[None], len(places), axis=0), high - low
    middles, halves = np.empty_like(places), np.empty(len(places))
    todo = np.arange(len(places))
    # The last neighbour of a middle is at most half a diagonal farther than that of a place in the cell.
    last = tree.query(places, [min(count, tree.n)])[0][:, 0] if len(places) else halves
    share = max(near, IN_GAPS)
    largest = np.maximum(share / (1 - share) * last, SMALLEST) * (1 + 1e-9)
    while len(todo):
        middle, half = corners[todo] + 0.5 * width, 0.5 * float(np.sqrt(np.sum(width**2)))
        done = np.full(len(todo), half <= SMALLEST)
        likely = np.flatnonzero(~done & (half <= largest[todo]))
        done[likely] = sizes_around(middle[likely], tree, count, near) >= half
        middles[todo[done]], halves[todo[done]] = middle[done], half
        todo = todo[~done]
        axis = int(np.argmax(width))
        width = width.copy()
        width[axis] *= 0.5
        corners[todo, axis] += width[axis] * (places[todo, axis] >= corners[todo, axis] + width[axis])
    return middles, halves


def sizes_around(middles: Floats, tree: cKDTree, count: int, near: float, n_jobs: int | None = 1) -> Floats:
    """Largest half diagonals (C,) that cells around middles (C, d) may have; see `cells`."""
    if len(middles) == 0:
        return np.empty(0)
    first, last = tree.query(middles, [1, min(count, tree.n)], workers=n_threads(n_jobs))[0].T
    sizes: Floats = np.maximum(near * (last - first) + IN_GAPS * first, SMALLEST)
    return sizes


def covering(placement: Placement, X: Floats, kernel: Kernel, count: int | None, n_jobs: int | None) -> Placement:
    """The placement with the cells of other points (n, d), where it is one of graded cells; else the same."""
    if placement.sizes is None or placement.near is None or count is None or len(X) == 0:
        return placement
    chosen = as_doubles(placement.centers[: placement.n_chosen])
    made = place(chosen, X, kernel, count, placement.near, n_jobs)
    return replace(made, centers=like(made.centers, placement.centers))


def place(chosen: Floats, X: Floats, kernel: Kernel, count: int, near: float, n_jobs: int | None) -> Placement:
    """Centres that were chosen (c, d), and the middles of cells of the box around points (n, d)."""
    tree = cKDTree(X)
    middles, halves = cells(*covering_box(X, kernel.length_scales), tree, count, near, n_jobs)
    sizes = np.concatenate([sizes_around(chosen, tree, count, near, n_jobs), halves])
    centers = np.concatenate([chosen, middles])
    return Placement(centers, None, None, sizes=sizes, near=near, n_chosen=len(chosen))


def weights(placement: Placement, X: Floats, blend: bool, n_jobs: int | None) -> tuple[Integers, Integers, Floats]:
    """Centres that answer for points (m, d): how many (m,), which ones point by point, and their weights.

    Distances count in half diagonals of the cells. The nearest centre answers; with `blend` those that are hardly
    farther share in, so that answers are continuous.
    """
    sizes = placement.sizes
    assert sizes is not None
    if len(X) == 0:
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64), np.empty(0)
    k = min(4 ** (X.shape[1] - 1) * 4 if blend else 2 ** X.shape[1] + 1, len(sizes))
    distances, owner = placement.tree.query(X, k, workers=n_threads(n_jobs))
    distances, owner = distances.reshape(len(X), -1), owner.reshape(len(X), -1)
    scaled = distances / sizes[owner]
    if not blend:
        best = np.argmin(scaled, axis=1)[:, None]
        return np.ones(len(X), dtype=np.int64), np.take_along_axis(owner, best, axis=1)[:, 0], np.ones(len(X))
    shares = weights_by_distance(scaled)
    return (shares > 0).sum(axis=1), owner[shares > 0], shares[shares > 0]
