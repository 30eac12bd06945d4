"""Many small neighbourhoods in kernel space in compiled loops, where Numba is installed and they are worth it.

What is done here is done in NumPy too, with the same results up to rounding: for graded cells by `depth.fit_cells` and
`CellModel`, for the blocks of a preconditioner by `block_inverse`. Of cells nothing is kept: to make one again takes
less time than NumPy takes to ask one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..common import compiling
from ..common.memory import batches
from ..common.threads import single_threaded_blas, thread_map
from ..common.types import Booleans, Floats, Integers
from ..kernels import Kernel
from .depth import Depth, places_in_cell
from .neighbourhoods import TrainingSet
from .plan import Plan

MAX_COLUMNS = 3  # beyond, cells have too many corners
MIN_CELLS = 1000  # of a model, or blocks of a preconditioner: below, NumPy is done before loops are loaded
_CELLS_AT_ONCE = 64  # that a thread takes


class Members(NamedTuple):
    """Places (m, d), and those of cell `c`: rows `order[bounds[c] : bounds[c + 1]]` of them."""

    places: Floats
    order: Integers
    bounds: Integers


class Answers(NamedTuple):
    """What cells say."""

    mean: Floats  # (m, k + 1), or (m, 0) where it was not asked for
    variance: Floats  # (m,)
    lacking: Floats  # (C,), see `CellModel`
    left: Booleans  # (C,): cells that are left to others, with their places


def answer(
    plan: Plan,
    depth: Depth | None,
    data: TrainingSet,
    centers: Floats,
    sizes: Floats,
    members: Members,
    with_mean: bool,
    n_jobs: int | None,
    left_out: Integers | None = None,
    n_cells: int | None = None,
) -> Answers | None:
    """Answers of cells around centres (C, d), with half diagonals (C,); None where NumPy does as well.

    They are some of `n_cells` of a model, None being all: how many are asked does not change the answers of each.
    Where `left_out` (m,) are rows of the training data, which the places are, means are left-out residuals, and
    variances are with noise.
    """
    kernel, count = plan.kernel, plan.count
    if count is None or data.X.shape[1] > MAX_COLUMNS:
        return None
    loops = _loops(kernel, data.X, len(centers) if n_cells is None else n_cells, count)
    if loops is None:
        return None
    n, d, C = len(data.X), data.X.shape[1], len(centers)
    most = count if depth is None else depth.most
    rates, variances = _terms(kernel, d)
    corners = places_in_cell(1.0, d)
    X, targets, noise, places = map(
        _plain, (data.X, data.y if with_mean else data.y[:, :0], data.noise, members.places)
    )
    rows = np.empty(0, dtype=np.int64) if left_out is None else np.array(left_out, dtype=np.int64)
    mean, variance = np.empty((len(members.places), targets.shape[1])), np.empty(len(members.places))
    lacking, left = np.zeros(C), np.zeros(C, dtype=bool)

    def work(batch: slice) -> None:
        todo, number = np.arange(batch.start, batch.stop), count
        while len(todo):
            near = data.nearest(centers[todo], number)
            tells = depth is not None and number < n
            ends = not tells or number >= most
            contributions, became = np.empty(len(todo)), np.empty(len(todo), dtype=np.int64)
            order, bounds = _of_some(members, todo)
            loops.answer(
                centers[todo], sizes[todo], near, X, targets, noise, rates, variances,
                corners if tells else corners[:0], 0.0 if depth is None else depth.noise,
                np.inf if depth is None else depth.excess, ends,
                places, rows, order, bounds, with_mean, mean, variance, contributions, became,
            )  # fmt: skip
            left[todo[became == loops.FAILED]] = True
            if depth is not None and ends:
                short = (became == loops.DONE) & (contributions > depth.excess)
                lacking[todo[short]] = [depth.nats(float(each)) for each in contributions[short]]
            todo, number = todo[became == loops.TOO_FEW], min(2 * number, most)
            if number > loops.MOST_NEIGHBOURS:
                left[todo] = True
                break

    with single_threaded_blas():
        thread_map(work, batches(C, _CELLS_AT_ONCE), n_jobs)
    return Answers(mean, variance, lacking, left)


def _loops(kernel: Kernel, X: Floats, n_cells: int, n_neighbours: int) -> Any:
    """The compiled loops, where they are the way to go; else None."""
    if n_cells < MIN_CELLS or kernel.family != "gaussian" or X.dtype != np.float64:
        return None
    loops = compiling.loops("nearfield.local.compiled_cells")
    return None if loops is None or min(n_neighbours, len(X)) > loops.MOST_NEIGHBOURS else loops


def _terms(kernel: Kernel, d: int) -> tuple[Floats, Floats]:
    """Inverses (J, d) of twice the squared length scales, and variances (J,)."""
    return _plain(np.broadcast_to(0.5 / kernel.length_scales**2, (kernel.n_scales, d))), _plain(kernel.variances)


def _plain(array: Floats) -> Floats:
    """The array as loops have been compiled for: in C order, and not read-only; a copy where it is not."""
    return np.require(array, np.float64, ["C", "W"])


def whitener(
    kernel: Kernel, X: Floats, noise: Floats, n_blocks: int, most_points: int
) -> Callable[[Integers, Floats], Integers] | None:
    """A function that fills columns (B, n, m) of blocks of points (B, n), and says which blocks it could not solve.

    See `block_inverse`. Threads may share it. None where NumPy does as well.
    """
    loops = _loops(kernel, X, n_blocks, most_points)
    if loops is None:
        return None
    terms, given = _terms(kernel, X.shape[1]), (_plain(X), _plain(noise))

    def whiten(points: Integers, columns: Floats) -> Integers:
        failed = np.zeros(len(points), dtype=bool)
        loops.whiten(points, *given, *terms, columns, failed)
        return np.flatnonzero(failed)

    return whiten


def _of_some(members: Members, cells: Integers) -> tuple[Integers, Integers]:
    """Rows of the places of some cells, one cell after the other, and where each cell's start and end."""
    starts, stops = members.bounds[cells], members.bounds[cells + 1]
    bounds = np.concatenate([[0], np.cumsum(stops - starts)])
    rows = np.repeat(starts - bounds[:-1], stops - starts) + np.arange(bounds[-1])
    return members.order[rows], bounds
