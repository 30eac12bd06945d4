"""What learning and tuning need of data too many to hold: everything around a few of their points.

A random sample is thinner than the data, and neighbourhoods of it would say little of short length scales and of how
close an approximation is. So the surroundings of a few sampled points are gathered from all data, in passes of their
own; in dense places neighbours are averaged on the way, so that memory stays bounded.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.spatial import cKDTree

from ..common.arrays import in_units
from ..common.threads import thread_map
from ..common.types import Floats, Integers
from ..hyperparameters.blocks import BLOCK_SIZE, NEAR_SHARE, Block
from ..hyperparameters.likelihood import packed_distances
from ..kernels import Kernel
from ..local import probes
from ..local.centers import group_rows
from ..local.model import fit_one, mean_and_variance
from ..local.neighbourhoods import TrainingSet
from ..local.probes import MAX_WORLD, PROBES_PER_WORLD, World
from .batches import Batch, concatenated
from .passes import Passes, Reduction, Sampled, mixed
from .sums import Noise

# ---- blocks, for learning ----------------------------------------------------------------------------------------


class Nearest(Reduction):
    """The `count` nearest rows of each seed, in columns divided by `scale`; a batch a seed, nearest first."""

    def __init__(self, seeds: Floats, scale: Floats, count: int) -> None:
        self.seeds, self.scale, self.count, self.n_features = seeds / scale, scale, count, seeds.shape[1]

    def start(self) -> list[Batch]:
        """See `Reduction`."""
        return []

    def update(self, state: list[Batch], batch: Batch) -> list[Batch]:
        """See `Reduction`."""
        tree = cKDTree(batch.X / self.scale, balanced_tree=False, compact_nodes=False)
        found = tree.query(self.seeds, k=np.arange(1, min(self.count, len(batch)) + 1))[1]
        return self.merge(state, [batch[near] for near in found])

    def merge(self, first: list[Batch], second: list[Batch]) -> list[Batch]:
        """See `Reduction`."""
        if not first or not second:
            return first or second
        return [self._nearest(i, [a, b]) for i, (a, b) in enumerate(zip(first, second, strict=True))]

    def _nearest(self, i: int, batches: list[Batch]) -> Batch:
        both = concatenated(batches)
        distances = np.sum((both.X / self.scale - self.seeds[i]) ** 2, axis=1)
        return both[np.argsort(distances, kind="stable")[: self.count]]


def make_blocks(
    passes: Passes, sampled: Sampled, mean: Floats, n_blocks: int, ard: bool, rng: np.random.RandomState
) -> list[Block]:
    """Blocks as `blocks.make_blocks` has them: nearest neighbours among all data, and some of the sample from afar."""
    X = sampled.rows.X
    scale = X.std(axis=0) if ard else np.ones(X.shape[1])
    scale = np.where(scale > 0, scale, 1.0)
    near = int(NEAR_SHARE * BLOCK_SIZE)
    seeds = rng.choice(len(X), min(n_blocks, len(X)), replace=False)
    found = passes.run(Nearest(X[seeds], scale, near), "neighbourhoods for learning")
    pool = rng.choice(len(X), min(len(X), 5000), replace=False)
    return [
        _block(batch, sampled.rows[pool], X[seed], scale, mean, ard, rng)
        for seed, batch in zip(seeds, found, strict=True)
    ]


def _block(
    near: Batch, pool: Batch, seed: Floats, scale: Floats, mean: Floats, ard: bool, rng: np.random.RandomState
) -> Block:
    far = BLOCK_SIZE - int(NEAR_SHARE * BLOCK_SIZE)
    order = np.argsort(np.sum(((pool.X - seed) / scale) ** 2, axis=1))
    order = order[~np.isin(pool.ids[order], near.ids)]
    rows = near
    if len(order):
        edges = np.exp(np.linspace(0.0, np.log(len(order)), far + 1))
        ranks = np.unique((edges[:-1] + rng.random_sample(far) * np.diff(edges)).astype(np.int64).clip(1, len(order)))
        rows = concatenated([near, pool[order[ranks - 1]]])
    return Block(
        rows.X,
        rows.targets - mean,
        None if rows.weights is None else 1.0 / rows.weights,
        None if ard else packed_distances(rows.X),
    )


# ---- worlds, for tuning ------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Gathered:
    """Points around an origin, or averages of some: relative positions, targets, noise, and how many each stands for.

    Attributes
    ----------
    Z, y, noise, counts : ndarrays of shape (n, d), (n, k + 1), (n,), (n,)
    ids : ndarray of shape (n,)
    total : int
        Number of points seen.
    """

    Z: Floats
    y: Floats
    noise: Floats
    counts: Floats
    ids: Integers
    total: int


class Gather(Reduction):
    """Everything within `radius` of each origin but the rows set aside for it, averaged where it is dense.

    Origins and radius are in length scales.
    """

    def __init__(
        self, origins: Floats, aside: list[Integers], radius: float, unit: Floats, offset: Floats, noise: Noise
    ) -> None:
        self.origins, self.aside, self.radius = origins, aside, radius
        self.unit, self.offset, self.noise = unit, offset, noise
        self.n_features = origins.shape[1]
        self.n_jobs: int | None = None

    def start(self) -> list[Gathered]:
        """See `Reduction`."""
        return []

    def update(self, state: list[Gathered], batch: Batch) -> list[Gathered]:
        """See `Reduction`."""
        data = TrainingSet.of(
            in_units(batch.X, self.unit), batch.targets - self.offset, self.noise(len(batch), batch.weights)
        )

        def one(i: int) -> Gathered:
            origin = self.origins[i]
            near = data.tree.query_radius(origin[None], self.radius)[0]
            near = near[~np.isin(batch.ids[near], self.aside[i])]
            n = len(near)
            Z, y, noise = data.X[near] - origin, data.y[near], data.noise[near]
            return self._thinned(Gathered(Z, y, noise, np.ones(n), batch.ids[near], n))

        return self.merge(state, thread_map(one, range(len(self.origins)), self.n_jobs))

    def merge(self, first: list[Gathered], second: list[Gathered]) -> list[Gathered]:
        """See `Reduction`."""
        if not first or not second:
            return first or second
        return [self._thinned(_together(a, b)) for a, b in zip(first, second, strict=True)]

    def _thinned(self, world: Gathered) -> Gathered:
        """Few enough points: averages over small cells, or a random subset where space is wide."""
        n, d = world.Z.shape
        if n <= 4 * MAX_WORLD:
            return world
        if d > 3:
            kept = np.argpartition(mixed(world.ids, 1), MAX_WORLD - 1)[:MAX_WORLD]
            return Gathered(
                world.Z[kept], world.y[kept], world.noise[kept], world.counts[kept], world.ids[kept], world.total
            )
        side = 2 * self.radius / (2 * MAX_WORLD) ** (1 / d)
        cells, owner = group_rows(np.floor(world.Z / side).astype(np.int64))
        weights = 1 / world.noise
        total = np.bincount(owner, weights, len(cells))

        def average(values: Floats) -> Floats:
            return np.stack([np.bincount(owner, weights * v, len(cells)) / total for v in values.T], axis=1)

        counts = np.bincount(owner, world.counts, len(cells))
        ids = np.zeros(len(cells), dtype=np.int64)
        return Gathered(average(world.Z), average(world.y), 1 / total, counts, ids, world.total)


def _together(a: Gathered, b: Gathered) -> Gathered:
    pairs = zip((a.Z, a.y, a.noise, a.counts, a.ids), (b.Z, b.y, b.noise, b.counts, b.ids), strict=True)
    Z, y, noise, counts, ids = (np.concatenate(pair) for pair in pairs)
    return Gathered(Z, y, noise, counts, ids, a.total + b.total)


def world_maker(
    passes: Passes, sampled: Sampled, unit: Floats, offset: Floats, noise: Noise
) -> Callable[..., list[World]]:
    """Stand-in for `probes.make_worlds` whose worlds hold all data around the probes, not just those of the sample."""
    ids, n = sampled.rows.ids, sampled.n

    def make_worlds(
        kernel: Kernel, data: TrainingSet, radius: float, n_worlds: int, n_jobs: int | None, rng: np.random.RandomState
    ) -> list[World]:
        d = data.X.shape[1]
        chosen = rng.choice(len(data.X), min(n_worlds, len(data.X)), replace=False)
        directions = probes.uniform_in_ball(len(chosen), d, rng) * probes.cell_radius(d)
        reference = probes.reference_plan(kernel, radius, d)
        aside = [_set_aside(data, int(seed), n, rng) for seed in chosen]
        gather = Gather(data.X[chosen], [ids[rows] for rows in aside], radius, unit, offset, noise)
        found = passes.run(gather, "neighbourhoods for tuning")

        def one(i: int) -> World:
            origin, around = data.X[chosen[i]], found[i]
            X, y, noise_, counts = probes.thinned(
                around.Z, around.y, around.noise, np.random.RandomState(i), around.counts
            )
            places = data.X[aside[i]] - origin
            mean, variance = mean_and_variance(reference, fit_one(reference, X, y, noise_), places)
            counts = counts * (around.total / max(counts.sum(), 1.0))
            return World(X, y, noise_, counts, places, data.noise[aside[i]], mean, variance, directions[i])

        return thread_map(one, range(len(chosen)), n_jobs)

    return make_worlds


def _set_aside(data: TrainingSet, seed: int, n: int, rng: np.random.RandomState) -> Integers:
    """A sampled point and a few others near it: few enough not to thin out the data around."""
    near = data.tree.query_radius(data.X[seed][None], 1.0)[0]
    near = near[near != seed]
    limit = int(len(near) * n / len(data.X)) // 20
    extra = rng.choice(near, min(PROBES_PER_WORLD - 1, limit, len(near)), replace=False)
    return np.concatenate([[seed], extra]).astype(np.int64)
