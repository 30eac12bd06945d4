"""The exact process at a few places, by iteration, and how far a model is from it there."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from ..common.arrays import as_doubles, side_by_side
from ..common.budget import Progress
from ..common.types import Booleans, Floats
from ..common.warnings import warn
from ..features.domain import DomainFeatures
from ..kernels import Kernel
from ..kernels.families import FINE
from ..solvers.conjugate_gradients import mean_error_bound, quadratic_error_bound
from ..solvers.drift import Coefficients
from . import distance
from .fit import FittedLocal
from .global_part import rows_of, split
from .iteration import MOST_PAIRS, System
from .neighbourhoods import TrainingSet

LACK = 1e-12  # of the variance, that features of the long scales may lack
RESIDUAL = 1e-8  # relative, at which iterations end
COLUMNS_AT_ONCE = 64


@dataclass(frozen=True)
class Certificate:
    """The exact Gaussian process at some places, with bounds on the errors, and a model's distance from it; print it.

    Attributes
    ----------
    X : ndarray of shape (p, d)
        The places.
    mean : ndarray of shape (p,) or (p, k)
        Of the exact process.
    std : ndarray of shape (p,), or (p, k) where targets have variances of their own
        Of an observation, noise included.
    mean_bound : ndarray of the shape of `mean`
        The exact mean is no farther from `mean` than this. It follows from the residual of the iteration.
    std_bound : ndarray of the shape of `std`
        The same for `std`, from which the exact one is never larger.
    divergences : ndarray of shape (p,)
        KL(model || exact) of an observation at each place, mean over targets, in nats.
    divergence : float
        Their mean.
    divergences_of_function : ndarray of shape (p,)
        The same of the function without noise, whose variance counts as 1e-6 of the signal variance at least.
    divergence_of_function : float
        Their mean.
    n_iterations : int
    converged : bool
        Whether the iteration ended by itself; where not, the bounds say what it reached.
    seconds : float
    """

    X: Floats = field(repr=False)
    mean: Floats = field(repr=False)
    std: Floats = field(repr=False)
    mean_bound: Floats = field(repr=False)
    std_bound: Floats = field(repr=False)
    divergences: Floats = field(repr=False)
    divergence: float
    divergences_of_function: Floats = field(repr=False)
    divergence_of_function: float
    n_iterations: int
    converged: bool
    seconds: float

    @staticmethod
    def of_targets(answers: list[Certificate]) -> Certificate:
        """One for several targets, from those of each at the same places."""
        names = ("mean", "std", "mean_bound", "std_bound")
        beside = {name: side_by_side([getattr(each, name) for each in answers]) for name in names}
        divergences, of_function = (
            np.mean([getattr(each, name) for each in answers], axis=0)
            for name in ("divergences", "divergences_of_function")
        )
        return replace(
            answers[0],
            **beside,
            divergences=divergences,
            divergence=float(np.mean(divergences)),
            divergences_of_function=of_function,
            divergence_of_function=float(np.mean(of_function)),
            n_iterations=max(each.n_iterations for each in answers),
            converged=all(each.converged for each in answers),
            seconds=sum(each.seconds for each in answers),
        )

    def __str__(self) -> str:
        p = len(self.X)
        bound = float(np.max(self.mean_bound.reshape(p, -1) / self.std.reshape(p, -1)))
        return (
            f"{self.divergence:.1e} nats of KL per test point from the exact Gaussian process for noisy observations, "
            f"and {self.divergence_of_function:.1e} for the function, at {len(self.X)} places (the largest "
            f"{self.divergences.max():.1e} and {self.divergences_of_function.max():.1e}); the exact process is known "
            f"there to {bound:.0e} of a standard deviation, by {self.n_iterations} iterations in {self.seconds:.1f} s"
            + ("" if self.converged else ", which did not converge")
        )


@dataclass(frozen=True, eq=False)
class ExactAnswers:
    """Means (p, k), latent variances (p,), bounds on the errors of both, and how the iteration ended.

    `products` (k, k) are those of all targets with the inverse of their covariance.
    """

    mean: Floats
    variance: Floats
    mean_bound: Floats
    variance_bound: Floats
    n_iterations: int
    converged: Booleans
    products: Floats


def exact_at(
    kernel: Kernel, data: TrainingSet, places: Floats, n_jobs: int | None, progress: Progress | None
) -> ExactAnswers:
    """The exact process at places (p, d) in length scales, for targets (n, k + 1), by iteration.

    Raises
    ------
    OutOfReachError
        Where the kernel reaches across too many pairs of points.
    """
    short, features = split(kernel, data.X, LACK)
    p, k = len(places), data.y.shape[1]
    rng, n_sides = np.random.RandomState(0), min(p + k, COLUMNS_AT_ONCE)
    system = System.of(short, features, data.X, data.noise, rng, n_jobs, MOST_PAIRS, n_sides=n_sides)
    cross = _cross(short, system, places, features, data.X, n_jobs)
    B = np.concatenate([cross, data.y], axis=1)
    solutions = [
        system.attempt(B[:, start : start + COLUMNS_AT_ONCE], RESIDUAL, progress)
        for start in range(0, B.shape[1], COLUMNS_AT_ONCE)
    ]
    residuals = np.concatenate([s.residual_norms for s in solutions])
    quadratic = np.concatenate([s.quadratic for s in solutions])
    weights = np.concatenate([s.x for s in solutions], axis=1)
    noise, prior = max(system.least_noise, np.finfo(float).tiny), np.full((p, 1), kernel.variance)
    return ExactAnswers(
        cross.T @ weights[:, p:],
        np.clip(kernel.variance - quadratic[:p], 0.0, None),
        mean_error_bound(prior, residuals[None, p : p + k], noise),
        quadratic_error_bound(residuals[:p], noise),
        max(s.n_iterations for s in solutions),
        np.concatenate([s.converged for s in solutions]),
        data.y.T @ weights[:, p:],
    )


def _cross(
    short: Kernel, system: System, places: Floats, features: tuple[DomainFeatures, ...], X: Floats, n_jobs: int | None
) -> Floats:
    """Covariance (n, p) of the data with places."""
    cross: Floats = short(X, places)
    if features:
        cross += system.Phi @ rows_of(features, places, n_jobs).T
    return cross


def certify(
    fitted: FittedLocal,
    X: Floats,
    predict: Callable[[Floats], tuple[Floats, Floats]],
    n_jobs: int | None,
    progress: Progress | None,
    columns: Floats | None = None,
    known: Floats | None = None,
) -> Certificate:
    """The exact process at places (p, d) in the units of the data, and how far from it a fitted model is.

    `predict` gives the model's means and standard deviations of the function there, (p,) or (p, k). With a drift,
    `columns` are those of the places, and `known` (p, k) is what was taken out of the targets. Bounds take its
    coefficients, which come from the same iteration, for exact.
    """
    start = time.perf_counter()
    answers = exact_at(
        fitted.frame.kernel.expanded(FINE), fitted.training_set(), fitted.frame.points(X), n_jobs, progress
    )
    y_mean, offset = as_doubles(fitted.y_mean), as_doubles(fitted.frame.offset)
    mean = answers.mean[:, :-1] - answers.mean[:, -1:] * (y_mean - offset) + y_mean
    bound = answers.mean_bound[:, :-1] + answers.mean_bound[:, -1:] * np.abs(y_mean - offset)
    latent = answers.variance
    if fitted.drift is not None and columns is not None:
        k = mean.shape[1] - fitted.drift.size
        drift = replace(Coefficients.from_products(answers.products[:-1, :-1], k), prior=fitted.drift.prior)
        bound = bound[:, :k] + bound[:, k:] @ np.abs(drift.mean)
        mean, latent = drift.completed(mean[:, :k], latent, columns - mean[:, k:])
    mean = mean if known is None else mean + known
    variance = latent + fitted.learned.noise_variance
    model_mean, model_std = (as_doubles(values) for values in predict(X))
    std = np.sqrt(variance)
    noise = fitted.learned.noise_variance
    divergences, of_function = distance.divergences(
        model_mean.reshape(mean.shape),
        model_std.reshape(len(X), -1)[:, 0] ** 2,
        distance.Reference(mean, latent, np.zeros(len(X))),
        np.full(len(X), noise),
        fitted.frame.kernel.variance,
    )
    result = Certificate(
        X,
        mean.reshape(model_mean.shape),
        std,
        bound.reshape(model_mean.shape),
        std - np.sqrt(np.clip(variance - answers.variance_bound, 0.0, None)),
        divergences,
        float(divergences.mean()),
        of_function,
        float(of_function.mean()),
        answers.n_iterations,
        bool(answers.converged.all()),
        time.perf_counter() - start,
    )
    if not result.converged:
        warn("The iteration of certify did not converge; its bounds say what it reached. More noise helps.")
    return result
