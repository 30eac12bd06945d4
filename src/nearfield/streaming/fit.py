"""Local models from a source: the pipeline of `local.fit` in passes over all rows, from a sample of them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..common import memory
from ..common.types import Floats, Integers
from ..common.warnings import warn
from ..hyperparameters.blocks import N_ASIDE, N_BLOCKS, Block
from ..hyperparameters.learning import Learned, LearningRequest, learn_hyperparameters
from ..local import centers as local_centers
from ..local import choosing
from ..local.centers import Lattice, Placement
from ..local.choices import Candidate, Choice
from ..local.engine import RaggedEngine
from ..local.fit import FittedLocal, FramedData
from ..local.frame import Frame
from ..local.in_memory import InMemory
from ..local.neighbourhoods import TrainingSet
from ..local.placing import share_covered
from ..local.plan import Plan
from ..local.request import LocalRequest
from . import centers
from .centers import MAX_LATTICE_COLUMNS, Occupied
from .neighbours import make_blocks, neighbourhood_maker
from .passes import Passes, Sample, Sampled
from .predictor import StreamedPredictor
from .sums import LocalSums, limit_of

HELD_SHARE = 0.5  # of the free memory, that all rows of a source may take


@dataclass(frozen=True, eq=False)
class SourceData:
    """Rows of a source, of which a random sample is in memory; see `TrainingData`.

    Attributes
    ----------
    passes : Passes
    sampled : Sampled
    may_hold : bool
        Whether all rows may be read into memory, should several length scales be learnt: neighbourhoods for them need
        all points at hand.
    """

    passes: Passes
    sampled: Sampled
    may_hold: bool = False

    n_drift, groups = None, ()  # drift columns are for arrays

    @property
    def n_features(self) -> int:
        """See `TrainingData`."""
        return int(self.sampled.rows.X.shape[1])

    @property
    def mean(self) -> Floats:
        """See `TrainingData`."""
        return self.sampled.mean

    @property
    def weight(self) -> float:
        """See `TrainingData`."""
        return self.sampled.weight

    def learn(self, request: LearningRequest, rng: np.random.RandomState) -> Learned:
        """See `TrainingData`; from a few neighbourhoods of all data."""
        X, y, weights = self.sampled.centred()
        if request.n_scales is None and not (self.may_hold and self._fits()):
            request = replace(request, n_scales=1)

        def blocks(ard: bool) -> list[Block]:
            n = N_BLOCKS + (N_ASIDE if request.n_scales is None else 0)
            return make_blocks(self.passes, self.sampled, ard, rng, n, request.tied)

        return learn_hyperparameters(X, y, weights, request, rng, blocks)

    def _fits(self) -> bool:
        """Whether there is memory for all rows, and a warning where there is not."""
        fits = bytes_of_rows(self.sampled.n, self.n_features) <= HELD_SHARE * memory.available()
        if not fits:
            warn(
                f"One length scale is learnt: models of several need all {self.sampled.n} rows of the source in "
                "memory, and there is no room for them. n_scales=1 says that this is meant."
            )
        return fits

    def in_frame(self, frame: Frame) -> FramedData:
        """See `TrainingData`."""
        if self.may_hold and frame.kernel.n_scales > 1:
            rows = all_rows(self.passes, self.sampled).rows
            return InMemory(rows.X, rows.targets, rows.weights).in_frame(frame)
        return FramedSource(self.passes, self.sampled, frame, self.sampled.rows.in_frame(frame))


def all_rows(passes: Passes, sampled: Sampled) -> Sampled:
    """All rows of a source, from one more pass; refused where they would fill the memory."""
    memory.require(
        bytes_of_rows(sampled.n, sampled.rows.X.shape[1]),
        f"A local model of {sampled.n} samples and several length scales",
        "With n_scales=1, or spacing, radius and features given, a source is never in memory as a whole.",
    )
    held: Sampled = passes.run(Sample(sampled.n, 0), "rows")
    return held


def bytes_of_rows(n: int, n_features: int) -> float:
    """Memory that so many rows and a model of them take."""
    return 8.0 * n * (12 * n_features + 40)


@dataclass(eq=False)
class FramedSource:
    """The same with the sample in length scales, and occupied cells once centres are placed; see `FramedData`."""

    passes: Passes
    sampled: Sampled
    frame: Frame
    sample: TrainingSet
    occupied: Occupied | None = None

    part = None  # several scales are read into memory instead: see `SourceData`
    n_in_memory, for_mixtures = np.inf, None  # rows are read again and again

    def split(self, request: LocalRequest, rng: np.random.RandomState) -> FramedSource:  # noqa: ARG002
        """See `FramedData`."""
        return self

    def prefers_exact_mean(self, request: LocalRequest) -> bool:  # noqa: ARG002
        """See `FramedData`."""
        return False

    def solve_mean(self, request: LocalRequest, rng: np.random.RandomState) -> None:
        """See `FramedData`: never, since it takes all rows at once."""

    def choose(self, request: LocalRequest, rng: np.random.RandomState, exact_mean: bool = False) -> Choice:  # noqa: ARG002
        """See `FramedData`."""
        make = neighbourhood_maker(self.passes, self.sampled, self.frame)
        if request.onto is not None:
            request = replace(request, onto=self.frame.in_length_scales(request.onto))
        return choosing.choose(request, self.frame.kernel, self.sample, rng, n_samples=self.sampled.n, worlds=make)

    def place(self, request: LocalRequest, choice: Choice, rng: np.random.RandomState) -> tuple[Placement, float]:
        """See `FramedData`; centres of all rows, in passes of their own."""
        X, spacing = self.sample.X, choice.candidate.finite_spacing
        kind = request.centers_in(self.frame)
        if isinstance(kind, str) and kind == "auto":
            kind = "grid" if X.shape[1] <= MAX_LATTICE_COLUMNS else "net"
        lattice = None
        if spacing is not None:
            low, high = self.frame.points(self.sampled.low[None])[0], self.frame.points(self.sampled.high[None])[0]
            lattice = Lattice.covering_box(low, high, lambda: np.median(X, axis=0), spacing)
        is_grid = isinstance(kind, str) and kind == "grid"
        if lattice is not None and (is_grid or self._opens(request, choice.candidate.plan)):
            self.occupied = self.passes.run(centers.Cells(lattice, self.frame.unit), "centres")
        if is_grid and lattice is not None and spacing is not None and self.occupied is not None:
            placement = centers.grid(self.occupied, lattice, spacing)
        else:
            placement = replace(local_centers.place(kind, X, spacing, request.n_centers, rng), lattice=lattice)
            if spacing is not None and isinstance(kind, str) and kind in ("net", "farthest"):
                reduction = centers.FurtherCenters(placement.centers, spacing, self.frame.unit)
                placement = centers.with_centers(placement, self.passes.run(reduction, "centres"))
        return placement, share_covered(request, placement, X)

    def fit(self, request: LocalRequest, candidate: Candidate, placement: Placement) -> StreamedPredictor:
        """See `FramedData`; cells without centres of their own are opened beforehand, as far as memory allows."""
        plan = candidate.plan
        blend = request.blend and placement.spacing is not None
        opens = self._opens(request, plan) and placement.spacing is not None
        cells = np.empty((0, self.sample.X.shape[1]), dtype=np.int64)
        if opens and self.occupied is not None and plan.radius is not None:
            cells = centers.opened_cells(placement, self.occupied, plan.radius, blend)
        opens, cells = self._require_memory(plan, placement, cells, opens)
        places = centers.places(placement, cells)
        sums = LocalSums(plan, places, self.frame, request.n_jobs)
        return StreamedPredictor.of(
            None,
            cells,
            self.passes.run(sums, "sums"),
            plan=plan,
            placement=placement,
            open_centers=opens,
            engine=RaggedEngine(request.n_jobs),
            width=self.sample.y.shape[1],
            for_blending=blend,
        )

    def _opens(self, request: LocalRequest, plan: Plan) -> bool:
        """Whether cells may be opened."""
        return request.open_centers and plan.radius is not None and self.sample.X.shape[1] <= MAX_LATTICE_COLUMNS

    def _require_memory(self, plan: Plan, placement: Placement, cells: Integers, opens: bool) -> tuple[bool, Integers]:
        """Whether cells are opened, and which; none where memory does not suffice, and an error where it is worse."""
        occupied = self.occupied
        n_components = plan.features.n_components if plan.features is not None else 0

        def n_bytes(where: Floats) -> float:
            least, most = np.zeros(len(where)), np.full(len(where), float(self.sampled.n))
            if occupied is not None and placement.lattice is not None:
                least, most = occupied.neighbours(placement.lattice, where, plan.radius)
            elif plan.radius is None:
                least = most
            n_kept = plan.features.n_kept if plan.features is not None else 0
            n_numbers = where.shape[1] + self.sample.y.shape[1] + 1
            return centers.model_bytes(least, most, limit_of(plan), n_kept, n_numbers)

        needed = n_bytes(placement.centers)
        what = f"{n_components} features each" if n_components else "kernel space"
        memory.require(
            needed,
            f"A model of {len(placement.centers)} centres with {what}",
            "A larger tolerance or a longer length scale needs fewer; or fit parts of the area one by one.",
        )
        if len(cells) == 0 or placement.lattice is None:
            return opens, cells
        if needed + n_bytes(placement.lattice.middles(cells)) > 0.9 * memory.available():
            warn(
                f"There is no memory for the models of {len(cells)} cells without data of their own: in holes of "
                "the data the nearest centre answers, as with open_centers=False."
            )
            return False, cells[:0]
        return opens, cells


def take_in(fitted: FittedLocal, passes: Passes, n_jobs: int | None, forget: bool) -> FittedLocal:
    """The model with the rows of a source taken in, or with these alone."""
    before, frame = fitted.predictor, fitted.frame
    assert isinstance(before, StreamedPredictor)
    placement, radius = before.placement, before.plan.radius
    grown = replace(before, cells=before.cells[:0], opened=[]) if forget else before
    if before.open_centers and placement.lattice is not None and radius is not None:
        occupied = passes.run(centers.Cells(placement.lattice, frame.unit), "centres")
        if len(occupied.cells):
            grown = grown.with_cells(centers.opened_cells(placement, occupied, radius, before.for_blending))
    sums = LocalSums(before.plan, grown.places, frame, n_jobs, keep_sums=True)
    new = passes.run(sums, "sums")
    state = sums.models(new) if forget else before.state.continued(sums, new)
    predictor = StreamedPredictor.of(before, grown.cells, state)
    mean, weight = fitted.y_mean, fitted.weight
    if state.n:
        mean, weight = state.total / state.weight, state.weight
    return fitted.with_predictor(predictor, mean, weight)
