"""Neighbourhoods by number, for kernels of several length scales.

No radius suits a kernel that knows the building and the street: what counts is to have the nearest points, in kernel
space, where any sum of Gaussians is exact. Cells are small where data are dense. How many neighbours are needed is
measured at probes, as in `by_radius`, near the data and in their gaps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import numpy as np
from scipy.spatial import cKDTree

from .. import metrics
from ..common.threads import thread_map
from ..common.types import Floats, Integers
from ..kernels import Kernel
from . import graded
from .centers import leaves
from .choices import ALWAYS_EXACT_UP_TO, Candidate, Choice, Request, Trial, without_measuring
from .depth import Depth, fit_cell
from .gaps import MAX_COLUMNS
from .measurements import Measurements
from .neighbourhoods import TrainingSet
from .plan import Plan
from .probes import Cell, NeighbourhoodSample, ProbeNeighbourhood

COUNTS = (30, 50, 75, 100, 150, 200, 300, 400, 600, 800, 1200, 1600)
MOST_POINTS = (400, 800, 1600, 3200)  # of the reference around a probe: more where twice the neighbours found are not in it
CELL_SHARES = (8, 4)  # neighbours per point of a cell: smaller cells are more accurate, larger ones cheaper
NEAR = (0.4, 0.6)  # the same, as half a diagonal over the distance to the last neighbour
DEPTHS = (8.0, 3.0, 1.0, 0.3, 0.1)  # times the tolerance, that the farther half of the neighbours may contribute
NEIGHBOURHOODS, PROBES = 48, 3


def choose(
    kernel: Kernel,
    data: TrainingSet,
    request: Request,
    n_jobs: int | None,
    rng: np.random.RandomState,
    progress: Callable[[str, float, float], None] | None = None,
) -> Choice:
    """Fewest neighbours that meet the tolerance at the probes, or the exact process where that is cheaper."""
    if len(data.X) <= ALWAYS_EXACT_UP_TO:
        return without_measuring(kernel, len(data.X))
    return NumberSearch(kernel, data, request, n_jobs, rng, progress).choose(may_be_exact=True)


@dataclass(frozen=True, eq=False)
class NearestNeighbourhood(ProbeNeighbourhood):
    """The nearest points of some probes; each probe has a cell of its own.

    Attributes
    ----------
    locate : callable
        From a candidate to the cells of the probes: middles (m, d), relative to the first probe, and half diagonals.
    located : dict
        What it answered, by number of neighbours and size of cells.
    deepest : list of one int
        Most neighbours that a cell has taken so far.
    """

    locate: Callable[[Candidate], tuple[Floats, Floats]]
    located: dict[tuple[int | None, float | None], tuple[Floats, Floats]] = field(default_factory=dict)
    deepest: list[int] = field(default_factory=lambda: [0])

    def cells(self, candidate: Candidate) -> Iterator[Cell]:
        """The cell that each probe falls into."""
        for i, (middle, half) in enumerate(zip(*self._located(candidate), strict=True)):
            # A cell that is nearly cubic has the volume of a ball of so much less than half its diagonal.
            in_cell = float(np.sum(np.sum((self.sample.X - middle) ** 2, axis=1) <= (0.8 * half) ** 2))
            yield Cell(middle, np.array([i]), max(in_cell, 1.0))


    def _located(self, candidate: Candidate) -> tuple[Floats, Floats]:
        key = candidate.plan.count, candidate.near or candidate.cell_points
        if key not in self.located:
            self.located[key] = self.locate(candidate)
        return self.located[key]

    def divergence(self, candidate: Candidate) -> float:
        """See `ProbeNeighbourhood`; cells take as many neighbours as their depth asks for."""
        sample, values = self.sample, []
        for (middle, (i,), _), half in zip(self.cells(candidate), self._located(candidate)[1], strict=True):
            order = np.argsort(np.sum((sample.X - middle) ** 2, axis=1), kind="stable")

            def nearest(count: int, order: Integers = order, middle: Floats = middle) -> tuple[Floats, Floats, Floats]:
                near = order[:count]
                return sample.X[near] - middle, sample.y[near], sample.noise[near]

            model = fit_cell(candidate.plan, candidate.depth, nearest, len(order), half)
            mean, variance = model.mean_and_variance(self.probes[i : i + 1] - middle)
            k, noise = mean.shape[1] - 1, self.probe_noise[i]
            values.append(
                metrics.kl_divergence(
                    mean[0, :k],
                    np.full(k, variance[0] + noise),
                    self.mean[i, :k],
                    np.full(k, self.variance[i] + noise),
                )
            )
            self.deepest[0] = max(self.deepest[0], len(model.X))
        return float(np.mean(values))


class NumberSearch(Measurements):
    """Candidates whose neighbourhoods are so many nearest points."""

    # Most of the distance may come from few places, which the probes may have missed.
    share, n_errors = 0.4, 2.0

    probed: list[NearestNeighbourhood]
    most = MOST_POINTS[0]

    def make_probed(self, group: int) -> list[NearestNeighbourhood]:
        """See `Measurements`."""
        chosen = self.rng.choice(self.probe_rows[group], NEIGHBOURHOODS, replace=False)
        return self._neighbourhoods(self.data.X[chosen], chosen, self.probe_rows[group])

    def search_gaps(self, candidate: Candidate) -> tuple[Candidate, Trial | None]:
        """See `Measurements`; cells are made to take more neighbours where that is not enough."""
        if candidate.near is None:
            return candidate, None
        depth = Depth(DEPTHS[0] * self.request.tolerance, MOST_POINTS[-1], float(np.median(self.data.noise)))
        candidate = replace(candidate, depth=depth)
        places = self.places.in_gaps(NEIGHBOURHOODS, self.rng)
        if len(places) == 0:
            return candidate, None
        probed = self._neighbourhoods(places, None, None)
        for factor in DEPTHS:
            candidate = replace(candidate, depth=replace(depth, excess=factor * self.request.tolerance))
            trial = self.measure_at(candidate, probed)
            while 2 * max(probe.deepest[0] for probe in probed) > self.most and self.most < MOST_POINTS[-1]:
                self.most = min(2 * self.most, MOST_POINTS[-1])
                probed = self._neighbourhoods(places, None, None)
                trial = self.measure_at(candidate, probed)
            if self.holds(trial):
                break
        return candidate, trial

    def search(self) -> Trial | None:
        """See `Measurements`."""
        for most in MOST_POINTS:
            self.most = min(most, len(self.data.X) - PROBES)
            self.trials.clear()
            self.probed = self.make_probed(0)
            counts = self._counts()
            best, low = self._fewest(counts)
            if best is not None or self.most < most:
                break
        if best is None:
            return self.closest()
        for count in counts[low : low + 2]:
            candidate = self._candidate(count, 1)
            if self.cost(candidate) < best.cost:
                trial = self.measure(candidate)
                best = trial if self.meets(trial) else best
        return best

    def _fewest(self, counts: list[int]) -> tuple[Trial | None, int]:
        """Trial of the fewest neighbours that meet the tolerance, by bisection, and their place among `counts`."""
        best: Trial | None = None
        low, high = 0, len(counts) - 1
        while low <= high:
            middle = (low + high) // 2
            trial = self.measure(self._candidate(counts[middle], 0))
            if self.meets(trial):
                best, high = trial, middle - 1
            else:
                low = middle + 1
        return best, low

    def larger(self, candidate: Candidate) -> Iterator[Candidate]:
        """See `Measurements`."""
        assert candidate.plan.count is not None
        for count in self._counts():
            if count > candidate.plan.count:
                yield self._candidate(count, 0)

    def _counts(self) -> list[int]:
        return [count for count in COUNTS if 2 * count <= self.most] or [min(COUNTS[0], self.most)]

    def _candidate(self, count: int, size: int) -> Candidate:
        """So many neighbours, in cells of one of two sizes."""
        plan, label = Plan(self.kernel, None, None, count=count), f"the {count} nearest points in kernel space"
        if self.data.X.shape[1] <= MAX_COLUMNS:
            return Candidate(np.inf, plan, label, near=NEAR[size])
        return Candidate(np.inf, plan, label, cell_points=max(count // CELL_SHARES[size], 4))

    def _neighbourhoods(
        self, origins: Floats, rows: Integers | None, allowed: Integers | None
    ) -> list[NearestNeighbourhood]:
        """Neighbourhoods of places (m, d), which are these rows of the data, or lie in gaps."""
        data, d = self.data, self.data.X.shape[1]
        size = min(self.most, len(data.X) - PROBES)
        seeds = self.rng.randint(2**31 - 1, size=len(origins))
        exact = Plan(self.kernel, None, None)
        may_be_probe = np.zeros(len(data.X), dtype=bool)
        may_be_probe[allowed if allowed is not None else slice(0)] = True
        tree = cKDTree(data.X) if d <= MAX_COLUMNS else None
        low, high = graded.covering_box(data.X, self.kernel.length_scales)
        typical = float(np.median(data.noise))

        def make(i: int) -> NearestNeighbourhood:
            origin, random = origins[i], np.random.RandomState(seeds[i])
            distance, around = data.tree.query(origin[None], k=size + PROBES)
            around = around[0]
            if rows is None:
                # Further places that are as far from the data, or nearly.
                places = origin + random.uniform(-0.3, 0.3, (PROBES, d)) * distance[0, 0]
                places[0], near, noise = origin, around[:size], np.full(PROBES, typical)
            else:
                around = np.concatenate([[rows[i]], around[around != rows[i]]])
                # Beside the point itself, a few of its near neighbours are set aside too.
                nearby = 1 + np.flatnonzero(may_be_probe[around[1 : 1 + min(100, size // 4)]])
                probes = np.append(0, random.permutation(nearby)[: PROBES - 1])
                places, noise, near = data.X[around[probes]], data.noise[around[probes]], np.delete(around, probes)
            sample = NeighbourhoodSample.of(data.X[near] - origin, data.y[near], data.noise[near])

            def locate(candidate: Candidate) -> tuple[Floats, Floats]:
                plan = candidate.plan
                assert plan.count is not None
                if candidate.near is not None and tree is not None:
                    inside = np.clip(places, low, high)
                    middles, halves, owner = graded.cells(low, high, tree, plan.count, candidate.near, 1, inside)
                    return middles[owner] - origin, halves[owner]
                assert candidate.cell_points is not None
                found = leaves(sample.X, candidate.cell_points, plan.count)
                distances = np.sum((found.middles - (places - origin)[:, None]) ** 2, axis=2) ** 0.5
                nearest = np.argmin(distances, axis=1)
                lost = distances.min(axis=1) > found.reach[nearest]
                middles = np.where(lost[:, None], places - origin, found.middles[nearest])
                return middles, np.where(lost, 0.0, found.reach[nearest])

            return NearestNeighbourhood.solved(
                exact, sample, places - origin, noise, np.zeros((len(places), d)), locate=locate
            )

        return thread_map(make, range(len(origins)), self.n_jobs)
