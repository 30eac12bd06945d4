"""Who computes local models: the small protocol behind which the CPU and a device do their work differently.

An engine finds centres near points, makes models around centres and asks them. The ragged engine works on NumPy arrays,
with neighbourhoods of any size one by one in threads; the padded one of `nearfield.tensors` on PyTorch tensors, with
neighbourhoods of similar size side by side.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from scipy.spatial import cKDTree

from ..common import memory
from ..common.arrays import Array
from ..common.threads import n_threads
from ..common.types import Booleans, Floats, Integers
from ..solvers.kernel_space import KernelSpace
from . import ensemble, fast, graded, many_targets
from .centers import Placement
from .depth import Depth, fit_cells
from .model import MANY_TARGETS, LocalModel
from .model_stack import ModelStack
from .neighbourhoods import TrainingSet
from .plan import Plan

MEMORY_SHARE = 0.25  # of what is free, that models may take
USUALLY_ENOUGH = {1: 3, 2: 6, 3: 12}  # centres near a point, by the number of columns


class Engine(Protocol):
    """What a predictor needs. Arrays are of one kind throughout, points in length scales."""

    def training_set(self, X: Array, y: Array, noise: Array, plan: Plan | None) -> Any:
        """Points (n, d), targets (n, k) and noise (n,), indexed for the neighbourhoods of a plan, or of any."""

    def nearest(self, placement: Placement, X: Array, beyond_spacing: bool) -> tuple[Array, Array]:
        """Distance (m,) from each point to its nearest centre, and which it is (m,).

        Without `beyond_spacing`, a point farther than the spacing from all centres may get any distance beyond it.
        """

    def within(self, placement: Placement, X: Array, reach: Array) -> tuple[Array, Array]:
        """How many centres (m,) are within `reach` (m,) of each point, and which ones, point by point."""

    def weights(self, placement: Placement, X: Array, blend: bool) -> tuple[Array, Array, Array]:
        """Centres of graded cells that answer for points; see `graded.weights`."""

    def fit(self, plan: Plan, data: Any, centers: Array) -> Sequence[Any]:
        """Models around all centres."""

    def update(self, plan: Plan, models: Sequence[Any], new: Any, data: Any, centers: Array) -> Sequence[Any]:
        """Models with `new` points taken in; `data` holds all points, old and new."""

    def predict(
        self, plan: Plan, models: Sequence[Any], centers: Array, X: Array, owner: Array, with_variance: bool
    ) -> tuple[Array, Array]:
        """Means (m, k + 1) and variances (m,) at `X`, each point by the model of its centre `owner` (m,)."""

    def predict_near(
        self, plan: Plan, models: Sequence[Any], placement: Placement, X: Array, blend: bool, with_variance: bool
    ) -> tuple[Array, Array, Array] | None:
        """The same by the nearest models, and which points (m,) are left to the other ways; None if all of them."""

    def predict_at(self, plan: Plan, data: Any, places: Array, X: Array, with_variance: bool) -> tuple[Array, Array]:
        """The same, each point by a model made around the place (m, d) given with it, used and forgotten."""

    def numbers(
        self, plan: Plan, depth: Depth | None, data: Any, centers: Array, sizes: Floats
    ) -> tuple[Integers, Floats]:
        """Numbers of neighbours (C,) that graded cells take, and nats that they lack (C,), on the host."""

    def has_points_within(self, data: Any, X: Array, radius: float) -> Array:
        """Whether there may be training points within `radius` of each point (m,)."""

    def count_neighbours(self, plan: Plan, data: Any, centers: Array) -> Array:
        """Number of points in the neighbourhood of each centre (C,)."""

    def counts_of(self, models: Sequence[Any]) -> Integers | None:
        """The same of models that know it; None where some do not."""

    def require_memory(self, plan: Plan, data: Any, centers: Array) -> bool:
        """Refuse models that cannot be made at all; whether those of all centres may be kept."""

    def n_kernel_space(self, models: Sequence[Any]) -> int:
        """Number of centres solved in kernel space."""


@dataclass(frozen=True)
class RaggedEngine:
    """NumPy arrays, with `n_jobs` threads over centres; see `Engine`."""

    n_jobs: int | None = None

    def training_set(self, X: Floats, y: Floats, noise: Floats, plan: Plan | None) -> TrainingSet:  # noqa: ARG002
        """See `Engine`."""
        return TrainingSet.of(X, y, noise)

    def nearest(self, placement: Placement, X: Floats, beyond_spacing: bool) -> tuple[Floats, Integers]:  # noqa: ARG002
        """See `Engine`."""
        distance, owner = cKDTree(placement.centers).query(X, workers=n_threads(self.n_jobs))
        return distance, owner

    def within(self, placement: Placement, X: Floats, reach: Floats) -> tuple[Integers, Integers]:
        """See `Engine`."""
        tree, workers = cKDTree(placement.centers), n_threads(self.n_jobs)
        k = min(USUALLY_ENOUGH.get(X.shape[1], 1), tree.n)
        distances, owner = (each.reshape(len(X), k) for each in tree.query(X, k, workers=workers))
        inside = distances <= reach[:, None]
        counts = inside.sum(axis=1)
        many = np.flatnonzero(inside[:, -1]) if k < tree.n else np.empty(0, dtype=np.int64)
        if len(many) == 0:
            return counts, owner[inside]
        lists = tree.query_ball_point(X[many], reach[many], workers=workers)
        inside[many] = False
        few = inside.sum(axis=1)
        counts[many] = [len(each) for each in lists]
        point = np.concatenate([np.repeat(np.arange(len(X)), few), np.repeat(many, counts[many])])
        which = np.concatenate([owner[inside], *(np.asarray(each, dtype=np.int64) for each in lists)])
        return counts, which[np.argsort(point, kind="stable")]

    def weights(self, placement: Placement, X: Floats, blend: bool) -> tuple[Integers, Integers, Floats]:
        """See `Engine`."""
        return graded.weights(placement, X, blend, self.n_jobs)

    def fit(self, plan: Plan, data: TrainingSet, centers: Floats) -> Sequence[LocalModel]:
        """See `Engine`."""
        return ensemble.fit_all(plan, data, centers, self.n_jobs)

    def update(
        self, plan: Plan, models: Sequence[LocalModel], new: TrainingSet, data: TrainingSet, centers: Floats
    ) -> list[LocalModel]:
        """See `Engine`."""
        memory.require(
            max(ensemble.model_bytes(plan, data, centers)),
            f"The local models of {len(data.X)} samples",
            "Fit again to all of them: neighbourhoods, and how many, are chosen for the data there are.",
        )
        return ensemble.update_all(plan, models, new, data, centers, self.n_jobs)

    def predict(
        self,
        plan: Plan,
        models: Sequence[LocalModel],
        centers: Floats,
        X: Floats,
        owner: Integers,
        with_variance: bool,
    ) -> tuple[Floats, Floats]:
        """See `Engine`."""
        return ensemble.predict_groups(plan, models, centers, X, owner, with_variance, self.n_jobs)

    def predict_near(
        self,
        plan: Plan,
        models: Sequence[LocalModel],
        placement: Placement,
        X: Floats,
        blend: bool,
        with_variance: bool,
    ) -> tuple[Floats, Floats, Booleans] | None:
        """See `Engine`."""
        if not with_variance and models and models[0].coefficients.shape[1] >= MANY_TARGETS:
            return many_targets.predict(plan, models, placement, X, blend, self.n_jobs)
        return fast.predict(plan, models, placement, X, blend, self.n_jobs)

    def predict_at(
        self, plan: Plan, data: TrainingSet, places: Floats, X: Floats, with_variance: bool
    ) -> tuple[Floats, Floats]:
        """See `Engine`."""
        mean, variance = np.empty((len(X), data.y.shape[1])), np.empty(len(X))
        distinct, owner = np.unique(places, axis=0, return_inverse=True)
        owner = owner.reshape(-1)
        order = np.argsort(owner, kind="stable")
        bounds = np.searchsorted(owner[order], np.arange(len(distinct) + 1))
        for batch in memory.batches(len(distinct), 256):
            members = order[bounds[batch.start] : bounds[batch.stop]]
            models = self.fit(plan, data, distinct[batch])
            mean[members], variance[members] = self.predict(
                plan, models, distinct[batch], X[members], owner[members] - batch.start, with_variance
            )
        return mean, variance

    def numbers(
        self, plan: Plan, depth: Depth | None, data: TrainingSet, centers: Floats, sizes: Floats
    ) -> tuple[Integers, Floats]:
        """See `Engine`."""
        models = fit_cells(plan, depth, data, centers, sizes)
        return np.array([len(model.X) for model in models]), np.array([model.lacking for model in models])

    def has_points_within(self, data: TrainingSet, X: Floats, radius: float) -> Array:
        """See `Engine`."""
        return data.counts(X, radius) > 0

    def count_neighbours(self, plan: Plan, data: TrainingSet, centers: Floats) -> Integers:
        """See `Engine`."""
        n, least = len(data.X), plan.count or 0
        if plan.radius is None:
            return np.full(len(centers), min(least, n) if plan.count is not None else n)
        return np.minimum(np.maximum(data.counts(centers, plan.radius), least), n)

    def counts_of(self, models: Sequence[LocalModel]) -> Integers | None:
        """See `Engine`."""
        return models.n if isinstance(models, ModelStack) else None

    def require_memory(self, plan: Plan, data: TrainingSet, centers: Floats) -> bool:
        """See `Engine`."""
        largest, total = ensemble.model_bytes(plan, data, centers)
        memory.require(
            largest,
            "The model of a single centre",
            "A smaller radius or fewer features need less, and radius='auto' finds out how much is enough.",
        )
        return total < memory.room()

    def n_kernel_space(self, models: Sequence[LocalModel]) -> int:
        """See `Engine`."""
        if isinstance(models, ModelStack):
            return 0
        return sum(isinstance(model, KernelSpace) for model in models)
