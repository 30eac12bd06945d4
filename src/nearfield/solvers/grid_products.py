r"""Products of a Gaussian kernel with matrices by sums on a grid, in time that is linear in the number of points.

A Gaussian is an integral of products of two narrower ones, and the trapezoidal rule gives that integral almost exactly:

.. math:: e^{-(x - y)^2 / 2} = \sqrt{2 / \pi} \int e^{-(x - g)^2} e^{-(y - g)^2} dg
    \approx h \sqrt{2 / \pi} \sum_{g \in h \mathbb{Z}} e^{-(x - g)^2} e^{-(y - g)^2},

with a relative error of at most :math:`2 e^{-\pi^2 / (2 h^2)}` and a bit: 1e-10 with nodes 0.45 length scales apart. So
`K = W W'` with one column of `W` per node, and a row of `W` is a product of a few numbers per column of the data, zero
beyond a reach of five length scales. The matrix multiplied with is positive semidefinite.

Points of a cell of the grid see the same patch of nodes. What they add to it, and what they read from it, are small
matrix products of their one-dimensional factors.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from scipy.special import erfc

from ..common import compiling, memory
from ..common.arrays import column_range
from ..common.threads import n_threads, thread_map, worker_threads
from ..common.types import Booleans, Floats, Integers
from ..kernels import Kernel

MAX_COLUMNS = 3  # beyond, a patch has too many nodes
CELL_NODES = {1: 32, 2: 4, 3: 2}  # along a side of a cell: more make larger patches, fewer make more of them
TILE_POINTS = 64  # at most, that are multiplied together
MOST_NUMBERS = 1 << 18  # of the largest array of a batch of tiles, for one right-hand side
SIDES_AT_ONCE = 8  # right-hand sides
BYTES_PER_NODE = 16.0  # of one right-hand side: the values of a node, and what is added to them
FINEST = 1e-13  # least error of an entry that can be asked for: rounding is not far below
PER_TILE = 5000.0  # multiplications that take as long as what a tile takes besides them
MIN_COMPILED = 40_000  # points: with fewer, NumPy is done before loops are loaded
MIN_THREADED = 20_000  # points: with fewer, it is done before threads have started
FEW_CELLS = 1 << 20  # that are marked one by one


@dataclass(frozen=True)
class Rule:
    """Nodes of the trapezoidal rule in length scales, so that an entry of the matrix is wrong by at most `cutoff`.

    Attributes
    ----------
    spacing : float
        Between nodes.
    n_beyond : int
        Nodes that belong to a point on either side of it, along a column.
    cell_nodes : int
        Nodes along a side of a cell.
    """

    spacing: float
    n_beyond: int
    cell_nodes: int

    @classmethod
    def of(cls, d: int, cutoff: float) -> Rule:
        """For `d` columns: half of the error is for the spacing, and half for the reach."""
        spacing = float(np.pi / np.sqrt(2 * np.log(4.2 * d / cutoff)))
        n_beyond = 1
        while d * cls._lost_beyond(n_beyond * spacing, spacing) > 0.5 * cutoff:
            n_beyond += 1
        return cls(spacing, n_beyond, CELL_NODES[d])

    @staticmethod
    def _lost_beyond(reach: float, spacing: float) -> float:
        """Bound on the sum over nodes that are beyond reach of either of two points, in one column."""
        tail = spacing * np.exp(-(reach**2)) + 0.5 * np.sqrt(np.pi) * erfc(reach)
        return float(4 * np.sqrt(2 / np.pi) * tail)

    @property
    def side(self) -> float:
        """Of a cell."""
        return self.cell_nodes * self.spacing

    @property
    def patch(self) -> int:
        """Nodes that belong to a cell, along a column."""
        return self.cell_nodes + 2 * self.n_beyond

    @property
    def weight(self) -> float:
        """Factor of a node, one column of one point: its square is the weight of the rule."""
        return float((self.spacing * np.sqrt(2 / np.pi)) ** 0.5)


@dataclass(frozen=True, eq=False)
class Tiles:
    """Points in the order of the cells of a grid, and runs of them within a cell.

    Attributes
    ----------
    rule : Rule
    order : ndarray of shape (n,)
        Rows that the points had.
    within : ndarray of shape (n, d)
        Points as seen from the first nodes of their patches.
    bounds : ndarray of shape (T + 1,)
        Tile `t` has the points from `bounds[t]` to `bounds[t + 1]`.
    first : ndarray of shape (T, d)
        First nodes of the patches of tiles.
    """

    rule: Rule
    order: Integers
    within: Floats
    bounds: Integers
    first: Integers

    @classmethod
    def of(cls, X: Floats, rule: Rule, n_below: int = 0) -> Tiles:
        """Of points (n, d) in length scales, at least one, with `n_below` cells between the first nodes and zero."""
        cells = np.floor(X / rule.side)
        order = np.lexsort(cells.T[::-1])
        cells, X = cells[order], X[order]
        starts = np.append(0, 1 + np.flatnonzero(np.any(cells[1:] != cells[:-1], axis=1)))
        counts = np.diff(np.append(starts, len(X)))
        n_tiles = -(-counts // TILE_POINTS)  # per cell, of about equal numbers of points
        number = np.arange(n_tiles.sum()) - np.repeat(np.cumsum(n_tiles) - n_tiles, n_tiles)
        first = np.repeat(starts, n_tiles) + number * np.repeat(counts, n_tiles) // np.repeat(n_tiles, n_tiles)
        within = X - rule.side * cells + rule.n_beyond * rule.spacing
        nodes = rule.cell_nodes * (cells[first].astype(np.int64) + n_below)
        return cls(rule, order, within, np.append(first, len(X)), nodes)

    @property
    def at_once(self) -> int:
        """Tiles that are multiplied side by side."""
        n_numbers = TILE_POINTS * self.rule.patch ** max(self.first.shape[1] - 1, 1)
        return max(MOST_NUMBERS // int(n_numbers), 1)

    @property
    def shape(self) -> tuple[int, ...]:
        """Numbers of nodes from the first to those of the last patches."""
        return tuple((self.first.max(axis=0) + self.rule.patch).tolist())

    def overlap(self) -> int:
        """Largest number of points whose patches meet the patch of a cell."""
        sizes, reach = np.diff(self.bounds), -(-self.rule.patch // self.rule.cell_nodes)
        cells = self.first // self.rule.cell_nodes
        counts = np.zeros(cells.max(axis=0) + 1 + 2 * reach)
        np.add.at(counts, tuple((cells + reach).T), sizes)
        for axis in range(counts.ndim):  # sums over near cells are differences of sums over all cells before
            sums = np.cumsum(counts, axis=axis)
            sums = np.concatenate([np.zeros_like(sums.take([0], axis=axis)), sums], axis=axis)
            ends = np.arange(2 * reach + 1, sums.shape[axis])
            counts = sums.take(ends, axis=axis) - sums.take(ends - 2 * reach - 1, axis=axis)
        return int(counts.max())

    def run(self, run: slice) -> Run:
        """A run of tiles, for compiled loops."""
        rule, bounds = self.rule, self.bounds[run.start : run.stop + 1]
        points = slice(bounds[0], bounds[-1])
        factors = self.within[points, :, None] - rule.spacing * np.arange(rule.patch)
        np.multiply(factors, -factors, out=factors)
        np.exp(factors, out=factors)
        factors *= rule.weight
        return Run(self.order[points], bounds - bounds[0], _in_three(self.first[run], 0), factors)

    def batch(self, run: slice) -> Batch:
        """Of a run of tiles."""
        rule, starts, stops = self.rule, self.bounds[:-1][run], self.bounds[1:][run]
        places = starts[:, None] + np.arange(np.max(stops - starts))
        real = places < stops[:, None]
        places = np.minimum(places, stops[:, None] - 1)
        nodes, factors = rule.spacing * np.arange(rule.patch), []
        for column in self.within.T:
            rows = column[places][..., None] - nodes
            np.multiply(rows, -rows, out=rows)
            np.exp(rows, out=rows)
            rows *= rule.weight
            factors.append(rows)
        factors[0] *= real[..., None]
        return Batch(self.first[run], self.order[places], real, factors[0], factors[1:])


class Batch(NamedTuple):
    """Some tiles side by side, as long as the longest, with nothing in the place of points that are missing."""

    first: Integers  # (B, d): first nodes of the patches
    rows: Integers  # (B, m) of the points
    real: Booleans  # (B, m): points that are not missing
    along: Floats  # (B, m, patch): factors along the first column
    others: list[Floats]  # the same along each of the other columns

    def across(self) -> Floats:
        """Products of the factors along all columns but the first, (B, m, nodes)."""
        result = self.others[0] if self.others else np.ones((*self.rows.shape, 1))
        for factors in self.others[1:]:
            result = (result[..., None] * factors[..., None, :]).reshape(*self.rows.shape, -1)
        return result

    def patches(self, V: Floats) -> Floats:
        """What the points add to their patches, (r, B, patch, nodes), for `V` (r, n)."""
        values = V[:, self.rows, None] * self.across()
        result: Floats = self.along.mT @ values
        return result

    def read(self, patches: Floats) -> Floats:
        """What the points read from their patches, (r, B, m)."""
        result: Floats = np.einsum("rbmq,bmq->rbm", self.along @ patches, self.across())
        return result


class Run(NamedTuple):
    """Some tiles one after the other, for compiled loops, which have nodes in three columns."""

    rows: Integers  # (m,) of the points
    bounds: Integers  # (T + 1,): where the points of each tile start and end
    starts: Integers  # (T, 3): first nodes of the patches
    factors: Floats  # (m, d, patch) of the points


class GaussianOnGrid:
    """`W` for one Gaussian of variance 1 at points (n, d), in length scales, on a grid; see the module.

    Values of `r` right-hand sides at the nodes are an array of shape (r, g_1, ..., g_d). Of many points, compiled loops
    do what batches do, where Numba is installed, with the same results up to rounding. See `GridProduct` for `keep`.
    """

    def __init__(self, tiles: Tiles, n_jobs: int | None, keep: bool | None) -> None:
        self.tiles, self.n_jobs = tiles, n_jobs if len(tiles.order) >= MIN_THREADED else 1
        self.runs = memory.batches(len(tiles.first), tiles.at_once)
        many = len(tiles.order) >= MIN_COMPILED
        self.loops: Any = compiling.loops("nearfield.solvers.compiled_grid") if many else None
        make: Callable[[slice], Any] = tiles.batch if self.loops is None else tiles.run
        keep = 8.0 * tiles.within.size * tiles.rule.patch <= memory.room() if keep is None else keep
        self.batches: list[Any] | None = thread_map(make, self.runs, self.n_jobs) if keep else None

    def spread(self, V: Floats) -> Floats:
        """`W' V` for `V` (n, r)."""
        patch, grid = self.tiles.rule.patch, np.zeros((V.shape[1], *self.tiles.shape))
        V = np.ascontiguousarray(V.T) if self.loops is None else np.array(V, order="C")  # loops take nothing read-only

        def sums(number: int) -> tuple[tuple[slice, ...], Floats]:
            """Nodes that a run of tiles reaches, and what it adds to them."""
            if self.loops is not None:
                return quick_sums(number)
            batch = self._batch(number)
            low, high = batch.first.min(axis=0), batch.first.max(axis=0) + patch
            box = np.zeros((len(V), *(high - low)))
            patches = batch.patches(V).reshape(len(V), len(batch.first), *[patch] * len(low))
            for b, start in enumerate((batch.first - low).tolist()):
                box[(slice(None), *(slice(node, node + patch) for node in start))] += patches[:, b]
            return (slice(None), *map(slice, low, high)), box

        def quick_sums(number: int) -> tuple[tuple[slice, ...], Floats]:
            first = self.tiles.first[self.runs[number]]
            low, high = first.min(axis=0), first.max(axis=0) + patch
            box, run = np.zeros((V.shape[1], *(high - low))), self._batch(number)
            starts = run.starts - _in_three(low[None], 0)
            self.loops.spread(V, run.rows, run.bounds, starts, run.factors, box.reshape(len(box), *_shape(box)))
            return (slice(None), *map(slice, low, high)), box

        workers = n_threads(self.n_jobs)
        with worker_threads(workers) as threads:
            for now in memory.batches(len(self.runs), 4 * workers):
                for nodes, box in threads(sums, range(len(self.runs))[now]):  # in order: threads change no bit
                    grid[nodes] += box
        return grid

    def interpolate(self, grid: Floats) -> Floats:
        """`W` times the values of nodes, (n, r)."""
        r, patch, d = len(grid), self.tiles.rule.patch, grid.ndim - 1
        result = np.empty((len(self.tiles.order), r))
        if self.loops is not None:
            nodes = np.require(grid, requirements=["C", "W"]).reshape(r, *_shape(grid))

            def quick_read(number: int) -> None:
                run = self._batch(number)
                self.loops.read(nodes, *run, result)

            thread_map(quick_read, range(len(self.runs)), self.n_jobs)
            return result
        windows = sliding_window_view(grid, (patch,) * d, axis=tuple(range(1, d + 1)))

        def read(number: int) -> None:
            batch = self._batch(number)
            patches = windows[(slice(None), *batch.first.T)].reshape(r, len(batch.first), patch, -1)
            result[batch.rows[batch.real]] = batch.read(patches)[:, batch.real].T

        thread_map(read, range(len(self.runs)), self.n_jobs)
        return result

    def padded(self, grid: Floats) -> Floats:
        """Values of nodes, with zeros around them that patches of points beyond the data may see."""
        n_more = self._cells_beyond * self.tiles.rule.cell_nodes
        return np.pad(grid, [(0, 0)] + (grid.ndim - 1) * [(n_more, n_more)])

    def at(self, Xs: Floats, padded: Floats) -> Floats:
        """`W` of other points (m, d) in length scales times the padded values of nodes, (m, r)."""
        rule, result = self.tiles.rule, np.zeros((len(Xs), len(padded)))
        first = rule.cell_nodes * np.floor(Xs / rule.side)
        rows = np.flatnonzero(np.all((first > -rule.patch) & (first < self.tiles.shape), axis=1))
        if len(rows):
            tiles = Tiles.of(Xs[rows], rule, self._cells_beyond)
            result[rows] = GaussianOnGrid(tiles, self.n_jobs, keep=False).interpolate(padded)
        return result

    @property
    def _cells_beyond(self) -> int:
        """Cells on each side of the grid, with which all patches that meet it have nodes."""
        rule = self.tiles.rule
        return -(-rule.patch // rule.cell_nodes)

    def _batch(self, number: int) -> Any:
        """A batch of tiles, or a run of them where loops are compiled."""
        if self.batches is not None:
            return self.batches[number]
        return (self.tiles.batch if self.loops is None else self.tiles.run)(self.runs[number])


def _in_three(columns: Integers, value: int) -> Integers:
    """Numbers (n, d) of up to three columns as (n, 3), with a value in columns that there are not."""
    n, d = columns.shape
    result = np.full((n, 3), value)
    result[:, [[0], [0, 2], [0, 1, 2]][d - 1]] = columns
    return result


def _shape(nodes: Floats) -> tuple[int, ...]:
    """Numbers of nodes in three columns of values (r, g_1, ..., g_d)."""
    return tuple(_in_three(np.array([nodes.shape[1:]]), 1)[0].tolist())


class GridProduct:
    """The matrix `K` of a kernel at `n` points in up to three columns, as something to multiply with.

    An entry of the matrix multiplied with differs from that of `K` by at most `cutoff` times the variance. It is
    symmetric and positive semidefinite, and results do not depend on the number of threads.

    Parameters
    ----------
    kernel : Kernel
        A sum of Gaussians; each has a grid of its own.
    X : ndarray of shape (n, d)
    cutoff : float
        Between `FINEST` and 1.
    n_jobs : int or None
        Threads; None is one per core.
    keep : bool or None
        Whether to keep the factors of points, `patch` numbers per point and column, rather than to compute them anew.
        None keeps them if there is room (`memory.room`).

    Attributes
    ----------
    left_out : float
        Bound on the row sums of the difference, and so on its spectral norm.
    kept : bool

    Raises
    ------
    MemoryError
        Where the grid has too many nodes.
    """

    def __init__(
        self, kernel: Kernel, X: Floats, *, cutoff: float = 1e-10, n_jobs: int | None = None, keep: bool | None = None
    ) -> None:
        if not FINEST <= cutoff < 1:
            raise ValueError(f"The 'cutoff' argument must lie between {FINEST} and 1. Got {cutoff!r}.")
        X = np.asarray(X, dtype=np.float64)
        n, d = X.shape
        rule = Rule.of(d, cutoff)
        n_nodes = count_nodes(kernel, X, rule)
        memory.require(32.0 * n_nodes, f"A grid of {n_nodes:.2g} nodes", "The points lie too far apart for it.")
        self.kernel, self.low = kernel, column_range(X)[0]
        self.kept = 8.0 * X.size * rule.patch * kernel.n_scales <= memory.room() if keep is None else keep
        self.n, self.left_out, self.n_jobs = n, 0.0, n_jobs
        self.grids: list[GaussianOnGrid] = []
        for scales, variance in kernel.components():
            tiles = Tiles.of((X - self.low) / scales, rule)
            self.left_out += variance * (
                cutoff * tiles.overlap() + n * np.exp(-2 * (rule.n_beyond * rule.spacing) ** 2)
            )
            self.grids.append(GaussianOnGrid(tiles, n_jobs, self.kept))

    @property
    def diagonal(self) -> Floats:
        """Diagonal (n,) of `K`."""
        return np.full(self.n, self.kernel.variance)

    def product(self, V: Floats) -> Floats:
        """`K V` of shape (n, r) for `V` of shape (n, r)."""
        result = np.zeros(V.shape)
        for sides in memory.batches(V.shape[1], SIDES_AT_ONCE):
            for grid, variance in zip(self.grids, self.kernel.variances, strict=True):
                result[:, sides] += variance * grid.interpolate(grid.spread(V[:, sides]))
        return result

    def evaluator(self, V: Floats) -> Callable[[Floats], Floats]:
        """The function that gives `k(Xs, X) V` (m, r) at points `Xs` (m, d), for `V` (n, r).

        Values at the nodes are kept for up to `SIDES_AT_ONCE` columns. Those of more might take much memory, and are
        made anew at each call.
        """
        runs = memory.batches(V.shape[1], SIDES_AT_ONCE)
        kept = [self._at_nodes(V[:, sides]) for sides in runs] if len(runs) == 1 else None

        def evaluate(Xs: Floats) -> Floats:
            places = np.asarray(Xs, dtype=np.float64) - self.low
            result = np.zeros((len(places), V.shape[1]))
            for number, sides in enumerate(runs):
                nodes = self._at_nodes(V[:, sides]) if kept is None else kept[number]
                for grid, own, (scales, variance) in zip(self.grids, nodes, self.kernel.components(), strict=True):
                    result[:, sides] += variance * grid.at(places / scales, own)
            return result

        return evaluate

    def _at_nodes(self, V: Floats) -> list[Floats]:
        """Padded values at the nodes of each Gaussian's grid, (r, g_1, ..., g_d), for `V` (n, r)."""
        return [grid.padded(grid.spread(V)) for grid in self.grids]


