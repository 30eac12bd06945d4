"""Training data on a device, through the pipeline of `local.fit`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch

from ..common import memory
from ..common.arrays import Array as Tensor
from ..common.arrays import as_doubles, like, weighted_mean
from ..common.types import Floats
from ..hyperparameters.learning import Learned, LearningRequest
from ..local import choosing, placing
from ..local.centers import Placement
from ..local.choices import Candidate, Choice, Speeds
from ..local.frame import Frame
from ..local.global_part import GlobalPart
from ..local.in_memory import FramedArrays
from ..local.iteration import ExactMean, divergence_of_mean, precision_of_mean, signs
from ..local.neighbourhoods import MANY, TrainingSet
from ..local.predictor import LocalPredictor
from ..local.request import LocalRequest
from . import cells, exact_mean, fast
from .engine import PaddedEngine
from .host_copy import HostCopy
from .learning import learn

SAMPLED_CENTERS = 20

QUICKNESS = 100.0  # times that a device is as fast as the host, on which candidates are measured
FEATURE_SPEED = 1000.0  # where compiled kernels make models of features, and PyTorch's calls those in kernel space


@dataclass(frozen=True, eq=False)
class TensorData:
    """Points (n, d), targets (n, k), weights (n,) or None; see `TrainingData`."""

    X: Tensor
    y: Tensor
    weights: Tensor | None

    def __post_init__(self) -> None:
        memory.require(
            self.X.element_size() * len(self.X) * (6 * self.X.shape[1] + 4 * self.y.shape[1] + 8.0),
            f"A local model of {len(self.X)} samples",
            "Fewer samples, or float32, need less.",
            self.X.device,
        )

    n_drift, groups = None, ()  # drift columns are for arrays

    @property
    def n_features(self) -> int:
        """See `TrainingData`."""
        return int(self.X.shape[1])

    @cached_property
    def mean(self) -> Tensor:
        """See `TrainingData`."""
        return weighted_mean(self.y, self.weights)

    @property
    def weight(self) -> float:
        """See `TrainingData`."""
        return float(len(self.y) if self.weights is None else self.weights.sum())

    def learn(self, request: LearningRequest, rng: np.random.RandomState) -> Learned:
        """See `TrainingData`."""
        return learn(self.X, self.y - self.mean, self.weights, request, rng)

    def in_frame(self, frame: Frame) -> FramedTensors:
        """See `TrainingData`."""
        return FramedTensors(frame, *frame.rows(self.X, self.y, self.weights))


@dataclass(frozen=True, eq=False)
class FramedTensors:
    """The same in length scales: points (n, d), targets (n, k), noise (n,); see `FramedData`."""

    frame: Frame
    X: Tensor
    y: Tensor
    noise: Tensor
    part: GlobalPart | None = None  # long scales that local models leave out

    @property
    def _speeds(self) -> Speeds:
        has_kernels = fast.kernels_for(self.X) is not None and self.frame.kernel.n_scales == 1
        return Speeds(QUICKNESS, FEATURE_SPEED if has_kernels else 1.0)

    @cached_property
    def _on_host(self) -> FramedArrays:
        """The same on the host, where measurements are made."""
        arrays = (as_doubles(values) for values in (self.X, self.y, self.noise))
        return FramedArrays(self.frame, TrainingSet.of(*arrays), self.part, speeds=self._speeds)

    @property
    def for_mixtures(self) -> TrainingSet | None:
        """See `FramedData`."""
        return self._on_host.for_mixtures

    @property
    def n_in_memory(self) -> float:
        """See `FramedData`."""
        return len(self.X)

    def split(self, request: LocalRequest, rng: np.random.RandomState) -> FramedTensors:
        """See `FramedData`; found on the host."""
        if not request.is_free or self.frame.kernel.n_scales == 1:
            return self
        return replace(self, part=self._on_host.split(request, rng).part)

    def prefers_exact_mean(self, request: LocalRequest) -> bool:
        """See `FramedData`."""
        return self.frame.kernel.n_scales > 1 and self._on_host.prefers_exact_mean(request)

    def solve_mean(self, request: LocalRequest, rng: np.random.RandomState) -> ExactMean | None:
        """See `FramedData`; of one Gaussian in up to two columns on a GPU, else on the host."""
        solved = self.solve_on_device(request) if self.X.is_cuda and self.part is None else None
        return self._on_host.solve_mean(request, rng) if solved is None else solved

    def solve_on_device(self, request: LocalRequest) -> ExactMean | None:
        """The same where the data are; None where that is out of reach."""
        X, y, noise = (values.double() for values in (self.X, self.y, self.noise))
        k, columns = y.shape[1] + 1, [y, y.new_ones((len(y), 1))]
        if request.learning.fixed.noise_variance is None:  # it comes from left-out residuals
            columns.append(like(signs(len(y)), y))
        precision = precision_of_mean(request.tolerance, as_doubles(noise), as_doubles(y))
        solution = exact_mean.solve(self.frame.kernel, X, torch.cat(columns, dim=1), noise, precision)
        if solution is None or not np.all(solution.relative_residuals <= precision):  # which NaN is not
            return None
        x = as_doubles(solution.x)
        no_long, norms = np.empty((0, k)), np.linalg.norm(as_doubles(y), axis=0)
        return ExactMean(
            self.frame.kernel,
            as_doubles(X),
            x[:, :k],
            (),
            no_long,
            request.n_jobs,
            x[:, k:] if x.shape[1] > k else None,
            divergence_of_mean(norms * solution.relative_residuals[: k - 1], as_doubles(noise)),
            float(np.mean(solution.mean_squares[: k - 1])),
        )

    def choose(self, request: LocalRequest, rng: np.random.RandomState, exact_mean: bool) -> Choice:
        """See `FramedData`; measured on the host, unless everything is given."""
        if request.is_complete:
            positions = lambda: self._relative_positions(request, rng)  # noqa: E731
            return choosing.as_given(request, self.frame.kernel, positions, rng, self._speeds)
        one_scale = self.frame.kernel.n_scales == 1 and self.part is None
        if not (one_scale and request.is_free and _has_index(self.X)):
            return self._on_host.choose(request, rng, exact_mean)
        data = HostCopy.copied(*(values.double() for values in (self.X, self.y, self.noise)))
        return FramedArrays(self.frame, data, speeds=self._speeds).choose(request, rng, exact_mean)

    def _relative_positions(self, request: LocalRequest, rng: np.random.RandomState) -> Floats:
        """Positions relative to a centre, for maps that adapt to them; none for others."""
        if request.has_taylor_features:
            return np.empty((0, self.X.shape[1]))
        if request.radius is None:
            return as_doubles(self.X - self.X.mean(dim=0))
        rows = rng.choice(len(self.X), min(len(self.X), SAMPLED_CENTERS), replace=False)
        centers = self.X[torch.as_tensor(rows, device=self.X.device)]
        neighbours = cells.brute_force(self.X, centers, request.radius)
        return as_doubles(self.X[neighbours.points] - torch.repeat_interleave(centers, neighbours.counts, dim=0))

    def place(self, request: LocalRequest, choice: Choice, rng: np.random.RandomState) -> tuple[Placement, float]:
        """See `FramedData`; on the device where centres lie on a lattice, else as for NumPy."""
        spacing = choice.candidate.finite_spacing
        on_lattice = isinstance(request.centers, str) and request.centers in ("auto", "grid")
        if on_lattice and spacing is not None and self.X.shape[1] <= cells.MAX_GRID_COLUMNS:
            return cells.place(self.X, spacing), 1.0
        X = as_doubles(self.X)
        placement = placing.place_centers(request, choice.candidate, self.frame, X, rng)
        reach = None if placement.reach is None else like(placement.reach, self.X)
        on_device = replace(placement, centers=like(placement.centers, self.X), reach=reach, cells=None)
        return on_device, placing.share_covered(request, placement, X)

    def fit(self, request: LocalRequest, candidate: Candidate, placement: Placement) -> LocalPredictor:
        """See `FramedData`."""
        engine = PaddedEngine()
        plan = candidate.plan
        data = engine.training_set(self.X, self.y, self.noise, plan)
        if self.part is not None:
            data = data.with_targets(self.part.targets(data.X, data.y))
        predictor = LocalPredictor.fit(plan, data, placement, request.open_centers, engine, candidate.depth)
        if self.X.is_cuda:
            torch.cuda.synchronize(self.X.device)
        return predictor


def _has_index(X: Tensor) -> bool:
    """Whether a device finds neighbours of points (n, d) more quickly than the host."""
    return bool(X.is_cuda) and len(X) >= MANY and X.shape[1] <= cells.MAX_GRID_COLUMNS
