"""What the exact process, and that of one feature map, learn of their noise when they are asked to.

The function stays what it is: only the noise has a local size, and tails. It goes back into the fit as weights.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np

from ..common.arrays import as_doubles, side_by_side
from ..common.left_out import LeftOut
from ..common.types import Floats, Integers
from ..common.validation import check_option, describe, spawn
from ..hyperparameters.noise import NoiseModel, Residuals, log_likelihood
from ..local.noise import settled_state
from .base import JointGPRegressor
from .by_target import by_target


class LearntJointNoise(JointGPRegressor):
    """A joint regressor with `noise` among its parameters.

    A subclass gives `_with_weights(weights, noise_variance)`.
    """

    noise: str
    likelihood: str
    _stated_noise: Floats | None = None  # noise variances of the samples, where the fit took others
    _is_weighted: bool = False  # whether noise of local size went back into the fit

    def _with_weights(self, weights: Floats, noise_variance: float | None) -> Self:
        """A copy fitted to the training rows with other weights (n,), its kernel and this noise; None learns both."""
        raise NotImplementedError

    def _noise_options(self) -> tuple[str, str]:
        """Noise and likelihood to choose from, as they are given."""
        noise = check_option(self, "noise", ("auto", "constant", "local"))
        return noise, check_option(self, "likelihood", ("auto", "gaussian", "student"))

    def _settle_noise(self, refused: str = "") -> None:
        """Set what left-out residuals say of the noise, fitted with it; for `refused` data, if any, it is plain."""
        noise, likelihood = self._noise_options()
        self.noise_model_, self._stated_noise, self._is_weighted = NoiseModel(), None, False
        if len(self.y_mean_) > 1:
            refused = "several targets"
        if refused:
            if noise == "local" or likelihood == "student":
                name = "noise" if noise == "local" else "likelihood"
                raise ValueError(f"{describe(self, name)} must be left as it is for {refused}.")
            return
        if self._knows_noise():
            noise = "constant" if noise == "auto" else noise
            likelihood = "gaussian" if likelihood == "auto" else likelihood
        if noise == "constant" and likelihood == "gaussian":
            return
        start = _JointState.of(self)
        state, model, residuals, _ = settled_state(start, noise, likelihood, spawn(self.random_state, "noise"), False)
        if residuals is not None:
            self.__dict__.update(state.model.__dict__)
            self.noise_model_, self._stated_noise = model, state.changed_noise()
            self._is_weighted = bool(np.any(state.factors != 1))

    def _at_noise(self, noise_variance: float) -> None:
        """Set the noise variance, and keep all other hyperparameters."""
        self.noise_variance_ = noise_variance
        self.learned_ = replace(self.learned_, noise_variance=noise_variance)

    def _field_points(self, X: Any) -> Floats:
        points: Floats = self._inner(as_doubles(X)) / self._field_unit()
        return points

    def _field_unit(self) -> Floats:
        """In which fields of the noise measure: the length scale of each column or of all, where the kernel has any."""
        unit: Floats = np.exp(np.mean(np.log(self.kernel_.length_scales), axis=0))
        return np.where(np.isfinite(unit), unit, 1.0)

    @by_target(side_by_side)
    def _predict_points(self, X: Any, return_std: bool, include_noise: bool) -> Any:
        if return_std and include_noise and not self.noise_model_.is_plain:
            observed = self._distribution_at(X, True)
            return observed.mean, observed.std
        return super()._predict_points(X, return_std, include_noise)

    def _scored(self, X: Floats, y: Floats, mean: Floats, variance: Floats, noise: Floats) -> LeftOut:
        return super()._scored(X, y, mean, variance, noise if self._stated_noise is None else self._stated_noise)

    def _draws_in_units(self, X: Floats, values: Floats, means: Floats, rng: np.random.Generator | None) -> Floats:
        values = super()._draws_in_units(X, values, means, None)
        if rng is None:
            return values
        noise = np.full(len(X), self.noise_variance_)
        return values + self.noise_model_.noise_draws(self._field_points(X), noise, values.shape, rng)


@dataclass(frozen=True, eq=False)
class _JointState:
    """A fitted regressor whose noise is to be settled; see `nearfield.local.noise.State`.

    `weights` (n,) are those given to the fit, and `factors` (n,) those of noise of local size, or 1.
    """

    model: LearntJointNoise
    weights: Floats
    outliers: Floats
    factors: Floats

    @classmethod
    def of(cls, model: LearntJointNoise) -> _JointState:
        """A model with noise of one size."""
        noise = model._training_rows()[2]
        ones = np.ones(len(noise))
        return cls(model, model.noise_variance_ / noise if model.noise_variance_ else ones, ones, ones)

    @cached_property
    def points(self) -> Floats:
        """See `State`."""
        return self.model._field_points(self.model._training_rows()[0])

    @property
    def variances(self) -> tuple[float, float]:
        """See `State`."""
        return self.model.kernel_.variance, self.model.noise_variance_

    def stated_noise(self) -> Floats:
        """Noise variances (n,) of observations."""
        return self.model.noise_variance_ / self.weights

    def changed_noise(self) -> Floats | None:
        """The same where the fit took others."""
        return None if np.all(self.outliers == 1) and np.all(self.factors == 1) else self.stated_noise()

    @cached_property
    def _left_out(self) -> tuple[Floats, Floats]:
        return self.model._left_out_residuals()

    cost_of_residual = cost_of_refit = 1.0  # all follow from one factorisation, and time has no limit here

    def residuals(self, rows: Integers) -> Residuals:
        """See `State`."""
        values, variance = self._left_out
        return Residuals(self.points[rows], values[rows, 0], variance[rows], self.stated_noise()[rows])

    def without(self, outliers: Floats) -> _JointState:
        """See `State`."""
        model = self.model._with_weights(self.weights * outliers / self.factors, None)
        return _JointState(model, self.weights, outliers, self.factors)

    def with_factors(self, factors: Floats) -> _JointState:
        """See `State`."""
        mean = float(np.mean(factors))
        return self._fitted(self.model.noise_variance_ * mean, factors / mean)

    def gain_of_factors(self, factors: Floats, model: NoiseModel, rows: Integers) -> float:
        """See `State`."""
        again = self._fitted(self.model.noise_variance_, factors)
        return log_likelihood(model, again.residuals(rows)) - log_likelihood(model, self.residuals(rows))

    def _fitted(self, noise_variance: float, factors: Floats) -> _JointState:
        model = self.model._with_weights(self.weights * self.outliers / factors, noise_variance)
        return _JointState(model, self.weights, self.outliers, factors)
