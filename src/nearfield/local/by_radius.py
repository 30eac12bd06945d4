"""The choice of spacing, radius and features by measurement.

Candidates are measured at probes (see `probes`), cheapest first, until one meets the tolerance: the mean KL divergence
per test point from the exact Gaussian process. Small data end with the exact process itself, smooth data with a
single centre.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import numpy as np

from ..common.threads import thread_map
from ..common.types import Floats
from ..features import maclaurin, taylor
from ..kernels import Kernel
from .choices import CHEAPEST, CLOSEST, MAX_EXACT, SMALL, Candidate, Choice, Request, Trial, exact, exact_cost
from .features import LocalFeatures
from .neighbourhoods import TrainingSet
from .plan import Plan, feature_cost, kernel_cost
from .probes import World, cell_radius, make_subset_worlds, make_worlds

MAX_COLUMNS = 1300
MARGIN = 0.6  # share of the tolerance that a figure may take up: it comes from few probes
RADII = (1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 5.5, 6.0, 7.0, 8.0)
LACK = 1e-4  # share of a long scale's variance that its features may lack at the end of the neighbourhood
MACLAURIN_COLUMNS = (16, 32, 64, 128, 256, 512, 1024, 2048)
SUBSET, SUBSET_PROBES = 3000, 100
EXTRAPOLATED = 0.2  # share of a figure taken for its error where it is extrapolated from subsets


def choose(
    kernel: Kernel,
    data: TrainingSet,
    request: Request,
    n_jobs: int | None,
    rng: np.random.RandomState,
    progress: Callable[[str, float, float], None] | None = None,
    n_samples: int | None = None,
    worlds: Callable[..., list[World]] = make_worlds,
) -> Choice:
    """Cheapest candidate that meets the tolerance at the probes.

    Where `data` are but a sample, `n_samples` is the number of all points, and `worlds` finds them around probes.
    """
    d = data.X.shape[1]
    n = len(data.X) if n_samples is None else n_samples
    free = request.spacing is None and request.radius is None and request.features is None
    if n <= SMALL and free:
        return Choice(exact(kernel), 0.0, 0.0, True, f"{n} points are few enough for the exact Gaussian process")
    bench = _Bench(kernel, data, request, n_jobs, rng, progress, n, worlds)
    radius = _reference_radius(request)
    if free and d > 3 and _share_within(data, radius, rng) > 0.2:
        best = bench.search_one_center()
    else:
        bench.open(radius)
        best = bench.search()
    sure = best is not None and bench.meets(best)
    if free and n <= MAX_EXACT and not (sure and best is not None and best.cost < exact_cost(n)):
        why = "it is the cheapest" if sure else "nothing cheaper meets the tolerance"
        return Choice(exact(kernel), 0.0, 0.0, True, why, tuple(bench.trials), bench.n_probes)
    assert best is not None
    met = sure or best.divergence <= request.tolerance  # without room for the error of measurement, but met
    reason = CHEAPEST if sure else CLOSEST
    return Choice(best.candidate, best.divergence, best.error, met, reason, tuple(bench.trials), bench.n_probes)


def _one_center_cost(n: float, columns: int) -> float:
    """Operations of one centre's features with as many test points as training points."""
    return feature_cost(n, columns) + 2.0 * n * columns**2


def _share_within(data: TrainingSet, radius: float, rng: np.random.RandomState) -> float:
    """Share of the data within `radius` of a typical point."""
    queries = data.X[rng.choice(len(data.X), min(len(data.X), 20), replace=False)]
    counts = data.tree.query_radius(queries, radius, count_only=True)
    return float(np.mean(counts)) / len(data.X)


def _reference_radius(request: Request) -> float:
    """Radius of the first worlds: one that a candidate for the tolerance will not need to reach."""
    if request.radius is not None:
        return request.radius + 2.0
    return float(np.clip(2.75 - 0.66 * np.log10(request.tolerance), 4.0, 8.0))


