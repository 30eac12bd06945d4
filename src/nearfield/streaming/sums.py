"""Local models from sums over batches: the same models as from all data at once, without the data.

Around each place the points are kept while kernel space is the cheaper side, and go into sums once they outnumber it.
Both can be continued with new data, and merged, so chunks, streams and machines give the model that memory would.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from ..common.memory import batches
from ..common.threads import thread_map
from ..common.types import Floats, Integers
from ..common.validation import check_n_targets
from ..local import fast
from ..local.frame import Frame
from ..local.model import LocalModel, fit_one, from_sums, sums_of
from ..local.model import LocalSums as SumsOfPlace
from ..local.moments import MomentModel
from ..local.neighbourhoods import TrainingSet
from ..local.plan import Plan
from ..solvers.feature_space import FeatureSpace
from .batches import Batch
from .packing import packed, unpacked
from .passes import Reduction

PART_BYTES = 1 << 26  # of the sums that travel together, at most
SMALL_PART, FEW_PARTS = 1 << 22, 16  # so many smaller parts, so that several machines finish them side by side
ROWS_PER_PLACE = 256  # in a batch: enough for matrix products worth the call
MOST_ROWS = 1 << 20  # in a batch


@dataclass(frozen=True, eq=False)
class Points:
    """Points kept, relative to their centre: (n, d), (n, k + 1), (n,)."""

    Z: Floats
    y: Floats
    noise: Floats

    def __len__(self) -> int:
        return len(self.Z)

    def and_more(self, other: Points) -> Points:
        """Both together."""
        return Points(*(np.concatenate(pair) for pair in zip(self.arrays, other.arrays, strict=True)))

    @property
    def arrays(self) -> tuple[Floats, Floats, Floats]:
        """All three."""
        return self.Z, self.y, self.noise

    @property
    def n_bytes(self) -> int:
        """Memory taken."""
        return sum(array.nbytes for array in self.arrays)


LocalData: TypeAlias = Points | SumsOfPlace
"""What is kept of the data around a place."""


def limit_of(plan: Plan) -> float:
    """Largest number of points that is solved in kernel space."""
    if plan.features is None:
        return np.inf
    if not plan.either_side:
        return -1.0
    low, high = 0, 1
    while plan.takes_kernel_space(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if plan.takes_kernel_space(middle) else (low, middle)
    return float(low)


@dataclass(eq=False)
class State:
    """Data of the places that have any, by number of the place, and sums over all points."""

    places: dict[int, LocalData]
    counts: Any = 0  # (P,), or 0: number of points around each place
    n: int = 0
    weight: float = 0.0  # sum of the weights
    total: Any = 0.0  # (k,), or 0: weighted sum of the targets

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "places": packed(self.places)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, places=unpacked(state["places"]))


class LocalSums(Reduction):
    """The data of all places.

    Parameters
    ----------
    plan : Plan
    places : ndarray of shape (P, d)
        Centres, in length scales.
    frame : Frame
    n_jobs : int or None
    keep_sums : bool
        Give the sums themselves, to go on with, instead of the models.
    """

    def __init__(self, plan: Plan, places: Floats, frame: Frame, n_jobs: int | None, keep_sums: bool = False) -> None:
        self.plan, self.places, self.frame = plan, places, frame
        self.n_jobs, self.n_features, self.limit = n_jobs, places.shape[1], limit_of(plan)
        self.keep_sums = keep_sums
        self.batch_rows = min(max(ROWS_PER_PLACE * len(places), Reduction.batch_rows), MOST_ROWS)
        n_kept = plan.features.n_kept if plan.features is not None else 200**2
        n_bytes = 8 * n_kept * len(places)
        self._n_parts = max(-(-n_bytes // PART_BYTES), min(n_bytes // SMALL_PART, FEW_PARTS), 1)

    def start(self) -> State:
        """See `Reduction`."""
        return State({}, np.zeros(len(self.places), dtype=np.int64))

    def update(self, state: State, batch: Batch) -> State:
        """See `Reduction`."""
        check_n_targets(batch.targets.shape[1], len(self.frame.offset))
        data = batch.in_frame(self.frame)
        loops = fast.summing(self.plan, data, len(self.places))

        def work(run: slice) -> None:
            for i, new in self._around(np.arange(run.start, run.stop), state, data, loops):
                state.counts[i] += len(new) if isinstance(new, Points) else new.n
                state.places[i] = self._together(state.places.get(i), new)

        thread_map(work, batches(len(self.places)), self.n_jobs)
        weight, total = batch.weighed()
        state.n, state.weight, state.total = state.n + len(batch), state.weight + weight, state.total + total
        return state

    def _around(
        self, numbers: Integers, state: State, data: TrainingSet, loops: fast.Summing | None
    ) -> Iterator[tuple[int, LocalData]]:
        """What there is of some new data around places with some numbers, if anything; sums in loops if they can."""
        if loops is not None:
            counts = loops.counts(self.places[numbers])
            room = np.array([self._room(state.places.get(i)) for i in numbers.tolist()])
            summed, kept = counts > room, (counts > 0) & (counts <= room)
            if summed.any():
                sums = loops.sums(self.places[numbers[summed]], counts[summed])
                yield from zip(numbers[summed].tolist(), sums, strict=True)
            numbers = numbers[kept]
        if len(numbers):
            neighbourhoods = data.neighbourhoods(self.places[numbers], self.plan.radius)
            for i, near in zip(numbers.tolist(), neighbourhoods, strict=True):
                if len(near):
                    yield i, Points(data.X[near] - self.places[i], data.y[near], data.noise[near])

    def _room(self, data: LocalData | None) -> float:
        """How many more points may be kept before sums are the cheaper side."""
        held = 0 if data is None else len(data) if isinstance(data, Points) else np.inf
        return max(self.limit - held, 0.0)

    def _together(self, first: LocalData | None, second: LocalData) -> LocalData:
        """Data of one place from both."""
        if isinstance(first, Points) and isinstance(second, Points):
            return self._together(None, first.and_more(second))
        if first is not None:
            both: LocalData = self._summed(first) + self._summed(second)
            return both
        return second if isinstance(second, Points) and len(second) <= self.limit else self._summed(second)

    def _summed(self, data: LocalData) -> Any:
        return sums_of(self.plan, *data.arrays) if isinstance(data, Points) else data

    def merge(self, first: State, second: State) -> State:
        """See `Reduction`."""
        places = dict(first.places)
        for i, data in second.places.items():
            places[i] = self._together(places.get(i), data)
        return State(
            places,
            first.counts + second.counts,
            first.n + second.n,
            first.weight + second.weight,
            first.total + second.total,
        )

    def owned(self, state: State) -> State:
        """See `Reduction`."""
        return replace(state, places=dict(state.places), counts=np.array(state.counts))

    def finish(self, state: State) -> Any:
        """See `Reduction`."""
        return state if self.keep_sums else self.models(state)

    def models(self, state: State) -> Finished:
        """The models of all places; the state is used up."""

        def make(i: int) -> tuple[int, LocalModel, Points | None]:
            data = state.places.pop(i)  # each is let go as its model is made, so that both are never all in memory
            if isinstance(data, Points):
                return i, fit_one(self.plan, *data.arrays), data
            return i, from_sums(self.plan, data), None

        made = thread_map(make, list(state.places), self.n_jobs)
        models = {i: model for i, model, _ in made}
        points = {i: kept for i, _, kept in made if kept is not None}
        return Finished(models, points, state.counts, state.n, state.weight, state.total)

    # ---- parts -----------------------------------------------------------------------------------------------------

    @property
    def n_parts(self) -> int:
        """See `Reduction`."""
        return self._n_parts

    def split(self, state: State) -> list[State]:
        """See `Reduction`."""
        n = self.n_parts
        parts: list[dict[int, LocalData]] = [{} for _ in range(n)]
        for i, data in state.places.items():
            parts[i % n][i] = data
        # What is not of any one place goes with the first part.
        return [replace(state, places=parts[0]), *(State(part) for part in parts[1:])]

    def join(self, parts: list[Any]) -> Any:
        """See `Reduction`."""
        if self.keep_sums:
            return replace(parts[0], places={i: data for part in parts for i, data in part.places.items()})
        models = {i: model for part in parts for i, model in part.models.items()}
        return replace(parts[0], models=models, points={i: p for part in parts for i, p in part.points.items()})


@dataclass(frozen=True, eq=False)
class Finished:
    """Models of the places that have data, the points of those in kernel space, and sums over all points."""

    models: dict[int, LocalModel]
    points: dict[int, Points]
    counts: Integers  # for this and the rest see `State`
    n: int
    weight: float
    total: Any

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "models": packed(self.models)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, models=unpacked(state["models"]))

    def continued(self, reduction: LocalSums, new: State) -> Finished:
        """The same with new data taken in: places without new data stay as they are."""
        # Places may have been added at the end.
        counts = np.concatenate([self.counts, np.zeros(len(new.counts) - len(self.counts), dtype=np.int64)])
        touched = State({}, counts, self.n, self.weight, self.total)
        for i in new.places:
            model = self.models.get(i)
            if i in self.points:
                touched.places[i] = self.points[i]
            elif isinstance(model, MomentModel):
                touched.places[i] = model.sums
            elif isinstance(model, FeatureSpace):
                touched.places[i] = model.statistics()
        fresh = reduction.models(reduction.merge(touched, new))
        points = {i: kept for i, kept in self.points.items() if i not in fresh.models}
        return replace(fresh, models={**self.models, **fresh.models}, points={**points, **fresh.points})
