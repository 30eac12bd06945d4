"""Data, splits, hyperparameters and reference of one seed under one protocol."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from scipy.spatial import cKDTree

from ..common.types import Floats, Integers
from ..datasets import Dataset
from ..estimators import ExactGPRegressor
from ..local import centers
from .cache import Cache

# The authors' optimiser took 20 steps of 0.1 in the logarithms, which is no optimum; two of their ten seeds of kin8nm
# ended at a longer length scale.
PUBLISHED = {
    "uk_flats": (0.248, 0.507, 0.202),
    "yacht": (0.317, 1635.0, 7.389),
    "kin8nm": (2.15, 0.0695, 0.1353),
}
KIN8NM_LONG, KIN8NM_LONG_SEEDS = 2.63, (8, 9)


@dataclass(frozen=True)
class Hyperparameters:
    """Of one Gaussian kernel and the noise."""

    length_scale: float
    signal_variance: float
    noise_variance: float

    def as_parameters(self) -> dict[str, Any]:
        """Keyword arguments of the estimators."""
        return asdict(self)


def published_hyperparameters(data: str, seed: int) -> Hyperparameters:
    """Those of the paper's experiments, see `PUBLISHED`."""
    length_scale, variance, noise = PUBLISHED[data]
    if data == "kin8nm" and seed % 10 in KIN8NM_LONG_SEEDS:
        length_scale = KIN8NM_LONG
    return Hyperparameters(length_scale, variance, noise)


@dataclass(frozen=True, eq=False)
class Problem:
    """One split of a data set, with hyperparameters and the exact Gaussian process's predictions of observations."""

    data: str
    protocol: str
    seed: int
    X: Floats  # (n, d)
    y: Floats  # (n,)
    X_test: Floats  # (m, d)
    y_test: Floats  # (m,)
    hyperparameters: Hyperparameters
    mean: Floats  # (m,): of exact predictive distributions, noise included,
    std: Floats  # (m,): and their standard deviations
    _centroids: dict[float, Floats] = field(default_factory=dict)

    @property
    def key(self) -> dict[str, Any]:
        """What identifies it among results."""
        return problem_key(self.data, self.protocol, self.seed, len(self.X), len(self.X_test))

    @cached_property
    def _scaled(self) -> Floats:
        return self.X / self.hyperparameters.length_scale

    def centroids(self, spacing: float) -> Floats:
        """Farthest-point centroids of the training points, in length scales, the mean first (Algorithm 1).

        Those of a large spacing are the first of those of a small one.
        """
        if spacing not in self._centroids:
            self._centroids[spacing] = centers.farthest_points(self._scaled, spacing)
        return self._centroids[spacing]

    def owners(self, spacing: float | None) -> Integers:
        """Which centroid answers for each test point; without a spacing the first, the training mean, does for all."""
        if spacing is None:
            return np.zeros(len(self.X_test), dtype=np.int64)
        tree = cKDTree(self.centroids(spacing))
        owner: Integers = tree.query(self.X_test / self.hyperparameters.length_scale)[1].astype(np.int64)
        return owner


def problem_key(data: str, protocol: str, seed: int, n_train: int, n_test: int) -> dict[str, Any]:
    """Parameters that determine a problem."""
    return {"data": data, "protocol": protocol, "seed": seed, "n_train": n_train, "n_test": n_test}


def is_known(cache: Cache, key: dict[str, Any]) -> bool:
    """Whether the reference of a problem has been computed."""
    return cache.get_arrays({"kind": "reference", **key}) is not None


def make_problem(
    dataset: Dataset, protocol: str, seed: int, sizes: tuple[int, int], cache: Cache, n_jobs: int | None = None
) -> Problem:
    """Split, take or learn the hyperparameters, and condition the exact process; the costly part is remembered."""
    X, y = dataset.X, dataset.y
    if dataset.name == "kin8nm":
        X = (X - X.mean(axis=0)) / X.std(axis=0)
    order = np.random.RandomState(seed).permutation(len(X))
    train, test = order[: sizes[0]], order[sizes[0] : sizes[0] + sizes[1]]
    key = {"kind": "reference", **problem_key(dataset.name, protocol, seed, len(train), len(test))}
    stored = cache.get_arrays(key)
    if stored is None:
        given: dict[str, Any] = {}
        if protocol == "published":
            given = published_hyperparameters(dataset.name, seed).as_parameters()
        exact = ExactGPRegressor(**given, ard=False, random_state=seed, n_jobs=n_jobs).fit(X[train], y[train])
        mean, std = exact.predict(X[test], return_std=True, include_noise=True)
        learnt = np.array([exact.length_scale_, exact.signal_variance_, exact.noise_variance_])
        stored = {"mean": mean, "std": std, "hyperparameters": learnt}
        cache.put_arrays(key, **stored)
    hyperparameters = Hyperparameters(*(float(value) for value in stored["hyperparameters"]))
    halves = X[train], y[train], X[test], y[test]
    return Problem(dataset.name, protocol, seed, *halves, hyperparameters, stored["mean"], stored["std"])
