"""How far a model with one feature map for all data is from the exact process, where the data are."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.spatial import cKDTree

from .. import metrics
from ..common.threads import thread_map
from ..common.types import Floats
from ..kernels import Kernel
from ..solvers.kernel_space import KernelSpace
from .frame import Noise

N_PROBES = 64
NEAREST = 600  # points that tell what the exact process says at one of them


def measure(
    kernel: Kernel,
    X: Floats,
    y: Floats,
    noise: Floats,
    predict: Callable[[Floats], tuple[Floats, Floats]],
    rng: np.random.RandomState,
    n_jobs: int | None,
) -> tuple[float, float, int]:
    """Mean KL from the exact process at training points, its standard error, and at how many.

    Parameters
    ----------
    X, y, noise : ndarrays of shape (n, d), (n, k), (n,)
        Targets less their mean.
    predict : callable
        From points (m, d) to the model's means (m, k), less the mean of the targets, and latent variances (m,).
    """
    n = len(X)
    probes = X[rng.choice(n, min(n, N_PROBES), replace=False)]
    noise = np.maximum(noise, Noise.of(float(noise.max()), kernel).floor)
    typical = float(np.median(noise))
    if n <= NEAREST:
        mean, variance = KernelSpace.from_points(kernel, X, y, noise).mean_and_variance(probes)
    else:
        unit = kernel.length_scales[0]
        near = cKDTree(X / unit).query(probes / unit, NEAREST)[1]

        def answer(i: int) -> tuple[Floats, Floats]:
            rows = near[i]
            model = KernelSpace.from_points(kernel, X[rows], y[rows], noise[rows])
            return model.mean_and_variance(probes[i : i + 1])

        answers = thread_map(answer, range(len(probes)), n_jobs)
        mean, variance = (np.concatenate(parts) for parts in zip(*answers, strict=True))
    model_mean, model_variance = predict(probes)
    asked, exact = (np.repeat(v[:, None] + typical, y.shape[1], axis=1) for v in (model_variance, variance))
    values = np.asarray(metrics.kl_divergence(model_mean, asked, mean, exact)).reshape(len(probes), -1).mean(axis=1)
    error = float(values.std(ddof=1)) / len(values) ** 0.5 if len(values) > 1 else 0.0
    return float(values.mean()), error, len(values)
