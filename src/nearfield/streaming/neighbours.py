"""What learning and tuning need of data too many to hold: everything around a few of their points.

A random sample is thinner than the data, and neighbourhoods of it would say little of short length scales and of how
close an approximation is. So the neighbourhoods of a few sampled points are taken from all data, in passes of their
own; in dense places neighbours are averaged or sampled on the way, so that memory stays bounded.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from ..common.threads import thread_map
from ..common.types import Floats, Integers
from ..hyperparameters.blocks import N_BLOCKS, NEAR, Block, far_ranks
from ..hyperparameters.space import spreads_of
from ..kernels import Kernel
from ..local.centers import group_rows
from ..local.frame import Frame
from ..local.neighbourhoods import TrainingSet
from ..local.probes import ProbeNeighbourhood, draw_probes, uniform_in_cell
from ..local.references import exactly
from ..local.thinning import MAX_AVERAGED_COLUMNS, MAX_ROWS, NeighbourhoodSample, averaged, thinned
from .batches import Batch, concatenated
from .passes import Passes, Reduction, Sampled, mixed

# ---- blocks, for learning ----------------------------------------------------------------------------------------


class Nearest(Reduction):
    """The `count` nearest rows of each seed, in columns divided by `scale`; one batch per seed, nearest first."""

    def __init__(self, seeds: Floats, scale: Floats, count: int) -> None:
        self.seeds, self.scale, self.count, self.n_features = seeds / scale, scale, count, seeds.shape[1]

    def start(self) -> list[Batch]:
        """See `Reduction`."""
        return []

    def update(self, state: list[Batch], batch: Batch) -> list[Batch]:
        """See `Reduction`."""
        tree = cKDTree(batch.X / self.scale, balanced_tree=False, compact_nodes=False)
        nearest = tree.query(self.seeds, k=np.arange(1, min(self.count, len(batch)) + 1))[1]
        return self.merge(state, [batch[near] for near in nearest])

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
    passes: Passes, sampled: Sampled, ard: bool, rng: np.random.RandomState, n_blocks: int = N_BLOCKS, tied: int = 0
) -> list[Block]:
    """Blocks as `blocks.make_blocks` has them: nearest neighbours among all data, and some of the sample from afar."""
    X = sampled.rows.X
    scale = spreads_of(X, tied) if ard else np.ones(X.shape[1])
    scale = np.where(scale > 0, scale, 1.0)
    seeds = rng.choice(len(X), min(n_blocks, len(X)), replace=False)
    nearest = passes.run(Nearest(X[seeds], scale, NEAR), "neighbourhoods for learning")
    pool = sampled.rows[rng.choice(len(X), min(len(X), 5000), replace=False)]
    blocks = []
    for seed, near in zip(X[seeds], nearest, strict=True):
        order = np.argsort(np.sum(((pool.X - seed) / scale) ** 2, axis=1))
        order = order[~np.isin(pool.ids[order], near.ids)]
        rows = concatenated([near, pool[order[far_ranks(len(order), rng)]]]) if len(order) else near
        blocks.append(Block.of(rows.X, rows.targets - sampled.mean, rows.weights))
    return blocks


# ---- neighbourhoods of probes, for tuning ------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class KeyedSample:
    """What is kept of a neighbourhood so far."""

    sample: NeighbourhoodSample
    keys: NDArray[np.uint64]  # (n,): a random number for each row, by which a random subset is kept

    def __add__(self, other: KeyedSample) -> KeyedSample:
        return KeyedSample(self.sample + other.sample, np.concatenate([self.keys, other.keys]))


class SamplesAround(Reduction):
    """All that is within `radius` of each origin but the rows set aside for it; less where it would be too much.

    Up to three columns neighbours are averaged. Beyond, the rows with the least keys of all are kept, which are a
    uniform sample whatever the order of the batches.

    Parameters
    ----------
    origins : ndarray of shape (m, d)
        In length scales, as is the radius.
    set_aside : list of ndarray
        Ids of rows to leave out, for each origin.
    radius : float
    frame : Frame
    seed : int
        Of the keys.
    """

    def __init__(self, origins: Floats, set_aside: list[Integers], radius: float, frame: Frame, seed: int = 0) -> None:
        self.origins, self.set_aside, self.radius, self.frame, self.seed = origins, set_aside, radius, frame, seed
        self.n_features = origins.shape[1]
        self.n_jobs: int | None = None

    def start(self) -> list[KeyedSample]:
        """See `Reduction`."""
        return []

    def update(self, state: list[KeyedSample], batch: Batch) -> list[KeyedSample]:
        """See `Reduction`."""
        data = batch.in_frame(self.frame)
        keys = mixed(batch.ids, self.seed)

        def sample(i: int) -> KeyedSample:
            (near,) = data.within(self.origins[i][None], self.radius)
            near = near[~np.isin(batch.ids[near], self.set_aside[i])]
            points = NeighbourhoodSample.of(data.X[near] - self.origins[i], data.y[near, :-1], data.noise[near])
            return self._reduced(KeyedSample(points, keys[near]))

        return self.merge(state, thread_map(sample, range(len(self.origins)), self.n_jobs))

    def merge(self, first: list[KeyedSample], second: list[KeyedSample]) -> list[KeyedSample]:
        """See `Reduction`."""
        if not first or not second:
            return first or second
        return [self._reduced(a + b) for a, b in zip(first, second, strict=True)]

    def finish(self, state: list[KeyedSample]) -> list[NeighbourhoodSample]:
        """See `Reduction`."""
        return [keyed.sample for keyed in state]

    def _reduced(self, keyed: KeyedSample) -> KeyedSample:
        """Few enough rows: averages over small cells, or those with the least keys where there are many columns."""
        sample, keys = keyed.sample, keyed.keys
        n, d = sample.X.shape
        if d > MAX_AVERAGED_COLUMNS:
            if n <= MAX_ROWS:
                return keyed
            kept = np.argpartition(keys, MAX_ROWS - 1)[:MAX_ROWS]
            kept = kept[np.argsort(keys[kept])]  # the same rows in the same order, however they came
            return KeyedSample(sample.subset(kept), keys[kept])
        if n <= 4 * MAX_ROWS:
            return keyed
        side = 2 * self.radius / (2 * MAX_ROWS) ** (1 / d)
        sample = averaged(sample, group_rows(np.floor(sample.X / side).astype(np.int64))[1])
        return KeyedSample(sample, np.zeros(len(sample.X), dtype=np.uint64))


def neighbourhood_maker(passes: Passes, sampled: Sampled, frame: Frame) -> Callable[..., list[ProbeNeighbourhood]]:
    """Stand-in for `probes.make_neighbourhoods` that takes the neighbours from all data, not just from the sample."""
    ids, n_all = sampled.rows.ids, sampled.n

    def make_neighbourhoods(
        kernel: Kernel,
        data: TrainingSet,
        rows: Integers,
        radius: float,
        n: int,
        n_jobs: int | None,
        rng: np.random.RandomState,
        tolerance: float = 0.0,
        n_drawn: int = 0,
        onto: Callable[[Floats], Floats] | None = None,
    ) -> list[ProbeNeighbourhood]:
        d = data.X.shape[1]
        drawn = draw_probes(data, rows, n, rng, n_all / len(data.X))
        directions = [uniform_in_cell(len(probes), d, rng) for probes in drawn]
        solver = partial(exactly, kernel, tolerance=tolerance)
        origins = data.X[[probes[0] for probes in drawn]]
        seed = int(rng.randint(2**31 - 1))
        reduction = SamplesAround(origins, [ids[probes] for probes in drawn], radius, frame, seed)
        samples = passes.run(reduction, "neighbourhoods for tuning")

        def make(i: int) -> ProbeNeighbourhood:
            random, probes = np.random.RandomState(i), drawn[i]
            sample = thinned(samples[i], random, float(kernel.length_scales.min()))
            places, probe_noise = data.X[probes] - origins[i], data.noise[probes]
            surface = None if onto is None else lambda points: onto(points + origins[i]) - origins[i]
            given = (sample, places, probe_noise, directions[i], lambda n: random.standard_normal((n, n_drawn)))
            return ProbeNeighbourhood.solved(solver, *given, surface=surface)

        return thread_map(make, range(len(drawn)), n_jobs)

    return make_neighbourhoods
