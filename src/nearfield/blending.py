"""Predictions without seams: neighbouring cells share the points near their borders.

A partition of unity on a lattice. Well inside a cell its own model has all the weight; towards a border the weight
moves over to the cell beyond, half and half on the border itself, so that predictions are continuous everywhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .centers import Lattice

Floats = NDArray[Any]
Integers = NDArray[np.int64]

BAND = 0.25  # of a cell's side, on both sides of a border


def shares(lattice: Lattice, X: Floats) -> Iterator[tuple[Integers, Integers, Floats]]:
    """Cells that have a say at each point.

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
    t = np.clip((depth + BAND) / (2 * BAND), 0.0, 1.0)
    own = t * t * (3 - 2 * t)
    for corner in product((0, 1), repeat=X.shape[1]):
        beyond = np.array(corner, dtype=bool)
        weights = np.prod(np.where(beyond, 1 - own, own), axis=1)
        points = np.flatnonzero(weights > 0)
        if len(points):
            yield points, cells[points] + np.where(beyond, side[points], 0), weights[points]
