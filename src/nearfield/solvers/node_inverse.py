r"""An approximate inverse of the covariance matrix of one Gaussian by the nodes of a grid; a preconditioner.

On a coarse grid `K` is nearly `W W'`, see `grid_products`, and with noise variances `S`

.. math:: (W W' + S)^{-1} = S^{-1} - S^{-1} W A^{-1} W' S^{-1}, \quad A = I + W' S^{-1} W,

where `A` has a row per node. So a map that is some dozens of length scales wide has a few thousand unknowns, however
many points there are, and is factorised at once. Two nodes see a point through one Gaussian halfway between them,

.. math:: e^{-(x - g)^2} e^{-(x - g')^2} = e^{-(g - g')^2 / 2} e^{-2 (x - (g + g') / 2)^2},

so the entries of `A` are a number that depends on `g - g'` times a sum over the data that depends on `g + g'`: one sum
per node of a grid twice as fine. Nodes far apart have nothing to do with each other, so in strips across the longest
column, each as wide as that, `A` is block tridiagonal.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import reduce
from math import prod

import numpy as np
from numpy.typing import DTypeLike
from scipy.linalg import LinAlgError, cholesky, solve_triangular
from scipy.ndimage import distance_transform_edt

from ..common import memory
from ..common.arrays import column_range
from ..common.threads import blas_threads, n_threads
from ..common.types import Floats, Integers
from ..kernels import Kernel
from .grid_products import MAX_COLUMNS, SIDES_AT_ONCE, GaussianOnGrid, Rule, Tiles

CLOSENESS = 0.02  # of `W W'` to `K`, in the spectral norm and beside the noise, at most: an iteration gains two digits
COARSEST, FINEST = 1e-3, 1e-12  # error of an entry
SINGLE_UP_TO = 1e5  # times that the signal may exceed the noise in single precision,
DOUBLE_UP_TO = CLOSENESS / FINEST  # and in double precision
UNHEARD = 1e-3  # information on a node beside that of its prior, below which it is left out
MIN_THREADED = 10_000  # nodes: with fewer, threads but wait for each other
NOTHING = 1e-12  # beside the identity; processors take long for numbers whose products underflow
LEAST_STRIP = 300  # nodes: factors of smaller ones are no quicker
MOST_CELLS = 2e5  # of a length scale, in a rectangle around the data: beyond, nodes are not even counted
KEPT_SHARE = 0.1  # of all memory, free or not, that factors may take: the same data always have the same answers
PER_ENTRY = 600.0  # multiplications that take as long as to make an entry of a block


@dataclass(frozen=True, eq=False)
class _Strip:
    """Nodes (m,) by their places in a list of all, and blocks of the factor `L` of `A`.

    `L` is (m, m) on the diagonal, and `before` the transpose (m', m) of what is beside it, on the strip before.
    """

    nodes: slice
    L: Floats
    before: Floats


@dataclass(frozen=True, eq=False)
class NodeInverse:
    """`(W W' + S)^-1`, symmetric and positive definite up to rounding.

    Attributes
    ----------
    W : GaussianOnGrid
    variance : float
        Of the kernel.
    noise : ndarray of shape (n,)
    taken : ndarray of shape (M,)
        Numbers of the nodes that matter.
    strips : list of _Strip
    n_jobs : int or None
    """

    W: GaussianOnGrid
    variance: float
    noise: Floats
    taken: Integers
    strips: list[_Strip]
    n_jobs: int | None

    @classmethod
    def of(cls, kernel: Kernel, X: Floats, noise: Floats, n_jobs: int | None, beside: float = 0.0) -> NodeInverse:
        """Close to the inverse of `K + diag(noise)` for points (n, d) with noise (n,), and one Gaussian.

        It is to serve beside long scales, which have a variance of `beside`: these take more digits.
        """
        ((_, variance),) = kernel.components()
        places = _places(kernel, X)
        gain = _gain(variance, places, noise)
        rule = _rule(places.shape[1], gain)
        dtype = np.float32 if gain * (1.0 + beside / variance) <= SINGLE_UP_TO else np.float64
        W = GaussianOnGrid(Tiles.of(places, rule), n_jobs, keep=None)
        A = _Information.of(rule, W.tiles.shape, variance, places, noise, n_jobs)
        with _blas(len(A.taken), n_jobs):
            try:
                strips = A.factorised(dtype)
            except LinAlgError:
                strips = A.factorised(np.float64)
        return cls(W, variance, noise, A.taken, strips, n_jobs)

    def product(self, V: Floats) -> Floats:
        """It times `V` (n, r)."""
        result = np.empty(V.shape)
        for sides in memory.batches(V.shape[1], SIDES_AT_ONCE):
            weighted = V[:, sides] / self.noise[:, None]
            grid = self.W.spread(weighted)
            values = grid.reshape(len(grid), -1)
            solved = self._solve(values[:, self.taken].T)
            values[:] = 0.0
            values[:, self.taken] = self.variance * solved.T
            result[:, sides] = weighted - self.W.interpolate(grid) / self.noise[:, None]
        return result

    def _solve(self, B: Floats) -> Floats:
        """`A^-1 B` for `B` (M, r)."""
        size = np.abs(B).max(axis=0, initial=0.0)
        size[size == 0] = 1.0  # in reach of single precision
        with _blas(len(B), self.n_jobs):
            result: Floats = _solved(self.strips, B / size) * size
        return result


def _blas(n_nodes: int, n_jobs: int | None) -> AbstractContextManager[None]:
    """Threads of BLAS for so many nodes."""
    return blas_threads(n_threads(n_jobs) if n_nodes >= MIN_THREADED else 1)


def _solved(strips: list[_Strip], B: Floats) -> Floats:
    """`A^-1 B` by the factors of strips; see `_Strip`."""
    parts: list[Floats] = []
    for strip in strips:
        part = B[strip.nodes].astype(strip.L.dtype)
        if parts:
            part -= strip.before.T @ parts[-1]
        parts.append(solve_triangular(strip.L, part, lower=True, check_finite=False))
    result = np.empty(B.shape)
    for i in reversed(range(len(strips))):
        if i + 1 < len(strips):
            parts[i] -= strips[i + 1].before @ parts[i + 1]
        parts[i] = solve_triangular(strips[i].L, parts[i], lower=True, trans="T", check_finite=False)
        result[strips[i].nodes] = parts[i]
    return result


@dataclass(frozen=True, eq=False)
class _Information:
    """The matrix `A`, entry by entry.

    Attributes
    ----------
    sums, nearness : ndarrays of shape (c,)
        What depends on the sum of two nodes and on their difference, by the sum and by the difference of their codes.
    middle : int
        Code of no difference.
    taken : ndarray of shape (M,)
        Numbers of the nodes that matter, in the order of strips.
    codes : ndarray of shape (M,)
        Of these nodes.
    strips : list of slice
    """

    sums: Floats
    nearness: Floats
    middle: int
    taken: Integers
    codes: Integers
    strips: list[slice]

    @classmethod
    def of(
        cls,
        rule: Rule,
        shape: tuple[int, ...],
        variance: float,
        places: Floats,
        noise: Floats,
        n_jobs: int | None,
    ) -> _Information:
        """On a grid with numbers of nodes `shape`, for points (n, d) in length scales."""
        d, wide = len(shape), tuple(2 * size for size in shape)
        sums = np.zeros(wide)
        halfway = Rule(rule.spacing / 2**0.5, int(np.ceil(2**0.5 * rule.n_beyond)), rule.cell_nodes)
        grid = GaussianOnGrid(Tiles.of(2**0.5 * places, halfway), n_jobs, keep=False).spread(1 / noise[:, None])[0]
        grid *= variance * (rule.weight**2 / halfway.weight) ** d
        skipped = 2 * rule.n_beyond - halfway.n_beyond  # nodes of the wider grid before the first of these
        inside = tuple(slice(0, size - skipped) for size in wide)
        sums[tuple(slice(skipped, skipped + size) for size in grid[inside].shape)] = grid[inside]
        steps = (rule.spacing * np.arange(1 - size, size + 1) for size in shape)
        nearness: Floats = reduce(np.multiply.outer, [np.exp(-0.5 * step**2) for step in steps])
        nearness[nearness < _nearness_beyond(rule)] = 0.0
        nodes: Integers = np.indices(shape).reshape(d, -1)
        codes = np.ravel_multi_index(tuple(nodes), wide)
        heard = np.flatnonzero(sums.ravel()[2 * codes] > UNHEARD)
        middle = int(np.ravel_multi_index(tuple(size - 1 for size in shape), wide))
        counts = np.bincount(nodes[0, heard], minlength=shape[0])
        strips = list(_strips(counts, _reach(rule), LEAST_STRIP))
        return cls(sums.ravel(), nearness.ravel(), middle, heard, codes[heard], strips)

    def factorised(self, dtype: DTypeLike) -> list[_Strip]:
        """The factor of `A`, strip by strip."""
        result: list[_Strip] = []
        sums: Floats = self.sums.astype(dtype)
        nearness: Floats = self.nearness.astype(dtype)

        def block(rows: slice, columns: slice) -> Floats:
            """Entries of some rows and columns, less the identity."""
            codes, others = self.codes[rows, None], self.codes[columns]
            entries: Floats = sums.take(codes + others) * nearness.take(codes - others + self.middle)
            return entries

        for nodes in self.strips:
            A, before = block(nodes, nodes), self.sums[:0, None]
            A.flat[:: len(A) + 1] += 1.0
            if result:
                last = result[-1]
                before = block(last.nodes, nodes)
                before = solve_triangular(last.L, before, lower=True, overwrite_b=True, check_finite=False)
                before[np.abs(before) < NOTHING] = 0.0
                A -= before.T @ before
            L = cholesky(A, lower=True, overwrite_a=True, check_finite=False)
            result.append(_Strip(nodes, L, before))
        return result


def _places(kernel: Kernel, X: Floats) -> Floats:
    """Points (n, d) in length scales, none of them negative, the column of the largest extent first."""
    ((scales, _),) = kernel.components()
    low, high = column_range(X)
    extent = (high - low) / scales
    result: Floats = ((X - low) / scales)[:, np.argsort(-extent, kind="stable")]
    return result


def _gain(variance: float, places: Floats, noise: Floats) -> float:
    """About by how much the signal exceeds the noise where it does so most: `K` in the spectral norm, over `S`."""
    cells = places.astype(np.int64)
    extent = tuple((cells.max(axis=0) + 1).tolist())
    information = np.bincount(np.ravel_multi_index(tuple(cells.T), extent), weights=1 / noise)
    return float(variance * information.max() * (2 * np.pi) ** (0.5 * places.shape[1]))


def _rule(d: int, gain: float) -> Rule:
    return Rule.of(d, float(np.clip(CLOSENESS / gain, FINEST, COARSEST)))


def _nearness_beyond(rule: Rule) -> float:
    """Below, two nodes have nothing to do with each other: no more than a node and a point beyond its reach."""
    return float(np.exp(-((rule.n_beyond * rule.spacing) ** 2)))


def _reach(rule: Rule) -> int:
    """Nodes along a column, from where on they are so."""
    return int(np.ceil(2**0.5 * rule.n_beyond))


def _strips(counts: Integers, width: int, least: int) -> Iterator[slice]:
    """Nodes, of which there are so many in each column (c,), in strips of at least so many columns and nodes."""
    ends, start, first = np.cumsum(counts), 0, 0
    for column, end in enumerate(ends.tolist()):
        if (column + 1 - first >= width and end - start >= least) or column + 1 == len(ends):
            if end > start:
                yield slice(start, end)
            start, first = end, column + 1


def node_cost(kernel: Kernel, X: Floats, noise: Floats) -> float:
    """Multiplications of single precision that `NodeInverse.of` takes; infinite where it has too many nodes, or none.

    For points (n, d) with noise variances (n,).
    """
    d = X.shape[1]
    if d > MAX_COLUMNS or kernel.family != "gaussian" or kernel.n_scales > 1:
        return np.inf
    places = _places(kernel, X)
    if not prod((places.max(axis=0) + 1.0).tolist()) <= MOST_CELLS:
        return np.inf
    gain = _gain(kernel.variance, places, noise)
    if not gain <= DOUBLE_UP_TO:
        return np.inf
    rule = _rule(d, gain)
    # Where data are densest, nodes are heard up to here, so that the count is an upper bound.
    loudest = gain * (rule.weight**2 / np.sqrt(2 * np.pi)) ** d
    heard_within = np.sqrt(0.5 * np.log(max(loudest / UNHEARD, 1.0))) / rule.spacing
    margin = int(heard_within) + 1
    nodes = (places / rule.spacing).astype(np.int64) + margin
    is_far = np.ones(nodes.max(axis=0) + 2 + margin, dtype=bool)
    is_far[tuple(nodes.T)] = False
    heard = distance_transform_edt(is_far) <= heard_within + 0.5 * d**0.5
    counts = heard.reshape(len(heard), -1).sum(axis=1)
    sizes = [s.stop - s.start for s in _strips(counts, _reach(rule), LEAST_STRIP)]
    pairs, width = list(zip([0, *sizes], sizes, strict=False)), 1 if gain <= SINGLE_UP_TO else 2
    n_entries = float(sum(b * (a + b) for a, b in pairs))
    if 4.0 * width * n_entries > KEPT_SHARE * memory.total():
        return np.inf
    return width * (float(sum(b**3 / 3 + b * a * (a + b) for a, b in pairs)) + PER_ENTRY * n_entries)
