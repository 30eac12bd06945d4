"""Maxima of functions with gradients, within bounds and until a deadline."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import LinAlgError
from scipy.optimize import minimize

from ..common.types import Floats


@dataclass(frozen=True, eq=False)
class Optimum:
    """Best point that the optimiser came to."""

    point: Floats  # (p,)
    value: float  # objective there, minus infinity if it could nowhere be evaluated
    converged: bool = False
    n_evaluations: int = 0


def maximise(
    objective: Callable[[Floats], tuple[float, Floats]],
    start: Floats,
    bounds: Sequence[tuple[float, float]],
    *,
    max_iterations: int = 200,
    tolerance: float = 1e-9,
    deadline: float = math.inf,
    progress: Callable[[float, float], None] | None = None,
) -> Optimum:
    """Maximise by L-BFGS-B.

    Parameters
    ----------
    objective : callable
        Takes a point (p,), gives value and gradient (p,). A `LinAlgError` means that the point is out of reach.
    start : ndarray of shape (p,)
    bounds : sequence of p pairs
    tolerance : float
        Steps that gain less than this are the last.
    deadline : float
        Time, on the clock of `time.perf_counter`, of the last step.
    progress : callable or None
        Called as `progress(done, value)` after each step, with `done` from 0 to 1.
    """
    best = Optimum(start, -np.inf)
    n_evaluations = n_steps = 0

    def negative(point: Floats) -> tuple[float, Floats]:
        nonlocal best, n_evaluations
        n_evaluations += 1
        try:
            value, gradient = objective(point)
        except LinAlgError:
            return 1e10, np.zeros(len(point))  # the line search steps back
        if value > best.value:
            best = Optimum(point.copy(), value)
        return -value, -gradient

    def after_step(_: Floats) -> None:
        nonlocal n_steps
        n_steps += 1
        if progress is not None:
            progress(min(n_steps / max_iterations, 1.0), best.value)
        if time.perf_counter() > deadline:
            raise StopIteration

    result = minimize(
        negative,
        start,
        jac=True,
        method="L-BFGS-B",
        bounds=bounds,
        callback=after_step,
        options={"maxiter": max_iterations, "ftol": tolerance, "gtol": 1e-6, "maxls": 30},
    )
    # An "abnormal" end is a line search that rounding errors leave no way up: as near to the maximum as one gets.
    ended = result.success or "ABNORMAL" in str(result.message)
    converged = bool(ended and np.isfinite(best.value) and time.perf_counter() <= deadline)
    return replace(best, converged=converged, n_evaluations=n_evaluations)
