"""What the regressors say in probabilities: intervals, quantiles, distributions, and left-out predictions."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.cluster import MiniBatchKMeans
from sklearn.utils.validation import check_is_fitted

from ..common.arrays import Array, as_doubles, is_tensor, like, side_by_side
from ..common.distribution import DistributionsOfTargets, PredictiveDistribution, check_level, check_quantiles
from ..common.left_out import LeftOut
from ..common.types import Booleans, Floats
from ..common.validation import check_random_state, is_whole
from ..hyperparameters.noise import NoiseModel
from ..streaming.inputs import as_source
from ..streaming.output import points_of
from .by_target import by_target

NO_ROWS = "The model keeps no training rows, which left-out predictions need: fit it to arrays, all at once."


class NoRowsError(ValueError, AttributeError):
    """Left-out predictions are asked of a model without training rows: it has no attribute `loo_`."""


class Probabilistic:
    """Predictive distributions of a regressor, for observations or for the function without noise.

    A subclass gives `_training_rows()`, `_left_out_residuals()` and `_without(rows)`, and `_field_points(X)` where it
    learns a `noise_model_` of its own.
    """

    noise_model_: NoiseModel = NoiseModel()
    noise_variance_: float
    y_mean_: Any
    _single_target: bool
    _left_out: LeftOut | None

    def predict_distribution(self, X: Any, *, include_noise: bool = True) -> PredictiveDistribution:
        """The predictive distribution at each place, with `cdf`, `ppf`, `logpdf`, `crps`, `sample` and `interval`.

        Parameters
        ----------
        X : array of shape (m, n_features), Dask array or data frame, or Source
        include_noise : bool, default=True
            Of an observation; otherwise of the function without noise, which is always normal.

        Returns
        -------
        distribution : PredictiveDistribution
            In NumPy arrays, also for tensors; of all rows of a source, in their order.
        """
        self._fitted_on_tensors(X)  # type: ignore[attr-defined]
        source = as_source(X, None, None)
        if source is None:
            return self._distribution_at(self._validate_test(X), bool(include_noise))  # type: ignore[attr-defined]
        return PredictiveDistribution.joined(
            [self._distribution_at(points, bool(include_noise)) for points in points_of(self, source)]
        )

    def predict_interval(self, X: Any, level: float = 0.95, *, include_noise: bool = True) -> tuple[Any, Any]:
        """Lower and upper bounds of central intervals.

        Parameters
        ----------
        X : array of shape (m, n_features)
        level : float, default=0.95
            Probability of the interval.
        include_noise : bool, default=True
            Of an observation; otherwise of the function without noise.

        Returns
        -------
        lower, upper : arrays of shape (m,) or (m, n_targets)
        """
        check_level(level)
        lower, upper = self.predict_distribution(X, include_noise=include_noise).interval(level)
        return _as_given(lower, X), _as_given(upper, X)

    def predict_quantiles(self, X: Any, q: ArrayLike, *, include_noise: bool = True) -> Any:
        """Quantiles.

        Parameters
        ----------
        X : array of shape (m, n_features)
        q : float or array of shape (n_quantiles,)
            Probabilities between 0 and 1.
        include_noise : bool, default=True
            Of an observation; otherwise of the function without noise.

        Returns
        -------
        quantiles : array of shape (m,) or (m, n_targets), and one more axis of length n_quantiles for a list of them
        """
        check_quantiles(q)
        return _as_given(self.predict_distribution(X, include_noise=include_noise).ppf(q), X)

    def predict_above(self, X: Any, threshold: ArrayLike, *, include_noise: bool = True) -> Any:
        """Probability that an observation exceeds a threshold.

        Parameters
        ----------
        X : array of shape (m, n_features)
        threshold : float, or array of the shape of the answer
        include_noise : bool, default=True
            Of an observation; otherwise of the function without noise.

        Returns
        -------
        probability : array of shape (m,) or (m, n_targets)
        """
        return _as_given(self.predict_distribution(X, include_noise=include_noise).above(threshold), X)

    def predict_noise(self, X: Any) -> Any:
        """Variance of the noise of an observation of weight 1 at each place, shape (m,).

        Of shape (m, n_targets) where targets have variances of their own.
        """
        self._fitted_on_tensors(X)  # type: ignore[attr-defined]
        source = as_source(X, None, None)
        if source is not None:
            return np.concatenate([self._noise_at(points) for points in points_of(self, source)])
        return _as_given(self._noise_at(self._validate_test(X)), X)  # type: ignore[attr-defined]

    # ---- left out ------------------------------------------------------------------------------------------------

    @property
    @by_target(LeftOut.of_targets)
    def loo_(self) -> LeftOut:
        """Predictions of each training sample without it, in closed form: mean, std, residuals and scores.

        Hyperparameters, the mean of the targets and, of local models, cells and neighbourhoods stay as they are; each
        sample is predicted by the one cell it is in. Samples of weight 0 are not among them. Computed when first asked
        for. One sample left out among dense neighbours flatters a model: see `cross_validate`.
        """
        check_is_fitted(self, "kernel_")
        known = self.__dict__.get("_left_out")
        if known is None:
            (X, y, noise), (residuals, variance) = self._training_rows(), self._left_out_residuals()
            known = self._left_out = self._scored(X, y, y - residuals, variance, noise)
        return known

    @by_target(LeftOut.of_targets)
    def cross_validate(self, blocks: Any = 10, *, random_state: Any = 0) -> LeftOut:
        """Predictions of training samples left out block by block, at fixed hyperparameters and mean of the targets.

        Parameters
        ----------
        blocks : int or array of shape (n_samples,), default=10
            Label of each sample's block; or a number of regions, found by clustering. All samples of a block are
            left out together.
        random_state : int, RandomState or None, default=0
            For the clustering.

        Returns
        -------
        left_out : LeftOut
            In the order of the training samples; those of weight 0 are not among them.
        """
        self._need_arrays("cross_validate")  # type: ignore[attr-defined]
        X, y, noise = self._training_rows()
        labels = _labels(self._regions(X), blocks, random_state)
        mean, variance = np.empty_like(y), np.empty(len(y))
        for label in np.unique(labels):
            self._require_told(X[labels != label], str(label))  # type: ignore[attr-defined]
            mean[labels == label], variance[labels == label] = self._without(labels == label)
        return self._scored(X, y, mean, variance, noise)

    def _training_rows(self) -> tuple[Floats, Floats, Floats]:
        """Points (n, d), targets (n, k) and noise variances (n,); refuses where the model does not keep them."""
        raise NotImplementedError

    def _regions(self, X: Floats) -> Floats:
        """What regions are found by: coordinates (n, c) of training rows."""
        raise NotImplementedError

    def _left_out_residuals(self) -> tuple[Floats, Floats]:
        """Residuals (n, k) of the training rows, each left out, and variances (n,) of the function there."""
        raise NotImplementedError

    def _without(self, rows: Booleans) -> tuple[Floats, Floats]:
        """Means (m, k) and variances (m,) of the function at some training rows (n,), by a model of all others."""
        raise NotImplementedError

    def _scored(self, X: Floats, y: Floats, mean: Floats, variance: Floats, noise: Floats) -> LeftOut:
        """Predictions (n, k) with variances of the function (n,) and the noise (n,), beside the targets (n, k)."""
        if self._single_target:
            y, mean = y[:, 0], mean[:, 0]
        return LeftOut(self._in_units(y), self._distribution(X, mean, variance, noise))

    def _in_units(self, y: Floats) -> Floats:
        """Targets as they were given to `fit`."""
        return y

    # ---- distributions -------------------------------------------------------------------------------------------

    @by_target(DistributionsOfTargets.of)
    def _distribution_at(self, X: Array, include_noise: bool) -> PredictiveDistribution:
        """Distributions at checked points (m, d)."""
        return self._distribution_of(X, self._moments(X), include_noise)

    def _distribution_of(self, X: Array, moments: tuple[Array, Array], include_noise: bool) -> PredictiveDistribution:
        """The same from what `_moments` gives there."""
        mean, variance = moments
        noise = np.full(len(X), self.noise_variance_) if include_noise else None
        return self._distribution(as_doubles(X), as_doubles(mean), as_doubles(variance), noise)

    def _moments(self, X: Array) -> tuple[Array, Array]:
        """Means (m,) or (m, k) and variances of the function (m,), as the model states them, at points (m, d)."""
        mean, std = self._predict_points(X, True, False)  # type: ignore[attr-defined]
        return mean, std**2 if std.ndim == 1 else std[:, 0] ** 2

    def _share_left(self, X: Array) -> Floats:
        """Standard deviation over that of the prior at checked points (m, d): 1 where the data say nothing."""
        prior: float = self.kernel_.variance  # type: ignore[attr-defined]
        return np.sqrt(as_doubles(self._moments(X)[1]) / prior)

    @by_target(side_by_side)
    def _noise_at(self, X: Array) -> Floats:
        """Noise variance (m,) at checked points (m, d)."""
        return self.noise_model_.noise_variance(self._field_points(X), np.full(len(X), self.noise_variance_))

    def _field_points(self, X: Array) -> Floats:
        """Checked points (m, d) in the units of the field of the noise."""
        return as_doubles(X)

    def _distribution(self, X: Floats, mean: Floats, variance: Floats, noise: Floats | None) -> PredictiveDistribution:
        """Distributions at points (m, d), from means (m,) or (m, k) and variances (m,) of function and any noise."""
        return self.noise_model_.distribution(self._field_points(X), mean, variance, noise)


def _as_given(values: Floats, X: Any) -> Any:
    """The same as a tensor, where `X` is one."""
    return like(values, X) if is_tensor(X) else values


def _labels(X: Floats, blocks: Any, random_state: Any) -> Any:
    """Label (n,) of each point (n, d)."""
    if not is_whole(blocks, 2):
        labels = np.asarray(blocks)
        if labels.shape != (len(X),) or len(np.unique(labels)) < 2:
            raise ValueError(
                "The 'blocks' argument must be an integer of at least 2, or at least two labels, one for each of the "
                f"{len(X)} samples that the model was fitted to."
            )
        return labels
    if blocks > len(X):
        raise ValueError(f"The 'blocks' argument must be at most the number of samples, {len(X)}. Got {blocks}.")
    spread = X.std(axis=0)
    places = X / np.where(spread > 0, spread, 1.0)
    return MiniBatchKMeans(int(blocks), random_state=check_random_state(random_state), n_init=3).fit_predict(places)
