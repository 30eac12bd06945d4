"""Gaussian-process regression from local features."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from ..common.arrays import as_doubles, is_tensor, like, side_by_side
from ..common.duplicates import distinct_points
from ..common.fitting import all_or_nothing
from ..common.targets import Target
from ..common.telling import telling
from ..common.types import Floats
from ..common.validation import check_random_state, is_whole, spawn
from ..common.warnings import warn
from ..features import MaclaurinFeatures
from ..hyperparameters.noise import NoiseModel
from ..local.certificate import Certificate, certify
from ..local.covariance import Conditioning, covariance
from ..local.fit import Clock, FittedLocal, TrainingData, fit
from ..local.gradient import gradients
from ..local.in_memory import InMemory
from ..local.predictor import Predictor
from ..local.sampling import bytes_per_function, draw
from ..reporting.report import Report
from ..reporting.variograms import departure
from ..streaming.fit import SourceData, all_rows, take_in
from ..streaming.inputs import as_source
from ..streaming.output import check_fitted_on, predict_source
from ..streaming.passes import Passes
from ..streaming.source import ArraySource, Source
from .area_groups import Groups
from .by_target import by_target, of_the_first, own_regressors
from .columns import is_plain_mean
from .extent import box_of, joined, warn_of_outside
from .learnt import summed
from .local_noise import LearntNoise
from .local_request import local_request, within_memory_budget
from .places import without_geometry
from .rotated import refuse_rows_of_rotated, rotated
from .samples import Functions, Sampler
from .sampling import rows_seen_by, take_sample, whole_rows
from .twins import array_of, as_given, twin_of


class LocalGPRegressor(LearntNoise):
    """Gaussian-process regression from features around many centres: near the exact process, in linear time.

    Around each centre a small Gaussian process is made from the points of its neighbourhood, with Taylor features of
    the kernel, whose error is given back as independent noise, or in kernel space where that is cheaper. Spacing,
    radius and features are chosen by measuring the distance from the exact process at probes; `report_` states it.

    Parameters
    ----------
    length_scale : float, array or None, default=None
        How far a value reaches; None learns it. One number, one per column, or one (or one row) per Gaussian: see
        `ExactGPRegressor`.
    signal_variance : float, array or None, default=None
        Prior variance of the latent function; None learns it. Several are those of as many Gaussians.
    noise_variance : float or None, default=None
        Variance of the observation noise; None learns it. It counts as at least 1e-9 of the signal variance.
    ard : {"auto"} or bool, default="auto"
        Learn one length scale per column, or one for all. "auto": one per column beyond three columns; in two or three,
        the exact likelihood of up to 1000 rows decides. See `ExactGPRegressor`.
    n_scales : int or "auto", default="auto"
        Number of Gaussians summed in the kernel. "auto" learns it where length scale and signal variance are learnt;
        where they are given, they tell it: see `ExactGPRegressor`.
    kernel : {"gaussian", "matern12", "matern32", "matern52", "rational_quadratic", "auto"}, default="gaussian"
        Family of the kernel; `n_scales` sums several. "auto" compares Matern kernels with Gaussians by likelihood.
    metric : {"auto", "euclidean", "sphere"}, default="auto"
        "sphere" takes columns of longitude and latitude in degrees, and measures in km; see `ExactGPRegressor`.
    anisotropy : {"axes", "rotated"}, default="axes"
        "rotated" learns directions, in two or three coordinates, that length scales belong to; see `ExactGPRegressor`.
    coordinates : names, numbers, callable or None, default=None
        Columns of X that the process lives in; None is all of them. See `ExactGPRegressor`.
    drift : None, "constant", "linear", "quadratic", names or numbers of columns, or transformer, default="constant"
        Mean of the process: a constant that is taken out of the targets, zero (None), or columns with unknown
        coefficients, which may be categories, found by generalised least squares; see `ExactGPRegressor`. Of arrays
        and data frames. Hyperparameters are learnt by the restricted likelihood of blocks.
    mean : regressor, "boosting" or None, default=None
        Any regressor of scikit-learn, or gradient boosting, as the mean of the process, cross-fitted; see
        `ExactGPRegressor`.
    mean_rounds : int, default=1
        How often the mean model is fitted, from the second time on to targets less the process; see `ExactGPRegressor`.
    groups : names or numbers of columns, or None, default=None
        Columns of categories whose levels have independent normal effects of learnt variance; see `ExactGPRegressor`.
    tolerance : float, default=1e-3
        Largest mean KL divergence per test point from the exact Gaussian process, in nats.
    spacing : float or "auto", default="auto"
        Distance, in length scales, within which every point has a centre.
    radius : float, None or "auto", default="auto"
        Radius of the neighbourhoods in length scales; None takes all points. With several length scales and a radius
        given, what the longer ones say from afar is not measured, and the distance in `report_` may be too small.
    features : "auto", "kernel", TaylorFeatures or MaclaurinFeatures, default="auto"
        "kernel" solves every neighbourhood in kernel space. A given map is used with the model's length scale. With
        either, neighbourhoods of few points are solved in kernel space, unless `radius` is None.
    correction : bool, default=True
        Give back what the features cannot represent as independent noise.
    blend : bool, default=True
        Predictions that are continuous from centre to centre. Without, each is by the nearest centre alone, in about
        two thirds of the time.
    centers : str, int or array of shape (n_centers, n_features), default="auto"
        "grid": middles of the occupied cells of a lattice (the choice of "auto" up to three columns); "net": a greedy
        covering (its choice beyond); "farthest": farthest-point clustering; "kmeans", "random": with `n_centers`;
        "mean": a single centre; "test": the test points themselves. A number is that many farthest points. The exact
        process, where it is chosen, has one centre.
    n_centers : int or None, default=None
        For "farthest", "kmeans" and "random".
    open_centers : bool, default=True
        Open a centre for test points farther than the spacing from all others. (Where neighbourhoods are by number,
        `fit` adds centres for samples that those given leave alone.) If False, centres that are far from some samples
        make the distance from the exact process unknown, which `fit` warns of.
    noise : {"auto", "constant", "local"}, default="auto"
        "constant": of one size. "local": of a size that varies from place to place, as left-out residuals tell; it goes
        back into the fit as weights, and sample weights divide it. "auto" takes what makes left-out residuals
        significantly likelier; it may also find that all variances, and not the noise alone, have a local size. It is
        "constant" where `noise_variance` is given, for less than 50 samples, several targets, sources and tensors.
    likelihood : {"auto", "gaussian", "student"}, default="auto"
        Of observations: normal, or with the tails of Student's t, whose degrees of freedom are learnt. Unless it is
        "gaussian", gross outliers lose their weight in the fit. "auto" decides as that of `noise` does, and is
        "gaussian" where that is "constant" for lack of a choice. With one of both open, intervals are checked by
        left-out residuals, and corrected where they are off.
    target : {"identity", "log", "sqrt", "boxcox", "yeojohnson", "auto"} or transformer, default="identity"
        Increasing transformation of the target that the process is one of. Powers are learnt by likelihood, the change
        of units counted, and so is which one to take with "auto", if any. Predictions, distributions and scores are in
        the units of `y`; hyperparameters, `y_mean_` and `predict_noise` in those of the transformed target. Of arrays
        with one target.
    n_restarts : int, default=2
        Random starts of the learning, besides the systematic ones.
    time_budget : float, default=60.0
        Seconds for the whole fit: learning, choosing an approximation, solving and the noise. Infinity is no limit.
        What is done is decided by counted operations, so that a seed gives the same model on any machine; the clock
        only stops what takes too long, and a stage then goes on with what it has. Rows are always read, and one model
        is always made.
    memory_budget : float or None, default=None
        Bytes that the largest arrays of a fit may take together, at least 2**26 (64 MiB); None is a quarter of the
        machine's memory, and at most 4 GiB. A method that takes more is not chosen, or works in smaller pieces. The
        data, the model and the blocks that learning looks at, of some 3 KiB per row, come on top.
    n_jobs : int or None, default=None
        Threads; None uses every core, and in a worker of joblib what that leaves to it: one.
    random_state : int, RandomState instance or None, default=None
        For the blocks that hyperparameters are learnt from, the probes, and centres that are drawn. None is new random
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
    centers_ : ndarray of shape (n_centers, n_features)
        Around which local models are made.
    spacing_ : float or None
        Every point has a centre within it, in length scales; None for a single centre.
    radius_ : float or None
        Of the neighbourhoods, in length scales; None where they are all points, or a number of nearest ones.
    feature_map_ : LocalFeatures or None
        Features of the local models; None where all are in kernel space.
    report_ : Report
        What was chosen, why, and the measured distance from the exact Gaussian process. Print it.
    target_ : Target
        The transformation, with `forward` and `inverse`.
    noise_model_ : NoiseModel
        What left-out residuals say of the size and the tails of the noise.
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
    """

    report_: Report

    def __init__(
        self,
        *,
        length_scale: Any = None,
        signal_variance: Any = None,
        noise_variance: float | None = None,
        ard: bool | str = "auto",
        n_scales: Any = "auto",
        kernel: str = "gaussian",
        metric: str = "auto",
        anisotropy: str = "axes",
        coordinates: Any = None,
        drift: Any = "constant",
        mean: Any = None,
        mean_rounds: int = 1,
        groups: Any = None,
        tolerance: float = 1e-3,
        spacing: Any = "auto",
        radius: Any = "auto",
        features: Any = "auto",
        correction: bool = True,
        blend: bool = True,
        centers: Any = "auto",
        n_centers: int | None = None,
        open_centers: bool = True,
        noise: str = "auto",
        likelihood: str = "auto",
        target: Any = "identity",
        n_restarts: int = 2,
        time_budget: float = 60.0,
        memory_budget: float | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        progress: Any = None,
    ) -> None:
        self.length_scale = length_scale
        self.signal_variance = signal_variance
        self.noise_variance = noise_variance
        self.ard = ard
        self.n_scales = n_scales
        self.kernel = kernel
        self.metric = metric
        self.anisotropy = anisotropy
        self.coordinates = coordinates
        self.drift = drift
        self.mean = mean
        self.mean_rounds = mean_rounds
        self.groups = groups
        self.tolerance = tolerance
        self.spacing = spacing
        self.radius = radius
        self.features = features
        self.correction = correction
        self.blend = blend
        self.centers = centers
        self.n_centers = n_centers
        self.open_centers = open_centers
        self.noise = noise
        self.likelihood = likelihood
        self.target = target
        self.n_restarts = n_restarts
        self.time_budget = time_budget
        self.memory_budget = memory_budget
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.progress = progress

    @classmethod
    def from_paper(
        cls,
        n_components: int,
        *,
        sampling: str = "rademacher",
        spacing: float = 2.0,
        centers: Any = "farthest",
        **parameters: Any,
    ) -> Self:
        """Algorithm 1 of Wacker and Filippone (2022) to the letter.

        Farthest-point centroids from the training mean, one feature-space Gaussian process per centroid on all points,
        nearest-centroid prediction; no neighbourhoods and no correction. Features are optimally allocated sketches,
        or for a single column the explicit series.

        Parameters
        ----------
        n_components : int
            Number of features `D`.
        sampling : {"rademacher", "tensor_srht", "gaussian"}, default="rademacher"
        spacing : float, default=2.0
            Threshold theta of the clustering, in length scales.
        centers : str, int or array, default="farthest"
            "test" centres on each test point (the paper's method without clustering), "mean" is the plain Maclaurin
            method.
        **parameters
            Further parameters of `LocalGPRegressor`.
        """
        plain = {"noise": "constant", "likelihood": "gaussian"}
        parameters = {"n_scales": 1, "blend": False, **plain, **parameters}
        return cls(
            spacing=spacing,
            radius=None,
            features=MaclaurinFeatures(n_components, sampling=sampling, exact_degrees=0),
            correction=False,
            centers=centers,
            open_centers=False,
            **parameters,
        )

    # ---- fitting -------------------------------------------------------------------------------------------------

    @all_or_nothing
    @within_memory_budget
    def fit(
        self,
        X: Any,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        X_test: ArrayLike | None = None,
    ) -> Self:
        """Learn the hyperparameters that are not given, choose how to approximate, and condition on the data.

        Parameters
        ----------
        X : array of shape (n_samples, n_features), Dask array or data frame, or Source
            A source (see `nearfield.sources`) holds the targets and weights as well, and is never in memory as a whole.
        y : array of shape (n_samples,) or (n_samples, n_targets), or None with a source
        sample_weight : array of shape (n_samples,) or None, default=None
            Precisions: the noise variance of sample i is `noise_variance / sample_weight[i]`.
        X_test : array of shape (m, n_features) or None, default=None
            Where predictions will be asked for, or places like those: the distance from the exact process is measured
            there. None measures among the data and, up to three columns, in the gaps between them.

        Returns
        -------
        self
        """
        clock = Clock()
        source = as_source(X, y, sample_weight)
        given = X, y, sample_weight
        data: TrainingData
        self._check_target()
        self.target_ = Target()
        if source is not None:
            self._refuse_target("rows of a source")
        if source is not None and not is_plain_mean(self):
            given = X, y, sample_weight = whole_rows(self, source)
            source = None
        if source is not None:
            data = self._source_data(source, clock)
            k = len(data.mean)
        else:
            points, targets, weights = self._validate_training(X, y, sample_weight)
            targets = self._transformed(points, targets)
            k = targets.shape[1]
            targets, drift = self._without_known(targets, weights)
            points = rotated(self, points, targets, weights, drift)
            if self._check_noise() == 0:
                distinct_points(points, targets, sample_weight)  # refuses those that contradict each other
            data = self._data_of(points, targets, weights, drift)
        rngs = tuple(spawn(self.random_state, stage) for stage in ("learning", "tuning", "centres"))
        request = local_request(self, clock.start if source is None else None)
        if X_test is not None:
            request = replace(request, places=self._check_places(X_test))
        if self._has_own_variances(k):
            kernel = None
            if self.length_scale is None:
                self.learned_ = data.learn(request.learning, rngs[0])
                kernel = self.learned_.kernel
            rows = given if source is None else (source, None, None)
            return self._fit_each(k, kernel, rows, **({} if X_test is None else {"X_test": X_test}))
        options = self._noise_options(data)
        with telling(request.progress):
            fitted = fit(data, request, rngs, clock)
        self._store(replace(fitted, report=replace(fitted.report, target=self._target_in_words())))
        self.noise_model_, self._stated_noise = NoiseModel(), None
        if isinstance(data, InMemory):
            again = replace(request, learning=request.learning.as_before(fitted.learned))
            with telling(request.progress):
                self._settle_noise(data, options, lambda rows: fit(rows, again, rngs), clock, request.budget)
            report = replace(self._fitted.report, variogram=departure(self))
            self._store(replace(self._fitted, report=report))
        return self

    def _leaves_tensors(self) -> bool:
        return not is_plain_mean(self)

    def _check_places(self, X_test: Any) -> Floats:
        """Places where predictions will be asked for, as an array."""
        if is_tensor(X_test):
            X_test = as_doubles(X_test)
        try:
            places = self._checked_rows(without_geometry(self, X_test, False))
            self._check_degrees(places)
        except ValueError as error:
            raise ValueError(f"The 'X_test' argument: {error}") from None
        inner: Floats = self._inner(places)
        return inner

    def _data_of(self, X: Any, y: Any, weights: Any, drift: Floats | None = None) -> TrainingData:
        if not is_tensor(X):
            is_zero = drift is None and self.drift is None
            return InMemory(X, y, weights, np.empty((len(X), 0)) if is_zero else drift, tuple(self._grouped_columns()))
        from ..tensors.fit import TensorData

        return TensorData(X, y, weights)

    def _source_data(self, source: Source, clock: Clock) -> TrainingData:
        """Rows of a source, in memory where they are few."""
        refuse_rows_of_rotated(self)
        passes = Passes(source, self._check_progress())
        sampled = take_sample(self, passes, spawn(self.random_state, "source"))
        clock.lap("sample")
        if sampled.n > source.sample_size and self._needs_all_rows():
            sampled = all_rows(passes, sampled)
            clock.lap("rows")
        if len(sampled.rows) == sampled.n:
            rows = sampled.rows
            return self._data_of(rows.X, rows.targets, rows.weights)
        if isinstance(self.centers, str) and self.centers == "test":
            raise ValueError("centers='test' needs all training points at prediction, which a source does not keep.")
        return SourceData(passes, sampled, may_hold=local_request(self).is_free)

    def _needs_all_rows(self) -> bool:
        """Whether neighbourhoods are to be found for several length scales, which takes all points at once."""
        return (self._check_n_scales() or 1) > 1 and local_request(self).is_free

    def _store(self, fitted: FittedLocal) -> None:
        """Set the fitted attributes that users see."""
        plan = fitted.predictor.plan
        n_drift = 0 if fitted.drift is None else fitted.drift.size
        self._fitted, self.learned_ = fitted, fitted.learned
        self.y_mean_ = fitted.y_mean[: len(fitted.y_mean) - n_drift]
        self._set_hyperparameters(fitted.learned.kernel, fitted.learned.noise_variance)
        self.report_ = self._described(fitted.report)
        self.spacing_, self.radius_, self.feature_map_ = fitted.spacing, plan.radius, plan.features
        self.centers_, self._left_out = self._outer(fitted.centers), None

    @all_or_nothing
    @within_memory_budget
    def partial_fit(
        self,
        X: Any,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        forget: bool = False,
    ) -> Self:
        """Take in more data at fixed hyperparameters and centres, as if it had been there from the start.

        The first call is `fit`. Further parameters and answer are those of `fit`.

        Parameters
        ----------
        forget : bool, default=False
            Forget all earlier data first, and keep only the hyperparameters, the centres and how to approximate.
        """
        if not hasattr(self, "kernel_"):
            return self.fit(X, y, sample_weight)
        self._fitted_on_tensors(X)  # refuses a test point of another library
        if own_regressors(self):
            self._partial_fit_each(X, y, sample_weight, bool(forget))
            return self
        source = as_source(X, y, sample_weight)
        if source is not None:
            refuse_rows_of_rotated(self)
            check_fitted_on(self, source)
            if not is_plain_mean(self):
                X, y, sample_weight = whole_rows(self, source)
                source = None
        if self._predictor.keeps_points:
            fitted = self._fitted
            for rows in self._rows_of(X, y, sample_weight, source, bool(forget)):
                fitted, forget = fitted.updated(*self._weighted(rows, bool(forget)), bool(forget)), False
            if forget:  # there were no rows to take the place of the earlier ones
                nothing = np.empty((0, self._n_inner)), np.empty((0, len(fitted.y_mean)))
                fitted = fitted.updated(*nothing, None, True)
        else:
            if source is None:
                points, targets, weights = self._validate_training(X, y, sample_weight, reset=False)
                source = ArraySource(points, targets, weights, batch_size=max(len(points), 1))
                passes = Passes(source, self._check_progress())  # of points as the kernel sees them
            else:
                passes = Passes(source, self._check_progress(), rows_seen_by(self))
                self._box = None  # nobody asked how far these rows reach
            fitted = take_in(self._fitted, passes, self.n_jobs, bool(forget))
        self._store(fitted)
        if unused := fitted.predictor.n_unused():
            warn(
                f"{unused} of {fitted.predictor.n_samples} samples are in no neighbourhood, and open_centers=False "
                "opens none for them: where they are, the prior answers. Fit again, or with open_centers=True."
            )
        return self

    def _rows_of(
        self, X: Any, y: Any, sample_weight: Any, source: Source | None, forget: bool
    ) -> Iterator[tuple[Any, Any, Any]]:
        """Points, targets and weights, batch by batch where they come from a source."""
        if source is None:
            earlier, means = self._points, self._mean_rows
            points, targets, weights = self._validate_training(X, y, sample_weight, reset=False)
            self._check_targets(targets.shape[1])
            targets = self._with_drift(self._as_fitted(targets))
            self._join_earlier(None if forget else earlier, None if forget else means)
            yield points, targets, weights
            return
        for batch in source.batches(n_features=self.n_features_in_):
            self._check_targets(batch.targets.shape[1])
            self._check_degrees(batch.X, first=int(batch.ids[0]))
            points = self._inner(batch.X)
            self._box = None if self._box is None else joined(self._box, box_of(points))
            yield points, self._as_fitted(batch.targets), batch.weights

    # ---- prediction ----------------------------------------------------------------------------------------------

    def predict(
        self, X: Any, return_std: bool = False, *, return_cov: bool = False, include_noise: bool = False
    ) -> Any:
        """Posterior mean, and standard deviation or covariance on request.

        Parameters
        ----------
        X : array of shape (m, n_features), Dask array or data frame, or Source
            For a Dask collection the answers are Dask arrays, yet to be computed. `nearfield.sources.predict_to` writes
            the answers for a source to a file, instead of holding them.
        return_std : bool, default=False
        return_cov : bool, default=False
            The joint covariance of all places, that of the exact process: positive semidefinite, and as large as
            memory allows.
        include_noise : bool, default=False
            The distribution of observations instead of that of the latent function: the noise variance is added.

        Returns
        -------
        mean : ndarray of shape (m,) or (m, n_targets)
        std : ndarray of the same shape, if `return_std`
        cov : ndarray of shape (m, m) or (m, m, n_targets), if `return_cov`
        """
        self._fitted_on_tensors(X)  # refuses points of another library
        if return_cov:
            return self._predict_with_covariance(X, return_std, include_noise)
        source = as_source(X, None, None)
        if source is not None:
            return predict_source(self, source, return_std, include_noise)
        points = self._validate_test(X)
        warn_of_outside(self, points)
        return as_given(self._predict_points(points, return_std, include_noise), X)

    @by_target(side_by_side)
    def _predict_with_covariance(self, X: Any, return_std: bool, include_noise: bool) -> Any:
        if return_std:
            raise ValueError("At most one of 'return_std' and 'return_cov' can be asked for.")
        twin = twin_of(self)
        if twin is not None:
            return as_given(twin._predict_with_covariance(array_of(X), return_std, include_noise), X)
        self._need_arrays("return_cov=True")
        if as_source(X, None, None) is not None:
            raise ValueError("The covariance of all rows of a source cannot be held; ask for return_std instead.")
        points = self._validate_test(X)
        warn_of_outside(self, points)
        joint = self._covariance(points, include_noise)
        if not self._single_target:
            joint = np.repeat(joint[:, :, None], len(self.y_mean_), axis=2)
        return as_given((self._predict_points(points, False, include_noise), joint), X)

    @by_target(side_by_side)
    def _predict_points(self, X: Any, return_std: bool, include_noise: bool) -> Any:
        if not self.target_.is_identity or (return_std and not self.noise_model_.is_plain):
            # The mean is that of an observation: of a transformed target, noise moves it.
            moments = self._moments(X)
            observed = self._distribution_of(X, moments, True)
            if not return_std:
                return observed.mean
            return observed.mean, (observed if include_noise else self._distribution_of(X, moments, False)).std
        drift = self._drift_columns(X)
        mean, variance = self._fitted.predict(self._inner(X), return_std, bool(self.blend), drift)
        mean = self._shaped(mean, self._known_mean(X, drift))
        return (mean, self._std(variance, include_noise)) if return_std else mean

    def sample_y(self, X: Any, n_samples: int = 1, random_state: Any = 0, include_noise: bool = False) -> Floats:
        """Draw functions from the posterior, jointly for all places: nearby places agree, across cells too.

        Draws have the covariance of the errors of the model's mean, which is that of the posterior up to the tolerance.
        A million places cost about what a hundred targets would. `sampler` gives functions that can be asked for again.

        Parameters
        ----------
        X : array of shape (m, n_features), data frame or Source
        n_samples : int, default=1
        random_state : int, RandomState instance or None, default=0
            The same integer gives the same functions; None new ones every time.
        include_noise : bool, default=False
            Draw observations instead of the latent function.

        Returns
        -------
        samples : ndarray of shape (m, n_samples), or (m, n_targets, n_samples)
        """
        return self.sampler(n_samples, random_state)(X, include_noise)

    def sampler(self, n_samples: int = 1, random_state: Any = 0, *, exact: bool = False) -> Sampler:
        """Functions drawn from the posterior, which can be asked for anywhere and as often as need be.

        Parameters
        ----------
        n_samples : int, default=1
        random_state : int, RandomState instance or None, default=0
            The same integer gives the same functions; None new ones every time.
        exact : bool, default=False
            Solve for each function with all data, by conjugate gradients: draws of the exact process, whatever the
            tolerance. It takes about as long as a certificate of as many places (see `certify`).

        Returns
        -------
        sampler : Sampler
            `sampler(X)` has the values of all functions at places, shape (m, n_samples).
        """
        twin = twin_of(self)
        sampler = super().sampler(n_samples, random_state) if twin is None else twin.sampler(n_samples, random_state)
        sampler.exact = bool(exact)
        return sampler

    _draws_in_threads = True

    def _functions_of(self, seed: int, functions: range, exact: bool) -> Functions:
        blend, n_jobs = bool(self.blend), self.n_jobs
        draws = draw(self._fitted, seed, functions, n_jobs, self._check_progress(), exact)
        return lambda points: draws(points, blend, n_jobs)

    def _covariance(self, X: Floats, include_noise: bool) -> Floats:
        """Covariance matrix (m, m) of the exact process at checked places."""
        if not self.target_.is_identity:
            raise ValueError("return_cov=True needs target='identity'; sample_y draws from the joint distribution.")
        result = covariance(self._given(X), self._fitted.frame.points(self._inner(X)), self.n_jobs)
        result += self._covariance_of_drift(X)
        factors, diagonal = self._factors_of_function(X), np.arange(len(X))
        if factors is not None:
            result *= np.outer(factors, factors)
        result[diagonal, diagonal] = np.maximum(result[diagonal, diagonal], 0.0)
        if include_noise:
            result[diagonal, diagonal] += self._noise_at(X)
        return result

    def _given(self, X: Floats) -> Conditioning:
        """The exact process given the data that matter to checked places."""
        fitted = self._fitted
        fitted.predictor.with_points("covariances need")
        places = fitted.frame.points(self._inner(X))
        return Conditioning.near(
            fitted.frame.kernel, fitted.training_set(), places, self.n_jobs, self._check_progress()
        )

    def _variances_of_sums(self, X: Floats, groups: Groups) -> Floats | None:
        if not self.target_.is_identity:
            return None
        inside = X[groups.owner >= 0]
        places = self._fitted.frame.points(self._inner(X))
        factors = self._factors_of_function(X)
        process = groups.variances(self._given(inside), places, self.n_jobs, factors)
        return process + self._variances_of_drift(X, groups, factors)

    def _gradients(self, X: Floats, with_covariance: bool) -> tuple[Floats, Floats | None]:
        if not self.target_.is_identity:
            raise ValueError("predict_gradient needs target='identity': a transformed target has no closed form.")
        self._predictor.with_points("predict_gradient needs", at_least=0)
        return gradients(self._fitted, X, with_covariance, bool(self.blend))

    def _bytes_per_function(self) -> float:
        self._predictor.with_points("samples need")
        return bytes_per_function(self._fitted)

    @by_target(Certificate.of_targets)
    def certify(self, X: Any, n_probes: int = 64, random_state: Any = None) -> Certificate:
        """Hold the model against the exact Gaussian process of all training data, at a sample of places.

        The exact process is solved by preconditioned conjugate gradients, whose residual bounds its own error: a
        certificate, where `report_` is an estimate. Distances are of noisy observations and of the function, at the
        fitted hyperparameters and at these places; nothing is proved of others. It takes time for each place, and needs
        the short length scales not to reach across too many pairs of points.

        Parameters
        ----------
        X : array of shape (m, n_features)
            Places of interest.
        n_probes : int, default=64
            Number of them that are drawn.
        random_state : int, RandomState or None, default=None
            For the draw; None is new random numbers every time, and never NumPy's global ones.

        Returns
        -------
        Certificate
        """
        self._fitted_on_tensors(X)
        points = self._validate_test(X)
        if len(points) == 0:
            raise ValueError("The 'X' argument has no places to certify.")
        if not is_whole(n_probes, 1):
            raise ValueError(f"The 'n_probes' argument must be an integer of at least 1. Got {n_probes!r}.")
        return self._certify_points(points, n_probes, random_state)

    @by_target(summed)
    def log_marginal_likelihood(self, eval_gradient: bool = False) -> Any:
        """Log marginal likelihood of the training data at the fitted hyperparameters (summed over targets).

        It is that of cells of points in random order, each given the nearest points of earlier cells: exact up to a
        thousand points, and beyond as near as the points next to a cell say what all earlier ones do.

        Parameters
        ----------
        eval_gradient : bool, default=False
            Also the derivatives in the logarithms of all length scales, signal variances, and the noise variance.

        Returns
        -------
        value : float
        gradient : ndarray of shape (n_hyperparameters,), if `eval_gradient`
        """
        check_is_fitted(self, "kernel_")
        return self._log_likelihood_of_rows(bool(eval_gradient))

    def _certify_points(self, X: Any, n_probes: int = 64, random_state: Any = None) -> Certificate:
        fitted, places = self._fitted, as_doubles(X)
        fitted.predictor.with_points("certify needs")
        if len(places) > n_probes:
            rng = check_random_state(random_state)
            places = places[np.sort(rng.choice(len(places), n_probes, replace=False))]

        def predict(_: Floats) -> Any:
            mean, variance = self._moments(like(places, X))  # as the process has it, whatever the noise is like
            return mean, self._std(variance, False)

        given = (predict, self.n_jobs, self._check_progress(), self._drift_columns(places), self._known_mean(places))
        certificate = certify(fitted, self._inner(places), *given)
        return replace(certificate, X=places)

    @by_target(of_the_first)
    def _training_points(self) -> Floats | None:
        if not self._predictor.keeps_points:
            return None
        if self._points is not None:
            return self._points
        result: Floats = self._outer(self._fitted.frame.positions(self._predictor.with_points("this needs", 0).data.X))
        return result

    @property
    def _predictor(self) -> Predictor:
        return self._fitted.predictor
