"""All local models together: which model answers for which test point, and centres opened where there is none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from . import blending, local
from ._parallel import n_threads
from .centers import Placement, group_rows
from .local import KernelModel, LocalModel, Plan, TrainingSet

Floats = NDArray[Any]


@dataclass(frozen=True, eq=False)
class LocalPredictor:
    """Local models and the data they came from, in units of the length scale.

    Attributes
    ----------
    plan : Plan
    data : TrainingSet
    placement : Placement
        The centres.
    models : list of LocalModel, one a centre
    open_centers : bool
        Whether test points far from all centres get one of their own.
    n_jobs : int or None
    """

    plan: Plan
    data: TrainingSet
    placement: Placement
    models: list[LocalModel]
    open_centers: bool
    n_jobs: int | None

    @classmethod
    def fit(
        cls, plan: Plan, data: TrainingSet, placement: Placement, open_centers: bool, n_jobs: int | None
    ) -> LocalPredictor:
        """Make the model of every centre."""
        models = local.fit_all(plan, data, placement.centers, n_jobs)
        return cls(plan, data, placement, models, open_centers, n_jobs)

    def updated(self, new: TrainingSet) -> LocalPredictor:
        """The predictor with more data taken in, at the same centres."""
        old = self.data
        data = TrainingSet.of(
            np.concatenate([old.X, new.X]),
            np.concatenate([old.y[:, :-1], new.y[:, :-1]]),
            np.concatenate([old.noise, new.noise]),
        )
        models = local.update_all(self.plan, self.models, new, data, self.placement.centers, self.n_jobs)
        return LocalPredictor(self.plan, data, self.placement, models, self.open_centers, self.n_jobs)

    @property
    def n_kernel_space(self) -> int:
        """Number of centres solved in kernel space."""
        return sum(isinstance(model, KernelModel) for model in self.models)

    @property
    def n_bytes(self) -> int:
        """Memory of models and data."""
        return sum(model.n_bytes for model in self.models) + self.data.X.nbytes + self.data.y.nbytes

    def predict(self, X: Floats, with_variance: bool) -> tuple[Floats, Floats]:
        """Means (m, k + 1) and variances (m,), each point by the model of its nearest centre or of one opened for it."""
        centers = self.placement.centers
        if len(centers) == 0:
            return self._opened(X, X, with_variance)
        distance, owner = cKDTree(centers).query(X, workers=n_threads(self.n_jobs))
        mean, variance = self._prior(len(X))
        hole = np.zeros(len(X), dtype=bool)
        lattice, radius, spacing = self.placement.lattice, self.plan.radius, self.placement.spacing
        if self.open_centers and lattice is not None and radius is not None and spacing is not None:
            hole = distance > spacing
            # Farther out no training point is in reach of the cell, and the prior is the answer.
            places = np.flatnonzero(hole & (distance <= radius + 2.5 * spacing))
            if len(places):
                middles = lattice.middles(lattice.cells(X[places]))
                mean[places], variance[places] = self._opened(X[places], middles, with_variance)
        known = np.flatnonzero(~hole)
        if len(known):
            mean[known], variance[known] = local.predict_groups(
                self.plan, self.models, centers, X[known], owner[known], with_variance, self.n_jobs
            )
        return mean, variance

    def predict_blended(self, X: Floats, with_variance: bool) -> tuple[Floats, Floats]:
        """The same, but continuous: weighted over the cells of the lattice that share each point."""
        lattice, cells = self.placement.lattice, self.placement.cells
        if lattice is None or cells is None:
            raise ValueError("blend=True needs centers='grid' (or 'auto' with up to three columns).")
        mean, variance = np.zeros((len(X), self.data.y.shape[1])), np.zeros(len(X))
        known = {tuple(cell): i for i, cell in enumerate(cells.tolist())}
        for points, shared, weights in blending.shares(lattice, X):
            distinct, owner = group_rows(shared)
            place = np.array([known.get(tuple(cell), -1) for cell in distinct.tolist()])[owner]
            part, part_variance = self._prior(len(points))
            inside, outside = np.flatnonzero(place >= 0), np.flatnonzero(place < 0)
            if len(inside):
                part[inside], part_variance[inside] = local.predict_groups(
                    self.plan,
                    self.models,
                    self.placement.centers,
                    X[points[inside]],
                    place[inside],
                    with_variance,
                    self.n_jobs,
                )
            if len(outside):
                part[outside], part_variance[outside] = self._opened(
                    X[points[outside]], lattice.middles(shared[outside]), with_variance
                )
            mean[points] += weights[:, None] * part
            variance[points] += weights * part_variance
        return mean, variance

    def _opened(self, X: Floats, places: Floats, with_variance: bool) -> tuple[Floats, Floats]:
        """Each point by a model made for the place given with it."""
        mean, variance = self._prior(len(X))
        if len(X) == 0:
            return mean, variance
        distinct, owner = np.unique(places, axis=0, return_inverse=True)
        owner = owner.reshape(-1)
        order = np.argsort(owner, kind="stable")
        bounds = np.searchsorted(owner[order], np.arange(len(distinct) + 1))
        for batch in local.batches(len(distinct), 256):  # models are made, used and forgotten
            members = order[bounds[batch.start] : bounds[batch.stop]]
            models = local.fit_all(self.plan, self.data, distinct[batch], self.n_jobs)
            mean[members], variance[members] = local.predict_groups(
                self.plan,
                models,
                distinct[batch],
                X[members],
                owner[members] - batch.start,
                with_variance,
                self.n_jobs,
            )
        return mean, variance

    def _prior(self, m: int) -> tuple[Floats, Floats]:
        return np.zeros((m, self.data.y.shape[1])), np.full(m, self.plan.kernel.variance)
