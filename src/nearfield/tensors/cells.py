"""Which points are near which centres, found on the device by sorting points into cells."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from math import ceil, floor, prod

import numpy as np
import torch

from ..common.arrays import Array as Tensor
from ..common.arrays import as_doubles
from ..common.memory import batch_bytes, batches
from ..local.centers import Lattice, Placement

MOST_EMPTY_CELLS, LEAST_TABLE = 64, 1 << 20  # per centre, and in any case, that a table may have
POINTS_LOOKED_UP = 1 << 20  # together
THIN = 16.0  # times thinner cells are in the last column
MAX_GRID_COLUMNS = 3  # beyond, cells have too many neighbours, and all distances are computed


@dataclass(frozen=True, eq=False)
class Neighbourhoods:
    """Points of each centre, one after the other."""

    points: Tensor  # (total,): indices of points
    starts: Tensor  # (C,)
    counts: Tensor  # (C,)

    @classmethod
    def of(cls, points: Tensor, counts: Tensor) -> Neighbourhoods:
        """From the points of all centres in order, and how many each has."""
        return cls(points, torch.cumsum(counts, 0) - counts, counts)

    def rectangle(self, rows: Tensor, width: int, offset: int = 0) -> tuple[Tensor, Tensor]:
        """Indices (len(rows), width) of some centres' points from `offset` on, and which of them are real."""
        places = torch.arange(offset, offset + width, device=rows.device)
        real = places < self.counts[rows, None]
        if len(self.points) == 0:
            return torch.zeros_like(real, dtype=torch.int64), real
        return self.points[(self.starts[rows, None] + places).clamp(max=len(self.points) - 1)], real


class CellIndex:
    """Points sorted into cells, which are cubes but for the last column, in which they are thin.

    Cells that differ in their last coordinate alone are neighbours in the order, so a strip of cells is one run, and
    thin ones let it end close to where it should.
    """

    def __init__(self, X: Tensor, side: float) -> None:
        self.low = X.amin(dim=0)
        span = (X.amax(dim=0) - self.low).tolist()
        sides = [side] * (len(span) - 1) + [side / THIN]
        while prod(floor(s / side) + 1 for s, side in zip(span, sides, strict=True)) > 2**62:
            sides = [2 * side for side in sides]  # outliers; larger cells only cost time
        self.sides = sides
        extents = [floor(s / side) + 1 for s, side in zip(span, sides, strict=True)]
        self.upper = torch.tensor([e - 1 for e in extents], device=X.device)
        self.strides = _strides(extents, X)
        cells = torch.minimum(((X - self.low) / X.new_tensor(sides)).floor().long(), self.upper)
        self.keys, self.order = torch.sort((cells * self.strides).sum(dim=1))
        self.columns = gathered(X, self.order)

    def strips(self, centers: Tensor, radius: float) -> tuple[Tensor, Tensor]:
        """Runs of sorted points that hold all within `radius` of each centre: first and number, both (C, S)."""
        d, side, thin = len(self.sides), self.sides[0], self.sides[-1]
        place = centers - self.low
        # A little more than asked for, since places are rounded; what is too far is left out later.
        radius = radius + 8 * torch.finfo(centers.dtype).eps * max(float(place.abs().max()), radius)
        per_axis = floor(2 * radius / side) + 2
        offsets = list(product(range(per_axis), repeat=d - 1))
        offset = torch.tensor(offsets, device=centers.device, dtype=torch.int64).reshape(len(offsets), d - 1)
        across = ((place[:, None, :-1] - radius) / side).floor().long() + offset
        edge = across * side
        gaps = torch.maximum(edge - place[:, None, :-1], place[:, None, :-1] - (edge + side)).clamp(min=0)
        left = radius**2 - (gaps**2).sum(dim=-1)
        real = (left >= 0) & ((across >= 0) & (across <= self.upper[:-1])).all(dim=-1)
        reach = left.clamp(min=0).sqrt()
        along = place[:, None, -1]
        first, last = ((along - reach) / thin).floor().long(), ((along + reach) / thin).floor().long()
        real &= (last >= 0) & (first <= self.upper[-1])
        base = (across * self.strides[:-1]).sum(dim=-1)
        start = torch.searchsorted(self.keys, base + torch.clamp(first, min=0))
        stop = torch.searchsorted(self.keys, base + torch.minimum(last, self.upper[-1]), right=True)
        return start, torch.where(real, stop - start, 0)

    def within(self, centers: Tensor, radius: float, strips: tuple[Tensor, Tensor]) -> Neighbourhoods:
        """Points within `radius` of each centre, by their place in the sorted order."""
        start, lengths = (part.reshape(-1) for part in strips)
        per_center = strips[0].shape[1]
        total = int(lengths.sum())
        strip = torch.repeat_interleave(lengths, output_size=total)
        first = start - (torch.cumsum(lengths, 0) - lengths)
        points = torch.arange(total, device=centers.device) + first[strip]
        owner = strip // per_center
        distances = sum((x[points] - c[owner]) ** 2 for x, c in zip(self.columns, centers.mT.contiguous(), strict=True))
        near = distances <= radius**2
        ends = torch.cumsum(lengths.reshape(-1, per_center).sum(dim=1), 0)
        before = torch.nn.functional.pad(torch.cumsum(near, 0), (1, 0))[torch.nn.functional.pad(ends, (1, 0))]
        return Neighbourhoods.of(points[near], before[1:] - before[:-1])


