"""Any regressor as the mean of a process, cross-fitted: residuals are of rows that it was not fitted to."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import KFold
from sklearn.utils.validation import has_fit_parameter

from ..common.types import Floats
from ..features.design import failed

N_FOLDS = 5


def cross_fitted(
    mean: Any, X: Any, y: Floats, weights: Floats | None, rng: np.random.RandomState
) -> tuple[Any, Floats]:
    """The regressor fitted to all rows, and predictions (n, k) of each row by one that was not fitted to it.

    Parameters
    ----------
    mean : regressor of scikit-learn
        Cloned, and left alone.
    X : array or DataFrame of shape (n, n_features)
    y : ndarray of shape (n, k)
    weights : ndarray of shape (n,) or None
        Handed on where the regressor takes them.
    """
    n = len(y)
    if n < 2 * N_FOLDS:
        raise ValueError(f"A mean model takes at least {2 * N_FOLDS} samples to be cross-fitted. Got {n}.")
    held_out = np.empty_like(y)
    for train, test in KFold(N_FOLDS, shuffle=True, random_state=rng).split(np.empty((n, 1))):
        fitted = _fitted(mean, _rows(X, train), y[train], None if weights is None else weights[train])
        held_out[test] = predicted(fitted, _rows(X, test), y.shape[1])
    return _fitted(mean, X, y, weights), held_out


def _rows(X: Any, rows: Any) -> Any:
    return X.iloc[rows] if hasattr(X, "iloc") else X[rows]


def _fitted(mean: Any, X: Any, y: Floats, weights: Floats | None) -> Any:
    model = clone(mean)
    given = {} if weights is None or not has_fit_parameter(model, "sample_weight") else {"sample_weight": weights}
    try:
        return model.fit(X, y[:, 0] if y.shape[1] == 1 else y, **given)
    except Exception as error:
        raise failed("fit", "mean model", mean, error, X) from error


def predicted(model: Any, X: Any, n_targets: int) -> Floats:
    """What a fitted mean model predicts, (m, n_targets)."""
    if len(X) == 0:
        return np.empty((0, n_targets))
    try:
        values = np.asarray(model.predict(X), dtype=np.float64).reshape(len(X), n_targets)
    except Exception as error:
        raise failed("predict", "mean model", model, error, X) from error
    if not np.isfinite(values).all():
        raise ValueError(f"The mean model {type(model).__name__} predicts what is no finite number.")
    return values
