"""What the regressors share: validation, hyperparameters given or learnt, and the shape of answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.metrics import r2_score
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, check_X_y

from ..common import memory
from ..common.arrays import Array, as_doubles, empty_like_shape, indices_like, is_tensor, like, namespace, side_by_side
from ..common.axes import axis_names, turned
from ..common.budget import Progress
from ..common.progress import display
from ..common.sphere import N_CHORD_COLUMNS, Sphere
from ..common.types import Floats
from ..common.validation import (
    as_numbers,
    check_integer,
    check_n_targets,
    check_option,
    check_random_state,
    check_time_budget,
    describe,
    is_whole,
    refuse_gaps,
    refuse_masked,
    refuse_without_squares,
    spawn,
    validated,
    without_na,
)
from ..hyperparameters.blocks import Block
from ..hyperparameters.learning import Fixed, Learned, LearningRequest, learn_hyperparameters
from ..kernels import Kernel
from ..kernels.families import FAMILIES
from ..reporting.inputs import axes_in_words, named_length_scales
from ..reporting.report import Report
from ..reporting.summary import ON_HOST
from ..solvers.drift import UniversalKriging
from ..solvers.feature_space import FeatureSpace
from ..solvers.kernel_space import KernelSpace
from .areas import Aggregated
from .by_target import by_target, own_regressors
from .columns import has_roles, with_design
from .covariates import WithDrift
from .discrete import warn_of_discrete
from .extent import box_of, joined, warn_of_outside, warn_of_unlike_columns
from .gradients import Sloping
from .learnt import Learnt
from .places import framed, sphere_for, without_geometry
from .probabilities import Probabilistic
from .rotated import BUDGET_SHARE, check_rotated, is_rotated
from .samples import Sampled, check_n_samples, seeds_of_targets
from .several import SeveralTargets
from .twins import array_of, as_given

JOINT_UP_TO = 2000  # places, whose covariance matrix is cheaper than functions


class GPRegressor(
    SeveralTargets,
    WithDrift,
    Probabilistic,
    Sampled,
    Aggregated,
    Sloping,
    Learnt,
    MultiOutputMixin,  # type: ignore[misc]
    RegressorMixin,  # type: ignore[misc]
    BaseEstimator,  # type: ignore[misc]
):
    """Base of the Gaussian-process regressors."""

    kernel_: Kernel
    noise_variance_: float
    y_mean_: Floats
    learned_: Learned
    groups: Any = None
    _sphere: Sphere | None = None  # how columns are places on the earth
    _rotation: Floats | None = None  # directions (d, d) of the axes that the kernel sees
    _box: Floats | None = None  # where the data are
    _is_noise_of_others = False  # whether the noise variance given was learnt from other data like these
    _is_host_of_tensors = False  # whether tensors were given, and arrays on the host are computed with

    def __init__(
        self,
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
        noise: str = "constant",
        likelihood: str = "gaussian",
        n_restarts: int = 2,
        time_budget: float = 60.0,
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
        self.noise = noise
        self.likelihood = likelihood
        self.n_restarts = n_restarts
        self.time_budget = time_budget
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.progress = progress

    # ---- training data -------------------------------------------------------------------------------------------

    def _validate_training(
        self, X: ArrayLike, y: ArrayLike | None, sample_weight: ArrayLike | None, reset: bool = True
    ) -> tuple[Floats, Floats, Floats | None]:
        """Training points (n, d), targets (n, k), weights (n,) or None, without points of weight 0.

        Tensors stay what they are; all else becomes float64. Places on the earth become points of the sphere.
        """
        points, targets, weights = self._rows_with_roles(X, y, sample_weight, reset)
        if reset and not is_tensor(targets):
            warn_of_discrete(targets, getattr(self, "target", "identity") != "identity")
        if reset:
            self._sphere, self._rotation = sphere_for(self, self._places(points)), None
        self._check_degrees(points)
        inner = self._inner(points)
        box = box_of(inner)
        if reset:
            check_rotated(self, inner)
            if self._sphere is None and self.length_scale is None and (self.ard is False or is_rotated(self)):
                warn_of_unlike_columns(self._places(points), self._coordinate_names(), is_rotated(self))
        self._box = box if reset or self._box is None else joined(self._box, box)
        return inner, targets, weights

    def _rows_with_roles(
        self, X: ArrayLike, y: ArrayLike | None, sample_weight: ArrayLike | None, reset: bool
    ) -> tuple[Floats, Floats, Floats | None]:
        """The same with points in the columns that were given; `reset` finds out what those are for."""
        points, targets, weights = self._checked_training(X, y, sample_weight, reset)
        if self._roles is not None:
            if reset:
                self._roles = with_design(self, self._roles, points)
            self._points = points
        return points, targets, weights

    def _box_of_data(self) -> Floats | None:
        """Least and largest value of the columns of the data, as the kernel sees them; None where it is not known."""
        points = self._training_points() if self._box is None else None  # earlier model files do not tell it
        if points is not None and len(points):
            self._box = box_of(self._inner(points))
        return self._box

    def _checked_training(
        self, X: ArrayLike, y: ArrayLike | None, sample_weight: ArrayLike | None, reset: bool
    ) -> tuple[Floats, Floats, Floats | None]:
        """The same in the columns that were given."""
        if reset:
            self.__dict__.pop("_is_host_of_tensors", None)
            if is_tensor(X) and self._leaves_tensors():
                self._is_host_of_tensors = True
        if is_tensor(X):
            from ..common import tensor_checks

            if not self._is_host_of_tensors:
                return tensor_checks.training(self, X, y, sample_weight, reset)
            X, y, sample_weight = tensor_checks.training_on_host(self, X, y, sample_weight)
        for name, values in (("X", X), ("y", y), ("sample_weight", sample_weight)):
            refuse_masked(values, name)
        X = without_geometry(self, X, reset)
        least = self._least_samples() if reset else 1
        options = {"dtype": np.float64, "multi_output": True, "y_numeric": True, "ensure_min_samples": least}
        if has_roles(self) if reset else self._roles is not None:
            points = self._encoded(X, reset)
            if y is None:
                raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None.")
            y = without_na(y)
            refuse_gaps(y, "y")
            points, targets = check_X_y(points, y, estimator=self, ensure_all_finite="allow-nan", **options)
        else:
            points, targets = validated(self, X, y, reset=reset, **options)
        refuse_without_squares(np.asarray(targets))
        if reset:
            self._single_target = targets.ndim == 1
        targets = targets.reshape(len(targets), -1).astype(np.float64, copy=False)
        if sample_weight is None:
            return points, targets, None
        weights = _check_sample_weight(without_na(sample_weight), points, dtype=np.float64, ensure_non_negative=True)
        used = weights > 0
        if used.sum() < least:
            raise ValueError(
                f"The 'sample_weight' argument must be positive for at least {least} sample{'s' * (least > 1)}."
            )
        return points[used], targets[used], weights[used]

    def _leaves_tensors(self) -> bool:
        """Whether tensors are turned into arrays on the host: where columns have roles."""
        return has_roles(self)

    def _least_samples(self) -> int:
        """Number of samples that a fit needs: from one alone nothing can be learnt."""
        given = (self.length_scale, self.signal_variance, self.noise_variance)
        return 2 if any(value is None for value in given) else 1

    def _check_targets(self, k: int) -> None:
        """Refuse other numbers of targets than those fitted."""
        check_n_targets(k, len(self.y_mean_))

    def _validate_test(self, X: ArrayLike) -> Array:
        check_is_fitted(self, "kernel_")
        if is_tensor(X) and not self._is_host_of_tensors:
            from ..common import tensor_checks

            points = tensor_checks.test(self, X, self.y_mean_)
        else:
            X = without_geometry(self, array_of(X), reset=False)
            points = self._checked_rows(X, ensure_min_samples=0)
        self._check_degrees(points)
        return points

    def _checked_rows(self, X: Any, **options: Any) -> Floats:
        """Rows (m, n_features) of a table or an array as numbers, in the columns that `fit` was given."""
        refuse_masked(X, "X")
        if self._roles is not None:
            return self._encoded(X, reset=False)
        points: Floats = validated(self, X, dtype=np.float64, reset=False, **options)
        return points

    # ---- places on the earth -------------------------------------------------------------------------------------

    @property
    def metric_(self) -> str:
        """How distances are measured: "euclidean", or "sphere" in km."""
        return "euclidean" if self._sphere is None else "sphere"

    def _check_degrees(self, X: Array, first: int = 0) -> None:
        if self._sphere is not None:
            self._sphere.check(self._places(X), self._coordinate_names(), lambda i: f"row {first + i}")

    def _inner(self, X: Array) -> Array:
        """Columns as the kernel sees them, of rows (n, n_features): on the sphere, x, y and z in km come first."""
        return self._seen(self._places(X))

    def _seen(self, places: Array) -> Array:
        """The same of coordinates."""
        if self._rotation is not None:
            return turned(places, self._rotation)
        return places if self._sphere is None else self._sphere.points(places)

    def _outer(self, points: Array) -> Array:
        """The inverse of `_seen`."""
        if self._rotation is not None:
            return turned(points, self._rotation.T)
        return points if self._sphere is None else self._sphere.places(points)

    @property
    def rotation_(self) -> Floats:
        """Directions (d, d) of the axes that length scales belong to, one per row, in the coordinates."""
        if self._rotation is None:
            raise AttributeError("rotation_ is of models fitted with anisotropy='rotated'.")
        return self._rotation

    @property
    def _n_inner(self) -> int:
        """Number of columns that the kernel sees."""
        return len(self.coordinates_) + (self._sphere is not None)

    def _inner_names(self) -> Any:
        names = self._coordinate_names()
        if self._rotation is not None:
            return axis_names(self._rotation)
        if self._sphere is None:
            return names
        return self._sphere.names([f"x{j}" for j in self.coordinates_] if names is None else list(names))

    # ---- hyperparameters -----------------------------------------------------------------------------------------

    def _learn(
        self,
        X: Floats,
        y: Floats,
        weights: Floats | None,
        make_blocks: Callable[[bool], list[Block]] | None = None,
        drift: Floats | None = None,
        again: bool = False,
    ) -> None:
        """Set `kernel_`, `noise_variance_` and `learned_` from the parameters or the data; `y` is centred.

        `make_blocks` is for data that are a sample of a stream; `drift` are columns (n, p) of unknown coefficients; see
        `learn_hyperparameters`. Where the same data are learnt from `again`, with other weights, columns share a length
        scale, or do not, as before.
        """
        request = self._learning_request(X.shape[1])
        if again:
            request = request.as_before(self.learned_)
        rng = spawn(self.random_state, "learning")
        if is_tensor(X):
            from ..tensors.learning import learn

            self._set_learned(learn(X, y, weights, request, rng))
        else:
            self._set_learned(learn_hyperparameters(X, y, weights, request, rng, make_blocks=make_blocks, drift=drift))

    def _learning_request(self, d: int) -> LearningRequest:
        """The parameters that learning from `d` columns depends on, checked."""
        fixed, n_given = self._check_hyperparameters(d)
        ard, is_turned = self._check_ard(), self._rotation is not None  # which took its share of the time
        return LearningRequest(
            fixed,
            self._check_n_scales(),
            n_given,
            (ard is True or is_turned) if self._sphere is None else d > N_CHORD_COLUMNS,
            check_integer(self, "n_restarts", 0),
            check_time_budget(self) * (1 - BUDGET_SHARE if is_turned else 1),
            self.n_jobs,
            self._check_progress(),
            self._inner_names(),
            self._check_kernel(),
            0 if self._sphere is None else N_CHORD_COLUMNS,
            ard == "auto" and self._sphere is None and not is_turned,
        )

    def _check_ard(self) -> bool | str:
        """Whether each column has a length scale of its own, or "auto"."""
        if isinstance(self.ard, str):
            if self.ard == "auto":
                return self.ard
        elif isinstance(self.ard, bool | np.bool_):
            return bool(self.ard)
        raise ValueError(f"{describe(self, 'ard')} must be True, False or 'auto'. Got {self.ard!r}.")

    @property
    def ard_(self) -> bool:
        """Whether each column has a length scale of its own; on the sphere, longitude and latitude have one."""
        return bool(self.kernel_.length_scales.shape[1] > 1)

    def _set_learned(self, learned: Learned) -> None:
        self.learned_ = learned
        self._set_hyperparameters(learned.kernel, learned.noise_variance)

    def _check_progress(self) -> Progress | None:
        """What to call; True is a line on standard error."""
        if isinstance(self.progress, bool):
            return display() if self.progress else None
        if self.progress is not None and not callable(self.progress):
            raise ValueError(f"{describe(self, 'progress')} must be None, True or callable. Got {self.progress!r}.")
        result: Progress | None = self.progress
        return result

    def _set_hyperparameters(self, kernel: Kernel, noise_variance: float) -> None:
        self.kernel_, self.noise_variance_ = kernel, noise_variance
        self.length_scale_, self.signal_variance_ = self._plain(kernel)

    def _plain(self, kernel: Kernel) -> tuple[Any, Any]:
        """Length scale and signal variance as users see them; that of the sphere, in km, comes first."""
        if self._sphere is not None and kernel.length_scales.shape[1] > 1:
            kernel = replace(kernel, length_scales=kernel.length_scales[:, N_CHORD_COLUMNS - 1 :])
        return kernel.plain()

    def _check_hyperparameters(self, d: int) -> tuple[Fixed, int]:
        """Hyperparameters that are given, and the number of Gaussians (1 where it is to be learnt)."""
        n_scales = self._check_n_scales() or 1
        lengths, variances = self._check_length_scales(d, n_scales), self._check_variances()
        if variances is not None and len(variances) != n_scales:
            raise ValueError(
                f"{describe(self, 'signal_variance')} must have one entry per scale: {n_scales} expected. "
                f"Got {self.signal_variance!r}."
            )
        return Fixed(lengths, variances, self._check_noise()), n_scales

    def _check_kernel(self) -> str:
        """Family of the kernel, or "auto"."""
        return check_option(self, "kernel", ("auto", *FAMILIES))

    def _check_n_scales(self) -> int | None:
        """Number of Gaussians; None is to be learnt.

        The defaults of `n_scales` give way to what is given: there are as many as signal variances, or else as rows of
        length scales.
        """
        is_auto = isinstance(self.n_scales, str) and self.n_scales == "auto"
        if not is_auto and not is_whole(self.n_scales, 1):
            raise ValueError(
                f"{describe(self, 'n_scales')} must be 'auto' or an integer of at least 1. Got {self.n_scales!r}."
            )
        if is_auto or self.n_scales == 1:
            variances = self._check_variances()
            if variances is not None:
                return len(variances)
            if self.length_scale is not None:
                lengths = self._positives("length_scale", self.length_scale)
                return len(lengths) if lengths.ndim == 2 else 1
        return None if is_auto else int(self.n_scales)

    def _check_variances(self) -> Floats | None:
        """Signal variances (J,), where they are given."""
        if self.signal_variance is None:
            return None
        variances = self._positives("signal_variance", self.signal_variance)
        if variances.ndim != 1:
            raise ValueError(f"{describe(self, 'signal_variance')} must be a positive number, or one per scale.")
        return variances

    def _check_length_scales(self, d: int, n_scales: int) -> Floats | None:
        """Length scales (J, 1) or (J, d), where they are given."""
        if self.length_scale is None:
            return None
        lengths = self._positives("length_scale", self.length_scale)
        if lengths.ndim == 1:
            lengths = lengths[None, :] if n_scales == 1 else lengths[:, None]
        n_groups, per_column = d, "one per column of X"
        if self._sphere is not None:  # one for the three of the sphere, then one per further column
            n_groups, per_column = d - N_CHORD_COLUMNS + 1, "one in km for the sphere, then one per further column"
            if lengths.ndim == 2 and lengths.shape[1] == n_groups > 1:
                lengths = np.repeat(lengths, [N_CHORD_COLUMNS, *[1] * (n_groups - 1)], axis=1)
        if lengths.ndim == 2 and len(lengths) == n_scales and lengths.shape[1] in (1, d):
            return lengths
        expected = f"a positive number, or {n_groups} of them ({per_column})"
        if n_scales == 1:
            hint = "for several scales, give as many signal variances or n_scales as well"
        else:
            expected = f"{n_scales} positive numbers (one per scale), or as many rows of {n_groups} ({per_column})"
            hint = "signal_variance and n_scales tell how many scales there are"
        raise ValueError(f"{describe(self, 'length_scale')} must be {expected}; {hint}. Got {self.length_scale!r}.")

    def _positives(self, name: str, value: Any) -> Floats:
        numbers = np.atleast_1d(as_numbers(value))
        if numbers.size == 0 or not np.all((numbers > 0) & np.isfinite(numbers)):
            raise ValueError(
                f"{describe(self, name)} must be None (to learn it) or positive and finite. Got {value!r}."
            )
        return numbers

    def _check_noise(self) -> float | None:
        value: Any = self.noise_variance
        if value is None:
            return None
        if not isinstance(value, Real) or isinstance(value, bool) or not (0 <= float(value) < np.inf):
            raise ValueError(
                f"{describe(self, 'noise_variance')} must be None (to learn it) or a finite number of at least 0. "
                f"Got {value!r}. Noise that differs from sample to sample goes into fit's sample_weight."
            )
        return float(value)

    def _knows_noise(self) -> bool:
        """Whether who gave the noise variance knows the noise, so that "auto" has nothing to find out of it."""
        return self._check_noise() is not None and not self._is_noise_of_others

    def _described(self, report: Report) -> Report:
        """A report that names the columns of the length scales, and their ranges, as users see them."""
        names, _ = named_length_scales(self)
        extents: list[float] = []
        box = self._box_of_data() if len(names) > 1 else None
        if box is not None:
            ranges = box[1] - box[0]
            of_earth = [] if self._sphere is None else [float(np.linalg.norm(ranges[:N_CHORD_COLUMNS]))]
            extents = [*of_earth, *ranges[N_CHORD_COLUMNS if of_earth else 0 :].tolist()]
        return replace(
            report,
            n_features=self.n_features_in_,
            hyperparameters={**report.hyperparameters, "length_scale": self.length_scale_},
            columns=tuple(names) if len(names) > 1 else (),
            extents=tuple(extents) if len(extents) == len(names) else (),
            metric=self.metric_,
            rotation=axes_in_words(self),
            silent=self._silent_columns(),
            ard_reason=getattr(getattr(self, "learned_", None), "ard_reason", ""),
            drift=self.drift_coef_.first_target() if hasattr(self, "drift_coef_") else (),
            host=ON_HOST if self._is_host_of_tensors else "",
        )

    def _silent_columns(self) -> tuple[int, ...]:
        """Columns that learning found to have no effect, by the numbers of their length scales."""
        first = 0 if self._sphere is None else N_CHORD_COLUMNS - 1  # x, y and z of the earth share one
        learned = getattr(self, "learned_", None)
        return () if learned is None else tuple(column - first for column in learned.silent)

    def _noise_of(self, X: Array, weights: Array | None) -> Array:
        """Noise variance (n,) of each sample."""
        noise = like(np.full(len(X), self.noise_variance_), X)
        return noise if weights is None else noise / weights

    # ---- answers -------------------------------------------------------------------------------------------------

    def score(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Coefficient of determination R^2 of the means at `X`."""
        if not is_tensor(X):
            return float(super().score(X, without_na(y), without_na(sample_weight)))
        from ..common.tensor_checks import companion

        mean, truth = as_doubles(self.predict(X)), as_doubles(companion(y, X, "y"))
        weights = None if sample_weight is None else as_doubles(companion(sample_weight, X, "sample_weight"))
        return float(r2_score(truth, mean, sample_weight=weights))

    def _need_arrays(self, method: str) -> None:
        check_is_fitted(self, "kernel_")
        if is_tensor(self.y_mean_):
            raise ValueError(f"{method} needs a model fitted on NumPy arrays; this one was fitted on tensors.")

    def _fitted_on_tensors(self, X: Any) -> None:
        """Refuse points of another library than those fitted on; where tensors are left, either will do."""
        check_is_fitted(self, "kernel_")
        if not self._is_host_of_tensors and (is_tensor(self.y_mean_) or is_tensor(X)):
            from ..common import tensor_checks

            tensor_checks.same_library(self, X, is_tensor(self.y_mean_))

    def predict_frame(self, X: ArrayLike, *, level: float = 0.95, include_noise: bool | None = None) -> Any:
        """Predictions as a pandas DataFrame, with the index of `X` where that is one.

        Parameters
        ----------
        X : array or DataFrame of shape (m, n_features)
        level : float, default=0.95
            Probability of the central interval from `lower` to `upper`.
        include_noise : bool, default=None
            Standard deviations and intervals of observations; otherwise of the function without noise. None is True
            now, with a warning, and will be False: then noise is left out everywhere unless it is asked for.

        Returns
        -------
        frame : DataFrame with columns mean, std, lower and upper; for several targets mean_0, std_0, ...
        """
        from ..reporting.frames import predict_frame

        return framed(X, predict_frame(self, X, level, include_noise))

    def predict_grid(
        self,
        axes: Any = None,
        *,
        size: Any = 100,
        spacing: Any = None,
        include_noise: bool = False,
        like: Any = None,
        mask: Any = None,
        polygon: Any = None,
        max_distance: float | None = None,
        max_std: float | None = None,
        progress: Any = None,
    ) -> Any:
        """Predictions on a grid as an xarray Dataset, which `to_netcdf` saves.

        Parameters
        ----------
        axes : mapping of column name to coordinates, or a sequence with an entry per column, default=None
            Coordinates are an array of numbers, a pair `(low, high)` written as a tuple, a single number (the column
            is held there and is no axis of the grid), or None: the range of the training data, as for columns left
            out; a column that is constant there is held. Columns without names are x0, x1, ... Covariates of a drift,
            which are no coordinates, are held at their median or most common category where they are left out.
        size : int or mapping of column name to int, default=100
            Number of points along axes that are given by their range.
        spacing : float or mapping of column name to float, default=None
            Distance between points along such axes, instead of `size`.
        include_noise : bool, default=False
            Standard deviations of observations instead of the function without noise.
        like : xarray DataArray or Dataset, default=None
            Template: its coordinates are those of the columns of the same names, and names, order and further
            coordinates (such as a coordinate reference system) of the grid are as there.
        mask : array or DataArray of bool, default=None
            Where to predict, in the shape of the grid; NaN elsewhere.
        polygon : geometry of Shapely or GeoPandas, or array of shape (k, 2), default=None
            Predict inside of this outline only, in the units of the axes.
        max_distance : float, default=None
            Predict no farther from the training data than this; in km on the sphere.
        max_std : float, default=None
            Show no predictions whose standard deviation is larger.
        progress : callable, True or None, default=None
            Called as `progress("predicting", done)` with `done` from 0 to 1; True is a line on standard error.

        Returns
        -------
        grid : xarray Dataset with variables `mean` and `std`, a dimension per axis, and `target` for several targets
        """
        from ..reporting.grids import predict_grid

        masks = (mask, polygon, max_distance, max_std)
        return predict_grid(self, axes, size, spacing, include_noise, like, *masks, progress)

    def to_html(self, path: Any = None, X: ArrayLike | None = None, y: ArrayLike | None = None, **options: Any) -> Any:
        """Write a page that explains this model, with scores on `X` and `y`; see `nearfield.webpage.write`.

        Without a path the page is given back, a string that notebooks show as what it is.
        """
        from ..reporting.page import build, write

        if path is None:
            return build(self, X, y, **options)
        write(self, path, X, y, **options)
        return None

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        """Show scikit-learn's diagram in notebooks, and for a fitted model what it says of itself."""
        from ..reporting.frames import report_table

        bundle: dict[str, str] = super()._repr_mimebundle_(**kwargs)
        if "text/html" in bundle:
            bundle["text/html"] += report_table(self)
        return bundle

    def _repr_html_inner(self) -> str:
        """Answer the same for what asks for `_repr_html_` alone."""
        from ..reporting.frames import report_table

        return f"{super()._repr_html_inner()}{report_table(self)}"

    def _training_points(self) -> Floats | None:
        """Points (n, d) that the model was fitted on, where it keeps them."""
        return None

    def _shaped(self, mean: Array, known: Floats | None = None) -> Array:
        """Means with the targets' own mean put back, and what else was taken out, (m, k), in their shape."""
        if known is not None:
            mean = mean + known
        mean = self._finite(mean + self.y_mean_)
        return mean[:, 0] if self._single_target else mean

    def _std(self, variance: Array, include_noise: bool) -> Array:
        xp = namespace(variance)
        std = xp.sqrt(self._finite(xp.clip(variance, 0.0, None) + (self.noise_variance_ if include_noise else 0.0)))
        return std if self._single_target else xp.repeat(std[:, None], len(self.y_mean_), axis=1)

    def _finite(self, values: Array) -> Array:
        """The same, unless some are no numbers that anyone could use."""
        xp = namespace(values)
        if not bool(xp.all(xp.isfinite(values))):
            raise ValueError(
                f"The predictions of this {type(self).__name__} are not finite: numbers of X, or of the data it was "
                "fitted to, are too large or too small to compute with."
            )
        return values


