"""Candidates measured at probes, and the choice among them.

Some probes choose. What was picked for its figure flatters, so the figure that is reported comes from others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import chain
from typing import Protocol

import numpy as np

from ..common.threads import thread_map
from ..common.types import Floats, Integers
from ..kernels import Kernel
from . import distance, exact_budget
from .choices import CHEAPEST, CLOSEST, OUT_OF_TIME, Candidate, Choice, Request, Trial, exact
from .distance import Distance, Reference
from .exact_budget import exact_cost
from .gaps import MAX_COLUMNS, OUTLYING, Places
from .neighbourhoods import MANY, TrainingSet
from .references import WholeProcess

COSTED = 8  # neighbourhoods that tell what a candidate costs, which varies less than how close it is
CONFIRMATIONS = 3  # sets of probes that a choice is held against, at most
OPEN_SHARE = 0.5
"""Share of the tolerance: a figure below it holds unless its probes are too few to tell, and one above it may not."""


class _TimeIsUpError(Exception):
    """Nothing further is to be measured."""


class Probed(Protocol):
    """Where candidates are measured: around some probes."""

    @property
    def relative_error(self) -> float:
        """Share of a divergence that it may be off by, beside what the spread over neighbourhoods tells."""

    @property
    def reference(self) -> Reference:
        """Answers at the probes that can be trusted."""

    @property
    def n_probes(self) -> int:
        """Number of probes."""

    def divergence(self, candidate: Candidate, blended: bool = False) -> Floats:
        """Mean KL of a candidate over the probes, of observations and of the function.

        Where not `blended`, it may be larger, and is sooner known.
        """

    def cost(self, candidate: Candidate) -> float:
        """Operations of a candidate per training point."""


class Measurements:
    """Candidates measured at probes; a subclass knows which candidates there are, and how to make more probes.

    Attributes
    ----------
    probed : list of Probed
        What has been used to choose.
    confirming : list of Probed
        What the choice was held against.
    trials : list of Trial
    probe_rows : list of ndarray
        Groups of rows that may be probes: of those that choose, and of each confirmation. They have none in common,
        unless the data are too few to share.
    """

    share = 0.6  # of the tolerance that a figure may take up where it chooses: it comes from few probes
    n_errors = 1.0  # standard errors that there must be room for

    def __init__(
        self,
        kernel: Kernel,
        data: TrainingSet,
        request: Request,
        n_jobs: int | None,
        rng: np.random.RandomState,
        progress: Callable[[str, float, float], None] | None = None,
        n_samples: int | None = None,
    ) -> None:
        self.kernel, self.data, self.request, self.n_jobs, self.rng = kernel, data, request, n_jobs, rng
        self.progress = progress
        self.n_samples = len(data.X) if n_samples is None else n_samples
        self.probe_rows = _shared_out(len(data.X), 1 + CONFIRMATIONS, rng)
        self.probed: Sequence[Probed] = []
        self.confirming: Sequence[Probed] = []
        self.trials: list[Trial] = []

    # ---- what subclasses know ------------------------------------------------------------------------------------

    def make_probed(self, group: int) -> Sequence[Probed]:
        """Neighbourhoods of probes that are among `probe_rows[group]`: group 0 chooses, the others confirm."""
        raise NotImplementedError

    def search(self) -> Trial | None:
        """Cheapest trial that meets the tolerance at the probes that choose, or else the closest."""
        raise NotImplementedError

    def larger(self, candidate: Candidate) -> Iterable[Candidate]:
        """Candidates closer to the exact process than all that were measured, the cheapest first."""
        raise NotImplementedError

    def divergences(self, candidate: Candidate, probed: Sequence[Probed], blended: bool) -> Floats:
        """Divergences (2, m) of a candidate at the probed neighbourhoods; see `Probed`."""
        return np.stack(thread_map(lambda p: p.divergence(candidate, blended), probed, self.n_jobs), axis=1)

    def inverse_variance(self) -> float:
        """Mean of the inverse variance of the function at the probes."""
        variances = np.concatenate([each.reference.variance for each in self.confirming or self.probed])
        return float(np.mean(1 / np.maximum(variances, distance.SETTINGS.least_variance * self.kernel.variance)))

    @cached_property
    def whole(self) -> WholeProcess | None:
        """The exact process of all data as the reference, beyond three columns, where it is affordable."""
        n, d = self.data.X.shape
        if d <= MAX_COLUMNS or n < self.n_samples or n > exact_budget.affordable_up_to(self.request.budget.seconds):
            return None
        given = (self.kernel, self.data.X, self.data.y[:, :-1], self.data.noise)
        return WholeProcess.of(*given, self.rng, self.n_drawn)

    @property
    def n_drawn(self) -> int:
        """Draws of the process that are further targets."""
        return 0

    @property
    def is_verified(self) -> bool:
        """Whether references can be trusted: beyond three columns, no neighbourhood of data in memory can."""
        return self.data.X.shape[1] <= MAX_COLUMNS or len(self.data.X) < self.n_samples or self.whole is not None

    @cached_property
    def places(self) -> Places:
        """Where predictions are asked for."""
        return Places(self.data, self.request.places, self.request.onto)

    def search_gaps(self, candidate: Candidate) -> tuple[Candidate, Trial | None]:
        """The candidate, or one that does more in gaps of the data, and what was measured there; None without gaps."""
        return candidate, None

    def outlying(self, candidate: Candidate, gaps: Trial | None) -> tuple[float, Trial | None]:
        """Share of points that are far from all others, and what was measured there, which gaps may stand for."""
        del candidate
        return OUTLYING, gaps if self.request.places is None else None

    # ---- measuring -----------------------------------------------------------------------------------------------

    def cost(self, candidate: Candidate) -> float:
        """Operations for all centres and as many test points as training points."""
        return self.n_samples * float(np.mean([p.cost(candidate) for p in self.probed[:COSTED]]))

    def measure_at(self, candidate: Candidate, probed: Sequence[Probed]) -> Trial:
        """Divergence of a candidate at other probes, without a cost."""
        trial = self._measure(candidate, probed, np.nan, self.request.blend)
        self.trials.pop()  # its figure is not to be held against those of the others
        return trial

    def measure(self, candidate: Candidate, cost: float | None = None) -> Trial:
        """Divergence and cost, unless that is known, of a candidate at the probes that choose."""
        return self._measure(candidate, self.probed, self.cost(candidate) if cost is None else cost)

    def _measure(self, candidate: Candidate, probed: Sequence[Probed], cost: float, blended: bool = False) -> Trial:
        if self.trials and self.request.budget.is_over:
            raise _TimeIsUpError
        if self.request.exact_mean and not candidate.exact_mean:
            candidate = replace(candidate, exact_mean=True)
        values = self.divergences(candidate, probed, blended)
        found = Distance.of(values, probed[0].relative_error)
        trial = Trial(candidate, found, cost, float(values[0].max()))
        self.trials.append(trial)
        if self.progress is not None:
            self.progress(
                "tuning", min(len(self.trials) / 10, 0.95), trial.divergence
            )  # how many there will be is not known
        return trial

    def meets(self, trial: Trial) -> bool:
        """Whether a trial by probes that choose meets the tolerance, with room for its error and for having chosen."""
        return trial.divergence + self.n_errors * trial.error <= self.share * self.request.tolerance

    def closest(self) -> Trial | None:
        """The trial with the least divergence."""
        return min(self.trials, key=lambda trial: trial.divergence, default=None)

    # ---- choosing ------------------------------------------------------------------------------------------------

    def choose(self, may_be_exact: bool) -> Choice:
        """Cheapest candidate that meets the tolerance, or the exact process where it may be and is cheaper.

        When the time is up, the closest of those measured so far.
        """
        try:
            return self._choose(may_be_exact)
        except _TimeIsUpError:
            best = self.closest()
            assert best is not None
            met = best.distance.within(self.request.tolerance)
            return self._chosen(best, met, OUT_OF_TIME, _count(self.probed))

    def _chosen(self, best: Trial, met: bool, reason: str, n_probes: int) -> Choice:
        """A trial as the choice."""
        return Choice(
            best.candidate,
            best.distance,
            met and self.is_verified,
            reason,
            tuple(self.trials),
            n_probes,
            largest=best.largest,
            verified=self.is_verified,
            inverse_variance=self.inverse_variance(),
        )

    def _choose(self, may_be_exact: bool) -> Choice:
        n = self.n_samples
        may_be_exact = may_be_exact and not self.request.exact_mean
        may_be_exact = may_be_exact and n <= exact_budget.answers_up_to(self.request.budget.seconds)
        may_be_exact = may_be_exact and exact_cost(n) <= self.request.limit
        best = self.search()
        n_probes = _count(self.probed)
        sure = best is not None and self.meets(best)

        def exact_is_better() -> bool:
            return may_be_exact and not (sure and best is not None and best.cost < exact_cost(n))

        if best is not None and not sure and not may_be_exact and self.request.limit < np.inf:  # an exact mean will do
            return self._chosen(best, False, CLOSEST, n_probes)
        if best is not None and not exact_is_better():
            best, n_probes = self._confirmed(best)
            sure = self.holds(best)
        if exact_is_better():
            why = "it is the cheapest" if sure else "nothing cheaper meets the tolerance"
            return Choice(exact(self.kernel), Distance(), True, why, tuple(self.trials), n_probes)
        assert best is not None
        candidate, gaps = self.search_gaps(best.candidate)
        if candidate.plan is not best.candidate.plan:
            best = self._measure(candidate, self.confirming, self.cost(candidate), self.request.blend)
        share, outlying = self.outlying(candidate, gaps)
        if outlying is not None:  # they may be most of the divergence, and too few to be met with among the probes
            best = replace(best, distance=best.distance.plus(outlying.distance, share))
        last = max(i for i, trial in enumerate(self.trials) if trial.candidate.plan is candidate.plan)
        self.trials[last] = replace(self.trials[last], distance=best.distance)
        met = best.distance.larger(None if gaps is None else gaps.distance).within(self.request.tolerance)
        chosen = self._chosen(replace(best, candidate=candidate), met, CHEAPEST if sure else CLOSEST, n_probes)
        return replace(chosen, gaps=gaps, largest=max(best.largest, 0.0 if gaps is None else gaps.largest))

    def holds(self, trial: Trial) -> bool:
        """Whether a trial by probes that had no part in the choice keeps what is promised, as far as they can tell."""
        return trial.distance.within(self.request.tolerance)

    def _confirmed(self, best: Trial) -> tuple[Trial, int]:
        """A choice measured at probes that had no part in it, and how many they are.

        Where too few probes leave it open whether the figure holds, there are more. Where it does not hold, these
        probes join those that choose, among candidates that are dearer.
        """
        fresh = self.make_probed(1)
        confirmed = self._measure(best.candidate, fresh, best.cost, self.request.blend)
        for group in range(2, CONFIRMATIONS + 1):
            if self.holds(confirmed) or not self.meets(best):
                break
            if confirmed.divergence <= OPEN_SHARE * self.request.tolerance:
                fresh = [*fresh, *self.make_probed(group)]
                confirmed = self._measure(best.candidate, fresh, best.cost, self.request.blend)
                continue
            self.probed = [*self.probed, *fresh]
            dearer = self._dearer(best)
            if dearer is None:
                break
            best, fresh = dearer, self.make_probed(group)
            confirmed = self._measure(best.candidate, fresh, best.cost, self.request.blend)
        self.confirming = fresh
        return confirmed, _count(fresh)

    def _dearer(self, best: Trial) -> Trial | None:
        """Cheapest of the dearer candidates that meets the tolerance at all probes so far."""
        for candidate in self.dearer_ones(best.candidate, best.cost):
            trial = self.measure(candidate)
            if self.meets(trial):
                return trial
        return None

    def dearer_ones(self, candidate: Candidate, cost: float) -> Iterator[Candidate]:
        """Candidates that cost more: those found to meet the tolerance, the cheapest first, and then larger ones."""
        latest = {id(trial.candidate): trial for trial in self.trials}.values()
        dearer = sorted((t.candidate for t in latest if t.cost > cost and self.meets(t)), key=self.cost)
        return chain(dearer, self.larger(dearer[-1] if dearer else candidate))


def _count(probed: Sequence[Probed]) -> int:
    return sum(p.n_probes for p in probed)


def _shared_out(n: int, n_groups: int, rng: np.random.RandomState) -> list[Integers]:
    """The numbers below `n` in random groups of about one size; all of them in each where they are too few."""
    if n >= MANY:  # in a fraction of the time that a permutation takes
        group = rng.randint(n_groups, size=n, dtype=np.uint8)
        return [np.flatnonzero(group == i) for i in range(n_groups)]
    order = rng.permutation(n)
    return [order[i::n_groups] for i in range(n_groups)] if n >= 2 * n_groups else [order] * n_groups
