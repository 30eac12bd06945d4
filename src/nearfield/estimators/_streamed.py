"""Fitting from a source: the passes, one after the other. The mathematics is in `streaming` and `coverage`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..common import memory
from ..common.arrays import in_units
from ..common.types import Floats, Integers
from ..common.validation import check_n_targets
from ..common.warnings import warn
from ..kernels import Kernel
from ..local import centers
from ..local.centers import Lattice, Placement
from ..local.neighbourhoods import TrainingSet
from ..local.plan import Plan
from ..local.predictor import LocalPredictor
from ..solvers.statistics import Statistics
from ..streaming import centers as coverage
from ..streaming.batches import Batch, SourceError
from ..streaming.centers import MAX_LATTICE_COLUMNS, Occupied
from ..streaming.neighbours import make_blocks, neighbourhood_maker
from ..streaming.output import check_fitted_on
from ..streaming.passes import Passes, Reduction, Sample, Sampled
from ..streaming.predictor import StreamedPredictor
from ..streaming.source import ArraySource, Source, as_source
from ..streaming.sums import LocalSums, limit_of

if TYPE_CHECKING:
    from ..local.choices import Choice
    from ._base import GPRegressor
    from .feature import FeatureGPRegressor
    from .local import LocalGPRegressor


BLOCKS = 64


def take_sample(model: GPRegressor, passes: Passes, rng: np.random.RandomState) -> Sampled:
    """First pass; sets what scikit-learn wants to know of the columns."""
    source = passes.source
    sampled: Sampled = passes.run(Sample(source.sample_size, int(rng.randint(2**31 - 1))), "sample")
    least = model._least_samples()
    if sampled.n < least:
        raise SourceError(f"The source has {sampled.n} rows (of positive weight), but a fit needs at least {least}.")
    model.n_features_in_ = sampled.rows.X.shape[1]
    model._single_target = source.single_target and sampled.rows.targets.shape[1] == 1
    if hasattr(model, "feature_names_in_"):
        del model.feature_names_in_
    if source.names is not None:
        if len(source.names) != model.n_features_in_:
            raise SourceError(f"The source names {len(source.names)} columns, but X has {model.n_features_in_}.")
        model.feature_names_in_ = np.array(source.names, dtype=object)
    return sampled


def learn_from_sample(model: GPRegressor, passes: Passes, sampled: Sampled, rng: np.random.RandomState) -> None:
    """Hyperparameters from a few neighbourhoods of all data."""
    rows = sampled.rows
    model._learn(
        rows.X,
        rows.targets - sampled.mean,
        rows.weights,
        lambda: make_blocks(passes, sampled, sampled.mean, BLOCKS, bool(model.ard), rng),
    )


# ---- local models ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Places:
    """Where the local models are.

    Attributes
    ----------
    placement : Placement
    cells : ndarray of shape (O, d)
        Opened beforehand.
    opens : bool
        Whether cells are opened at all.
    """

    placement: Placement
    cells: Integers
    opens: bool

    @property
    def every(self) -> Floats:
        """Centres and middles of the opened cells."""
        if len(self.cells) == 0 or self.placement.lattice is None:
            return self.placement.centers
        return np.concatenate([self.placement.centers, self.placement.lattice.middles(self.cells)])


def fit_local(
    model: LocalGPRegressor, passes: Passes, sampled: Sampled, rng: np.random.RandomState, clock: Any
) -> tuple[Choice, StreamedPredictor]:
    """All that follows the sample: hyperparameters, plan, centres, sums."""
    kind, n_centers = model._check_centers(), model._check_n_centers()
    request = model._check_request()
    if isinstance(kind, str) and kind == "test":
        raise ValueError("centers='test' needs all training points at prediction, which a source does not keep.")
    learn_from_sample(model, passes, sampled, rng)
    clock.lap("learning")

    rows, unit = sampled.rows, model._unit_of_length()
    kernel = Kernel(model.kernel_.length_scales / unit, model.kernel_.variances)
    noise = model._noise_model()
    data = TrainingSet.of(in_units(rows.X, unit), rows.targets - model._offset, noise(len(rows), rows.weights))
    worlds = neighbourhood_maker(passes, sampled, unit, model._offset, noise)
    choice = model._choose(kernel, data, request, rng, n_samples=sampled.n, worlds=worlds)
    clock.lap("tuning")

    plan = choice.candidate.plan
    spacing = choice.candidate.spacing if np.isfinite(choice.candidate.spacing) else None
    kind = in_units(kind, unit) if isinstance(kind, np.ndarray) else kind
    places = _place(model, passes, sampled, data, plan, kind, spacing, n_centers, rng)
    clock.lap("centres")

    sums = LocalSums(plan, places.every, unit, model._offset, noise, model.n_jobs)
    predictor = StreamedPredictor.of(
        None,
        places.cells,
        passes.run(sums, "sums"),
        plan=plan,
        placement=places.placement,
        open_centers=places.opens,
        n_jobs=model.n_jobs,
        width=data.y.shape[1],
        for_blending=model._blends(spacing),
    )
    clock.lap("fitting")
    return choice, predictor


def _place(
    model: LocalGPRegressor,
    passes: Passes,
    sampled: Sampled,
    data: TrainingSet,
    plan: Plan,
    kind: Any,
    spacing: float | None,
    n_centers: int | None,
    rng: np.random.RandomState,
) -> Places:
    """Centres for all rows, and the cells that may be asked for beyond them, if there is memory for their models."""
    unit, d = model._unit, data.X.shape[1]
    if isinstance(kind, str) and kind == "auto":
        kind = "grid" if d <= MAX_LATTICE_COLUMNS else "net"
    opens = bool(model.open_centers) and spacing is not None and plan.radius is not None and d <= MAX_LATTICE_COLUMNS
    is_grid = isinstance(kind, str) and kind == "grid" and spacing is not None
    lattice, occupied = None, None
    if spacing is not None:
        lattice = Lattice.covering_box(
            in_units(sampled.low, unit), in_units(sampled.high, unit), lambda: np.median(data.X, axis=0), spacing
        )
        if is_grid or opens:
            occupied = passes.run(coverage.Cells(lattice, unit), "centres")
    if is_grid and lattice is not None and spacing is not None and occupied is not None:
        placement = coverage.grid(occupied, lattice, spacing)
    else:
        placement = replace(centers.place(kind, data.X, spacing, n_centers, rng), lattice=lattice)
        if spacing is not None and isinstance(kind, str) and kind in ("net", "farthest"):
            more = passes.run(coverage.Net(placement.centers, spacing, unit), "centres")
            placement = coverage.with_centers(placement, more)
    cells = np.empty((0, d), dtype=np.int64)
    if opens and occupied is not None and plan.radius is not None:
        cells = coverage.opened_cells(placement, occupied, plan.radius, model._blends(spacing))
    places = Places(placement, cells, opens)
    return _that_fit(places, plan, occupied, sampled.n, data.y.shape[1])


def _that_fit(places: Places, plan: Plan, occupied: Occupied | None, n: int, width: int) -> Places:
    """The places, without the opened cells where memory does not suffice for them, and an error where it is worse."""
    placement, columns = places.placement, plan.features.n_components if plan.features is not None else 0

    def n_bytes(where: Floats) -> float:
        least, most = np.zeros(len(where)), np.full(len(where), float(n))
        if occupied is not None and placement.lattice is not None:
            least, most = occupied.neighbours(placement.lattice, where, plan.radius)
        elif plan.radius is None:
            least = most
        return coverage.model_bytes(least, most, limit_of(plan), columns, where.shape[1] + width + 1)

    needed = n_bytes(placement.centers)
    what = f"{columns} features each" if columns else "kernel space"
    memory.require(
        needed,
        f"A model of {len(placement.centers)} centres with {what}",
        "A larger tolerance or a longer length scale needs fewer; or fit parts of the area one by one.",
    )
    if len(places.cells) and needed + n_bytes(places.every[len(placement.centers) :]) > 0.9 * memory.available():
        warn(
            f"There is no memory for the models of {len(places.cells)} cells without data of their own: in holes of "
            "the data the nearest centre answers, as with open_centers=False."
        )
        return Places(placement, places.cells[:0], False)
    return places


def take_in(model: LocalGPRegressor, X: Any, y: Any, sample_weight: Any, forget: bool) -> None:
    """Arrays or a source into a fitted model, whichever of the two predictors it has."""
    source = as_source(X, y, sample_weight)
    if source is None:
        points, targets, weights = model._validate_training(X, y, sample_weight, reset=False)
        model._check_targets(targets.shape[1])
        source = ArraySource(points, targets, weights, batch_size=max(len(points), 1))
    else:
        check_fitted_on(model, source)
    if isinstance(model._predictor, LocalPredictor):
        for batch in source.batches(n_features=model.n_features_in_):
            _add(model, batch, forget)
            forget = False
        if forget:  # there were no rows to take the place of the earlier ones
            _forget(model)
        return
    predictor = continue_local(model, source, forget)
    if predictor.state.n:
        model.y_mean_, model._weight = predictor.state.total / predictor.state.weight, predictor.state.weight
    model._predictor = predictor


def _forget(model: LocalGPRegressor) -> None:
    """No data: hyperparameters, centres and the mean of the targets stay."""
    before = model._predictor
    assert isinstance(before, LocalPredictor)
    nothing = TrainingSet.of(before.data.X[:0], before.data.y[:0, :-1], before.data.noise[:0])
    model._predictor = LocalPredictor.fit(before.plan, nothing, before.placement, before.open_centers, model.n_jobs)
    model._weight = 0.0


def _add(model: LocalGPRegressor, batch: Batch, forget: bool) -> None:
    """More data for the predictor that holds all of them."""
    y, before = batch.targets, model._predictor
    assert isinstance(before, LocalPredictor)
    model._check_targets(y.shape[1])
    noise = model._noise_model()(len(batch), batch.weights)
    new = TrainingSet.of(in_units(batch.X, model._unit), y - model._offset, noise)
    mean = model._weighted_mean(y, batch.weights)
    added = float(len(y) if batch.weights is None else batch.weights.sum())
    if forget:
        predictor = LocalPredictor.fit(before.plan, new, before.placement, before.open_centers, model.n_jobs)
        model._predictor, model.y_mean_, model._weight = predictor, mean, added
    else:
        mean = (model.y_mean_ * model._weight + mean * added) / (model._weight + added)
        model._predictor, model.y_mean_, model._weight = before.updated(new), mean, model._weight + added


def continue_local(model: LocalGPRegressor, source: Source, forget: bool) -> StreamedPredictor:
    """The streamed predictor with the rows of a source taken in, or with these alone."""
    before = model._predictor
    assert isinstance(before, StreamedPredictor)
    passes = Passes(source, model._check_progress())
    placement, radius = before.placement, before.plan.radius
    grown = replace(before, cells=before.cells[:0], opened=[]) if forget else before
    if before.open_centers and placement.lattice is not None and radius is not None:
        occupied = passes.run(coverage.Cells(placement.lattice, model._unit), "centres")
        if len(occupied.cells):
            grown = grown.with_cells(coverage.opened_cells(placement, occupied, radius, before.for_blending))
    sums = LocalSums(
        before.plan, grown.places, model._unit, model._offset, model._noise_model(), model.n_jobs, keep_sums=True
    )
    new = passes.run(sums, "sums")
    state = sums.models(new) if forget else before.state.continued(sums, new)
    return StreamedPredictor.of(before, grown.cells, state)


# ---- one global map ----------------------------------------------------------------------------------------------


class FeatureSums(Reduction):
    """The sums of a model with one feature map; None before any data."""

    batch_rows = 1 << 16

    def __init__(self, model: FeatureGPRegressor) -> None:
        self.model, self.n_features = model, model.n_features_in_

    def start(self) -> None:
        """See `Reduction`."""
        return

    def update(self, state: Statistics | None, batch: Batch) -> Statistics:
        """See `Reduction`."""
        check_n_targets(batch.targets.shape[1], len(self.model._offset))
        new = self.model._sums(batch.X, batch.targets - self.model._offset, batch.weights)
        return new if state is None else state + new

    def merge(self, first: Statistics | None, second: Statistics | None) -> Statistics | None:
        """See `Reduction`."""
        return first + second if first is not None and second is not None else first or second
