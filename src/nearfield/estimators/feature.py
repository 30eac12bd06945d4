"""Gaussian-process regression with one global feature map."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from .. import _memory, statistics
from .._validation import check_option
from ..features.gradients import length_scale_gradients
from ..kernels import Kernel
from ..likelihood import feature_log_likelihood
from ..posterior import FeaturePosterior
from ..statistics import Statistics
from ._base import GPRegressor

Floats = NDArray[Any]


class FeatureGPRegressor(GPRegressor):
    """Gaussian-process regression in the space of `D` features (Eq. 2): O(n D^2) time, O(D^2) memory.

    Parameters
    ----------
    feature_map : transformer
        `FourierFeatures`, `TaylorFeatures`, `MaclaurinFeatures`, or any other scikit-learn transformer. Maps with
        parameters `length_scale` and `variance` get those of the model; others are taken as they are, times a
        learnt variance.
    length_scale, signal_variance, noise_variance : float, array or None, default=None
        Hyperparameters; None learns them. See `ExactGPRegressor`.
    ard : bool, default=False
        Learn one length scale per column.
    n_scales : int, default=1
        Number of Gaussians summed in the kernel; each has a map of its own, side by side.
    likelihood : {"kernel", "features"}, default="kernel"
        Learn by the likelihood of the Gaussian kernel that the features stand for, exact or composite, or by that of
        the features themselves (`TaylorFeatures`, and `FourierFeatures` that are not structured).
    n_restarts, time_budget, n_jobs, random_state, progress
        See `ExactGPRegressor`. The map has a random state of its own.

    Attributes
    ----------
    length_scale_, signal_variance_, noise_variance_ : float or ndarray
    feature_map_ : transformer, or list of them with several scales
    statistics_ : Statistics
        Sums over the data seen so far.
    kernel_, learned_, y_mean_, n_features_in_, feature_names_in_
        See `ExactGPRegressor`.
    """

    def __init__(
        self,
        feature_map: Any,
        *,
        length_scale: Any = None,
        signal_variance: Any = None,
        noise_variance: float | None = None,
        ard: bool = False,
        n_scales: int = 1,
        likelihood: str = "kernel",
        n_restarts: int = 2,
        time_budget: float = 60.0,
        n_jobs: int | None = None,
        random_state: Any = None,
        progress: Any = None,
    ) -> None:
        self.feature_map = feature_map
        self.length_scale = length_scale
        self.signal_variance = signal_variance
        self.noise_variance = noise_variance
        self.ard = ard
        self.n_scales = n_scales
        self.likelihood = likelihood
        self.n_restarts = n_restarts
        self.time_budget = time_budget
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.progress = progress

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Learn the hyperparameters that are not given and condition on the data.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
        y : array of shape (n_samples,) or (n_samples, n_targets)
        sample_weight : array of shape (n_samples,) or None, default=None
            Precisions: the noise variance of sample i is `noise_variance / sample_weight[i]`.

        Returns
        -------
        self
        """
        X, y, weights = self._validate_training(X, y, sample_weight)
        centered = y - self._weighted_mean(y, weights)
        check_option(self, "likelihood", ("kernel", "features"))
        if _has_scales(self.feature_map):
            self._learn(X, centered, weights)
            self._fit_maps(X)
            if self.likelihood == "features":
                self._refine(X, centered, weights)
        else:
            self._fit_foreign_map(X, centered, weights)
        self._condition(self._sums(X, y, weights))
        return self

    def partial_fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Take in more data at the fitted hyperparameters and map: exactly what `fit` on all of it at once would give.

        The first call is `fit`. Parameters and answer are those of `fit`.
        """
        if not hasattr(self, "statistics_"):
            return self.fit(X, y, sample_weight)
        X, y, weights = self._validate_training(X, y, sample_weight, reset=False)
        if y.shape[1] != len(self.y_mean_):
            raise ValueError(f"The 'y' argument must have {len(self.y_mean_)} targets as in fit. Got {y.shape[1]}.")
        self._condition(self.statistics_ + self._sums(X, y, weights))
        return self

    def predict(
        self, X: ArrayLike, return_std: bool = False, return_cov: bool = False, include_noise: bool = False
    ) -> Any:
        """Posterior mean, and standard deviation or covariance on request; see `ExactGPRegressor.predict`."""
        if return_std and return_cov:
            raise ValueError("At most one of 'return_std' and 'return_cov' can be asked for.")
        X = self._validate_test(X)
        if return_cov:
            rows = self._rows(X)
            covariance = self._posterior.covariance(rows)
            return self._shaped(self._posterior.mean(rows)), self._covariance(covariance, include_noise)
        mean, variance = np.empty((len(X), len(self.y_mean_))), np.empty(len(X))
        for chunk in self._chunks(len(X)):
            rows = self._rows(X[chunk])
            mean[chunk] = self._posterior.mean(rows)
            if return_std:
                variance[chunk] = self._posterior.variance(rows)
        if return_std:
            return self._shaped(mean), self._std(variance, include_noise)
        return self._shaped(mean)

    def log_marginal_likelihood(self) -> float:
        """Log marginal likelihood, under the features' kernel, of the data seen so far (summed over targets)."""
        check_is_fitted(self, "kernel_")
        return self._posterior.log_likelihood

    # ---- maps ----------------------------------------------------------------------------------------------------

    def _fit_maps(self, X: Floats) -> None:
        maps = []
        for scales, variance in self.kernel_.components():
            length_scale = float(scales[0]) if len(scales) == 1 else scales
            maps.append(clone(self.feature_map).set_params(length_scale=length_scale, variance=variance).fit(X))
        self.feature_map_ = maps[0] if len(maps) == 1 else maps

    def _fit_foreign_map(self, X: Floats, y: Floats, weights: Floats | None) -> None:
        """A map with no length scale of ours: only its variance and the noise are learnt."""
        if self.length_scale is not None:
            raise ValueError(
                f"The 'length_scale' parameter of FeatureGPRegressor has no meaning for {type(self.feature_map).__name__}: "
                "set the map's own parameters instead."
            )
        fixed, _ = self._check_hyperparameters(X.shape[1])
        self.feature_map_ = clone(self.feature_map).fit(X)
        self._amplitude = 1.0
        rows = self._rows(X)
        spread = float(np.mean(np.var(y, axis=0))) or 1.0
        power = float(np.mean(np.sum(rows * rows, axis=0))) or 1.0
        variance = fixed.variances[0] if fixed.variances is not None else None
        theta = _maximise_two(rows, y, weights, variance, fixed.noise_variance, spread / power, spread)
        self._amplitude = float(np.exp(0.5 * theta[0]))
        self._set_hyperparameters(Kernel.gaussian(np.nan, float(np.exp(theta[0]))), float(np.exp(theta[1])))
        self.length_scale_ = None

    def _refine(self, X: Floats, y: Floats, weights: Floats | None) -> None:
        """Move the hyperparameters learnt for the kernel to the maximum of the features' own likelihood."""
        if self.kernel_.n_scales > 1:
            raise ValueError("likelihood='features' takes one scale only: set n_scales=1.")
        fixed, _ = self._check_hyperparameters(X.shape[1])
        q = self.kernel_.length_scales.shape[1]
        start = np.log([*self.kernel_.length_scales[0], *self.kernel_.variances, self.noise_variance_])
        given = (fixed.length_scales, fixed.variances, fixed.noise_variance)
        free = np.concatenate([np.full(width, value is None) for width, value in zip((q, 1, 1), given, strict=True)])
        if not free.any():
            return
        factors = None if weights is None else 1 / weights

        def objective(values: Floats) -> tuple[float, Floats]:
            theta = start.copy()
            theta[free] = values
            scaled = self.feature_map_._scaled(X) * np.exp(start[:q] - theta[:q])
            gradients = length_scale_gradients(self.feature_map_.map_, scaled)
            amplitude = np.exp(0.5 * theta[q])
            rows = self.feature_map_._apply(scaled).T * amplitude
            directions = gradients if q > 1 else gradients.sum(axis=0)[None]
            value, gradient = feature_log_likelihood(rows, directions * amplitude, np.exp(theta[-1]), y, factors)
            return -value / y.size, -gradient[free] / y.size

        # Within a factor of e^4 of the kernel's optimum, which is the better guide where the features say little.
        bounds = [(t - 4, t + 4) for t in start[free]]
        theta = start.copy()
        theta[free] = minimize(objective, start[free], jac=True, method="L-BFGS-B", bounds=bounds).x
        scales, variance, noise = np.exp(theta[:q]), float(np.exp(theta[q])), float(np.exp(theta[-1]))
        length_scale = float(scales[0]) if q == 1 else scales
        self._set_hyperparameters(Kernel.gaussian(scales, variance), noise)
        # The map drawn stays, and only its scale changes.
        self.feature_map_.set_params(length_scale=length_scale, variance=variance)._rescale(X.shape[1])

    # ---- sums ----------------------------------------------------------------------------------------------------

    def _rows(self, X: Floats) -> Floats:
        """Features of `X`, one a row: shape (D, m)."""
        if isinstance(self.feature_map_, list):
            return np.concatenate([m.transform(X).T for m in self.feature_map_])
        features = np.asarray(self.feature_map_.transform(X), dtype=np.float64).T
        if not _has_scales(self.feature_map):
            features = features * self._amplitude
        return features

    def _chunks(self, n: int) -> list[slice]:
        maps = self.feature_map_ if isinstance(self.feature_map_, list) else [self.feature_map_]
        D = sum(len(m.get_feature_names_out()) for m in maps)
        step = _memory.rows_per_chunk(4 * 8 * D)
        return [slice(start, start + step) for start in range(0, n, step)]

    def _sums(self, X: Floats, y: Floats, weights: Floats | None) -> Statistics:
        if self.noise_variance_ == 0:
            raise ValueError("noise_variance=0 needs ExactGPRegressor: features alone cannot pass through every point.")
        precision = 1 / self._noise_of(len(X), weights)
        parts = [statistics.accumulate(self._rows(X[c]), y[c], precision[c]) for c in self._chunks(len(X))]
        return statistics.total(parts)

    def _condition(self, sums: Statistics) -> None:
        mean = sums.targets[-1, :-1] / sums.targets[-1, -1]
        posterior = FeaturePosterior.from_statistics(sums, mean)
        self.statistics_, self.y_mean_, self._posterior = sums, mean, posterior


def _has_scales(feature_map: Any) -> bool:
    parameters = feature_map.get_params()
    return "length_scale" in parameters and "variance" in parameters


def _maximise_two(
    rows: Floats,
    y: Floats,
    weights: Floats | None,
    variance: float | None,
    noise: float | None,
    variance_start: float,
    noise_start: float,
) -> Floats:
    """Logarithms of the variance and the noise that maximise the likelihood of features `rows` (D, n)."""
    factors = None if weights is None else 1 / weights
    start = np.log([variance or 0.9 * variance_start, noise or 0.1 * noise_start])
    free = np.array([variance is None, noise is None])
    if not free.any():
        return start

    def objective(values: Floats) -> tuple[float, Floats]:
        theta = start.copy()
        theta[free] = values
        value, gradient = feature_log_likelihood(rows * np.exp(0.5 * theta[0]), (), np.exp(theta[1]), y, factors)
        return -value / y.size, -gradient[free] / y.size

    bounds = np.log([[1e-8 * variance_start, 1e6 * variance_start], [1e-8 * noise_start, 10 * noise_start]])[free]
    theta = start.copy()
    theta[free] = minimize(objective, start[free], jac=True, method="L-BFGS-B", bounds=bounds).x
    return theta
