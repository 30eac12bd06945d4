"""Whether columns share a length scale: decided from the data where neither the user nor the number of columns does.

Beyond three columns each has its own, since so many rarely have one unit, if there are rows enough to learn so many. In
two or three, and with fewer rows, the exact likelihood of some rows is maximised with a shared length scale and with
one per column, and Schwarz's criterion (BIC) decides. The climb with one per column starts in units of the columns'
spreads, besides the best shared length scale, so that columns in very different units are found.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, replace

import numpy as np
from scipy.spatial import cKDTree

from ..common.types import Floats, Integers
from .blocks import LARGEST_SINGLE_BLOCK, Block, LearningData
from .composite import ENOUGH, N_STEPS
from .objective import Objective
from .request import LearningRequest
from .rotation import one_component
from .space import Space, spreads_of
from .work import Work


@dataclass(frozen=True)
class ArdSettings:
    """Settings of the decision."""

    most_compared_columns: int = 3
    """Beyond so many columns that vary, each has a length scale of its own, and nothing is compared, ..."""

    rows_per_column: int = 20
    """... if there are so many rows for each. With fewer, many length scales fit the noise: with four rows per column,
    95 % intervals cover 75 % of new values."""

    most_rows: int = LARGEST_SINGLE_BLOCK
    """Rows whose exact likelihood decides; their covariance matrix is factored about ten times."""

    first_rows: int = 400
    """Rows on which starts are compared and followed, which takes about twenty factorisations each way."""

    cluster_size: int = 32
    """Half of the rows are drawn alone, and half in clusters of so many neighbours, which tell short length scales."""

    clear_ratio: float = 3.0
    """Times the penalty that one length scale per column must gain on the first rows to be taken without the others."""

    budget_share: float = 0.1
    """Share of the time for learning that the decision may take besides."""


SETTINGS = ArdSettings()


def decide_ard(data: LearningData, request: LearningRequest, rng: np.random.RandomState) -> LearningRequest:
    """The request with one length scale per column, or a shared one, and the reason, where that was left open.

    `rng` draws rows and is left as it was, so that learning goes on as if the answer had been given.
    """
    if not request.is_ard_open:
        return request
    given = request.fixed.length_scales
    if given is not None:
        return replace(request, is_ard_open=False, ard=given.shape[1] > 1)
    spreads = spreads_of(data.X)
    n_varying = int(np.count_nonzero(spreads))
    if n_varying <= 1:
        return replace(request, is_ard_open=False, ard=False)
    if n_varying > SETTINGS.most_compared_columns and len(data.X) >= SETTINGS.rows_per_column * n_varying:
        reason = f"one per column, since there are more than {SETTINGS.most_compared_columns} columns"
        return replace(request, is_ard_open=False, ard=True, ard_reason=reason)
    ard, reason = _compared(data, spreads, request, deepcopy(rng))
    return replace(request, is_ard_open=False, ard=ard, ard_reason=reason)


def _compared(
    data: LearningData, spreads: Floats, request: LearningRequest, rng: np.random.RandomState
) -> tuple[bool, str]:
    """Whether one length scale per column is likelier by Schwarz's criterion, and the reason in words."""
    n_extra = int(np.count_nonzero(spreads)) - 1
    if request.fixed.variances is None and request.fixed.noise_variance is None:  # each target has its own
        sizes = np.sqrt(np.mean(data.y**2, axis=0))
        data = replace(data, y=data.y / np.where(sizes > 0, sizes, 1.0))
    first, rows = _sampled_rows(data.X / np.where(spreads > 0, spreads, 1.0), rng)
    whole = _rows_of(data, rows)
    plain = replace(one_component(request), n_restarts=0, progress=None)
    shared, own = (_Climb.of(whole, plain, ard) for ard in (False, True))
    if shared.space.is_degenerate:
        return False, "one for all columns, since the data have nothing to tell them apart by"

    def gain_and_penalty(n_targets: int) -> tuple[float, float]:
        return own.value - shared.value, 0.5 * n_extra * float(np.log(n_targets))

    few = _rows_of(data, first)
    shared.follow(few, shared.space.starts(0, rng))
    own.follow(few, [own.from_shared(shared), *own.space.starts(0, rng)])
    gain, penalty = gain_and_penalty(few.y.size)
    n = len(first)
    if len(rows) > n and not gain > SETTINGS.clear_ratio * penalty:
        shared.go_on(whole, few, [shared.point])
        own.go_on(whole, few, [own.from_shared(shared), own.point])
        gain, penalty = gain_and_penalty(whole.y.size)
        n = len(rows)
    if gain > penalty:
        return True, (
            f"one per column, since the exact log likelihood of {n} rows gains {gain:.1f} nats by it, more than the "
            f"{penalty:.1f} that Schwarz's criterion asks for"
        )
    gained = f"only {gain:.1f}" if gain >= 0.05 else "no"
    return False, (
        f"one for all columns, since the exact log likelihood of {n} rows gains {gained} nats with one per column, "
        f"and Schwarz's criterion asks for {penalty:.1f}"
    )


