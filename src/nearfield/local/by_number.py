"""Neighbourhoods by number, for kernels of several length scales.

No radius suits a kernel that knows the building and the region: what counts is to have the nearest points, in kernel
space, where any sum of Gaussians is exact. Cells hold an equal number of points, so that they are small where data are
dense. How many neighbours are needed is measured at probes, as in `by_radius`. Where data are so evenly spread that a
radius does as well, features for each length scale, side by side, are far cheaper, and are measured beside them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from ..common.threads import thread_map
from ..common.types import Floats, Integers
from ..features.taylor import n_monomials
from ..kernels import Kernel
from .by_radius import MAX_FEATURES, taylor_features
from .centers import Leaves, leaves
from .choices import ALWAYS_EXACT_UP_TO, Candidate, Choice, Request, Trial, without_measuring
from .measurements import Measurements
from .neighbourhoods import TrainingSet
from .plan import Plan
from .probes import Cell, NeighbourhoodSample, ProbeNeighbourhood, cell_radius, uniform_in_cell

COUNTS = (30, 50, 75, 100, 150, 200, 300, 400, 600, 800)
CELL_SHARES = (8, 4)  # neighbours per point of a cell: smaller cells are more accurate, larger ones cheaper
NEIGHBOURHOODS, PROBES, FAR = 48, 3, 400
# Families with features: radius over that of the neighbours needed, spacing over radius, degree over squared radius.
FAMILIES = ((1.0, 0.5, 1.1), (1.15, 0.5, 1.1), (1.0, 0.7, 1.1), (1.0, 0.5, 0.9), (0.9, 0.5, 1.1), (1.15, 0.6, 0.9))


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
    """The nearest points of some probes and some from afar; each probe has a cell of its own.

    Attributes
    ----------
    n_near : int
        How many of the points, the first ones, are the nearest; the others are from farther and farther away.
    leaves : dict
        Leaves by number of points and of neighbours, once they were asked for.
    """

    n_near: int
    leaves: dict[tuple[int, int], Leaves] = field(default_factory=dict)

    def cells(self, candidate: Candidate) -> Iterator[Cell]:
        """The cell that each probe falls into."""
        for i, probe in enumerate(self.probes):
            if candidate.cell_points is None:
                reach = cell_radius(len(probe)) * candidate.spacing
                center = probe + candidate.spacing * self.directions[i]
                in_cell = float(np.sum(np.sum((self.sample.X - center) ** 2, axis=1) <= reach**2))
            else:
                center, in_cell = self._leaf(probe, candidate)
            yield Cell(center, np.array([i]), max(in_cell, 1.0))

    def _leaf(self, probe: Floats, candidate: Candidate) -> tuple[Floats, float]:
        """Middle of the leaf that serves a probe and how many points it holds; the probe itself where none does."""
        n_points, count = candidate.cell_points, candidate.plan.count
        assert n_points is not None
        assert count is not None
        if (n_points, count) not in self.leaves:
            self.leaves[n_points, count] = leaves(self.sample.X[: self.n_near], n_points, count)
        cells = self.leaves[n_points, count]
        distances = np.sum((cells.middles - probe) ** 2, axis=1) ** 0.5
        nearest = int(np.argmin(distances))
        if distances[nearest] > cells.reach[nearest]:
            return probe, 1.0
        return cells.middles[nearest], float(cells.sizes[nearest])


class NumberSearch(Measurements):
    """Candidates whose neighbourhoods are so many nearest points, and some with features beside them."""

    # Most of the distance may come from few places, which the probes may have missed.
    share, n_errors = 0.4, 2.0

    probed: list[NearestNeighbourhood]

    def make_probed(self, group: int) -> list[NearestNeighbourhood]:
        """See `Measurements`."""
        rows = self.probe_rows[group]
        return make_neighbourhoods(self.kernel, self.data, rows, self.request.tolerance, self.n_jobs, self.rng)

    def search(self) -> Trial | None:
        """See `Measurements`."""
        self.probed = self.make_probed(0)
        counts = self._counts()
        best: Trial | None = None
        low, high = 0, len(counts) - 1
        while low <= high:
            middle = (low + high) // 2
            trial = self.measure(self._candidate(counts[middle], CELL_SHARES[0]))
            if self.meets(trial):
                best, high = trial, middle - 1
            else:
                low = middle + 1
        if best is None:
            return self.closest()
        others = [self._candidate(count, CELL_SHARES[1]) for count in counts[low : low + 2]]
        if not self.request.kernel_space:
            others += self._with_features(counts[low])
        for candidate in others:
            if self.cost(candidate) < best.cost:
                trial = self.measure(candidate)
                best = trial if self.meets(trial) else best
        return best

    def larger(self, candidate: Candidate) -> Iterator[Candidate]:
        """See `Measurements`."""
        assert candidate.plan.count is not None
        for count in self._counts():
            if count > candidate.plan.count:
                yield self._candidate(count, CELL_SHARES[0])

    def _counts(self) -> list[int]:
        return [count for count in COUNTS if 1.5 * count <= self.probed[0].n_near]

    def _candidate(self, count: int, share: int) -> Candidate:
        plan = Plan(self.kernel, None, None, count=count)
        return Candidate(np.inf, plan, f"the {count} nearest points in kernel space", max(count // share, 4))

    def _with_features(self, count: int) -> list[Candidate]:
        """Candidates with features, whose radius holds about the number of neighbours found to be needed."""
        d = self.data.X.shape[1]
        if d > 3 or self.kernel.length_scales.shape[1] > 1:
            return []
        reach = [
            np.partition(np.sum((p.sample.X - probe) ** 2, axis=1), count - 1)[count - 1] ** 0.5
            for p in self.probed
            for probe in p.probes
        ]
        candidates = []
        for wider, ratio, richness in FAMILIES:
            radius = float(f"{wider * np.median(reach):.3g}")
            degree = int(np.ceil(richness * radius**2))
            if n_monomials(d, degree) > MAX_FEATURES:
                continue
            features = taylor_features(self.kernel, d, radius, degree)
            # Where there are fewer points than half of what is needed, the nearest are taken, in kernel space.
            plan = Plan(self.kernel, radius, features, count=count // 2)
            label = "Taylor features of degrees " + ", ".join(str(p) for p in features.degrees)
            candidates.append(Candidate(float(f"{ratio * radius:.3g}"), plan, label))
        return candidates


def make_neighbourhoods(
    kernel: Kernel,
    data: TrainingSet,
    rows: Integers,
    tolerance: float,
    n_jobs: int | None,
    rng: np.random.RandomState,
) -> list[NearestNeighbourhood]:
    """Neighbourhoods of probes, which are random ones of the given rows."""
    n, d = data.X.shape
    size = min(1200 if tolerance >= 5e-4 else 2000, n - PROBES)
    chosen = rng.choice(rows, NEIGHBOURHOODS, replace=False)
    directions = uniform_in_cell(NEIGHBOURHOODS * PROBES, d, rng).reshape(NEIGHBOURHOODS, PROBES, d)
    seeds = rng.randint(2**31 - 1, size=NEIGHBOURHOODS)
    # What long scales say comes from afar, where the nearest points may all lie on one side.
    pool = rng.choice(n, min(n, 5000), replace=False)
    allowed = np.zeros(n, dtype=bool)
    allowed[rows] = True
    exact = Plan(kernel, None, None)

    def make(i: int) -> NearestNeighbourhood:
        origin = data.X[chosen[i]]
        around = data.tree.query(origin[None], k=size + PROBES, return_distance=False)[0]
        around = np.concatenate([[chosen[i]], around[around != chosen[i]]])
        # Beside the point itself, a few of its near neighbours are set aside too.
        nearby = 1 + np.flatnonzero(allowed[around[1 : 1 + min(100, size // 4)]])
        others = np.random.RandomState(seeds[i]).permutation(nearby)[: PROBES - 1]
        probes, near = np.append(around[0], around[others]), np.delete(around, np.append(0, others))
        far = np.setdiff1d(pool, around)
        far = far[np.argsort(np.sum((data.X[far] - origin) ** 2, axis=1))]
        ranks = np.unique(np.geomspace(1, max(len(far), 1), FAR).astype(np.int64))[: len(far)] - 1
        kept = np.concatenate([near, far[ranks]])
        sample = NeighbourhoodSample.of(data.X[kept] - origin, data.y[kept], data.noise[kept])
        return NearestNeighbourhood.solved(
            exact, sample, data.X[probes] - origin, data.noise[probes], directions[i], n_near=len(near)
        )

    return thread_map(make, range(NEIGHBOURHOODS), n_jobs)
