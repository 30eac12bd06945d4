"""Many local models at once: batches of centres whose neighbourhoods are of about the same size.

A batch is a rectangle, so the largest of its neighbourhoods sets its width; batches are made of neighbours in size, and
very large neighbourhoods are summed in several goes, so that little of any rectangle is empty.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import reduce
from operator import add

import numpy as np
import torch

from ..common.arrays import Array as Tensor
from ..common.memory import batch_bytes, batches
from ..common.types import Integers
from ..local.model import from_statistics, in_kernel_space, mean_and_variance, weighted
from ..local.plan import Plan
from ..solvers.feature_space import FeatureSpace
from ..solvers.kernel_space import KernelSpace
from ..solvers.statistics import Statistics, total
from . import cells, fast
from .cells import Neighbourhoods, TensorSet
from .moments import MomentModels, moments_of

GROWTH = 1.25  # neighbourhoods of a batch differ by at most this factor,
LEAST_SHARE, LEAST_NUMBERS = 0.05, 2.0**27  # unless there are so few of them that it does not matter
GROUP = 4096  # points that are evaluated together, of one centre
TILE = 64  # test points that are evaluated together, of one centre


@dataclass(frozen=True, eq=False)
class Batch:
    """Models of some centres, side by side."""

    members: Integers  # (B,): which centres
    models: MomentModels | FeatureSpace | KernelSpace  # theirs; the arrays have a leading dimension of B
    n: Integers  # (B,): numbers of points in their neighbourhoods

    @property
    def n_bytes(self) -> int:
        """Memory taken."""
        return self.models.n_bytes


def fit(plan: Plan, data: TensorSet, centers: Tensor) -> Iterator[Batch]:
    """Models around all centres, batch by batch."""
    numbers = np.arange(len(centers))
    made = fast.fit(plan, data, centers) if len(centers) else None
    if made is not None:
        yield from (Batch(*each) for each in made[0])
        numbers = made[1]
        centers = centers[torch.as_tensor(numbers, device=centers.device)]
    if len(numbers) == 0:
        return
    for run, near in neighbourhoods(plan, data, centers):
        counts = near.counts.cpu().numpy()
        for members in _by_size(plan, counts):
            rows = torch.as_tensor(members, device=centers.device)
            width = int(counts[members].max())
            fit_batch = _fit_kernel if plan.takes_kernel_space(width) else _fit_features
            models = fit_batch(plan, data, centers[run], near, rows, width)
            yield Batch(numbers[members + run.start], models, counts[members])


def neighbourhoods(plan: Plan, data: TensorSet, centers: Tensor) -> Iterator[tuple[slice, Neighbourhoods]]:
    """Neighbourhoods of runs of centres, as many at once as there is room for."""
    n, room = len(data.X), batch_bytes(centers.device) / 32
    if plan.radius is None:
        size = n if plan.count is None else min(plan.count, n)
        whole = torch.arange(n, device=centers.device)
        for run in batches(len(centers), max(int(room / size), 1)):
            rows = run.stop - run.start
            points = whole.repeat(rows) if size == n else cells.nearest_points(data.X, centers[run], size).reshape(-1)
            yield run, Neighbourhoods.of(points, torch.full((rows,), size, device=centers.device))
    elif data.index is None:
        for run in batches(len(centers), max(int(room / n), 1)):
            yield run, _extended(plan, data, centers[run], cells.brute_force(data.X, centers[run], plan.radius))
    else:
        for part in batches(len(centers), max(1 << 20, 1)):
            starts, lengths = data.index.strips(centers[part], plan.radius)
            for run in cells.chunks_by_total(lengths.sum(dim=1).cpu().numpy(), room):
                here = slice(part.start + run.start, part.start + run.stop)
                near = data.index.within(centers[here], plan.radius, (starts[run], lengths[run]))
                yield here, _extended(plan, data, centers[here], near)


def _extended(plan: Plan, data: TensorSet, centers: Tensor, near: Neighbourhoods) -> Neighbourhoods:
    """The same, with the nearest points where the radius holds too few."""
    if plan.count is None:
        return near
    few = torch.nonzero(near.counts < min(plan.count, len(data.X))).squeeze(1)
    if len(few) == 0:
        return near
    nearest = cells.nearest_points(data.X, centers[few], plan.count)
    counts = near.counts.clone()
    counts[few] = nearest.shape[1]
    result = Neighbourhoods.of(near.points.new_empty(int(counts.sum())), counts)
    enough = torch.ones_like(counts, dtype=torch.bool)
    enough[few] = False
    kept = torch.repeat_interleave(enough, near.counts)
    owner = torch.repeat_interleave(near.counts)[kept]
    place = torch.arange(len(near.points), device=centers.device)[kept] - near.starts[owner]
    result.points[result.starts[owner] + place] = near.points[kept]
    places = result.starts[few, None] + torch.arange(nearest.shape[1], device=centers.device)
    result.points[places] = nearest
    return result


def _by_size(plan: Plan, counts: Integers) -> Iterator[Integers]:
    """Centres in groups of about equal neighbourhoods, solved on the same side, that fit into memory."""
    D = plan.features.n_components if plan.features is not None else 0
    order = np.argsort(-counts, kind="stable")
    sizes = counts[order]
    sides = plan.in_kernel_space(sizes)
    for side in (False, True):
        group, left = order[sides == side], sizes[sides == side]
        least = LEAST_SHARE * left.sum()
        start = 0
        while start < len(group):
            width = int(left[start])
            similar = int(np.searchsorted(-left, -width / GROWTH, side="right"))
            cost = 3.0 * width**2 if side else D * (min(width, GROUP) + 3.0 * D)
            enough = start + max(int(least / max(width, 1)), int(LEAST_NUMBERS / max(cost, 1.0)), 16)
            stop = min(max(similar, enough), start + max(int(_ROOM / max(cost, 1.0)), 1), len(group))
            yield group[start:stop]
            start = stop


_ROOM = 2.0**28  # numbers in one batch of models


def _padded(
    data: TensorSet, centers: Tensor, near: Neighbourhoods, rows: Tensor, width: int, offset: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Points relative to the centres (B, n, d), targets (B, n, k + 1), noise (B, n), and which are real (B, n)."""
    points, real = near.rectangle(rows, width, offset)
    X, y = data.columns
    Z = X[:, points] - centers[rows].mT[:, :, None]
    return Z.movedim(0, -1), y[:, points].movedim(0, -1), data.noise[points], real