class _Climb:
    """A way up the exact likelihood of rows, with a shared length scale or with one per column."""

    def __init__(self, space: Space, objective: Objective) -> None:
        self.space, self._objective = space, objective
        self.point, self.value = np.empty(0), -np.inf  # the best vector, and its log likelihood

    @classmethod
    def of(cls, data: LearningData, request: LearningRequest, ard: bool) -> _Climb:
        space = Space.of(data.X, data.y, request.fixed, 1, ard, family=request.family)
        work = Work(0.5 * SETTINGS.budget_share * request.time_budget)
        return cls(space, Objective.of(space, data, request, work))

    def from_shared(self, other: _Climb) -> Floats:
        """The best vector of a climb with a shared length scale, for one per column."""
        kernel, noise_variance = other.space.unpack(other.point)
        scales = np.broadcast_to(kernel.length_scales, (1, len(self.space.columns)))
        return self.space.vector(replace(kernel, length_scales=scales), noise_variance)

    def follow(self, data: LearningData, starts: list[Floats]) -> None:
        """Go to the maximum from the best of some starts."""
        blocks = data.blocks or []
        optimum = self._objective.ascend([blocks, blocks], starts, N_STEPS)
        self._take(optimum.point, optimum.value * data.y.size)

    def go_on(self, data: LearningData, few: LearningData, starts: list[Floats]) -> None:
        """Go to the maximum for more rows, from the best of some starts that are near; `few` tell the curvature."""
        blocks, free = data.blocks or [], self.space.free
        points = [start[free] for start in starts]
        start = points[int(np.argmax(self._objective.values(blocks, points)))] if len(points) > 1 else points[0]
        curvature = self._objective.information(few.blocks or [], start, None)
        with self._objective.running(blocks) as run:
            H = np.eye(len(start)) if curvature is None else curvature
            optimum = self._objective.polish(blocks, start, H, ENOUGH / data.y.size, run)
        self._take(optimum.point, optimum.value * data.y.size)

    def _take(self, point: Floats, value: float) -> None:
        self.point, self.value = self.space.filled(point), value


def _rows_of(data: LearningData, rows: Integers) -> LearningData:
    """Some of the rows, as a single block whose exact likelihood is that of all of them."""
    X, y = data.X[rows], data.y[rows]
    weights, drift = (None if values is None else values[rows] for values in (data.weights, data.drift))
    return LearningData(X, y, weights, [Block.of(X, y, weights, drift=drift)], drift=drift)


def _sampled_rows(scaled: Floats, rng: np.random.RandomState) -> tuple[Integers, Integers]:
    """Numbers of the first rows that are looked at, and of all, from points (n, d) in units of their spreads."""
    n, size = len(scaled), SETTINGS.cluster_size
    order = rng.permutation(n)
    if n <= SETTINGS.first_rows:
        return order, order
    tree = cKDTree(scaled, balanced_tree=False, compact_nodes=False)
    near = tree.query(scaled[order[: SETTINGS.most_rows // (2 * size)]], k=size)[1]

    def sampled(n_rows: int) -> Integers:
        rows = np.unique(near[: n_rows // (2 * size)])
        lone = order[~np.isin(order, rows)]
        return np.concatenate([rows, lone[: n_rows - len(rows)]])

    return sampled(SETTINGS.first_rows), order if n <= SETTINGS.most_rows else sampled(SETTINGS.most_rows)
