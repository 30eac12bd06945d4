"""One centre with features for all data, where neighbourhoods would hold most of them: smooth data in many columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ..common.types import Floats, Integers
from ..features import maclaurin
from ..kernels import Kernel
from . import exact_budget
from .choices import Candidate, Trial
from .distance import Reference
from .exact_budget import exact_cost
from .features import LocalFeatures
from .measurements import Measurements, Probed
from .neighbourhoods import TrainingSet
from .plan import Plan, feature_cost
from .probes import ProbeNeighbourhood, divergences_at_probes
from .references import WholeProcess, exactly
from .thinning import NeighbourhoodSample

MACLAURIN_COLUMNS = (16, 32, 64, 128, 256, 512, 1024, 2048)
SUBSET, SUBSET_PROBES = 3000, 200
EXTRAPOLATION_ERROR = 0.2  # share of a figure taken for its error where it is extrapolated from subsets


@dataclass(frozen=True, eq=False)
class NestedSubsets:
    """One or two random subsets of all data, the first within the second, with the same probes.

    Divergences are extrapolated to all data along the power law through the two.

    Attributes
    ----------
    subsets : list of ProbeNeighbourhood
        Relative to the mean of the data.
    n_samples : int
        Number of all data.
    """

    subsets: list[ProbeNeighbourhood]
    n_samples: int

    @property
    def relative_error(self) -> float:
        """Share of a figure that it may be off by where it is extrapolated."""
        return EXTRAPOLATION_ERROR if len(self.subsets[-1].sample.X) + self.n_probes < self.n_samples else 0.0

    @property
    def n_probes(self) -> int:
        """Number of probes."""
        return self.subsets[-1].n_probes

    @property
    def reference(self) -> Reference:
        """Answers at the probes, by the larger subset."""
        return self.subsets[-1].reference

    def divergence(self, candidate: Candidate, blended: bool = False) -> Floats:  # noqa: ARG002
        """Mean KL(candidate || exact process) over the probes, extrapolated, of observations and of the function."""
        result: Floats = self.divergences(candidate).mean(axis=1)
        return result

    def divergences(self, candidate: Candidate) -> Floats:
        """The same at each probe, (2, m)."""
        at_probes = [divergences_at_probes([subset], candidate, False)[0] for subset in self.subsets]
        values = np.array([each.mean(axis=1) for each in at_probes])
        sizes = [len(subset.sample.X) for subset in self.subsets]
        growth = np.zeros(2)
        if len(values) > 1 and values.min() > 0:
            growth = np.clip(np.log(values[1] / values[0]) / np.log(sizes[1] / sizes[0]), 0.0, 2.0)
        result: Floats = at_probes[-1] * ((self.n_samples / sizes[-1]) ** growth)[:, None]
        return result

    def cost(self, candidate: Candidate) -> float:
        """Operations per training point, with as many test points as training points."""
        assert candidate.plan.features is not None
        return one_center_cost(self.n_samples, candidate.plan.features.n_components) / self.n_samples


class OneCenterSearch(Measurements):
    """Smallest number of features around a single centre."""

    n_columns = 0  # measured last

    def make_probed(self, group: int) -> list[Probed]:
        """See `Measurements`."""
        subsets = make_subsets(self.kernel, self.data, self.probe_rows[group], self.rng, self.whole)
        return [NestedSubsets(subsets, self.n_samples)]

    def divergences(self, candidate: Candidate, probed: Sequence[Any], blended: bool) -> Floats:  # noqa: ARG002
        """See `Measurements`; each probe counts by itself."""
        return np.concatenate([each.divergences(candidate) for each in probed], axis=1)

    def search(self) -> Trial | None:
        """See `Measurements`."""
        n = self.n_samples
        self.probed = self.make_probed(0)
        for candidate in self.larger():
            trial = self.measure(candidate)
            if self.meets(trial):
                return trial
            if trial.divergence > self.request.tolerance * 10.0 ** np.log2(MACLAURIN_COLUMNS[-1] / self.n_columns):
                # Out of reach at the best rate ever seen, a tenth per doubling. What is not met is at least
                # approached, if not by the exact process.
                limit = exact_budget.affordable_up_to(self.request.budget.seconds)
                affordable = [c for c in self._columns() if one_center_cost(n, c) <= exact_cost(limit)]
                if n > limit and affordable:
                    self.measure(self._candidate(affordable[-1]))
                break
        return self.closest()

    def larger(self, candidate: Candidate | None = None) -> Iterator[Candidate]:  # noqa: ARG002
        """See `Measurements`."""
        for columns in self._columns():
            self.n_columns = columns
            yield self._candidate(columns)

    def _columns(self) -> list[int]:
        """Numbers of features that are left to measure."""
        return [c for c in MACLAURIN_COLUMNS if self.n_columns < c <= self.n_samples / 2]

    def _candidate(self, columns: int) -> Candidate:
        largest = self.probed[0]
        assert isinstance(largest, NestedSubsets)
        features = maclaurin_features(self.kernel, largest.subsets[-1].sample.X, columns, self.rng)
        plan = Plan(self.kernel, None, features, correction=self.request.correction, either_side=False)
        return Candidate(np.inf, plan, f"one centre, {features.n_components} Maclaurin features")


def make_subsets(
    kernel: Kernel, data: TrainingSet, rows: Integers, rng: np.random.RandomState, whole: WholeProcess | None = None
) -> list[ProbeNeighbourhood]:
    """Nested random subsets of all data, or the `whole` of them, with probes that are among the given rows."""
    n, d = data.X.shape
    probes = rng.choice(rows, min(SUBSET_PROBES, len(rows), n // 12 + 1), replace=False)
    rest = rng.permutation(np.setdiff1d(np.arange(n), probes))
    origin = data.X.mean(axis=0)
    directions = np.zeros((len(probes), d))

    def make(size: int) -> ProbeNeighbourhood:
        kept = rest[:size]
        sample = NeighbourhoodSample.of(data.X[kept] - origin, data.y[kept, :-1], data.noise[kept])
        exact = partial(exactly, kernel, tolerance=0.0, complete=True)
        return ProbeNeighbourhood.solved(exact, sample, data.X[probes] - origin, data.noise[probes], directions)

    if whole is not None:
        sample = NeighbourhoodSample.of(data.X[rest] - origin, whole.y[rest], data.noise[rest])
        given = (data.X[probes] - origin, data.noise[probes], whole.left_out(probes), directions)
        return [make(min(SUBSET, len(rest) // 2)), ProbeNeighbourhood(sample, *given)]
    return [make(size) for size in (SUBSET // 2, SUBSET) if size < len(rest)] or [make(len(rest))]


def maclaurin_features(kernel: Kernel, sample: Floats, columns: int, rng: np.random.RandomState) -> LocalFeatures:
    """At most so many Maclaurin features per length scale, allocated for a sample of relative positions (n, d)."""
    maps = tuple(maclaurin.sample(sample / scales, columns, "rademacher", rng) for scales in kernel.length_scales)
    return LocalFeatures.of(kernel, maps)


def one_center_cost(n: float, columns: int) -> float:
    """Operations of one centre's features with as many test points as training points."""
    return float(feature_cost(n, columns) + 2.0 * n * columns**2)
