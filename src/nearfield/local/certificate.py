"""The exact process at a few places, by iteration, and how far a model is from it there."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from .. import metrics
from ..common.types import Booleans, Floats
from ..features.domain import DomainFeatures
from ..kernels import Kernel
from ..solvers.conjugate_gradients import mean_error_bound, quadratic_error_bound
from .global_part import rows_of, split
from .iteration import Progress, System
from .neighbourhoods import TrainingSet

LACK = 1e-12  # of the variance, that features of the long scales may lack
RESIDUAL = 1e-8  # relative, at which iterations end
MOST_PAIRS = 1e10  # of points that matter to each other, counted roughly: minutes per iteration beyond
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
    std : ndarray of shape (p,)
        Of an observation, noise included.
    mean_bound : ndarray of the shape of `mean`
        The exact mean is no farther from `mean` than this. It follows from the residual of the iteration.
    std_bound : ndarray of shape (p,)
        The same for `std`, from which the exact one is never larger.
    divergences : ndarray of shape (p,)
        KL(model || exact) of an observation at each place, mean over targets, in nats.
    divergence : float
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
    n_iterations: int
    converged: bool
    seconds: float

    def __str__(self) -> str:
        bound = float(np.max(self.mean_bound.reshape(len(self.X), -1) / self.std[:, None]))
        return (
            f"{self.divergence:.1e} nats of KL per test point from the exact Gaussian process, at {len(self.X)} places "
            f"(the largest {self.divergences.max():.1e}); the exact process is known there to {bound:.0e} of a "
            f"standard deviation, by {self.n_iterations} iterations in {self.seconds:.1f} s"
            + ("" if self.converged else ", which did not converge")
        )


@dataclass(frozen=True, eq=False)
class ExactAnswers:
    """Means (p, k), latent variances (p,), bounds on the errors of both, and how the iteration ended."""

    mean: Floats
    variance: Floats
    mean_bound: Floats
    variance_bound: Floats
    n_iterations: int
    converged: Booleans


def exact_at(
    kernel: Kernel, data: TrainingSet, places: Floats, n_jobs: int | None, progress: Progress | None
) -> ExactAnswers:
    """The exact process at places (p, d) in length scales, for targets (n, k + 1), by iteration.

    Raises
    ------
    ValueError
        Where the kernel reaches across too many pairs of points.
    """
    short, features = split(kernel, data.X, LACK)
    system = System.of(short, features, data.X, data.noise, np.random.RandomState(0), n_jobs, MOST_PAIRS)
    cross = _cross(short, system, places, features, data.X, n_jobs)
    p, k = len(places), data.y.shape[1]
    B = np.concatenate([cross, data.y], axis=1)
    solutions = [
        system.solve(B[:, start : start + COLUMNS_AT_ONCE], RESIDUAL, progress)
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
    )


def _cross(
    short: Kernel, system: System, places: Floats, features: tuple[DomainFeatures, ...], X: Floats, n_jobs: int | None
) -> Floats:
    """Covariance (n, p) of the data with places."""
    cross: Floats = short(X, places)
    if features:
        cross += system.Phi @ rows_of(features, places, n_jobs).T
    return cross


def certificate(
    X: Floats,
    answers: ExactAnswers,
    model: tuple[Floats, Floats],
    shift: Floats,
    y_mean: Floats,
    noise: float,
    single: bool,
    seconds: float,
) -> Certificate:
    """What a model's means (p, k) and variances of observations (p,) are worth beside the exact answers.

    `shift` (k,) is what targets in the answers are less than those of the model before their mean was taken off.
    """
    mean = answers.mean[:, :-1] - answers.mean[:, -1:] * shift + y_mean
    bound = answers.mean_bound[:, :-1] + answers.mean_bound[:, -1:] * np.abs(shift)
    variance = answers.variance + noise
    k = mean.shape[1]
    divergences = metrics.kl_divergence(
        model[0], np.repeat(model[1][:, None], k, 1), mean, np.repeat(variance[:, None], k, 1)
    )
    std = np.sqrt(variance)
    divergences = np.asarray(divergences).reshape(len(X), -1).mean(axis=1)
    return Certificate(
        X,
        mean[:, 0] if single else mean,
        std,
        bound[:, 0] if single else bound,
        std - np.sqrt(np.clip(variance - answers.variance_bound, 0.0, None)),
        divergences,
        float(divergences.mean()),
        answers.n_iterations,
        bool(answers.converged.all()),
        seconds,
    )
