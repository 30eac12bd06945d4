"""The choice of spacing, radius and features by measurement.

Candidates are measured at probes (see `probes`), cheapest first, until one meets the tolerance: the mean KL divergence
per test point from the exact Gaussian process. Small data end with the exact process itself, smooth data with a
single centre.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from sklearn.utils.random import sample_without_replacement

from ..common import memory
from ..common.threads import n_threads, thread_map
from ..common.types import Booleans, Floats
from ..features import taylor
from ..kernels import Kernel
from .choices import ALWAYS_EXACT_UP_TO, Candidate, Choice, Request, Trial, without_measuring
from .features import LocalFeatures
from .measurements import Measurements
from .neighbourhoods import TrainingSet
from .one_center import OneCenterSearch, maclaurin_features
from .plan import Plan, kernel_cost, moments_cost
from .probes import ProbeNeighbourhood, cell_radius, divergences, gap_neighbourhoods, make_neighbourhoods
from .thinning import MAX_AVERAGES

MAX_FEATURES = 1300
FEW_FEATURES = 200  # of a candidate, up to which it is measured in no time
RADII = (1.5, 1.75, 2.0, 2.25, 2.5, 2.75, 3.0, 3.25, 3.5, 3.75, 4.0, 4.25, 4.5, 4.75, 5.0, 5.5, 6.0, 6.5, 7.0, 7.5, 8.0)
FIRST = 0.25  # and as much more as the tolerance has digits: the radius that is tried first
MEASURED = 150  # neighbourhoods that a choice takes, about
EVEN = 0.97  # harmonic mean of the sizes of neighbourhoods over the mean, where data are dense and even
UNEVEN = 1.0  # by how much neighbourhoods must be larger where they are not
BLENDED_SHARE = 0.75  # see `Measurements.share`: centres measured one by one are farther off than blended ones
STEP = 0.17  # powers of ten that the divergence falls by from one of the radii to the next, about
RATIO, RICHNESS = 0.6, 1.1  # of spacing and radius, of degree and squared radius, that are seldom far from the best
LEAST, MOST = 12, 48  # neighbourhoods that choose; the figure is from up to twice as many
DRAWN = 4  # draws of the process that are targets, beside those there are
GAPS = 24  # places in gaps that are measured
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
    if n <= ALWAYS_EXACT_UP_TO and free:
        return without_measuring(kernel, n)
    given = (kernel, data, request, n_jobs, rng, progress, n)
    radius = _reference_radius(request, kernel.variance / max(float(np.median(data.noise)), 1e-12 * kernel.variance))
    search: Measurements
    if free and data.X.shape[1] > 3 and _shares_within(data, radius, rng).mean() > 0.2:
        search = OneCenterSearch(*given)
    else:
        search = RadiusSearch(*given, radius=radius, make=worlds)
    return search.choose(may_be_exact=free)


def expected_cost(data: TrainingSet, tolerance: float) -> float:
    """About what a choice by radius will cost, and what it takes to find it, in the units of `Trial.cost`.

    For one Gaussian; infinite where no candidate may have as many features as would be needed.
    """
    n, d = data.X.shape
    radius = FIRST - np.log10(tolerance)
    degree = int(np.ceil(RICHNESS * radius**2))
    if d > 3 or (D := taylor.n_monomials(d, degree)) > MAX_FEATURES:
        return np.inf
    near = float(np.mean(data.counts(data.X[:: max(n // 100, 1)], radius)))
    in_cell = max(near * (RATIO * cell_radius(d)) ** d, 1.0)
    n_moments = taylor.n_monomials(d, 2 * degree)
    each = min(kernel_cost(near), moments_cost(near, D, n_moments))
    measured = MEASURED * min(kernel_cost(near), moments_cost(min(near, MAX_AVERAGES), D, n_moments))
    return float(n * each / in_cell + measured)


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
        self.radius, self.make = radius, make
        self._sizes_within: dict[float, Floats] = {}  # see `_sizes`
        self.gap_errors = 2.0  # standard errors that there must be room for in gaps
        self.gap_share = 1.0  # of the tolerance that the figure with them may take up
        if self.request.exact_mean:  # most of the work is done by then: variances may as well be safe
            self.share, self.gap_share = 0.4, 0.5
        self.step = 2 * STEP if self.request.exact_mean else STEP  # errors of variances count squared

    def make_probed(self, group: int) -> list[ProbeNeighbourhood]:
        """See `Measurements`."""
        # Many where they are small and hold few probes each, fewer where each costs a large factorisation; twice as
        # many to confirm, where they are small, or not blended, which costs more. The harmonic mean of the sizes gives
        # more of them where dense and sparse places alternate, as most of the distance may come from a few sparse ones.
        sizes = self._sizes()
        n = int(np.clip(12_000 * np.mean(1 / sizes), LEAST, MOST if group == 0 else 2 * MOST))
        n *= 1 if group == 0 or self.request.blend else 2
        given = (self.kernel, self.data, self.probe_rows[group], self.radius, n, self.n_jobs, self.rng)
        return self.make(*given, tolerance=self.request.tolerance, n_drawn=self.n_drawn, onto=self.request.onto)

    def _sizes(self) -> Floats:
        """Numbers of points in the neighbourhoods of some of the data."""
        if self.radius not in self._sizes_within:
            shares = _shares_within(self.data, self.radius, self.rng)
            self._sizes_within[self.radius] = shares * self.n_samples
        return self._sizes_within[self.radius]

    @property
    def n_drawn(self) -> int:
        """Draws of the process that are further targets; none where only variances are measured."""
        return 0 if self.request.exact_mean else DRAWN

    def divergences(self, candidate: Candidate, probed: Sequence[Any], blended: bool) -> Floats:
        """See `Measurements`."""
        features = candidate.plan.features
        # Where each takes a fraction of a millisecond, threads would but wait for each other's turn in Python.
        n_jobs = 1 if features is not None and features.n_components <= FEW_FEATURES else self.n_jobs
        batches = memory.batches(len(probed), -(-len(probed) // n_threads(n_jobs)))
        given = (candidate, blended, self.request.tolerance)
        return np.concatenate(thread_map(lambda batch: divergences(probed[batch], *given), batches, n_jobs))

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
            if taylor.n_monomials(d, degree) <= MAX_FEATURES:
                features, label = taylor_features(self.kernel, d, radius, degree), f"Taylor features of degree {degree}"
            elif self._neighbours(radius) <= MAX_FEATURES:
                features, label = None, "kernel space"
            else:
                return None
        else:
            columns = 512 if richness > 1 else 256
            features = maclaurin_features(self.kernel, self._sample(radius), columns, self.rng)
            label = f"{features.n_components} Maclaurin features"
        plan = Plan(self.kernel, radius, features, correction=request.correction)
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
        if 1 / np.mean(1 / sizes) <= EVEN * sizes.mean():
            self.radius += UNEVEN if self.request.radius is None else 0.0
        elif self.request.blend and not self.request.exact_mean:  # few probes tell as much as many
            self.share, self.gap_errors = BLENDED_SHARE, 1.5
        self.probed = self.make_probed(0)
        if self.request.radius is not None:
            trials = [self.measure(candidate) for candidate in self._of_fixed_radius()]
            return min((t for t in trials if self.meets(t)), key=lambda t: t.cost, default=self.closest())
        while True:
            best = self._smallest_radius()
            if best is None or best.candidate.plan.radius is None or self.radius >= 9.0:
                break
            if self.meets(best) and best.candidate.plan.radius <= self.radius - 1.0:
                break
            # The neighbourhoods of the probes were too small to judge: what was measured in them is forgotten.
            self.radius += 2.0
            self.trials.clear()
            self.probed = self.make_probed(0)
        if best is not None and self.meets(best):
            for candidate in self._variations(best):
                cost = np.inf if candidate is None else self.cost(candidate)
                if candidate is not None and cost < best.cost:
                    trial = self.measure(candidate, cost)
                    if self.meets(trial):
                        best = trial
        return best

    def larger(self, candidate: Candidate) -> Iterator[Candidate]:
        """See `Measurements`."""
        while (wider := self._wider(candidate, 1)) is not None and (wider.plan.radius or 0.0) <= self.radius:
            yield wider
            candidate = wider

    def _wider(self, candidate: Candidate, steps: int) -> Candidate | None:
        """Candidate with a radius that is larger by so many quarters; None where there is none."""
        if self.request.radius is not None or candidate.plan.radius is None:
            return None
        radius = candidate.plan.radius + 0.25 * steps
        return self.candidate(self._spacing(radius), radius, RICHNESS) if radius <= RADII[-1] else None

    def search_gaps(self, candidate: Candidate) -> tuple[Candidate, Trial | None]:
        """See `Measurements`."""
        places = self.places.in_gaps(GAPS, self.rng) if self.make is make_neighbourhoods else self.data.X[:0]
        if len(places) == 0:
            return candidate, None
        probed = self._in_gaps(places)
        trial, limit = self.measure_at(candidate, probed), self.gap_share * self.request.tolerance
        while trial.divergence + self.gap_errors * trial.error > limit:
            steps = max(int(np.log10(trial.divergence / limit) / self.step), 1)
            wider = self._wider(trial.candidate, steps) or self._wider(trial.candidate, 1)
            if wider is None:
                break
            if (wider.plan.radius or 0.0) > self.radius - 0.5:  # too small to judge
                self.radius += 2.0
                probed = self._in_gaps(places)
            trial = self.measure_at(wider, probed)
        return trial.candidate, trial

    def _in_gaps(self, places: Floats) -> list[ProbeNeighbourhood]:
        given = (self.kernel, self.data, places, self.radius, self.n_jobs, self.rng)
        return gap_neighbourhoods(*given, self.request.tolerance, self.n_drawn)

    def _smallest_radius(self) -> Trial | None:
        """Cheapest trial down to the smallest radius at which the plain family meets the tolerance, or the closest.

        Each trial tells about where to go on, within what those before have left.
        """
        low, high = 0, int(np.searchsorted(RADII, self.radius - 0.5, side="right")) - 1
        best: Trial | None = None
        guess = int(np.searchsorted(RADII, FIRST + _digits(self.request)))
        while low <= high:
            at = int(np.clip(guess, low, high))
            candidate = self.candidate(self._spacing(RADII[at]), RADII[at], RICHNESS)
            if candidate is None:  # as are all larger ones
                high = at - 1
                continue
            trial = self.measure(candidate)
            if self.meets(trial):
                best, high = trial, at - 1
            else:
                low = at + 1
            excess = (trial.divergence + self.n_errors * trial.error) / (self.share * self.request.tolerance)
            steps = np.log10(max(excess, 1e-12)) / self.step
            guess = at + int(np.ceil(steps) if steps > 0 else np.floor(steps))
            if best is None and guess < len(RADII) and RADII[guess] > self.radius - 1.0 < 8.0:
                break  # the neighbourhoods are too small to judge what it takes
        if best is None:
            return self.closest()
        return min((t for t in self.trials if self.meets(t)), key=lambda t: t.cost)  # cells of a larger one are, too

    def _spacing(self, radius: float, ratio: float = RATIO) -> float:
        return self.request.spacing if self.request.spacing is not None else round(ratio * radius, 2)

    def _variations(self, best: Trial) -> Iterable[Candidate | None]:
        """Neighbours of a candidate in spacing and degree that may be cheaper."""
        radius = best.candidate.plan.radius
        assert radius is not None
        for ratio, larger, richness in (
            (0.7, 0.0, 1.1),
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
