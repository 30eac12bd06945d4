r"""Functions drawn from the prior: defined everywhere, and always the same for the same seed.

Up to three columns, a Gaussian process with a Gaussian kernel is white noise smoothed by a Gaussian,

.. math:: f(x) = \sqrt{v} \sum_i g(x - u_i) \, \xi_i, \qquad
    g(x) = \prod_c \sqrt{h \sqrt{2 / \pi}} \, e^{-x_c^2 / l_c^2}

over the nodes `u` of a lattice, `h` length scales apart. That is exact but for the step of the lattice and where the
sum ends, together a few millionths of the variance. The noise of a node is a hash of its place, so that there is
nothing to store, and nowhere an end. Places of the same block of the lattice meet the same nodes: one small matrix
product per block, in single precision. With more columns there would be too many nodes, and functions are sums of
random waves.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..common.memory import batches
from ..common.threads import thread_map
from ..common.types import Floats, Integers
from .gaussians import Kernel

N_WAVES = 2048  # per Gaussian of the kernel
FUNCTIONS_PER_WAVES = 8  # that share their waves: their average over many is exact, and waves are what takes time
ROWS_AT_ONCE = 1 << 10  # whose waves are found together
FAR = 2.0**40  # lattice steps, beyond which everything repeats


class _Lattice(NamedTuple):
    """How places meet nodes, by the number of columns."""

    step: float  # of the lattice, in length scales
    margin: int  # nodes beyond a block that still count
    block: int  # steps per side of a block, whose places share their nodes
    tile: int  # blocks per side of a tile, whose noise is made at once


_LATTICES = {1: _Lattice(0.55, 6, 16, 64), 2: _Lattice(0.58, 5, 6, 10), 3: _Lattice(0.66, 4, 2, 6)}


@dataclass(frozen=True)
class PriorDraws:
    """Any number of functions drawn from a Gaussian process with mean zero.

    Attributes
    ----------
    kernel : Kernel
    seed : int
        Of 64 bits.
    """

    kernel: Kernel
    seed: int

    def __call__(self, X: Floats, functions: range, n_jobs: int | None = None) -> Floats:
        """Values (n, len(functions)) at places (n, d) of some of the functions, which are numbered from 0."""
        values = np.zeros((len(X), len(functions)))
        self.add_to(values, X, functions, n_jobs)
        return values

    def add_to(self, values: Floats, X: Floats, functions: range, n_jobs: int | None) -> None:
        """Add them to `values`."""
        if len(X) and len(functions):
            draw = _add_smoothed_noise if X.shape[1] in _LATTICES else _add_waves
            for j, (scales, variance) in enumerate(self.kernel.components()):
                draw(values, X / scales, variance**0.5, (self.seed, j), functions, n_jobs)


def drawn_residuals(
    prior: PriorDraws,
    X: Floats,
    y: Floats,
    noise: Floats,
    functions: range,
    n_jobs: int | None,
    order: Integers,
    single: bool = False,
) -> Floats:
    """`y - f(X) - e` of Matheron's rule for targets (n, k) with noise variances (n,), and then `y`: (n, S + k).

    Function `i` is of target `i % k`. The noise of a sample is a hash of its number in `order` (n,). The result is in
    single precision or not.
    """
    S, k = len(functions), y.shape[1]
    result = np.zeros((len(X), S + k), dtype=np.float32 if single else np.float64)
    residuals, result[:, S:] = result[:, :S], y
    prior.add_to(residuals, X, functions, n_jobs)
    own, roots = np.arange(functions.start, functions.stop) % k, np.sqrt(noise).astype(np.float32)
    start = _mixed(np.array([prior.seed % 2**64], dtype=np.uint64) ^ _ODD)

    def work(rows: slice) -> None:
        drawn = _normals(_mixed(order[rows].astype(np.uint64) + start), functions) * roots[rows, None]
        drawn += residuals[rows]
        np.subtract(y[rows] if k == 1 else y[rows][:, own], drawn, out=residuals[rows], casting="same_kind")

    thread_map(work, batches(len(X), ROWS_AT_ONCE), n_jobs)
    return result


# ---- smoothed white noise ----------------------------------------------------------------------------------------


def _add_smoothed_noise(
    values: Floats, Z: Floats, amplitude: float, seed: tuple[int, int], functions: range, n_jobs: int | None
) -> None:
    """Add functions of one Gaussian to values (n, S) at places (n, d) in length scales."""
    lattice, d = _LATTICES[Z.shape[1]], Z.shape[1]
    T = Z / lattice.step
    T = np.where(np.abs(T) < FAR, T, np.fmod(T, FAR))
    blocks = np.floor(T / lattice.block).astype(np.int64)
    size = lattice.block + 2 * lattice.margin + 1  # nodes per side that a block needs
    around = np.arange(size) - lattice.margin
    rate, height = np.float32(lattice.step**2), amplitude ** (1 / d) * (lattice.step * (2 / np.pi) ** 0.5) ** 0.5

    def bumps(ticks: Floats) -> Floats:
        """Weights (t, size) of the nodes along a column at ticks (t,), counted from the corner of a block."""
        gaps = (ticks[:, None] - around).astype(np.float32)
        result: Floats = np.float32(height) * np.exp(-rate * gaps * gaps)
        return result

    def work(tile: Integers) -> None:
        first = blocks[tile[0]] // lattice.tile * lattice.tile  # block in the corner of the tile
        groups = list(_groups(blocks[tile] - first, lattice.tile))
        side = (lattice.tile - 1) * lattice.block + size
        noise, grid = None, _axes(T[tile[groups[0]]]) and _axes(T[tile])  # most places that are not are found out soon
        if side**d < len(groups) * size**d:
            noise = _noise(first * lattice.block - lattice.margin, side, d, seed, functions)
        for chosen in groups:
            rows = tile[chosen]
            corner = blocks[rows[0]] * lattice.block
            if noise is None:
                own = _noise(corner - lattice.margin, size, d, seed, functions)
            else:
                start = (corner - first * lattice.block).tolist()
                own = noise[tuple(slice(each, each + size) for each in start)]
            if grid is not None:  # a sum per column, instead of one over all nodes
                smooth, number = own.reshape(1, -1), np.zeros(len(rows), dtype=np.int64)
                for c, (ticks, which) in enumerate(grid):
                    low, high = int(which[chosen].min()), int(which[chosen].max()) + 1
                    smooth = bumps(ticks[low:high] - corner[c]) @ smooth.reshape(len(smooth), size, -1)
                    smooth = smooth.reshape(-1, smooth.shape[-1])
                    number = number * (high - low) + (which[chosen] - low)
                values[rows] += smooth[number]
                continue
            places = T[rows] - corner
            weights = bumps(places[:, 0])
            for c in range(1, d):
                weights = (weights[:, :, None] * bumps(places[:, c])[:, None, :]).reshape(len(rows), -1)
            values[rows] += weights @ own.reshape(-1, len(functions))

    thread_map(work, _groups(blocks // lattice.tile), n_jobs)


def _axes(places: Floats) -> list[tuple[Floats, Integers]] | None:
    """Axes of the grid that places (n, d) are on, and where on each they are (n,); None if it has many more places."""
    axes = [np.unique(column, return_inverse=True) for column in places.T]
    if np.prod([float(len(ticks)) for ticks, _ in axes]) > 2.0 * len(places):
        return None
    return [(ticks, which.reshape(-1)) for ticks, which in axes]


def _groups(cells: Integers, extent: int | None = None) -> Iterator[Integers]:
    """Rows of each distinct cell (n, d); cells may be known to be between 0 and `extent`."""
    low = np.zeros(cells.shape[1], dtype=np.int64) if extent else cells.min(axis=0)
    widths = np.full(cells.shape[1], extent) if extent else cells.max(axis=0) - low + 1
    if np.prod(widths.astype(np.float64)) < 2.0**62:
        keys = np.zeros(len(cells), dtype=np.int64)
        for c, width in enumerate(widths):
            keys = keys * width + (cells[:, c] - low[c])
    else:
        keys = np.unique(cells, axis=0, return_inverse=True)[1].reshape(-1)
    order = np.argsort(keys, kind="stable")
    ends = np.flatnonzero(np.diff(keys[order])) + 1
    return iter(np.split(order, ends))


def _noise(corner: Integers, side: int, d: int, seed: tuple[int, int], functions: range) -> Floats:
    """White noise (side, ..., side, S) of the nodes of a cube, by functions."""
    keys = _mixed(np.array([seed[0] % 2**64], dtype=np.uint64) + np.uint64(seed[1]))
    for c in range(d):
        along = (np.arange(side) + corner[c]).astype(np.int64).view(np.uint64)
        keys = _mixed(keys[..., None] * _ODD + along)
    return _normals(keys[0], functions)


def _normals(keys: NDArray[np.uint64], functions: range) -> Floats:
    """Standard normal numbers (..., S), one per key (...) and function; two functions come of each hash.

    In single precision, as all that is made of them: no draw needs more digits.
    """
    pairs = np.arange(functions.start // 2, (functions.stop + 1) // 2, dtype=np.uint64)
    bits = _mixed(keys[..., None] + (pairs + np.uint64(1)) * _GOLDEN)
    radius = np.sqrt(-2 * np.log(((bits >> np.uint64(32)).astype(np.float32) + np.float32(0.5)) * np.float32(2.0**-32)))
    angle = (bits & np.uint64(2**32 - 1)).astype(np.float32) * np.float32(2 * np.pi * 2.0**-32)
    result = np.empty((*keys.shape, 2 * len(pairs)), dtype=np.float32)
    np.multiply(radius, np.cos(angle), out=result[..., 0::2])
    np.multiply(radius, np.sin(angle), out=result[..., 1::2])
    start = functions.start % 2
    return result[..., start : start + len(functions)]


_GOLDEN, _ODD = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD1342543DE82EF95)


def _mixed(keys: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Hash of 64 bits, the finish of SplitMix64."""
    keys = keys + _GOLDEN
    keys ^= keys >> np.uint64(30)
    keys *= np.uint64(0xBF58476D1CE4E5B9)
    keys ^= keys >> np.uint64(27)
    keys *= np.uint64(0x94D049BB133111EB)
    keys ^= keys >> np.uint64(31)
    return keys


