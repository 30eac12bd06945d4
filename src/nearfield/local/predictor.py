"""All local models together: which model answers for which test point, and centres opened where there is none."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.spatial import cKDTree

from ..common import memory
from ..common.threads import n_threads
from ..common.types import Booleans, Floats, Integers
from ..solvers.feature_space import FeatureSpace
from ..solvers.kernel_space import KernelSpace
from . import blending, ensemble
from .centers import Placement, graded_cells
from .model import LocalModel
from .neighbourhoods import TrainingSet
from .plan import Plan

MEMORY_SHARE = 0.25  # of what is free, that models may take
SLACK = 1.03  # of the spacing: up to there the nearest centre answers, so that slivers between cells open no models
HOLE_FACTOR, HOLE_MOST = 4, 600  # times as many neighbours for places far from the data, up to so many


def plan_for_holes(plan: Plan) -> Plan:
    """More neighbours, in kernel space: what the long scales say far from the data comes from afar."""
    assert plan.count is not None
    return Plan(plan.kernel, None, None, count=max(plan.count, min(HOLE_FACTOR * plan.count, HOLE_MOST)))


@dataclass(frozen=True, eq=False)
class Predictor:
    """Local models, in units of the length scale, and how they answer together.

    Attributes
    ----------
    plan : Plan
    placement : Placement
        The centres.
    models : list of LocalModel
        One a centre; none where they would fill the memory, and are made anew at each prediction instead.
    open_centers : bool
        Whether test points far from all centres get one of their own.
    n_jobs : int or None
    """

    plan: Plan
    placement: Placement
    models: list[LocalModel]
    open_centers: bool
    n_jobs: int | None

    @property
    def n_samples(self) -> int:
        """Number of training points."""
        raise NotImplementedError

    @property
    def n_columns(self) -> int:
        """Number of targets and one more."""
        raise NotImplementedError

    @property
    def n_bytes(self) -> int:
        """Memory taken."""
        return sum(model.n_bytes for model in self.models)

    @property
    def n_kernel_space(self) -> int:
        """Number of centres solved in kernel space."""
        return sum(isinstance(model, KernelSpace) for model in self.models)

    def median_neighbours(self, centers: Floats) -> int:
        """Number of points in the neighbourhood of a centre, in the median."""
        raise NotImplementedError

    def predict(self, X: Floats, with_variance: bool) -> tuple[Floats, Floats]:
        """Means (m, k + 1) and variances (m,): each by the model of the nearest centre, or of one opened for it."""
        if len(self.placement.centers) == 0:
            return self._opened(X, X, with_variance)
        distance, owner = self._nearest(cKDTree(self.placement.centers), X)
        mean, variance = self._prior(len(X))
        hole = np.zeros(len(X), dtype=bool)
        lattice, spacing = self.placement.lattice, self.placement.spacing
        if self.open_centers and self.plan.count is not None:
            # Outside its cell, a point is better served by neighbours of its own, and by more of them.
            reach = self.placement.reach
            hole = distance > (reach[owner] if reach is not None else spacing or np.inf)
            places = np.flatnonzero(hole)
            wider = plan_for_holes(self.plan)
            middles = graded_cells(X[places], distance[places])
            mean[places], variance[places] = replace(self, plan=wider)._opened(X[places], middles, with_variance)
        elif self._opens and lattice is not None and spacing is not None:
            hole = distance > SLACK * spacing
            places = np.flatnonzero(hole)
            places = places[self._in_reach(X[places])]
            middles = lattice.middles(lattice.cells(X[places]))
            mean[places], variance[places] = self._opened(X[places], middles, with_variance)
        known = np.flatnonzero(~hole)
        mean[known], variance[known] = self._known(X[known], owner[known], with_variance)
        return mean, variance

    def predict_blended(self, X: Floats, with_variance: bool) -> tuple[Floats, Floats]:
        """The same, but continuous: weighted over all centres that are near."""
        if len(self.placement.centers) == 0 or self.placement.spacing is None:
            return self.predict(X, with_variance)
        mean, variance = self._prior(len(X))
        for chunk in memory.batches(len(X), 1 << 16):
            mean[chunk], variance[chunk] = self._blended(X[chunk], self.placement.spacing, with_variance)
        return mean, variance

    def _blended(self, X: Floats, spacing: float, with_variance: bool) -> tuple[Floats, Floats]:
        tree = cKDTree(self.placement.centers)
        distance, _ = self._nearest(tree, X)
        opened = blending.share_opened(distance, spacing) if self._opens else np.zeros(len(X))
        mean, variance = np.zeros((len(X), self.n_columns)), np.zeros(len(X))

        known = np.flatnonzero(opened < 1)
        if len(known):
            counts, owner, weights = blending.share_centers(
                tree, X[known], distance[known], spacing, n_threads(self.n_jobs)
            )
            part, part_variance = self._known(np.repeat(X[known], counts, axis=0), owner, with_variance)
            starts = np.cumsum(counts) - counts
            rest = 1 - opened[known]
            mean[known] = rest[:, None] * np.add.reduceat(weights[:, None] * part, starts)
            variance[known] = rest * np.add.reduceat(weights * part_variance, starts)

        holes = np.flatnonzero(opened > 0)
        part, part_variance = self._blended_cells(X[holes], with_variance)
        mean[holes] += opened[holes, None] * part
        variance[holes] += opened[holes] * part_variance
        return mean, variance

    def _blended_cells(self, X: Floats, with_variance: bool) -> tuple[Floats, Floats]:
        """Each point by models opened for the cells around it, or for the point itself where cells have many sides."""
        mean, variance = self._prior(len(X))
        near = np.flatnonzero(self._in_reach(X))
        lattice = self.placement.lattice
        if lattice is None or X.shape[1] > 3:
            mean[near], variance[near] = self._opened(X[near], X[near], with_variance)
            return mean, variance
        mean[near], variance[near] = 0.0, 0.0
        for points, cells, weights in blending.share_cells(lattice, X[near]):
            part, part_variance = self._opened(X[near[points]], lattice.middles(cells), with_variance)
            mean[near[points]] += weights[:, None] * part
            variance[near[points]] += weights * part_variance
        return mean, variance

    @property
    def _opens(self) -> bool:
        """Whether centres are opened; where all models see all points there is no need."""
        return self.open_centers and self.plan.radius is not None

    def _in_reach(self, X: Floats) -> Booleans:
        """Which points may have data in the neighbourhood of a centre opened for them; elsewhere the prior is right."""
        raise NotImplementedError

    def _nearest(self, tree: cKDTree, X: Floats) -> tuple[Floats, Integers]:
        distance, owner = tree.query(X, workers=n_threads(self.n_jobs))
        return distance, owner

    def _known(self, X: Floats, owner: Integers, with_variance: bool) -> tuple[Floats, Floats]:
        """Each point by the model of the centre given with it."""
        if len(X) == 0:
            return self._prior(0)
        if not self.models:
            return self._opened(X, self.placement.centers[owner], with_variance)
        return ensemble.predict_groups(
            self.plan, self.models, self.placement.centers, X, owner, with_variance, self.n_jobs
        )

    def _opened(self, X: Floats, places: Floats, with_variance: bool) -> tuple[Floats, Floats]:
        """Each point by a model made for the place given with it."""
        raise NotImplementedError

    def _prior(self, m: int) -> tuple[Floats, Floats]:
        return np.zeros((m, self.n_columns)), np.full(m, self.plan.kernel.variance)


@dataclass(frozen=True, eq=False)
class LocalPredictor(Predictor):
    """Local models and the data they came from, so that centres can be opened anywhere.

    Attributes
    ----------
    data : TrainingSet
    is_updated : bool
        Whether data were taken in later.
    """

    data: TrainingSet
    is_updated: bool = False

    @classmethod
    def fit(
        cls, plan: Plan, data: TrainingSet, placement: Placement, open_centers: bool, n_jobs: int | None
    ) -> LocalPredictor:
        """Make the model of every centre, if there is room for them."""
        one, every = ensemble.model_bytes(plan, data, placement.centers)
        memory.require(
            one,
            "The model of a single centre",
            "A smaller radius or fewer features need less, and radius='auto' finds out how much is enough.",
        )
        fits = every < MEMORY_SHARE * memory.available()
        models = ensemble.fit_all(plan, data, placement.centers, n_jobs) if fits else []
        return cls(plan, placement, models, open_centers, n_jobs, data)

    @classmethod
    def restore(
        cls,
        plan: Plan,
        data: TrainingSet,
        placement: Placement,
        models: list[FeatureSpace | None] | None,
        open_centers: bool,
        n_jobs: int | None,
    ) -> LocalPredictor:
        """The predictor that `stored` took apart, with the same numbers; refuses where it would fill the memory."""
        if models is None:
            return cls.fit(plan, data, placement, open_centers, n_jobs)
        if models:
            _, every = ensemble.model_bytes(plan, data, placement.centers)
            memory.require(every, "The local models", "Load the file on a machine with more.")
        if len(models) not in (0, len(placement.centers)):
            raise ValueError("There must be one model a centre.")
        return cls(
            plan=plan,
            data=data,
            placement=placement,
            models=ensemble.remake(plan, models, data, placement.centers, n_jobs),
            open_centers=open_centers,
            n_jobs=n_jobs,
            is_updated=True,
        )

    def stored(self) -> list[FeatureSpace | None] | None:
        """What of the models does not follow from plan, data and placement.

        None where all does. Sums that took in data later differ from new ones by rounding, so those models are told;
        models in kernel space always follow from the data, and are None.
        """
        if not self.is_updated:
            return None
        return [model if isinstance(model, FeatureSpace) else None for model in self.models]

    def updated(self, new: TrainingSet) -> LocalPredictor:
        """The predictor with more data taken in, at the same centres."""
        old = self.data
        data = TrainingSet.of(
            np.concatenate([old.X, new.X]),
            np.concatenate([old.y[:, :-1], new.y[:, :-1]]),
            np.concatenate([old.noise, new.noise]),
        )
        models: list[LocalModel] = []
        if self.models:
            one, every = ensemble.model_bytes(self.plan, data, self.placement.centers)
            memory.require(
                max(one, every),
                f"The local models of {len(data.X)} samples",
                "Fit again to all of them: neighbourhoods, and how many, are chosen for the data there are.",
            )
            models = ensemble.update_all(self.plan, self.models, new, data, self.placement.centers, self.n_jobs)
        return LocalPredictor(self.plan, self.placement, models, self.open_centers, self.n_jobs, data, True)

    @property
    def n_samples(self) -> int:
        """Number of training points."""
        return len(self.data.X)

    @property
    def n_columns(self) -> int:
        """Number of targets and one more."""
        return int(self.data.y.shape[1])

    @property
    def n_bytes(self) -> int:
        """Memory of models and data."""
        return super().n_bytes + self.data.X.nbytes + self.data.y.nbytes

    def n_unseen(self) -> int:
        """Number of training points that no model holds, nor one opened for them would."""
        if self.open_centers or len(self.placement.centers) == 0:
            return 0
        if self.plan.radius is None:
            return int(np.sum(~self.placement.serves(self.data.X))) if self.plan.count is not None else 0
        distance, _ = self._nearest(cKDTree(self.placement.centers), self.data.X)
        return int(np.sum(distance > self.plan.radius))

    def median_neighbours(self, centers: Floats) -> int:
        """Number of points in the neighbourhood of a centre, in the median."""
        n, least = self.n_samples, self.plan.count
        if self.plan.radius is None or len(centers) == 0:
            return n if least is None else min(least, n)
        counts = self.data.tree.query_radius(centers, self.plan.radius, count_only=True)
        return int(np.median(np.maximum(counts, least or 0)))

    def _in_reach(self, X: Floats) -> Booleans:
        """Which points may have data in the neighbourhood of a centre opened for them; elsewhere the prior is right."""
        radius, spacing = self.plan.radius, self.placement.spacing
        if len(X) == 0 or radius is None or spacing is None or self.plan.count is not None:
            return np.ones(len(X), dtype=bool)
        # Of the cells that share a point, the farthest has its middle 1.5 spacings away.
        result: Booleans = self.data.tree.query_radius(X, radius + 1.5 * spacing, count_only=True) > 0
        return result

    def _opened(self, X: Floats, places: Floats, with_variance: bool) -> tuple[Floats, Floats]:
        """Each point by a model made for the place given with it."""
        mean, variance = self._prior(len(X))
        if len(X) == 0:
            return mean, variance
        distinct, owner = np.unique(places, axis=0, return_inverse=True)
        owner = owner.reshape(-1)
        order = np.argsort(owner, kind="stable")
        bounds = np.searchsorted(owner[order], np.arange(len(distinct) + 1))
        for batch in memory.batches(len(distinct), 256):  # models are made, used and forgotten
            members = order[bounds[batch.start] : bounds[batch.stop]]
            models = ensemble.fit_all(self.plan, self.data, distinct[batch], self.n_jobs)
            mean[members], variance[members] = ensemble.predict_groups(
                self.plan,
                models,
                distinct[batch],
                X[members],
                owner[members] - batch.start,
                with_variance,
                self.n_jobs,
            )
        return mean, variance
