"""The choice of spacing, radius and features by measurement.

Candidates are measured at probes (see `probes`), cheapest first, until one meets the tolerance: the mean KL divergence
per test point from the exact Gaussian process. Small data end with the exact process itself, smooth data with a
single centre.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils.random import sample_without_replacement

from ..common import memory
from ..common.threads import few_threads, n_threads, thread_map
from ..common.types import Booleans, Floats, Integers
from ..features import taylor
from ..kernels import Kernel
from . import exact_budget
from .choices import MEAN_PER_POINT, Candidate, Choice, Request, Trial, without_measuring
from .distance import Distance
from .expected import (
    DENSITY_WITHIN,
    DIGITS_AT_3,
    EVEN,
    FAIRLY_EVEN,
    MAX_FEATURES,
    RADII,
    RATIO,
    RICHNESS,
    digits_in_gaps,
    evenness,
    radius_for,
)
from .features import LocalFeatures
from .measurements import Measurements
from .neighbourhoods import TrainingSet
from .one_center import OneCenterSearch, maclaurin_features
from .plan import Plan
from .probes import ProbeNeighbourhood, cell_radius, divergences, gap_neighbourhoods, make_neighbourhoods
from .thinning import MAX_AVERAGED_COLUMNS

FIRST = 0.25  # and as much more as the tolerance has digits: the radius that is tried first elsewhere
FIRST_FEATURES = 300  # of what is tried first, at most: more take long to measure, and may not be needed
UNEVEN = 1.0  # by how much neighbourhoods must be larger where they are not
FEW_NEIGHBOURHOODS, LUCKY_SHARE = 4.0, 0.4  # that would hold all data; share of what is tolerated elsewhere
BLENDED_SHARE = 0.75  # see `Measurements.share`: centres measured one by one are farther off than blended ones
STEP = 0.17  # powers of ten that the divergence falls by from one of the radii to the next, about,
SAVED = 0.2  # and the share that the next smaller one costs less
PER_PROBE, PER_CUBE = 2e6, 0.15  # operations that it takes to measure a candidate at a probe, and per cubed feature
MARGIN = 0.75  # length scales, by which the neighbourhoods of probes are larger than those of what is chosen
BEYOND = 2.0  # times the cost of an exact mean, which it takes less time than
ROOM, MORE_ROOM = 1.5, 2.25  # length scales, from the radius tried first to the end of the neighbourhoods of probes
LEAST, MOST = 12, 48  # neighbourhoods that choose; the figure is from up to twice as many
DRAWN = 4  # draws of the process that are targets, beside those there are
GAPS, OUTLYING_PROBES = 48, 12  # places in gaps that are measured, and points far from all others
LACK = 1e-4  # share of a long scale's variance that its features may lack at the end of the neighbourhood


def choose(
    kernel: Kernel,
    data: TrainingSet,
    request: Request,
    n_jobs: int | None,
    rng: np.random.RandomState,
    progress: Callable[[str, float, float], None] | None = None,
    n_samples: int | None = None,
    worlds: Callable[..., list[ProbeNeighbourhood]] = make_neighbourhoods,
) -> Choice:
    """Cheapest candidate that meets the tolerance at the probes.

    Where `data` are but a sample, `n_samples` is the number of all points, and `worlds` makes the neighbourhoods of
    probes from them, as `make_neighbourhoods` does.
    """
    n = len(data.X) if n_samples is None else n_samples
    free = request.spacing is None and request.radius is None and request.features is None
    if free and exact_budget.is_preferred(n, data.X.shape[1], request.budget.seconds):
        return without_measuring(kernel, n)
    given = (kernel, data, request, n_jobs, rng, progress, n)
    radius = _reference_radius(request, kernel.variance / max(data.typical_noise, 1e-12 * kernel.variance))
    search: Measurements
    if free and data.X.shape[1] > 3 and _shares_within(data, radius, rng).mean() > 0.2:
        search = OneCenterSearch(*given)
    else:
        search = RadiusSearch(*given, radius=radius, make=worlds)
    return search.choose(may_be_exact=free)


def _shares_within(data: TrainingSet, radius: float, rng: np.random.RandomState) -> Floats:
    """Shares of the data within `radius` of some of the points, themselves included; shape (40,) or less."""
    queries = data.X[sample_without_replacement(len(data.X), min(len(data.X), 40), random_state=rng)]
    result: Floats = data.counts(queries, radius) / len(data.X)
    return result


def _reference_radius(request: Request, signal_to_noise: float) -> float:
    """Radius of the first neighbourhoods of probes: one that a candidate for the tolerance will not need to reach."""
    if request.radius is not None:
        return request.radius + 2.0
    farther = 0.5 * np.log10(max(signal_to_noise, 10.0) / 10.0)  # less noise lets points farther away be heard
    return float(np.clip(2.75 + 0.66 * _digits(request) + farther, 4.0, 8.0))


def _digits(request: Request) -> float:
    """How many digits are asked for: half of them where only variances are, since their errors count squared."""
    return float(-np.log10(request.tolerance)) * (0.5 if request.exact_mean else 1.0)


class RadiusSearch(Measurements):
    """Candidates whose neighbourhoods are all points within a radius.

    Parameters
    ----------
    radius : float
        Of the neighbourhoods of the probes.
    make : callable
        See `probes.make_neighbourhoods`.
    """

    probed: list[ProbeNeighbourhood]

    def __init__(self, *given: Any, radius: float, make: Callable[..., list[ProbeNeighbourhood]]) -> None:
        super().__init__(*given)
        # Averages are so few that hardly anything is left to do side by side.
        self.n_jobs = 1 if self.data.X.shape[1] <= MAX_AVERAGED_COLUMNS else few_threads(self.n_jobs)
        self.radius, self.make = radius, make
        self._sizes_within: dict[float, Floats] = {}  # see `_sizes`
        self._made: dict[tuple[int, float], list[ProbeNeighbourhood]] = {}  # see `make_probed`
        self.gaps: Floats = self.data.X[:0]  # places in gaps, by which candidates are chosen where there are any
        self._probed_in_gaps: list[ProbeNeighbourhood] = []
        self._evenness = 1.0
        self._wanted = 0.0  # radius that the last trial asks for
        self._is_beyond = False  # whether that would cost more than an exact mean
        self._probed_outlying: list[ProbeNeighbourhood] = []
        self._trials_in_gaps: dict[Plan, Trial] = {}
        self._trials_outlying: dict[Plan, Trial] = {}
        self.gap_errors = 2.0  # standard errors that there must be room for in gaps
        self.gap_share = 1.0  # of the tolerance that the figure with them may take up
        if self.request.exact_mean:  # most of the work is done by then: variances may as well be safe
            self.share, self.gap_share = 0.4, 0.5
        self.step = 2 * STEP if self.request.exact_mean else STEP  # errors of variances count squared

    def make_probed(self, group: int) -> list[ProbeNeighbourhood]:
        """See `Measurements`; made once for each radius."""
        if (group, self.radius) in self._made:
            return self._made[group, self.radius]
        # Many where they are small and hold few probes each, fewer where each costs a large factorisation; twice as
        # many to confirm, where they are small, or not blended, which costs more. The harmonic mean of the sizes gives
        # more of them where dense and sparse places alternate, as most of the distance may come from a few sparse ones.
        sizes = self._sizes()
        n = int(np.clip(12_000 * np.mean(1 / sizes), LEAST, MOST if group == 0 else 2 * MOST))
        n *= 1 if group == 0 or self.request.blend else 2
        # How far off variances are is no matter of luck, and few places tell it.
        n = n if group == 0 or self._evenness > FAIRLY_EVEN or self.request.exact_mean else max(n, 2 * LEAST)
        self._made[group, self.radius] = self._neighbourhoods(self.probe_rows[group], n)
        return self._made[group, self.radius]

    def _neighbourhoods(self, rows: Integers, n: int) -> list[ProbeNeighbourhood]:
        """Neighbourhoods of `n` of the rows."""
        given = (self.kernel, self.data, rows, self.radius, n, self.n_jobs, self.rng)
        further: dict[str, Any] = {
            "tolerance": self.request.tolerance,
            "n_drawn": self.n_drawn,
            "onto": self.request.onto,
        }
        if self.whole is not None:
            further["whole"] = self.whole
        return self.make(*given, **further)

    def _sizes(self, radius: float | None = None) -> Floats:
        """Numbers of points within a radius of some of the data; without one, in the neighbourhoods of probes."""
        radius = self.radius if radius is None else radius
        if radius not in self._sizes_within:
            self._sizes_within[radius] = _shares_within(self.data, radius, self.rng) * self.n_samples
        return self._sizes_within[radius]

    @property
    def n_drawn(self) -> int:
        """Draws of the process that are further targets; none where only variances are measured."""
        return 0 if self.request.exact_mean else DRAWN

    def divergences(self, candidate: Candidate, probed: Sequence[Any], blended: bool) -> Floats:
        """See `Measurements`."""
        n_jobs = 1 if candidate.plan.is_quick else self.n_jobs
        batches = memory.batches(len(probed), -(-len(probed) // n_threads(n_jobs)))
        given = (candidate, blended, self.request.tolerance)
        return np.concatenate(thread_map(lambda batch: divergences(probed[batch], *given), batches, n_jobs), axis=1)

    # ---- candidates ----------------------------------------------------------------------------------------------

    def candidate(self, spacing: float, radius: float, richness: float) -> Candidate | None:
        """Candidate of a family: `richness` is the degree over the squared radius, or the rank of a column number."""
        request = self.request
        d = self.data.X.shape[1]
        if request.kernel_space:
            features, label = None, "the kernel matrix of each neighbourhood"
        elif request.features is not None:
            features = request.features(self._sample(radius))
            label = f"{features.n_components} features"
        elif d <= 3 or taylor.n_monomials(d, int(np.ceil(richness * radius**2))) <= 128:
            degree = int(np.ceil(richness * radius**2))
            if taylor.n_monomials(d, degree) <= MAX_FEATURES:
                features, label = taylor_features(self.kernel, d, radius, degree), f"Taylor features of degree {degree}"
            elif self._neighbours(radius) <= MAX_FEATURES:
                features, label = None, "the kernel matrix of each neighbourhood"
            else:
                return None
        else:
            columns = 512 if richness > 1 else 256
            features = maclaurin_features(self.kernel, self._sample(radius), columns, self.rng)
            label = f"{features.n_components} Maclaurin features"
        given = (self.kernel, radius, features, request.correction)
        plan = Plan(*given, feature_speed=request.speeds.features, n_sides=request.n_sides)
        return Candidate(spacing, plan, label)

    def _neighbours(self, radius: float) -> float:
        """Points within `radius` of a probe, on average over the probes."""
        return float(np.mean([p.sample.points_at(_within(p.sample.X, radius)) for p in self.probed]))

    def _sample(self, radius: float) -> Floats:
        """Relative positions within neighbourhoods."""
        parts = []
        for probed in self.probed:
            inside = probed.sample.X[_within(probed.sample.X, radius)]
            parts.append(inside[self.rng.permutation(len(inside))[:40]])
        return np.concatenate(parts)

    # ---- searching -----------------------------------------------------------------------------------------------

    def search(self) -> Trial | None:
        """See `Measurements`."""
        sizes = self._sizes()
        self._evenness = evenness(sizes)
        if self._evenness <= EVEN:
            self.radius += UNEVEN if self.request.radius is None else 0.0
        elif self.request.blend and not self.request.exact_mean:  # few probes tell as much as many
            self.share, self.gap_errors = BLENDED_SHARE, 1.5
        if self.n_samples * np.mean(1 / sizes) < FEW_NEIGHBOURHOODS:
            # How far off the mean will be is a matter of luck, with so few places that do not depend on each other.
            self.share, self.gap_share = LUCKY_SHARE * self.share, LUCKY_SHARE * self.gap_share
        if self.request.radius is not None:
            self.probed = self.make_probed(0)
            trials = [self.measure(candidate) for candidate in self._of_fixed_radius()]
            return min((t for t in trials if self.meets(t)), key=lambda t: t.cost, default=self.closest())
        self.gaps = self._gap_places()
        first = self._first_radius()
        if len(self.gaps):  # which ask for more than other places do, and so they choose
            self.share, self.n_errors = self.gap_share, self.gap_errors
        room = ROOM if self._evenness > EVEN else MORE_ROOM
        if self.data.X.shape[1] in DIGITS_AT_3:
            self.radius = min(first + room, 9.0)
        self.probed = self._make_choosing()
        best: Trial | None = None
        while True:
            best = self._smallest_radius(first) or best
            if best is None or best.candidate.plan.radius is None or self.radius >= 9.0 or self._is_beyond:
                break
            if self.meets(best) and best.candidate.plan.radius <= self.radius - MARGIN:
                break
            # The neighbourhoods of the probes were too small to judge: what was measured in them is forgotten.
            first = self._wanted
            self.radius = min(max(first + room, self.radius + MARGIN), 9.0)
            self.trials.clear()
            self.probed = self._make_choosing()
        if best is not None and self.meets(best) and self._is_worth_measuring(best, SAVED / 3):
            for candidate in self._variations(best):
                cost = np.inf if candidate is None else self.cost(candidate)
                if candidate is not None and cost < best.cost:
                    trial = self.measure(candidate, cost)
                    if self.meets(trial):
                        best = trial
        return best

    def _make_choosing(self) -> list[ProbeNeighbourhood]:
        """Neighbourhoods of the probes that choose: those in gaps where there are any."""
        self._probed_in_gaps = self._in_gaps() if len(self.gaps) else []
        self._probed_outlying = self._around_outlying() if len(self.gaps) else []
        return self._probed_in_gaps or self.make_probed(0)

    def cost(self, candidate: Candidate) -> float:
        """See `Measurements`; by counts of neighbours where probes are in gaps."""
        plan, d = candidate.plan, self.data.X.shape[1]
        if self.probed is not self._probed_in_gaps or plan.radius is None:
            return super().cost(candidate)
        near, in_cell = (self._sizes(r) for r in (plan.radius, cell_radius(d) * candidate.spacing))
        features = np.inf if plan.features is None else plan.features_cost(near)
        fit = np.minimum(plan.kernel.n_scales * plan.kernel_cost(near), features)
        predict = plan.prediction_cost(near if plan.features is None else None)
        return self.n_samples * float(np.mean(fit / in_cell + predict))

    def measure(self, candidate: Candidate, cost: float | None = None) -> Trial:
        """See `Measurements`."""
        in_gaps = self.probed is self._probed_in_gaps
        cost = self.cost(candidate) if cost is None else cost
        trial = self._measure(candidate, self.probed, cost, in_gaps and self.request.blend)
        if not in_gaps:
            return trial
        self._trials_in_gaps[trial.candidate.plan] = trial
        share, outlying = self.outlying(candidate) if self.meets(trial) else (0.0, None)
        if outlying is None:
            return trial
        half = Distance().plus(outlying.distance, 2 * share)  # half of the tolerance is for them
        if half.binding.upper > trial.distance.binding.upper:
            self.trials[-1] = trial = replace(trial, distance=half)
        return trial

    def meets(self, trial: Trial) -> bool:
        """See `Measurements`; probes in gaps both choose and tell, and so the bounds have to hold."""
        if self.probed is self._probed_in_gaps:
            return trial.distance.within(self.gap_share * self.request.tolerance)
        return super().meets(trial)

    def outlying(self, candidate: Candidate, gaps: Trial | None = None) -> tuple[float, Trial | None]:
        """See `Measurements`."""
        del gaps
        if not self._probed_outlying:
            return 0.0, None
        if candidate.plan not in self._trials_outlying:
            self._trials_outlying[candidate.plan] = self.measure_at(candidate, self._probed_outlying)
        return self.places.outlying[1], self._trials_outlying[candidate.plan]

    def _first_radius(self) -> float:
        """Radius at which the tolerance will be met, about, by what is known of even data."""
        d, digits = self.data.X.shape[1], _digits(self.request)
        if d not in DIGITS_AT_3 or self.request.exact_mean:
            return FIRST + digits
        digits += digits_in_gaps(self._sizes()) if len(self.gaps) else 0.0
        most = max(r for r in RADII if taylor.n_monomials(d, int(np.ceil(RICHNESS * r**2))) <= FIRST_FEATURES)
        return min(radius_for(self.kernel, self.data, digits, self._sizes(DENSITY_WITHIN)), most)

    def _is_worth_measuring(self, trial: Trial, share: float) -> bool:
        """Whether to measure another candidate, which would save this share of the cost of one."""
        features = trial.candidate.plan.features
        near = trial.candidate.plan.radius or np.inf
        D = self._neighbours(near) if features is None else features.n_components
        return share * trial.cost > self.request.speeds.models * len(self.probed) * (PER_PROBE + PER_CUBE * D**3)

    def larger(self, candidate: Candidate) -> Iterator[Candidate]:
        """See `Measurements`."""
        while (wider := self._wider(candidate)) is not None and (wider.plan.radius or 0.0) <= self.radius:
            yield wider
            candidate = wider

    def _wider(self, candidate: Candidate) -> Candidate | None:
        """Candidate with the next larger radius; None where there is none."""
        if self.request.radius is not None or candidate.plan.radius is None:
            return None
        radius = candidate.plan.radius + 0.25
        return self.candidate(self._spacing(radius), radius, RICHNESS) if radius <= RADII[-1] else None

    def search_gaps(self, candidate: Candidate) -> tuple[Candidate, Trial | None]:
        """See `Measurements`."""
        if self.request.radius is not None:
            self.gaps = self._gap_places()
        if len(self.gaps) == 0:
            return candidate, None
        if candidate.plan not in self._trials_in_gaps:
            probed = self._probed_in_gaps or self._in_gaps()
            self._trials_in_gaps[candidate.plan] = self.measure_at(candidate, probed)
        return candidate, self._trials_in_gaps[candidate.plan]

    def _gap_places(self) -> Floats:
        """Some places in gaps of the data, (m, d); none where they cannot be known."""
        return self.places.in_gaps(GAPS, self.rng) if self.make is make_neighbourhoods else self.data.X[:0]

    def _around_outlying(self) -> list[ProbeNeighbourhood]:
        """Neighbourhoods of points that are far from all others."""
        rows, _ = self.places.outlying
        return self._neighbourhoods(rows, OUTLYING_PROBES) if len(rows) else []

    def _in_gaps(self) -> list[ProbeNeighbourhood]:
        given = (self.kernel, self.data, self.gaps, self.radius, self.n_jobs, self.rng)
        return gap_neighbourhoods(*given, self.request.tolerance, self.n_drawn)

    def _smallest_radius(self, first: float) -> Trial | None:
        """Cheapest trial down to the smallest radius at which the plain family meets the tolerance, or the closest.

        Each trial tells about where to go on, within what those before have left, until there is little left to gain.
        """
        low, high = 0, int(np.searchsorted(RADII, self.radius - 0.5, side="right")) - 1
        best: Trial | None = None
        tried = self._wanted > 0.0
        guess = int(np.argmin(np.abs(np.array(RADII) - first)))
        while low <= high:
            at = int(np.clip(guess, low, high))
            candidate = self.candidate(self._spacing(RADII[at]), RADII[at], RICHNESS)
            if candidate is None:  # as are all larger ones
                high = at - 1
                continue
            self._is_beyond = best is None and tried and self._costs_more_than_an_exact_mean(candidate)
            if self._is_beyond:  # an exact mean will take less
                break
            trial, tried = self.measure(candidate), True
            if self.meets(trial):
                best, high = trial, at - 1
            else:
                low = at + 1
            excess = (trial.divergence + self.n_errors * trial.error) / (self.share * self.request.tolerance)
            steps = np.log10(max(excess, 1e-12)) / self.step
            guess = at + int(np.ceil(steps) if steps > 0 else np.floor(steps))
            self._wanted = RADII[int(np.clip(guess, 0, len(RADII) - 1))]
            if best is trial and not self._is_worth_measuring(trial, 1.0 - (1.0 - SAVED) ** (at - max(guess, low))):
                break
            if best is None and guess < len(RADII) and RADII[guess] > self.radius - MARGIN < 8.0:
                break  # the neighbourhoods are too small to judge what it takes
        if best is None:
            return self.closest()
        return min((t for t in self.trials if self.meets(t)), key=lambda t: t.cost)  # cells of a larger one are, too

    def _costs_more_than_an_exact_mean(self, candidate: Candidate) -> bool:
        cost = self.cost(candidate)
        return cost > BEYOND * MEAN_PER_POINT * self.n_samples and cost > BEYOND * self.request.limit

    def _spacing(self, radius: float, ratio: float = RATIO) -> float:
        return self.request.spacing if self.request.spacing is not None else round(ratio * radius, 2)

    def _variations(self, best: Trial) -> Iterable[Candidate | None]:
        """Neighbours of a candidate in spacing and degree that may be cheaper."""
        radius = best.candidate.plan.radius
        assert radius is not None
        for ratio, larger, richness in (
            (0.7, 0.0, 1.1),
            (0.6, 0.0, 1.0),
            (0.6, 0.25, 0.9),
            (0.5, 0.0, 0.9),
        ):
            yield self.candidate(self._spacing(radius + larger, ratio), radius + larger, richness)

    def _of_fixed_radius(self) -> list[Candidate]:
        radius = self.request.radius
        assert radius is not None
        levels: tuple[float, ...] = (0.8, 1.1, 1.4)
        if self._richest(radius) < levels[0]:  # the radius asks for more features than there may be
            levels = (self._richest(radius),)
        if self.request.features is not None or self.request.kernel_space:
            levels = levels[:1]
        options = (self.candidate(self._spacing(radius), radius, richness) for richness in levels)
        return [candidate for candidate in options if candidate is not None]

    def _richest(self, radius: float) -> float:
        """Richness of the largest degree that `MAX_FEATURES` allows."""
        d, degree = self.data.X.shape[1], 1
        while taylor.n_monomials(d, degree + 1) <= MAX_FEATURES:
            degree += 1
        return (degree - 0.5) / radius**2


def _within(X: Floats, radius: float) -> Booleans:
    """Which rows of `X` (n, d) are within `radius` of the origin."""
    result: Booleans = np.sum(X**2, axis=1) <= radius**2
    return result


def taylor_features(kernel: Kernel, d: int, radius: float, degree: int) -> LocalFeatures:
    """Taylor features of `degree` for the shortest scale, and of the degrees that longer ones need within `radius`."""
    degrees = [degree]
    for scales in kernel.length_scales[1:]:
        squares = np.array([(radius / scales.min()) ** 2])
        enough = (p for p in range(1, degree) if taylor.squared_norms(p, squares)[0] > 1 - LACK)
        degrees.append(next(enough, degree))
    return LocalFeatures.of(kernel, tuple(taylor.sample(d, p) for p in degrees))
