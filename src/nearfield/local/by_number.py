"""Neighbourhoods by number, for kernels of several length scales.

No radius suits a kernel that knows the building and the street: what counts is to have the nearest points, in kernel
space, where any sum of Gaussians is exact. Cells are small where data are dense. How many neighbours are needed is
measured at probes, as in `by_radius`, near the data and in their gaps.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from scipy.spatial.distance import cdist

from ..common import memory
from ..common.threads import thread_map
from ..common.types import Floats, Integers
from ..kernels import Kernel
from . import distance, graded
from .choices import Candidate, Choice, Request, Trial
from .depth import Depth, contributions_of, fit_cells
from .ensemble import runs_of
from .gaps import MAX_COLUMNS
from .measurements import Measurements
from .neighbourhoods import TrainingSet, metrics_of
from .plan import Plan, kernel_cost
from .probes import Cell, ProbeNeighbourhood
from .references import exactly, nothing_drawn, whitened
from .thinning import NeighbourhoodSample

COUNTS = (30, 50, 75, 100, 150, 200, 300, 400, 600, 800)
MOST_POINTS = (400, 800, 1600)  # of the reference around a probe: more where twice the neighbours found are not in it
NEAR = (0.4, 0.6, 0.8)  # size of cells, see `graded.cells`: smaller ones are more accurate, larger ones cheaper
DEPTHS = (30.0, 8.0)  # times the tolerance, that the farther half of the neighbours may contribute
VARIANCE_DEPTHS = (0.5, 0.1, 0.02)  # times the root of the tolerance, where only variances are asked for
VARIANCE_SHARE = 0.03  # of the tolerance, for these: where cells share their neighbours, they cost little
USUAL, USUAL_CELLS = 0.9, 24  # of cells among the data, so many of which tell what is usual
DEEPEST = 800
STILL_TOLERATED = 10.0  # times the tolerance, of an estimate that is on the safe side
PER_MODEL = 1e6  # operations worth of calls
NEIGHBOURHOODS, PROBES = 48, 3  # among the data
FEWER = 32  # neighbourhoods where only variances are asked for: these differ less from place to place than means do
BESIDE_WHOLE = 128  # neighbourhoods in many columns, where those that tell most are few
PLACES, FEWEST_NAMED = 128, 24  # elsewhere
CELLS_AT_ONCE = 4  # in gaps, that a thread takes


def choose(
    kernel: Kernel,
    data: TrainingSet,
    request: Request,
    n_jobs: int | None,
    rng: np.random.RandomState,
    progress: Callable[[str, float, float], None] | None = None,
    kept: dict[str, Any] | None = None,
) -> Choice:
    """Fewest neighbours that meet the tolerance at the probes, or the exact process where that is cheaper.

    Probes are put into `kept`, where there is one, and found there when the same data are asked for something else.
    """
    return NumberSearch(kernel, data, request, n_jobs, rng, progress, kept=kept).choose(may_be_exact=True)


class Located(NamedTuple):
    """Cells that some places are in: middles (m, d), half diagonals (m,), and how many points they hold (m,)."""

    middles: Floats
    halves: Floats
    n_points: Floats


Locate: TypeAlias = Callable[[int, float | None], Located]
"""From a number of neighbours and `near` (see `graded.cells`) to the cells of all places."""


def locator(kernel: Kernel, data: TrainingSet, places: Floats) -> Locate:
    """Finds the cells of places (m, d), and remembers them."""
    low, high = graded.covering_box(data.X, kernel.length_scales)
    inside = np.clip(places, low, high)

    @cache
    def locate(count: int, near: float | None) -> Located:
        if near is None:  # each place is its own centre
            return Located(places, np.zeros(len(places)), np.ones(len(places)))
        middles, halves = graded.cells_of(low, high, data.index(), count, near, inside)
        # A cell that is nearly cubic has the volume of a ball of so much less than half its diagonal.
        held = data.index().query_ball_point(middles, 0.8 * halves, return_length=True) if len(middles) else halves
        return Located(middles, halves, np.maximum(held, 1.0))

    return locate


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
        See `Locate`.
    answers : dict
        Means (m, k) and variances (m,) at the probes by the candidates measured so far.
    """

    origin: Floats
    own: slice
    locate: Locate
    answers: dict[Any, tuple[Floats, Floats]] = field(default_factory=dict)

    def _located(self, candidate: Candidate) -> Located:
        """Cells of the probes."""
        assert candidate.plan.count is not None
        return Located(*(each[self.own] for each in self.locate(candidate.plan.count, candidate.near)))

    def cells(self, candidate: Candidate) -> Iterator[Cell]:
        """The cell that each probe falls into."""
        located = self._located(candidate)
        for i, (middle, in_cell) in enumerate(zip(located.middles, located.n_points, strict=True)):
            yield Cell(middle - self.origin, np.array([i]), float(in_cell))

    def nearest(self, candidate: Candidate, middles: Floats) -> Integers:
        """Rows that are the neighbours of places (m, d) relative to the first probe: (m, count)."""
        X, count = self.sample.X, candidate.plan.count
        units = metrics_of(candidate.plan.kernel) if candidate.near is None else [np.ones(X.shape[1])]
        orders = [np.argsort(cdist(middles / unit, X / unit), axis=1, kind="stable") for unit in units]
        if len(units) > 1:
            ranks = np.min([np.argsort(order, axis=1, kind="stable") for order in orders], axis=0)
            orders = [np.argsort(ranks, axis=1, kind="stable")]
        return orders[0][:, :count]

    def cost(self, candidate: Candidate) -> float:
        """See `ProbeNeighbourhood`; each model costs something of its own."""
        assert candidate.plan.count is not None
        n = min(candidate.plan.count, len(self.sample.X))
        return float(np.mean(cost(candidate.plan.kernel.n_scales, n, self._located(candidate).n_points)))

    def divergence(self, candidate: Candidate, blended: bool = False) -> Floats:  # noqa: ARG002
        """See `ProbeNeighbourhood`; as deep as the plan says."""
        if key_of(candidate) not in self.answers:
            ask([self], candidate, 0.0)
        mean, variance = self.answers[key_of(candidate)]
        given = (self.reference, self.probe_noise, candidate.plan.kernel.variance)
        kl = distance.divergences(
            mean[:, : self.reference.mean.shape[1]], variance, *given, exact_mean=candidate.exact_mean
        )
        result: Floats = kl.mean(axis=1)
        return result

    def asked_of_cells(self, candidate: Candidate) -> tuple[Floats, ...]:
        """Points (m, n, d), targets (m, n, k), noise (m, n) and places (m, 1, d) of the model of each probe's cell."""
        middles = self._located(candidate).middles - self.origin
        rows, sample = self.nearest(candidate, middles), self.sample
        places = (self.probes - middles)[:, None]
        return sample.X[rows] - middles[:, None], sample.y[rows], sample.noise[rows], places