# ---- random waves ------------------------------------------------------------------------------------------------


def _add_waves(
    values: Floats, Z: Floats, amplitude: float, seed: tuple[int, int], functions: range, n_jobs: int | None
) -> None:
    """Add sums of waves to values (n, S) at places (n, d) in length scales.

    Given their frequencies such sums are Gaussian processes, and over frequencies their covariance is right on average.
    """
    for group in range(functions.start // FUNCTIONS_PER_WAVES, (functions.stop - 1) // FUNCTIONS_PER_WAVES + 1):
        first = group * FUNCTIONS_PER_WAVES
        own = range(max(first, functions.start), min(first + FUNCTIONS_PER_WAVES, functions.stop))
        rng = np.random.default_rng([seed[0], seed[1], group])
        frequencies = rng.standard_normal((Z.shape[1], N_WAVES)) / (2 * np.pi)
        heights = rng.standard_normal((2 * N_WAVES, FUNCTIONS_PER_WAVES)) * (amplitude / N_WAVES**0.5)
        chosen = heights[:, own.start - first : own.stop - first].astype(np.float32)
        columns = slice(own.start - functions.start, own.stop - functions.start)

        def work(
            chunk: slice, frequencies: Floats = frequencies, chosen: Floats = chosen, columns: slice = columns
        ) -> None:
            turns = Z[chunk] @ frequencies
            angles = ((turns - np.round(turns)) * (2 * np.pi)).astype(np.float32)
            values[chunk, columns] += np.cos(angles) @ chosen[:N_WAVES] + np.sin(angles) @ chosen[N_WAVES:]

        thread_map(work, batches(len(Z), ROWS_AT_ONCE), n_jobs)
