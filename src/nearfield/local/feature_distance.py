"""How far a model with one feature map for all data is from the exact process, where the data are."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.spatial import cKDTree

from ..common.threads import thread_map
from ..common.types import Floats
from ..kernels import Kernel
from . import distance, exact_budget
from .distance import Distance, Reference
from .frame import Noise
from .gaps import MAX_COLUMNS
from .references import exactly, nothing_drawn
from .thinning import NeighbourhoodSample

N_PROBES = 64
NEAREST = 600  # points that tell what the exact process says at one of them
SECONDS = 1.0  # of `exact_budget`, that the exact process may be solved in beyond three columns


class Measured(NamedTuple):
    """A distance, at how many probes, and whether the reference is the exact process, or as good."""

    distance: Distance
    n_probes: int
    verified: bool


def measure(
    kernel: Kernel,
    X: Floats,
    y: Floats,
    noise: Floats,
    predict: Callable[[Floats], tuple[Floats, Floats]],
    rng: np.random.RandomState,
    n_jobs: int | None,
) -> Measured:
    """Distance from the exact process at training points.

    In up to three columns the reference is that of the nearest points, whose own error is added. Beyond, it is that of
    all, where that takes little time, and else it is not verified.

    Parameters
    ----------
    X, y, noise : ndarrays of shape (n, d), (n, k), (n,)
        Targets less their mean.
    predict : callable
        From points (m, d) to the model's means (m, k), less the mean of the targets, and latent variances (m,).
    """
    n, d = X.shape
    probes = X[rng.choice(n, min(n, N_PROBES), replace=False)]
    noise = np.maximum(noise, Noise.of(float(noise.max()), kernel).floor)
    is_affordable = d > MAX_COLUMNS and n <= exact_budget.affordable_up_to(SECONDS)

    def answer(rows: np.ndarray | slice, places: Floats) -> Reference:
        origin = places[0]
        sample = NeighbourhoodSample.of(X[rows] - origin, y[rows], noise[rows])
        complete = len(sample.X) == n
        return exactly(kernel, sample, places - origin, nothing_drawn, 0.0, complete)[0]

    if n <= NEAREST or is_affordable:
        reference = answer(slice(None), probes)
    else:
        unit = kernel.length_scales[0]
        near = cKDTree(X / unit).query(probes / unit, NEAREST)[1]
        answers = thread_map(lambda i: answer(near[i], probes[i : i + 1]), range(len(probes)), n_jobs)
        reference = Reference(
            *(np.concatenate([getattr(each, name) for each in answers]) for name in ("mean", "variance", "excess"))
        )
    typical = np.full(len(probes), float(np.median(noise)))
    values = distance.divergences(*predict(probes), reference, typical, kernel.variance)
    verified = n <= NEAREST or d <= MAX_COLUMNS or is_affordable
    return Measured(Distance.of(values), len(probes), verified)
