"""Regression problems of every sort that users meet, drawn by Hypothesis."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

MOST = 3000 if os.environ.get("HYPOTHESIS_PROFILE") == "fuzz" else 300
LAYOUTS = ("uniform", "clusters", "grid", "repeats", "collinear", "outliers", "line", "one place")


@dataclass(frozen=True, repr=False)
class Problem:
    """Points and targets, and hyperparameters that are near to theirs.

    Attributes
    ----------
    X : ndarray of shape (n, d)
    y : ndarray of shape (n,)
    weights : ndarray of shape (n,) or None
    test : ndarray of shape (m, d)
        Points of the data, between them, and far from all.
    length_scale, signal_variance, noise_variance : float
    label : str
        How it was made, for the report of a failure.
    """

    X: Any
    y: Any
    weights: Any
    test: Any
    length_scale: float
    signal_variance: float
    noise_variance: float
    label: str

    def __repr__(self) -> str:
        return f"Problem({self.label})"

    @property
    def hyperparameters(self) -> dict[str, float]:
        return {
            "length_scale": self.length_scale,
            "signal_variance": self.signal_variance,
            "noise_variance": self.noise_variance,
        }


@st.composite
def problems(
    draw: Any,
    min_samples: int = 1,
    max_samples: int = MOST,
    max_columns: int = 40,
    noise: tuple[float, float] = (0.0, 100.0),
    scales: tuple[float, float] = (1e-8, 1e8),
    layouts: tuple[str, ...] = LAYOUTS,
    length: tuple[float, float] = (0.02, 5.0),
    dtypes: tuple[Any, ...] = (np.float64, np.float32),
) -> Problem:
    """Draw a problem; `noise` and `length` are shares of the signal's variance and of the extent of the data."""
    n = int(draw(_log_uniform(min_samples, max_samples)))
    d = draw(st.integers(1, min(3, max_columns)) | st.integers(1, max_columns))
    layout = draw(st.sampled_from(layouts))
    seed = draw(st.integers(0, 2**32 - 1))
    width = draw(_log_uniform(*scales))
    height = draw(_log_uniform(*scales))
    origin = draw(st.sampled_from([0.0, 1.0, -30.0, 1000.0]))
    share = draw(st.just(noise[0]) | _log_uniform(max(noise[0], 1e-10), noise[1]))
    length_scale = draw(_log_uniform(*length)) * np.sqrt(d)
    weighted = draw(st.booleans())
    dtype = draw(st.sampled_from(dtypes))
    level = draw(st.sampled_from([0.0, 3.0, -1000.0]))

    rng = np.random.default_rng(seed)
    unit = _layout(layout, n, d, rng)
    if layout == "outliers":
        share = max(share, 1e-3)
    X = ((unit + origin) * width).astype(dtype)
    # A function of the points as they are stored: rounding may have made some of them equal.
    y = np.sin((X.astype(np.float64) / width - origin) @ rng.standard_normal(d) / length_scale)
    y += np.sqrt(min(share, 1.0)) * rng.standard_normal(n)
    if layout == "outliers":
        y[:: max(n // 3, 1)] += 100.0
    weights = rng.uniform(0.1, 10.0, n) if weighted else None
    between = (unit[: min(n, 6)] + unit[::-1][: min(n, 6)]) / 2
    far = unit[:2] + np.array([[3.0], [1e3]]) * np.ones((2, d))
    test = ((np.concatenate([unit[:4], between, far]) + origin) * width).astype(dtype)
    return Problem(
        X,
        (y + level) * height,
        weights,
        test,
        float(length_scale * width),
        float(height**2),
        float(share * height**2),
        f"{layout}, n={n}, d={d}, width={width:.2g}, height={height:.2g}, origin={origin:g}, noise={share:.2g}, "
        f"length={length_scale:.2g}, level={level:g}, {np.dtype(dtype).name}, seed={seed}",
    )


def _log_uniform(low: float, high: float) -> Any:
    return st.floats(np.log10(low), np.log10(high)).map(lambda power: 10.0**power)


def _layout(layout: str, n: int, d: int, rng: np.random.Generator) -> Any:
    """Points (n, d) of about the unit cube."""
    X = rng.uniform(size=(n, d))
    if layout == "clusters":
        middles = rng.uniform(size=(3, d))
        X = middles[rng.integers(3, size=n)] + 1e-3 * X
    elif layout == "grid":
        X = np.round(4 * X) / 4
    elif layout == "repeats":
        X = X[rng.integers(max(n // 3, 1), size=n)]
    elif layout == "collinear":
        X[:, 1:] = X[:, :1]
    elif layout == "outliers":
        X[0] = 1e4
    elif layout == "line":
        X[:, 0], X[:, 1:] = np.linspace(0, 1, n), 0.5
    elif layout == "one place":
        X[:] = X[0]
    return X
