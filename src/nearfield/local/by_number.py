"""Neighbourhoods by number, for kernels of several length scales.

No radius suits a kernel that knows the building and the region: what counts is to have the nearest points, in kernel
space, where any sum of Gaussians is exact. Cells hold an equal number of points, so that they are small where data are
dense. How many neighbours are needed is measured at probes, as in `tuning`. Where data are so evenly spread that a
radius does as well, features for each length scale, side by side, are far cheaper, and are measured beside them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from .. import metrics
from ..common.threads import thread_map
from ..common.types import Floats, Integers
from ..features.taylor import n_monomials
from ..kernels import Kernel
from .by_radius import MAX_COLUMNS
from .by_radius import taylor_features as make_features
from .centers import Leaves, leaves
from .choices import CHEAPEST, CLOSEST, MAX_EXACT, SMALL, Candidate, Choice, Request, Trial, exact, exact_cost
from .model import fit_one, mean_and_variance
from .neighbourhoods import TrainingSet
from .plan import Plan, feature_cost, kernel_cost
from .probes import cell_radius

COUNTS = (30, 50, 75, 100, 150, 200, 300, 400, 600, 800)
CELL_SHARES = (8, 4)  # neighbours per point of a cell: smaller cells are more accurate, larger ones cheaper
WORLDS, PROBES, FAR = 48, 3, 400
SHARE = 0.4  # of the tolerance that a figure may take up
# Families with features: radius over that of the neighbours needed, spacing over radius, degree over squared radius.
FAMILIES = ((1.0, 0.5, 1.1), (1.15, 0.5, 1.1), (1.0, 0.7, 1.1), (1.0, 0.5, 0.9), (0.9, 0.5, 1.1), (1.15, 0.6, 0.9))


@dataclass(frozen=True, eq=False)
class NearWorld:
    """The nearest points of some probes and some from afar, and what the exact process on them says at the probes.

    Attributes
    ----------
    X, y, noise : ndarrays of shape (n, d), (n, k + 1), (n,)
    probes : ndarray of shape (m, d)
    probe_noise : ndarray of shape (m,)
    mean, variance : ndarrays of shape (m, k + 1), (m,)
        The reference.
    directions : ndarray of shape (m, d)
        Where in a cell of a lattice each probe lies: uniform in the unit ball.
    n_near : int
        How many of the points, the first ones, are the nearest; the others are from farther and farther away.
    cells : dict
        Leaves by number of points and of neighbours, once they were asked for.
    """

    X: Floats
    y: Floats
    noise: Floats
    probes: Floats
    probe_noise: Floats
    mean: Floats
    variance: Floats
    directions: Floats
    n_near: int
    cells: dict[tuple[int | None, int | None], Leaves] = field(default_factory=dict)

    def cell(self, i: int, candidate: Candidate) -> tuple[Floats, float]:
        """Centre of the cell that probe `i` falls into, and how many points share it."""
        probe: Floats = self.probes[i]
        if candidate.cell_points is None:
            reach = cell_radius(self.X.shape[1]) * candidate.spacing
            center: Floats = probe + reach * self.directions[i]
            return center, max(float(np.sum(np.sum((self.X - center) ** 2, axis=1) <= reach**2)), 1.0)
        found = self._leaves(candidate)
        distances = np.sum((found.middles - probe) ** 2, axis=1) ** 0.5
        nearest = int(np.argmin(distances))
        if distances[nearest] > found.reach[nearest]:
            return probe, 1.0
        return found.middles[nearest], float(found.sizes[nearest])

    def _leaves(self, candidate: Candidate) -> Leaves:
        key = (candidate.cell_points, candidate.plan.count)
        if key not in self.cells:
            assert candidate.cell_points is not None
            assert candidate.plan.count is not None
            self.cells[key] = leaves(self.X[: self.n_near], candidate.cell_points, candidate.plan.count)
        return self.cells[key]

    def neighbourhood(self, plan: Plan, center: Floats) -> Integers:
        """Which points a centre's neighbourhood holds."""
        assert plan.count is not None
        distances = np.sum((self.X - center) ** 2, axis=1)
        within = np.flatnonzero(distances <= (plan.radius or 0.0) ** 2)
        if len(within) >= plan.count:
            return within
        nearest: Integers = np.argpartition(distances, plan.count - 1)[: plan.count]
        return nearest

    def cost(self, candidate: Candidate) -> float:
        """Operations per point, for its share in the model of its cell and for its prediction."""
        plan = candidate.plan
        total = 0.0
        for i in range(len(self.probes)):
            center, in_cell = self.cell(i, candidate)
            around = len(self.neighbourhood(plan, center))
            if plan.features is None or plan.takes_kernel_space(around):
                total += plan.kernel.n_scales * kernel_cost(around) / in_cell + 2 * around**2
            else:
                D = plan.features.n_components
                total += feature_cost(around, D) / in_cell + 2 * D**2
        return total / len(self.probes)

    def divergence(self, candidate: Candidate) -> float:
        """Mean KL(candidate || reference) over the probes, per target, as observations."""
        plan = candidate.plan
        total = 0.0
        for i, probe in enumerate(self.probes):
            center, _ = self.cell(i, candidate)
            near = self.neighbourhood(plan, center)
            model = fit_one(plan, self.X[near] - center, self.y[near], self.noise[near])
            mean, variance = mean_and_variance(plan, model, (probe - center)[None])
            noise = self.probe_noise[i]
            k = mean.shape[1] - 1
            total += float(
                metrics.kl_divergence(
                    mean[0, :k],
                    np.repeat(variance + noise, k),
                    self.mean[i, :k],
                    np.repeat(self.variance[i] + noise, k),
                ).mean()
            )
        return total / len(self.probes)


