"""The exact Gaussian process, the reference for everything else."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from ..common import memory
from ..common.arrays import Array, as_doubles, indices_like, is_tensor
from ..common.duplicates import distinct_points
from ..common.fitting import all_or_nothing
from ..common.telling import telling
from ..common.types import Booleans, Floats
from ..hyperparameters.all_data import gradient_of_dense
from ..kernels.draws import PriorDraws, drawn_residuals
from ..local.covariance import Conditioning
from ..local.gradient import kernel_space_slopes
from ..local.neighbourhoods import TrainingSet
from ..solvers.drift import Coefficients, UniversalKriging
from ..solvers.factors import Cholesky
from ..solvers.kernel_space import KernelSpace
from ..solvers.left_out import of_kernel_space
from ..streaming.inputs import refuse_source
from .area_groups import Groups
from .by_target import by_target, of_the_first
from .joint_noise import LearntJointNoise
from .learnt import refuse_unknown, summed
from .rotated import rotated
from .samples import Functions
from .twins import as_given


class ExactGPRegressor(LearntJointNoise):
    """Exact Gaussian-process regression with a Gaussian kernel (Eq. 1): O(n^3) time and O(n^2) memory.

    Parameters
    ----------
    length_scale : float, array of shape (n_features,), (J,), (J, 1) or (J, n_features), or None, default=None
        Length scale, one or one per column; None learns it. Of a kernel of J Gaussians, one number or one row per
        Gaussian. A list of numbers is one per Gaussian where as many signal variances are given (or `n_scales` is that
        number), and one per column otherwise.
    signal_variance : float, array of shape (J,) or None, default=None
        Prior variance of the latent function; None learns it. Several are those of as many Gaussians. So
        `length_scale_`, `signal_variance_` and `noise_variance_` of one regressor, and `kernel_.parameters()`, are
        parameters of another as they are.
    noise_variance : float or None, default=None
        Variance of the observation noise; None learns it.
    ard : {"auto"} or bool, default="auto"
        Learn one length scale per column (automatic relevance determination), or one for all. "auto": one per column
        beyond three columns; in two or three, and with fewer than 20 rows per column, the exact likelihood of up to
        1000 rows decides by Schwarz's criterion (BIC). Columns of different units are found either way, and need no
        scaling. Only coordinates count. A length scale that is given decides by its shape. See `ard_`.
    n_scales : int or "auto", default=1
        Number of Gaussians summed in the kernel; "auto" learns it. Where several signal variances, or rows of length
        scales, are given, these tell it, and neither "auto" nor 1 need be changed.
    kernel : {"gaussian", "matern12", "matern32", "matern52", "rational_quadratic", "auto"}, default="gaussian"
        Family of the kernel; `n_scales` sums several. "auto" compares Matern kernels with Gaussians by likelihood.
    metric : {"auto", "euclidean", "sphere"}, default="auto"
        "sphere" takes longitude and latitude in degrees, found by the names of the columns or else the first two, and
        measures straight lines through the earth, in km: across the date line and the poles, and less than 1 % shorter
        than the way along the ground up to 3000 km. `length_scale` is then one number in km, or with further columns
        (time, height) one in km and then one for each of these, which are learnt apart whether `ard` or not. "auto"
        goes by the coordinate reference system of a GeoDataFrame, and is "euclidean" for anything else.
    anisotropy : {"axes", "rotated"}, default="axes"
        "axes": length scales belong to columns, one for all or with `ard` one for each. "rotated", for two or three
        coordinates of one unit: they belong to axes of any direction, which are learnt first, from a kernel of one
        component, and each component has a length scale for each axis. Learnt axes are in the order of their reach, the
        farthest first; length scales that are given, one per axis, get the directions of the same rank. See
        `rotation_`. Of arrays and data frames.
    coordinates : names, numbers, callable or None, default=None
        Columns of X that the process lives in: where things are. None is all of them. A callable gets X and gives
        names, as `sklearn.compose.make_column_selector` does.
    drift : None, "constant", "linear", "quadratic", names or numbers of columns, or transformer, default="constant"
        Mean of the process. "constant": the mean of the targets, taken as known. None: zero. All else is a sum of
        columns with unknown coefficients, found along with the process by generalised least squares (universal
        kriging), with an intercept: "linear" and "quadratic" are in the coordinates; names or numbers of columns take
        these as they are, categories as an indicator per level but the first (`"C(type)"` takes numbers for
        categories), and an empty list is an unknown constant (ordinary kriging). A transformer of scikit-learn, as
        `SplineTransformer` or a `ColumnTransformer`, gets all of X. Hyperparameters are then learnt by the restricted
        likelihood, and variances include the uncertainty of the coefficients. Columns may be coordinates and drift at
        once; those that are neither are not looked at.
    mean : regressor, "boosting" or None, default=None
        Any regressor of scikit-learn as the mean of the process; "boosting" stands for `HistGradientBoostingRegressor`
        with words and categories encoded for it. It gets all of X in the types that columns have, where values may be
        missing if it alone looks at them, and the weights if it takes any. The process is one of its cross-fitted
        residuals, of rows that it was not fitted to in five folds, so that its errors are in the variance; the mean of
        predictions is fitted to all rows.
    mean_rounds : int, default=1
        How often the mean model is fitted: first to the targets, and from the second time on to targets less what the
        process says of each row without it, so that each of the two is fitted to what the other leaves. Two or three
        are more accurate where much varies in space, and each takes as long as a fit.
    groups : names or numbers of columns, or None, default=None
        Columns of categories whose levels have independent normal effects, with a variance per column that is learnt:
        random effects. Levels that `fit` has not seen get the prior, and their variance shows it. See `group_effects_`
        and `group_variance_`.
    noise : {"constant", "local", "auto"}, default="constant"
        Of one size; of a size that varies from place to place, as left-out residuals tell, and goes back into the fit
        as weights; or as left-out residuals call for. See `LocalGPRegressor`, whose default is "auto". Here the noise
        alone may have a local size, and the function stays what it is.
    likelihood : {"gaussian", "student", "auto"}, default="gaussian"
        Of observations: normal, or with the tails of Student's t, whose degrees of freedom are learnt. Unless it is
        "gaussian", gross outliers lose their weight in the fit. Of arrays with one target, as `noise`.
    n_restarts : int, default=2
        Random starts of the learning, besides the systematic ones.
    time_budget : float, default=60.0
        Seconds that learning may take.
    n_jobs : int or None, default=None
        Threads; None uses every core, and in a worker of joblib what that leaves to it: one.
    random_state : int, RandomState instance or None, default=None
        For the random starts, and for the blocks of points on which hyperparameters are learnt beyond 1000 samples.
        None is new random numbers every time, and never NumPy's global ones.
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
    group_effects_ : DriftCoefficients
        Effects of the levels of groups with standard errors, where there are any; `group_variance_` has their
        variances.
    mean_ : regressor
        The mean model, fitted to all rows, where there is one.
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

    Examples
    --------
    >>> import numpy as np, nearfield as nf
    >>> X = np.linspace(0, 6, 40)[:, None]
    >>> gp = nf.ExactGPRegressor(length_scale=1.0, signal_variance=1.0, noise_variance=1e-4).fit(X, np.sin(X[:, 0]))
    >>> mean, std = gp.predict([[1.0]], return_std=True)
    >>> float(mean[0].round(3))
    0.841
    """

    _posterior: KernelSpace | UniversalKriging

    @all_or_nothing
    def fit(self, X: ArrayLike, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None) -> Self:
        """Learn the hyperparameters that are not given and condition on the data.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
        y : array of shape (n_samples,) or (n_samples, n_targets)
            Targets share the length scales; what is learnt besides is each target's own, in `estimators_`.
        sample_weight : array of shape (n_samples,) or None, default=None
            Precisions: the noise variance of sample i is `noise_variance / sample_weight[i]`. For known noise
            variances `s_i`, set `noise_variance=1` and weights `1 / s_i`.

        Returns
        -------
        self
        """
        refuse_source(self, X)
        given = X, y, sample_weight
        X, y, weights = self._validate_training(X, y, sample_weight)
        fixed, _ = self._check_hyperparameters(X.shape[1])
        if fixed.noise_variance == 0:
            kept = indices_like(distinct_points(X, y, sample_weight), X)
            X, y, weights = X[kept], y[kept], None  # weights share out the noise, and there is none
            self._points = None if self._points is None else self._points[kept]
        n = len(X)
        memory.require(
            # the factor and some chunks; tensors are copied
            X.dtype.itemsize * n * n * (3.2 if is_tensor(X) else 1.2),
            f"The exact Gaussian process of {n} samples",
            "LocalGPRegressor takes the same data in linear memory.",
            X.device,
        )
        y, drift = self._without_known(y, weights)
        self.y_mean_ = self._mean_of(y, weights)
        centered = y - self.y_mean_
        X = rotated(self, X, centered, weights, drift)
        if self._has_own_variances(y.shape[1]):
            kernel = None
            if self.length_scale is None:
                self._learn(X, centered, weights, drift=drift)
                kernel = self.kernel_
            return self._fit_each(y.shape[1], kernel, given)
        self._learn(X, centered, weights, drift=drift)
        with telling(self._check_progress()):
            self._posterior = self._conditioned(X, drift, centered, self._noise_of(X, weights))
        self._settle_noise("tensors" if is_tensor(X) else "")
        self._left_out = None
        return self

    def _with_weights(self, weights: Floats, noise_variance: float | None) -> Self:
        other, q, (_, y, _) = copy(self), self._posterior, self._training_rows()
        X, drift = self._process.X, q.F if isinstance(q, UniversalKriging) else None
        y = y - self._known_of_training()
        other.y_mean_ = other._mean_of(y, weights)
        if noise_variance is None:
            other._learn(X, y - other.y_mean_, weights, drift=drift, again=True)
        else:
            other._at_noise(noise_variance)
        other._posterior = other._conditioned(X, drift, y - other.y_mean_, other._noise_of(X, weights))
        return other

    def _conditioned(self, X: Array, drift: Floats | None, y: Array, noise: Array) -> KernelSpace | UniversalKriging:
        """Posterior for points (n, d), drift columns (n, p) if any, targets less their mean (n, k) and noise (n,)."""
        if drift is None:
            return KernelSpace.from_points(self.kernel_, X, y, noise)
        before = getattr(self, "_posterior", None)  # whose variances of groups stay
        prior = before.drift.prior if isinstance(before, UniversalKriging) else self._grouped_columns()
        return UniversalKriging.from_points(self.kernel_, X, drift, y, noise, prior)

    @property
    def _process(self) -> KernelSpace:
        """The posterior, less a drift."""
        q = self._posterior
        return q.process if isinstance(q, UniversalKriging) else q

    def _drift_sums(self) -> Coefficients | None:
        return self._posterior.drift if isinstance(self._posterior, UniversalKriging) else None

    def _unknown_of_drift(self, X: Floats) -> Floats | None:
        q, F = self._posterior, self._drift_columns(X)
        return q.unknown(self._inner(X), F) if isinstance(q, UniversalKriging) and F is not None else None

    def _parts_at(self, X: Floats) -> tuple[tuple[Floats, Floats], tuple[Floats, Floats], Floats]:
        q, inner, F = self._posterior, self._inner(X), self._drift_columns(X)
        process = self._process.mean_and_variance(inner)
        if not isinstance(q, UniversalKriging) or F is None:
            nothing = np.zeros(len(X))
            return process, (np.zeros_like(process[0]), nothing), process[1]
        return q.drift.parts(process, F, q.unknown(inner, F))

    def predict(
        self, X: ArrayLike, return_std: bool = False, *, return_cov: bool = False, include_noise: bool = False
    ) -> Any:
        """Posterior mean, and standard deviation or covariance on request.

        Parameters
        ----------
        X : array of shape (m, n_features)
        return_std : bool, default=False
        return_cov : bool, default=False
        include_noise : bool, default=False
            The distribution of observations instead of that of the latent function: the noise variance is added.

        Returns
        -------
        mean : ndarray of shape (m,) or (m, n_targets)
        std : ndarray of the same shape, if `return_std`
        cov : ndarray of shape (m, m) or (m, m, n_targets), if `return_cov`
        """
        refuse_source(self, X)
        self._fitted_on_tensors(X)
        return as_given(self._predict(X, return_std, return_cov, include_noise), X)

    def _rows(self, X: Array) -> Array:
        return X

    def _n_rows(self) -> int:
        return len(self._process.X)

    @by_target(of_the_first)
    def _training_points(self) -> Floats:
        points: Floats = self._outer(self._process.X) if self._points is None else self._points
        return points

    def _training_rows(self) -> tuple[Floats, Floats, Floats]:
        q = self._process
        y = as_doubles(q.factor.matrix() @ q.coefficients + self.y_mean_)
        if isinstance(self._posterior, UniversalKriging):
            y = y + self._posterior.F @ self._posterior.drift.mean
        X = as_doubles(self._training_points())
        return X, y + self._known_of_training(), as_doubles(q.noise)

    def _left_out_residuals(self) -> tuple[Floats, Floats]:
        q = self._posterior
        if isinstance(q, UniversalKriging):
            residuals, variances = q.left_out(np.arange(self._n_rows()))
            return residuals, np.maximum(variances - q.process.noise, 0.0)
        assert isinstance(q.factor, Cholesky)
        factor = Cholesky(np.asfortranarray(as_doubles(q.factor.lower)))
        on_host = replace(q, _factor=factor, coefficients=as_doubles(q.coefficients))
        residuals, variances = of_kernel_space(on_host, np.arange(factor.size))
        return residuals, np.maximum(variances - as_doubles(q.noise), 0.0)

    def _without(self, rows: Booleans) -> tuple[Floats, Floats]:
        (_, y, noise), q = self._training_rows(), self._posterior
        F = q.F if isinstance(q, UniversalKriging) else None
        X = as_doubles(self._process.X)
        known = np.broadcast_to(self._known_of_training() + self.y_mean_, y.shape)
        others = self._conditioned(X[~rows], None if F is None else F[~rows], (y - known)[~rows], noise[~rows])
        wide = X if F is None else np.column_stack([X, F])
        mean, variance = others.mean_and_variance(wide[rows])
        return mean + known[rows], variance

    def _functions_of(self, seed: int, functions: range, exact: bool) -> Functions:  # noqa: ARG002
        (_, y, noise), k, n_jobs = self._training_rows(), len(self.y_mean_), self.n_jobs
        X = as_doubles(self._process.X)
        prior, posterior = PriorDraws(self.kernel_.expanded(), seed), self._process
        y = drawn_residuals(
            prior, X, y - self._known_of_training() - self.y_mean_, noise, functions, n_jobs, np.arange(len(X))
        )
        model = replace(posterior, coefficients=posterior.factor.solve(y))

        def values(points: Floats) -> tuple[Floats, Floats]:
            answers = np.concatenate([model.mean(points[chunk]) for chunk in self._chunks(points)])
            return answers[:, :-k] + prior(points, functions, n_jobs), answers[:, -k:]

        return values

    def _variances_of_sums(self, X: Floats, groups: Groups) -> Floats | None:
        q = self._process
        given = Conditioning.dense(self.kernel_, TrainingSet(q.X, q.coefficients, q.noise), q.factor)
        return groups.variances(given, self._inner(X), self.n_jobs) + self._variances_of_drift(X, groups)

    def _gradients(self, X: Floats, with_covariance: bool) -> tuple[Floats, Floats | None]:
        q, coefficients = self._process, self._process.coefficients
        if isinstance(self._posterior, UniversalKriging):  # of the targets as they are, and of the drift columns
            solved = self._posterior.solved
            coefficients = np.column_stack([coefficients + solved @ self._posterior.drift.mean, solved])
        kernel = q.kernel.expanded()
        chunks = memory.batches(len(X), memory.rows_per_chunk(48 * q.X.shape[1] * len(q.X), len(X)))
        slopes = [kernel_space_slopes(kernel, q.X, q.factor, coefficients, X[c], with_covariance) for c in chunks]
        gradient = np.concatenate([each.gradient for each in slopes])
        return gradient, np.concatenate([each.covariance for each in slopes]) if with_covariance else None

    def _bytes_per_function(self) -> float:
        return 32.0 * self._n_rows()

    @by_target(summed)
    def log_marginal_likelihood(self, eval_gradient: bool = False) -> Any:
        """Log marginal likelihood of the training data at the fitted hyperparameters (summed over targets).

        With a drift of columns it is the restricted likelihood, `-((n - p) log 2 pi + log|C| + log|F' C^-1 F| + r' C^-1
        r) / 2`, with `F` the columns as `drift_coef_` names them and `r` the targets less the drift.

        Parameters
        ----------
        eval_gradient : bool, default=False
            Also the derivatives in the logarithms of all length scales, signal variances, and the noise variance; of
            models without groups.

        Returns
        -------
        value : float
        gradient : ndarray of shape (n_hyperparameters,), if `eval_gradient`
        """
        check_is_fitted(self, "kernel_")
        value = float(self._posterior.log_likelihood().sum()) + self._log_unit_of_drift()
        if not eval_gradient:
            return value
        refuse_unknown(self, "log_marginal_likelihood(eval_gradient=True)", "groups")
        return value, self._as_users_see(
            gradient_of_dense(self.kernel_, self.noise_variance_, *self._rows_of_process())
        )
