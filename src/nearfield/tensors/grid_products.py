"""Products with the matrix of a Gaussian by sums on a grid, on a device; see `solvers.grid_products`.

There the patches of cells are added one by one. Here all cells of a box have a patch, also those without points:
patches are then added, and read, by a few operations on whole arrays.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from math import prod

import torch

from ..common import memory
from ..common.arrays import Array as Tensor
from ..common.types import Floats
from ..solvers.grid_products import CELL_NODES, Rule

TILE_POINTS = 64  # at most, that are multiplied together
MOST_CELLS = 8.0  # of the box, per cell that has points: beyond, most of the work would be for nothing
MAX_COLUMNS = 2  # patches of three columns take too much memory
SHARE = 0.5  # of free memory, that patches and factors may take


@dataclass(frozen=True, eq=False)
class TensorGrid:
    """`W` for one Gaussian of variance 1 at points (n, d) on a grid: `W W'` is its matrix.

    Attributes
    ----------
    rule : Rule
    n_cells : tuple of d integers
        Of the box, along each column.
    cells : tensor of shape (T,)
        Cells of the tiles, numbered through the box.
    rows : tensor of shape (T, m)
        Points of the tiles.
    places : tensor of shape (n,)
        Of the points, in the tiles one after the other.
    factors : list of d tensors of shape (T, m, patch)
        Zero, along the first column, for points that fill up.
    """

    rule: Rule
    n_cells: tuple[int, ...]
    cells: Tensor
    rows: Tensor
    places: Tensor
    factors: list[Tensor]

    @classmethod
    def of(cls, X: Tensor, length_scales: Floats, cutoff: float) -> TensorGrid | None:
        """Of points (n, d) in double precision; None where blocks, or the host, do better."""
        d = X.shape[1]
        if d > MAX_COLUMNS:
            return None
        rule = Rule.of(d, cutoff)
        # Patches are whole cells.
        whole = -(-2 * rule.n_beyond // CELL_NODES[d]) * CELL_NODES[d]
        rule = replace(rule, n_beyond=whole // 2)
        X = (X - X.min(dim=0).values) / torch.as_tensor(length_scales, dtype=X.dtype, device=X.device)
        cells = torch.floor(X / rule.side)
        extent = [int(count) + 1 for count in cells.max(dim=0).values.tolist()]
        if prod(float(count) for count in extent) > MOST_CELLS * len(X):
            return None
        keys = torch.zeros(len(X), dtype=torch.int64, device=X.device)
        for j, count in enumerate(extent):
            keys = keys * count + cells[:, j].long()
        keys, order = torch.sort(keys, stable=True)
        occupied, counts = torch.unique_consecutive(keys, return_counts=True)
        n_tiles = -(-counts // TILE_POINTS)  # per cell, of about equal numbers of points
        owner = torch.repeat_interleave(n_tiles)
        size = int((-(-counts // n_tiles)).max())
        numbers = 8.0 * rule.patch**d * (prod(extent) + 3 * len(owner)) + 16.0 * d * rule.patch * len(owner) * size
        too_sparse = prod(extent) > MOST_CELLS * len(occupied)
        if too_sparse or numbers > SHARE * memory.available_on(X.device):
            return None
        number = torch.arange(len(owner), device=X.device) - (torch.cumsum(n_tiles, 0) - n_tiles)[owner]
        starts = torch.cumsum(counts, 0) - counts
        first, last = (starts[owner] + k * counts[owner] // n_tiles[owner] for k in (number, number + 1))
        within_order = first[:, None] + torch.arange(size, device=X.device)
        real = within_order < last[:, None]
        rows = order[torch.minimum(within_order, last[:, None] - 1)]
        places = torch.empty_like(order)
        places[rows[real]] = torch.nonzero(real.flatten())[:, 0]
        within = X - rule.side * cells + rule.n_beyond * rule.spacing
        nodes = rule.spacing * torch.arange(rule.patch, device=X.device, dtype=X.dtype)
        factors = [
            torch.exp(-(within[rows, j][..., None] - nodes).square()).mul_(rule.weight) for j in range(X.shape[1])
        ]
        factors[0] *= real[..., None]
        return cls(rule, tuple(extent), occupied[owner], rows, places, factors)

    @property
    def shape(self) -> tuple[int, ...]:
        """Numbers of nodes."""
        return tuple(count * self.rule.cell_nodes + 2 * self.rule.n_beyond for count in self.n_cells)

    @cached_property
    def _across(self) -> Tensor:
        """Factors along all columns but the first, (T, m, nodes)."""
        first, *others = self.factors
        return others[0] if others else first.new_ones((*self.rows.shape, 1))

    def spread(self, v: Tensor) -> Tensor:
        """`W' v`, (g_1, ..., g_d), for `v` (n,)."""
        patch, d = self.rule.patch, len(self.n_cells)
        patches = (self.factors[0].mT @ (v[self.rows][..., None] * self._across)).flatten(1)
        of_cells = patches.new_zeros((prod(self.n_cells), patches.shape[1])).index_add_(0, self.cells, patches)
        values = of_cells.reshape(*self.n_cells, *[patch] * d)
        for axis in range(d):  # column by column; axes are cells and patches left, and nodes made
            values = _added(values, d - axis, self.rule.cell_nodes)
        return values

    def interpolate(self, grid: Tensor) -> Tensor:
        """`W` times values of nodes, (n,)."""
        windows = grid
        for axis in range(grid.ndim):
            windows = windows.unfold(axis, self.rule.patch, self.rule.cell_nodes)
        patches = windows[torch.unravel_index(self.cells, self.n_cells)].reshape(len(self.cells), self.rule.patch, -1)
        values = ((self.factors[0] @ patches) * self._across).sum(dim=-1)
        return values.flatten()[self.places]


def _added(values: Tensor, d: int, cell_nodes: int) -> Tensor:
    """Patches of cells along the first axis, added up: that axis and axis `d` become one of nodes, the last."""
    values = values.movedim((0, d), (-2, -1))
    *others, n_cells, patch = values.shape
    n_steps = patch // cell_nodes
    values = values.reshape(*others, n_cells, n_steps, cell_nodes)
    nodes = values.new_zeros((*others, n_cells + n_steps - 1, cell_nodes))
    for step in range(n_steps):
        nodes[..., step : step + n_cells, :] += values[..., :, step, :]
    return nodes.flatten(-2)
