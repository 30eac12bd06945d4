"""Local models on a device: neighbourhoods of similar size side by side, padded to rectangles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from weakref import WeakKeyDictionary

import numpy as np
import torch

from ..common import memory
from ..common.arrays import Array as Tensor
from ..common.arrays import indices_like, like, on_host
from ..common.types import Floats, Integers
from ..local import graded
from ..local.centers import Placement
from ..local.depth import Depth
from ..local.plan import Plan
from ..solvers.kernel_space import KernelSpace
from . import cells, fast, models
from .cells import TensorSet
from .depth import numbers
from .models import Batch

MODEL_SHARE = 0.4  # of what is free, that fitted models may take


@dataclass(frozen=True)
class PaddedEngine:
    """See `Engine`."""

    def training_set(self, X: Tensor, y: Tensor, noise: Tensor, plan: Plan | None) -> TensorSet:
        """See `Engine`."""
        return TensorSet.of(X, y, noise, None if plan is None else plan.radius)

    def nearest(self, placement: Placement, X: Tensor, beyond_spacing: bool) -> tuple[Tensor, Tensor]:
        """See `Engine`."""
        lookup = _lookup(placement, X)
        if lookup is None:
            return cells.nearest_center(placement.centers, X)
        distance, owner = fast.nearest(lookup, X) or lookup.nearest(X)
        if beyond_spacing:
            lost = torch.nonzero(distance > (placement.spacing or 0.0)).squeeze(1)
            if len(lost):
                distance[lost], owner[lost] = cells.nearest_center(placement.centers, X[lost])
        return distance, owner

    def within(self, placement: Placement, X: Tensor, reach: Tensor) -> tuple[Tensor, Tensor]:
        """See `Engine`."""
        centers, lookup = placement.centers, _lookup(placement, X)
        if lookup is not None and len(X) and float(reach.max()) <= 2 * lookup.side:
            return lookup.within(X, reach)
        counts, owners = [], []
        for rows in cells.chunks_of_points(X, centers):
            distances = cells.distances(X[rows], centers)
            inside = distances <= reach[rows, None]
            counts.append(inside.sum(dim=1))
            owners.append(torch.nonzero(inside)[:, 1])
        return torch.cat(counts), torch.cat(owners)

    def weights(self, placement: Placement, X: Tensor, blend: bool) -> tuple[Tensor, Tensor, Tensor]:
        """See `Engine`; found on the host."""
        on_the_host = replace(placement, centers=on_host(placement.centers))
        counts, owner, weights = graded.weights(on_the_host, on_host(X), blend, None)
        return indices_like(counts, X), indices_like(owner, X), like(weights, X)

    def fit(self, plan: Plan, data: TensorSet, centers: Tensor) -> list[Batch]:
        """See `Engine`."""
        return list(models.fit(plan, data, centers))

    def update(
        self, plan: Plan, models: Sequence[Batch], new: TensorSet, data: TensorSet, centers: Tensor
    ) -> list[Batch]:
        """See `Engine`."""
        del models, new  # all models are made again
        self.require_memory(plan, data, centers)
        return self.fit(plan, data, centers)

    def predict(
        self, plan: Plan, batches: Sequence[Batch], centers: Tensor, X: Tensor, owner: Tensor, with_variance: bool
    ) -> tuple[Tensor, Tensor]:
        """See `Engine`."""
        del with_variance  # costs little beside the rest
        return models.predict(plan, batches, centers, X, owner, _n_columns(batches))

    def _by_models(
        self,
        plan: Plan,
        batches: Sequence[Batch],
        centers: Tensor,
        X: Tensor,
        owner: Tensor,
        point: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        n_columns = int(batches[0].models.coefficients.shape[-1])
        return models.predict(plan, batches, centers, X, owner, n_columns, point)

    def predict_near(
        self, plan: Plan, batches: Sequence[Batch], placement: Placement, X: Tensor, blend: bool, with_variance: bool
    ) -> tuple[Tensor, Tensor, Tensor] | None:
        """See `Engine`."""
        del with_variance
        shared = fast.shares(_lookup(placement, X), placement.spacing, X, blend) if batches else None
        if shared is None:
            return None
        owner, k = shared.owner, _n_columns(batches)
        answers = models.predict(plan, batches, placement.centers, X, owner, k, shared.point)
        return (*fast.combine(shared, *answers), shared.left)

    def predict_at(
        self, plan: Plan, data: TensorSet, places: Tensor, X: Tensor, with_variance: bool
    ) -> tuple[Tensor, Tensor]:
        """See `Engine`."""
        del with_variance
        distinct, owner = torch.unique(places, dim=0, return_inverse=True)
        data = data if plan.radius is not None else replace(data, index=None)
        return models.predict(plan, models.fit(plan, data, distinct), distinct, X, owner, data.y.shape[1])

    def numbers(
        self, plan: Plan, depth: Depth | None, data: TensorSet, centers: Tensor, sizes: Floats
    ) -> tuple[Integers, Floats]:
        """See `Engine`."""
        return numbers(plan, depth, data, centers, sizes)

    def has_points_within(self, data: TensorSet, X: Tensor, radius: float) -> Tensor:  # noqa: ARG002
        """See `Engine`: there may be; a model without points is the prior."""
        return torch.ones(len(X), dtype=torch.bool, device=X.device)

    def count_neighbours(self, plan: Plan, data: TensorSet, centers: Tensor) -> Tensor:
        """See `Engine`."""
        return torch.cat([near.counts for _, near in models.neighbourhoods(plan, data, centers)])

    def counts_of(self, models: Sequence[Batch]) -> Integers | None:
        """See `Engine`."""
        return np.concatenate([batch.n for batch in models]) if models else None

    def require_memory(self, plan: Plan, data: TensorSet, centers: Tensor) -> bool:
        """See `Engine`."""
        n = len(data.X)
        sees_all = plan.radius is None and plan.count is None
        size = plan.features.n_components if plan.features is not None else (n if sees_all else plan.count or 0)
        needed = float(centers.element_size()) * size**2 * len(centers)
        if sees_all and plan.features is None:
            memory.require(
                3 * needed,
                f"The exact Gaussian process of {n} samples",
                "A larger tolerance, or radius and features set by hand, need less.",
                centers.device,
            )
        return needed < MODEL_SHARE * memory.available_on(centers.device)

    def n_kernel_space(self, batches: Sequence[Batch]) -> int:
        """See `Engine`."""
        return sum(len(batch.members) for batch in batches if isinstance(batch.models, KernelSpace))


def _n_columns(batches: Sequence[Batch]) -> int:
    return int(batches[0].models.coefficients.shape[-1])


_lookups: WeakKeyDictionary[Placement, cells.CellLookup] = WeakKeyDictionary()


def _lookup(placement: Placement, X: Tensor) -> cells.CellLookup | None:
    """The centres by their cells, where there is one per cell."""
    if placement.cells is None or placement.lattice is None or X.shape[1] > cells.MAX_GRID_COLUMNS:
        return None
    if placement not in _lookups:
        _lookups[placement] = cells.CellLookup(placement.lattice, placement.centers)
    return _lookups[placement] if _lookups[placement].usable else None