def count_nodes(kernel: Kernel, X: Floats, rule: Rule) -> float:
    """Nodes of the grids of all Gaussians for points (n, d)."""
    low, high = column_range(X)
    extent = high - low
    return float(sum(prod(extent / scales / rule.spacing + rule.patch) for scales, _ in kernel.components()))


def per_pair(n_sides: int) -> float:
    """Operations on a grid that take as long as a pair of points in blocks, by measurement, per right-hand side.

    A pair's exponential serves all right-hand sides, and so do a point's factors, which are fewer.
    """
    return 0.73 * (22.0 + n_sides) / (3.7 + n_sides)


def grid_costs(kernel: Kernel, X: Floats, cutoff: float, n_sides: int = 1) -> Floats:
    """What a product by the grid of each Gaussian (J,) costs for points (n, d), in pairs of points.

    It is infinite where there is no grid: in many columns, or where nodes take more than their share of memory.
    """
    n, d = X.shape
    costs = np.full(kernel.n_scales, np.inf)
    if d > MAX_COLUMNS or kernel.family != "gaussian":
        return costs
    rule, low = Rule.of(d, max(cutoff, FINEST)), column_range(X)[0]
    for j, (scales, variance) in enumerate(kernel.components()):
        n_nodes = count_nodes(Kernel(scales[None], np.array([variance])), X, rule)
        if BYTES_PER_NODE * n_nodes * kernel.n_scales > memory.budget():
            continue
        tiles = _count_distinct(np.floor((X - low) / (scales * rule.side)).astype(np.int64)) + n / TILE_POINTS
        operations = 4.0 * n_nodes + 2 * (n + tiles) * float(rule.patch) ** d + PER_TILE * tiles
        costs[j] = operations / per_pair(n_sides)
    return costs


def _count_distinct(cells: Integers) -> int:
    """How many of the rows (n, d), of small numbers from 0 on, are different."""
    extent = tuple((cells.max(axis=0) + 1).tolist())
    keys = np.ravel_multi_index(tuple(cells.T), extent)
    if prod(extent) > 8 * len(cells) + FEW_CELLS:
        return len(np.unique(keys))
    is_taken = np.zeros(prod(extent), dtype=bool)  # quicker than to sort them
    is_taken[keys] = True
    return int(is_taken.sum())
