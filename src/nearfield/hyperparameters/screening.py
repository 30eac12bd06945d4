"""Columns that do not matter: found with one component, and left out while further ones are learnt.

A length scale per column and component is a lot to learn, most of it for nothing where a column has no effect: there
its length scale is as good as infinite, in any component. So columns without which the likelihood of a kernel of one
component is the same are taken out of the data, and come back at the end with the longest length scale there may be.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..common.types import Floats, Integers
from ..kernels import Kernel
from .blocks import Block, LearningData
from .composite import space_of, to_compare, to_follow
from .learned import Learned
from .objective import Objective
from .request import LearningRequest

LEAST_COLUMNS = 4  # worth screening
LOSS = 1.0  # nats of all data per column that is taken out, which a length scale gains by chance alone,
LEAST_LOSS = 1e-5  # or per target, where that is more
SHORT = 1.0  # length scale in spreads of a column, below which it matters for sure


@dataclass(frozen=True, eq=False)
class Screen:
    """Which columns matter (q,), which do not (s,), and the longest length scale of each (d,)."""

    kept: Integers
    silent: Integers
    longest: Floats

    def data(self, data: LearningData) -> LearningData:
        """Data of the columns that matter."""

        def narrow(block: Block) -> Block:
            return replace(block, X=block.X[:, self.kept])

        blocks = None if data.blocks is None else [narrow(block) for block in data.blocks]
        return replace(data, X=data.X[:, self.kept], blocks=blocks, extents=None)

    def narrowed(self, learned: Learned) -> Learned:
        """What was learnt with all columns, for those that matter."""
        number = {int(column): place for place, column in enumerate(self.kept)}
        on_bounds = tuple(
            replace(estimate, column=estimate.column if estimate.column is None else number[estimate.column])
            for estimate in learned.on_bounds
            if estimate.column is None or estimate.column in number
        )
        kernel = _with_scales(learned.kernel, learned.kernel.length_scales[:, self.kept])
        return replace(learned, kernel=kernel, on_bounds=on_bounds)

    def widened(self, learned: Learned) -> Learned:
        """What was learnt with the columns that matter, for all."""
        scales = np.tile(self.longest, (learned.kernel.n_scales, 1))
        scales[:, self.kept] = learned.kernel.length_scales
        on_bounds = tuple(
            estimate if estimate.column is None else replace(estimate, column=int(self.kept[estimate.column]))
            for estimate in learned.on_bounds
        )
        kernel = _with_scales(learned.kernel, scales)
        return replace(learned, kernel=kernel, on_bounds=on_bounds, silent=tuple(self.silent.tolist()))


def screen(learned: Learned, data: LearningData, request: LearningRequest) -> Screen | None:
    """Columns that matter to a kernel of one component, which was learnt from the data; None where all may."""
    d = data.X.shape[1]
    if d < LEAST_COLUMNS or not np.isfinite(learned.log_likelihood):
        return None
    space = space_of(data, request, 1)
    scales, longest = learned.kernel.length_scales[0], np.exp(space.upper[:d])
    # The first columns may be tied together.
    candidates = [c for c in range(request.tied, d) if scales[c] > SHORT * space.columns[c]]
    objective = Objective.of(space, data, request)

    def losses(groups: list[list[int]], blocks: list[Block]) -> Floats:
        """Nats per target that the likelihood loses, where columns of a group have no effect."""
        starts = []
        for group in [[], *groups]:
            lengths = scales.copy()
            lengths[group] = longest[group]
            starts.append(space.vector(_with_scales(learned.kernel, lengths[None]), learned.noise_variance))
        values = objective.values(blocks, [start[space.free] for start in starts])
        lost: Floats = values[0] - values[1:]
        return lost

    if not candidates:
        return None
    allowed = max(LOSS / data.y.size, LEAST_LOSS)
    alone = losses([[c] for c in candidates], to_compare(data.blocks or []))
    silent = [c for loss, c in sorted(zip(alone, candidates, strict=True)) if loss < allowed]
    while silent and float(losses([silent], to_follow(data.blocks or []))[0]) > allowed * len(silent):
        silent = silent[: len(silent) // 2]
    if not silent or len(silent) == d:
        return None
    is_silent = np.isin(np.arange(d), silent)
    return Screen(np.flatnonzero(~is_silent), np.flatnonzero(is_silent), longest)


def _with_scales(kernel: Kernel, length_scales: Floats) -> Kernel:
    return replace(kernel, length_scales=length_scales)
