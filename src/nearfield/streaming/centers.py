"""Centres that cover data which are never all in memory, and how much memory their models can take."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product

import numpy as np
from scipy.spatial import cKDTree

from ..common import memory
from ..common.arrays import in_units
from ..common.types import Floats, Integers
from ..local.blending import BAND, SLACK
from ..local.centers import Lattice, Placement, greedy_net, group_rows, middles_of_groups, sorted_groups
from .batches import Batch
from .passes import Reduction

CELL_BYTES = 200  # of an occupied cell and what it takes to work with it
MAX_LATTICE_COLUMNS = 3  # beyond, space is too wide for lattices


@dataclass(frozen=True, eq=False)
class Occupied:
    """Occupied cells of a lattice, in lexicographic order."""

    cells: Integers  # (C, d)
    counts: Integers  # (C,): points in each
    low: Floats  # (C, d): bounding box of these points
    high: Floats  # (C, d)

    def with_radius(self, lattice: Lattice, places: Floats, radius: float) -> tuple[Integers, Integers]:
        """Pairs of places and cells that may have points within `radius` of the place."""
        reach = radius + 0.5 * lattice.side * len(lattice.origin) ** 0.5
        within = cKDTree(lattice.middles(self.cells)).query_ball_point(places, reach * (1 + 1e-9))
        place = np.repeat(np.arange(len(places)), [len(f) for f in within])
        cell = np.concatenate([np.asarray(f, dtype=np.int64) for f in within]) if len(within) else np.empty(0, np.int64)
        near = _gap(places[place], self.low[cell], self.high[cell]) <= radius * (1 + 1e-9)
        return place[near], cell[near]

    def neighbours(self, lattice: Lattice, places: Floats, radius: float | None) -> tuple[Floats, Floats]:
        """Least and largest number of points that may be within `radius` of each place."""
        if radius is None:
            n_all = np.full(len(places), float(self.counts.sum()))
            return n_all, n_all
        place, cell = self.with_radius(lattice, places, radius)
        corner = np.maximum(np.abs(self.low[cell] - places[place]), np.abs(self.high[cell] - places[place]))
        whole = np.linalg.norm(corner, axis=1) <= radius * (1 - 1e-9)
        counts = self.counts[cell]
        return np.bincount(place, counts * whole, len(places)), np.bincount(place, counts, len(places))


def _gap(points: Floats, low: Floats, high: Floats) -> Floats:
    """Distance of each point from its box."""
    result: Floats = np.linalg.norm(np.maximum(np.maximum(low - points, points - high), 0.0), axis=1)
    return result


class Cells(Reduction):
    """Occupied cells of a lattice; points are divided by `unit` first."""

    def __init__(self, lattice: Lattice, unit: Floats) -> None:
        self.lattice, self.unit, self.n_features = lattice, unit, len(lattice.origin)

    def start(self) -> Occupied:
        """See `Reduction`."""
        d = len(self.lattice.origin)
        return Occupied(np.empty((0, d), np.int64), np.empty(0, np.int64), np.empty((0, d)), np.empty((0, d)))

    def update(self, state: Occupied, batch: Batch) -> Occupied:
        """See `Reduction`."""
        X = in_units(batch.X, self.unit)
        return self.merge(state, _grouped(self.lattice.cells(X), np.ones(len(X), dtype=np.int64), X, X))

    def merge(self, first: Occupied, second: Occupied) -> Occupied:
        """See `Reduction`."""
        merged = _grouped(
            np.concatenate([first.cells, second.cells]),
            np.concatenate([first.counts, second.counts]),
            np.concatenate([first.low, second.low]),
            np.concatenate([first.high, second.high]),
        )
        memory.require(
            CELL_BYTES * len(merged.cells),
            f"A lattice with {len(merged.cells)} occupied cells so far",
            "A longer length scale or a larger spacing makes fewer of them.",
        )
        return merged


def _grouped(cells: Integers, counts: Integers, low: Floats, high: Floats) -> Occupied:
    if len(cells) == 0:
        return Occupied(cells, counts, low, high)
    order, starts = sorted_groups(cells)
    return Occupied(
        cells[order[starts]],
        np.add.reduceat(counts[order], starts),
        np.minimum.reduceat(low.take(order, axis=0), starts),
        np.maximum.reduceat(high.take(order, axis=0), starts),
    )


class FurtherCenters(Reduction):
    """Further centres, such that every point has one within `spacing`."""

    def __init__(self, centers: Floats, spacing: float, unit: Floats) -> None:
        self.centers, self.spacing, self.unit, self.n_features = centers, spacing, unit, centers.shape[1]

    def start(self) -> Floats:
        """See `Reduction`."""
        return np.empty((0, self.centers.shape[1]))

    def update(self, state: Floats, batch: Batch) -> Floats:
        """See `Reduction`."""
        X = in_units(batch.X, self.unit)
        for centers in (self.centers, state):
            if len(X) and len(centers):
                X = X[cKDTree(centers).query(X)[0] > self.spacing]
        return self.merge(state, greedy_net(X, self.spacing, np.random.RandomState(0))) if len(X) else state

    def merge(self, first: Floats, second: Floats) -> Floats:
        """See `Reduction`."""
        return np.concatenate([first, second])


def grid(occupied: Occupied, lattice: Lattice, spacing: float) -> Placement:
    """Centres in the middles of what occupies the cells, as `centers.place` has them."""
    owner = np.tile(np.arange(len(occupied.cells)), 2)
    centers = middles_of_groups(np.concatenate([occupied.low, occupied.high]), owner, len(occupied.cells))
    return Placement(centers, spacing, lattice, occupied.cells)


def opened_cells(placement: Placement, occupied: Occupied, radius: float, blended: bool) -> Integers:
    """Cells whose own model may be asked for: with data in reach, and at places that no centre covers.

    Parameters
    ----------
    blended : bool
        Whether predictions are, and cells are asked for places a little beyond their borders too.
    """
    lattice, spacing = placement.lattice, placement.spacing
    assert lattice is not None
    assert spacing is not None
    d, side = len(lattice.origin), lattice.side
    reach = int(np.ceil(radius / side + 0.5))
    offsets = np.array(list(product(range(-reach, reach + 1), repeat=d)), dtype=np.int64)
    offsets = offsets[_gap(offsets * side, np.full(d, -side / 2), np.full(d, side / 2)) <= radius * (1 + 1e-9)]
    memory.require(
        8.0 * 3 * d * len(offsets) * len(occupied.cells),
        f"The cells around {len(occupied.cells)} occupied ones",
        "open_centers=False leaves them out.",
    )
    around, _ = group_rows((occupied.cells[:, None] + offsets).reshape(-1, d))
    around = around[occupied.neighbours(lattice, lattice.middles(around), radius)[1] > 0]
    if len(placement.centers) == 0:
        return around
    middles, tree = lattice.middles(around), cKDTree(placement.centers)
    half, band = side / 2, BAND * side if blended else 0.0
    pieces = [(-half, half), (-half - band, -half), (half, half + band)] if blended else [(-half, half)]
    is_asked = np.zeros(len(around), dtype=bool)
    for box in product(pieces, repeat=d):  # the cell, and what is beyond each border and corner
        low, high = middles + [piece[0] for piece in box], middles + [piece[1] for piece in box]
        nearest = placement.centers[tree.query(0.5 * (low + high))[1]]
        corner = np.maximum(np.abs(low - nearest), np.abs(high - nearest))  # the farthest one, as seen from the centre
        is_asked |= np.linalg.norm(corner, axis=1) > SLACK * spacing
    return around[is_asked]


def model_bytes(least: Floats, most: Floats, limit: float, n_kept: int, n_numbers: int) -> float:
    """Memory of local models and what they are made of, at most.

    Parameters
    ----------
    least, most : ndarrays of shape (C,)
        Points of each neighbourhood, at least and at most.
    limit : float
        Number of points up to which kernel space is taken.
    n_kept : int
        Numbers that a model in feature space keeps; its coefficients are fewer.
    n_numbers : int
        Numbers kept of a point.
    """
    points = np.where(least <= limit, np.minimum(most, limit), 0.0)
    in_kernel_space = points * (points + 2 * n_numbers)
    with_features = np.where(most > limit, n_kept + 2.0 * n_numbers * n_kept**0.5, 0.0)
    return 8.0 * float(np.sum(np.maximum(in_kernel_space, with_features)))


def with_centers(placement: Placement, centers: Floats) -> Placement:
    """The placement with further centres, which stand for no cells."""
    if len(centers) == 0:
        return placement
    return replace(placement, centers=np.concatenate([placement.centers, centers]), cells=None)


def places(placement: Placement, cells: Integers) -> Floats:
    """Centres, and middles of opened cells (O, d), in this order."""
    if len(cells) == 0 or placement.lattice is None:
        return placement.centers
    return np.concatenate([placement.centers, placement.lattice.middles(cells)])
