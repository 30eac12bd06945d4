"""How many neighbours graded cells take, found on a device: see `local.depth`."""

from __future__ import annotations

import numpy as np
import torch

from ..common.arrays import Array as Tensor
from ..common.arrays import like
from ..common.memory import batch_bytes, batches
from ..common.types import Floats, Integers
from ..local.depth import Depth, places_in_cell
from ..local.plan import Plan
from ..solvers.kernel_space import KernelSpace
from . import cells
from .cells import TensorSet


def numbers(
    plan: Plan, depth: Depth | None, data: TensorSet, centers: Tensor, sizes: Floats
) -> tuple[Integers, Floats]:
    """Numbers of neighbours (C,) of cells around centres (C, d) with half diagonals (C,), and nats that they lack (C,).

    As `local.depth.fit_cells` has them: doubled until the farther half contributes little.
    """
    n, count = len(data.X), plan.count or 1
    result, lacking, todo = np.full(len(centers), min(count, n)), np.zeros(len(centers)), np.arange(len(centers))
    while depth is not None and len(todo) and count < n:
        room = batch_bytes(data.X.device) / (8 * data.X.element_size() * count**2)
        found = [
            contributions(plan, depth, data, centers[torch.as_tensor(rows, device=centers.device)], sizes[rows], count)
            for rows in (todo[run] for run in batches(len(todo), max(int(room), 1)))
        ]
        contributed = np.concatenate(found)
        lacks = contributed > depth.excess
        todo, contributed = todo[lacks], contributed[lacks]
        if count >= depth.most:
            lacking[todo] = [depth.nats(float(each)) for each in contributed]
            break
        count = min(2 * count, depth.most)
        result[todo] = min(count, n)
    return result, lacking


def contributions(plan: Plan, depth: Depth, data: TensorSet, centers: Tensor, sizes: Floats, count: int) -> Floats:
    """Nats (C,) that the farther half of the `count` nearest points of each cell contributes."""
    kernel, d = plan.kernel, centers.shape[1]
    near = cells.nearest_points(data.X, centers, count, in_order=True)
    Z = data.X[near] - centers[:, None]
    places = like(sizes[:, None, None] * places_in_cell(1.0, d), centers)
    factor = KernelSpace.factorise(kernel, Z, data.noise[near], what="covariance matrix of a neighbourhood")
    squares = factor.whiten(kernel(Z, places)) ** 2
    variance = (kernel.variance - squares.sum(dim=1)).clamp(min=0.0) + depth.noise
    farther = squares[:, squares.shape[1] // 2 :].sum(dim=1)
    result: Floats = (0.5 * farther / variance).amax(dim=1).cpu().numpy().astype(np.float64)
    return result