class JointGPRegressor(GPRegressor):
    """A regressor that knows the joint distribution of many test points, and so can draw functions.

    A subclass gives `_rows(X)`, what its posterior takes in place of points, and `_n_rows()`, the posterior's size.
    """

    _posterior: KernelSpace | FeatureSpace | UniversalKriging

    def _wide(self, X: Array) -> Array:
        """Rows (m, n_features) as the kernel sees them, followed by their drift columns: what `_rows` takes."""
        inner, drift = self._inner(X), self._drift_columns(X)
        return inner if drift is None else np.column_stack([inner, drift])

    def _rows(self, X: Array) -> Array:
        raise NotImplementedError

    def _n_rows(self) -> int:
        raise NotImplementedError

    @by_target(side_by_side)
    def _predict(self, X: Any, return_std: bool, return_cov: bool, include_noise: bool) -> Any:
        """Posterior at points in memory; see `ExactGPRegressor.predict`."""
        if return_std and return_cov:
            raise ValueError("At most one of 'return_std' and 'return_cov' can be asked for.")
        X = self._validate_test(X)
        warn_of_outside(self, X)
        if not return_cov:
            return self._predict_points(X, return_std, include_noise)
        m, k = len(X), len(self.y_mean_)
        memory.require(
            X.dtype.itemsize * m * (2.0 * m * k + 2 * self._n_rows()),
            f"The covariance matrix of {m} points",
            "return_std=True gives the standard deviations alone, whatever the number of points.",
            X.device,
        )
        rows = self._rows(self._wide(X))
        mean = self._shaped(self._posterior.mean(rows)[:, :k], self._known_mean(X))
        covariance = self._posterior.covariance(rows)
        xp, diagonal = namespace(X), indices_like(range(m), X)
        # Rounding must not make a variance negative.
        variance = xp.clip(covariance[diagonal, diagonal], 0.0, None)
        covariance[diagonal, diagonal] = variance + (like(self._noise_at(X), X) if include_noise else 0.0)
        return mean, covariance if self._single_target else xp.repeat(covariance[:, :, None], k, axis=2)

    def _predict_points(self, X: Array, return_std: bool, include_noise: bool) -> Any:
        known, X = self._known_mean(X), self._wide(X)
        mean, variance = (empty_like_shape(shape, X) for shape in ((len(X), len(self.y_mean_)), (len(X),)))
        for chunk in self._chunks(X):
            rows = self._rows(X[chunk])
            if return_std:
                means, variance[chunk] = self._posterior.mean_and_variance(rows)
            else:
                means = self._posterior.mean(rows)
            mean[chunk] = means[:, : mean.shape[1]]  # the constant may come after the targets
        mean = self._shaped(mean, known)
        return (mean, self._std(variance, include_noise)) if return_std else mean

    def _chunks(self, X: Array) -> list[slice]:
        """Runs of points that the posterior takes at once."""
        return memory.batches(len(X), memory.rows_per_chunk(4 * X.dtype.itemsize * self._n_rows(), len(X), X.device))

    def sample_y(self, X: ArrayLike, n_samples: int = 1, random_state: Any = 0, include_noise: bool = False) -> Array:
        """Draw functions from the posterior.

        Up to two thousand places, values come from their joint covariance; beyond, from functions that are drawn first,
        as `sampler` has them.

        Parameters
        ----------
        X : array of shape (m, n_features)
        n_samples : int, default=1
        random_state : int, RandomState instance or None, default=0
            The same integer gives the same functions; None new ones every time.
        include_noise : bool, default=False
            Draw observations instead of the latent function.

        Returns
        -------
        samples : ndarray of shape (m, n_samples), or (m, n_targets, n_samples)
        """
        check_n_samples(n_samples)
        ones = own_regressors(self)
        if ones:
            draws = zip(ones, seeds_of_targets(random_state, len(ones)), strict=True)
            return np.stack([one.sample_y(X, n_samples, seed, include_noise) for one, seed in draws], axis=1)
        if self._is_host_of_tensors and is_tensor(X):
            return as_given(self.sample_y(array_of(X), n_samples, random_state, include_noise), X)
        by_rule = self._draws_by_rule(X) or (include_noise and not self.noise_model_.is_plain)
        if not is_tensor(X) and by_rule:
            return self.sampler(n_samples, random_state)(X, include_noise)
        mean, covariance = self.predict(X, return_cov=True, include_noise=include_noise)
        rng = check_random_state(random_state)
        m, k = len(mean), len(self.y_mean_)
        root = _square_root(covariance.reshape(m, m, k)[:, :, 0])  # targets share it
        draws = (root @ like(rng.standard_normal((m, k * n_samples)), root)).reshape(m, k, n_samples)
        draws += mean.reshape(m, k, 1)
        return draws[:, 0] if mean.ndim == 1 else draws

    def _draws_by_rule(self, X: Any) -> bool:
        """Whether functions are drawn first and asked for then, rather than all values from their covariance."""
        return len(X) > JOINT_UP_TO if hasattr(X, "__len__") else False


def _square_root(covariance: Array) -> Array:
    """`S` with `S S' = covariance`, for matrices that may be singular."""
    xp = namespace(covariance)
    values, vectors = xp.linalg.eigh(covariance)
    return vectors * xp.sqrt(xp.clip(values, 0.0, None))
