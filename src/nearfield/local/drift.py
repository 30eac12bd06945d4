"""What all data say of the coefficients of a drift, beside a local process.

Drift columns are further targets of the local models, after those that were given. Their products with the inverse of
the covariance of all data come from what a fit has at hand: the exact process, an exact mean, the long scales'
whitened rows, or else rows whitened for this.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from ..common.types import Floats, Integers
from ..kernels import Kernel
from ..solvers.drift import Coefficients, gram_and_cross
from ..solvers.kernel_space import KernelSpace
from . import quick_whitening
from .global_part import GlobalPart
from .iteration import ExactMean
from .neighbourhoods import TrainingSet
from .predictor import Predictor
from .whitening import make_blocks, whitened

BLOCKS = 64, 192  # points of a cell, and earlier ones
QUICK_BLOCKS = 128, 64  # in a fifth of the time: standard errors of smooth columns are some 5 % too small
MANY = 200_000  # points, from where on quick ones do, in single precision where noise allows


def find_coefficients(
    kernel: Kernel,
    part: GlobalPart | None,
    exact_mean: ExactMean | None,
    predictor: Predictor,
    data: TrainingSet,
    n_drift: int,
    n_jobs: int | None,
) -> Coefficients:
    """Coefficients of the last `n_drift` targets but the constant; `kernel` has the short scales, `part` the long ones.

    `data` has the targets (n, k + p + 1) as they are, before long scales take their share of them.
    """
    k = data.y.shape[1] - 1 - n_drift
    F = data.y[:, k:-1]
    if n_drift == 0:
        return Coefficients(np.empty((0, 0)), np.empty((0, k)))
    if exact_mean is not None:
        return gram_and_cross(F, exact_mean.weights[:, :-1], k)
    if predictor.plan.is_exact and len(predictor.models) == 1:
        model = predictor.models[0]
        if isinstance(model, KernelSpace) and len(model.X) == len(data.X):
            return gram_and_cross(F, model.coefficients[:, :-1], k)
    if part is not None and part.squares is not None:
        inner = cho_factor(part.gram + np.eye(part.n_components))
        products = (part.squares - part.cross.T @ cho_solve(inner, part.cross))[:-1, :-1]
    else:
        products = _whitened(kernel, data, n_jobs)
    return Coefficients.from_products(products, k)


def _whitened(kernel: Kernel, data: TrainingSet, n_jobs: int | None) -> Floats:
    """`T' C^-1 T` of all targets but the constant."""
    if len(data.X) > MANY and quick_whitening.serves(kernel, data.noise):
        return quick_whitening.quickly_whitened(kernel, data, n_jobs)
    sizes = QUICK_BLOCKS if len(data.X) > MANY else BLOCKS
    blocks = make_blocks(data.X, *sizes, np.random.RandomState(0), n_jobs)

    def targets(points: Integers) -> Floats:
        return data.y[points, :-1]

    return whitened(kernel, data.X, data.noise, blocks, targets, n_jobs)[0]
