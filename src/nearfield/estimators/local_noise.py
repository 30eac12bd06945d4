"""What a local model learns of its noise, and of its target's units."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from typing import Any, Self

import numpy as np
from sklearn.base import clone

from ..common.arrays import as_doubles, is_tensor, namespace
from ..common.budget import UNLIMITED, Budget
from ..common.distribution import PredictiveDistribution
from ..common.left_out import LeftOut
from ..common.targets import KINDS, Target
from ..common.types import Booleans, Floats
from ..common.validation import check_option, describe, spawn
from ..hyperparameters.noise import NoiseModel
from ..hyperparameters.target import choose_target
from ..local.fit import Clock, FittedLocal, TrainingData
from ..local.in_memory import InMemory
from ..local.left_out import left_out
from ..local.noise import Learnt, Refit, settle
from ..solvers.drift import Coefficients
from .base import GPRegressor
from .extent import box_of
from .probabilities import NO_ROWS, NoRowsError


class LearntNoise(GPRegressor):
    """A regressor by local models, with `noise`, `likelihood` and `target` among its parameters.

    A subclass gives `_store(fitted)`, which sets what users see of a fitted model.
    """

    target: Any
    blend: bool
    target_: Target
    _fitted: FittedLocal
    _stated_noise: Floats | None  # noise variances of the samples, where the fit took others

    def _store(self, fitted: FittedLocal) -> None:
        raise NotImplementedError

    # ---- targets -----------------------------------------------------------------------------------------------------

    def _check_target(self) -> None:
        if hasattr(self.target, "transform") and hasattr(self.target, "inverse_transform"):
            return
        kinds = [*KINDS[:-1], "auto"]
        if not isinstance(self.target, str) or self.target not in kinds:
            words = ", ".join(map(repr, kinds))
            raise ValueError(
                f"{describe(self, 'target')} must be one of {words}, or a transformer with transform and "
                f"inverse_transform. Got {self.target!r}."
            )

    def _refuse_target(self, what: str) -> None:
        if not (isinstance(self.target, str) and self.target == "identity"):
            raise ValueError(f"{describe(self, 'target')} must be 'identity' for {what}.")

    def _transformed(self, X: Any, y: Any) -> Any:
        """Targets (n, k) of the process; sets `target_`."""
        if isinstance(self.target, str) and self.target == "identity":
            return y
        if is_tensor(X) or y.shape[1] > 1:
            self._refuse_target("tensors" if is_tensor(X) else "several targets")
        chosen = self.target if isinstance(self.target, str) else clone(self.target, safe=False)
        self.target_ = choose_target(chosen, X, y[:, 0], spawn(self.random_state, "target"))
        return self.target_.forward(y)

    def _as_fitted(self, y: Any) -> Any:
        """Further targets (n, k) of the process."""
        if self.target_.is_identity:
            return y
        self.target_.check(y)
        return self.target_.forward(y)

    def _in_units(self, y: Floats) -> Floats:
        return self.target_.inverse(y)

    def _target_in_words(self) -> str:
        return "" if self.target_.is_identity else self.target_.in_words()

    # ---- noise -------------------------------------------------------------------------------------------------------

    def _noise_options(self, data: TrainingData) -> tuple[str, str]:
        """Noise and likelihood to choose from."""
        noise = check_option(self, "noise", ("auto", "constant", "local"))
        likelihood = check_option(self, "likelihood", ("auto", "gaussian", "student"))
        if not isinstance(data, InMemory) or data.y.shape[1] > 1:
            for name, value, usual in (("noise", noise, "constant"), ("likelihood", likelihood, "gaussian")):
                if value not in ("auto", usual):
                    raise ValueError(f"{describe(self, name)} must be 'auto' or {usual!r} for {_rows_of(data)}.")
            return "constant", "gaussian"
        if self._knows_noise():
            noise = "constant" if noise == "auto" else noise
            likelihood = "gaussian" if likelihood == "auto" else likelihood
        return noise, likelihood

    def _settle_noise(
        self, data: InMemory, options: tuple[str, str], refit: Refit, clock: Clock, budget: Budget = UNLIMITED
    ) -> None:
        """Set what left-out residuals say of the noise, and the model fitted with it."""
        settled = settle(self._fitted, data, *options, refit, spawn(self.random_state, "noise"), budget)
        if settled.residuals is None:
            return
        clock.lap("noise")
        residuals, model = settled.residuals, settled.model
        z = data.y[settled.rows, 0]
        known = self._known_of_training()
        if isinstance(known, np.ndarray):
            z = z + known[settled.rows, 0]
        stated = residuals.X, z - residuals.values, residuals.variance, residuals.noise
        left = LeftOut(self._in_units(z), model.distribution(*stated).in_units(self.target_))
        report = replace(
            settled.fitted.report,
            seconds=dict(clock.laps),
            noise=model.in_words(),
            target=self._target_in_words(),
            left_out={
                "samples": len(left),
                "rmse": left.rmse,
                "nll": left.nll,
                "crps": left.crps,
                "coverage": left.coverage(),
            },
        )
        self._store(replace(settled.fitted, report=report))
        self.noise_model_, self._stated_noise = model, settled.noise

    def _of_other_rows(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """A model of other rows with the hyperparameters, centres and approximation of this one.

        All else is found from these rows alone: what is taken out of the targets, a mean model, levels of categories,
        coefficients, variances of groups, and the noise.
        """
        other, fitted = copy(self), self._fitted
        rows, targets, weights = other._rows_with_roles(X, y, sample_weight, reset=True)
        other._check_degrees(rows)
        points = other._inner(rows)
        other._box = box_of(points)
        targets, drift = other._without_known(self._as_fitted(targets), weights)
        data = other._data_of(points, targets, weights, drift)

        def again(rows: InMemory) -> FittedLocal:
            if isinstance(rows, Learnt) and rows.weights is not None:  # learnt there is the mean size of the noise
                share = fitted.frame.noise.variance / rows.learned.noise_variance
                rows = replace(rows, weights=rows.weights * share)
            return fitted.of_other_rows(rows)

        other._store(again(data))
        other.noise_model_, other._stated_noise = NoiseModel(), None
        other._settle_noise(data, other._noise_options(data), again, Clock())
        return other

    def _weighted(self, rows: tuple[Any, Any, Any], forget: bool) -> tuple[Any, Any, Any]:
        """Rows to take in, with the weights that noise of local size gives them."""
        X, y, weights = rows
        if self._stated_noise is None:
            return rows
        stated, frame = self._fitted.frame.noise(X, weights), self._fitted.frame
        self._stated_noise = stated if forget else np.concatenate([self._stated_noise, stated])
        if self.noise_model_.field is None or self.noise_model_.of_all:
            return rows
        precisions = 1 / self.noise_model_.variance_factors(frame.points(X))
        return X, y, precisions if weights is None else precisions * weights

    def _field_points(self, X: Any) -> Floats:
        points: Floats = self._fitted.frame.points(self._inner(as_doubles(X)))
        return points

    # ---- drift -------------------------------------------------------------------------------------------------------

    def _with_drift(self, y: Floats) -> Floats:
        """Further targets (n, k) less what is known of their mean, with drift columns, of the rows last checked."""
        if self._points is None:
            return y
        drift, known = self._drift_columns(self._points), self._known_mean(self._points)
        y = y if known is None else y - known
        return y if drift is None else np.column_stack([y, drift])

    def _drift_sums(self) -> Coefficients | None:
        sums = self._fitted.drift
        return sums if sums is not None and sums.size else None

    def _unknown_of_drift(self, X: Floats) -> Floats | None:
        drift, k = self._drift_columns(X), len(self.y_mean_)
        if drift is None or self._drift_sums() is None:
            return None
        unknown: Floats = drift - self._fitted.predict_targets(self._inner(X), False, bool(self.blend))[0][:, k:]
        return unknown

    def _parts_at(self, X: Floats) -> tuple[tuple[Floats, Floats], tuple[Floats, Floats], Floats]:
        mean, variance = self._fitted.predict_targets(self._inner(X), True, bool(self.blend))
        drift, sums, k = self._drift_columns(X), self._drift_sums(), len(self.y_mean_)
        if drift is None or sums is None:
            return (mean, variance), (np.zeros_like(mean), np.zeros(len(X))), variance
        unknown = drift - mean[:, k:]
        process = mean[:, :k] - mean[:, k:] @ sums.mean, variance
        return sums.parts(process, drift, unknown)

    # ---- distributions -----------------------------------------------------------------------------------------------

    def _moments(self, X: Any) -> tuple[Any, Any]:
        drift = self._drift_columns(X)
        mean, variance = self._fitted.predict(self._inner(X), True, bool(self.blend), drift)
        mean = self._shaped(mean, self._known_mean(X, drift))
        return mean, namespace(variance).clip(self._finite(variance), 0.0, None)

    def _distribution(self, X: Floats, mean: Floats, variance: Floats, noise: Floats | None) -> PredictiveDistribution:
        return super()._distribution(X, mean, variance, noise).in_units(self.target_)

    def _draws_in_units(self, X: Floats, values: Floats, means: Floats, rng: np.random.Generator | None) -> Floats:
        factors = self._factors_of_function(X)
        if factors is not None:
            values = means[:, :, None] + factors[:, None, None] * (values - means[:, :, None])
        values += self.y_mean_[:, None]
        if rng is not None:
            noise = np.full(len(X), self.noise_variance_)
            values += self.noise_model_.noise_draws(self._field_points(X), noise, values.shape, rng)
        return self.target_.inverse(values)

    def _means_add_up(self) -> bool:
        return self.target_.is_identity

    def _factors_of_function(self, X: Floats) -> Floats | None:
        """What the function's deviations from its mean are multiplied by at places (m, d); None is 1."""
        if not self.noise_model_.of_all:
            return None
        return np.sqrt(self.noise_model_.function_variance(self._field_points(X), np.ones(len(X))))

    # ---- left out ----------------------------------------------------------------------------------------------------

    def _training_rows(self) -> tuple[Floats, Floats, Floats]:
        fitted = self._fitted
        if not fitted.predictor.keeps_points or fitted.predictor.n_samples == 0:
            raise NoRowsError(NO_ROWS)
        data = fitted.training_set()
        noise = data.noise if self._stated_noise is None else self._stated_noise
        X: Floats = self._outer(fitted.frame.positions(data.X)) if self._points is None else self._points
        y = (data.y[:, :-1] + as_doubles(fitted.frame.offset))[:, : len(self.y_mean_)]
        return X, y + self._known_of_training(), noise

    def _left_out_residuals(self) -> tuple[Floats, Floats]:
        return left_out(self._fitted, self.n_jobs)

    def _without(self, rows: Booleans) -> tuple[Floats, Floats]:
        (X, y, _), fitted = self._training_rows(), self._fitted
        drift, X = self._drift_columns(X), self._inner(X)
        known = np.broadcast_to(self._known_of_training(), y.shape)
        y = y - known
        if drift is not None:
            y = np.column_stack([y, drift])
        noise, variance = fitted.training_set().noise, fitted.frame.noise.variance
        others = fitted.updated(X[~rows], y[~rows], variance / noise[~rows] if variance else None, True)
        columns = None if drift is None else drift[rows]
        mean, latent = replace(others, y_mean=fitted.y_mean).predict(X[rows], True, bool(self.blend), columns)
        return mean + self.y_mean_ + known[rows], latent


def _rows_of(data: TrainingData) -> str:
    return "several targets" if isinstance(data, InMemory) else "rows of a source, or tensors"
