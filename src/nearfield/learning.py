"""Hyperparameters from data: one function for every estimator.

Up to about a thousand points the exact marginal likelihood is maximised. Beyond, the *composite* likelihood takes its
place: the sum of the exact likelihoods of a few dozen blocks, each a point with its nearest neighbours and a share of
points from farther and farther away. A random subset of the same size would blur short length scales; the neighbours
keep them, and the far points keep the long ones and the variance.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError
from scipy.optimize import minimize
from scipy.spatial import cKDTree
from scipy.spatial.distance import cdist, pdist
from sklearn.exceptions import ConvergenceWarning

from ._parallel import n_threads, thread_map
from .kernels import Kernel
from .likelihood import kernel_log_likelihood

Floats = NDArray[Any]
Progress = Callable[[str, float, float], None]
"""Called as `progress(stage, done, value)`, with `done` from 0 to 1 and the likelihood per point reached."""

MAX_EXACT = 1000
BLOCK_SIZE = 256
NEAR_SHARE = 0.6


@dataclass(frozen=True, eq=False)
class Learned:
    """What learning found, and how.

    Attributes
    ----------
    kernel : Kernel
    noise_variance : float
    log_likelihood : float
        Per point, of the blocks used (of all data where `n_blocks` is 1).
    n_blocks, block_size : int
    n_evaluations : int
    seconds : float
    converged : bool
    on_bounds : tuple of str
        Names of the estimates that sit on a bound.
    """

    kernel: Kernel
    noise_variance: float
    log_likelihood: float = float("nan")
    n_blocks: int = 0
    block_size: int = 0
    n_evaluations: int = 0
    seconds: float = 0.0
    converged: bool = True
    on_bounds: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Fixed:
    """Hyperparameters that are given; None means to be learnt.

    Attributes
    ----------
    length_scales : ndarray of shape (J, q) or None
    variances : ndarray of shape (J,) or None
    noise_variance : float or None
    """

    length_scales: Floats | None = None
    variances: Floats | None = None
    noise_variance: float | None = None


@dataclass(frozen=True, eq=False)
class Block:
    """Points whose exact likelihood is one term of the objective."""

    X: Floats
    y: Floats
    noise_factors: Floats | None
    squared_distances: Floats | None


@dataclass(frozen=True)
class Extents:
    """Lengths of the data that starts and bounds are made of.

    Attributes
    ----------
    spacing : float
        Typical distance to the nearest other point.
    least : float
        A small one of those distances.
    median : float
        Median distance of two points.
    extent : float
        Diameter of the bounding box.
    """

    spacing: float
    least: float
    median: float
    extent: float


def learn(
    X: Floats,
    y: Floats,
    *,
    fixed: Fixed,
    n_scales: int = 1,
    ard: bool = False,
    sample_weight: Floats | None = None,
    n_restarts: int = 2,
    n_blocks: int = 64,
    time_budget: float = 60.0,
    max_iterations: int = 200,
    n_jobs: int | None = None,
    rng: np.random.RandomState,
    progress: Progress | None = None,
) -> Learned:
    """Maximise the likelihood over all hyperparameters that are not fixed.

    Parameters
    ----------
    X : ndarray of shape (n, d)
    y : ndarray of shape (n, k)
        Centred targets.
    sample_weight : ndarray of shape (n,) or None
        The noise variance of point i is `noise_variance / sample_weight[i]`.
    n_restarts : int
        Random starts besides the systematic ones.
    n_blocks : int
        Number of blocks of the composite likelihood.
    time_budget : float
        Seconds after which the best found so far is returned, with a warning.

    Returns
    -------
    learned : Learned
    """
    began = time.perf_counter()
    space = _Space.of(X, y, fixed, n_scales, ard)
    if not space.free.any():
        return Learned(*space.unpack(space.start(np.empty(0))))
    spread = float(np.mean(np.var(y, axis=0)))
    if spread <= 0 or space.extents.extent <= 0:
        return Learned(*space.unpack(space.fallback()), converged=True)

    blocks = make_blocks(X, y, sample_weight, n_blocks, ard or _is_ard(fixed), rng)
    coarse = blocks if len(blocks) == 1 else blocks[:: max(len(blocks) // 12, 1)]
    search = _Search(space, time_budget, began, max_iterations, n_jobs, progress)

    starts = space.starts(n_restarts, rng)
    trials = [search.maximise(coarse, start, 20, f"start {i + 1} of {len(starts)}") for i, start in enumerate(starts)]
    trials = [trial for trial in trials if np.isfinite(trial.value)] or trials[:1]
    best = max(trials, key=lambda trial: trial.value)
    final = search.maximise(blocks, best.theta, max_iterations, "refine")
    if not np.isfinite(final.value):
        final = best
    kernel, noise = space.unpack(final.theta)
    size = sum(len(block.X) for block in blocks)
    learned = Learned(
        kernel,
        noise,
        final.value,
        len(blocks),
        size // len(blocks),
        search.n_evaluations,
        time.perf_counter() - began,
        final.converged,
        space.on_bounds(final.theta),
    )
    _warn(learned, time_budget)
    return learned


def _warn(learned: Learned, time_budget: float) -> None:
    if not learned.converged:
        warnings.warn(
            f"Learning stopped after {learned.seconds:.0f} s and {learned.n_evaluations} evaluations before it "
            f"converged. The best found so far is used; raise the time budget ({time_budget:g} s) or fix some "
            "hyperparameters.",
            ConvergenceWarning,
            stacklevel=4,
        )
    if learned.on_bounds:
        warnings.warn(
            f"These estimates sit on a bound: {'; '.join(learned.on_bounds)}.",
            ConvergenceWarning,
            stacklevel=4,
        )


def make_blocks(
    X: Floats, y: Floats, sample_weight: Floats | None, n_blocks: int, ard: bool, rng: np.random.RandomState
) -> list[Block]:
    """Blocks of the composite likelihood; all data as a single block where they are few."""
    n = len(X)
    if n <= MAX_EXACT:
        groups = [np.arange(n)]
    else:
        # With a length scale per column, neighbours are those in columns of unit spread.
        scale = X.std(axis=0) if ard else np.ones(X.shape[1])
        groups = _near_and_far(X / np.where(scale > 0, scale, 1.0), min(n_blocks, -(-4 * n // BLOCK_SIZE)), rng)
    factors = None if sample_weight is None else 1.0 / sample_weight
    return [
        Block(
            X[group],
            y[group],
            None if factors is None else factors[group],
            None if ard else cdist(X[group], X[group], "sqeuclidean"),
        )
        for group in groups
    ]


def _near_and_far(X: Floats, n_blocks: int, rng: np.random.RandomState) -> list[NDArray[np.int64]]:
    """Around random points, the nearest neighbours and others at random from shells of ever larger rank."""
    n = len(X)
    near = int(NEAR_SHARE * BLOCK_SIZE)
    far = BLOCK_SIZE - near
    tree = cKDTree(X)
    seeds = rng.choice(n, n_blocks, replace=False)
    # Beyond the nearest, ranks are log-uniform. Exact ranks would need all distances; a random subset has them in
    # good approximation.
    pool = rng.choice(n, min(n, 5000), replace=False)
    nearest = tree.query(X[seeds], k=near)[1]
    groups = []
    for seed, neighbours in zip(seeds, nearest, strict=True):
        distances = np.sum((X[pool] - X[seed]) ** 2, axis=1)
        order = pool[np.argsort(distances)]
        order = order[~np.isin(order, neighbours)]
        edges = np.exp(np.linspace(0.0, np.log(len(order)), far + 1))
        ranks = np.unique((edges[:-1] + rng.random_sample(far) * np.diff(edges)).astype(np.int64).clip(1, len(order)))
        groups.append(np.concatenate([neighbours, order[ranks - 1]]))
    return groups


def measure(X: Floats, rng: np.random.RandomState, size: int = 1000) -> Extents:
    """Typical lengths of the data, from a random subset of `size` query points."""
    n = len(X)
    queries = X if n <= size else X[rng.choice(n, size, replace=False)]
    extent = float(np.linalg.norm(X.max(axis=0) - X.min(axis=0)))
    if n < 2 or extent == 0:
        return Extents(1.0, 1.0, 1.0, 0.0)
    nearest = cKDTree(X).query(queries, k=min(n, 8))[0][:, 1:]
    positive = np.where(nearest > 0, nearest, np.inf).min(axis=1)  # beyond exact duplicates
    positive = positive[np.isfinite(positive)]
    pairs = pdist(queries)
    pairs = pairs[pairs > 0]
    median = float(np.median(pairs)) if len(pairs) else extent
    spacing = float(np.median(positive)) if len(positive) else median
    least = float(np.quantile(positive, 0.05)) if len(positive) else spacing
    return Extents(spacing, least, median, extent)


def _is_ard(fixed: Fixed) -> bool:
    return fixed.length_scales is not None and fixed.length_scales.shape[1] > 1


@dataclass(frozen=True, eq=False)
class _Space:
    """The vector of logarithms that the optimiser moves in, its bounds and its starts."""

    extents: Extents
    columns: Floats  # unit of length of each of the q length scales
    spread: float
    n_scales: int
    given: Floats  # the whole vector, NaN where free
    lower: Floats
    upper: Floats
    names: tuple[str, ...] = field(default=())

    @classmethod
    def of(cls, X: Floats, y: Floats, fixed: Fixed, n_scales: int, ard: bool) -> _Space:
        rng = np.random.RandomState(0)  # only for the subset on which lengths are measured
        spread = float(np.mean(np.var(y, axis=0))) or 1.0
        J = n_scales
        if fixed.length_scales is not None:
            J = len(fixed.length_scales)
        elif fixed.variances is not None:
            J = len(fixed.variances)
        q = fixed.length_scales.shape[1] if fixed.length_scales is not None else (X.shape[1] if ard else 1)
        columns = np.ones(1) if q == 1 else np.where(X.std(axis=0) > 0, X.std(axis=0), 1.0)
        extents = measure(X / columns, rng)
        given = np.full(J * q + J + 1, np.nan)
        if fixed.length_scales is not None:
            given[: J * q] = np.log(fixed.length_scales).ravel()
        if fixed.variances is not None:
            given[J * q : -1] = np.log(fixed.variances)
        if fixed.noise_variance is not None:
            with np.errstate(divide="ignore"):
                given[-1] = np.log(fixed.noise_variance)
        shortest, longest = 0.2 * extents.least, 20 * max(extents.extent, extents.least)
        lengths = np.log(np.tile(columns, J))
        lower = np.concatenate([lengths + np.log(shortest), np.full(J, np.log(1e-6 * spread)), [np.log(1e-8 * spread)]])
        upper = np.concatenate([lengths + np.log(longest), np.full(J, np.log(1e4 * spread)), [np.log(10 * spread)]])
        names = (*(f"length scale {i + 1}" for i in range(J * q)), *(f"signal variance {j + 1}" for j in range(J)))
        return cls(extents, columns, spread, J, given, lower, upper, (*names, "noise variance"))

    @property
    def free(self) -> NDArray[np.bool_]:
        return np.isnan(self.given)

    @property
    def bounds(self) -> list[tuple[float, float]]:
        return list(zip(self.lower[self.free], self.upper[self.free], strict=True))

    def start(self, free_values: Floats) -> Floats:
        theta = self.given.copy()
        theta[self.free] = free_values
        return theta

    def unpack(self, theta: Floats) -> tuple[Kernel, float]:
        J, q = self.n_scales, len(self.columns)
        return Kernel(np.exp(theta[: J * q]).reshape(J, q), np.exp(theta[J * q : -1])), float(np.exp(theta[-1]))

    def _full(self, lengths: Sequence[float], variances: Sequence[float], noise: float) -> Floats:
        """Whole vector from length scales in units of the columns and variances as shares of the spread of y."""
        theta = np.concatenate(
            [
                (np.log(np.asarray(lengths))[:, None] + np.log(self.columns)).ravel(),
                np.log(np.asarray(variances) * self.spread),
                [np.log(noise * self.spread)],
            ]
        ).clip(self.lower, self.upper)
        return np.where(self.free, theta, self.given)

    def fallback(self) -> Floats:
        """Where there is nothing to learn from: constant targets, or all points in one place."""
        J = self.n_scales
        lengths = [max(self.extents.median, 1e-300)] * J
        tiny = 1e-6
        return (
            self._full(lengths, [tiny / J] * J, tiny) if self.spread == 1.0 else self._full(lengths, [0.5 / J] * J, 0.5)
        )

    def starts(self, n_restarts: int, rng: np.random.RandomState) -> list[Floats]:
        """The median distance, a short length and one between, then random ones."""
        J, ext = self.n_scales, self.extents
        short = min(3 * ext.spacing, ext.median)
        between = (short * ext.median) ** 0.5
        if J == 1:
            starts = [
                self._full([ext.median], [0.9], 0.1),
                self._full([short], [0.9], 0.1),
                self._full([between], [0.7], 0.3),
            ]
        else:
            even = np.geomspace(short, max(ext.median, 2 * short), J)
            low = np.geomspace(max(ext.least, 0.3 * short), ext.median, J)
            starts = [self._full(list(e), [0.8 / J] * J, 0.2) for e in (even, low)]
        for _ in range(n_restarts):
            lengths = np.sort(np.exp(rng.uniform(np.log(short / 2), np.log(2 * ext.median), J)))
            noise = 10 ** rng.uniform(-4, -0.2)
            starts.append(self._full(list(lengths), [(1 - noise) / J] * J, noise))
        return starts

    def on_bounds(self, theta: Floats) -> tuple[str, ...]:
        found = []
        for i in np.flatnonzero(self.free):
            at_lower, at_upper = theta[i] <= self.lower[i] + 1e-3, theta[i] >= self.upper[i] - 1e-3
            if at_lower or at_upper:
                found.append(f"{self.names[i]} = {np.exp(theta[i]):.3g} ({_advice(self.names[i], bool(at_upper))})")
        return tuple(found)


def _advice(name: str, upper: bool) -> str:
    if name.startswith("length"):
        return (
            "the target hardly changes over the data's extent in this direction"
            if upper
            else "the target varies faster than the points are spaced; more data or a fixed value are needed"
        )
    if name.startswith("signal"):
        return "the trend exceeds the data; subtract it first" if upper else "no signal was found beyond noise"
    return "nothing but noise was found" if upper else "the data look free of noise; fix noise_variance if you know it"


@dataclass(frozen=True, eq=False)
class _Trial:
    theta: Floats
    value: float  # log likelihood per point
    converged: bool


@dataclass(eq=False)
class _Search:
    """L-BFGS-B on blocks, within a time budget."""

    space: _Space
    time_budget: float
    began: float
    max_iterations: int
    n_jobs: int | None
    progress: Progress | None
    n_evaluations: int = 0

    def maximise(self, blocks: list[Block], start: Floats, max_iterations: int, stage: str) -> _Trial:
        free = self.space.free
        size = sum(block.y.size for block in blocks)
        best = _Trial(start, -np.inf, False)

        def objective(values: Floats) -> tuple[float, Floats]:
            nonlocal best
            theta = self.space.start(values)
            try:
                value, gradient = self._evaluate(blocks, theta)
            except LinAlgError:
                return 1e10, np.zeros(len(values))  # the line search steps back
            value, gradient = value / size, gradient[free] / size
            if value > best.value:
                best = _Trial(theta, value, False)
            return -value, -gradient

        iterations = 0

        def after_step(_: Floats) -> None:
            nonlocal iterations
            iterations += 1
            if self.progress is not None:
                self.progress(f"learning: {stage}", min(iterations / max_iterations, 1.0), best.value)
            if time.perf_counter() - self.began > self.time_budget:
                raise StopIteration

        result = minimize(
            objective,
            start[free],
            jac=True,
            method="L-BFGS-B",
            bounds=self.space.bounds,
            callback=after_step,
            options={"maxiter": max_iterations, "ftol": 1e-10, "gtol": 1e-6, "maxls": 30},
        )
        in_time = time.perf_counter() - self.began <= self.time_budget
        return _Trial(best.theta, best.value, in_time and (result.success or "ABNORMAL" in str(result.message)))

    def _evaluate(self, blocks: list[Block], theta: Floats) -> tuple[float, Floats]:
        self.n_evaluations += 1
        kernel, noise = self.space.unpack(theta)
        if not np.isfinite(noise):
            raise LinAlgError("overflow")

        def one(block: Block) -> tuple[float, Floats]:
            return kernel_log_likelihood(kernel, noise, block.X, block.y, block.noise_factors, block.squared_distances)

        if len(blocks) == 1:
            parts = [one(blocks[0])]
        else:
            parts = thread_map(one, blocks, n_threads(self.n_jobs))
        return sum(value for value, _ in parts), np.sum([gradient for _, gradient in parts], axis=0)
