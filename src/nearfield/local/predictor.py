"""All local models together: which model answers for which test point, and centres opened where there is none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from threading import Lock
from typing import Any

import numpy as np

from ..common import memory
from ..common.arrays import Array, as_doubles, empty_like_shape, indices_like, is_tensor, namespace, on_host, sum_runs
from ..common.samples import some_rows
from ..common.threads import thread_map
from ..common.types import Floats, Integers
from ..common.warnings import warn
from ..solvers.feature_space import FeatureSpace
from ..solvers.kernel_space import KernelSpace
from . import blending, ensemble, fast_cells, graded
from .centers import Placement
from .depth import CellModel, Depth, fit_cells
from .engine import MEMORY_SHARE, Engine, RaggedEngine
from .model import from_sums
from .model_stack import ModelStack
from .moments import MomentModel, MomentSums
from .neighbourhoods import TrainingSet
from .plan import Plan

BLENDED_ROWS = 1 << 19  # test points blended together
CELLS_AT_ONCE = 8  # that a thread takes
PLACES_AT_ONCE = 1024  # of a cell
SHARED_SIDES = 3  # columns up to which opened cells share their borders: beyond, cells have too many


@dataclass(frozen=True, eq=False)
class Predictor:
    """Local models, in units of the length scale, and how they answer together.

    Attributes
    ----------
    plan : Plan
    placement : Placement
        The centres.
    models : sequence
        Of all centres, as the engine makes them; empty where they would fill the memory, and are made anew at each
        prediction instead.
    open_centers : bool
        Whether test points far from all centres get one of their own.
    engine : Engine
    """

    plan: Plan
    placement: Placement
    models: Sequence[Any]
    open_centers: bool
    engine: Engine

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
        if isinstance(self.models, ModelStack):
            return self.models.n_bytes
        return sum(model.n_bytes for model in self.models)

    @property
    def n_kernel_space(self) -> int:
        """Number of centres solved in kernel space."""
        return self.engine.n_kernel_space(self.models)

    @property
    def can_blend(self) -> bool:
        """Whether there are seams, and weights to blend them by."""
        has_weights = self.placement.spacing is not None or self.placement.sizes is not None
        return has_weights and len(self.placement.centers) > 0

    def median_neighbours(self) -> int:
        """Number of points in the neighbourhood of a centre, in the median."""
        raise NotImplementedError

    def n_unused(self) -> int:
        """Number of training points that no model uses, nor one opened for them would; 0 where that is not known."""
        return 0

    def predict(self, X: Array, with_variance: bool) -> tuple[Array, Array]:
        """Means (m, k + 1) and variances (m,): each by the model of the nearest centre, or of one opened for it."""
        if self.placement.sizes is not None:
            return self._by_graded_cells(X, with_variance, blend=False)
        if len(self.placement.centers) == 0:
            return self._opened(self.plan, X, X, with_variance)
        near = self.engine.predict_near(self.plan, self.models, self.placement, X, False, with_variance)
        return self._completed(near, X, with_variance, self._predict)

    def _completed(self, near: Any, X: Array, with_variance: bool, predict: Callable[..., Any]) -> tuple[Array, Array]:
        """Answers of the nearest models, with those that were left, which `predict` gives."""
        if near is None:
            return predict(X, with_variance)  # type: ignore[no-any-return]
        mean, variance, left = near
        mean[left], variance[left] = predict(X[left], with_variance)
        return mean, variance

    def _predict(self, X: Array, with_variance: bool) -> tuple[Array, Array]:
        xp = namespace(X)
        distance, owner = self.engine.nearest(self.placement, X, not self._opens_cells)
        in_hole = self._in_hole(distance, owner)
        if not bool(xp.any(in_hole)):
            return self._by_centers(X, owner, with_variance)
        mean, variance = self._prior(X)
        near, away = xp.nonzero(~in_hole)[0], xp.nonzero(in_hole)[0]
        mean[near], variance[near] = self._by_centers(X[near], owner[near], with_variance)
        mean[away], variance[away] = self._in_holes(X[away], with_variance)
        return mean, variance

    @property
    def keeps_points(self) -> bool:
        """Whether the training points are at hand, so that more can be taken in."""
        return False

    def with_points(self, what: str, at_least: int = 1) -> LocalPredictor:  # noqa: ARG002
        """The local models with their training points, `at_least` so many of them, which `what` needs.

        Raises
        ------
        ValueError
            Where they are not kept.
        """
        raise ValueError(f"The model keeps no training points, which {what}: fit it to arrays.")

    def variances_alone(self, X: Array, blend: bool) -> Array | None:  # noqa: ARG002
        """Variances (m,) where they are quicker to be had without means; None where they are not."""
        return None

    def predict_blended(self, X: Array, with_variance: bool) -> tuple[Array, Array]:
        """The same, but continuous: weighted over all centres that are near."""
        if self.placement.sizes is not None:
            return self._by_graded_cells(X, with_variance, blend=True)
        if not self.can_blend:
            return self.predict(X, with_variance)
        near = self.engine.predict_near(self.plan, self.models, self.placement, X, True, with_variance)
        return self._completed(near, X, with_variance, self._predict_blended)

    def _predict_blended(self, X: Array, with_variance: bool) -> tuple[Array, Array]:
        mean, variance = self._prior(X)
        for chunk in memory.batches(len(X), _blended_rows(X)):
            mean[chunk], variance[chunk] = self._blended(X[chunk], with_variance)
        return mean, variance

    # ---- which model answers -------------------------------------------------------------------------------------

    @property
    def _opens(self) -> bool:
        """Whether cells are opened; where all models see all points there is no need."""
        return self.open_centers and self.plan.radius is not None

    @property
    def _opens_cells(self) -> bool:
        """Whether points beyond the spacing are answered by cells of the lattice."""
        return self._opens and self.plan.count is None and self.placement.spacing is not None

    def _in_hole(self, distance: Array, owner: Array) -> Array:
        """Whether each point is so far from its nearest centre that a model is opened for it."""
        reach, spacing = self.placement.reach, self.placement.spacing
        if self.open_centers and self.plan.count is not None:
            # Outside its cell, a point is better served by neighbours of its own, and by more of them.
            return distance > (reach[owner] if reach is not None else spacing or np.inf)
        return distance > (blending.SLACK * spacing if self._opens_cells and spacing is not None else np.inf)

    def _in_holes(self, X: Array, with_variance: bool) -> tuple[Array, Array]:
        """Each point by a model opened for the cell it lies in; the prior where there are no data in reach."""
        if self.plan.count is not None:
            return self._opened(self.plan, X, X, with_variance)
        lattice = self.placement.lattice
        assert lattice is not None
        mean, variance = self._prior(X)
        near = namespace(X).nonzero(self._in_reach(X))[0]
        middles = lattice.middles(lattice.indices(X[near]))
        mean[near], variance[near] = self._opened(self.plan, X[near], middles, with_variance)
        return mean, variance

    def _by_graded_cells(self, X: Array, with_variance: bool, blend: bool) -> tuple[Array, Array]:
        """Each point by the models of the cells around it."""
        mean, variance = self._prior(X)
        for chunk in memory.batches(len(X), _blended_rows(X)):
            counts, owner, weights = self.engine.weights(self.placement, X[chunk], blend)
            points = namespace(X).repeat(X[chunk], counts, axis=0)
            answers = self._by_centers(points, owner, with_variance)
            mean[chunk] = sum_runs(weights[:, None] * answers[0], counts)
            variance[chunk] = sum_runs(weights * answers[1], counts)
        return mean, variance

    def _by_centers(self, X: Array, owner: Array, with_variance: bool) -> tuple[Array, Array]:
        """Each point by the model of the centre given with it."""
        centers = self.placement.centers
        if len(X) == 0:
            return self._prior(X)
        if not self.models:
            return self._opened(self.plan, X, centers[owner], with_variance)
        return self.engine.predict(self.plan, self.models, centers, X, owner, with_variance)

    def _opened(self, plan: Plan, X: Array, places: Array, with_variance: bool) -> tuple[Array, Array]:
        """Each point by a model made for the place given with it."""
        raise NotImplementedError

    def _in_reach(self, X: Array) -> Array:
        """Which points may have data in the neighbourhood of a cell opened for them; elsewhere the prior is right."""
        raise NotImplementedError

    def _prior(self, X: Array) -> tuple[Array, Array]:
        mean = empty_like_shape((len(X), self.n_columns), X)
        variance = empty_like_shape((len(X),), X)
        mean[...], variance[...] = 0.0, self.plan.kernel.variance
        return mean, variance

    # ---- blending ------------------------------------------------------------------------------------------------

    def _blended(self, X: Array, with_variance: bool) -> tuple[Array, Array]:
        xp, spacing = namespace(X), self.placement.spacing
        assert spacing is not None
        distance, _ = self.engine.nearest(self.placement, X, not self._opens_cells)
        opened = xp.zeros_like(distance)
        if self._opens:
            opened = blending.weight_of_opened_cells(distance, spacing)
        mean, variance = self._prior(X)
        mean[...], variance[...] = 0.0, 0.0

        near = xp.nonzero(opened < 1)[0]
        if len(near):
            reach = blending.reach_of_centers(distance[near])
            counts, owner = self.engine.within(self.placement, X[near], reach)
            weights = blending.weights_of_centers(self.placement.centers, X[near], counts, owner, reach)
            answers = self._by_centers(xp.repeat(X[near], counts, axis=0), owner, with_variance)
            rest = 1 - opened[near]
            mean[near] = rest[:, None] * sum_runs(weights[:, None] * answers[0], counts)
            variance[near] = rest * sum_runs(weights * answers[1], counts)

        away = xp.nonzero(opened > 0)[0]
        if len(away):
            answers = self._blended_cells(X[away], with_variance)
            mean[away] += opened[away][:, None] * answers[0]
            variance[away] += opened[away] * answers[1]
        return mean, variance

    def _blended_cells(self, X: Array, with_variance: bool) -> tuple[Array, Array]:
        """Each point by models opened for the cells around it, or for the point itself where cells have many sides."""
        mean, variance = self._prior(X)
        near = namespace(X).nonzero(self._in_reach(X))[0]
        lattice = self.placement.lattice
        if lattice is None or X.shape[1] > SHARED_SIDES:
            mean[near], variance[near] = self._opened(self.plan, X[near], X[near], with_variance)
            return mean, variance
        mean[near], variance[near] = 0.0, 0.0
        shared = list(blending.weights_of_cells(lattice, X[near]))
        if not shared:
            return mean, variance
        xp = namespace(X)
        rows, middles = (xp.concat([each[i] for each in shared]) for i in (0, 1))
        answers = self._opened(self.plan, X[near[rows]], middles, with_variance)  # at once: cells are opened once
        start = 0
        for points, _, weights in shared:
            own = slice(start, start + points.shape[0])
            mean[near[points]] += weights[:, None] * answers[0][own]
            variance[near[points]] += weights * answers[1][own]
            start = own.stop
        return mean, variance


_KEEPING = Lock()  # for all of them, since it is held for next to no time and goes into no file


class KeptModels:
    """Models of graded cells by their numbers, made when they were first asked for. Threads may share them."""

    def __init__(self) -> None:
        self._models: dict[int, CellModel] = {}
        self.n_bytes = 0

    def __len__(self) -> int:
        return len(self._models)

    def get(self, number: int) -> CellModel | None:
        """The model of a cell; None where it is not kept."""
        return self._models.get(number)

    def keep(self, number: int, model: CellModel, most_bytes: float) -> None:
        """Keep a model, if all together then take at most so many bytes."""
        with _KEEPING:
            if number not in self._models and self.n_bytes + model.n_bytes <= most_bytes:
                self._models[number] = model
                self.n_bytes += model.n_bytes

    def __getstate__(self) -> dict[str, Any]:
        return vars(KeptModels())  # they follow from the rest


@dataclass(frozen=True, eq=False)
class LocalPredictor(Predictor):
    """Local models and the data they came from, so that centres can be opened anywhere.

    Attributes
    ----------
    data : TrainingSet, or what the engine has for one
    depth : Depth or None
        When graded cells take more neighbours.
    is_updated : bool
        Whether data were taken in later.
    kept : KeptModels
    """

    data: Any = field(kw_only=True)
    depth: Depth | None = None
    is_updated: bool = False
    kept: KeptModels = field(default_factory=KeptModels, repr=False)

    @classmethod
    def fit(
        cls,
        plan: Plan,
        data: Any,
        placement: Placement,
        open_centers: bool,
        engine: Engine,
        depth: Depth | None = None,
    ) -> LocalPredictor:
        """Make the model of every centre, if there is room for them; those of graded cells wait to be asked for."""
        if placement.sizes is not None:
            return cls(plan, placement, [], open_centers, engine, data=data, depth=depth)
        fits = engine.require_memory(plan, data, placement.centers)
        models = engine.fit(plan, data, placement.centers) if fits else []
        return cls(plan, placement, models, open_centers, engine, data=data)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_numbers"}  # follows from the rest

    @classmethod
    def restore(
        cls,
        plan: Plan,
        data: TrainingSet,
        placement: Placement,
        models: list[FeatureSpace | MomentSums | None] | None,
        open_centers: bool,
        n_jobs: int | None,
        depth: Depth | None = None,
        coefficients: Floats | None = None,
    ) -> LocalPredictor:
        """The predictor that `stored` took apart, with the same numbers; refuses where it would fill the memory.

        With the `coefficients` (n, k + 1) of the exact process nothing is factorised before a variance is asked for.
        """
        engine = RaggedEngine(n_jobs)
        if coefficients is not None and len(placement.centers) == 1:
            made = ensemble.exact_from_coefficients(plan, data, placement.centers[0], coefficients)
            return cls(plan, placement, [made], open_centers, engine, data=data)
        if models is None or placement.sizes is not None:
            return cls.fit(plan, data, placement, open_centers, engine, depth)
        if len(models) not in (0, len(placement.centers)):
            raise ValueError("There must be one model per centre.")
        if models:
            _, total = ensemble.model_bytes(plan, data, placement.centers)
            memory.require(total, "The local models", "Load the file on a machine with more.")
        given = [from_sums(plan, model) if isinstance(model, MomentSums) else model for model in models]
        remade = ensemble.remake(plan, given, data, placement.centers, n_jobs)
        return cls(plan, placement, remade, open_centers, engine, data=data, is_updated=True)

    def stored(self) -> list[FeatureSpace | MomentSums | None] | None:
        """What of the models does not follow from plan, data and placement.

        None where all does. Sums that took in data later differ from new ones by rounding, so those models are told;
        models in kernel space always follow from the data, and are None.
        """
        if not self.is_updated or self.placement.sizes is not None:
            return None
        return [
            model.sums if isinstance(model, MomentModel) else None if isinstance(model, KernelSpace) else model
            for model in self.models
        ]

    def exact_coefficients(self) -> Floats | None:
        """Coefficients (n, k + 1) of the exact process; None for local models."""
        if not self.plan.is_exact or len(self.models) != 1 or not isinstance(self.models[0], KernelSpace):
            return None
        coefficients: Floats = self.models[0].coefficients
        return coefficients

    def updated(self, X: Array, y: Array, noise: Array, forget: bool) -> LocalPredictor:
        """The predictor with more points (n, d), targets (n, k) and noise (n,) at the same centres.

        With `forget`, with these alone.
        """
        engine, plan, centers = self.engine, self.plan, self.placement.centers
        if forget:
            new = engine.training_set(X, y, noise, plan)
            return LocalPredictor.fit(plan, new, self.placement, self.open_centers, engine, self.depth)
        xp, old = namespace(X), self.data
        data = engine.training_set(
            xp.concat([old.X, X]), xp.concat([old.y[:, :-1], y]), xp.concat([old.noise, noise]), plan
        )
        models: Sequence[Any] = []
        if self.models:
            models = engine.update(plan, self.models, engine.training_set(X, y, noise, plan), data, centers)
        n_jobs = getattr(engine, "n_jobs", None)
        placement = graded.covering(self.placement, as_doubles(data.X), plan.kernel, plan.count, n_jobs)
        return replace(self, models=models, data=data, placement=placement, is_updated=True, kept=KeptModels())

    @property
    def keeps_points(self) -> bool:
        """See `Predictor`."""
        return True

    def with_points(self, what: str, at_least: int = 1) -> LocalPredictor:
        """See `Predictor`."""
        return self if self.n_samples >= at_least else super().with_points(what)

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
        return int(super().n_bytes + self.kept.n_bytes + self.data.X.nbytes + self.data.y.nbytes)

    def n_unused(self) -> int:
        """See `Predictor`."""
        if self.open_centers or len(self.placement.centers) == 0:
            return 0
        if self.plan.radius is None:
            return int((~self.placement.covers(self.data.X)).sum()) if self.plan.count is not None else 0
        distance, _ = self.engine.nearest(self.placement, self.data.X, True)
        return int((distance > self.plan.radius).sum())

    def median_neighbours(self) -> int:
        """See `Predictor`; over at most some thousand centres."""
        centers = self.placement.centers
        if len(centers) == 0:
            n = self.n_samples
            return n if self.plan.count is None else min(self.plan.count, n)
        known = self.engine.counts_of(self.models)
        if known is not None:
            return int(np.median(known))
        some = centers[indices_like(some_rows(len(centers), 1000), centers)]
        counts = self.engine.count_neighbours(self.plan, self.data, some)
        return int(np.median(np.asarray(counts.tolist())))

    def variances_alone(self, X: Array, blend: bool) -> Array | None:
        """See `Predictor`."""
        if self.placement.sizes is not None and isinstance(self.engine, RaggedEngine):
            variance = np.empty(len(X))
            for chunk in memory.batches(len(X), _blended_rows(X)):
                counts, owner, weights = self.engine.weights(self.placement, X[chunk], blend)
                answers = self._by_kept(np.repeat(X[chunk], counts, axis=0), owner, with_mean=False)[1]
                variance[chunk] = sum_runs(weights * answers, counts)
            return variance
        return None

    def _in_reach(self, X: Array) -> Array:
        radius, spacing = self.plan.radius, self.placement.spacing
        if len(X) == 0 or radius is None or spacing is None or self.plan.count is not None:
            return namespace(X).ones_like(X[:, 0]) > 0
        # Of the cells that share a point, the farthest has its middle 1.5 spacings away.
        return self.engine.has_points_within(self.data, X, radius + 1.5 * spacing)

    def _by_centers(self, X: Array, owner: Array, with_variance: bool) -> tuple[Array, Array]:
        if self.placement.sizes is None or len(X) == 0:
            return super()._by_centers(X, owner, with_variance)
        if isinstance(self.engine, RaggedEngine):
            return self._by_kept(X, owner)
        places, counts = self.placement.centers[owner], self._counts(owner)
        mean, variance = self._prior(X)
        for count in np.unique(counts):
            chosen = indices_like(np.flatnonzero(counts == count), X)
            plan = replace(self.plan, count=int(count))
            mean[chosen], variance[chosen] = self._opened(plan, X[chosen], places[chosen], with_variance)
        return mean, variance

    def _counts(self, owner: Array) -> Integers:
        """Number of neighbours of the cell given with each point, (m,), on the host; found once for each cell."""
        sizes, (counts, lacking) = self.placement.sizes, self._numbers
        assert sizes is not None
        used, inverse = np.unique(on_host(owner), return_inverse=True)
        new = used[counts[used] == 0]
        if len(new):
            centers = self.placement.centers[indices_like(new, owner)]
            counts[new], lacking[new] = self.engine.numbers(self.plan, self.depth, self.data, centers, sizes[new])
        self._warn_of_lacking(lacking[used][inverse])
        result: Integers = counts[used][inverse]
        return result

    @cached_property
    def _numbers(self) -> tuple[Integers, Floats]:
        """Numbers of neighbours of all cells, as far as they are known, and what they lack."""
        n = len(self.placement.centers)
        return np.zeros(n, dtype=np.int64), np.zeros(n)

    def _warn_of_lacking(self, lacking: Floats) -> None:
        """Warn where cells were to have more neighbours, from the nats (m,) that the cell of each place lacks."""
        if self.depth is not None and len(lacking) and lacking.mean() > self.depth.tolerance:
            warn(
                f"{np.mean(lacking > 0):.0%} of the places asked for are far from the data on one side, and "
                f"{self.depth.most} neighbours do not suffice there: these predictions are up to {lacking.max():.1g} "
                "nats of KL from the exact Gaussian process. A smaller tolerance makes the mean exact."
            )

    def _by_kept(self, X: Floats, owner: Integers, with_mean: bool = True) -> tuple[Floats, Floats]:
        """Each point by the model of its centre, which is made if it is new, and kept as long as there is room.

        Where cells are many, compiled loops make them each time, and keep none. Without means, these are (m, 0).
        """
        assert isinstance(self.engine, RaggedEngine)
        sizes, n_jobs = self.placement.sizes, self.engine.n_jobs
        assert sizes is not None
        used, inverse = np.unique(owner, return_inverse=True)
        order = np.argsort(inverse, kind="stable")
        bounds = np.searchsorted(inverse[order], np.arange(len(used) + 1))
        cells = (self.placement.centers[used], sizes[used], fast_cells.Members(X, order, bounds))
        n_cells = len(self.placement.centers)
        quick = fast_cells.answer(self.plan, self.depth, self.data, *cells, with_mean, n_jobs, n_cells=n_cells)
        if quick is None:
            mean, variance = np.empty((len(X), self.n_columns if with_mean else 0)), np.empty(len(X))
            lacking, left = np.zeros(len(used)), np.arange(len(used))
        else:
            mean, variance, lacking, left = *quick[:3], np.flatnonzero(quick.left)
        models_of = self.models_of_cells()

        def work(batch: slice) -> None:
            for i, model in zip(left[batch].tolist(), models_of(used[left[batch]]), strict=True):
                lacking[i] = model.lacking
                members = order[bounds[i] : bounds[i + 1]]
                for chunk in memory.batches(len(members), PLACES_AT_ONCE):
                    rows = members[chunk]
                    Z = X[rows] - cells[0][i]
                    if with_mean:
                        mean[rows], variance[rows] = model.mean_and_variance(Z)
                    else:
                        variance[rows] = model.variance(Z)

        thread_map(work, memory.batches(len(left), CELLS_AT_ONCE), n_jobs)
        self._warn_of_lacking(lacking[inverse])
        return mean, variance

    def models_of_cells(self) -> Callable[[Integers], list[CellModel]]:
        """A function that gives the models of graded cells by their numbers, and keeps them as long as there is room.

        Threads may share it.
        """
        most_bytes = MEMORY_SHARE * (memory.available() + self.kept.n_bytes)

        def models_of(numbers: Integers) -> list[CellModel]:
            models = self._models(numbers)
            for number, model in zip(numbers.tolist(), models, strict=True):
                self.kept.keep(number, model, most_bytes)
            return models

        return models_of

    def _models(self, numbers: Integers) -> list[CellModel]:
        """Models of some graded cells, kept or new."""
        sizes = self.placement.sizes
        assert sizes is not None
        kept = [self.kept.get(i) for i in numbers.tolist()]
        new = numbers[[model is None for model in kept]]
        if len(new):
            models = iter(fit_cells(self.plan, self.depth, self.data, self.placement.centers[new], sizes[new]))
        return [next(models) if model is None else model for model in kept]

    def _opened(self, plan: Plan, X: Array, places: Array, with_variance: bool) -> tuple[Array, Array]:
        if len(X) == 0:
            return self._prior(X)
        return self.engine.predict_at(plan, self.data, places, X, with_variance)


def _blended_rows(X: Array) -> int:
    """Points to blend together: on a device, many, since each time all models are gone through."""
    return 4 * BLENDED_ROWS if is_tensor(X) else BLENDED_ROWS
