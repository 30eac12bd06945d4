"""Several targets: the length scales are shared, and all else is each target's own.

A regressor of several targets learns the length scales from all of them. Then it holds one regressor per target, with a
signal variance, a noise variance, tails and a calibration of its own. Where both variances are given, they hold for
every target, and one model serves all.
"""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from typing import Any, Self

import numpy as np
from sklearn.base import clone

from ..common.arrays import is_tensor, namespace
from ..common.types import Floats
from ..common.validation import check_n_targets
from ..kernels import Kernel
from ..reporting.report import Report
from ..streaming.inputs import as_source
from ..streaming.source import column_of
from .by_target import own_regressors

SHARED = ("n_features_in_", "feature_names_in_", "crs_", "target_", "_sphere", "_rotation", "_box", "_roles")
"""What all targets have in common besides the length scales: how columns are read, and where the data are."""

OWN = (
    *("mean_", "noise_model_", "feature_map_", "_mean_rows", "_trend", "_points", "_width", "_amplitude", "_offset"),
    *("_drift_prior", "_stated_noise", "_is_weighted"),
)
"""What learning the length scales leaves behind, of which each target has its own."""


class SeveralTargets:
    """Mixin of regressors whose `fit` hands several targets to one regressor each, in `estimators_`."""

    signal_variance: Any
    noise_variance: Any
    _rotation: Floats | None
    _given_rotation: Floats | None = None  # axes that the regressor of a target is given

    def _has_own_variances(self, k: int) -> bool:
        """Whether `k` targets get regressors of their own: they are several, and variances are to be learnt."""
        return k > 1 and (self.signal_variance is None or self.noise_variance is None)

    def _fit_each(self, k: int, kernel: Kernel | None, rows: tuple[Any, Any, Any], **options: Any) -> Self:
        """Fit a regressor to each of `k` targets, at the length scales of a kernel; None leaves those that are given.

        `rows` are X, y and weights as `fit` was given them.
        """
        shared: dict[str, Any] = {}
        if kernel is not None:
            shared = {"length_scale": self._plain(kernel)[0], "n_scales": kernel.n_scales, "kernel": kernel.family}  # type: ignore[attr-defined]
        ones = []
        for j in range(k):
            one = clone(self).set_params(**shared)
            one._given_rotation = self._rotation
            ones.append(one.fit(*rows_of_target(*rows, j), **options))
        self._take_each(tuple(ones))
        return self

    def _take_each(self, ones: tuple[Any, ...]) -> None:
        """Set what users see of the regressors of the targets."""
        first, means = ones[0], [one.y_mean_ for one in ones]
        self.estimators_ = ones
        self.y_mean_ = namespace(*means).concat(means)
        # A kernel of unit variance, which the signal variances multiply.
        shares = np.mean([one.kernel_.variances / one.kernel_.variance for one in ones], axis=0)
        self.kernel_ = replace(first.kernel_, variances=shares)
        self.length_scale_ = first.length_scale_
        self.signal_variance_ = np.stack([np.asarray(one.signal_variance_) for one in ones])
        variances: Any = np.array([one.noise_variance_ for one in ones])
        self.noise_variance_ = variances
        self._single_target = False
        vars(self).setdefault("learned_", first.learned_)  # where length scales are given
        for name in OWN:
            vars(self).pop(name, None)
        vars(self).update({name: vars(first)[name] for name in SHARED if name in vars(first)})
        if hasattr(first, "report_"):
            self.report_ = Report.of_targets([one.report_ for one in ones])

    def _partial_fit_each(self, X: Any, y: Any, sample_weight: Any, forget: bool) -> None:
        """Take more rows in, target by target."""
        if as_source(X, y, sample_weight) is None:
            check_n_targets(1 if np.ndim(y) == 1 else np.shape(y)[1], len(self.y_mean_))
        ones = tuple(copy(one) for one in own_regressors(self))  # so that an error in one leaves all as they were
        for j, one in enumerate(ones):
            one.partial_fit(*rows_of_target(X, y, sample_weight, j), forget=forget)
        self._take_each(ones)


def rows_of_target(X: Any, y: Any, sample_weight: Any, j: int) -> tuple[Any, Any, Any]:
    """Rows with one of their targets."""
    source = as_source(X, y, sample_weight)
    if source is not None:
        return source.of_target(j), None, None
    return X, y[:, j] if is_tensor(y) else column_of(y, j), sample_weight
