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
from . import exact_budget
from .choices import CHEAPEST, CLOSEST, OUT_OF_TIME, Candidate, Choice, Request, Trial, exact
from .exact_budget import exact_cost
from .gaps import OUTLYING, Places
from .neighbourhoods import MANY, TrainingSet

CONFIRMED_SHARE = 0.8  # of the tolerance that a confirmed figure with its error may take up
COSTED = 8  # neighbourhoods that tell what a candidate costs, which varies less than how close it is
CONFIRMATIONS = 3  # sets of probes that a choice is held against, at most


class _TimeIsUpError(Exception):
    """Nothing further is to be measured."""


class Probed(Protocol):
    """Where candidates are measured: around some probes."""

    relative_error: float

    @property
    def n_probes(self) -> int:
        """Number of probes."""

    def divergence(self, candidate: Candidate, blended: bool = False) -> float:
        """Mean KL of a candidate over the probes; where not `blended`, it may be larger, and is sooner known."""

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
        """Divergence of a candidate at each of the probed neighbourhoods; see `Probed`."""
        return np.array(thread_map(lambda p: p.divergence(candidate, blended), probed, self.n_jobs))

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
        mean = float(values.mean())
        error = float(values.std(ddof=1)) / len(values) ** 0.5 if len(values) > 1 else 0.0
        trial = Trial(
            candidate, mean, float(np.hypot(error, probed[0].relative_error * mean)), cost, float(values.max())
        )
        self.trials.append(trial)
        if self.progress is not None:
            self.progress("tuning", min(len(self.trials) / 10, 0.95), mean)  # how many there will be is not known
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
            met = best.divergence <= self.request.tolerance
            figures = (best.divergence, best.error, met, OUT_OF_TIME, tuple(self.trials))
            return Choice(best.candidate, *figures, n_probes=_count(self.probed), largest=best.largest)

    def _choose(self, may_be_exact: bool) -> Choice:
        n = self.n_samples
        may_be_exact = may_be_exact and not self.request.exact_mean
        may_be_exact = may_be_exact and n <= exact_budget.affordable_up_to(self.request.budget.seconds)
        may_be_exact = may_be_exact and exact_cost(n) <= self.request.limit
        best = self.search()
        n_probes = _count(self.probed)
        sure = best is not None and self.meets(best)

        def exact_is_better() -> bool:
            return may_be_exact and not (sure and best is not None and best.cost < exact_cost(n))

        if best is not None and not sure and not may_be_exact and self.request.limit < np.inf:  # an exact mean will do
            figures = (best.divergence, best.error, False, CLOSEST, tuple(self.trials), n_probes, None, best.largest)
            return Choice(best.candidate, *figures)
        if best is not None and not exact_is_better():
            best, n_probes = self._confirmed(best)
            sure = self.holds(best)
        if exact_is_better():
            why = "it is the cheapest" if sure else "nothing cheaper meets the tolerance"
            return Choice(exact(self.kernel), 0.0, 0.0, True, why, tuple(self.trials), n_probes)
        assert best is not None
        candidate, gaps = self.search_gaps(best.candidate)
        if candidate.plan is not best.candidate.plan:
            best = self._measure(candidate, self.confirming, self.cost(candidate), self.request.blend)
        met = max(best.divergence, 0.0 if gaps is None else gaps.divergence) <= self.request.tolerance
        divergence, error = best.divergence, best.error
        share, outlying = self.outlying(candidate, gaps)
        if outlying is not None:  # they may be most of the divergence, and too few to be met with among the probes
            divergence += share * outlying.divergence
            error = float(np.hypot(error, share * outlying.error))
        last = max(i for i, trial in enumerate(self.trials) if trial.candidate.plan is candidate.plan)
        self.trials[last] = replace(self.trials[last], divergence=divergence, error=error)
        return Choice(
            candidate,
            divergence,
            error,
            met and divergence <= self.request.tolerance,
            CHEAPEST if sure else CLOSEST,
            tuple(self.trials),
            n_probes,
            gaps,
            max(best.largest, 0.0 if gaps is None else gaps.largest),
        )

    def holds(self, trial: Trial) -> bool:
        """Whether a trial by probes that had no part in the choice meets the tolerance, with room for its error.

        Most of the distance may come from few places, which the probes may have missed: so there is room for two
        standard errors at least, and some more.
        """
        return trial.divergence + max(self.n_errors, 2.0) * trial.error <= CONFIRMED_SHARE * self.request.tolerance

    def _confirmed(self, best: Trial) -> tuple[Trial, int]:
        """A choice measured at probes that had no part in it, and how many they are.

        Where the figure does not hold, these probes join those that choose, among candidates that are dearer.
        """
        fresh = self.make_probed(1)
        confirmed = self._measure(best.candidate, fresh, best.cost, self.request.blend)
        for group in range(2, CONFIRMATIONS + 1):
            if self.holds(confirmed) or not self.meets(best):
                break
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