def choose(
    kernel: Kernel,
    data: TrainingSet,
    request: Request,
    n_jobs: int | None,
    rng: np.random.RandomState,
    progress: Callable[[str, float, float], None] | None = None,
) -> Choice:
    """Fewest neighbours that meet the tolerance at the probes, or the exact process where that is cheaper."""
    n = len(data.X)
    if n <= SMALL:
        return Choice(exact(kernel), 0.0, 0.0, True, f"{n} points are few enough for the exact Gaussian process")
    worlds = _make_worlds(kernel, data, request.tolerance, n_jobs, rng)
    counts = [c for c in COUNTS if 1.5 * c <= worlds[0].n_near]
    trials: list[Trial] = []

    def cost_of(candidate: Candidate) -> float:
        return n * float(np.mean([world.cost(candidate) for world in worlds]))

    def measure(candidate: Candidate) -> Trial:
        values = np.array(thread_map(lambda world: world.divergence(candidate), worlds, n_jobs))
        error = float(values.std(ddof=1) / len(values) ** 0.5)
        trials.append(Trial(candidate, float(values.mean()), error, cost_of(candidate)))
        if progress is not None:
            progress("tuning", min(len(trials) / 5, 1.0), trials[-1].divergence)
        return trials[-1]

    def meets(trial: Trial) -> bool:
        # Two standard errors: most of the distance may come from few places, which the probes may have missed.
        return trial.divergence + 2 * trial.error <= SHARE * request.tolerance

    best: Trial | None = None
    low, high = 0, len(counts) - 1
    while low <= high:
        middle = (low + high) // 2
        trial = measure(_candidate(kernel, counts[middle], CELL_SHARES[0]))
        if meets(trial):
            best, high = trial, middle - 1
        else:
            low = middle + 1
    if best is not None:
        others = [_candidate(kernel, count, CELL_SHARES[1]) for count in counts[low : low + 2]]
        if not request.kernel_space:
            others += _with_features(kernel, worlds, counts[low])
        for candidate in others:
            if cost_of(candidate) < best.cost:
                trial = measure(candidate)
                best = trial if meets(trial) else best
    n_probes = sum(len(world.probes) for world in worlds)
    if n <= MAX_EXACT and (best is None or best.cost > exact_cost(n)):
        why = "it is the cheapest" if best is not None else "nothing cheaper meets the tolerance"
        return Choice(exact(kernel), 0.0, 0.0, True, why, tuple(trials), n_probes)
    met = best is not None
    chosen = best or min(trials, key=lambda t: t.divergence)
    reason = CHEAPEST if met else CLOSEST
    return Choice(chosen.candidate, chosen.divergence, chosen.error, met, reason, tuple(trials), n_probes)


