r"""Preconditioned conjugate gradients for several right-hand sides at once, and bounds on what is left of the error.

For `A = K + S`, a covariance matrix plus noise of at least `s` per point, no eigenvalue of `A` is below `s`. So a
solution `x` of `A x = b` with the residual `r = b - A x` has, for any `c`,

.. math:: |c' (x - A^{-1} b)| = |c' A^{-1} r| \le \sqrt{c' A^{-1} c} \sqrt{r' A^{-1} r}, \quad
    r' A^{-1} r \le \|r\|^2 / s.

Where the product is of a matrix that differs from `A` by at most `e` in the spectral norm, `s - e` takes the place of
`s`, and the bounds hold for the matrix multiplied with.

How many iterations are still needed is forecast from the condition number `c` of the preconditioned matrix: each
lessens the error by a factor of about `(sqrt(c) - 1) / (sqrt(c) + 1)`. The steps taken so far are the entries of a
tridiagonal matrix whose eigenvalues approach the outermost ones of the preconditioned matrix from inside (Lanczos), so
that early forecasts are too low rather than too high. Late ones may be too high, since clusters of eigenvalues are
dealt with one after the other.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh_tridiagonal

from ..common.arrays import column_products, column_squares
from ..common.types import Booleans, Floats, Integers

Product = Callable[[Floats], Floats]
"""Takes and gives a matrix of shape (n, r), for any r."""

STAGE = "conjugate gradients"
MARGIN = 0.9  # of the tolerance: residuals that are updated differ from those computed anew
WORTHWHILE = 0.5  # factor by which a start afresh has to lessen a residual, to be tried again
FORECAST_EVERY = 10  # iterations between two forecasts of how many are needed
FORECAST_WITHIN = 0.5  # of the iterations allowed, in which they are made: late ones may be too high


@dataclass(frozen=True, eq=False)
class Solution:
    """Solutions of `A x = b`, one per column.

    Attributes
    ----------
    x : ndarray of shape (n, r)
    residual_norms : ndarray of shape (r,)
        Norms of `b - A x`, by a product with `x` itself.
    relative_residuals : ndarray of shape (r,)
        The same as shares of the norms of `b`; zero where `b` is zero.
    quadratic : ndarray of shape (r,)
        `2 b'x - x'Ax`, which is `b' A^-1 b - r' A^-1 r` for the residual `r`: a lower bound of `b' A^-1 b` whose error
        goes with the square of the residual, see `quadratic_error_bound`.
    converged : ndarray of shape (r,)
        Whether the relative residual is within the tolerance.
    n_iterations : int
    history : ndarray of shape (n_iterations + 1, r)
        Relative residuals, as the iteration updates them, of the start and after each iteration.
    forecast : float
        Iterations needed as far as could be told, where that was more than allowed and ended the iteration; else 0.
    """

    x: Floats
    residual_norms: Floats
    relative_residuals: Floats
    quadratic: Floats
    converged: Booleans
    n_iterations: int
    history: Floats
    forecast: float = 0.0


def solve(
    product: Product,
    precondition: Product,
    B: Floats,
    tolerance: float | Floats,
    max_iterations: int,
    progress: Callable[[str, float, float], None] | None = None,
    all_or_nothing: bool = False,
) -> Solution:
    """Solve `A x = b` for each column of `B`.

    Columns that have converged are left out of further products. A column whose iteration breaks down, because the
    matrix or the preconditioner is not positive definite in its direction or a value is not finite, stops. Each column
    keeps the iterate of least residual. There are two products more than iterations: residuals are computed anew at the
    start and at the end, and memory is for about eight matrices like `B`.

    Parameters
    ----------
    product : callable
        Product with `A`, symmetric and positive definite.
    precondition : callable
        Product with an approximate inverse of `A`, symmetric and positive definite. `precondition(B)` is the start.
    B : ndarray of shape (n, r)
    tolerance : float or ndarray of shape (r,)
        Relative residual at which a column has converged.
    max_iterations : int
    progress : callable or None
        Called as `progress(stage, done, value)` after each iteration, with `done` from 0 to 1 and the largest relative
        residual of a column under way. If it raises `StopIteration`, the solutions reached are returned, after one
        more product to measure them; other exceptions reach the caller.
    all_or_nothing : bool
        Stop as soon as a column is forecast to need more than `max_iterations`, for those who have no use for
        solutions that did not converge.
    """
    tolerances = np.broadcast_to(np.asarray(tolerance, dtype=np.float64), B.shape[1:])
    run = _Run(product, precondition, B, tolerances, max_iterations, progress, all_or_nothing)
    columns = np.flatnonzero(run.norms > 0)
    X, before = precondition(B.take(columns, axis=1)), np.full(B.shape[1], np.inf)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):  # what is no number stops its column
        while len(columns):
            R = run.measure(columns, X)
            stalled = run.relative[columns] > WORTHWHILE * before[columns]  # rounding errors allow no more
            on = np.flatnonzero((run.relative[columns] > tolerances[columns]) & ~stalled & ~run.broken[columns])
            columns = columns[on]
            if len(columns) == 0 or run.n_iterations >= max_iterations or run.interrupted:
                break
            before[columns] = run.relative[columns]
            run.iterate(columns, X.take(on, axis=1), R.take(on, axis=1))
            X, run.relative[columns] = run.x.take(columns, axis=1), np.inf
    if progress is not None and not run.interrupted:
        with suppress(StopIteration):
            progress(STAGE, 1.0, float(run.relative.max(initial=0.0)))
    relative, history = run.relative, np.array(run.history or [run.relative])
    return Solution(
        run.x,
        relative * run.norms,
        relative,
        run.quadratic,
        relative <= tolerances,
        run.n_iterations,
        history,
        run.forecast,
    )


class _Run:
    """Solutions under way: for each column the best solution `x`, its relative residual, and what became of it."""

    def __init__(
        self,
        product: Product,
        precondition: Product,
        B: Floats,
        tolerances: Floats,
        max_iterations: int,
        progress: Callable[[str, float, float], None] | None,
        all_or_nothing: bool,
    ) -> None:
        self.product, self.precondition, self.B, self.progress = product, precondition, B, progress
        self.tolerances, self.max_iterations = tolerances, max_iterations
        self.norms = np.sqrt(column_squares(B))
        self.x, self.quadratic = np.zeros(B.shape), np.zeros(B.shape[1])
        self.relative = np.where(self.norms == 0, 0.0, 1.0)  # of the solution 0
        self.broken = np.zeros(B.shape[1], dtype=bool)
        self.history: list[Floats] = []
        self.n_iterations, self.interrupted = 0, False
        self.all_or_nothing, self.forecast = all_or_nothing, 0.0

    def measure(self, columns: Integers, X: Floats) -> Floats:
        """Residuals (n, len(columns)) of `X`, computed anew; what is better than before is kept."""
        B = self.B.take(columns, axis=1)
        R: Floats = B - self.product(X)
        better = self._keep_better(columns, X, R)
        self.quadratic[columns[better]] = column_products(B + R, X)[better]
        if not self.history:
            self.history.append(self.relative.copy())
        return R

    def iterate(self, columns: Integers, X: Floats, R: Floats) -> None:
        """Go on from `X` with the residuals `R`, both overwritten, until each column has converged or stops."""
        P = self.precondition(R).copy()  # it may be R itself
        rz = column_products(R, P)
        lanczos, ratio = _Lanczos(len(columns)), np.zeros(len(columns))
        while True:
            AP = self.product(P)
            step = rz / column_products(P, AP)
            sound = (rz > 0) & (step > 0) & np.isfinite(step)
            X += step * P
            R -= step * AP
            self._keep_better(columns, X, R)
            self.broken[columns[~sound]] = True
            self.n_iterations += 1
            self.history.append(self.relative.copy())
            self._report(columns)
            on = np.flatnonzero(sound & (self.relative[columns] > MARGIN * self.tolerances[columns]))
            if len(on) == 0 or self.n_iterations >= self.max_iterations or self.interrupted:
                return
            lanczos.add(step, ratio, on)
            if len(on) < len(columns):
                columns, rz = columns[on], rz[on]
                X, R, P = X.take(on, axis=1), R.take(on, axis=1), P.take(on, axis=1)
            if self._takes_too_many(lanczos, columns):
                return
            Z, previous = self.precondition(R), rz
            rz = column_products(R, Z)
            ratio = rz / previous
            P = Z + P * ratio

    def _takes_too_many(self, lanczos: _Lanczos, columns: Integers) -> bool:
        """Whether more iterations than allowed are forecast for a column, which ends them."""
        n, latest = len(lanczos.steps), FORECAST_WITHIN * self.max_iterations
        if not self.all_or_nothing or n % FORECAST_EVERY or self.n_iterations > latest:
            return False
        left = np.log(self.relative[columns] / (MARGIN * self.tolerances[columns]))
        needed = self.n_iterations + float(np.max(left / lanczos.rates()))
        self.forecast = needed if needed > self.max_iterations else 0.0
        return self.forecast > 0

    def _keep_better(self, columns: Integers, X: Floats, R: Floats) -> Booleans:
        """Whether residuals are smaller than before, which is where `X` is kept: never if they are no numbers."""
        relative = np.sqrt(column_squares(R)) / self.norms[columns]
        better: Booleans = relative < self.relative[columns]
        self.x[:, columns[better]] = X[:, better]
        self.relative[columns[better]] = relative[better]
        return better

    def _report(self, columns: Integers) -> None:
        if self.progress is None:
            return
        worst, least = float(self.relative[columns].max()), float(self.tolerances[columns].min())
        possible = 0 < worst < 1 and 0 < least < 1
        reached = float(np.log(worst) / np.log(least)) if possible else 0.0
        try:
            self.progress(STAGE, min(max(reached, self.n_iterations / self.max_iterations), 0.99), worst)
        except StopIteration:
            self.interrupted = True


class _Lanczos:
    """What the steps of some columns tell about the eigenvalues of the preconditioned matrix.

    Each iteration goes a `step` along a direction, which is the preconditioned residual and a `ratio` of the direction
    before.
    """

    def __init__(self, n_columns: int) -> None:
        self.steps, self.ratios = np.empty((0, n_columns)), np.empty((0, n_columns))

    def add(self, step: Floats, ratio: Floats, on: Integers) -> None:
        """Take note of an iteration, and that only the columns at these positions go on."""
        self.steps, self.ratios = (
            np.vstack([before, now])[:, on] for before, now in ((self.steps, step), (self.ratios, ratio))
        )

    def rates(self) -> Floats:
        """Factors by which an iteration lessens the error of each column, as logarithms above zero."""
        rates = np.empty(self.steps.shape[1])
        for j, (step, ratio) in enumerate(zip(self.steps.T, self.ratios.T, strict=True)):
            diagonal = 1 / step
            diagonal[1:] += ratio[1:] / step[:-1]
            eigenvalues = eigh_tridiagonal(diagonal, np.sqrt(ratio[1:]) / step[:-1], eigvals_only=True)
            least = max(eigenvalues[0], np.finfo(np.float64).eps * eigenvalues[-1])
            root = max(np.sqrt(eigenvalues[-1] / least), 1 + 1e-9)
            rates[j] = np.log((root + 1) / (root - 1))
        return rates


def mean_error_bound(prior_variance: Floats, residual_norm: Floats, least_noise: float) -> Floats:
    """Bound on the error of the posterior mean `k' x` from the residual of `(K + S) x = y`.

    It holds since `k' (K + S)^-1 k` is at most the prior variance: no posterior variance is negative.

    Parameters
    ----------
    prior_variance : ndarray of shape (...)
        Of the process where the mean is asked for; or a smaller bound on `k' (K + S)^-1 k`.
    residual_norm : ndarray that broadcasts with it
    least_noise : float
        Least entry of the diagonal matrix `S`, above zero.
    """
    bound: Floats = np.sqrt(np.asarray(prior_variance) / least_noise) * residual_norm
    return bound


def quadratic_error_bound(residual_norm: Floats, least_noise: float) -> Floats:
    """Bound on `b' (K + S)^-1 b - quadratic`, which is at least zero, for the `quadratic` of a solution.

    With `b = k` the posterior variance is the prior one less `k' (K + S)^-1 k`: computed with `quadratic` it is too
    large, by at most this. Shapes as in `mean_error_bound`.
    """
    bound: Floats = np.square(residual_norm) / least_noise
    return bound
