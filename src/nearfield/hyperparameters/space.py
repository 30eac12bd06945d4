"""The vector of hyperparameters that learning moves in: its bounds and its starts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.spatial import cKDTree
from scipy.spatial.distance import pdist

from ..common.types import Booleans, Floats, Integers
from ..kernels import Kernel
from .learned import OnBound
from .request import Fixed

OUTER_SHARE = 0.05  # of the values at either end of a column, that may be outliers
OUTLYING_RATIO = 2.0  # of standard deviations with and without them, above which they are
ROUNDING = 1e-12  # of the largest value of a column: smaller spreads are rounding errors
CONSTANT_SPREAD = 1e-6  # stands in for the variance of targets that are all equal


@dataclass(frozen=True)
class Extents:
    """Lengths of the data that starts and bounds are made of."""

    spacing: float  # typical distance to the nearest other point
    least: float  # a small one of those distances
    median: float  # median distance of two points
    extent: float  # diameter of the bounding box

    @classmethod
    def of(cls, X: Floats, rng: np.random.RandomState, size: int = 1000) -> Extents:
        """Lengths of points `X` (n, d), from a random subset of `size` query points."""
        n = len(X)
        queries = X if n <= size else X[rng.choice(n, size, replace=False)]
        extent = float(np.linalg.norm(X.max(axis=0) - X.min(axis=0)))
        if n < 2 or extent == 0:
            return NO_EXTENTS
        return cls.from_neighbours(cKDTree(X).query(queries, k=min(n, 8))[0][:, 1:], queries, extent)

    @classmethod
    def from_neighbours(cls, distances: Floats, queries: Floats, extent: float) -> Extents:
        """Lengths from distances (m, k) of query points (m, d) to their nearest others, and the diameter."""
        positive = np.where(distances > 0, distances, np.inf).min(axis=1)  # beyond exact duplicates
        positive = positive[np.isfinite(positive)]
        pairs = pdist(queries)
        pairs = pairs[pairs > 0]
        median = float(np.median(pairs)) if len(pairs) else extent
        spacing = float(np.median(positive)) if len(positive) else median
        least = float(np.quantile(positive, 0.05)) if len(positive) else spacing
        return cls(spacing, least, median, extent)


def spreads_of(X: Floats, tied: int = 0) -> Floats:
    """Spread (d,) of each column of `X` (n, d), and of the first `tied` ones together.

    It is the standard deviation. Where that is more than twice what is left of it when values are drawn in to the
    quantiles of 5 % and 95 %, outliers would set the unit, and the latter is taken, unless it is 0, as for a rare code.
    """
    spreads: Floats = X.std(axis=0)
    inner = np.clip(X, *np.quantile(X, [OUTER_SHARE, 1 - OUTER_SHARE], axis=0)).std(axis=0)
    has_outliers = (inner > ROUNDING * np.abs(X).max(axis=0)) & (spreads > OUTLYING_RATIO * inner)
    spreads = np.where(has_outliers, inner, spreads)
    spreads[np.ptp(X, axis=0) == 0] = 0.0
    spreads[:tied] = np.sqrt(np.sum(spreads[:tied] ** 2))
    return spreads


NO_EXTENTS = Extents(1.0, 1.0, 1.0, 0.0)  # of points that are all in one place


@dataclass(frozen=True, eq=False)
class Space:
    """The vector of logarithms that the optimiser moves in, its bounds and its starts.

    Its order is that of the gradients in `likelihood`.
    """

    fixed: Fixed
    extents: Extents
    columns: Floats  # unit of length of each of the q length scales
    spread: float  # variance of the targets
    is_degenerate: bool  # nothing to learn from: constant targets, or all points in one place
    n_scales: int
    given: Floats  # the whole vector, NaN where free
    lower: Floats
    upper: Floats
    leaders: Integers  # for each entry the one that it is equal to: itself, or the first of those tied to it
    family: str = "gaussian"  # of the kernel

    @classmethod
    def of(
        cls,
        X: Floats,
        y: Floats,
        fixed: Fixed,
        n_scales: int,
        ard: bool,
        extents: Extents | None = None,
        tied: int = 0,
        family: str = "gaussian",
    ) -> Space:
        """Space for points `X` (n, d) and centred targets `y` (n, k); `extents` where they are known already.

        With a length scale per column, the first `tied` columns share one.
        """
        spread = float(np.mean(np.var(y, axis=0))) or CONSTANT_SPREAD
        J = n_scales
        if fixed.length_scales is not None:
            J = len(fixed.length_scales)
        elif fixed.variances is not None:
            J = len(fixed.variances)
        q = fixed.length_scales.shape[1] if fixed.length_scales is not None else (X.shape[1] if ard else 1)
        spreads, sizes = spreads_of(X, tied), np.abs(X).max(axis=0, initial=1.0)
        columns = np.ones(1) if q == 1 else np.where(spreads > 0, spreads, sizes)
        extents = extents or Extents.of(X / columns, np.random.RandomState(0))
        given = np.full(J * q + J + 1, np.nan)
        if fixed.length_scales is not None:
            given[: J * q] = np.log(fixed.length_scales).ravel()
        if fixed.variances is not None:
            given[J * q : -1] = np.log(fixed.variances)
        if fixed.noise_variance is not None:
            given[-1] = np.log(fixed.noise_variance) if fixed.noise_variance > 0 else -np.inf
        shortest, longest = 0.2 * extents.least, 20 * max(extents.extent, extents.least)
        lengths = np.log(np.tile(columns, J))
        lower = np.concatenate([lengths + np.log(shortest), np.full(J, np.log(1e-6 * spread)), [np.log(1e-8 * spread)]])
        upper = np.concatenate([lengths + np.log(longest), np.full(J, np.log(1e4 * spread)), [np.log(10 * spread)]])
        if q > 1:  # of a column that never changes nothing can be learnt: it is as good as not there
            silent = np.flatnonzero(np.tile(spreads == 0, J))
            lower[silent] = upper[silent]
        is_degenerate = spread == CONSTANT_SPREAD or extents.extent == 0
        leaders = np.arange(len(given))
        for j in range(J if q > 1 else 0):
            leaders[j * q : j * q + tied] = j * q
        return cls(fixed, extents, columns, spread, is_degenerate, J, given, lower, upper, leaders, family)

    @property
    def free(self) -> Booleans:
        """Which entries are to be learnt; of those tied together, the first."""
        result: Booleans = np.isnan(self.given) & (self.leaders == np.arange(len(self.given)))
        return result

    @property
    def bounds(self) -> list[tuple[float, float]]:
        """Least and largest value of each free entry."""
        return list(zip(self.lower[self.free], self.upper[self.free], strict=True))

    @property
    def noise_floor(self) -> float:
        """What stands in for a noise variance fixed at zero, so that covariance matrices can be factored."""
        return 1e-10 * self.spread

    def filled(self, free_values: Floats) -> Floats:
        """Whole vector with these values where it is free."""
        theta = self.given.copy()
        theta[self.free] = free_values
        result: Floats = theta[self.leaders]
        return result

    def free_gradient(self, gradient: Floats) -> Floats:
        """Derivatives in the free entries, from those in all."""
        result: Floats = np.bincount(self.leaders, gradient, len(gradient))[self.free]
        return result

    def free_matrix(self, matrix: Floats) -> Floats:
        """Second derivatives in the free entries, from those in all."""
        p = len(self.given)
        sums = np.zeros((p, p))
        np.add.at(sums, (self.leaders[:, None], self.leaders[None, :]), matrix)
        result: Floats = sums[np.ix_(self.free, self.free)]
        return result

    def unpack(self, theta: Floats) -> tuple[Kernel, float]:
        """Kernel and noise variance of a whole vector; what is given comes back to the last digit."""
        J, q = self.n_scales, len(self.columns)
        lengths, variances, noise = self.fixed.length_scales, self.fixed.variances, self.fixed.noise_variance
        kernel = Kernel(
            np.exp(theta[: J * q]).reshape(J, q) if lengths is None else lengths,
            np.exp(theta[J * q : -1]) if variances is None else variances,
            self.family,
        )
        return kernel, float(np.exp(theta[-1])) if noise is None else noise

    def sorted(self, theta: Floats) -> Floats:
        """Whole vector with the components in the order of their length, where that is free to choose."""
        J, q = self.n_scales, len(self.columns)
        if not np.isnan(self.given[:-1]).all():
            return theta
        lengths, variances = theta[: J * q].reshape(J, q), theta[J * q : -1]
        order = np.argsort(lengths.mean(axis=1))
        return np.concatenate([lengths[order].ravel(), variances[order], theta[-1:]])

    def vector(self, kernel: Kernel, noise_variance: float) -> Floats:
        """The inverse of `unpack`, within the bounds."""
        noise = np.log(max(noise_variance, np.finfo(float).tiny))
        theta = np.concatenate([np.log(kernel.length_scales).ravel(), np.log(kernel.variances), [noise]])
        return np.where(np.isnan(self.given), theta.clip(self.lower, self.upper), self.given)[self.leaders]

    def standard_errors(self, information: Floats) -> Floats:
        """Standard errors of all entries, from the information matrix of the free ones; NaN where it has none."""
        values, vectors = np.linalg.eigh(information)
        is_known = values > 1e-9 * max(float(values[-1]), 1e-300)
        variances = np.sum(vectors[:, is_known] ** 2 / values[is_known], axis=1)
        variances[np.sum(vectors[:, ~is_known] ** 2, axis=1) > 1e-3] = np.nan
        result = np.full(len(self.given), np.nan)
        result[self.free] = np.sqrt(variances)
        errors: Floats = result[self.leaders]
        return errors

    def fallback(self) -> Floats:
        """Whole vector where there is nothing to learn from."""
        J = self.n_scales
        return self._vector([self.extents.median] * J, [0.5 / J] * J, 0.5)

    def starts(self, n_random: int, rng: np.random.RandomState) -> list[Floats]:
        """Whole vectors to start from: the median distance, a short length and one between, then random ones."""
        J, ext = self.n_scales, self.extents
        short = min(3 * ext.spacing, ext.median)
        between = (short * ext.median) ** 0.5
        if J == 1:
            starts = [
                self._vector([ext.median], [0.9], 0.1),
                self._vector([short], [0.9], 0.1),
                self._vector([between], [0.7], 0.3),
            ]
        else:
            even = np.geomspace(short, max(ext.median, 2 * short), J)
            low = np.geomspace(max(ext.least, 0.3 * short), ext.median, J)
            starts = [self._vector(list(e), [0.8 / J] * J, 0.2) for e in (even, low)]
        for _ in range(n_random):
            lengths = np.sort(np.exp(rng.uniform(np.log(short / 2), np.log(2 * ext.median), J)))
            noise = 10 ** rng.uniform(-4, -0.2)
            starts.append(self._vector(list(lengths), [(1 - noise) / J] * J, noise))
        return starts

    def _vector(self, lengths: Sequence[float], variances: Sequence[float], noise: float) -> Floats:
        """Whole vector from length scales in units of the columns and variances as shares of the spread of y."""
        theta = np.concatenate(
            [
                (np.log(np.asarray(lengths))[:, None] + np.log(self.columns)).ravel(),
                np.log(np.asarray(variances) * self.spread),
                [np.log(noise * self.spread)],
            ]
        ).clip(self.lower, self.upper)
        return np.where(np.isnan(self.given), theta, self.given)[self.leaders]

    def on_bounds(self, kernel: Kernel, noise_variance: float) -> tuple[OnBound, ...]:
        """Learnt values that sit on a bound, of a kernel that may have fewer Gaussians than the space.

        Bounds are the same for every Gaussian, so those of the first one serve.
        """
        sitting: list[OnBound] = []
        q = len(self.columns)

        def add_if_on_bound(
            i: int, value: float, kind: str, component: int | None = None, column: int | None = None
        ) -> None:
            if not self.free[i] or self.lower[i] == self.upper[i]:
                return
            at_upper = bool(np.log(value) >= self.upper[i] - 1e-3)
            if at_upper or np.log(value) <= self.lower[i] + 1e-3:
                sitting.append(OnBound(kind, component, column, float(value), at_upper))

        for j, scales in enumerate(kernel.length_scales):
            for c, scale in enumerate(scales):
                add_if_on_bound(c, scale, "length_scale", j, c if q > 1 else None)
        for j, variance in enumerate(kernel.variances):
            add_if_on_bound(self.n_scales * q, variance, "signal_variance", j)
        add_if_on_bound(-1, noise_variance, "noise_variance")
        return tuple(sitting)
