"""Gaussian-process regression with one global feature map."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from ..common import memory
from ..common.arrays import Array, as_doubles, is_tensor, like, namespace
from ..common.fitting import all_or_nothing
from ..common.types import Booleans, Floats
from ..common.validation import check_option, check_time_budget, describe, spawn
from ..common.warnings import warn
from ..features import FourierFeatures
from ..features.gradients import is_differentiable, length_scale_gradients
from ..hyperparameters.blocks import Block
from ..hyperparameters.learned import Learned
from ..hyperparameters.learning import maximise_feature_likelihood
from ..hyperparameters.noise import NoiseModel
from ..hyperparameters.optimiser import Optimum
from ..hyperparameters.space import CONSTANT_SPREAD
from ..kernels import Kernel
from ..local.feature_distance import measure
from ..reporting.numbers import counted
from ..reporting.report import Report
from ..reporting.summary import FEATURES, HYPERPARAMETERS
from ..solvers import statistics
from ..solvers.drift import UNTOLD, Coefficients, told_beyond_features
from ..solvers.feature_space import FeatureSpace
from ..solvers.left_out import of_feature_space
from ..solvers.statistics import Statistics
from ..streaming.inputs import as_source
from ..streaming.neighbours import make_blocks
from ..streaming.output import check_fitted_on, predict_source
from ..streaming.passes import Passes
from ..streaming.source import Source
from .by_target import by_target, own_regressors
from .columns import has_roles
from .feature_functions import FeatureFunctions, has_scales
from .learnt import summed
from .probabilities import NO_ROWS, NoRowsError
from .rotated import is_rotated, refuse_rows_of_rotated, rotated
from .sampling import FeatureSums, rows_seen_by, take_sample
from .twins import as_given

FAR = 0.1  # nats per point from the exact process, that are worth a warning


class FeatureGPRegressor(FeatureFunctions):
    """Gaussian-process regression in the space of `D` features (Eq. 2): O(n D^2) time, O(D^2) memory.

    Parameters
    ----------
    feature_map : transformer
        `FourierFeatures`, `TaylorFeatures`, `MaclaurinFeatures`, or any other scikit-learn transformer. Maps with
        parameters `length_scale` and `variance` get those of the model; others are taken as they are, times a
        learnt variance.
    length_scale : float, array or None, default=None
        How far a value reaches; None learns it. One number, one per column, or one (or one row) per Gaussian: see
        `ExactGPRegressor`.
    signal_variance : float, array or None, default=None
        Prior variance of the latent function; None learns it. Several are those of as many Gaussians.
    noise_variance : float or None, default=None
        Variance of the observation noise; None learns it.
    ard : {"auto"} or bool, default="auto"
        Learn one length scale per column, or one for all. "auto": one per column beyond three columns; in two or three,
        the exact likelihood of up to 1000 rows decides. See `ExactGPRegressor`.
    n_scales : int or "auto", default=1
        Number of Gaussians summed in the kernel; each has a map of its own, side by side. "auto" learns it. See
        `ExactGPRegressor` where hyperparameters are given.
    kernel : {"gaussian", "matern12", "matern32", "matern52", "rational_quadratic", "auto"}, default="gaussian"
        Family of the kernel; `n_scales` sums several. "auto" compares Matern kernels with Gaussians by likelihood.
    metric : {"auto", "euclidean", "sphere"}, default="auto"
        "sphere" for longitude and latitude in degrees; see `ExactGPRegressor`.
    anisotropy : {"axes", "rotated"}, default="axes"
        "rotated" learns directions, in two or three coordinates, that length scales belong to; see `ExactGPRegressor`.
    coordinates : names, numbers, callable or None, default=None
        Columns of X that the process lives in; None is all of them. See `ExactGPRegressor`.
    drift : None, "constant", "linear", "quadratic", names or numbers of columns, or transformer, default="constant"
        Mean of the process; see `ExactGPRegressor`. Its columns are further features, whose coefficients have a prior
        that says nothing. Of arrays and data frames.
    mean : regressor, "boosting" or None, default=None
        Any regressor of scikit-learn, or gradient boosting, as the mean of the process, cross-fitted; see
        `ExactGPRegressor`.
    mean_rounds : int, default=1
        How often the mean model is fitted, from the second time on to targets less the process; see `ExactGPRegressor`.
    groups : names or numbers of columns, or None, default=None
        Columns of categories whose levels have independent normal effects with a learnt variance; see
        `ExactGPRegressor`.
    likelihood : {"kernel", "features"}, default="kernel"
        Learn by the likelihood of the Gaussian kernel that the features stand for, exact or composite, or by that of
        the features themselves (`TaylorFeatures`, and `FourierFeatures` that are not structured). Maps without
        parameters `length_scale` and `variance` always learn by their own.
    noise : {"constant", "local", "auto"}, default="constant"
        Of one size; of a size that varies from place to place, as left-out residuals tell, and goes back into the fit
        as weights; or as left-out residuals call for. See `LocalGPRegressor`, whose default is "auto". Unless it is
        "constant", the noise may have the tails of Student's t, too, and gross outliers lose their weight. Of arrays
        with one target.
    n_restarts : int, default=2
        Random starts of the learning, besides the systematic ones.
    time_budget : float, default=60.0
        Seconds that learning may take.
    n_jobs : int or None, default=None
        Threads; None uses every core, and in a worker of joblib what that leaves to it: one.
    random_state : int, RandomState instance or None, default=None
        For the random starts and the blocks of points; the map has a random state of its own. None is new random
        numbers every time, and never NumPy's global ones.
    progress : callable, bool or None, default=None
        Called as `progress(stage, done, value)` in the course of a fit, with `done` from 0 to 1. True shows the stage
        and the time left on standard error, and a bar in notebooks where tqdm is installed.

    Attributes
    ----------
    length_scale_ : float or ndarray
        Learnt or given; one number, one per column, or one (or one row) per Gaussian. In km on the sphere.
    signal_variance_ : float or ndarray
        Prior variance of the function; one per Gaussian where there are several.
    noise_variance_ : float
        Variance of the observation noise.
    feature_map_ : transformer, or list of them with several scales
        The map, fitted.
    statistics_ : Statistics
        Sums over the data seen so far.
    report_ : Report
        The measured distance from the exact Gaussian process; not for sources. Print it.
    noise_model_ : NoiseModel
        What left-out residuals say of size and tails of the noise; print `noise_model_.in_words()`.
    kernel_ : Kernel
        The same as a value that can be called; `kernel_.parameters()` are parameters of another regressor.
    learned_ : Learned
        How the hyperparameters were found: likelihood, blocks, evaluations, seconds, and what sits on a bound.
    y_mean_ : ndarray of shape (n_targets,)
        Taken out of the targets before and put back after; 0 where `drift` is not "constant".
    drift_coef_ : DriftCoefficients
        Coefficients of the drift with names and standard errors, in the units of the data, where it has columns. Print
        it.
    coordinates_ : ndarray of int
        Numbers of the columns that the process lives in.
    rotation_ : ndarray of shape (d, d)
        With `anisotropy="rotated"`, directions of the axes that length scales belong to, one per row.
    ard_ : bool
        Whether each column has a length scale of its own; `learned_.ard_reason` says why where `ard` is "auto".
    metric_ : str
        "euclidean" or "sphere".
    n_features_in_ : int
        Number of columns of X.
    feature_names_in_ : ndarray of str
        Names of the columns, where X has them.
    """

    _rows_kept: tuple[Array, Array, Array | None] | None  # points, targets and weights, for left-out predictions
    _drift_prior: Floats | None = None  # precisions (p,) of the coefficients of drift and groups, where there are any
    report_: Report

    def __init__(
        self,
        feature_map: Any,
        *,
        length_scale: Any = None,
        signal_variance: Any = None,
        noise_variance: float | None = None,
        ard: bool | str = "auto",
        n_scales: Any = 1,
        kernel: str = "gaussian",
        metric: str = "auto",
        anisotropy: str = "axes",
        coordinates: Any = None,
        drift: Any = "constant",
        mean: Any = None,
        mean_rounds: int = 1,
        groups: Any = None,
        likelihood: str = "kernel",
        noise: str = "constant",
        n_restarts: int = 2,
        time_budget: float = 60.0,
        n_jobs: int | None = None,
        random_state: Any = None,
        progress: Any = None,
    ) -> None:
        self.feature_map = feature_map
        super().__init__(
            length_scale=length_scale,
            signal_variance=signal_variance,
            noise_variance=noise_variance,
            ard=ard,
            n_scales=n_scales,
            kernel=kernel,
            metric=metric,
            anisotropy=anisotropy,
            coordinates=coordinates,
            drift=drift,
            mean=mean,
            mean_rounds=mean_rounds,
            groups=groups,
            noise=noise,
            likelihood=likelihood,
            n_restarts=n_restarts,
            time_budget=time_budget,
            n_jobs=n_jobs,
            random_state=random_state,
            progress=progress,
        )

    @all_or_nothing
    def fit(self, X: Any, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None) -> Self:
        """Learn the hyperparameters that are not given and condition on the data.

        Parameters
        ----------
        X : array of shape (n_samples, n_features), Dask array or data frame, or Source
            A source (see `nearfield.sources`) holds the targets and weights as well, and is never in memory as a whole.
        y : array of shape (n_samples,) or (n_samples, n_targets), or None with a source
        sample_weight : array of shape (n_samples,) or None, default=None
            Precisions: the noise variance of sample i is `noise_variance / sample_weight[i]`.

        Returns
        -------
        self
        """
        source = as_source(X, y, sample_weight)
        if source is not None:
            return self._fit_source(source)
        points, targets, weights = self._validate_training(X, y, sample_weight)
        targets, drift = self._without_known(targets, weights)
        points = rotated(self, points, targets, weights, drift)
        if self._has_own_variances(targets.shape[1]):
            shared = self._shared_kernel(points, targets - self._mean_of(targets, weights), weights, drift=drift)
            return self._fit_each(targets.shape[1], shared, (X, y, sample_weight))
        self._drift_prior = None
        # Sums are taken of what the targets have beyond this, so that a large mean does not cost them their digits.
        self._offset = self._mean_of(targets, weights)
        self._prepare(points, targets - self._offset, weights, drift=drift)
        wide = points if drift is None else np.column_stack([points, drift])
        self._condition(self._sums(wide, targets - self._offset, weights))
        self._rows_kept = wide, targets, weights
        self._settle_noise("tensors" if is_tensor(wide) else "")
        self._measure(wide, targets - self._offset, self._rows_kept[2])
        return self

    def _shared_kernel(
        self,
        X: Array,
        centered: Array,
        weights: Array | None,
        blocks: Callable[[bool], list[Block]] | None = None,
        drift: Floats | None = None,
    ) -> Kernel | None:
        """Kernel with the length scales that several targets share; None where they are given, or the map has none."""
        if self.length_scale is not None or not has_scales(self.feature_map):
            return None
        if self.likelihood == "features":  # which takes all variances for alike
            xp = namespace(centered)
            spread = xp.std(centered, axis=0)
            centered, blocks = centered / xp.where(spread > 0, spread, 1.0), None
        self._prepare(X, centered, weights, blocks, drift)
        return self.kernel_

    def _noise_options(self) -> tuple[str, str]:
        noise = check_option(self, "noise", ("auto", "constant", "local"))
        return noise, "gaussian" if noise == "constant" else "auto"

    def _with_weights(self, weights: Floats, noise_variance: float | None) -> Self:
        assert self._rows_kept is not None
        other, (X, y, _), d = copy(self), self._rows_kept, self._n_inner
        if noise_variance is None:
            other._offset = other._mean_of(y, weights)
            drift = X[:, d:] if self._n_drift else None
            other._prepare(X[:, :d], y - other._offset, weights, drift=drift, again=True)
        else:
            other._at_noise(noise_variance)
        other._condition(other._sums(X, y - other._offset, weights))
        other._rows_kept = X, y, weights
        return other

    def _as_noisy(self, X: Any, weights: Any) -> Any:
        """Weights (n,) of further rows (n, d), with those that noise of local size gives them."""
        if not self._is_weighted:
            return weights
        precisions = 1 / self.noise_model_.variance_factors(X / self._field_unit())
        return precisions if weights is None else precisions * weights

    def _measure(self, X: Array, y: Array, weights: Array | None) -> None:
        """Set `report_`, and warn where the features are far from the kernel that they stand for."""
        measured = None
        if has_scales(self.feature_map):
            points, targets, k = as_doubles(X), as_doubles(y), y.shape[1]
            posterior = self._posterior
            assert isinstance(posterior, FeatureSpace)
            if self._n_drift:  # of the process alone
                points, drift = points[:, : self._n_inner], points[:, self._n_inner :]
                targets = targets - drift @ posterior.coefficients[-self._n_drift :, :k]
                posterior = posterior.without_drift(self._n_drift)
            noise = np.full(len(points), self.noise_variance_)
            noise = noise if weights is None else noise / as_doubles(weights)

            def predict(places: Floats) -> tuple[Floats, Floats]:
                mean, variance = posterior.mean_and_variance(self._rows(like(places, X)))
                return as_doubles(mean)[:, :k], as_doubles(variance)

            rng = spawn(self.random_state, "tuning")
            measured = measure(self.kernel_, points, targets, noise, predict, rng, self.n_jobs)
            observations, function = (f.mean for f in (measured.distance.observations, measured.distance.function))
            if observations > FAR:
                warn(
                    f"The model is {observations:.2g} nats of KL per point from the exact Gaussian process, where the "
                    f"data are, and {function:.2g} as the function without noise: its means or intervals are wrong "
                    "there. More features help, and LocalGPRegressor needs fewer."
                )
        found = None if measured is None else measured.distance
        self.report_ = self._described(
            Report(
                n_samples=len(X),
                n_features=self.n_features_in_,
                method=f"one feature map for all points: {counted(self._width, 'feature')}, "
                f"{counted(len(X), 'sample')}",
                reason="the feature map was given",
                divergence=None if found is None else found.observations.mean,
                divergence_error=None if found is None else found.observations.error,
                divergence_upper=None if found is None else found.observations.upper,
                divergence_of_function=None if found is None else found.function.mean,
                divergence_of_function_upper=None if found is None else found.function.upper,
                verified=measured is None or measured.verified,
                tolerance=None,
                tolerance_met=None,
                n_probes=0 if measured is None else measured.n_probes,
                n_centers=0,
                n_kernel_space=0,
                n_components=self._width,
                spacing=None,
                radius=None,
                median_neighbours=len(X),
                hyperparameters={name: getattr(self, f"{name}_") for name in HYPERPARAMETERS},
                settled=self.learned_.converged,
                seconds={},
                model_bytes=int(self._posterior.n_bytes),
                kind=FEATURES,
                noise="" if self.noise_model_.is_plain else self.noise_model_.in_words(),
            )
        )

    def _fit_source(self, source: Source) -> Self:
        refuse_rows_of_rotated(self)
        self._refuse_roles_of_rows()
        if self._noise_options()[0] == "local":
            raise ValueError(f"{describe(self, 'noise')} must be 'constant' or 'auto' for rows of a source.")
        self.noise_model_, self._stated_noise, self._is_weighted = NoiseModel(), None, False
        passes = Passes(source, self._check_progress())
        rng = spawn(self.random_state, "source")
        sampled = take_sample(self, passes, rng)
        rows, is_whole = sampled.rows, sampled.n <= source.sample_size
        is_constant = isinstance(self.drift, str) and self.drift == "constant"
        self._drift_prior, self._offset = None, sampled.mean if is_constant else np.zeros_like(sampled.mean)
        blocks: Callable[[bool], list[Block]] | None = None
        k = rows.targets.shape[1]
        are_own = self._has_own_variances(k)
        prepare: Callable[..., Any] = self._shared_kernel if are_own else self._prepare
        if has_roles(self):  # by the sample: columns may be centred and scaled by any rows
            self._take_roles(rows.X, source.names)
            self._box = self._inner(np.stack([sampled.low, sampled.high]))
            targets, drift = self._without_known(rows.targets, rows.weights)
            prepared = prepare(self._inner(self._points), targets - self._offset, rows.weights, drift=drift)
            self._points = None
        else:
            if not is_whole:

                def blocks(ard: bool) -> list[Block]:
                    return make_blocks(passes, sampled, ard, rng, tied=self._learning_request(rows.X.shape[1]).tied)

            prepared = prepare(rows.X, rows.targets - self._offset, rows.weights, blocks)
        if are_own:
            return self._fit_each(k, prepared, (source, None, None))
        if is_whole:
            self._condition(self._sums_of_rows(rows.X, rows.targets, rows.weights))
        else:
            self._condition(passes.run(FeatureSums(self), "sums"))
        return self

    def _sums_of_rows(self, X: Floats, y: Floats, weights: Floats | None) -> Statistics:
        """Sums over rows of a source, with targets (n, k) and weights (n,).

        Rows (n, n_features) are as they are where columns have roles, and else as the kernel sees them.
        """
        if self._roles is None:
            return self._sums(X, y - self._offset, weights)
        points = self._rows_of_source(X)
        known = self._known_mean(points)
        return self._sums(self._wide(points), y - self._offset - (0.0 if known is None else known), weights)

    def _prepare(
        self,
        X: Floats,
        centered: Floats,
        weights: Floats | None,
        blocks: Callable[[bool], list[Block]] | None = None,
        drift: Floats | None = None,
        again: bool = False,
    ) -> None:
        """Settle hyperparameters and maps; `again` is for the same rows with other weights."""
        self._check_options()
        if is_tensor(X) and (self.likelihood == "features" or not has_scales(self.feature_map)):
            raise ValueError(
                f"{describe(self, 'feature_map')} must be FourierFeatures, TaylorFeatures or MaclaurinFeatures, with "
                "likelihood='kernel', where X is a tensor."
            )
        if has_scales(self.feature_map):
            self._learn(X, centered, weights, blocks, drift, again)
            self._fit_maps(X)
            if self.likelihood == "features":
                self._refine(X, centered, weights)
        else:
            self._fit_foreign_map(X, centered, weights)
        self._width += self._n_drift
        self._require_memory(0, "", X.device)

    @all_or_nothing
    def partial_fit(
        self, X: Any, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None, *, forget: bool = False
    ) -> Self:
        """Take in more data at the fitted hyperparameters and map: exactly what `fit` on all of it at once would give.

        The first call is `fit`. Further parameters and answer are those of `fit`.

        Parameters
        ----------
        forget : bool, default=False
            Forget all earlier data first, and keep only the hyperparameters and the map.
        """
        if not hasattr(self, "kernel_"):
            return self.fit(X, y, sample_weight)
        self._fitted_on_tensors(X)
        if own_regressors(self):
            self._partial_fit_each(X, y, sample_weight, bool(forget))
            return self
        source = as_source(X, y, sample_weight)
        new: Statistics | None
        if source is not None:
            refuse_rows_of_rotated(self)
            check_fitted_on(self, source)
            if self._is_weighted:
                raise ValueError("A model with noise of local size takes in arrays only: give partial_fit X and y.")
            self._box = None  # nobody asked how far these rows reach
            new = Passes(source, self._check_progress(), rows_seen_by(self)).run(FeatureSums(self), "sums")
        else:
            points, targets, weights = self._validate_training(X, y, sample_weight, reset=False)
            self._check_targets(targets.shape[1])
            weights = self._as_noisy(points, weights)
            if self._points is not None:
                drift, known = self._drift_columns(self._points), self._known_mean(self._points)
                targets = targets if known is None else targets - known
                points = points if drift is None else np.column_stack([points, drift])
            self._points = None
            new = self._sums(points, targets - self._offset, weights)
        if hasattr(self, "report_"):
            before = self.report_
            self.report_ = replace(before, n_measured=before.n_measured or before.n_samples)
        if new is not None:
            self._condition(new if forget else self.statistics_ + new)
        elif forget:  # a source may have no rows of positive weight
            self._condition(statistics.nothing(self._width, len(self._offset)))
        return self

    def predict(
        self, X: Any, return_std: bool = False, *, return_cov: bool = False, include_noise: bool = False
    ) -> Any:
        """Posterior mean, and standard deviation or covariance on request; see `ExactGPRegressor.predict`."""
        self._fitted_on_tensors(X)
        source = as_source(X, None, None)
        if source is None:
            return as_given(self._predict(X, return_std, return_cov, include_noise), X)
        if return_cov:
            raise ValueError("The covariance of all rows of a source cannot be held; ask for return_std instead.")
        return predict_source(self, source, return_std, include_noise)

    @by_target(summed)
    def log_marginal_likelihood(self, eval_gradient: bool = False) -> Any:
        """Log marginal likelihood, under the features' kernel, of the data seen so far (summed over targets).

        Parameters
        ----------
        eval_gradient : bool, default=False
            Also the derivatives in the logarithms of all length scales, signal variances, and the noise variance; of
            models of arrays that were fitted at once, without drift and groups, and of maps with derivatives:
            `TaylorFeatures`, `FourierFeatures` that are not structured, and maps without a length scale.

        Returns
        -------
        value : float
        gradient : ndarray of shape (n_hyperparameters,), if `eval_gradient`
        """
        check_is_fitted(self, "kernel_")
        value = float(self._posterior.log_likelihood()[:-1].sum()) + self._log_unit_of_drift()
        return (value, self._gradient_of_likelihood()) if eval_gradient else value

    # ---- maps ----------------------------------------------------------------------------------------------------

    def _fit_maps(self, X: Floats) -> None:
        maps = []
        kernel = self.kernel_.expanded()
        is_sampled = kernel is not self.kernel_ and isinstance(self.feature_map, FourierFeatures)
        for scales, variance in kernel.components():
            length_scale = float(scales[0]) if len(scales) == 1 else scales
            drawn = clone(self.feature_map).set_params(length_scale=length_scale, variance=variance)
            if is_sampled:  # as many frequencies of each Gaussian as its share of the mixture
                share = drawn.n_components * variance / kernel.variance
                drawn.set_params(n_components=max(2 * round(0.5 * share), 2))
            maps.append(drawn.fit(X))
        self.feature_map_: Any = maps[0] if len(maps) == 1 else maps
        self._width = sum(m.transform(X[:1]).shape[1] for m in maps)

    def _fit_foreign_map(self, X: Floats, y: Floats, weights: Floats | None) -> None:
        """Take a map that has no length scale of ours as it is, and learn only its variance and the noise."""
        name = type(self.feature_map).__name__
        if self.length_scale is not None:
            raise ValueError(
                f"{describe(self, 'length_scale')} has no meaning for {name}: set the map's own parameters instead."
            )
        if self._check_ard() is True:
            raise ValueError(
                f"{describe(self, 'ard')} must be 'auto' or False for {name}, which has no length scales to learn."
            )
        if is_rotated(self):
            raise ValueError(f"{describe(self, 'anisotropy')} must be 'axes' for {name}, which has no length scales.")
        if self._check_kernel() != "gaussian":
            raise ValueError(f"{describe(self, 'kernel')} must be 'gaussian' for {name}, which is a kernel itself.")
        if self._check_n_scales() != 1:
            raise ValueError(
                f"{describe(self, 'n_scales')} must be 1 for {name}: several scales need a map with parameters "
                "length_scale and variance."
            )
        fixed, _ = self._check_hyperparameters(X.shape[1])
        self.feature_map_ = clone(self.feature_map).fit(X)
        self._amplitude = 1.0
        self._width = len(self._rows(X[:1]))
        self._require_memory(4 * len(X), f" learnt from {len(X)} samples")
        rows = self._rows(X)
        spread = float(np.mean(np.var(y, axis=0))) or CONSTANT_SPREAD
        unit = spread / (float(np.mean(np.sum(rows * rows, axis=0))) or 1.0)
        given = (None if fixed.variances is None else float(fixed.variances[0]), fixed.noise_variance)
        start = np.log([given[0] or 0.9 * unit, given[1] or 0.1 * spread])
        free, began = np.array([value is None for value in given]), time.perf_counter()
        learned = Learned(Kernel.gaussian(np.nan, float(np.exp(start[0]))), float(np.exp(start[1])))
        if free.any() and np.any(y):
            bounds = np.log([[1e-8 * unit, 1e6 * unit], [1e-8 * spread, 10 * spread]])[free]

            def features(theta: Floats) -> tuple[Floats, Sequence[Floats]]:
                return rows * np.exp(0.5 * theta[0]), ()

            budget = check_time_budget(self)
            optimum = maximise_feature_likelihood(
                features,
                start,
                free,
                bounds,
                y,
                sample_weight=weights,
                time_budget=budget,
                progress=self._check_progress(),
            )
            learned = self._learned_by(optimum, learned, len(X), began)
        self._amplitude = learned.kernel.variance**0.5
        self._set_learned(learned)
        self.length_scale_ = None

    def _learned_by(self, optimum: Optimum, before: Learned, n: int, began: float) -> Learned:
        """What the features' own likelihood of `n` samples says of the hyperparameters that were learnt `before`."""
        theta = np.exp(optimum.point)
        scales = theta[:-2] if len(theta) > 2 else np.nan  # a map may have none
        return replace(
            before,
            kernel=Kernel.gaussian(scales, float(theta[-2])),
            noise_variance=float(theta[-1]),
            log_likelihood=optimum.value,
            n_blocks=1,
            block_size=n,
            n_evaluations=before.n_evaluations + optimum.n_evaluations,
            seconds=before.seconds + time.perf_counter() - began,
            converged=optimum.converged,
            on_bounds=(),
            standard_errors=None,
        )

    def _refine(self, X: Floats, y: Floats, weights: Floats | None) -> None:
        """Move the hyperparameters learnt for the kernel to the maximum of the features' own likelihood."""
        fixed, _ = self._check_hyperparameters(X.shape[1])
        q = self.kernel_.length_scales.shape[1]
        start = np.log([*self.kernel_.length_scales[0], *self.kernel_.variances, self.noise_variance_])
        given = (fixed.length_scales, fixed.variances, fixed.noise_variance)
        free = np.concatenate([np.full(width, value is None) for width, value in zip((q, 1, 1), given, strict=True)])
        if not free.any():
            return
        self._require_memory((4 + 2 * X.shape[1]) * len(X), f" learnt from {len(X)} samples by their own likelihood")
        feature_map = self.feature_map_

        def features(theta: Floats) -> tuple[Floats, Sequence[Floats]]:
            scaled = feature_map._scaled(X) * np.exp(start[:q] - theta[:q])
            gradients = length_scale_gradients(feature_map.map_, scaled)
            amplitude = np.exp(0.5 * theta[q])
            directions = gradients if q > 1 else gradients.sum(axis=0)[None]
            return feature_map._apply(scaled).T * amplitude, list(directions * amplitude)

        # Within a factor of e^4 of the kernel's optimum, which is the better guide where the features say little.
        bounds = np.stack([start - 4, start + 4], axis=1)[free]
        budget = max(self.time_budget - self.learned_.seconds, 0.0)
        began = time.perf_counter()
        optimum = maximise_feature_likelihood(
            features, start, free, bounds, y, sample_weight=weights, time_budget=budget, progress=self._check_progress()
        )
        self._set_learned(self._learned_by(optimum, self.learned_, len(X), began))
        # The map drawn stays, and only its scale changes.
        feature_map.set_params(length_scale=self.length_scale_, variance=self.kernel_.variance)._rescale(X.shape[1])

    # ---- sums ----------------------------------------------------------------------------------------------------

    @property
    def _n_drift(self) -> int:
        """Number of columns of drift and groups, which are the last features."""
        return 0 if self._roles is None else self._roles.n_columns

    def _rows(self, X: Array) -> Array:
        """Features of points (m, d), which drift columns may follow, one per row: shape (D, m)."""
        d = self._n_inner
        if X.shape[1] > d:
            return np.concatenate([self._mapped(X[:, :d]), X[:, d:].T])
        return self._mapped(X)

    def _mapped(self, X: Array) -> Array:
        if isinstance(self.feature_map_, list):
            return namespace(X).concat([m.transform(X).T for m in self.feature_map_])
        features = self.feature_map_.transform(X)
        if is_tensor(features):
            return features.T
        if sparse.issparse(features):
            features = features.toarray()
        rows: Floats = np.asarray(features, dtype=np.float64).T
        return rows if has_scales(self.feature_map) else rows * self._amplitude

    def _n_rows(self) -> int:
        return self._width

    def _sums(self, X: Floats, y: Floats, weights: Floats | None) -> Statistics:
        precision = 1 / self._noise_of(X, weights)
        return statistics.total(statistics.accumulate(self._rows(X[c]), y[c], precision[c]) for c in self._chunks(X))

    def _condition(self, sums: Statistics) -> None:
        # Where all data were forgotten, the mean of the targets stays, as the hyperparameters do.
        mean = sums.mean() if sums.n else self.y_mean_ - self._offset
        if not (isinstance(self.drift, str) and self.drift == "constant" and self.groups is None):
            mean = mean * 0
        centred = sums.centred(mean)
        if self._grouped_columns() and self._drift_prior is None:
            unit = self.kernel_.variance + self.noise_variance_
            told = told_beyond_features(centred, self._n_drift)
            self._drift_prior = told.with_learnt_prior(self._grouped_columns(), unit).prior
        posterior = self._posterior_of(centred)
        self.statistics_, self.y_mean_, self._posterior = sums, self._offset + mean, posterior
        self._rows_kept = self._left_out = None

    def _posterior_of(self, sums: Statistics) -> FeatureSpace:
        if self._n_drift == 0:
            return FeatureSpace.from_statistics(sums)
        prior = np.zeros(self._n_drift) if self._drift_prior is None else self._drift_prior
        if sums.n <= np.count_nonzero(prior == 0):
            raise ValueError(UNTOLD)
        return FeatureSpace.from_statistics(sums, np.concatenate([np.ones(self._width - self._n_drift), prior]))

    # ---- drift ---------------------------------------------------------------------------------------------------

    def _drift_sums(self) -> Coefficients | None:
        p = self._n_drift
        if p == 0:
            return None
        columns = np.eye(self._width, p, p - self._width, order="F")
        assert isinstance(self._posterior, FeatureSpace)
        covariance = self._posterior.factor.solve(columns)[-p:]
        gram, prior = np.linalg.inv(covariance), self._drift_prior
        cross = gram @ self._posterior.coefficients[-p:, :-1]
        return Coefficients(gram if prior is None else gram - np.diag(prior), cross, prior)

    def _parts_at(self, X: Floats) -> tuple[tuple[Floats, Floats], tuple[Floats, Floats], Floats]:
        assert isinstance(self._posterior, FeatureSpace)
        k, p, rows = len(self.y_mean_), self._n_drift, self._rows(self._wide(X))
        alone = [rows.copy(), rows.copy()]
        alone[0][len(rows) - p :] = 0.0
        alone[1][: len(rows) - p] = 0.0
        process, drift = (self._posterior.mean_and_variance(np.asfortranarray(each)) for each in alone)
        return (process[0][:, :k], process[1]), (drift[0][:, :k], drift[1]), self._posterior.mean_and_variance(rows)[1]

    # ---- left out ------------------------------------------------------------------------------------------------

    def _training_rows(self) -> tuple[Floats, Floats, Floats]:
        if self._rows_kept is None or is_tensor(self._rows_kept[0]):
            raise NoRowsError(NO_ROWS)
        X, y, weights = self._rows_kept
        rows: Floats = self._outer(X) if self._points is None else self._points
        return rows, y + self._known_of_training(), self._noise_of(X, weights)

    def _left_out_residuals(self) -> tuple[Floats, Floats]:
        noise = self._training_rows()[2]
        assert self._rows_kept is not None
        X, y, _ = self._rows_kept
        assert isinstance(self._posterior, FeatureSpace)
        residuals, variances = np.empty_like(y), np.empty(len(y))
        for chunk in self._chunks(X):
            root = 1 / np.sqrt(noise[chunk])
            targets = np.column_stack([y[chunk] - self.y_mean_, np.ones(len(root))]) * root[:, None]
            answers = of_feature_space(self._posterior, self._rows(X[chunk]) * root, targets, root)
            residuals[chunk], variances[chunk] = answers[0][:, :-1], answers[1]
        return residuals, np.maximum(variances - noise, 0.0)

    def _without(self, rows: Booleans) -> tuple[Floats, Floats]:
        _, y, noise = self._training_rows()
        assert self._rows_kept is not None
        X, weights = self._rows_kept[0], self.noise_variance_ / noise[~rows]
        known = y - self._rows_kept[1] + self.y_mean_
        posterior = self._posterior_of(self._sums(X[~rows], (y - known)[~rows], weights))
        mean, variance = posterior.mean_and_variance(self._rows(X[rows]))
        return mean[:, :-1] + known[rows], variance

    # ---- refusals ------------------------------------------------------------------------------------------------

    def _check_options(self) -> None:
        has_all = all(hasattr(self.feature_map, name) for name in ("fit", "transform", "get_params"))
        if isinstance(self.feature_map, type) or not has_all:
            raise ValueError(
                f"{describe(self, 'feature_map')} must be a transformer, such as FourierFeatures(1000). "
                f"Got {self.feature_map!r}."
            )
        if self._check_noise() == 0:
            raise ValueError(
                f"{describe(self, 'noise_variance')} must be positive: features alone cannot pass through every point. "
                "ExactGPRegressor takes noise_variance=0."
            )
        if check_option(self, "likelihood", ("kernel", "features")) == "kernel" or not has_scales(self.feature_map):
            return
        if not is_differentiable(self.feature_map):
            raise ValueError(
                f"{describe(self, 'likelihood')} must be 'kernel' for this map: only TaylorFeatures, and "
                "FourierFeatures that are not structured, have derivatives in the length scale."
            )
        if self._check_n_scales() != 1:
            raise ValueError(f"{describe(self, 'likelihood')} must be 'kernel' where n_scales is not 1.")
        if self._check_kernel() != "gaussian":
            raise ValueError(f"{describe(self, 'likelihood')} must be 'kernel' where kernel is not 'gaussian'.")

    def _require_memory(self, n_copies: int, where: str, device: Any = "cpu") -> None:
        """Refuse maps with too many columns, `n_copies` of which are held at once besides the sums."""
        memory.require(
            8.0 * self._width * (3 * self._width + n_copies),
            f"A model of {self._width} features{where}",
            "Fewer features, or LocalGPRegressor, need less.",
            device,
        )
