"""Models as the command line makes them: which estimator, and in which units."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..common.distribution import PredictiveDistribution
from ..common.sphere import are_degrees, degree_columns
from ..common.targets import KINDS
from ..common.types import Floats
from ..estimators import ExactGPRegressor, FeatureGPRegressor, LocalGPRegressor
from ..estimators.units import give_names, rescale
from ..features import FourierFeatures
from ..hyperparameters.learned import OnBoundWarning, on_bounds_message
from ..kernels.families import FAMILIES
from ..reporting import inputs
from ..streaming.tables.table import BATCH
from .columns import Recipe
from .messages import CommandError, note

NOISE, LIKELIHOOD = ("auto", "constant", "local"), ("auto", "gaussian", "student")


@dataclass(frozen=True)
class Settings:
    """What the options of `fit` and `evaluate` say of the model; see there."""

    method: str = "local"
    tolerance: float = 1e-3
    n_scales: str | None = None
    ard: bool | None = None
    scale: bool = False
    n_features: int = 512
    seed: int = 0
    n_jobs: int | None = None
    sphere: bool | None = None
    transform: str = "identity"
    noise: str = "auto"
    likelihood: str = "auto"
    kernel: str = "gaussian"
    rotated: bool = False

    def __post_init__(self) -> None:
        if self.method not in ("local", "exact", "features"):
            raise CommandError(f"--method must be local, exact or features, not {self.method!r}.")
        if self.transform not in (*KINDS[:-1], "auto"):
            words = ", ".join((*KINDS[:-1], "auto"))
            raise CommandError(f"--transform must be one of {words}, not {self.transform!r}.")
        for name, value, usual, options in (
            ("transform", self.transform, "identity", None),
            ("noise", self.noise, "auto", NOISE),
            ("likelihood", self.likelihood, "auto", LIKELIHOOD),
        ):
            if options is not None and value not in options:
                raise CommandError(f"--{name} must be one of {', '.join(options)}, not {value!r}.")
            if value != usual and self.method != "local":
                raise CommandError(f"--{name} is for local models.")
        if self.kernel not in ("auto", *FAMILIES):
            raise CommandError(f"--kernel must be one of auto, {', '.join(FAMILIES)}, not {self.kernel!r}.")
        if not 0 < self.tolerance < np.inf:
            raise CommandError(f"--tolerance must be positive, not {self.tolerance:g}.")
        if self.n_features < 2:
            raise CommandError(f"--n-features must be at least 2, not {self.n_features}.")
        if self.n_jobs == 0:
            raise CommandError("--n-jobs must not be 0; leave it out for every core.")
        if not 0 <= self.seed < 2**32:
            raise CommandError(f"--seed must be a number from 0 to {2**32 - 1}.")
        self.scales()

    def scales(self) -> int | str:
        """`n_scales` as the estimators take it."""
        text = self.n_scales or ("auto" if self.method == "local" else "1")
        if text == "auto":
            return text
        if not text.isdecimal() or int(text) < 1:
            raise CommandError(f"--n-scales must be auto or a whole number of at least 1, not {text!r}.")
        return int(text)


@dataclass(frozen=True)
class Made:
    """A fitted model, and the units of its columns that it was learnt in."""

    model: Any
    units: Floats


def make(
    settings: Settings,
    X: Floats,
    y: Floats,
    recipe: Recipe,
    progress: Callable[..., None],
    asked: Floats | None = None,
    earlier: Made | None = None,
) -> Made:
    """Fit a model to features `X` (n, p) in their own units, to be `asked` at places (m, p) where those are known.

    Units, hyperparameters and the approximation are those of a model made `earlier`, where there is one; what its noise
    is like is learnt either way.
    """
    roles = recipe.roles_in(X)
    if earlier is not None and settings.method == "local":
        model = copy(earlier.model).set_params(**roles)
        model._array_names = tuple(recipe.names)
        return replace(earlier, model=model._of_other_rows(X, y))
    on_earth = is_on_earth(settings, X, recipe)
    units = np.ones(X.shape[1])
    places = X[:, : recipe.n_process]  # a drift takes columns in whatever units
    if settings.rotated and (on_earth or places.shape[1] not in (2, 3)):
        raise CommandError("--rotated takes two or three coordinates in one unit: no degrees, no other features.")
    if settings.scale and not on_earth and not settings.rotated:
        units[: places.shape[1]] = np.where(recipe.is_number[: places.shape[1]], _spreads(places), 1.0)
    model = _estimator(settings, progress).set_params(metric="sphere" if on_earth else "euclidean", **roles)
    if earlier is not None:
        units = earlier.units
        model.set_params(**_hyperparameters(earlier))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OnBoundWarning)  # said below, by the columns' names and in their own units
        known = {} if asked is None or settings.method != "local" else {"X_test": asked / units}
        model._array_names = tuple(recipe.names)
        model.fit(X / units, y, **known)
        del model._array_names
    if np.any(units != 1):
        rescale(model, units)
    give_names(model, recipe.names, recipe.levels)
    if model.learned_.surprising_bounds and model.kernel_.n_scales == 1:
        note(on_bounds_message(model.learned_, model._inner_names()))
    return Made(model, units)


def _hyperparameters(made: Made) -> dict[str, Any]:
    """Those of a model, in the units that it was learnt in."""
    kernel = made.model.kernel_
    units = made.units[made.model.coordinates_]
    scales = kernel.length_scales / units if np.any(units != 1) else kernel.length_scales
    return {**kernel.parameters(), "length_scale": scales, "noise_variance": made.model.noise_variance_}


def is_on_earth(settings: Settings, X: Floats, recipe: Recipe) -> bool:
    """Whether the first two features are longitude and latitude: as the options say, or else names and numbers."""
    if settings.sphere is not None:
        if settings.sphere and X.shape[1] < 2:
            raise CommandError("--sphere takes two features at least: longitude and latitude.")
        return settings.sphere
    return degree_columns(recipe.process) == (0, 1) and are_degrees(X[:, 0], X[:, 1])


def _estimator(settings: Settings, progress: Callable[..., None]) -> Any:
    shared: dict[str, Any] = {
        "ard": "auto" if settings.ard is None else settings.ard,
        "n_scales": settings.scales(),
        "kernel": settings.kernel,
        "anisotropy": "rotated" if settings.rotated else "axes",
        "n_jobs": settings.n_jobs,
        "random_state": settings.seed,
        "progress": progress,
    }
    if settings.method == "exact":
        return ExactGPRegressor(**shared)
    if settings.method == "features":
        drawn = FourierFeatures(settings.n_features, sampling="orthogonal", random_state=settings.seed)
        return FeatureGPRegressor(drawn, **shared)
    shared |= {"target": settings.transform, "noise": settings.noise, "likelihood": settings.likelihood}
    return LocalGPRegressor(tolerance=settings.tolerance, **shared)


def _spreads(X: Floats) -> Floats:
    spreads = X.std(axis=0)
    return np.where(spreads > 0, spreads, 1.0)


def rows_at_a_time(model: Any) -> int:
    """Rows to predict in one go: many, where each go makes the local models anew because they would fill the memory."""
    predictor = getattr(model, "_predictor", None)
    return BATCH if predictor is None or predictor.models else 20 * BATCH


def distribution(model: Any, X: Floats, latent: bool = False) -> PredictiveDistribution:
    """Predictive distributions of complete rows; those of observations unless `latent`."""
    return inputs.distribution(model, model._rows_of_source(X), include_noise=not latent)


def mean_of_targets(model: Any) -> float:
    """What a model takes for the mean of its first target, in the units of the table."""
    mean = np.array([model._level_of_targets()])
    return float((model.target_.inverse(mean) if hasattr(model, "target_") else mean)[0])
