"""Any regressor as the mean of a process, cross-fitted: residuals are of rows that it was not fitted to."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor, make_column_transformer
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV, KFold, RandomizedSearchCV
from sklearn.multioutput import MultiOutputRegressor
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OrdinalEncoder
from sklearn.utils.validation import has_fit_parameter

from ..common.types import Floats
from ..common.warnings import warn
from ..features.design import failed
from ..reporting.numbers import counted

N_FOLDS = 5
MOST_CATEGORIES = 255  # of a column that trees of scikit-learn split by category; rarer ones are one


def boosting(categories: list[int], n_targets: int, rng: np.random.RandomState) -> Any:
    """Gradient boosted trees for columns of numbers and categories, in which values may be missing.

    Parameters
    ----------
    categories : list of int
        Columns that hold categories; those not seen by `fit` are taken for missing.
    n_targets : int
    rng : RandomState
    """
    numbered = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=np.nan, max_categories=MOST_CATEGORIES)
    trees = HistGradientBoostingRegressor(
        categorical_features=list(range(len(categories))), random_state=int(rng.randint(2**31))
    )
    return make_pipeline(
        make_column_transformer((numbered, categories), remainder="passthrough"),
        trees if n_targets == 1 else MultiOutputRegressor(trees),
    )


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
        Handed on where the regressor takes them, and with a warning where it does not.
    """
    n, name = len(y), None if weights is None else _name_of_weights(mean)
    if n < 2 * N_FOLDS:
        raise ValueError(
            f"A mean model takes at least {2 * N_FOLDS} samples to be cross-fitted. Got {counted(n, 'sample')}."
        )
    if weights is not None and name is None:
        warn(f"The mean model {type(mean).__name__} takes no sample_weight, and is fitted without.")

    def fitted(rows: Any) -> Any:
        return _fitted(mean, _rows(X, rows), y[rows], {} if weights is None or name is None else {name: weights[rows]})

    held_out = np.empty_like(y)
    for train, test in KFold(N_FOLDS, shuffle=True, random_state=rng).split(np.empty((n, 1))):
        held_out[test] = predicted(fitted(train), _rows(X, test), y.shape[1])
    return fitted(slice(None)), held_out


def _rows(X: Any, rows: Any) -> Any:
    return X.iloc[rows] if hasattr(X, "iloc") else X[rows]


def _name_of_weights(mean: Any) -> str | None:
    """What `fit` of a regressor calls its weights: of a pipeline, those of its last step; None where it takes none."""
    if isinstance(mean, Pipeline):
        step, last = mean.steps[-1]
        name = _name_of_weights(last)
        return None if name is None else f"{step}__{name}"
    if isinstance(mean, TransformedTargetRegressor):  # it hands on what it is given, and so do searches
        return _name_of_weights(LinearRegression() if mean.regressor is None else mean.regressor)
    if isinstance(mean, GridSearchCV | RandomizedSearchCV):
        return _name_of_weights(mean.estimator)
    return "sample_weight" if has_fit_parameter(mean, "sample_weight") else None


def _as_taken(mean: Any, X: Any) -> Any:
    """A table as a regressor takes it: words become categories where categories are known by the type of a column."""
    inner = mean
    while isinstance(inner, TransformedTargetRegressor | GridSearchCV | RandomizedSearchCV | MultiOutputRegressor):
        inner = inner.regressor if isinstance(inner, TransformedTargetRegressor) else inner.estimator
    by_type = getattr(inner, "categorical_features", None)
    if not hasattr(X, "astype") or not hasattr(X, "columns") or not isinstance(by_type, str) or by_type != "from_dtype":
        return X
    return X.astype({name: "category" for name in X.columns if X[name].dtype.kind not in "biuf"})


def _fitted(mean: Any, X: Any, y: Floats, given: dict[str, Any]) -> Any:
    """A clone fitted to rows, with arguments of its `fit` by name."""
    model = clone(mean)
    try:
        return model.fit(_as_taken(mean, X), y[:, 0] if y.shape[1] == 1 else y, **given)
    except Exception as error:
        raise failed("fit", "mean model", mean, error, X) from error


def predicted(model: Any, X: Any, n_targets: int) -> Floats:
    """What a fitted mean model predicts, (m, n_targets)."""
    if len(X) == 0:
        return np.empty((0, n_targets))
    try:
        values = np.asarray(model.predict(_as_taken(model, X)), dtype=np.float64).reshape(len(X), n_targets)
    except Exception as error:
        raise failed("predict", "mean model", model, error, X) from error
    if not np.isfinite(values).all():
        raise ValueError(f"The mean model {type(model).__name__} predicts what is no finite number.")
    return values
