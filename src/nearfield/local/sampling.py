r"""Joint draws of the function by Matheron's rule.

.. math:: f(x) + m\left(y - f(X) - \varepsilon\right)(x)

is a draw from the posterior, where `f` is one from the prior, the noise is drawn as the data have it, and `m` is the
mean that the model gives to targets. The mean is linear in the targets, so that draws are further targets of the local
models already chosen, of the long scales, and of the exact mean. Their covariance is that of the errors of this very
mean.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..common import memory
from ..common.budget import Progress
from ..common.types import Floats, Integers
from ..features.domain import DomainFeatures
from ..kernels import Kernel
from ..kernels.draws import PriorDraws, drawn_residuals
from ..kernels.families import FINE
from . import global_part, many_targets
from .engine import RaggedEngine
from .fit import FittedLocal
from .global_part import split
from .iteration import MOST_PAIRS, ExactMean, System, precision_of_mean
from .neighbourhoods import TrainingSet
from .predictor import KeptModels

COLUMNS_AT_ONCE = 64  # that are solved together
EXACT, STILL_GOOD = 1e-6, 1e-5  # relative residual of draws that are to be exact, and where rounding may end them
LARGEST = 7.0  # standard deviations, which hardly any number of all draws exceeds
LACK = 1e-10  # of the variance, that features of the long scales may lack then


@dataclass(frozen=True, eq=False)
class Draws:
    """Functions drawn from the posterior, less the mean of the targets.

    Attributes
    ----------
    prior : PriorDraws
        In length scales.
    functions : range
        Which of them; function `i` is of target `i % k`.
    residual : FittedLocal
        The model of `y - f(X) - e`, a target per function, and of the targets themselves (k).
    """

    prior: PriorDraws
    functions: range
    residual: FittedLocal

    def __call__(self, X: Floats, blend: bool, n_jobs: int | None) -> tuple[Floats, Floats]:
        """Values (m, S) of the functions at points (m, d) in the units of the data, and means (m, k)."""
        S, points = len(self.functions), self.residual.frame.points(X)
        answers = self.residual.predict_all(points, False, blend)[0]
        self.prior.add_to(answers[:, :S], points, self.functions, n_jobs)
        answers = answers.astype(np.float64, copy=False)
        return answers[:, :S], answers[:, S:]


def draw(
    fitted: FittedLocal,
    seed: int,
    functions: range,
    n_jobs: int | None,
    progress: Progress | None = None,
    exact: bool = False,
) -> Draws:
    """Some of the functions that a seed stands for; see `Draws`.

    With `exact`, all data are solved for, by iteration, whatever the model does for its mean.

    Raises
    ------
    OutOfReachError
        Where the kernel reaches across too many pairs of points, or iterations do not converge.
    """
    data, k = fitted.training_set(), len(fitted.y_mean) - (0 if fitted.drift is None else fitted.drift.size)
    # Where neighbours are near each other in memory, too, rows of many numbers are found sooner.
    order = np.arange(len(data.X)) if data.cells is None else data.cells.order
    data = TrainingSet(data.X[order], data.y[order], data.noise[order])
    targets = data.y[:, :k] - (fitted.y_mean - fitted.frame.offset)[:k]
    kernel = fitted.frame.kernel.expanded(FINE)
    prior = PriorDraws(kernel, seed)
    is_single = not exact and _may_be_single(fitted, targets, data.noise)
    y = drawn_residuals(prior, data.X, targets, data.noise, functions, n_jobs, order, is_single)
    data = replace(data, y=y)
    if exact:
        short, features = split(kernel, data.X, LACK)
        mean = _exact_mean(short, features, data, EXACT, n_jobs, progress, STILL_GOOD)
        return Draws(prior, functions, replace(fitted, global_part=None, exact_mean=mean))
    return Draws(prior, functions, for_targets(fitted, data, order, n_jobs, progress))


def _may_be_single(fitted: FittedLocal, targets: Floats, noise: Floats) -> bool:
    """Whether rounding of residuals in single precision is nothing beside the noise and the function."""
    if fitted.global_part is not None or fitted.exact_mean is not None:
        return False
    variance = fitted.frame.kernel.variance
    largest = float(np.abs(targets).max(initial=0.0)) + LARGEST * (variance + float(noise.max(initial=0.0))) ** 0.5
    rounding = many_targets.rounding_of_targets(largest, np.minimum(noise, variance))
    return rounding < many_targets.NEGLIGIBLE


def bytes_per_function(fitted: FittedLocal) -> float:
    """Memory that a function takes: its target, and what local models make of it."""
    predictor = fitted.predictor.with_points("samples need")
    coefficients = sum(len(model.coefficients) for model in predictor.models)
    is_single = _may_be_single(fitted, predictor.data.y[:, :-1], predictor.data.noise)
    return (4.0 if is_single else 8.0) * (2.0 * predictor.n_samples + coefficients)


def for_targets(
    fitted: FittedLocal, data: TrainingSet, number: Integers, n_jobs: int | None, progress: Progress | None = None
) -> FittedLocal:
    """The same model for other targets, less their means: it tells means alone.

    `data` holds the training points of the model in any order, with targets (n, t), and `number` (n,) is the place that
    each of them had.
    """
    predictor, part = fitted.predictor.with_points("samples need", 0), fitted.global_part
    exact_mean = fitted.exact_mean
    if exact_mean is not None:  # it gives the means; what local models would say is not asked for
        tolerance = precision_of_mean(fitted.report.tolerance or 1e-3, data.noise, data.y)
        exact_mean = _exact_mean(exact_mean.kernel, exact_mean.features, data, tolerance, n_jobs, progress)
        part = None
    else:
        if part is not None:
            part = global_part.for_targets(part, data, n_jobs)
            data = replace(data, y=part.targets(data.X, data.y))
        models = predictor.models
        if models:
            models = many_targets.fit(predictor.plan, models, data, number, predictor.placement.centers, n_jobs)
        predictor = replace(predictor, models=models, data=data, kept=KeptModels(), engine=RaggedEngine(n_jobs))
    return replace(fitted, predictor=predictor, global_part=part, exact_mean=exact_mean)


def _exact_mean(
    kernel: Kernel,
    features: tuple[DomainFeatures, ...],
    data: TrainingSet,
    tolerance: float,
    n_jobs: int | None,
    progress: Progress | None,
    at_most: float | None = None,
) -> ExactMean:
    """The mean of the exact process for the targets of `data`; see `System.solve`."""
    rng, n_sides = np.random.RandomState(0), min(data.y.shape[1], COLUMNS_AT_ONCE)
    system = System.of(kernel, features, data.X, data.noise, rng, n_jobs, MOST_PAIRS, n_sides=n_sides)
    weights = np.empty_like(data.y)
    for columns in memory.batches(data.y.shape[1], COLUMNS_AT_ONCE):
        weights[:, columns] = system.solve(data.y[:, columns], tolerance, progress, at_most).x
    return ExactMean(kernel, data.X, weights, features, system.Phi.T @ weights, n_jobs)
