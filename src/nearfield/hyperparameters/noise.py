"""What left-out residuals say of a model's variances: of which size they are, where, and with what tails.

A model states a variance `v` of the function and `s` of the noise. A `NoiseModel` makes a distribution of them: either
the noise alone has a local size, `v + f(x) s`, or everything has, `f(x) (v + s)`, as where a field is rough in some
places and smooth in others. The tails are normal or those of Student's t.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import ndtri

from ..common.distribution import LEVELS as QUANTILES
from ..common.distribution import Calibration, PredictiveDistribution, scores_of
from ..common.threads import single_threaded_blas
from ..common.types import Floats, Integers
from .noise_field import FieldSum, NoiseField, Term, choose_terms, fit_terms
from .tails import fit_tails, log_densities

LEAST_GAIN = 0.003  # nats per point that a richer kind must gain
LEAST_EVIDENCE = np.log(1000.0)  # nats of all points, see `_is_better`
LEVELS = (0.5, 0.8, 0.95, 0.99)  # of intervals that are checked
OFF = 0.004  # by which coverage must be off, besides by chance
SIGNIFICANT = 3.5  # standard errors of it, where there was nothing to learn so far
FOLDS = 5  # in which the sizes of residuals are found without them


@dataclass(frozen=True, eq=False)
class NoiseModel:
    """How the variances that a model states become distributions.

    Attributes
    ----------
    factor : float
        Of the squared scale of the noise, or of everything.
    dof : float
        Degrees of freedom of Student's t; infinite for the normal distribution.
    field : NoiseField, FieldSum or None
        Logarithm of the factor, less that of `factor`, at points in the units of the kernel.
    of_all : bool
        Whether the factor is that of everything, and not of the noise alone.
    calibration : Calibration or None
        Of probabilities, where left-out residuals show that they are off.
    """

    factor: float = 1.0
    dof: float = np.inf
    field: NoiseField | FieldSum | None = None
    of_all: bool = False
    calibration: Calibration | None = None

    @property
    def is_plain(self) -> bool:
        """Whether everything is taken as it is stated: normal noise of one size."""
        return np.isinf(self.dof) and self.field is None and self.calibration is None and self.factor == 1

    @property
    def variance_ratio(self) -> float:
        """Variance over squared scale."""
        return 1.0 if np.isinf(self.dof) else self.dof / (self.dof - 2)

    def factors(self, X: Floats) -> Floats:
        """Factors (m,) at points (m, d) in the units of the kernel."""
        return np.full(len(X), self.factor) if self.field is None else self.factor * np.exp(self.field(X))

    def variance_factors(self, X: Floats) -> Floats:
        """Factors (m,) of variances instead of squared scales."""
        return self.factors(X) * self.variance_ratio

    def function_variance(self, X: Floats, variance: Floats) -> Floats:
        """Variances (m,) of the function at points (m, d), from those that the model states (m,)."""
        return variance * self.factors(X) if self.of_all else variance

    def squared_scale(self, X: Floats, variance: Floats, noise: Floats) -> Floats:
        """Squared scales (m,) of observations at points (m, d), from the variances stated (m,) and noise (m,)."""
        f = self.factors(X)
        return (variance + noise) * f if self.of_all else variance + noise * f

    def noise_variance(self, X: Floats, noise: Floats) -> Floats:
        """Variances (m,) of the noise at points (m, d), from those that the model states (m,)."""
        return noise * self.variance_factors(X)

    def noise_draws(self, X: Floats, noise: Floats, shape: tuple[int, ...], rng: np.random.Generator) -> Floats:
        """Draws of noise (m, ...) at points (m, d), from the variances that the model states there (m,)."""
        unit = rng.standard_normal(shape) if np.isinf(self.dof) else rng.standard_t(self.dof, shape)
        scales: Floats = np.sqrt(self.factors(X) * noise)
        return unit * scales.reshape(-1, *[1] * (len(shape) - 1))

    def in_words(self) -> str:
        """What was learnt, in a few words."""
        subject = "variances" if self.of_all else "noise"
        size = "of one size" if self.field is None else "of local size"
        tails = "normal" if np.isinf(self.dof) else f"Student's t with {self.dof:.2g} degrees of freedom"
        checked = "" if self.calibration is None else "; intervals corrected by left-out residuals"
        return f"{subject} {size}, {tails}{checked}"

    def distribution(self, X: Floats, mean: Floats, variance: Floats, noise: Floats | None) -> PredictiveDistribution:
        """Distributions at points (m, d), from what the model states there; without noise, of the function.

        Parameters
        ----------
        X : ndarray of shape (m, d)
            In the units of the kernel.
        mean : ndarray of shape (m,) or (m, k)
        variance, noise : ndarrays of shape (m,)
        """

        def shaped(values: Floats) -> Floats:
            root = np.sqrt(np.maximum(values, 0.0))
            return root if mean.ndim == 1 else np.repeat(root[:, None], mean.shape[1], axis=1)

        if noise is None:
            std = shaped(self.function_variance(X, variance))
            return PredictiveDistribution(mean, std, std)
        scale = shaped(self.squared_scale(X, variance, noise))
        std = scale * self.variance_ratio**0.5
        return PredictiveDistribution(mean, std, scale, self.dof, self.calibration)


@dataclass(frozen=True, eq=False)
class Residuals:
    """Left-out residuals of observations, and the variances that the model stated.

    Attributes
    ----------
    X : ndarray of shape (n, d)
        In the units of the kernel.
    values : ndarray of shape (n,)
    variance, noise : ndarrays of shape (n,)
        Of the function, and of the noise.
    """

    X: Floats
    values: Floats
    variance: Floats
    noise: Floats

    def log_densities(self, model: NoiseModel) -> Floats:
        """Logarithms (n,) of the densities of the residuals, before any calibration."""
        return log_densities(self.values, model.squared_scale(self.X, self.variance, self.noise), model.dof)

    def split(self, of_all: bool) -> tuple[Floats, Floats]:
        """Variance (n,) that is left as it is, and that gets a factor."""
        if of_all:
            return np.zeros_like(self.variance), self.variance + self.noise
        return self.variance, self.noise


@dataclass(frozen=True, eq=False)
class Kind:
    """Of noise model, before it is learnt: what gets a factor, its tails, and the terms of a field if any."""

    of_all: bool = False
    is_student: bool = False
    has_factor: bool = False
    terms: tuple[Term, ...] = ()

    @property
    def is_plain(self) -> bool:
        """Whether there is nothing to learn."""
        return not self.has_factor


def choose(
    residuals: Residuals, noise: str, likelihood: str, rng: np.random.RandomState, with_function: bool = True
) -> Kind:
    """The kind of noise model that residuals call for; with the function's variances of local size, too, or not.

    `noise` is "constant", "local" or "auto", `likelihood` "gaussian", "student" or "auto": what is left open is settled
    by the densities of residuals under models learnt from the other half of them. The simplest kind is kept unless a
    richer one gains significantly.
    """
    with single_threaded_blas():  # these matrices are small
        if not np.any(residuals.values):
            return Kind()  # nothing to learn from
        kinds = _kinds(residuals, noise, likelihood, (False, True) if with_function else (False,))
        halves = np.array_split(rng.permutation(len(residuals.values)), 2)
        chosen = kinds[0]
        if len(kinds) > 1:
            known = _held_out_densities(residuals, chosen, halves)
            for kind in kinds[1:]:
                densities = _held_out_densities(residuals, kind, halves)
                if _is_better(densities - known, halves):
                    chosen, known = kind, densities
        return chosen


def _is_better(gains: Floats, halves: Sequence[Integers]) -> bool:
    """Whether gains (n,) in the logarithms of held-out densities are worth having, and no chance.

    If the simpler kind is right, the product of the ratios of densities over a half has the expectation 1, whatever the
    richer kind learnt from the other half: by Markov's inequality it exceeds 1000 once in a thousand cases at most. No
    distribution of the gains is assumed, which heavy tails make few and large.
    """
    evidence = np.logaddexp.reduce([float(np.sum(gains[half])) for half in halves]) - np.log(len(halves))
    return bool(np.mean(gains) > LEAST_GAIN and evidence > LEAST_EVIDENCE)


def _kinds(residuals: Residuals, noise: str, likelihood: str, of_what: Sequence[bool]) -> list[Kind]:
    """Kinds to choose from, the simplest first; `of_what` are the choices of `of_all`."""
    tails: Sequence[bool] = {"gaussian": (False,), "student": (True,), "auto": (False, True)}[likelihood]
    kinds = []
    if noise != "local":
        kinds = [Kind(of_all, tail, of_all or tail) for tail in tails for of_all in of_what]
    if noise != "constant":
        fields = [_kind_of_field(residuals, of_all) for of_all in of_what]
        kinds += [replace(kind, is_student=tail) for kind in fields if kind is not None for tail in tails]
    return kinds or [Kind(is_student=tails[0], has_factor=True)]  # local noise was asked for, and there is none to see


def _kind_of_field(residuals: Residuals, of_all: bool) -> Kind | None:
    """The kind with the field that the residuals show; None where they show none."""
    terms = choose_terms(residuals.X, residuals.values, *residuals.split(of_all))
    return Kind(of_all, False, True, terms) if terms else None


def learn_anew(residuals: Residuals, kind: Kind) -> tuple[NoiseModel, Floats]:
    """Noise model of a kind that was chosen for other residuals, and squared scales (n,) for calibration.

    A field has the terms of these residuals. It follows them, if only a little, so that tails are told, and scales
    stated, by fields that have not seen the residual in question.
    """
    with single_threaded_blas():
        if kind.terms:
            kind = replace(
                _kind_of_field(residuals, kind.of_all) or Kind(kind.of_all, has_factor=True), is_student=kind.is_student
            )
        n = len(residuals.values)
        model, logs = learn(residuals, kind, np.arange(n))
        if model.field is None:
            return model, _squared_scales(residuals, model, logs)
        rest, size = residuals.split(kind.of_all)
        unseen = np.empty(n)
        for own in np.array_split(np.random.RandomState(0).permutation(n), FOLDS):
            others = np.setdiff1d(np.arange(n), own)
            unseen[own] = fit_terms(residuals.X, residuals.values, rest, size, kind.terms, others)[1][own]
        size = size * np.exp(unseen + np.mean(logs) - np.mean(unseen))
        factor, dof = fit_tails(residuals.values, rest, size, kind.is_student)
        return replace(model, factor=factor, dof=dof), rest + factor * size


def learn(residuals: Residuals, kind: Kind, rows: Integers) -> tuple[NoiseModel, Floats]:
    """Noise model of a kind from some rows (m,) of residuals, and the logarithms of its field at all of them (n,)."""
    logs = np.zeros(len(residuals.values))
    if not kind.has_factor:
        return NoiseModel(), logs
    rest, size = residuals.split(kind.of_all)
    field = None
    if kind.terms:
        field, logs = fit_terms(residuals.X, residuals.values, rest, size, kind.terms, rows)
        size = size * np.exp(logs)
    factor, dof = fit_tails(residuals.values[rows], rest[rows], size[rows], kind.is_student)
    return NoiseModel(factor, dof, field, kind.of_all), logs


def _squared_scales(residuals: Residuals, model: NoiseModel, logs: Floats) -> Floats:
    """What a model states for residuals (n,), where its field is known to have these logarithms (n,)."""
    rest, size = residuals.split(model.of_all)
    return rest + model.factor * np.exp(logs) * size


def log_likelihood(model: NoiseModel, residuals: Residuals) -> float:
    """Mean log density of residuals under the field of a model, with size and tails that suit these residuals best."""
    rest, size = residuals.split(model.of_all)
    size = size if model.field is None else size * np.exp(model.field(residuals.X))
    factor, dof = fit_tails(residuals.values, rest, size, bool(np.isfinite(model.dof)))
    return float(np.mean(log_densities(residuals.values, rest + factor * size, dof)))


def calibrated(model: NoiseModel, residuals: Floats, squared_scales: Floats) -> NoiseModel:
    """The model with probabilities corrected by residuals (n,), where those show that they are off.

    `squared_scales` (n,) are what the model states of them. A plain model is given the benefit of the doubt; one that
    is not was learnt from these residuals anyway, and its quantiles are looked at as well as its intervals.
    """
    scores = scores_of(residuals / np.sqrt(np.maximum(squared_scales, np.finfo(np.float64).tiny)), model.dof)
    checks = [(np.abs(scores) <= ndtri(0.5 + level / 2), level) for level in LEVELS]
    allowed = SIGNIFICANT
    if not model.is_plain:
        checks += [(scores <= ndtri(level), level) for level in QUANTILES]
        allowed = 1.0
    for held, level in checks:
        if abs(float(np.mean(held)) - level) > max(OFF, allowed * np.sqrt(level * (1 - level) / len(scores))):
            return replace(model, calibration=Calibration.of(scores))
    return model


def _held_out_densities(residuals: Residuals, kind: Kind, halves: Sequence[Integers]) -> Floats:
    """Logarithms (n,) of the densities of residuals, each under a model learnt from the half it is not in."""
    result = np.empty(len(residuals.values))
    for own, other in (halves, halves[::-1]):
        model, logs = learn(residuals, kind, other)
        result[own] = log_densities(residuals.values[own], _squared_scales(residuals, model, logs)[own], model.dof)
    return result