def ask(probed: list[NearestNeighbourhood], candidate: Candidate, tolerance: float) -> None:
    """Put the answers of a candidate at the probes into some neighbourhoods."""
    asked = [each.asked_of_cells(candidate) for each in probed]
    X, y, noise, places = (np.concatenate(arrays) for arrays in zip(*asked, strict=True))
    halves, _ = whitened(candidate.plan.kernel, X, y, noise, places, tolerance)
    mean = np.concatenate([half @ targets.T for half, targets in halves])
    variance = (candidate.plan.kernel.variance - np.array([np.sum(half**2) for half, _ in halves])).clip(min=0.0)
    for each, own in zip(probed, runs_of([each.n_probes for each in probed]), strict=True):
        each.answers[key_of(candidate)] = mean[own], variance[own]


def key_of(candidate: Candidate) -> Any:
    """What tells candidates apart."""
    return candidate.plan.count, candidate.near, candidate.depth


def cost(n_scales: int, n: float, in_cell: Any) -> Any:
    """Operations per training point with `n` neighbours, for cells that hold so many points."""
    return (n_scales * kernel_cost(n) + PER_MODEL) / in_cell + 2.0 * n**2


class NumberSearch(Measurements):
    """Candidates whose neighbourhoods are so many nearest points."""

    # Most of the distance may come from few places, which the probes may have missed.
    share, n_errors = 0.4, 1.0

    probed: list[NearestNeighbourhood]
    confirming: list[NearestNeighbourhood]
    most = MOST_POINTS[0]

    def __init__(self, *given: Any, kept: dict[str, Any] | None = None) -> None:
        super().__init__(*given)
        self.kept: dict[str, Any] = {} if kept is None else kept
        self.probe_rows = self._kept("rows that may be probes", lambda: self.probe_rows)

    def _kept(self, key: str, make: Callable[[], Any]) -> Any:
        if key not in self.kept:
            self.kept[key] = make()
        return self.kept[key]

    def make_probed(self, group: int) -> list[NearestNeighbourhood]:
        """See `Measurements`."""
        probed: list[NearestNeighbourhood] = self._kept(f"{group} with {self.most}", lambda: self._make_probed(group))
        return probed

    def _make_probed(self, group: int) -> list[NearestNeighbourhood]:
        named = self.places.near_data(PLACES, self.rng)
        if len(named) >= FEWEST_NAMED:
            return self._neighbourhoods(named)
        n_probed = FEWER if self.request.exact_mean else NEIGHBOURHOODS
        n_probed = n_probed if self.whole is None else min(BESIDE_WHOLE, len(self.probe_rows[group]))
        chosen = self.rng.choice(self.probe_rows[group], n_probed, replace=False)
        return self._neighbourhoods(self.data.X[chosen], chosen, self.probe_rows[group])

    def divergences(self, candidate: Candidate, probed: Sequence[Any], blended: bool) -> Floats:
        """See `Measurements`."""
        new = [each for each in probed if key_of(candidate) not in each.answers]
        at_once = max(CELLS_AT_ONCE * COUNTS[-1] // (candidate.plan.count or 1), 1)
        batches = memory.batches(len(new), at_once)
        thread_map(lambda batch: ask(new[batch], candidate, self.request.tolerance), batches, self.n_jobs)
        return np.stack([each.divergence(candidate, blended) for each in probed], axis=1)

    def search_gaps(self, candidate: Candidate) -> tuple[Candidate, Trial | None]:
        """See `Measurements`; cells are made to take more neighbours where that is not enough."""
        if candidate.near is None:
            return candidate, None
        tolerance = self.request.tolerance
        # An error of the mean counts by its square, and so as much as the excess of the variance; that alone, squared.
        depths = [x * tolerance for x in DEPTHS]
        if self.request.exact_mean:
            depths = [x * tolerance**0.5 for x in VARIANCE_DEPTHS]
            # Among the data the tolerance holds with as many neighbours as there are.
            depths[0] = max(depths[0], self._usual_contribution(candidate))
        n_places = PLACES if self.request.places is not None else PLACES // 2
        places = self._kept("gaps", lambda: self.places.in_gaps(n_places, self.rng))
        noise = self.data.typical_noise
        candidates = [
            replace(candidate, depth=Depth(x, DEEPEST, noise, STILL_TOLERATED * tolerance, self.request.exact_mean))
            for x in depths
        ]
        if len(places) == 0:
            return candidates[-1], None
        for deeper in candidates:
            trial = self._measure_in_gaps(deeper, places)
            if self.holds(trial):
                break
        return deeper, trial

    def _usual_contribution(self, candidate: Candidate) -> float:
        """Nats that the farther half of the neighbours contributes in most of the cells among the data."""
        located = [each._located(candidate) for each in self.confirming[:USUAL_CELLS]]
        middles, halves = (np.concatenate([each[i][:1] for each in located]) for i in (0, 1))
        depth = Depth(0.0, DEEPEST, float(np.median(self.data.noise)))

        def work(batch: slice) -> Floats:
            return contributions_of(candidate.plan, depth, self.data, middles[batch], halves[batch])

        contributions = thread_map(work, memory.batches(len(middles), CELLS_AT_ONCE), self.n_jobs)
        return float(np.quantile(np.concatenate(contributions), USUAL))

    def _measure_in_gaps(self, candidate: Candidate, places: Floats) -> Trial:
        """A candidate at places (m, d), beside references that are larger than its own neighbourhoods."""
        count, near = candidate.plan.count, candidate.near
        assert count is not None
        located = self._kept("cells in gaps", lambda: locator(self.kernel, self.data, places))(count, near)

        def work(batch: slice) -> list[tuple[Floats, Floats, int]]:
            given = (self.data, located.middles[batch], located.halves[batch])
            models = fit_cells(candidate.plan, candidate.depth, *given)
            at = (places - located.middles)[batch, None]
            return [(*model.mean_and_variance(Z), len(model.X)) for model, Z in zip(models, at, strict=True)]

        batches = thread_map(work, memory.batches(len(places), CELLS_AT_ONCE), self.n_jobs)
        answers = [answer for batch in batches for answer in batch]
        thorough = self.request.limit == np.inf and not self.request.exact_mean
        most = MOST_POINTS[: None if thorough else 2][-1]
        while 2 * max(n for _, _, n in answers) > self.most and self.most < most:
            self.most *= 2
        probed = self._kept(f"gaps with {self.most}", lambda: self._neighbourhoods(places))
        for probe, (mean, variance, _) in zip(probed, answers, strict=True):
            probe.answers[key_of(candidate)] = mean, variance
        return self.measure_at(candidate, probed)

    def search(self) -> Trial | None:
        """See `Measurements`."""
        # Where space is wide, much of what matters is far away.
        for most in MOST_POINTS if self.data.X.shape[1] <= MAX_COLUMNS else MOST_POINTS[-1:]:
            self.most = min(most, len(self.data.X) - PROBES)
            self.trials.clear()
            self.probed = self.make_probed(0)
            counts = self._counts()
            if self.request.exact_mean and self.data.X.shape[1] <= MAX_COLUMNS:
                self.share = VARIANCE_SHARE
            best, low = self._fewest(counts)
            if best is None and self.share < NumberSearch.share:
                self.share = NumberSearch.share
                best, low = self._fewest(counts)
            if best is not None or self.most < most or len(counts) < len(self._counts(np.inf)):
                break
        if best is None:
            return self.closest()
        sizes = range(len(NEAR) if self.request.exact_mean else len(NEAR) - 1)  # variances change less across a cell
        others = [self._candidate(count, size) for count in counts[low : low + 3] for size in sizes]
        for candidate in sorted(others, key=self._likely_cost):
            cost = self.cost(candidate)
            if cost < best.cost:
                trial = self.measure(candidate, cost)
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
        if limit == np.inf:
            return counts
        # More neighbours cost more, so a few of the numbers tell how many are affordable.
        return counts[: max(bisect_right(counts, limit, key=lambda n: self.cost(self._candidate(n, 1))), 1)]

    def _likely_cost(self, candidate: Candidate) -> float:
        """What `cost` would be where data are uniform: cells hold a share of the neighbours."""
        n, near = candidate.plan.count, candidate.near
        assert n is not None
        in_cell = 1.0 if near is None else max(n * (0.7 * near) ** self.data.X.shape[1], 1.0)
        return self.n_samples * float(cost(self.kernel.n_scales, n, in_cell))

    def _candidate(self, count: int, size: int) -> Candidate:
        """So many neighbours, in cells of one of the sizes."""
        plan = Plan(self.kernel, None, None, count=count)
        label = f"each prediction uses the {count} nearest data points"
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
        typical = data.typical_noise
        units = metrics_of(self.kernel) if d > MAX_COLUMNS else []

        def draw(i: int) -> tuple[Floats, Floats, Integers, Integers]:
            """Probes (m, d), their noise (m,), the points around them, and which rows the probes are, if any."""
            random = np.random.RandomState(seeds[i])
            around = data.tree.query(origins[i][None], k=size + PROBES, return_distance=False)[0]
            if len(units) > 1:
                (more,) = data.neighbourhoods(origins[i][None], None, size + PROBES, self.kernel)
                around = np.concatenate([around[: PROBES + 1], np.setdiff1d(more, around[: PROBES + 1])])
            if rows is None:
                return origins[i : i + 1], np.array([typical]), around[:size], around[:0]
            around = np.concatenate([rows[i : i + 1], around[around != rows[i]]])
            # Beside the point itself, a few of its near neighbours are set aside too.
            nearby = 1 + np.flatnonzero(may_be_probe[around[1 : 1 + min(100, size // 4)]])
            probes = np.append(0, random.permutation(nearby)[: PROBES - 1])
            return data.X[around[probes]], data.noise[around[probes]], np.delete(around, probes), around[probes]

        drawn = thread_map(draw, range(len(origins)), self.n_jobs)
        ends = np.cumsum([0, *(len(each[0]) for each in drawn)])
        locate = locator(self.kernel, data, np.concatenate([data.X[:0], *(each[0] for each in drawn)]))

        def solve(i: int) -> NearestNeighbourhood:
            places, noise, near, own = drawn[i]
            at = places - origins[i]
            sample = NeighbourhoodSample.of(data.X[near] - origins[i], data.y[near, :-1], data.noise[near])
            if self.whole is not None:
                reference = self.whole.left_out(own) if len(own) else self.whole.at(places)
            else:
                complete = len(near) + len(own) == len(data.X)
                reference, _ = exactly(self.kernel, sample, at, nothing_drawn, self.request.tolerance, complete)
            return NearestNeighbourhood(
                sample,
                at,
                noise,
                reference,
                np.zeros_like(places),
                origin=origins[i],
                own=slice(ends[i], ends[i + 1]),
                locate=locate,
            )

        return thread_map(solve, range(len(origins)), self.n_jobs)
