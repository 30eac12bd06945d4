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
    curvature: Floats | None = None  # (p, p): about minus the second derivatives of the objective there


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


ENOUGH = 0.05  # nats of the whole likelihood that are not worth a step: estimates are uncertain by half a nat each
MOST_STEPS = 25
LONGEST = 1.0  # step of a logarithm
SHORTEST = 1e-3  # share of a step that is still tried


def polish(
    objective: Callable[[Floats], tuple[float, Floats]],
    start: Floats,
    bounds: Sequence[tuple[float, float]],
    curvature: Floats,
    size: float,
    *,
    deadline: float = math.inf,
    progress: Callable[[float, float], None] | None = None,
) -> Optimum:
    """Maximise from near the maximum, by Newton's method with a curvature that is corrected on the way.

    Parameters
    ----------
    objective : callable
        See `maximise`; per target.
    curvature : ndarray of shape (p, p)
        About minus the second derivatives of the objective.
    size : float
        Number of targets. The end is where less than `ENOUGH` is left to gain.

    Returns
    -------
    Optimum
        Of value minus infinity where the start is out of reach.
    """
    lower, upper = np.array(bounds).T
    H = _definite(curvature)
    try:
        value, gradient = objective(start)
    except LinAlgError:
        return Optimum(start, -np.inf, n_evaluations=1)
    best = Optimum(start, value, n_evaluations=1)
    for i in range(MOST_STEPS):
        point = best.point
        is_free = ~(((point <= lower) & (gradient < 0)) | ((point >= upper) & (gradient > 0)))
        step = np.zeros(len(point))
        step[is_free] = np.linalg.solve(H[np.ix_(is_free, is_free)], gradient[is_free])
        if 0.5 * float(gradient @ step) * size < ENOUGH:
            return replace(best, converged=True, curvature=H)
        step *= min(1.0, LONGEST / float(np.abs(step).max()))
        share, before = 1.0, best
        while share >= SHORTEST:
            trial = np.clip(point + share * step, lower, upper)
            best = replace(best, n_evaluations=best.n_evaluations + 1)
            try:
                value, slope = objective(trial)
            except LinAlgError:
                value = -np.inf
            if value > before.value:
                H = _corrected(H, trial - point, gradient - slope)
                best, gradient = replace(best, point=trial, value=value), slope
                break
            share *= 0.3
        else:  # rounding errors leave no way up
            return replace(best, converged=True, curvature=H)
        if progress is not None:
            progress(min((i + 1) / 5, 1.0), best.value)
        if time.perf_counter() > deadline:
            break
    return replace(best, curvature=H)


def _definite(H: Floats) -> Floats:
    """Positive definite matrix like `H`: directions of next to no curvature, or of the wrong sign, get some."""
    values, vectors = np.linalg.eigh(H)
    floor = 1e-4 * max(float(np.abs(values).max()), 1e-12)
    result: Floats = (vectors * np.maximum(values, floor)) @ vectors.T
    return result


def _corrected(H: Floats, step: Floats, change: Floats) -> Floats:
    """`H` after Broyden, Fletcher, Goldfarb and Shanno: it maps `step` to `change`, if that is curved as it should."""
    if float(step @ change) <= 1e-12 * float(np.linalg.norm(step) * np.linalg.norm(change)):
        return H
    image = H @ step
    result: Floats = H - np.outer(image, image) / (step @ image) + np.outer(change, change) / (step @ change)
    return result
