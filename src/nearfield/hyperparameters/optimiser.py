"""Maxima of functions with gradients, within bounds and until a deadline."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import LinAlgError
from scipy.optimize import minimize

from ..common.types import Booleans, Floats


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


RADIUS, LONGEST, SHORTEST = 1.0, 2.0, 1e-4  # how far a step may go in any logarithm: at first, at most and at least
FAR = 0.7  # step of a logarithm after which the curvature is another

Objective = Callable[[Floats], tuple[float, Floats]]


class Climb:
    """A way up, by Newton's method with a curvature that is corrected on the way; it can be gone in several goes.

    Steps go no farther than the last ones have shown the curvature to hold, and where it is small give way first.

    Parameters
    ----------
    objective : callable
        Takes a point (p,), gives value and gradient (p,), per target. A `LinAlgError` means that the point is out of
        reach.
    curvature : callable or ndarray of shape (p, p)
        About minus the second derivatives of the objective, or what gives them at a point: that is asked again after
        long steps.
    start : ndarray of shape (p,)
    bounds : sequence of p pairs
    """

    def __init__(
        self,
        objective: Objective,
        curvature: Callable[[Floats], Floats] | Floats,
        start: Floats,
        bounds: Sequence[tuple[float, float]],
    ) -> None:
        self._objective, self._curvature = objective, curvature if callable(curvature) else None
        self._lower, self._upper = np.array(bounds).reshape(-1, 2).T
        self.best = Optimum(np.clip(start, self._lower, self._upper), -np.inf)
        self._gradient = np.zeros(len(start))
        self._radius = RADIUS
        self._H = None if callable(curvature) else _definite(curvature)

    def go(
        self,
        max_steps: int,
        enough: float,
        *,
        deadline: float = math.inf,
        progress: Callable[[float, float], None] | None = None,
    ) -> Optimum:
        """Take steps until less than `enough` is to be gained by one; of value minus infinity if out of reach."""
        if self.best.value == -np.inf and (self.best.n_evaluations or self._evaluated(self.best.point) is None):
            return self.best
        self.best = replace(self.best, converged=False)
        for i in range(max_steps):
            if self._step(enough):
                return self.best
            if progress is not None:
                progress(min((i + 1) / max_steps, 1.0), self.best.value)
            if time.perf_counter() > deadline:
                break
        return self.best

    def _evaluated(self, point: Floats) -> tuple[float, Floats] | None:
        """Value and gradient at a point, which is the best if it is better; None where it is out of reach."""
        self.best = replace(self.best, n_evaluations=self.best.n_evaluations + 1)
        try:
            value, gradient = self._objective(point)
        except LinAlgError:
            return None
        if value > self.best.value:
            self.best, self._gradient = replace(self.best, point=point, value=value), gradient
        return value, gradient

    def _step(self, enough: float) -> bool:
        """Whether there is no more to be gained; takes a step otherwise."""
        point, value, gradient = self.best.point, self.best.value, self._gradient
        if self._H is None and self._curvature is not None:
            self._H = _definite(self._curvature(point))
        H = np.asarray(self._H)
        is_free = ~(((point <= self._lower) & (gradient < 0)) | ((point >= self._upper) & (gradient > 0)))
        values, vectors = np.linalg.eigh(H[np.ix_(is_free, is_free)])
        slopes = vectors.T @ gradient[is_free]
        if 0.5 * float(np.sum(slopes**2 / values)) < enough:
            return self._ended()
        while self._radius > SHORTEST:
            step = self._step_within_bounds(point, gradient, H, is_free)
            trial = np.clip(point + step, self._lower, self._upper)
            step = trial - point
            length = float(np.abs(step).max())
            expected = float(gradient @ step - 0.5 * step @ H @ step)
            answer = self._evaluated(trial)
            gain = -np.inf if answer is None else answer[0] - value
            if not gain > 0:
                self._radius = 0.3 * length
            elif gain < 0.25 * expected:
                self._radius = 0.5 * length
            elif gain > 0.75 * expected:
                self._radius = min(max(2.0 * length, self._radius), LONGEST)
            if answer is not None:
                H = _corrected(H, step, gradient - answer[1])
            if gain > 0:
                is_far = self._curvature is not None and length > FAR
                self._H = None if is_far else H
                return False
        self._radius = RADIUS
        return self._ended()  # rounding errors leave no way up

    def _step_within_bounds(self, point: Floats, gradient: Floats, H: Floats, is_free: Booleans) -> Floats:
        """Step (p,) that gains most within the radius and leaves no bound that the point is on.

        An entry on a bound whose step would leave it stays, and the others are asked again. Those that stay have a
        slope that leads away from the bound and a step that leads beyond it, and the whole step has a positive slope:
        so some entries always move.
        """
        moves = is_free
        while True:
            values, vectors = np.linalg.eigh(H[np.ix_(moves, moves)])
            step = np.zeros(len(point))
            step[moves] = _within(self._radius, values, vectors, vectors.T @ gradient[moves])
            leaves = ((point <= self._lower) & (step < 0)) | ((point >= self._upper) & (step > 0))
            if not leaves.any():
                return step
            moves = moves & ~leaves

    def _ended(self) -> bool:
        self.best = replace(self.best, converged=True, curvature=self._H)
        return True


def _within(radius: float, values: Floats, vectors: Floats, slopes: Floats) -> Floats:
    """Step that gains most for a curvature with these eigenvalues and vectors, none of its entries beyond `radius`."""
    step: Floats = vectors @ (slopes / values)
    if float(np.abs(step).max()) <= radius:
        return step
    low, high = np.log(1e-6 * values.min()), np.log(np.linalg.norm(slopes) / radius + values.max())
    for _ in range(25):
        middle = 0.5 * (low + high)
        step = vectors @ (slopes / (values + np.exp(middle)))
        low, high = (middle, high) if float(np.abs(step).max()) > radius else (low, middle)
    result: Floats = vectors @ (slopes / (values + np.exp(high)))
    return result


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
