"""What was asked of a local model, in one immutable value."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from ..common.budget import UNLIMITED, Budget, Progress
from ..common.types import Floats
from ..features import MaclaurinFeatures, TaylorFeatures, taylor
from ..hyperparameters.learning import LearningRequest
from ..kernels import Kernel
from .features import FeatureMap, LocalFeatures
from .frame import Frame

CENTERS = ("auto", "grid", "net", "farthest", "kmeans", "random", "mean", "test")
SPACED = ("auto", "grid", "net", "farthest")  # as many as the spacing asks for
COUNTED = ("farthest", "kmeans", "random")  # as many as `n_centers`


@dataclass(frozen=True, eq=False)
class LocalRequest:
    """Parameters of `LocalGPRegressor` after validation; None is free to choose.

    Attributes
    ----------
    learning : LearningRequest
    tolerance : float
    spacing, radius : float or None
        In length scales.
    all_points : bool
        Whether every neighbourhood is to hold all points.
    feature_map : TaylorFeatures, MaclaurinFeatures or None
    kernel_space : bool
        No features at all.
    correction, blend, open_centers : bool
    centers : str, int or ndarray of shape (C, d)
        In the units of the data.
    n_centers : int or None
    n_jobs : int or None
    progress : callable or None
    places : ndarray of shape (m, d) or None
        Where predictions will be asked for, in the units of the data.
    onto : callable or None
        Brings points (m, d) between the data, in their units, to the surface that data and predictions lie on.
    budget : Budget
        Time for the whole fit.
    """

    learning: LearningRequest
    tolerance: float
    spacing: float | None
    radius: float | None
    all_points: bool
    feature_map: TaylorFeatures | MaclaurinFeatures | None
    kernel_space: bool
    correction: bool
    blend: bool
    open_centers: bool
    centers: str | int | Floats
    n_centers: int | None
    n_jobs: int | None
    progress: Progress | None
    places: Floats | None = None
    onto: Callable[[Floats], Floats] | None = None
    budget: Budget = UNLIMITED

    @property
    def is_complete(self) -> bool:
        """Whether spacing, radius and features are given, and nothing is left to choose."""
        if self.all_points:
            return self.feature_map is not None
        by_hand = self.feature_map is not None or self.kernel_space
        return by_hand and self.radius is not None and self.spacing is not None

    @property
    def is_free(self) -> bool:
        """Whether neighbourhoods and features are to be chosen."""
        by_hand = self.all_points or self.feature_map is not None
        return not by_hand and self.radius is None and self.spacing is None

    @property
    def are_spaced(self) -> bool:
        """Whether the number of centres follows from the spacing."""
        return isinstance(self.centers, str) and self.centers in SPACED and self.n_centers is None

    def centers_in(self, frame: Frame) -> str | int | Floats:
        """The kind of centres, or those given, in length scales."""
        return frame.points(self.centers) if isinstance(self.centers, np.ndarray) else self.centers

    @property
    def has_taylor_features(self) -> bool:
        """Whether the features given are the same whatever the data."""
        return isinstance(self.feature_map, TaylorFeatures)

    def features_of(self, kernel: Kernel, rng: np.random.RandomState) -> Callable[[Floats], LocalFeatures] | None:
        """From a sample of positions relative to a centre to the features that were given; None where none were."""
        if self.feature_map is None:
            return None
        feature_map: Any = self.feature_map
        seed = int(rng.randint(2**31 - 1))  # the same map for every sample
        return lambda sample: _given_features(feature_map, kernel, sample, np.random.RandomState(seed))


def _given_features(
    feature_map: TaylorFeatures | MaclaurinFeatures, kernel: Kernel, sample: Floats, rng: np.random.RandomState
) -> LocalFeatures:
    """The map for each component of the kernel."""
    d = sample.shape[1]
    maps: list[FeatureMap] = []
    for scales in kernel.length_scales:
        if isinstance(feature_map, TaylorFeatures):
            maps.append(taylor.sample(d, feature_map.degree))
        elif d == 1:  # sketches are for more columns; the series has one monomial per degree
            maps.append(taylor.sample(1, feature_map.n_components - 1))
        else:
            drawn = clone(feature_map)
            if drawn.random_state is None:
                drawn.set_params(random_state=rng)
            maps.append(drawn._sample(sample / scales))
    return LocalFeatures.of(kernel, tuple(maps))