def _candidate(kernel: Kernel, count: int, share: int) -> Candidate:
    plan = Plan(kernel, None, None, count=count)
    return Candidate(np.inf, plan, f"the {count} nearest points in kernel space", _cell_points(count, share))


def _with_features(kernel: Kernel, worlds: list[NearWorld], count: int) -> list[Candidate]:
    """Candidates with features, whose radius holds about the number of neighbours found to be needed."""
    d = worlds[0].X.shape[1]
    if d > 3 or kernel.length_scales.shape[1] > 1:
        return []
    reach = [
        np.partition(np.sum((w.X - p) ** 2, axis=1), count - 1)[count - 1] ** 0.5 for w in worlds for p in w.probes
    ]
    candidates = []
    for wider, ratio, richness in FAMILIES:
        radius = float(f"{wider * np.median(reach):.3g}")
        degree = int(np.ceil(richness * radius**2))
        if n_monomials(d, degree) > MAX_COLUMNS:
            continue
        features = make_features(kernel, d, radius, degree)
        # Where there are fewer points than half of what is needed, the nearest are taken, in kernel space.
        plan = Plan(kernel, radius, features, count=count // 2)
        label = "Taylor features of degrees " + ", ".join(str(p) for p in features.degrees)
        candidates.append(Candidate(float(f"{ratio * radius:.3g}"), plan, label))
    return candidates


def _cell_points(count: int, share: int) -> int:
    return max(count // share, 4)


def _make_worlds(
    kernel: Kernel, data: TrainingSet, tolerance: float, n_jobs: int | None, rng: np.random.RandomState
) -> list[NearWorld]:
    n, d = data.X.shape
    size = min(1200 if tolerance >= 5e-4 else 2000, n - PROBES)
    seeds = rng.choice(n, WORLDS, replace=False)
    directions = rng.standard_normal((WORLDS, PROBES, d))
    directions *= rng.random_sample((WORLDS, PROBES, 1)) ** (1 / d) / np.linalg.norm(directions, axis=-1, keepdims=True)
    others = rng.random_sample((WORLDS, PROBES - 1))
    # What long scales say comes from afar, where the nearest points may all lie on one side.
    pool = rng.choice(n, min(n, 5000), replace=False)
    plan = Plan(kernel, None, None)

    def one(i: int) -> NearWorld:
        origin = data.X[seeds[i]]
        found = data.tree.query(origin[None], k=size + PROBES, return_distance=False)[0]
        found = np.concatenate([[seeds[i]], found[found != seeds[i]]])
        # Beside the point itself, a few of its near neighbours are set aside too.
        places = np.unique(np.concatenate([[0], 1 + (others[i] * min(100, size // 4)).astype(np.int64)]))
        aside, kept = found[places], np.delete(found, places)
        far = np.setdiff1d(pool, found)
        far = far[np.argsort(np.sum((data.X[far] - origin) ** 2, axis=1))]
        ranks = np.unique(np.geomspace(1, max(len(far), 1), FAR).astype(np.int64))[: len(far)] - 1
        n_near, kept = len(kept), np.concatenate([kept, far[ranks]])
        X, y, noise = data.X[kept] - origin, data.y[kept], data.noise[kept]
        probes = data.X[aside] - origin
        mean, variance = mean_and_variance(plan, fit_one(plan, X, y, noise), probes)
        return NearWorld(X, y, noise, probes, data.noise[aside], mean, variance, directions[i, : len(probes)], n_near)

    return thread_map(one, range(WORLDS), n_jobs)
