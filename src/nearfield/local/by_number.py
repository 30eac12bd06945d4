"""Neighbourhoods by number, for kernels of several length scales.

No radius suits a kernel that knows the building and the street: what counts is to have the nearest points, in kernel
space, where any sum of Gaussians is exact. Cells are small where data are dense. How many neighbours are needed is
measured at probes, as in `by_radius`, near the data and in their gaps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cache

import numpy as np

from ..common.threads import thread_map
from ..common.types import Floats, Integers
from ..kernels import Kernel
from . import graded
from .choices import ALWAYS_EXACT_UP_TO, Candidate, Choice, Request, Trial, without_measuring
from .depth import Depth, fit_cell
from .gaps import MAX_COLUMNS
from .measurements import Measurements
from .neighbourhoods import TrainingSet, metrics_of
from .plan import Plan
from .probes import Cell, NeighbourhoodSample, ProbeNeighbourhood

COUNTS = (30, 50, 75, 100, 150, 200, 300, 400, 600, 800)
MOST_POINTS = (400, 800, 1600)  # of the reference around a probe: more where twice the neighbours found are not in it
NEAR = (0.4, 0.6)  # size of cells, see `graded.cells`: smaller ones are more accurate, larger ones cheaper
DEPTHS = (30.0, 8.0)  # times the tolerance, that the farther half of the neighbours may contribute
VARIANCE_DEPTHS = (0.5, 0.1, 0.02)  # times the root of the tolerance, where only variances are asked for
DEEPEST = 800
STILL_TOLERATED = 10.0  # times the tolerance, of an estimate that is on the safe side
PER_MODEL = 1e6  # operations worth of calls
NEIGHBOURHOODS, PROBES = 48, 3  # among the data
PLACES, FEWEST_NAMED = 128, 24  # elsewhere


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
    origin : ndarray of shape (d,)
        The first probe.
    own : slice
        Which of the places that are located are the probes.
    locate : callable
        From a number of neighbours and `near` (see `graded.cells`) to the cells of all places: middles (p, d) and half
        diagonals (p,).
    deepest : list of one int
        Most neighbours that a cell has taken so far.
    """

    origin: Floats
    own: slice
    locate: Callable[[int, float], tuple[Floats, Floats]]
    deepest: list[int] = field(default_factory=lambda: [0])

    def _cells(self, candidate: Candidate) -> tuple[Floats, Floats]:
        """Middles (m, d) of the cells of the probes, relative to the first, and their half diagonals (m,)."""
        count = candidate.plan.count
        assert count is not None
        if candidate.near is not None:
            middles, halves = self.locate(count, candidate.near)
            return middles[self.own] - self.origin, halves[self.own]
        return self.probes, np.zeros(len(self.probes))  # each place is its own centre

    def cells(self, candidate: Candidate) -> Iterator[Cell]:
        """The cell that each probe falls into."""
        for i, (middle, half) in enumerate(zip(*self._cells(candidate), strict=True)):
            # A cell that is nearly cubic has the volume of a ball of so much less than half its diagonal.
            in_cell = float(np.sum(np.sum((self.sample.X - middle) ** 2, axis=1) <= (0.8 * half) ** 2))
            yield Cell(middle, np.array([i]), max(in_cell, 1.0))

    def _order(self, candidate: Candidate, middle: Floats) -> Integers:
        """Rows in the order in which they are taken for neighbours of a place."""
        units = metrics_of(candidate.plan.kernel) if candidate.near is None else [np.ones(len(middle))]
        distances = [np.sum(((self.sample.X - middle) / unit) ** 2, axis=1) for unit in units]
        ranks = [np.argsort(np.argsort(each, kind="stable"), kind="stable") for each in distances]
        return np.argsort(np.min(ranks, axis=0), kind="stable")

    def cost(self, candidate: Candidate) -> float:
        """See `ProbeNeighbourhood`; each model costs something of its own."""
        in_cell = np.array([cell.n_points for cell in self.cells(candidate)])
        return super().cost(candidate) + float(np.mean(PER_MODEL / in_cell))

    def divergence(self, candidate: Candidate, blended: bool = False) -> float:  # noqa: ARG002
        """See `ProbeNeighbourhood`; cells take as many neighbours as their depth asks for."""
        sample = self.sample
        mean, variance = np.empty_like(self.mean), np.empty_like(self.variance)
        for i, (middle, half) in enumerate(zip(*self._cells(candidate), strict=True)):
            order = self._order(candidate, middle)

            def nearest(count: int, order: Integers = order, middle: Floats = middle) -> tuple[Floats, Floats, Floats]:
                near = order[:count]
                return sample.X[near] - middle, sample.y[near], sample.noise[near]

            model = fit_cell(candidate.plan, candidate.depth, nearest, len(order), half)
            mean[i : i + 1], variance[i : i + 1] = model.mean_and_variance(self.probes[i : i + 1] - middle)
            self.deepest[0] = max(self.deepest[0], len(model.X))
        answers = self.mean if candidate.exact_mean else mean
        return float(np.mean(self._divergences(np.arange(len(mean)), answers, variance)))