def gathered(values: Tensor, order: Tensor) -> Tensor:
    """Columns (k, n) of an array (n, k) in some order: rows of two or three numbers are slow to fetch."""
    return torch.stack([column[order] for column in values.mT])


@dataclass(frozen=True, eq=False)
class TensorSet:
    """Training data on a device, in units of the length scale, sorted into cells."""

    columns: tuple[Tensor, Tensor]  # points (d, n), and targets (k + 1, n): less a constant, and a last row of ones
    noise: Tensor  # (n,)
    index: CellIndex | None  # of the same points in the same order; None where neighbourhoods need no cells

    @classmethod
    def of(cls, X: Tensor, y: Tensor, noise: Tensor, radius: float | None) -> TensorSet:
        """Sort the points; `y` has shape (n, k)."""
        ones = y.new_ones((1, len(y)))
        if radius is None or X.shape[1] > MAX_GRID_COLUMNS:
            return cls((X.mT.contiguous(), torch.cat([y.mT, ones])), noise, None)
        index = CellIndex(X, 0.5 * radius)
        return cls((index.columns, torch.cat([gathered(y, index.order), ones])), noise[index.order], index)

    def with_targets(self, y: Tensor) -> TensorSet:
        """The same with other targets (n, k + 1)."""
        return replace(self, columns=(self.columns[0], y.mT.contiguous()))

    @property
    def X(self) -> Tensor:  # noqa: N802
        """Points (n, d)."""
        return self.columns[0].mT

    @property
    def y(self) -> Tensor:
        """Targets (n, k + 1)."""
        return self.columns[1].mT


def brute_force(X: Tensor, centers: Tensor, radius: float) -> Neighbourhoods:
    """Points within `radius` of each centre, from all distances."""
    owner, points = torch.nonzero(_squared_distances(centers, X) <= radius**2).T
    return Neighbourhoods.of(points, torch.bincount(owner, minlength=len(centers)))


def nearest_points(X: Tensor, centers: Tensor, count: int, in_order: bool = False) -> Tensor:
    """The `count` nearest points of each centre, (C, count), from all distances; `in_order` the nearest first."""
    parts = [
        torch.topk(_squared_distances(part, X), min(count, len(X)), dim=1, largest=False, sorted=in_order).indices
        for part in centers.split(_rows(X))
    ]
    return torch.cat(parts) if parts else torch.empty((0, min(count, len(X))), dtype=torch.int64, device=X.device)


def nearest_center(centers: Tensor, X: Tensor) -> tuple[Tensor, Tensor]:
    """Distance to the nearest centre of each point and which it is, from all distances."""
    parts = [_squared_distances(part, centers).min(dim=1) for part in X.split(_rows(centers))]
    return torch.cat([p.values for p in parts]).sqrt(), torch.cat([p.indices for p in parts])


