"""Blocks of points, whose exact likelihoods add up to that of all data.

The likelihood of all data is a product of conditional ones: cells of points in random order, each given all earlier
ones. A block is a cell with the nearest of the earlier points. Late cells have near neighbours on all sides and tell
short length scales and the noise; early ones, with neighbours far away, tell the long ones. So where there are too many
blocks, all early ones are taken and a sample of the late ones.

Where data are never in memory as a whole there is no such order, and in many columns, where the nearest points are far,
it takes too many of them. Blocks are then independent of each other: a point with its nearest neighbours and a few
points from farther and farther away, which keep the long scales and the variance.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.spatial import cKDTree

from ..common.types import Floats, Integers
from ..kernels import Kernel
from ..solvers.ordered_cells import ordered_cells
from .likelihood import ConditionalStack, Stack, squared_differences
from .space import Extents, spreads_of

LARGEST_SINGLE_BLOCK = 1000  # points whose exact likelihood is still cheap
STACK_NUMBERS = 65_536  # of matrices that are evaluated together, so that they stay in the cache

CELL_POINTS, N_EARLIER = 16, 48  # points of a block in order: about so many of its own, and those that are given
N_NEAREST = 32  # of the latter, with which most of the search is
N_EARLY, MOST = 40, 4096  # blocks in order: early ones, and all of them
MOST_ORDERED_COLUMNS = 3

N_BLOCKS, N_ASIDE = 64, 32  # independent blocks to learn from, and to judge by
BLOCK_SIZE = 256
MOST_DRIFT = 0.25  # columns of a drift per point of a block
NEAR = int(0.95 * BLOCK_SIZE)  # points of a block that are nearest neighbours,
FAR = BLOCK_SIZE - NEAR  # and others


@dataclass(frozen=True, eq=False)
class Block:
    """Points whose exact likelihood is one term of the objective."""

    X: Floats  # (n, d)
    y: Floats  # (n, k)
    noise_factors: Floats | None = None  # (n,): of the noise variance
    n_given: int = 0  # so many of the first points are given, and the likelihood is that of the others
    share: float = 1.0  # number of blocks that it stands for
    drift: Floats | None = None  # (n, p): orthonormal

    @classmethod
    def of(
        cls,
        X: Floats,
        y: Floats,
        weights: Floats | None,
        n_given: int = 0,
        share: float = 1.0,
        drift: Floats | None = None,
    ) -> Block:
        """Block of points with sample weights (n,).

        Of drift columns (n, p) those combinations count that are not zero here, unless they leave too few points: then
        targets are taken as they are.
        """
        return cls(X, y, None if weights is None else 1.0 / weights, n_given, share, _span(drift))

    @cached_property
    def lighter(self) -> Block:
        """The same given the first of its earlier points, which are the nearest: half the work, nearly the same."""
        if self.n_given <= N_NEAREST:
            return self
        rows = np.r_[:N_NEAREST, self.n_given : len(self.X)]
        factors = None if self.noise_factors is None else self.noise_factors[rows]
        return Block(self.X[rows], self.y[rows], factors, N_NEAREST, self.share)

    @property
    def size(self) -> float:
        """Number of targets whose likelihood it is, and stands for."""
        return self.share * (len(self.y) - self.n_given) * int(self.y.shape[1])


def _span(columns: Floats | None) -> Floats | None:
    """Orthonormal columns that span the same; None where there are none, or too many for the points."""
    if columns is None:
        return None
    norms = np.linalg.norm(columns, axis=0)
    columns, norms = columns[:, norms > 0], norms[norms > 0]  # most levels of a category are not among a block's points
    if columns.shape[1] == 0:
        return None
    left, sizes, _ = np.linalg.svd(columns / norms, full_matrices=False)
    span: Floats = left[:, sizes > 1e-10 * sizes[0]]
    return span if 0 < span.shape[1] <= MOST_DRIFT * len(columns) else None


def stacked(blocks: Sequence[Block], by_column: bool) -> list[Stack | ConditionalStack]:
    """Blocks side by side, those of equal shape together; `by_column` where each column has a length scale."""
    return [_stack(group, by_column) for group in _groups(blocks)]


def _groups(blocks: Sequence[Block]) -> list[list[Block]]:
    """Blocks of equal shape, no more of them together than stay in the cache."""
    by_shape: dict[tuple[int, int, bool, int], list[Block]] = {}
    for block in blocks:
        p = 0 if block.drift is None else block.drift.shape[1]
        by_shape.setdefault((len(block.X), block.n_given, block.noise_factors is None, p), []).append(block)
    groups = []
    for (n, *_), group in by_shape.items():
        size = max(STACK_NUMBERS // (n * n), 1)
        groups += [group[start : start + size] for start in range(0, len(group), size)]
    return groups


def _stack(blocks: list[Block], by_column: bool) -> Stack | ConditionalStack:
    """Blocks of equal shape."""
    first = blocks[0]
    X, y = np.stack([block.X for block in blocks]), np.stack([block.y for block in blocks])
    factors = None if first.noise_factors is None else np.stack([np.asarray(block.noise_factors) for block in blocks])
    shares = np.array([block.share for block in blocks])
    if first.n_given:
        return ConditionalStack.of(X, y, by_column, first.n_given, factors, shares)
    drift = None if first.drift is None else np.stack([np.asarray(block.drift) for block in blocks])
    return Stack(squared_differences(X, by_column), y, factors, shares, drift)


class Stacks:
    """What `stacked` gives, kept for as long as the same blocks are learnt from."""

    def __init__(self) -> None:
        self._kept: dict[Hashable, tuple[list[Block], Stack | ConditionalStack]] = {}

    def __call__(self, blocks: Sequence[Block], by_column: bool) -> list[Stack | ConditionalStack]:
        """Stacks of blocks, made where they have not been asked for before."""
        return [self._stack(group, by_column) for group in _groups(blocks)]

    def _stack(self, blocks: list[Block], by_column: bool) -> Stack | ConditionalStack:
        key = by_column, *((id(block.X), block.share) for block in blocks)
        if key not in self._kept:  # blocks are kept, too, so that no other array gets their number
            self._kept[key] = blocks, _stack(blocks, by_column)
        return self._kept[key][1]


Evaluation = Callable[[Kernel, float], tuple[float, Floats]]
"""Sum of the log likelihoods of some blocks at a kernel and a noise variance, and its gradient."""

Likelihood = Callable[[list[Block]], Evaluation]


def sum_of(stacks: list[Stack | ConditionalStack], run: Callable[..., Iterable[tuple[float, Floats]]]) -> Evaluation:
    """Sum over stacks, with `run` for `map`."""

    def evaluate(kernel: Kernel, noise_variance: float) -> tuple[float, Floats]:
        values, gradients = zip(*run(lambda stack: stack(kernel, noise_variance), stacks), strict=True)
        return sum(values), np.sum(gradients, axis=0)

    return evaluate


@dataclass(frozen=True, eq=False)
class LearningData:
    """What hyperparameters are learnt from: all data, or a sample of them and blocks of all."""

    X: Floats  # (n, d)
    y: Floats  # (n, k): centred targets
    weights: Floats | None = None  # (n,): the noise variance of point i is `noise_variance / weights[i]`
    blocks: list[Block] | None = None  # blocks to learn from; None makes them of `X` and `y`
    extents: Extents | None = None  # lengths of the data, where they are known already
    likelihood: Likelihood | None = None  # evaluates blocks elsewhere than here
    drift: Floats | None = None  # (n, p): columns with unknown coefficients; `y` are residuals of least squares
    stacks: Stacks = field(default_factory=Stacks)
    judged: dict[Any, Floats] = field(default_factory=dict)  # what `composite.gains` has worked out

    @cached_property
    def exact_early(self) -> list[Block]:
        """Blocks in order, the early ones as one; see `with_exact_early`."""
        return with_exact_early(self.blocks or [], N_EARLY)

    def with_blocks(
        self, ard: bool, rng: np.random.RandomState, tied: int = 0, n_jobs: int | None = None
    ) -> LearningData:
        """The same with blocks, which are made where there are none; see `make_blocks`."""
        if self.blocks is not None:
            return self
        return replace(self, blocks=make_blocks(self.X, self.y, self.weights, ard, rng, tied, self.drift, n_jobs))


def make_blocks(
    X: Floats,
    y: Floats,
    weights: Floats | None,
    ard: bool,
    rng: np.random.RandomState,
    tied: int = 0,
    drift: Floats | None = None,
    n_jobs: int | None = None,
) -> list[Block]:
    """Blocks of all data, in their random order; a single one where they are few.

    With a length scale per column, neighbours are those in columns of unit spread, the first `tied` ones taken
    together. With many columns, or a drift (n, p), blocks are independent of each other.
    """
    n = len(X)
    if n <= LARGEST_SINGLE_BLOCK:
        return [Block.of(X, y, weights, drift=drift)]
    scale = spreads_of(X, tied) if ard else np.ones(X.shape[1])
    scaled = X / np.where(scale > 0, scale, 1.0)
    if X.shape[1] > MOST_ORDERED_COLUMNS or drift is not None:
        return _independent_blocks(X, scaled, y, weights, drift, rng)
    # Cells come from halving: they have the same number of points, which is CELL_POINTS within a factor of 1.42.
    most = -(-n // 2 ** round(np.log2(n / CELL_POINTS)))
    cells = ordered_cells(scaled, most, N_EARLIER, rng, n_jobs, choose=lambda count: _chosen(count, N_EARLY, MOST))
    sizes = [len(cell.own) for cell in cells]
    share = (n - sum(sizes[:N_EARLY])) / max(sum(sizes[N_EARLY:]), 1)

    def block(i: int) -> Block:
        rows = cells[i].points
        own = None if weights is None else weights[rows]
        return Block.of(X[rows], y[rows], own, len(cells[i].earlier), share if i >= N_EARLY else 1.0)

    return [block(i) for i in range(len(cells))]


def _independent_blocks(
    X: Floats, scaled: Floats, y: Floats, weights: Floats | None, drift: Floats | None, rng: np.random.RandomState
) -> list[Block]:
    tree = cKDTree(scaled)
    groups = near_and_far(
        len(X), N_BLOCKS + N_ASIDE, rng, lambda seeds, k: tree.query(scaled[seeds], k=k)[1], scaled.__getitem__
    )
    further = [[None if values is None else values[g] for values in (weights, drift)] for g in groups]
    return [Block.of(X[g], y[g], w, drift=F) for g, (w, F) in zip(groups, further, strict=True)]


def _chosen(n: int, n_early: int, most: int) -> Integers:
    """Which of `n` blocks to take: the first `n_early`, and of the others, evenly, so that there are at most `most`."""
    if n <= most:
        return np.arange(n)
    late = n_early + ((np.arange(most - n_early) + 0.5) * (n - n_early) / (most - n_early)).astype(np.int64)
    return np.concatenate([np.arange(n_early), late])


def are_ordered(blocks: list[Block]) -> bool:
    """Whether blocks are cells of an order, given earlier points, and not independent of each other."""
    return any(block.n_given for block in blocks)


def thinned(blocks: list[Block], n_early: int, most: int) -> list[Block]:
    """At most `most` of blocks that are in order: all early ones, and a sample of the others, which stand for them."""
    if len(blocks) <= most:
        return blocks
    chosen = [blocks[i] for i in _chosen(len(blocks), n_early, most)]
    late = chosen[n_early:]
    factor = sum(block.size for block in blocks[n_early:]) / sum(block.size for block in late)
    return chosen[:n_early] + [replace(block, share=factor * block.share) for block in late]


def lighter(blocks: list[Block]) -> list[Block]:
    """The same given fewer points each."""
    return [block.lighter for block in blocks]


def with_exact_early(blocks: list[Block], n_early: int) -> list[Block]:
    """Blocks that are in order, the early ones as one: the exact likelihood of their points, which tell long scales."""
    is_one_already = len(blocks) < 2 or blocks[1].n_given != len(blocks[0].X)
    return blocks if is_one_already else [_joined(blocks[:n_early]), *blocks[n_early:]]


def _joined(blocks: list[Block]) -> Block:
    """One block of the points of several, without those that are given."""
    rows = [slice(block.n_given, None) for block in blocks]
    factors = None
    if blocks[0].noise_factors is not None:
        factors = np.concatenate([np.asarray(b.noise_factors)[r] for b, r in zip(blocks, rows, strict=True)])
    X = np.concatenate([block.X[r] for block, r in zip(blocks, rows, strict=True)])
    return Block(X, np.concatenate([block.y[r] for block, r in zip(blocks, rows, strict=True)]), factors)


def near_and_far(
    n: int,
    n_blocks: int,
    rng: np.random.RandomState,
    nearest_of: Callable[[Integers, int], Integers],
    points: Callable[[Integers], Floats],
) -> list[Integers]:
    """Choose, around random points, the nearest neighbours and others from shells of ever larger rank, by index.

    Parameters
    ----------
    n : int
        Number of points.
    n_blocks : int
        Number of blocks; fewer are made of few points.
    nearest_of : callable
        From indices (m,) and a number `k` to the indices (m, k) of the nearest points, wherever the data are.
    points : callable
        From indices (m,) to points (m, d).
    """
    n_blocks = min(n_blocks, -(-4 * n // BLOCK_SIZE))
    seeds = rng.choice(n, n_blocks, replace=False)
    # Exact ranks would need all distances; a random subset has them in good approximation.
    pool = rng.choice(n, min(n, 5000), replace=False)
    candidates = points(pool)
    groups = []
    for seed, neighbours in zip(points(seeds), nearest_of(seeds, NEAR), strict=True):
        distances = np.sum((candidates - seed) ** 2, axis=1)
        order = pool[np.argsort(distances)]
        order = order[~np.isin(order, neighbours)]
        groups.append(np.concatenate([neighbours, order[far_ranks(len(order), rng)]]))
    return groups


def far_ranks(n: int, rng: np.random.RandomState) -> Integers:
    """Which of `n` points, in the order of their distance, a block takes besides the nearest: log-uniform ranks."""
    edges = np.exp(np.linspace(0.0, np.log(n), FAR + 1))
    ranks = (edges[:-1] + rng.random_sample(FAR) * np.diff(edges)).astype(np.int64)
    return np.unique(ranks.clip(1, n)) - 1