class NumberSearch(Measurements):
    """Candidates whose neighbourhoods are so many nearest points."""

    # Most of the distance may come from few places, which the probes may have missed.
    share, n_errors = 0.5, 1.0

    probed: list[NearestNeighbourhood]
    most = MOST_POINTS[0]

    def make_probed(self, group: int) -> list[NearestNeighbourhood]:
        """See `Measurements`."""
        named = self.places.near_data(PLACES, self.rng)
        if len(named) >= FEWEST_NAMED:
            return self._neighbourhoods(named)
        chosen = self.rng.choice(self.probe_rows[group], NEIGHBOURHOODS, replace=False)
        return self._neighbourhoods(self.data.X[chosen], chosen, self.probe_rows[group])

    def search_gaps(self, candidate: Candidate) -> tuple[Candidate, Trial | None]:
        """See `Measurements`; cells are made to take more neighbours where that is not enough."""
        if candidate.near is None:
            return candidate, None
        tolerance = self.request.tolerance
        # An error of the mean counts by its square, and so as much as the excess of the variance; that alone, squared.
        depths = [x * tolerance for x in DEPTHS]
        if self.request.exact_mean:
            depths = [x * tolerance**0.5 for x in VARIANCE_DEPTHS]
        places = self.places.in_gaps(PLACES if self.request.places is not None else PLACES // 2, self.rng)
        noise = float(np.median(self.data.noise))
        candidates = [
            replace(candidate, depth=Depth(x, DEEPEST, noise, STILL_TOLERATED * tolerance, self.request.exact_mean))
            for x in depths
        ]
        if len(places) == 0:
            return candidates[-1], None
        probed = self._neighbourhoods(places)
        for deeper in candidates:
            probed, trial = self._measure_in_gaps(deeper, places, probed)
            if self.holds(trial):
                break
        return deeper, trial

    def _measure_in_gaps(
        self, candidate: Candidate, places: Floats, probed: list[NearestNeighbourhood]
    ) -> tuple[list[NearestNeighbourhood], Trial]:
        """A candidate at places, whose neighbourhoods are made larger where its own are not small beside them."""
        thorough = self.request.limit == np.inf and not self.request.exact_mean
        most = MOST_POINTS[: None if thorough else 2][-1]
        while True:
            trial = self.measure_at(candidate, probed)
            if 2 * max(probe.deepest[0] for probe in probed) <= self.most or self.most >= most:
                return probed, trial
            self.most *= 2
            probed = self._neighbourhoods(places)

    def search(self) -> Trial | None:
        """See `Measurements`."""
        # Where space is wide, much of what matters is far away.
        for most in MOST_POINTS if self.data.X.shape[1] <= MAX_COLUMNS else MOST_POINTS[-1:]:
            self.most = min(most, len(self.data.X) - PROBES)
            self.trials.clear()
            self.probed = self.make_probed(0)
            counts = self._counts()
            best, low = self._fewest(counts)
            if best is not None or self.most < most or len(counts) < len(self._counts(np.inf)):
                break
        if best is None:
            return self.closest()
        others = [self._candidate(count, size) for count in counts[low : low + 3] for size in (1, 0)]
        for candidate in sorted(others, key=self.cost):
            if self.cost(candidate) < best.cost:
                trial = self.measure(candidate)
                if self.meets(trial):
                    return trial
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

    def _counts(self, limit: float | None = None) -> list[int]:
        """Numbers of neighbours that the probes can judge, and that do not cost more than the limit."""
        counts = [count for count in COUNTS if 2 * count <= self.most] or [min(COUNTS[0], self.most)]
        limit = self.request.limit if limit is None else limit
        affordable = [n for n in counts if limit == np.inf or self.cost(self._candidate(n, 1)) <= limit]
        return affordable or counts[:1]

    def _candidate(self, count: int, size: int) -> Candidate:
        """So many neighbours, in cells of one of two sizes."""
        plan, label = Plan(self.kernel, None, None, count=count), f"the {count} nearest points in kernel space"
        if self.data.X.shape[1] <= MAX_COLUMNS:
            return Candidate(np.inf, plan, label, near=NEAR[size])
        return Candidate(np.inf, plan, label)

    def _neighbourhoods(
        self, origins: Floats, rows: Integers | None = None, allowed: Integers | None = None
    ) -> list[NearestNeighbourhood]:
        """Neighbourhoods of places (m, d); where they are rows of the data, these are set aside, and some `allowed`."""
        data, d = self.data, self.data.X.shape[1]
        size = min(self.most, len(data.X) - PROBES)
        seeds = self.rng.randint(2**31 - 1, size=len(origins))
        may_be_probe = np.zeros(len(data.X), dtype=bool)
        may_be_probe[slice(0) if allowed is None else allowed] = True
        exact, typical = Plan(self.kernel, None, None), float(np.median(data.noise))
        units = metrics_of(self.kernel) if d > MAX_COLUMNS else []

        def draw(i: int) -> tuple[Floats, Floats, Integers]:
            """Probes (m, d), their noise (m,) and the points around them."""
            random = np.random.RandomState(seeds[i])
            around = data.tree.query(origins[i][None], k=size + PROBES, return_distance=False)[0]
            if len(units) > 1:
                (more,) = data.neighbourhoods(origins[i][None], None, size + PROBES, self.kernel)
                around = np.concatenate([around[: PROBES + 1], np.setdiff1d(more, around[: PROBES + 1])])
            if rows is None:
                return origins[i : i + 1], np.array([typical]), around[:size]
            around = np.concatenate([rows[i : i + 1], around[around != rows[i]]])
            # Beside the point itself, a few of its near neighbours are set aside too.
            nearby = 1 + np.flatnonzero(may_be_probe[around[1 : 1 + min(100, size // 4)]])
            probes = np.append(0, random.permutation(nearby)[: PROBES - 1])
            return data.X[around[probes]], data.noise[around[probes]], np.delete(around, probes)

        drawn = thread_map(draw, range(len(origins)), self.n_jobs)
        ends = np.cumsum([0, *(len(places) for places, _, _ in drawn)])
        low, high = graded.covering_box(data.X, self.kernel.length_scales)
        inside = np.clip(np.concatenate([data.X[:0], *(places for places, _, _ in drawn)]), low, high)

        @cache
        def locate(count: int, near: float) -> tuple[Floats, Floats]:
            middles, halves, owner = graded.cells(low, high, data.index(), count, near, 1, inside)
            return middles[owner], halves[owner]

        def solve(i: int) -> NearestNeighbourhood:
            places, noise, near = drawn[i]
            sample = NeighbourhoodSample.of(data.X[near] - origins[i], data.y[near], data.noise[near])
            return NearestNeighbourhood.solved(
                exact,
                sample,
                places - origins[i],
                noise,
                np.zeros_like(places),
                origin=origins[i],
                own=slice(ends[i], ends[i + 1]),
                locate=locate,
            )

        return thread_map(solve, range(len(origins)), self.n_jobs)
