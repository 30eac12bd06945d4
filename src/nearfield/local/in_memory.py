"""Training data in memory, as NumPy arrays."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from ..common import memory
from ..common.arrays import weighted_mean
from ..common.types import Floats
from ..hyperparameters.learning import Learned, LearningRequest, learn_hyperparameters
from ..kernels import Kernel
from . import choosing, exact_budget, placing
from .cells import MAX_COLUMNS
from .centers import Placement
from .choices import SAME_SPEED, Candidate, Choice, Speeds, no_limit
from .engine import RaggedEngine
from .expected import expected_cost
from .frame import Frame
from .global_part import GlobalPart, fit_global_part
from .iteration import ExactMean, cost_of_mean, solve_mean
from .neighbourhoods import MANY, TrainingSet
from .predictor import LocalPredictor
from .request import LocalRequest

FEW_DIGITS = 2e-3  # tolerance, above which neighbours are quicker than an exact mean with one scale
VARIANCES_COST = 3.6e4  # operations per point, that variances and predictions take besides an exact mean
NEIGHBOURS_COST = 2e5  # operations per point, of a hundred neighbours


@dataclass(frozen=True, eq=False)
class InMemory:
    """Points (n, d), targets (n, k), weights (n,) or None, drift columns (n, p) if any; see `TrainingData`.

    `groups` are those of the drift columns whose coefficients share a prior variance, which is to be learnt.
    With drift columns, of which there may be 0, no mean is taken out of the targets.
    """

    X: Floats
    y: Floats
    weights: Floats | None
    drift: Floats | None = None
    groups: tuple[slice, ...] = ()

    def __post_init__(self) -> None:
        memory.require(
            # copies in other units, and an index of neighbours
            8.0 * len(self.X) * (6 * self.X.shape[1] + 4 * (self.y.shape[1] + (self.n_drift or 0)) + 8),
            f"A local model of {len(self.X)} samples",
            "Data that stay in a file or on a cluster take less: see nearfield.sources.",
        )

    @property
    def n_features(self) -> int:
        """See `TrainingData`."""
        return int(self.X.shape[1])

    @property
    def n_drift(self) -> int | None:
        """See `TrainingData`."""
        return None if self.drift is None else int(self.drift.shape[1])

    @property
    def targets(self) -> Floats:
        """Targets of the local models: those given, and drift columns, (n, k + p)."""
        return self.y if self.drift is None else np.column_stack([self.y, self.drift])

    @cached_property
    def mean(self) -> Floats:
        """See `TrainingData`."""
        if self.drift is not None:
            return np.zeros(self.y.shape[1] + self.drift.shape[1])
        mean: Floats = weighted_mean(self.y, self.weights)
        return mean

    @property
    def weight(self) -> float:
        """See `TrainingData`."""
        return float(len(self.y) if self.weights is None else self.weights.sum())

    def learn(self, request: LearningRequest, rng: np.random.RandomState) -> Learned:
        """See `TrainingData`."""
        y = self.y - self.mean[: self.y.shape[1]]
        return learn_hyperparameters(self.X, y, self.weights, request, rng, drift=self.drift)

    def in_frame(self, frame: Frame) -> FramedArrays:
        """See `TrainingData`."""
        if self.drift is None:
            return FramedArrays(frame, TrainingSet.of(*frame.rows(self.X, self.y, self.weights)))
        # Nothing is taken off these targets, which many columns would make a long copy.
        y = np.column_stack([self.y, self.drift, np.ones(len(self.X))])
        data = TrainingSet(frame.points(self.X), y, frame.noise(self.X, self.weights))
        return FramedArrays(frame, data, n_drift=self.drift.shape[1])


@dataclass(frozen=True, eq=False)
class FramedArrays:
    """The same in length scales; see `FramedData`.

    Attributes
    ----------
    frame : Frame
    data : TrainingSet
    part : GlobalPart or None
        Long scales that local models leave out.
    n_drift : int
        Number of targets that are drift columns: the last ones before the constant.
    speeds : Speeds
    """

    frame: Frame
    data: TrainingSet
    part: GlobalPart | None = None
    n_drift: int = 0
    speeds: Speeds = SAME_SPEED

    @property
    def for_mixtures(self) -> TrainingSet | None:
        """See `FramedData`."""
        return self.data

    @property
    def n_in_memory(self) -> float:
        """See `FramedData`."""
        return len(self.data.X)

    def split(self, request: LocalRequest, rng: np.random.RandomState) -> FramedArrays:
        """See `FramedData`."""
        data, kernel = self.data, self.frame.kernel
        if not request.is_free:
            return self
        onto = None if request.onto is None else self.frame.in_length_scales(request.onto)
        return replace(self, part=fit_global_part(kernel, data, request.tolerance, rng, request.n_jobs, onto))

    def prefers_exact_mean(self, request: LocalRequest) -> bool:
        """See `FramedData`."""
        n = len(self.data.X)
        if not request.is_free or not self._can_afford_mean(request):
            return False
        if self.data.X.shape[1] > MAX_COLUMNS:  # nearest points alone say too little of the mean
            return True
        if self.kernel.n_scales > 1:
            return self._cost_of_mean < NEIGHBOURS_COST * n
        if request.tolerance > FEW_DIGITS:
            return False
        cost = self._cost_of_mean + VARIANCES_COST * n
        return cost < expected_cost(self.kernel, self.data, request.tolerance)

    def solve_mean(self, request: LocalRequest, rng: np.random.RandomState) -> ExactMean | None:
        """See `FramedData`."""
        to_be_learnt = request.learning.fixed.noise_variance is None  # from left-out residuals
        given = (self.kernel, self.part, self.data, request.tolerance, rng, request.n_jobs, request.progress)
        n_targets = self.data.y.shape[1] - self.n_drift - 1
        return solve_mean(*given, n_targets, with_signs=to_be_learnt, budget=request.budget)

    @property
    def kernel(self) -> Kernel:
        """Of the local models."""
        return self.frame.kernel if self.part is None else self.part.kernel

    @cached_property
    def _cost_of_mean(self) -> float:
        return cost_of_mean(self.kernel, 0 if self.part is None else self.part.n_components, self.data)

    def _can_afford_mean(self, request: LocalRequest) -> bool:
        return self._cost_of_mean <= exact_budget.most_of_mean(request.budget.seconds)

    @cached_property
    def _probes(self) -> dict[str, Any]:
        """Where candidates were measured, should others be, too."""
        return {}

    @cached_property
    def _targets(self) -> Floats:
        """Targets of the local models."""
        return self.data.y if self.part is None else self.part.targets(self.data.X, self.data.y)

    def choose(self, request: LocalRequest, rng: np.random.RandomState, exact_mean: bool) -> Choice:
        """See `FramedData`."""
        few = len(self.data.X) <= exact_budget.answers_up_to(request.budget.seconds)
        limit_of = no_limit
        if (
            not exact_mean
            and request.is_free
            and (self.kernel.n_scales > 1 or few or self.data.X.shape[1] <= MAX_COLUMNS)
        ):

            def limit_of() -> float:
                return self._cost_of_mean if self._can_afford_mean(request) else np.inf

        n_sides, y = self._targets.shape[1], self._targets[:, -self.data.y.shape[1] :]
        left = replace(self.data, y=np.column_stack([y[:, : -1 - self.n_drift], y[:, -1]]) if self.n_drift else y)
        places = None if request.places is None else self.frame.points(request.places)
        if request.onto is not None:
            request = replace(request, onto=self.frame.in_length_scales(request.onto))
        given = (request, self.kernel, left, rng, exact_mean, limit_of, places, self._probes, self.speeds)
        choice = choosing.choose(*given, n_sides=n_sides)
        is_doubtful = choice.distance is not None and not choice.distance.within(request.tolerance)
        may_be_exact = not exact_mean and request.is_free and self._can_afford_mean(request)
        if is_doubtful and may_be_exact and self.kernel.n_scales > 1 and len(left.X) < MANY:
            return replace(choice, met=False)  # an exact mean takes little longer, and settles it
        return choice

    def place(self, request: LocalRequest, choice: Choice, rng: np.random.RandomState) -> tuple[Placement, float]:
        """See `FramedData`."""
        X = self.data.X
        placement = placing.place_centers(request, choice.candidate, self.frame, X, rng, self.data.grid)
        return placement, placing.share_covered(request, placement, X)

    def fit(self, request: LocalRequest, candidate: Candidate, placement: Placement) -> LocalPredictor:
        """See `FramedData`."""
        data, engine = replace(self.data, y=self._targets), RaggedEngine(request.n_jobs)
        return LocalPredictor.fit(candidate.plan, data, placement, request.open_centers, engine, candidate.depth)
