"""Answers for notebooks: predictions as a DataFrame, and the summary of a fitted model as a table."""

from __future__ import annotations

from typing import Any

from numpy.typing import ArrayLike

from .inputs import check_level, noise_unless_told
from .summary import summarise


def predict_frame(model: Any, X: ArrayLike, level: float, include_noise: bool | None) -> Any:
    """See `GPRegressor.predict_frame`."""
    try:
        import pandas as pd
    except ImportError:
        raise ImportError("A DataFrame of predictions needs pandas: pip install pandas.") from None
    model._need_arrays("predict_frame")
    check_level(level)
    include_noise = noise_unless_told(include_noise, "predict_frame")
    distribution = model.predict_distribution(X, include_noise=include_noise)
    lower, upper = distribution.interval(level)
    mean = distribution.mean
    answers = {"mean": mean, "std": distribution.std, "lower": lower, "upper": upper}
    if mean.ndim > 1:
        answers = {f"{name}_{k}": values[:, k] for k in range(mean.shape[1]) for name, values in answers.items()}
    return pd.DataFrame(answers, index=X.index if isinstance(X, pd.DataFrame | pd.Series) else None)


def report_table(model: Any) -> str:
    """HTML of the summary of a fitted model; nothing for a model that is not fitted."""
    if not hasattr(model, "kernel_"):
        return ""
    return summarise(model).to_html()