@dataclass(eq=False)
class _Bench:
    """Worlds, and candidates measured in them."""

    kernel: Kernel
    data: TrainingSet
    request: Request
    n_jobs: int | None
    rng: np.random.RandomState
    progress: Callable[[str, float, float], None] | None
    n_samples: int
    make_worlds: Callable[..., list[World]]
    worlds: list[World] = field(default_factory=list)
    radius: float = 0.0
    trials: list[Trial] = field(default_factory=list)

    @property
    def n_probes(self) -> int:
        return sum(len(world.probes) for world in self.worlds)

    def open(self, radius: float) -> None:
        """Make worlds of a radius, and forget what was measured in smaller ones."""
        self.radius = radius
        self.trials.clear()
        self.worlds = self.make_worlds(self.kernel, self.data, radius, self._n_worlds(), self.n_jobs, self.rng)

    def _n_worlds(self) -> int:
        """Many where they are small and each holds few probes; fewer where each costs a large factorisation."""
        size = _share_within(self.data, self.radius, self.rng) * self.n_samples
        return int(np.clip(24_000 / max(size, 1.0), 24, 96))

    # ---- candidates ----------------------------------------------------------------------------------------------

    def candidate(self, spacing: float, radius: float, richness: float) -> Candidate | None:
        """Candidate of a family: `richness` is the degree over the squared radius, or the rank of a column number."""
        request = self.request
        d = self.data.X.shape[1]
        if request.kernel_space:
            features, label = None, "kernel space"
        elif request.features is not None:
            features = request.features(self._sample(radius))
            label = f"{features.n_components} features"
        elif d <= 3 or taylor.n_monomials(d, int(np.ceil(richness * radius**2))) <= 128:
            degree = int(np.ceil(richness * radius**2))
            if taylor.n_monomials(d, degree) <= MAX_COLUMNS:
                features, label = taylor_features(self.kernel, d, radius, degree), f"Taylor features of degree {degree}"
            elif self._neighbours(radius) <= MAX_COLUMNS:
                features, label = None, "kernel space"
            else:
                return None
        else:
            columns = 512 if richness > 1 else 256
            features = _maclaurin(self.kernel, self._sample(radius), columns, self.rng)
            label = f"{features.n_components} Maclaurin features"
        plan = Plan(self.kernel, radius, features, correction=request.correction)
        return Candidate(spacing, plan, label)

    def _neighbours(self, radius: float) -> float:
        """Points within `radius` of a probe, on average over the probes."""
        return float(np.mean([w.counts[np.sum(w.X**2, axis=1) <= radius**2].sum() for w in self.worlds]))

    def _sample(self, radius: float) -> Floats:
        """Relative positions within neighbourhoods."""
        parts = []
        for world in self.worlds:
            inside = world.X[np.sum(world.X**2, axis=1) <= radius**2]
            parts.append(inside[self.rng.permutation(len(inside))[:40]])
        return np.concatenate(parts)

    # ---- measuring -----------------------------------------------------------------------------------------------

    def measure(self, candidate: Candidate) -> Trial:
        """Divergence and cost of a candidate."""
        values = np.array(
            thread_map(lambda world: world.divergence(candidate.plan, candidate.spacing), self.worlds, self.n_jobs)
        )
        trial = Trial(
            candidate,
            float(values.mean()),
            float(values.std(ddof=1) / len(values) ** 0.5) if len(values) > 1 else 0.0,
            self.cost(candidate),
        )
        return self._recorded(trial)

    def _recorded(self, trial: Trial) -> Trial:
        """The trial, remembered and shown."""
        self.trials.append(trial)
        if self.progress is not None:
            self.progress("tuning", min(len(self.trials) / 10, 1.0), trial.divergence)
        return trial

    def cost(self, candidate: Candidate) -> float:
        """Operations for all centres and as many test points as training points, from the densities at the probes."""
        n = self.n_samples
        total = 0.0
        reach = cell_radius(self.data.X.shape[1]) * candidate.spacing
        features = candidate.plan.features
        for world in self.worlds:
            center = world.center(candidate.spacing)
            distances = np.sum((world.X - center) ** 2, axis=1)
            in_cell = max(float(world.counts[distances <= reach**2].sum()), 1.0)
            radius = candidate.plan.radius
            around = float(world.counts[distances <= radius**2].sum() if radius is not None else n)
            if candidate.plan.takes_kernel_space(int(around)):
                total += kernel_cost(around) / in_cell + 2 * around**2
            else:
                assert features is not None
                total += feature_cost(around, features.n_components) / in_cell + 2 * features.n_components**2
        return total / len(self.worlds) * n

    def meets(self, trial: Trial) -> bool:
        """Whether a trial meets the tolerance, with room for the error of measurement."""
        return trial.divergence + trial.error <= MARGIN * self.request.tolerance

    # ---- searching -----------------------------------------------------------------------------------------------

    def search(self) -> Trial | None:
        """Best trial: the cheapest that meets the tolerance, or else the closest."""
        if self.request.radius is not None:
            return self._confirmed(self._measure_all(self._around_fixed_radius()))
        while True:
            best = self._climb()
            if best is None or best.candidate.plan.radius is None or self.radius >= 9.0:
                break
            if self.meets(best) and best.candidate.plan.radius <= self.radius - 1.0:
                break
            self.open(self.radius + 2.0)  # the worlds were too small to judge
        if best is not None and self.meets(best):
            for candidate in self._variations(best):
                if candidate is not None and self.cost(candidate) < best.cost:
                    trial = self.measure(candidate)
                    if self.meets(trial):
                        best = trial
        return self._confirmed(best)

    def _confirmed(self, best: Trial | None) -> Trial | None:
        """Measure the choice again in fresh worlds, since what was picked for its figure flatters; go on from there.

        Where the figure does not hold, larger neighbourhoods are tried, in all worlds.
        """
        if best is None or not self.meets(best):
            return best
        self.worlds = self.worlds + self.make_worlds(
            self.kernel, self.data, self.radius, self._n_worlds(), self.n_jobs, self.rng
        )
        dearer = [t.candidate for t in self.trials if self.meets(t) and t.cost > best.cost]
        trial = self.measure(best.candidate)
        for other in sorted(dearer, key=self.cost):
            if self.meets(trial):
                break
            trial = self.measure(other)
        radius = trial.candidate.plan.radius
        while not self.meets(trial) and self.request.radius is None and radius is not None:
            radius += 0.5
            candidate = self.candidate(self._spacing(radius), radius, 1.1) if radius <= self.radius else None
            if candidate is None:
                break
            trial = self.measure(candidate)
        return trial

    def search_one_center(self) -> Trial | None:
        """Smallest number of features around a single centre, for data that neighbourhoods cannot divide.

        Measured on random subsets of two sizes against the exact process on them, and extrapolated to all data along
        the power law through the two.
        """
        n, held = self.n_samples, len(self.data.X)
        sizes = [size for size in (SUBSET // 2, SUBSET) if size < held - SUBSET_PROBES] or [held - SUBSET_PROBES]
        worlds = make_subset_worlds(self.kernel, self.data, sizes, SUBSET_PROBES, self.rng)
        self.worlds = worlds[-1:]
        allowed = [columns for columns in MACLAURIN_COLUMNS if columns <= n / 2]
        affordable = [columns for columns in allowed if _one_center_cost(n, columns) <= exact_cost(MAX_EXACT)]
        for columns in allowed:
            trial = self._one_center(columns, worlds, sizes)
            if self.meets(trial):
                return trial
            if trial.divergence > self.request.tolerance * 10.0 ** np.log2(MACLAURIN_COLUMNS[-1] / columns):
                # Out of reach at the best rate ever seen, a tenth a doubling. What is not met is at least approached,
                # if not by the exact process.
                if n > MAX_EXACT and affordable and affordable[-1] > columns:
                    self._one_center(affordable[-1], worlds, sizes)
                break
        return min(self.trials, key=lambda trial: trial.divergence, default=None)

    def _one_center(self, columns: int, worlds: list[World], sizes: list[int]) -> Trial:
        """A number of features around a single centre, measured in worlds of so many points each."""
        n = self.n_samples
        features = _maclaurin(self.kernel, worlds[-1].X, columns, self.rng)
        plan = Plan(self.kernel, None, features, correction=self.request.correction, either_side=False)
        values = [world.divergence(plan, np.inf) for world in worlds]
        growth = 0.0
        if len(values) > 1 and min(values) > 0:
            growth = float(np.clip(np.log(values[1] / values[0]) / np.log(sizes[1] / sizes[0]), 0.0, 1.0))
        divergence = values[-1] * (n / sizes[-1]) ** growth
        label = f"one centre, {features.n_components} Maclaurin features"
        candidate = Candidate(np.inf, plan, label)
        return self._recorded(Trial(candidate, divergence, EXTRAPOLATED * divergence, _one_center_cost(n, columns)))

    def _climb(self) -> Trial | None:
        """Smallest radius, by bisection, at which the plain family meets the tolerance."""
        radii = [r for r in RADII if r <= self.radius - 0.5]
        rungs = [c for c in (self.candidate(self._spacing(r), r, 1.1) for r in radii) if c is not None]
        low, high = 0, len(rungs) - 1
        best: Trial | None = None
        closest: Trial | None = None
        guess = int(np.clip(-np.log10(self.request.tolerance), 0, high))
        while low <= high:
            trial = self.measure(rungs[guess])
            if closest is None or trial.divergence < closest.divergence:
                closest = trial
            if self.meets(trial):
                best, high = trial, guess - 1
            else:
                low = guess + 1
            guess = (low + high) // 2
        return best or closest

    def _spacing(self, radius: float, ratio: float = 0.5) -> float:
        return self.request.spacing if self.request.spacing is not None else round(ratio * radius, 2)

    def _variations(self, best: Trial) -> Iterable[Candidate | None]:
        """Neighbours of a candidate in spacing and degree that may be cheaper."""
        radius = best.candidate.plan.radius
        assert radius is not None
        for ratio, larger, richness in (
            (0.7, 0.0, 1.1),
            (0.7, 0.5, 1.1),
            (0.5, 0.0, 0.85),
            (0.6, 0.0, 1.3),
            (0.7, 0.5, 0.9),
        ):
            yield self.candidate(self._spacing(radius + larger, ratio), radius + larger, richness)

    def _around_fixed_radius(self) -> list[Candidate]:
        radius = self.request.radius
        assert radius is not None
        levels: tuple[float, ...] = (0.8, 1.1, 1.4)
        if self._richest(radius) < levels[0]:  # the radius asks for more columns than there may be
            levels = (self._richest(radius),)
        options = (self.candidate(self._spacing(radius), radius, richness) for richness in levels)
        found = [c for c in options if c is not None]
        return found[:1] if self.request.features is not None or self.request.kernel_space else found

    def _richest(self, radius: float) -> float:
        """Richness of the largest degree that `MAX_COLUMNS` allows."""
        d, degree = self.data.X.shape[1], 1
        while taylor.n_monomials(d, degree + 1) <= MAX_COLUMNS:
            degree += 1
        return (degree - 0.5) / radius**2

    def _measure_all(self, candidates: Iterable[Candidate]) -> Trial | None:
        trials = [self.measure(c) for c in candidates]
        good = [t for t in trials if self.meets(t)]
        if good:
            return min(good, key=lambda t: t.cost)
        return min(trials, key=lambda t: t.divergence) if trials else None


def taylor_features(kernel: Kernel, d: int, radius: float, degree: int) -> LocalFeatures:
    """Taylor features of `degree` for the shortest scale, and of the degrees that longer ones need within `radius`."""
    degrees = [degree]
    for scales in kernel.length_scales[1:]:
        squares = np.array([(radius / scales.min()) ** 2])
        enough = (p for p in range(1, degree) if taylor.squared_norms(p, squares)[0] > 1 - LACK)
        degrees.append(next(enough, degree))
    return LocalFeatures.of(kernel, tuple(taylor.sample(d, p) for p in degrees))


def _maclaurin(kernel: Kernel, sample: Floats, columns: int, rng: np.random.RandomState) -> LocalFeatures:
    maps = tuple(maclaurin.sample(sample / scales, columns, "rademacher", rng) for scales in kernel.length_scales)
    return LocalFeatures.of(kernel, maps)