class CellLookup:
    """Centres that lie one per cell of a lattice: the nearest one, if it is within the reach of a cell's corner."""

    def __init__(self, lattice: Lattice, centers: Tensor) -> None:
        self.origin = torch.as_tensor(lattice.origin, dtype=centers.dtype, device=centers.device)
        self.side = lattice.side
        self.centers = centers
        cells = self.cells(centers)
        self.low, high = cells.amin(dim=0), cells.amax(dim=0)
        self.extent = high - self.low + 1
        sizes = self.extent.tolist()
        self.usable = prod(sizes) < 2**62
        self.strides = _strides(sizes, centers)
        keys = ((cells - self.low) * self.strides).sum(dim=1)
        self.keys, self.order = torch.sort(keys)
        self.usable = self.usable and bool((self.keys[1:] > self.keys[:-1]).all())

    @cached_property
    def table(self) -> Tensor | None:
        """The centre of each cell of the box around them, row by row, or -1; None where that takes too much memory."""
        n_cells = prod(self.extent.tolist())
        if not self.usable or n_cells > max(MOST_EMPTY_CELLS * len(self.centers), LEAST_TABLE):
            return None
        table = torch.full((n_cells,), -1, dtype=torch.int64, device=self.centers.device)
        table[self.keys] = self.order
        return table

    def cells(self, X: Tensor) -> Tensor:
        """Cell of each point."""
        return ((X - self.origin) / self.side).floor().long()

    def within(self, X: Tensor, reach: Tensor) -> tuple[Tensor, Tensor]:
        """How many centres (m,) are within `reach` (m,) of each point, and which ones, point by point."""
        parts = []
        for rows in batches(len(X), POINTS_LOOKED_UP):
            squares, centers = self._around(X[rows], ceil(float(reach[rows].max()) / self.side))
            inside = squares <= reach[rows, None] ** 2
            parts.append((inside.sum(dim=1), centers[inside]))
        counts, owners = zip(*parts, strict=True)
        return torch.cat(counts), torch.cat(owners)

    def nearest(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Distance and index of the nearest centre in the cells around each point's own; infinite if there is none."""
        distances, owners = [X.new_empty(0)], [torch.empty(0, dtype=torch.int64, device=X.device)]
        for rows in batches(len(X), POINTS_LOOKED_UP):
            squares, centers = self._around(X[rows], 1)
            least, place = squares.min(dim=1)
            distances.append(least.sqrt())
            owners.append(centers.gather(1, place[:, None]).squeeze(1))
        return torch.cat(distances), torch.cat(owners)

    def _around(self, X: Tensor, n: int) -> tuple[Tensor, Tensor]:
        """Squared distances (m, .) and indices of the centres up to `n` cells from each point's own.

        Infinite where there is none.
        """
        offsets = torch.tensor(list(product(range(-n, n + 1), repeat=X.shape[1])), device=X.device)
        cell = (self.cells(X) - self.low)[:, None] + offsets
        key = (cell * self.strides).sum(dim=-1)
        place = torch.searchsorted(self.keys, key).clamp(max=len(self.keys) - 1)
        real = ((cell >= 0) & (cell < self.extent)).all(dim=-1) & (self.keys[place] == key)
        center = self.order[place]
        squares = sum((x[:, None] - c[center]) ** 2 for x, c in zip(X.mT, self.centers.mT, strict=True))
        return torch.where(real, squares, torch.inf), center


def place(X: Tensor, spacing: float) -> Placement:
    """One centre in every occupied cell of a lattice that covers the points: the middle of what occupies it."""
    lattice = covering(X, spacing)
    cells = lattice.indices(X).long()
    low = cells.amin(dim=0)
    sizes = (cells.amax(dim=0) - low + 1).tolist()
    if prod(sizes) >= 2**62:
        _, owner = torch.unique(cells, dim=0, return_inverse=True)
    else:
        _, owner = torch.unique(((cells - low) * _strides(sizes, X)).sum(dim=1), return_inverse=True)
    n_cells = int(owner.max()) + 1
    index = owner[:, None].expand_as(X)
    box = X.new_empty((n_cells, X.shape[1]))
    lowest = box.scatter_reduce(0, index, X, "amin", include_self=False)
    highest = box.scatter_reduce(0, index, X, "amax", include_self=False)
    occupied = cells.new_empty((n_cells, X.shape[1])).scatter_reduce(0, index, cells, "amin", include_self=False)
    return Placement(0.5 * (lowest + highest), spacing, lattice, occupied)


def _strides(sizes: list[int], X: Tensor) -> Tensor:
    """Numbers that make one key of the coordinates of a cell in a box of so many cells along each axis."""
    return torch.tensor([prod(sizes[i + 1 :]) for i in range(len(sizes))], device=X.device)


def covering(X: Tensor, spacing: float) -> Lattice:
    """`Lattice.covering` of points on a device."""
    low, high = as_doubles(torch.stack([X.amin(dim=0), X.amax(dim=0)]))
    return Lattice.covering_box(low, high, lambda: np.median(as_doubles(X), axis=0), spacing)


def distances(A: Tensor, B: Tensor) -> Tensor:
    """Distances (n, m) between the rows of `A` and `B`."""
    return torch.cdist(A, B, compute_mode="donot_use_mm_for_euclid_dist")


def _squared_distances(A: Tensor, B: Tensor) -> Tensor:
    return distances(A, B) ** 2


def chunks_of_points(X: Tensor, centers: Tensor) -> list[slice]:
    """Runs of points whose distances to all centres fit into memory together."""
    return batches(len(X), _rows(centers))


def _rows(X: Tensor) -> int:
    """Rows of a matrix with a column per point that fit into a batch."""
    return max(int(batch_bytes(X.device) / (4 * X.element_size() * max(len(X), 1))), 1)


def chunks_by_total(sizes: np.ndarray, limit: float) -> list[slice]:
    """Runs of items whose sizes add up to at most `limit`, or single ones."""
    total = np.cumsum(sizes, dtype=np.float64)
    result, start = [], 0
    while start < len(sizes):
        before = total[start - 1] if start else 0.0
        stop = max(int(np.searchsorted(total, before + limit, side="right")), start + 1)
        result.append(slice(start, stop))
        start = stop
    return result


def rounded_up(size: float, step: int) -> int:
    """The next multiple of `step`."""
    return max(ceil(size / step), 1) * step
