"""Answers for notebooks: predictions as a DataFrame, and the report of a fitted model as a table."""

from __future__ import annotations

from html import escape
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri


def predict_frame(model: Any, X: ArrayLike, level: float, include_noise: bool) -> Any:
    """See `GPRegressor.predict_frame`."""
    try:
        import pandas as pd
    except ImportError:
        raise ImportError("A DataFrame of predictions needs pandas: pip install pandas.") from None
    if not isinstance(level, Real) or not 0 < float(level) < 1:
        raise ValueError(f"The 'level' argument must lie between 0 and 1. Got {level!r}.")
    mean, std = model.predict(X, return_std=True, include_noise=include_noise)
    half = ndtri(0.5 + level / 2) * std
    parts = {"mean": mean, "std": std, "lower": mean - half, "upper": mean + half}
    index = X.index if isinstance(X, pd.DataFrame | pd.Series) else None
    if mean.ndim == 1:
        return pd.DataFrame(parts, index=index)
    columns = {f"{name}_{k}": part[:, k] for k in range(mean.shape[1]) for name, part in parts.items()}
    return pd.DataFrame(columns, index=index)


def summary(model: Any) -> tuple[str, list[tuple[str, str]]]:
    """Title and lines (name, text) of what a fitted model says of itself."""
    report = getattr(model, "report_", None)
    if report is not None:
        return report.title, report.rows()
    names = ("length_scale", "signal_variance", "noise_variance")
    rows = [(name.replace("_", " "), _short(getattr(model, f"{name}_"))) for name in names]
    return f"Gaussian process of {model.n_features_in_} columns", rows


def report_table(model: Any) -> str:
    """HTML of the report of a fitted model; nothing for one that is not."""
    if not hasattr(model, "kernel_"):
        return ""
    title, rows = summary(model)
    lines = "".join(
        f"<tr><th style='text-align:left;vertical-align:top;white-space:nowrap'>{escape(name)}</th>"
        f"<td style='text-align:left'>{escape(text)}</td></tr>"
        for name, text in rows
    )
    return f"<table><caption style='text-align:left'>{escape(title)}</caption><tbody>{lines}</tbody></table>"


def _short(value: Any) -> str:
    if value is None:
        return "that of the feature map"
    numbers = ", ".join(f"{v:.4g}" for v in np.ravel(value))
    return numbers if np.size(value) == 1 else f"[{numbers}]"
