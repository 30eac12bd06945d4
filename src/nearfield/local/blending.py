"""Predictions without seams: neighbouring centres share the points between them.

A partition of unity. Every centre near a point has a say, the more the nearer it is, and none from a certain distance
on, so that predictions are continuous where one centre takes over from another. Where the centres end, the say
goes over to cells of a lattice, opened there, which share their borders in the same way.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np
from scipy.spatial import cKDTree

from ..common.types import Floats, Integers
from .centers import Lattice

REACH = 1.15  # of the spacing: how far from a centre it has a say
BAND = 0.25  # of a cell's side, on both sides of a border


def share_centers(
    tree: cKDTree, X: Floats, distance: Floats, spacing: float, workers: int
) -> tuple[Integers, Integers, Floats]:
    """Centres that have a say at each point.

    Parameters
    ----------
    tree : cKDTree of the centres
    X : ndarray of shape (m, d)
    distance : ndarray of shape (m,)
        Of each point from the nearest centre. Beyond the spacing, centres reach as much farther as they must.
    spacing : float

    Returns
    -------
    counts : ndarray of shape (m,)
        How many centres have a say, at least one.
    centers : ndarray of shape (counts.sum(),)
        Which ones, point by point.
    weights : ndarray of that shape
        They sum to 1 for each point.
    """
    reach = REACH * np.maximum(distance, spacing)
    found = tree.query_ball_point(X, reach, workers=workers)
    counts = np.fromiter((len(indices) for indices in found), np.int64, len(X))
    centers = np.concatenate([np.asarray(indices, dtype=np.int64) for indices in found])
    point = np.repeat(np.arange(len(X)), counts)
    squares = np.sum((X[point] - tree.data[centers]) ** 2, axis=1) / reach[point] ** 2
    # A high power: near the rim of its reach a model is at its worst, and its say should be small well before.
    weights = np.maximum(1.0 - squares, 0.0) ** 3
    return counts, centers, weights / np.bincount(point, weights, len(X))[point]


def share_opened(distance: Floats, spacing: float) -> Floats:
    """Share of the cells opened for a point at some distance from all centres: 0 up to the spacing, then soon 1."""
    return _smooth((distance / spacing - 1.0) / (REACH - 1.0))


def share_cells(lattice: Lattice, X: Floats) -> Iterator[tuple[Integers, Integers, Floats]]:
    """Cells that have a say at each point: its own and, towards a border, those beyond, half and half on the border.

    Yields
    ------
    points : ndarray of shape (m,)
        Which points of `X`.
    cells : ndarray of shape (m, d)
    weights : ndarray of shape (m,)
        Positive; over all that is yielded they sum to 1 for each point.
    """
    cells = lattice.cells(X)
    place = (X - lattice.origin) / lattice.side - cells
    side = np.where(place < 0.5, -1, 1)
    depth = np.minimum(place, 1 - place)  # distance from the nearer border
    own = _smooth((depth + BAND) / (2 * BAND))
    for corner in product((0, 1), repeat=X.shape[1]):
        beyond = np.array(corner, dtype=bool)
        weights = np.prod(np.where(beyond, 1 - own, own), axis=1)
        points = np.flatnonzero(weights > 0)
        if len(points):
            yield points, cells[points] + np.where(beyond, side[points], 0), weights[points]


def _smooth(t: Floats) -> Floats:
    """Rise from 0 at 0 to 1 at 1 without a kink."""
    t = np.clip(t, 0.0, 1.0)
    result: Floats = t * t * (3 - 2 * t)
    return result
