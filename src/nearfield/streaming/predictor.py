"""Local models made from passes over the data, put together to answer without the data."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..common.types import Booleans, Floats, Integers
from ..local.centers import Placement, group_rows
from ..local.model import LocalModel, fit_one
from ..local.plan import Plan
from ..local.predictor import Predictor
from .centers import places
from .sums import Finished


@dataclass(frozen=True, eq=False)
class StreamedPredictor(Predictor):
    """Local models without the data they came from."""

    cells: Integers  # (O, d): cells of the lattice opened beforehand, for test points far from all centres
    opened: list[LocalModel | None]  # their models; None where a cell turned out to have no data in reach
    state: Finished  # everything, by number of the place, to go on from: first the centres, then the opened cells
    width: int  # number of targets and one more
    for_blending: bool  # whether cells were opened that blended predictions need

    @classmethod
    def of(cls, before: Predictor | None, cells: Integers, state: Finished, **fields: Any) -> StreamedPredictor:
        """Arrange the models of a pass. With `before`, its plan, placement and options are kept."""
        if before is not None:
            names = ("plan", "placement", "open_centers", "engine", "width", "for_blending")
            fields = {name: getattr(before, name) for name in names}
        models, opened = _arranged(cells=cells, state=state, **fields)
        return cls(models=models, cells=cells, opened=opened, state=state, **fields)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in ("models", "opened")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        if "models" not in state:  # as they were in old files
            models, opened = _arranged(**state)
            state = {**state, "models": models, "opened": opened}
        vars(self).update(state)

    @property
    def n_samples(self) -> int:
        """See `Predictor`."""
        return self.state.n

    @property
    def n_columns(self) -> int:
        """See `Predictor`."""
        return self.width

    @property
    def n_bytes(self) -> int:
        """See `Predictor`."""
        opened = sum(model.n_bytes for model in self.opened if model is not None)
        return super().n_bytes + opened + sum(points.n_bytes for points in self.state.points.values())

    @property
    def places(self) -> Floats:
        """Centres, and middles of the opened cells."""
        return places(self.placement, self.cells)

    def median_neighbours(self) -> int:
        """See `Predictor`; over all centres."""
        counts = self.state.counts[: len(self.placement.centers)]
        return int(np.median(counts)) if len(counts) else self.n_samples

    def with_cells(self, cells: Integers) -> StreamedPredictor:
        """The predictor with further cells opened, as yet without data; those it has already are left out."""
        have = set(map(tuple, self.cells.tolist()))
        new = [cell for cell in cells.tolist() if tuple(cell) not in have]
        if not new:
            return self
        both = np.concatenate([self.cells, np.array(new, dtype=np.int64)])
        return replace(self, cells=both, opened=[*self.opened, *([None] * len(new))])

    def predict_blended(self, X: Floats, with_variance: bool) -> tuple[Floats, Floats]:
        """See `Predictor`."""
        if self._opens and not self.for_blending:
            raise ValueError("blend was False when the model was fitted from a source; set it to True and fit again.")
        return super().predict_blended(X, with_variance)

    def _in_reach(self, X: Floats) -> Booleans:
        return np.ones(len(X), dtype=bool)

    def _opened(self, plan: Plan, X: Floats, places: Floats, with_variance: bool) -> tuple[Floats, Floats]:
        """Each point by the model opened for its cell; where there is none, no data are in reach."""
        mean, variance = self._prior(X)
        lattice = self.placement.lattice
        if len(X) == 0 or lattice is None:
            return mean, variance
        distinct, owner = group_rows(lattice.cells(places))
        index = {tuple(cell): i for i, cell in enumerate(self.cells.tolist())}
        number = [index.get(tuple(cell), -1) for cell in distinct.tolist()]
        models = [self.opened[i] if i >= 0 else None for i in number]
        has_model = np.array([model is not None for model in models])
        if not has_model.any():
            return mean, variance
        rank = np.cumsum(has_model) - 1
        members = np.flatnonzero(has_model[owner])
        mean[members], variance[members] = self.engine.predict(
            plan,
            [model for model in models if model is not None],
            lattice.middles(distinct[has_model]),
            X[members],
            rank[owner[members]],
            with_variance,
        )
        return mean, variance


def _arranged(
    plan: Plan, placement: Placement, width: int, cells: Integers, state: Finished, **_: Any
) -> tuple[list[LocalModel], list[LocalModel | None]]:
    """Models of the centres, and of the opened cells, from those of all places."""
    n, d = placement.centers.shape
    models = {i: state.models[i] for i in range(n) if i in state.models}
    if len(models) < n:  # centres without data, as when all was forgotten
        prior = fit_one(plan, np.empty((0, d)), np.empty((0, width)), np.empty(0))
        models = dict.fromkeys(range(n), prior) | models
    return [models[i] for i in range(n)], [state.models.get(n + i) for i in range(len(cells))]