def _fit_features(
    plan: Plan, data: TensorSet, centers: Tensor, near: Neighbourhoods, rows: Tensor, width: int
) -> MomentModels | FeatureSpace:
    moments = moments_of(plan, centers)
    if moments is not None:
        parts = (
            moments.sums(plan, *_padded(data, centers, near, rows, _group_size(width, offset), offset))
            for offset in range(0, max(width, 1), GROUP)
        )
        return moments.solved(plan, reduce(add, parts))

    def sums(offset: int) -> Statistics:
        Z, y, noise, real = _padded(data, centers, near, rows, _group_size(width, offset), offset)
        return Statistics.of_weighted(*weighted(plan, Z, y, noise, real=real))

    return from_statistics(plan, total(sums(offset) for offset in range(0, max(width, 1), GROUP)))


def _group_size(width: int, offset: int) -> int:
    return cells.rounded_up(min(width - offset, GROUP), 16)


def _fit_kernel(
    plan: Plan, data: TensorSet, centers: Tensor, near: Neighbourhoods, rows: Tensor, width: int
) -> KernelSpace:
    return in_kernel_space(plan, *_padded(data, centers, near, rows, max(width, 1), 0))


def predict(
    plan: Plan, fitted: Iterable[Batch], centers: Tensor, X: Tensor, owner: Tensor, k: int, point: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Means (q, k) and variances (q,) at points of `X` (m, d), each by the model of its centre `owner` (q,).

    `point` (q,) tells which points; without it, they are all, one after the other.
    """
    n = len(owner)
    point = torch.arange(n, device=X.device) if point is None else point
    # One row more, for what is not real: to leave it out would mean to wait for the device.
    mean, variance = X.new_zeros((n + 1, k)), X.new_full((n + 1,), plan.kernel.variance)
    owners, order = torch.sort(owner)
    bounds = torch.searchsorted(owners, torch.arange(len(centers) + 1, device=X.device))
    columns, middles = None, centers.mT
    for batch in fitted:
        members = torch.as_tensor(batch.members, device=X.device)
        if fast.answer(plan, batch.models, members, centers, X, point, order, bounds, mean, variance):
            continue
        columns = X.mT.contiguous() if columns is None else columns
        first, last = bounds[members], bounds[members + 1]
        n_tiles = (last - first + TILE - 1) // TILE
        row = torch.repeat_interleave(n_tiles)
        start = first[row] + TILE * (
            torch.arange(len(row), device=X.device) - (torch.cumsum(n_tiles, 0) - n_tiles)[row]
        )
        for part in batches(len(row), max(int(_ROOM / _numbers_per_tile(batch)), 1)):
            places = start[part, None] + torch.arange(TILE, device=X.device)
            real = places < last[row[part], None]
            pairs = order[places.clamp(max=n - 1)]
            Z = columns[:, point[pairs]] - middles[:, members[row[part]], None]
            chosen_models, Z = batch.models.take(row[part]), Z.movedim(0, -1)
            if isinstance(chosen_models, MomentModels):
                m, v = chosen_models.mean_and_variance(plan, Z)
            else:
                m, v = mean_and_variance(plan, chosen_models, Z)
            targets = torch.where(real, pairs, n).flatten()
            mean[targets], variance[targets] = m.flatten(0, 1), v.flatten()
    return mean[:-1], variance[:-1]


def _numbers_per_tile(batch: Batch) -> int:
    if isinstance(batch.models, MomentModels):
        return batch.models.n_numbers(TILE)
    D = int(batch.models.coefficients.shape[-2])
    return D * (D + 3 * TILE)
