"""The hot loops of products on grids, compiled by Numba; see `grid_products`.

The points of a tile and its patch of nodes meet in a matrix product, which BLAS does; what else there is to do goes
along the rows of small arrays that stay in the cache. Nodes have three columns here; where data have two, the middle
one has a single node, and where they have one, the last one too. Nothing but `grid_products` imports this module, and
only where Numba is installed.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from ..common.compiling import options

OPTIONS = options()


@numba.njit(**OPTIONS)
def _across(factors: Any, out: Any) -> None:
    """Products `out` (q,) of the factors (d, p) of a point along all columns but the first."""
    d, p = factors.shape
    if d == 1:
        out[0] = 1.0
    elif d == 2:
        out[:] = factors[1]
    else:
        for i in range(p):
            line, factor = out[i * p : (i + 1) * p], factors[1, i]
            for j in range(p):
                line[j] = factor * factors[2, j]


@numba.njit(**OPTIONS)
def _line(patch: Any, box: Any, to_box: bool) -> None:
    """Add the nodes of a line (p,) of a patch to that of a box, or copy them from there."""
    if to_box:
        for k in range(len(patch)):
            box[k] += patch[k]
    else:
        for k in range(len(patch)):
            patch[k] = box[k]


@numba.njit(**OPTIONS)
def _move(patch: Any, box: Any, start: Any, d: int, to_box: bool) -> None:
    """Add a patch (p, r * q) to the nodes `box` (r, g1, g2, g3) from `start` (3,) on, or copy it from there."""
    p, r = len(patch), len(box)
    lines, length = p if d == 3 else 1, p if d > 1 else 1
    for s in range(r):
        for a in range(p):
            for b in range(lines):
                at = (s * lines + b) * length
                line = box[s, start[0] + a, start[1] + b]
                _line(patch[a, at : at + length], line[start[2] : start[2] + length], to_box)


@numba.njit(**OPTIONS)
def spread(V: Any, rows: Any, bounds: Any, starts: Any, factors: Any, box: Any) -> None:
    """Add what points add to the nodes of tiles to `box` (r, g1, g2, g3), for `V` (n, r).

    Of tile `t` are the points from `bounds[t]` to `bounds[t + 1]`, whose `rows` in `V` and `factors` (d, p) there are,
    and its patch starts at the node `starts[t]`.
    """
    r, d, p = V.shape[1], factors.shape[1], factors.shape[2]
    q, most = p ** (d - 1), np.diff(bounds).max()
    all_along, all_values = np.empty(most * p), np.empty(most * r * q)
    across, patch = np.empty(q), np.empty((p, r * q))
    for t in range(len(starts)):
        first, m = bounds[t], bounds[t + 1] - bounds[t]
        along, values = all_along[: m * p].reshape(m, p), all_values[: m * r * q].reshape(m, r * q)
        for i in range(m):
            along[i] = factors[first + i, 0]
            _across(factors[first + i], across)
            for s in range(r):
                value, out = V[rows[first + i], s], values[i, s * q : (s + 1) * q]
                for k in range(q):
                    out[k] = value * across[k]
        np.dot(along.T, values, patch)
        _move(patch, box, starts[t], d, True)


@numba.njit(**OPTIONS)
def read(box: Any, rows: Any, bounds: Any, starts: Any, factors: Any, result: Any) -> None:
    """What points read from the nodes of their tiles, into their `rows` of `result` (n, r); see `spread`."""
    r, d, p = result.shape[1], factors.shape[1], factors.shape[2]
    q, most = p ** (d - 1), np.diff(bounds).max()
    all_along, all_values = np.empty(most * p), np.empty(most * r * q)
    across, patch = np.empty(q), np.empty((p, r * q))
    for t in range(len(starts)):
        first, m = bounds[t], bounds[t + 1] - bounds[t]
        along, values = all_along[: m * p].reshape(m, p), all_values[: m * r * q].reshape(m, r * q)
        for i in range(m):
            along[i] = factors[first + i, 0]
        _move(patch, box, starts[t], d, False)
        np.dot(along, patch, values)
        for i in range(m):
            _across(factors[first + i], across)
            for s in range(r):
                total, own = 0.0, values[i, s * q : (s + 1) * q]
                for k in range(q):
                    total += own[k] * across[k]
                result[rows[first + i], s] = total
