r"""Landmarks: places whose values carry most of a Gaussian process, so that little is left for neighbours to tell.

With landmarks `Z` of a kernel `k`, and `L` the Cholesky factor of `k(Z, Z)`,

.. math:: F(x) = k(x, Z) L^{-T}, \quad r(x, x') = k(x, x') - F(x) F(x')'

`F` are the features, and the residual kernel `r` is positive semidefinite, whatever the landmarks. A kernel of several
components has landmarks for each of them: the longer ones need few, and seen through the sum of all they would need
far more, since the shorter ones are noise at every landmark.

Landmarks are rows of the data, drawn one after the other with probabilities proportional to the variance that those
drawn before have left (randomly pivoted Cholesky). Of all components, those are taken that take most variance away.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.linalg import LinAlgError, solve_triangular

from ..common.memory import batches
from ..common.threads import thread_map
from ..common.types import Floats, Integers
from ..kernels import Kernel

LEAST_JITTER = 1e-13
"""Share of the variance, added to the diagonal of a matrix of landmarks. It is multiplied by 100 until there is a
factor. More is safe, but leaves variance that thousands of points can see."""
SAMPLE_RATIO, LEAST_SAMPLE = 2, 2000
"""Landmarks are chosen among so many times their number of rows, and at least among so many."""
ROWS_AT_ONCE = 4096


@dataclass(frozen=True, eq=False)
class Part:
    """Landmarks of one component of a kernel.

    Attributes
    ----------
    kernel : Kernel
    Z : ndarray of shape (m, d)
    lower : ndarray of shape (m, m)
        Cholesky factor of `kernel(Z, Z)`.
    """

    kernel: Kernel
    Z: Floats
    lower: Floats

    @classmethod
    def of(cls, kernel: Kernel, Z: Floats) -> Part:
        """For given places."""
        K, jitter = kernel(Z, Z), LEAST_JITTER * kernel.variance
        while True:
            try:
                return cls(kernel, Z, np.linalg.cholesky(K + jitter * np.eye(len(Z))))
            except LinAlgError:
                jitter *= 100

    def features(self, X: Floats) -> Floats:
        """Features (n, m) of points (n, d)."""
        rows: Floats = solve_triangular(self.lower, self.kernel(self.Z, X), lower=True, check_finite=False)
        return rows.T


@dataclass(frozen=True, eq=False)
class Landmarks:
    """Landmarks of a kernel; see above."""

    parts: tuple[Part, ...]

    @classmethod
    def of(cls, kernel: Kernel, X: Floats, m: int, rng: np.random.RandomState) -> Landmarks:
        """At most `m` landmarks among the points (n, d): fewer where more would take nothing away."""
        n = len(X)
        some = X[rng.choice(n, min(n, max(SAMPLE_RATIO * m, LEAST_SAMPLE)), replace=False)]
        components = _components(kernel)
        least = LEAST_JITTER * kernel.variance
        drawn = [drawn_landmarks(component, some, m, least, rng) for component in components]
        taken = [np.minimum.accumulate(gains) for _, gains in drawn]
        owners = np.repeat(np.arange(len(components)), [len(gains) for gains in taken])
        best = np.argsort(-np.concatenate(taken), kind="stable")[:m]
        counts = np.bincount(owners[best], minlength=len(components))
        given = zip(components, drawn, counts.tolist(), strict=True)
        return cls(tuple(Part.of(component, some[rows[:count]]) for component, (rows, _), count in given))

    @classmethod
    def at(cls, kernel: Kernel, places: Floats, counts: Integers) -> Landmarks:
        """Landmarks at given places (m, d), so many of which, `counts` (J,), belong to each component of the kernel."""
        ends = np.cumsum(counts)
        given = zip(_components(kernel), np.split(places, ends[:-1]), strict=True)
        return cls(tuple(Part.of(component, Z) for component, Z in given))

    @property
    def n_features(self) -> int:
        """Number of landmarks, m."""
        return sum(len(part.Z) for part in self.parts)

    def features(self, X: Floats, n_jobs: int | None = 1) -> Floats:
        """Features (n, m) of points (n, d)."""
        result = np.empty((len(X), self.n_features))

        def fill(rows: slice) -> None:
            parts = [part.features(X[rows]) for part in self.parts]
            result[rows] = np.concatenate([result[rows, :0], *parts], axis=1)

        thread_map(fill, batches(len(X), ROWS_AT_ONCE), n_jobs)
        return result


def _components(kernel: Kernel) -> list[Kernel]:
    return [Kernel(scales[None], np.array([v]), kernel.family) for scales, v in kernel.components()]


def drawn_landmarks(
    kernel: Kernel, X: Floats, m: int, least: float, rng: np.random.RandomState
) -> tuple[Integers, Floats]:
    """At most `m` rows of points (n, d), in the order they were drawn, and the mean variance that each took away.

    It ends where what is left at every point is below `least`.
    """
    n = len(X)
    left, factor = np.full(n, kernel.variance), np.empty((min(m, n), n))
    rows, gains = np.empty(min(m, n), dtype=np.int64), np.empty(min(m, n))
    for i in range(len(rows)):
        cumulative = np.cumsum(left)
        row = min(int(np.searchsorted(cumulative, rng.uniform() * cumulative[-1], side="right")), n - 1)
        if left[row] <= least:
            return rows[:i], gains[:i]
        column = kernel(X[row : row + 1], X)[0] - factor[:i, row] @ factor[:i]
        factor[i] = column / left[row] ** 0.5
        gains[i] = float(np.mean(np.minimum(factor[i] ** 2, left)))
        left = np.maximum(left - factor[i] ** 2, 0.0)
        left[row] = 0.0
        rows[i] = row
    return rows, gains


def earlier_by_correlation(
    kernel: Kernel,
    X: Floats,
    F: Floats,
    noise: Floats,
    cells: list[Integers],
    candidates: list[Integers],
    count: int,
    n_jobs: int | None,
) -> list[Integers]:
    """For each cell of rows, the `count` of its candidates that say most of it by themselves.

    That is by the squared residual covariance with the points of the cell, over both residual variances, noise
    included: the share of what is not known of a point that another one tells.
    """
    left = np.maximum(kernel.variance - np.einsum("ij,ij->i", F, F), 1e-9 * kernel.variance)
    work = partial(_most_telling, kernel, X, F, left, left + noise, count)
    return thread_map(lambda i: work(cells[i], candidates[i]), range(len(cells)), n_jobs)


def _most_telling(
    kernel: Kernel,
    X: Floats,
    F: Floats,
    left: Floats,
    observed: Floats,
    count: int,
    own: Integers,
    candidates: Integers,
) -> Integers:
    if len(candidates) <= count:
        return candidates
    residual = kernel(X[own], X[candidates]) - F[own] @ F[candidates].T
    scores = np.sum(residual**2 / left[own, None], axis=0) / observed[candidates]
    chosen: Integers = candidates[np.argpartition(-scores, count - 1)[:count]]
    return chosen
