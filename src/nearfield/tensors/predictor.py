"""All local models on a device: which model answers for which test point, and centres opened where there is none."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch

from ..common.arrays import Array as Tensor
from ..local.centers import Lattice
from ..local.plan import Plan
from ..local.predictor import SLACK, plan_for_holes
from ..solvers.kernel_space import KernelSpace
from . import cells, memory, models
from .models import Batch, TensorSet


@dataclass(frozen=True, eq=False)
class TensorPlacement:
    """Centres on a device; see `centers.Placement`.

    Attributes
    ----------
    centers : tensor of shape (C, d)
    spacing : float or None
    lattice : Lattice or None
    reach : tensor of shape (C,) or None
    one_a_cell : bool
        Whether each centre lies in a cell of the lattice of its own.
    """

    centers: Tensor
    spacing: float | None
    lattice: Lattice | None
    reach: Tensor | None = None
    one_a_cell: bool = False


def place(X: Tensor, spacing: float) -> TensorPlacement:
    """One centre in every occupied cell of a lattice that covers the points."""
    lattice = cells.covering(X, spacing)
    return TensorPlacement(cells.lattice_centers(lattice, X), spacing, lattice, one_a_cell=True)


@dataclass(frozen=True, eq=False)
class TensorPredictor:
    """Local models and the data they came from; what `LocalPredictor` is for NumPy.

    Attributes
    ----------
    plan : Plan
    data : TensorSet
    placement : TensorPlacement
    batches : list of Batch
        Models; none where they would fill the memory, and are made anew at each prediction instead.
    open_centers : bool
    """

    plan: Plan
    data: TensorSet
    placement: TensorPlacement
    batches: list[Batch]
    open_centers: bool

    @classmethod
    def fit(cls, plan: Plan, data: TensorSet, placement: TensorPlacement, open_centers: bool) -> TensorPredictor:
        """Make the model of every centre, if there is room for them."""
        centers = placement.centers
        n = len(data.X)
        alone = plan.radius is None and plan.count is None
        size = plan.features.n_components if plan.features is not None else (n if alone else plan.count or 0)
        needed = float(centers.element_size()) * size**2 * len(centers)
        if alone and plan.features is None:
            memory.require(
                3 * needed,
                centers.device,
                f"The exact Gaussian process of {n} samples",
                "A larger tolerance, or radius and features set by hand, need less.",
            )
        fits = needed < memory.MODEL_SHARE * memory.available(centers.device)
        batches = list(models.fit(plan, data, centers)) if fits else []
        return cls(plan, data, placement, batches, open_centers)

    @property
    def n_kernel_space(self) -> int:
        """Number of centres solved in kernel space."""
        return sum(len(b.members) for b in self.batches if isinstance(b.models, KernelSpace))

    @property
    def n_samples(self) -> int:
        """Number of training points."""
        return len(self.data.X)

    @property
    def n_bytes(self) -> int:
        """Memory of models and data."""
        return int(sum(b.models.n_bytes for b in self.batches) + self.data.X.nbytes + self.data.y.nbytes)

    def predict(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Means (m, k + 1) and variances (m,): each by the model of the nearest centre, or of one opened for it."""
        if len(X) == 0:
            return self._prior(X)
        centers = self.placement.centers
        if len(centers) == 0:
            return self._opened(self.plan, X, X)
        if len(centers) == 1 and not self.open_centers:
            return self._by_models(X, torch.zeros(len(X), dtype=torch.int64, device=X.device))
        distance, owner = self._nearest(X)
        hole = torch.zeros(len(X), dtype=torch.bool, device=X.device)
        reach, spacing = self.placement.reach, self.placement.spacing
        if self.open_centers and self.plan.count is not None:
            hole = distance > (reach[owner] if reach is not None else spacing or torch.inf)
        elif self.open_centers and self.plan.radius is not None and spacing is not None:
            hole = distance > SLACK * spacing
        if not bool(hole.any()):
            return self._by_models(X, owner)
        mean, variance = self._prior(X)
        known = torch.nonzero(~hole).squeeze(1)
        mean[known], variance[known] = self._by_models(X[known], owner[known])
        away = torch.nonzero(hole).squeeze(1)
        mean[away], variance[away] = self._in_holes(X[away], distance[away])
        return mean, variance

    def _nearest(self, X: Tensor) -> tuple[Tensor, Tensor]:
        placement = self.placement
        if not placement.one_a_cell or placement.lattice is None or X.shape[1] > cells.MAX_GRID_COLUMNS:
            return cells.nearest_center(placement.centers, X)
        lookup = cells.CellLookup(placement.lattice, placement.centers)
        if not lookup.usable:
            return cells.nearest_center(placement.centers, X)
        distance, owner = lookup.nearest(X)
        if self.open_centers and self.plan.radius is not None and self.plan.count is None:
            return distance, owner  # beyond the cells around it a point is in a hole, whichever centre is the nearest
        lost = torch.nonzero(distance > (placement.spacing or 0.0)).squeeze(1)
        if len(lost):
            distance[lost], owner[lost] = cells.nearest_center(placement.centers, X[lost])
        return distance, owner

    def _by_models(self, X: Tensor, owner: Tensor) -> tuple[Tensor, Tensor]:
        if len(X) == 0:
            return self._prior(X)
        centers = self.placement.centers
        if self.batches:
            batches: Iterator[Batch] = iter(self.batches)
        else:  # made for the centres that are asked for, used and forgotten
            asked, owner = torch.unique(owner, return_inverse=True)
            centers = centers[asked]
            batches = models.fit(self.plan, self.data, centers)
        return models.predict(self.plan, batches, centers, X, owner, self.data.y.shape[1])

    def _in_holes(self, X: Tensor, distance: Tensor) -> tuple[Tensor, Tensor]:
        """Points far from all centres, by models opened for the cells they lie in."""
        if self.plan.count is not None:
            side = torch.exp2(torch.floor(torch.log2(distance.clamp(min=1e-30) / 4)))[:, None]
            return self._opened(plan_for_holes(self.plan), X, (torch.floor(X / side) + 0.5) * side)
        lattice = self.placement.lattice
        assert lattice is not None
        origin = torch.as_tensor(lattice.origin, dtype=X.dtype, device=X.device)
        return self._opened(self.plan, X, origin + (torch.floor((X - origin) / lattice.side) + 0.5) * lattice.side)

    def _opened(self, plan: Plan, X: Tensor, places: Tensor) -> tuple[Tensor, Tensor]:
        """Each point by a model made for the place given with it."""
        distinct, owner = torch.unique(places, dim=0, return_inverse=True)
        data = self.data if plan.radius is not None else replace(self.data, index=None)
        return models.predict(plan, models.fit(plan, data, distinct), distinct, X, owner, self.data.y.shape[1])

    def _prior(self, X: Tensor) -> tuple[Tensor, Tensor]:
        return X.new_zeros((len(X), self.data.y.shape[1])), X.new_full((len(X),), self.plan.kernel.variance)
