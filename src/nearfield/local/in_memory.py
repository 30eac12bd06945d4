"""Training data in memory, as NumPy arrays."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ..common import memory
from ..common.arrays import weighted_mean
from ..common.types import Floats
from ..hyperparameters.learning import Learned, LearningRequest, learn_hyperparameters
from ..kernels import Kernel
from . import choosing, placing
from .centers import Placement
from .choices import ALWAYS_EXACT_UP_TO, Candidate, Choice
from .engine import RaggedEngine
from .frame import Frame
from .global_part import GlobalPart, fit_global_part
from .neighbourhoods import TrainingSet
from .predictor import LocalPredictor
from .request import LocalRequest


@dataclass(frozen=True, eq=False)
class InMemory:
    """Points (n, d), targets (n, k), weights (n,) or None; see `TrainingData`."""

    X: Floats
    y: Floats
    weights: Floats | None

    def __post_init__(self) -> None:
        memory.require(
            # copies in other units, and an index of neighbours
            8.0 * len(self.X) * (6 * self.X.shape[1] + 4 * self.y.shape[1] + 8),
            f"A local model of {len(self.X)} samples",
            "Data that stay in a file or on a cluster take less: see nearfield.sources.",
        )

    @property
    def n_features(self) -> int:
        """See `TrainingData`."""
        return int(self.X.shape[1])

    @cached_property
    def mean(self) -> Floats:
        """See `TrainingData`."""
        mean: Floats = weighted_mean(self.y, self.weights)
        return mean

    @property
    def weight(self) -> float:
        """See `TrainingData`."""
        return float(len(self.y) if self.weights is None else self.weights.sum())

    def learn(self, request: LearningRequest, rng: np.random.RandomState) -> Learned:
        """See `TrainingData`."""
        return learn_hyperparameters(self.X, self.y - self.mean, self.weights, request, rng)

    def in_frame(self, frame: Frame) -> FramedArrays:
        """See `TrainingData`."""
        return FramedArrays(frame, frame.kernel, TrainingSet.of(*frame.rows(self.X, self.y, self.weights)))


@dataclass(frozen=True, eq=False)
class FramedArrays:
    """The same in length scales; see `FramedData`.

    Attributes
    ----------
    frame : Frame
    kernel : Kernel
        Of the local models.
    data : TrainingSet
    further : ndarray of shape (n, r) or None
        Further targets of the local models, before those of `data`.
    """

    frame: Frame
    kernel: Kernel
    data: TrainingSet
    further: Floats | None = None

    def split(self, request: LocalRequest, rng: np.random.RandomState) -> tuple[FramedArrays, GlobalPart | None]:
        """See `FramedData`."""
        data = self.data
        if not request.is_free or len(data.X) <= ALWAYS_EXACT_UP_TO:
            return self, None
        part = fit_global_part(self.kernel, data.X, data.y, data.noise, request.tolerance, rng, request.n_jobs)
        if part is None:
            return self, None
        targets = part.targets(data.X, data.y)
        left = replace(data, y=targets[:, part.n_further :])
        return FramedArrays(self.frame, part.kernel, left, targets[:, : part.n_further]), part

    def choose(self, request: LocalRequest, rng: np.random.RandomState) -> Choice:
        """See `FramedData`."""
        return choosing.choose(request, self.kernel, self.data, rng)

    def place(self, request: LocalRequest, choice: Choice, rng: np.random.RandomState) -> tuple[Placement, float]:
        """See `FramedData`."""
        X, tree = self.data.X, self.data.tree
        placement = placing.place_centers(request, choice.candidate, self.frame, X, rng, tree)
        return placement, placing.share_covered(request, placement, X)

    def fit(self, request: LocalRequest, candidate: Candidate, placement: Placement) -> LocalPredictor:
        """See `FramedData`."""
        data = self.data
        if self.further is not None:
            data = replace(data, y=np.concatenate([self.further, data.y], axis=1))
        engine = RaggedEngine(request.n_jobs)
        return LocalPredictor.fit(
            candidate.plan, data, placement, request.open_centers, engine, candidate.depth
        )
