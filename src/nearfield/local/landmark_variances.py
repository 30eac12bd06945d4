r"""Variances in many columns: landmarks carry what reaches far, and neighbours tell what is left.

At a place, with the features `f` of the landmarks and the residual kernel `r` of what they leave (see
`solvers.landmarks`), the process is conditioned on the points that correlate most with it under `r`. Let `w` be their
weights, `F` their features and `v` the variance of the residual process given them. The coefficients of the features
have the precision `A`, which is found from all data, and so

.. math:: h = f - F' w, \qquad variance = v + h' A^{-1} h.

A row of the data that is left out takes its own share from `A`. Given all others, an observation with the noise `s`
tells `h h' / (v + s)` of the coefficients, so that with `q = h' A^{-1} h` the variance there is

.. math:: v + q / (1 - q / (v + s)).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError

from ..common.memory import batches
from ..common.threads import thread_map
from ..common.types import Floats, Integers
from ..kernels import Kernel
from ..solvers import linalg
from ..solvers.factors import Cholesky, Factor
from ..solvers.landmarks import LEAST_JITTER, Landmarks
from .quick_whitening import serves

PLACES_AT_ONCE = 32
"""Places whose neighbours are looked for together, which takes a matrix product with the features of all points."""
FAR = 100.0
"""Length scales between points, beyond which squared distances in single precision lack digits."""
MOST_TOLD = 1 - 1e-6
"""Share of what is known of the coefficients at a row that the row itself may tell."""


@dataclass(frozen=True, eq=False)
class StoredLandmarks:
    """What variances with landmarks cannot be made again from, beside the data.

    Attributes
    ----------
    places : ndarray of shape (m, d)
    counts : ndarray of shape (J,)
        How many landmarks belong to each component of the kernel.
    precision : ndarray of shape (m, m)
        Cholesky factor.
    count : int
    """

    places: Floats
    counts: Integers
    precision: Floats
    count: int

    def restored(self, kernel: Kernel, X: Floats, noise: Floats, n_jobs: int | None) -> LandmarkVariances:
        """The variances, for the points (n, d) with noise (n,) that they were made from."""
        landmarks = Landmarks.at(kernel, self.places, self.counts)
        return LandmarkVariances(kernel, X, noise, landmarks, Cholesky(self.precision), self.count, n_jobs)


_FOLLOW = ("features", "_to_search", "_to_solve")  # from the rest, and are left out of pickles


@dataclass(frozen=True, eq=False)
class LandmarkVariances:
    """Variances of the function at any place; see above.

    Attributes
    ----------
    kernel : Kernel
    X : ndarray of shape (n, d)
    noise : ndarray of shape (n,)
    landmarks : Landmarks
    precision : Factor
        Of `A`.
    count : int
        Neighbours of a place.
    n_jobs : int or None
    """

    kernel: Kernel
    X: Floats
    noise: Floats
    landmarks: Landmarks
    precision: Factor
    count: int
    n_jobs: int | None = None

    @cached_property
    def features(self) -> Floats:
        """Features (n, m) of the points."""
        return self.landmarks.features(self.X, self.n_jobs)

    @cached_property
    def _to_search(self) -> tuple[Floats, Floats, Floats]:
        """Points and features, in single precision where it does, and the variances (n,) that landmarks leave."""
        left = np.maximum(self.kernel.variance - np.einsum("ij,ij->i", self.features, self.features), 0.0)
        # Distances between many points lack digits in single precision where some are far away.
        dtype: Any = np.float64 if np.ptp(self.X, axis=0).max(initial=0.0) > FAR else np.float32
        return self.X.astype(dtype), self.features.astype(dtype), (left + self.noise).astype(dtype)

    @cached_property
    def _to_solve(self) -> tuple[Any, Floats]:
        """Precision that the noise asks for, and the features in it."""
        dtype: Any = np.float32 if serves(self.kernel, self.noise) else np.float64
        return dtype, self.features.astype(dtype)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in _FOLLOW}

    def stored(self) -> StoredLandmarks:
        """What is kept in a file."""
        assert isinstance(self.precision, Cholesky)
        parts = self.landmarks.parts
        places, counts = np.concatenate([part.Z for part in parts]), np.array([len(part.Z) for part in parts])
        return StoredLandmarks(places, counts, self.precision.lower, self.count)

    def with_count(self, count: int) -> LandmarkVariances:
        """The same with another number of neighbours."""
        other = replace(self, count=count)
        for name in _FOLLOW:
            vars(other)[name] = getattr(self, name)
        return other

    def __call__(self, X: Floats) -> Floats:
        """Variances (m,) at places (m, d)."""
        return self._in_batches(X, None)

    def left_out(self, rows: Integers) -> Floats:
        """Variances (m,) at rows of the data (m,), each given all others."""
        return self._in_batches(self.X[rows], rows)

    def without(self, rows: Integers) -> Floats:
        """Variances (m,) at rows of the data (m,), given all but these, which are not in the precision either."""
        return self._in_batches(self.X[rows], None, rows)

    def _in_batches(self, X: Floats, rows: Integers | None, aside: Integers | None = None) -> Floats:
        features = self.landmarks.features(X, self.n_jobs)
        _ = self._to_search, self._to_solve  # before there are threads

        def work(batch: slice) -> Floats:
            return self._variances(X[batch], features[batch], None if rows is None else rows[batch], aside)

        return np.concatenate([X[:0, 0], *thread_map(work, batches(len(X), PLACES_AT_ONCE), self.n_jobs)])

    def _neighbours(self, X: Floats, features: Floats, rows: Integers | None, aside: Integers | None) -> Integers:
        """Rows (b, p) that correlate most with places (b, d) in what landmarks leave, none of them the place itself."""
        points, of_points, observed = self._to_search
        residual = self.kernel(X.astype(points.dtype), points) - features.astype(points.dtype) @ of_points.T
        scores = residual**2 / observed
        if rows is not None:
            scores[np.arange(len(rows)), rows] = -1.0
        if aside is not None:
            scores[:, aside] = -1.0
        count = min(self.count, len(points) - (rows is not None) - (0 if aside is None else len(aside)))
        chosen: Integers = np.argpartition(-scores, max(count - 1, 0), axis=1)[:, :count]
        return chosen

    def _variances(self, X: Floats, features: Floats, rows: Integers | None, aside: Integers | None) -> Floats:
        near, (dtype, of_points) = self._neighbours(X, features, rows, aside), self._to_solve
        Z, F = self.X[near] - X[:, None], of_points[near]
        if np.abs(Z).max(initial=0.0) > FAR:  # one by one, distances are of differences, which have their digits
            cross = np.stack([self.kernel(each, np.zeros((1, X.shape[1]))) for each in Z])[:, :, 0].astype(dtype)
            K = np.stack([self.kernel(self.X[own], self.X[own]) for own in near]).astype(dtype)
        else:
            Z = Z.astype(dtype)
            cross, K = self.kernel(Z, np.zeros((len(X), 1, X.shape[1]), dtype))[:, :, 0], self.kernel(Z, Z)
        cross -= (F @ features[:, :, None].astype(dtype))[:, :, 0]
        K -= F @ F.mT
        diagonal = np.arange(near.shape[1])
        K[:, diagonal, diagonal] += self.noise[near].astype(dtype)
        weights = np.stack([_solved(*each, self.kernel.variance) for each in zip(K, cross, strict=True)])
        prior = np.maximum(self.kernel.variance - np.einsum("ij,ij->i", features, features), 0.0)
        local = np.maximum(prior - np.einsum("bp,bp->b", weights, cross.astype(np.float64)), 0.0)
        h = features - (F.mT @ weights[:, :, None].astype(dtype))[:, :, 0]
        unknown = np.einsum("im,mi->i", h, self.precision.solve(h.T))
        if rows is not None:
            share = unknown / (local + self.noise[rows])
            unknown = unknown / (1 - np.minimum(share, MOST_TOLD))
        result: Floats = np.minimum(local + unknown, self.kernel.variance)
        return result


def _solved(K: Floats, b: Floats, variance: float) -> Floats:
    """`K^-1 b` for a matrix (p, p), in double precision, with as much on the diagonal as rounding asks for."""
    jitter = 0.0
    while jitter <= variance:
        lower = np.array(K.T, order="F")
        lower[np.arange(len(K)), np.arange(len(K))] += jitter
        if linalg.cholesky_in_place(lower):
            half = linalg.solve_lower_rows(lower, np.array(b[:, None]))
            solved: Floats = linalg.solve_lower_rows(lower, half, transposed=True)[:, 0].astype(np.float64)
            return solved
        K, b = K.astype(np.float64), b.astype(np.float64)
        jitter = max(100 * jitter, LEAST_JITTER * variance)
    raise LinAlgError("The covariance matrix of what landmarks leave is not positive definite.")
