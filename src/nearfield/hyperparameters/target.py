"""Which transformation of the target makes residuals most likely, the change of units counted.

Residuals are those from the average over a few neighbours, under Student's t, so that neither the shape of the field
nor a few outliers decide.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.spatial import cKDTree

from ..common.distribution import log_density_of_t
from ..common.targets import Target
from ..common.types import Floats, Integers

N_NEIGHBOURS, MOST_POINTS = 8, 10_000
LEAST_POINTS = 20  # to tell one transformation from another
DOF = 4.0
POWERS = {"boxcox": (0.0, 2.0), "yeojohnson": (0.0, 2.0)}
LEAST_GAIN, SIGNIFICANT = 0.01, 3.0  # nats per point, and standard errors, that a transformation must gain


def choose_target(kind: Any, X: Floats, y: Floats, rng: np.random.RandomState) -> Target:
    """The transformation of targets (n,) at points (n, d) that `kind` names, learnt where it has a power.

    "auto" is the likeliest of all that the targets allow, if it is significantly better than none.
    """
    if hasattr(kind, "inverse_transform"):
        return _of_transformer(kind, y)
    if kind != "auto":
        return _learnt(kind, X, y, rng)
    best = Target()
    if np.ptp(y) == 0 or len(y) < LEAST_POINTS:
        return best
    rows = _rows(len(y), rng)
    near = _neighbours(X, rows)
    kinds = ["yeojohnson"] if y.min() < 0 else ["sqrt", "yeojohnson"] if y.min() == 0 else ["log", "sqrt", "boxcox"]
    known = log_densities(best, y, rows, near)
    for name in kinds:
        target = _learnt(name, X, y, rng)
        densities = log_densities(target, y, rows, near)
        gain = densities - known
        if np.mean(gain) > max(LEAST_GAIN, SIGNIFICANT * float(np.std(gain)) / np.sqrt(len(rows))):
            best, known = target, densities
    return best


def _learnt(kind: str, X: Floats, y: Floats, rng: np.random.RandomState) -> Target:
    unit = float(np.median(np.abs(y))) or float(np.mean(np.abs(y))) or 1.0
    target = Target(kind, 1.0, 1.0 if kind == "identity" else unit)
    target.check(y)
    if kind not in POWERS or np.ptp(y) == 0:
        return target
    rows = _rows(len(y), rng)
    near = _neighbours(X, rows)

    def loss(value: float) -> float:
        return -float(np.mean(log_densities(Target(kind, value, unit), y, rows, near)))

    found = minimize_scalar(loss, bounds=POWERS[kind], method="bounded", options={"xatol": 1e-3})
    return Target(kind, float(found.x), unit)


def _of_transformer(transformer: Any, y: Floats) -> Target:
    fitted = transformer.fit(y.reshape(-1, 1)) if hasattr(transformer, "fit") else transformer
    target = Target("transformer", transformer=fitted)
    ordered = target.forward(np.sort(y))
    if not np.all(np.isfinite(ordered)) or np.any(np.diff(ordered) < 0):
        raise ValueError("The 'target' parameter must be an increasing transformer, with numbers for all targets.")
    if not np.allclose(target.inverse(ordered), np.sort(y), rtol=1e-6, atol=1e-9 * (np.ptp(y) or 1.0)):
        raise ValueError("The 'target' parameter must be a transformer whose inverse_transform undoes its transform.")
    return target


def _rows(n: int, rng: np.random.RandomState) -> Integers:
    return np.arange(n) if n <= MOST_POINTS else np.sort(rng.choice(n, MOST_POINTS, replace=False))


def _neighbours(X: Floats, rows: Integers) -> Integers:
    """The nearest other points (m, k) of some rows (m,) of points (n, d), in units of the columns' spreads."""
    spread = X.std(axis=0)
    places = X / np.where(spread > 0, spread, 1.0)
    k = min(N_NEIGHBOURS + 1, len(X))
    near = cKDTree(places).query(places[rows], k)[1].reshape(len(rows), -1)
    # A point that has several copies may not be its own nearest.
    others = np.where(near == rows[:, None], near[:, -1:], near)
    return np.asarray(others[:, : max(k - 1, 1)], dtype=np.int64)


def log_densities(target: Target, y: Floats, rows: Integers, near: Integers) -> Floats:
    """Logarithms (m,) of the densities of targets (n,) in some rows (m,), about the averages of their neighbours."""
    z = target.forward(y)
    residuals = z[rows] - z[near].mean(axis=1)
    scale = max(float(np.median(np.abs(residuals))) / 0.7407, 1e-12 * max(float(np.ptp(z)), 1e-300))
    for _ in range(20):  # the likeliest scale of Student's t, by its own iteration
        weights = (DOF + 1) / (DOF + (residuals / scale) ** 2)
        scale = max(float(np.sqrt(np.mean(weights * residuals**2))), scale * 1e-3)
    result: Floats = log_density_of_t(residuals / scale, DOF) - np.log(scale) + target.log_derivative(y[rows])
    return result
