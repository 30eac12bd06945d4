"""Columns with roles, a drift and a mean model: what the regressors share of these."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_array, validate_data

from ..common.arrays import Array, weighted_mean
from ..common.derivatives import along_columns
from ..common.parts import Part, PredictedParts
from ..common.types import Floats
from ..common.validation import check_integer, describe, spawn
from ..features.design import TransformedDesign, dependent_columns
from ..reporting.coefficients import DriftCoefficients
from ..solvers.drift import Coefficients
from .area_groups import Groups
from .by_target import by_target
from .columns import UNSEEN, Roles, has_roles, is_transformer, roles_of, with_design
from .mean_model import boosting, cross_fitted, predicted
from .twins import as_given

SOURCES = "rows of a source or a Dask collection"
Moments = tuple[Floats, Floats]
"""Means (m, k) and variances (m,)."""


def _by_name(answers: list[dict[str, float]]) -> dict[str, Any]:
    return {name: np.array([each[name] for each in answers]) for name in answers[0]}


class WithDrift:
    """A regressor with parameters `coordinates`, `drift`, `groups` and `mean`.

    A subclass gives `_drift_sums()` and `_parts_at(X)`.
    """

    coordinates: Any
    drift: Any
    mean: Any
    mean_rounds: int
    groups: Any = None
    random_state: Any
    mean_: Any
    y_mean_: Floats
    n_features_in_: int
    _single_target: bool
    _roles: Roles | None = None  # what columns are for, where not all are for the process alone
    _array_names: Any = None  # what columns of an array are called in messages, where a caller knows
    _points: Floats | None = None  # training rows in all columns, where they have roles
    _trend: Floats | None = None  # coefficients (p, k) of the drift that are taken out of the targets before all else
    _mean_rows: Floats | None = None  # what a mean model says of each training row (n, k), not having seen it

    @property
    def coordinates_(self) -> Any:
        """Numbers of the columns of X that the process lives in."""
        return np.arange(self.n_features_in_) if self._roles is None else np.array(self._roles.coordinates)

    @property
    @by_target(DriftCoefficients.of_targets)
    def drift_coef_(self) -> DriftCoefficients:
        """Coefficients of the drift with standard errors; print it, or ask for `drift_coef_.to_frame()`."""
        sums = self._drift_sums() if hasattr(self, "kernel_") else None
        if sums is None or self._roles is None or self._roles.design is None or self._trend is None:
            raise AttributeError("drift_coef_ is of models fitted with a drift of columns, as by drift='linear'.")
        to_given = self._roles.design.to_given
        p = self._roles.n_drift
        values = to_given @ (sums.mean + self._trend)[:p]
        values = values[:, 0] if self._single_target else values
        return DriftCoefficients(self._roles.design.names, values, to_given @ sums.covariance[:p, :p] @ to_given.T)

    @property
    @by_target(DriftCoefficients.of_targets)
    def group_effects_(self) -> DriftCoefficients:
        """Effects of the levels of all groups, with standard errors; print it."""
        sums, roles = self._group_sums()
        assert roles.groups is not None
        kept = [i for i, name in enumerate(roles.groups.names) if not name.endswith(f"={UNSEEN}")]
        rows = [roles.n_drift + i for i in kept]
        values = sums.mean[rows, 0] if self._single_target else sums.mean[rows]
        names = tuple(roles.groups.names[i] for i in kept)
        return DriftCoefficients(names, values, sums.covariance[np.ix_(rows, rows)])

    @property
    @by_target(_by_name)
    def group_variance_(self) -> dict[str, float]:
        """Learnt variance of the effects of each column of groups, (n_targets,) where each target has its own."""
        sums, roles = self._group_sums()
        assert sums.prior is not None
        return {name: float(1 / sums.prior[columns.start]) for name, columns in roles.blocks.items()}

    def _group_sums(self) -> tuple[Coefficients, Roles]:
        sums = self._drift_sums() if hasattr(self, "kernel_") else None
        if sums is None or self._roles is None or self._roles.groups is None:
            raise AttributeError("group_effects_ and group_variance_ are of models fitted with groups.")
        return sums, self._roles

    def _log_unit_of_drift(self) -> float:
        """What the restricted likelihood gains where drift columns are those given, and not scaled and centred ones."""
        design = None if self._roles is None else self._roles.design
        return 0.0 if design is None else len(self.y_mean_) * float(np.linalg.slogdet(design.to_given)[1])

    def _drift_sums(self) -> Coefficients | None:
        """What the data say of the drift's coefficients, beyond `_trend`."""
        return None

    @by_target(PredictedParts.of_targets)
    def predict_parts(self, X: Any) -> PredictedParts:
        """Predictions taken apart: `drift`, `process` and `total`, each with `mean` and `std`.

        Parameters
        ----------
        X : array, data frame or tensor of shape (m, n_features)

        Returns
        -------
        parts : PredictedParts
            Means of drift and process add up to those of the total. Standard deviations do not: where data are far, the
            drift is what one is unsure of, and where they are near, errors of drift and process cancel each other. A
            constant mean, and a mean model, count as drift without uncertainty. In the units of a transformed target.
        """
        self._need_arrays("predict_parts")  # type: ignore[attr-defined]
        points = self._validate_test(X)  # type: ignore[attr-defined]
        process, drift, total = self._parts_at(points)
        known = self._known_mean(points)
        mean = self.y_mean_ + (0.0 if known is None else known)
        k = len(self.y_mean_)

        def part(values: Floats, variance: Floats) -> Part:
            values = self._finite(values[:, :k])  # type: ignore[attr-defined]
            std = np.sqrt(np.clip(variance, 0.0, None))
            both = (values[:, 0], std) if self._single_target else (values, np.tile(std[:, None], k))
            return Part(*as_given(both, X))

        return PredictedParts(
            part(drift[0] + mean, drift[1]), part(*process), part(process[0][:, :k] + drift[0] + mean, total)
        )

    def _parts_at(self, X: Floats) -> tuple[Moments, Moments, Floats]:
        """Means (m, k) and variances (m,) of process and drift at checked points, and variances (m,) of their sum."""
        raise NotImplementedError

    # ---- joint distributions: coefficients are one more normal term beside the process ---------------------------

    def _unknown_of_drift(self, X: Floats) -> Floats | None:  # noqa: ARG002
        """`h` (m, p) at checked rows (m, n_features): drift columns less what the process makes of them.

        None where there are none, or where the process has them among its features.
        """
        return None

    def _with_drift_drawn(
        self, X: Floats, drawn: Floats, means: Floats, seed: int, functions: range
    ) -> tuple[Floats, Floats]:
        """Draws (m, S) of the process, and means (m, k), with the drift: each function has coefficients of its own."""
        unknown, sums, known = self._unknown_of_drift(X), self._drift_sums(), self._known_mean(X)
        targets = [i % len(self.y_mean_) for i in functions]
        if unknown is not None and sums is not None:
            normal = [np.random.default_rng([seed, i, sums.size]).standard_normal(sums.size) for i in functions]
            drawn = drawn + unknown @ (sums.mean[:, targets] + sums.root @ np.column_stack(normal))
            means = means + unknown @ sums.mean
        return (drawn, means) if known is None else (drawn + known[:, targets], means + known)

    def _covariance_of_drift(self, X: Floats) -> Floats | float:
        """What coefficients add to the covariance (m, m) of checked rows."""
        unknown, sums = self._unknown_of_drift(X), self._drift_sums()
        if unknown is None or sums is None:
            return 0.0
        half = unknown @ sums.root
        result: Floats = half @ half.T
        return result

    def _variances_of_drift(self, X: Floats, groups: Groups, factors: Floats | None = None) -> Floats | float:
        """What coefficients add to the variances (G,) of weighted sums over checked rows, times `factors` (m,)."""
        unknown, sums = self._unknown_of_drift(X), self._drift_sums()
        if unknown is None or sums is None:
            return 0.0
        return sums.variance(groups.sums(unknown if factors is None else unknown * factors[:, None]))

    def _slopes_of_drift(self, X: Floats) -> Floats | None:
        """Derivatives (m, n_features, p) of the drift columns at checked rows; those by categories are zero.

        Raises
        ------
        ValueError
            Where the mean is made by a transformer or a regressor, which do not tell.
        """
        if self._roles is None or (self._roles.n_columns == 0 and self._mean_rows is None):
            return None
        if self._mean_rows is not None or isinstance(self._roles.design, TransformedDesign):
            name = "mean" if self._mean_rows is not None else "drift"
            raise ValueError(
                f"{describe(self, name)} has no gradient that could be told: predict_gradient takes a drift of "
                "columns, 'linear' or 'quadratic'."
            )
        return np.stack(along_columns(self._drift_columns, X), axis=1)  # type: ignore[arg-type]

    def _encoded(self, X: Any, reset: bool) -> Floats:
        """Rows (n, n_features) as numbers, where columns have roles; `reset` finds out which."""
        if not hasattr(X, "columns"):
            X = check_array(X, dtype=None, ensure_all_finite=False, ensure_min_samples=int(reset), estimator=self)
        if not reset:
            self._require_columns(X)
        validate_data(self, X, reset=reset, skip_check_array=True)
        if reset:
            self._roles = roles_of(self, X, getattr(self, "feature_names_in_", self._array_names))
        assert self._roles is not None
        return self._roles.encoding.encode(X)

    def _require_columns(self, X: Any) -> None:
        """Refuse a table that lacks a column with a role, by its name."""
        assert self._roles is not None
        names = self._roles.encoding.names
        if names is None or not hasattr(X, "columns"):
            return
        present = {str(name) for name in X.columns}
        missing = [names[j] for j in self._roles.encoding.used if names[j] not in present]
        if missing:
            raise ValueError(f"X lacks the column {missing[0]!r}, which the model was fitted with.")

    def _refuse_roles_of_rows(self) -> None:
        """Refuse roles that take all rows to find out: levels, transformers and mean models, for rows of a source."""
        for name in ("mean", "groups"):
            if getattr(self, name) is not None:
                raise ValueError(f"{describe(self, name)} takes arrays and data frames, but not {SOURCES}.")
        if has_roles(self) and self.metric == "sphere":  # type: ignore[attr-defined]
            raise ValueError(
                f"{describe(self, 'metric')} takes 'sphere', where columns have roles, for arrays and data frames, but "
                f"not {SOURCES}."
            )
        if is_transformer(self.drift):
            raise ValueError(
                f"{describe(self, 'drift')} takes a transformer for arrays and data frames, but not {SOURCES}."
            )

    def _take_roles(self, X: Floats, names: Any) -> None:
        """Roles of the columns of rows (n, n_features) of a source, which become `_points`."""
        self._roles = roles_of(self, X, names)
        self._points = self._roles.encoding.encode(X)
        self._roles = with_design(self, self._roles, self._points)

    def _rows_of_source(self, X: Floats) -> Floats:
        """Rows (m, n_features) of a source as numbers: categories are those of their levels."""
        return X if self._roles is None else self._roles.encoding.encode(X)

    def _coordinate_names(self) -> Any:
        """Names of the columns that the process lives in; None where there are none."""
        return getattr(self, "feature_names_in_", None) if self._roles is None else self._roles.names

    def _regions(self, X: Floats) -> Floats:
        return np.asarray(self._places(X))

    def _places(self, X: Array) -> Array:
        """Coordinates of rows (n, n_features)."""
        return X if self._roles is None else self._roles.places(X)

    def _drift_columns(self, X: Array) -> Floats | None:
        """Drift columns (n, p) of rows (n, n_features); None where the drift has none."""
        return None if self._roles is None else self._roles.columns(X)

    def _require_told(self, X: Floats, left_out: str) -> None:
        """Refuse to leave out a block without which rows (n, n_features) do not tell all coefficients of the drift."""
        design = None if self._roles is None else self._roles.design
        dependent = [] if design is None else dependent_columns(design(X))
        if design is not None and dependent:
            raise ValueError(
                f"The 'blocks' argument has the block {left_out!r}, without which the samples do not tell the effect "
                f"of drift column {design.names[dependent[0].number]!r}: merge it with others, or take the column out "
                "of the drift."
            )

    def _known_mean(self, X: Array, F: Floats | None = None) -> Floats | None:
        """What was taken out of the targets at rows (m, n_features), besides their mean: (m, k), or None.

        `F` (m, p) are their drift columns, where these were made before.
        """
        F = self._drift_columns(X) if F is None else F
        known = None if F is None or self._trend is None else F @ self._trend
        if self._mean_rows is None or self._roles is None:
            return known
        mean = predicted(self.mean_, self._roles.encoding.decode(X), len(self.y_mean_))
        return mean if known is None else mean + known

    def _level_of_targets(self) -> float:
        """Mean of the training targets, the first where there are several; what a drift or a mean model says of it."""
        level = float(self.y_mean_[0])
        if self._trend is None and self._mean_rows is None:
            return level
        if self._points is not None:
            return level + float(np.mean(np.asarray(self._known_of_training())[:, 0]))
        return level + (0.0 if self._trend is None else float(self._trend[0, 0]))

    def _known_of_training(self) -> Floats | float:
        """The same of the training rows; a mean model had not seen them."""
        F = None if self._points is None else self._drift_columns(self._points)
        known = 0.0 if F is None or self._trend is None else F @ self._trend
        return known if self._mean_rows is None else known + self._mean_rows

    def _join_earlier(self, points: Floats | None, means: Floats | None) -> None:
        """Put earlier training rows, and what a mean model says of them, before those just taken in."""
        if self._points is None or self._roles is None:
            return
        if self._mean_rows is not None:
            new = predicted(self.mean_, self._roles.encoding.decode(self._points), len(self.y_mean_))
            self._mean_rows = new if means is None else np.concatenate([means, new])
        if points is not None:
            self._points = np.concatenate([points, self._points])

    def _without_known(self, y: Floats, weights: Floats | None) -> tuple[Floats, Floats | None]:
        """Training targets (n, k) less a mean model and a first guess of the drift, and drift columns (n, p).

        The guess, `_trend`, is by least squares without regard to the process: what is left is as small as the data.
        """
        if self.mean is not None and self._roles is not None and self._points is not None:
            self.mean_, self._mean_rows = self._fit_mean(self._roles.encoding.decode(self._points), y, weights)
            y = y - self._mean_rows
        F = None if self._points is None else self._drift_columns(self._points)
        if F is None:
            return y, None
        self._trend = np.zeros((F.shape[1], y.shape[1]))
        p = 0 if self._roles is None else self._roles.n_drift
        drift = F[:, :p]
        weighted = drift if weights is None else drift * weights[:, None]
        self._trend[:p] = np.linalg.lstsq(weighted.T @ drift, weighted.T @ y, rcond=None)[0]  # near enough
        return y - F @ self._trend, F

    def _fit_mean(self, X: Any, y: Floats, weights: Floats | None) -> tuple[Any, Floats]:
        """The mean model, and what it says of each row (n, k) that it has not seen.

        From the second round on it is fitted to targets less what the process says of each row without it: so it is
        not asked to follow what varies in space, and the process not to follow what it made of that.
        """
        n_rounds, mean = check_integer(self, "mean_rounds", 1), self.mean
        if isinstance(mean, str):
            assert self._roles is not None
            mean = boosting(self._roles.encoding.categories, y.shape[1], spawn(self.random_state, "boosting"))
        model, held_out = cross_fitted(mean, X, y, weights, spawn(self.random_state, "mean"))
        for number in range(1, n_rounds):
            # A geometry is columns by now, which say nothing of its coordinate reference system.
            process = clone(self).set_params(mean=None, mean_rounds=1, metric=self.metric_)  # type: ignore[attr-defined]
            if hasattr(process, "target"):
                process.set_params(target="identity")  # targets are transformed already
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # what there is to say is said of the last round
                process.fit(X, (y - held_out)[:, 0] if self._single_target else y - held_out, weights)
            rest = y - process.loo_.mean.reshape(y.shape)
            model, held_out = cross_fitted(mean, X, rest, weights, spawn(self.random_state, f"mean {number}"))
        return model, held_out

    def _mean_of(self, y: Array, weights: Array | None) -> Array:
        """What is taken out of targets (n, k): their mean, unless a drift stands for it or there is to be none."""
        mean = weighted_mean(y, weights)
        is_known = isinstance(self.drift, str) and self.drift == "constant" and self.groups is None
        return mean if is_known else mean * 0

    def _grouped_columns(self) -> list[slice]:
        """Columns of drift and groups whose effects share a variance."""
        return [] if self._roles is None else list(self._roles.blocks.values())
