"""Predictions without seams: neighbouring centres share the points between them.

A partition of unity. Every centre near a point has a weight, the larger the nearer it is, and none from a certain
distance on, so that predictions are continuous where one centre takes over from another. Where the centres end, the
weight goes over to cells of a lattice, opened there, which share their borders in the same way.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np

from ..common.arrays import Array, like, namespace, sum_runs
from ..common.types import Floats
from .centers import Lattice

TINY = 1e-12  # length scales: a place on a centre
CLOSE = 1.25  # times the distance to the nearest centre, up to which others have a weight
SLACK = 1.03  # of the spacing: up to there centres alone answer, so that slivers between cells open no models
REACH = 1.12  # of the spacing: where opened cells have taken over from the centres
BAND = 0.15  # of a cell's side, on both sides of a border


def reach_of_centers(distance: Array) -> Array:
    """How far centres reach as seen from each point (m,), whose nearest centre is at `distance` (m,)."""
    return CLOSE * namespace(distance).clip(distance, TINY, None)


def weights_by_distance(distances: Floats) -> Floats:
    """Weights (m, C) of centres at some distances (m, C) from each point; they sum to 1 for each."""
    nearest = np.maximum(distances.min(axis=1, keepdims=True), TINY)
    weights: Floats = np.clip(1.0 - np.minimum(distances / (CLOSE * nearest), 1.0) ** 2, 0.0, None) ** 2
    weights /= weights.sum(axis=1, keepdims=True)
    return weights


def weights_of_centers(centers: Array, X: Array, counts: Array, owner: Array, reach: Array) -> Array:
    """Weights of the centres within reach of each point.

    Parameters
    ----------
    centers : array of shape (C, d)
    X : array of shape (m, d)
    counts : array of shape (m,)
        How many centres are within reach of each point, at least one.
    owner : array of shape (counts.sum(),)
        Which ones, point by point.
    reach : array of shape (m,)

    Returns
    -------
    weights : array of the shape of `owner`
        They sum to 1 for each point.
    """
    xp = namespace(X)
    squares = xp.sum((xp.repeat(X, counts, axis=0) - centers[owner]) ** 2, axis=1) / xp.repeat(reach, counts) ** 2
    weights = xp.clip(1.0 - squares, 0.0, None) ** 2
    return weights / xp.repeat(sum_runs(weights, counts), counts)


def weight_of_opened_cells(distance: Array, spacing: float) -> Array:
    """Weight of the cells opened for a point at some distance from all centres: 0 near the spacing, then soon 1."""
    return smooth((distance / spacing - SLACK) / (REACH - SLACK))


def weights_of_cells(lattice: Lattice, X: Array) -> Iterator[tuple[Array, Array, Array]]:
    """Cells that have a weight at each point: its own and, towards a border, those beyond, half and half on the border.

    Yields
    ------
    points : array of shape (m,)
        Which points of `X`.
    middles : array of shape (m, d)
        Middles of the cells.
    weights : array of shape (m,)
        Positive; over all that is yielded they sum to 1 for each point.
    """
    xp = namespace(X)
    indices = lattice.indices(X)
    place = (X - lattice.middles(indices)) / lattice.side  # from -1/2 to 1/2
    side = xp.where(place < 0, -xp.ones_like(X), xp.ones_like(X))
    own = smooth((0.5 - xp.abs(place) + BAND) / (2 * BAND))
    for corner in product((0.0, 1.0), repeat=X.shape[1]):
        beyond = like(corner, X)
        weights = xp.prod(xp.where(beyond > 0, 1 - own, own), axis=1)
        points = xp.nonzero(weights > 0)[0]
        if points.shape[0]:
            yield points, lattice.middles((indices + beyond * side)[points]), weights[points]


def smooth(t: Array) -> Array:
    """Rise from 0 at 0 to 1 at 1 without a kink."""
    t = namespace(t).clip(t, 0.0, 1.0)
    return t * t * (3 - 2 * t)
