"""How sure the hyperparameters are: what regressors that keep their rows can tell of the likelihood."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..common.types import Floats
from ..common.validation import is_whole
from ..hyperparameters.all_data import Profile, log_likelihood_of_all, profile
from ..hyperparameters.blocks import LearningData
from .samples import refuse_drift

NAMES = ("length_scale", "signal_variance", "noise_variance")


class Learnt:
    """Mixin of regressors: the likelihood of their data along one hyperparameter.

    A subclass gives `_training_rows()`, `_inner(X)` and `_learning_request(d)`.
    """

    def profile_likelihood(self, name: str, component: int = 0, column: int = 0, n_values: int = 13) -> Profile:
        """Likelihood of the data along one hyperparameter, all others at their best for each value of it.

        Parameters
        ----------
        name : {"length_scale", "signal_variance", "noise_variance"}
        component : int, default=0
            Which component of the kernel, where there are several; the shortest is 0.
        column : int, default=0
            Which column, where each has a length scale.
        n_values : int, default=13
            From three standard errors below the value learnt to three above.

        Returns
        -------
        Profile
            `values` and `log_likelihood`, less the largest; `interval(level)` is a confidence interval.
        """
        check_is_fitted(self, "kernel_")
        refuse_drift(self, "profile_likelihood")
        if name not in NAMES:
            raise ValueError(f"The 'name' argument must be one of {', '.join(map(repr, NAMES))}. Got {name!r}.")
        if not is_whole(n_values, 3):
            raise ValueError(f"The 'n_values' argument must be an integer of at least 3. Got {n_values!r}.")
        kernel = self.kernel_  # type: ignore[attr-defined]
        J, q = kernel.length_scales.shape
        for what, value, size in (("component", component, J), ("column", column, q)):
            if not is_whole(value, 0) or value >= size:
                raise ValueError(f"The '{what}' argument must be an integer below {size}. Got {value!r}.")
        entry = {"length_scale": component * q + column, "signal_variance": J * q + component}.get(name, J * q + J)
        X, y, noise = self._rows_of_process()
        weights = self.noise_variance_ / noise  # type: ignore[attr-defined]
        request: Any = self._learning_request(X.shape[1])  # type: ignore[attr-defined]
        data = LearningData(X, y, weights if np.ptp(weights) > 0 else None)
        return profile(self.learned_, data, request, entry, name, n_values)  # type: ignore[attr-defined]

    def _log_likelihood_of_rows(self, eval_gradient: bool) -> Any:
        """Log likelihood of the training rows, with its gradient on request."""
        refuse_drift(self, "log_marginal_likelihood")
        X, y, noise = self._rows_of_process()
        n_jobs: Any = self.n_jobs  # type: ignore[attr-defined]
        given = (self.kernel_, self.noise_variance_)  # type: ignore[attr-defined]
        value, gradient = log_likelihood_of_all(*given, X, y, noise, n_jobs)
        return (value, gradient) if eval_gradient else value

    def _rows_of_process(self) -> tuple[Floats, Floats, Floats]:
        """Points as the kernel sees them, centred targets, noise variances."""
        X, y, noise = self._training_rows()  # type: ignore[attr-defined]
        return self._inner(X), y - self.y_mean_, noise  # type: ignore[attr-defined]
