"""Variances at many places, each by its own nearest points: for models whose mean is found for all data at once.

Nothing but the last row of a small factorisation is asked for, so many are made side by side and forgotten, in single
precision where noise is large enough for that (see `quick_whitening.serves`).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..common.memory import batches
from ..common.threads import thread_map
from ..common.types import Booleans, Floats, Integers
from ..solvers import linalg
from ..solvers.kernel_space import KernelSpace
from .neighbourhoods import TrainingSet
from .plan import Plan
from .quick_whitening import NOTHING, serves

PLACES_AT_ONCE = 512  # whose neighbours are looked up together
NUMBERS_AT_ONCE = 1 << 18  # entries of the matrices side by side: they stay in the cache
STEP = 16  # neighbourhoods are filled up to a multiple of it, whatever others are beside them


def nearest_variances(plan: Plan, data: TrainingSet, X: Floats, n_jobs: int | None) -> Floats:
    """Variances (m,) at places (m, d) by the nearest points that a plan asks for, in kernel space."""
    result = np.empty(len(X))
    dtype: type[np.floating[Any]] = np.float32 if serves(plan.kernel, data.noise) else np.float64

    def work(chunk: slice) -> None:
        near = data.neighbourhoods(X[chunk], None, plan.count, plan.kernel)
        sizes = np.array([len(rows) for rows in near])
        padded = -(-sizes // STEP) * STEP
        for size in np.unique(padded):
            members = np.flatnonzero(padded == size)
            for run in batches(len(members), max(NUMBERS_AT_ONCE // int(size) ** 2, 1)):
                own = members[run]
                rows = np.array([np.resize(near[i], size) for i in own])
                is_padding = np.arange(size) >= sizes[own, None]
                result[chunk.start + own] = _side_by_side(plan, data, X[chunk][own], rows, is_padding, dtype)

    thread_map(work, batches(len(X), PLACES_AT_ONCE), n_jobs)
    return result


def _side_by_side(
    plan: Plan, data: TrainingSet, places: Floats, rows: Integers, is_padding: Booleans, dtype: type[np.floating[Any]]
) -> Floats:
    """Variances (b,) at places (b, d) by rows (b, n), some of which are padding."""
    kernel, (b, n) = plan.kernel, rows.shape
    Z = (data.X[rows] - places[:, None]).astype(dtype)
    noise = np.where(is_padding, NOTHING * kernel.variance, data.noise[rows]).astype(dtype)
    cross = kernel(Z, np.zeros((b, 1, Z.shape[2]), dtype)) * ~is_padding[:, :, None]
    K = kernel(Z, Z)
    K.reshape(b, -1)[:, :: n + 1] += noise
    variances = np.empty(b)
    for i in range(b):
        if linalg.cholesky_in_place(K[i].T):
            half = linalg.solve_lower_rows(K[i].T, cross[i]).astype(np.float64)
            variances[i] = kernel.variance - float(np.sum(half**2))
        else:
            own = rows[i, ~is_padding[i]]
            factor = KernelSpace.factorise(kernel, data.X[own] - places[i], data.noise[own])
            half = factor.whiten(kernel(data.X[own] - places[i], np.zeros((1, Z.shape[2]))))
            variances[i] = kernel.variance - float(np.sum(half**2))
    return variances.clip(min=0.0)
