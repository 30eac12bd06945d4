"""How sure the hyperparameters are: what regressors that keep their rows can tell of the likelihood."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..common.arrays import as_doubles
from ..common.sphere import N_CHORD_COLUMNS
from ..common.types import Floats
from ..common.validation import is_whole
from ..hyperparameters.all_data import Profile, log_likelihood_of_all, profile
from ..hyperparameters.blocks import LearningData
from ..kernels import Kernel
from .by_target import refuse_several

NAMES = ("length_scale", "signal_variance", "noise_variance")


def summed(likelihoods: list[Any]) -> float:
    """Log likelihood of several targets, each with hyperparameters of its own."""
    if isinstance(likelihoods[0], tuple):
        raise ValueError(
            "log_marginal_likelihood(eval_gradient=True) is by hyperparameters, and each of several targets has its "
            "own: ask the regressor of a target, `estimators_[i].log_marginal_likelihood`."
        )
    return float(sum(likelihoods))


class Learnt:
    """Mixin of regressors: the likelihood of their data along one hyperparameter.

    A subclass gives `_training_rows()`, `_inner(X)` and `_learning_request(d)`.
    """

    def profile_likelihood(self, name: str, component: int = 0, column: int = 0, n_values: int = 13) -> Profile:
        """Likelihood of the data along one hyperparameter, all others that are learnt at their best for each value.

        It is that of the kernel, which features stand for.

        Parameters
        ----------
        name : {"length_scale", "signal_variance", "noise_variance"}
        component : int, default=0
            Which component of the kernel, where there are several; the shortest is 0.
        column : int, default=0
            Which column, where each has a length scale; the earth is one, and comes first.
        n_values : int, default=13
            From three standard errors below the value learnt to three above.

        Returns
        -------
        Profile
            `values` and `log_likelihood`, less the largest; `interval(level)` is a confidence interval.
        """
        check_is_fitted(self, "kernel_")
        refuse_several(self, "profile_likelihood")
        refuse_unknown(self, "profile_likelihood", "groups")
        if name not in NAMES:
            raise ValueError(f"The 'name' argument must be one of {', '.join(map(repr, NAMES))}. Got {name!r}.")
        if not is_whole(n_values, 3):
            raise ValueError(f"The 'n_values' argument must be an integer of at least 3. Got {n_values!r}.")
        kernel = self.kernel_  # type: ignore[attr-defined]
        if np.isnan(kernel.length_scales).any():
            raise ValueError(
                "profile_likelihood is that of a kernel with length scales, and this feature map has none."
            )
        J, q = kernel.length_scales.shape
        tied = self._n_tied(q)
        for what, value, size in (("component", component, J), ("column", column, q - tied)):
            if not is_whole(value, 0) or value >= size:
                raise ValueError(f"The '{what}' argument must be an integer below {size}. Got {value!r}.")
        first = component * q + (column + tied if column else 0)
        entry = {"length_scale": first, "signal_variance": J * q + component}.get(name, J * q + J)
        X, y, noise, drift = self._rows_of_process()
        variance: float = self.noise_variance_  # type: ignore[attr-defined]
        weights = variance / noise if variance else np.ones(len(noise))
        request: Any = self._learning_request(X.shape[1]).as_before(self.learned_)  # type: ignore[attr-defined]
        data = LearningData(X, y, weights if np.ptp(weights) > 0 else None, drift=drift)
        return profile(self.learned_, data, request, entry, name, n_values)  # type: ignore[attr-defined]

    def _log_likelihood_of_rows(self, eval_gradient: bool) -> Any:
        """Log likelihood of the training rows, with its gradient on request."""
        refuse_unknown(self, "log_marginal_likelihood", "groups", "drift")
        X, y, noise, _ = self._rows_of_process()
        n_jobs: Any = self.n_jobs  # type: ignore[attr-defined]
        kernel: Kernel = self.kernel_  # type: ignore[attr-defined]
        value, gradient = log_likelihood_of_all(kernel, self.noise_variance_, X, y, noise, n_jobs)  # type: ignore[attr-defined]
        return (value, self._as_users_see(gradient)) if eval_gradient else value

    def _as_users_see(self, gradient: Floats) -> Floats:
        """Derivatives in all logarithms, from those in the columns that the kernel sees: x, y and z share one."""
        J, q = self.kernel_.length_scales.shape  # type: ignore[attr-defined]
        tied = self._n_tied(q)
        lengths = gradient[: J * q].reshape(J, q)
        first = lengths[:, : tied + 1].sum(axis=1, keepdims=True)
        return np.concatenate([np.hstack([first, lengths[:, tied + 1 :]]).ravel(), gradient[J * q :]])

    def _n_tied(self, q: int) -> int:
        """How many of `q` length scales are equal to the first, which is that of the earth."""
        return N_CHORD_COLUMNS - 1 if self._sphere is not None and q > 1 else 0  # type: ignore[attr-defined]

    def _rows_of_process(self) -> tuple[Floats, Floats, Floats, Floats | None]:
        """Points as the kernel sees them, targets less what is known of their mean, noise variances, drift columns."""
        X, y, noise = self._training_rows()  # type: ignore[attr-defined]
        y = y - self._known_of_training() - as_doubles(self.y_mean_)  # type: ignore[attr-defined]
        return self._inner(X), y, noise, self._drift_columns(X)  # type: ignore[attr-defined]


def refuse_unknown(model: Any, method: str, *options: str) -> None:
    """Refuse a model with coefficients that a method knows nothing of: those of its drift, or of its groups."""
    roles = model._roles
    has = {} if roles is None else {"groups": roles.groups is not None, "drift": roles.design is not None}
    found = next((name for name in options if has.get(name)), None)
    if found is not None:
        raise ValueError(f"{method} is for models without {' and '.join(options)}, and this one has {found}.")
