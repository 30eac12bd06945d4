"""The hot loops over graded cells, compiled by Numba.

They do what `depth` does in NumPy, for sums of Gaussians: condition on the neighbours of a cell, and answer for the
places in it. Covariances of the neighbours, and to their right those with the places, are the rows of one matrix:
eliminating them makes a factor of the first and whitens the second. Four rows are taken off four others at a time, in
one loop along them, which the compiler turns into vector instructions where it can tell that rows do not overlap; so
they are a fixed number apart, and work space is not cut out of one array. For matrices as small as these that is three
times as fast as LAPACK. Nothing but `fast_cells` imports this module, and only where Numba is installed.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from ..common.compiling import options

OPTIONS = options()
STRIDE = 1064  # numbers from a row to the next, of which as many are used as there are columns
MOST_NEIGHBOURS, MOST_PLACES = 800, 240  # that fit into a row, and corners of a cell beside them
ALIGNED = 8  # columns: loops along rows start and end at a multiple of it, and no numbers are left over
DONE, TOO_FEW, FAILED = 0, 1, 2  # what became of a cell
_LEAST = -700.0  # exponents below count as this: the result is as good as zero
_LOG2_E, _LN_2 = 1.4426950408889634, 0.6931471805599453
_SHIFT = 6755399441055744.0  # 1.5 * 2^52: added to a whole number, it has that in its lowest bits


@numba.njit(**OPTIONS)
def add_exponentials(exponents: Any, factor: float, powers: Any, out: Any) -> None:
    """Add `factor` times the exponentials of numbers (n,) up to zero to `out` (n,); the others are overwritten.

    Right to 3e-14 of each, and to the last place near one. They are polynomials times powers of two that are put
    together of bits: a call of `exp` would be for one number at a time.
    """
    bits = powers.view(np.int64)
    for i in range(len(out)):
        exponent = max(exponents[i], _LEAST)
        n = np.floor(exponent * _LOG2_E + 0.5)
        r = exponent - n * _LN_2
        p = 1.0 / 479001600.0
        p = p * r + 1.0 / 39916800.0
        p = p * r + 1.0 / 3628800.0
        p = p * r + 1.0 / 362880.0
        p = p * r + 1.0 / 40320.0
        p = p * r + 1.0 / 5040.0
        p = p * r + 1.0 / 720.0
        p = p * r + 1.0 / 120.0
        p = p * r + 1.0 / 24.0
        p = p * r + 1.0 / 6.0
        p = p * r + 0.5
        p = p * r + 1.0
        exponents[i] = factor * (p * r + 1.0)
        powers[i] = n + _SHIFT
    for i in range(len(out)):
        bits[i] = (bits[i] << 52) + (1023 << 52)
    for i in range(len(out)):
        out[i] += exponents[i] * powers[i]


@numba.njit(**OPTIONS)
def _add_squares(column: Any, place: float, rate: float, out: Any) -> None:
    """Add `rate` times the squared distances of numbers (n,) from a place to `out` (n,)."""
    for k in range(len(out)):
        out[k] += rate * (column[k] - place) ** 2


@numba.njit(**OPTIONS)
def _subtract(
    A: Any, row: int, panel: int, size: int,
    f00: float, f01: float, f02: float, f03: float, f10: float, f11: float, f12: float, f13: float,
    f20: float, f21: float, f22: float, f23: float, f30: float, f31: float, f32: float, f33: float,
) -> None:  # fmt: skip
    """Take multiples of the four rows from `panel` on off the four from `row` on; both are where they start."""
    target, source = A[row:], A[panel:]
    for k in range(size):
        p0, p1, p2, p3 = source[k], source[k + STRIDE], source[k + 2 * STRIDE], source[k + 3 * STRIDE]
        target[k] -= f00 * p0 + f01 * p1 + f02 * p2 + f03 * p3
        target[k + STRIDE] -= f10 * p0 + f11 * p1 + f12 * p2 + f13 * p3
        target[k + 2 * STRIDE] -= f20 * p0 + f21 * p1 + f22 * p2 + f23 * p3
        target[k + 3 * STRIDE] -= f30 * p0 + f31 * p1 + f32 * p2 + f33 * p3


@numba.njit(**OPTIONS)
def _subtract_row(A: Any, row: int, other: int, size: int, factor: float) -> None:
    """Take a multiple of the row from `other` on off that from `row` on."""
    target, source = A[row:], A[other:]
    for k in range(size):
        target[k] -= factor * source[k]


@numba.njit(**OPTIONS)
def _scale(A: Any, row: int, size: int, factor: float) -> None:
    """Multiply the row from `row` on."""
    target = A[row:]
    for k in range(size):
        target[k] *= factor


@numba.njit(**OPTIONS)
def _eliminate(A: Any, n: int, width: int) -> bool:
    """Overwrite `[K, B]`, rows `STRIDE` apart, of `K` the upper triangle, by `U` with `U' U = K`, and `U'^-1 B`.

    `n` is a multiple of 4, and `width` of `ALIGNED`. False where `K` is not positive definite.
    """
    for start in range(0, n, 4):
        for p in range(start, start + 4):
            first = p - p % ALIGNED  # what is left of the diagonal is never read
            for q in range(start, p):
                _subtract_row(A, p * STRIDE + first, q * STRIDE + first, width - first, A[q * STRIDE + p])
            pivot = A[p * STRIDE + p]
            if not pivot > 0.0:
                return False
            _scale(A, p * STRIDE + first, width - first, 1.0 / np.sqrt(pivot))
        a, b = start * STRIDE, (start + 1) * STRIDE
        c, d = (start + 2) * STRIDE, (start + 3) * STRIDE
        for i in range(start + 4, n, 4):
            first = i - i % ALIGNED
            _subtract(
                A, i * STRIDE + first, start * STRIDE + first, width - first,
                A[a + i], A[b + i], A[c + i], A[d + i], A[a + i + 1], A[b + i + 1], A[c + i + 1], A[d + i + 1],
                A[a + i + 2], A[b + i + 2], A[c + i + 2], A[d + i + 2],
                A[a + i + 3], A[b + i + 3], A[c + i + 3], A[d + i + 3],
            )  # fmt: skip
    return True


@numba.njit(**OPTIONS)
def _substitute_back(A: Any, n: int, first: int, size: int) -> None:
    """Overwrite `size` columns `B` of `[U, B]`, from the column `first` on, by `U^-1 B`; see `_eliminate`."""
    for start in range(n - 4, -1, -4):
        for p in range(start + 3, start - 1, -1):
            for q in range(p + 1, start + 4):
                _subtract_row(A, p * STRIDE + first, q * STRIDE + first, size, A[p * STRIDE + q])
            _scale(A, p * STRIDE + first, size, 1.0 / A[p * STRIDE + p])
        for i in range(0, start, 4):
            a, b = i * STRIDE + start, (i + 1) * STRIDE + start
            c, d = (i + 2) * STRIDE + start, (i + 3) * STRIDE + start
            _subtract(
                A, i * STRIDE + first, start * STRIDE + first, size,
                A[a], A[a + 1], A[a + 2], A[a + 3], A[b], A[b + 1], A[b + 2], A[b + 3],
                A[c], A[c + 1], A[c + 2], A[c + 3], A[d], A[d + 1], A[d + 2], A[d + 3],
            )  # fmt: skip


@numba.njit(**OPTIONS)
def _fill(
    A: Any, Z: Any, noise: Any, n: int, n_rows: int, width: int, rates: Any, variances: Any, squares: Any, powers: Any
) -> None:
    """Covariances of the first `n` of points `Z` (d, width) with all of them, upper triangle, and noise (n,) of these.

    Further rows up to `n_rows`, and their columns, are those of the identity.
    """
    for i in range(n_rows):
        first = i - i % ALIGNED
        row = A[i * STRIDE + first : i * STRIDE + width]
        row[:] = 0.0
        if i >= n:
            row[i - first] = 1.0
            continue
        for j in range(len(variances)):
            exponents = squares[: width - first]
            exponents[:] = 0.0
            for c in range(len(Z)):
                _add_squares(Z[c, first:width], Z[c, i], -rates[j, c], exponents)
            add_exponentials(exponents, variances[j], powers[: width - first], row)
        row[i - first] += noise[i]
        for k in range(n, n_rows):
            A[i * STRIDE + k] = 0.0


@numba.njit(**OPTIONS)
def _add_row_squares(A: Any, row: int, out: Any) -> None:
    """Add the squares of a row from `row` on to `out` (m,)."""
    source = A[row:]
    for k in range(len(out)):
        out[k] += source[k] * source[k]


@numba.njit(**OPTIONS)
def answer(
    centers: Any, sizes: Any, near: Any, X: Any, y: Any, noise: Any, rates: Any, variances: Any,
    corners: Any, typical: float, excess: float, must_answer: bool,
    places: Any, left_out: Any, order: Any, bounds: Any, with_mean: bool,
    mean: Any, variance: Any, contributions: Any, became: Any,
) -> None:  # fmt: skip
    """Means (m, t) and variances (m,) at places by the cells they belong to, and what became of these cells.

    Where the places are training points, `left_out` (m,) are their rows; elsewhere it is empty. Then the answers are
    left-out residuals, and their variances with noise: of `C`, the covariance of the neighbours, a row of the inverse
    tells both, see `solvers.left_out`.

    Places `order[bounds[c] : bounds[c + 1]]` belong to cell `c`, whose neighbours are `near[c]`, the nearest first.
    What the farther half of them contributes at the `corners` (q, d) of the cell, in half diagonals, is put into
    `contributions`; see `Depth`. Where it is more than `excess`, the cell answers only if it must.
    """
    n, d, t, n_corners = near.shape[1], X.shape[1], y.shape[1], len(corners)
    n_rows, prior = -(-n // 4) * 4, variances.sum()
    A, Z = np.zeros(n_rows * STRIDE), np.zeros((d, STRIDE))
    squares, powers, own = np.empty(STRIDE), np.empty(STRIDE), np.empty(STRIDE)
    totals, farther = np.empty(STRIDE), np.empty(STRIDE)
    weights, targets, products = np.empty(n * MOST_PLACES), np.empty((n, t)), np.empty(MOST_PLACES * t)
    position = np.full(MOST_PLACES, -1)  # of a left-out point among the neighbours
    for c in range(len(near)):
        became[c], contributions[c] = DONE, 0.0
        for j in range(d):
            for b in range(n):
                Z[j, b] = X[near[c, b], j] - centers[c, j]
        for b in range(n):
            own[b] = noise[near[c, b]]
            if with_mean:
                targets[b] = y[near[c, b]]
        for start in range(bounds[c], bounds[c + 1], MOST_PLACES):
            members = order[start : min(start + MOST_PLACES, bounds[c + 1])]
            m, q = len(members), n_corners if start == bounds[c] else 0
            first = n_rows + q
            width = -(-(first + m) // ALIGNED) * ALIGNED
            for j in range(d):
                for b in range(q):
                    Z[j, n_rows + b] = sizes[c] * corners[b, j]
                for b in range(m):
                    Z[j, first + b] = places[members[b], j] - centers[c, j]
            _fill(A, Z, own, n, n_rows, width, rates, variances, squares, powers)
            for b in range(m if len(left_out) > 0 else 0):
                position[b] = -1
                for i in range(n):
                    if near[c, i] == left_out[members[b]]:
                        position[b] = i
                if position[b] >= 0:
                    for i in range(n):
                        A[i * STRIDE + first + b] = 1.0 if i == position[b] else 0.0
            if not _eliminate(A, n_rows, width):
                became[c] = FAILED
                break
            totals[: q + m] = 0.0
            for i in range(n // 2):
                _add_row_squares(A, i * STRIDE + n_rows, totals[: q + m])
            farther[: q + m] = 0.0
            for i in range(n // 2, n):
                _add_row_squares(A, i * STRIDE + n_rows, farther[: q + m])
            for b in range(q):
                left = max(prior - totals[b] - farther[b], 0.0) + typical
                contributions[c] = max(contributions[c], 0.5 * farther[b] / left)
            if contributions[c] > excess and not must_answer:
                became[c] = TOO_FEW
                break
            for b in range(m):
                whole = totals[q + b] + farther[q + b]
                if position[b] >= 0:
                    variance[members[b]] = 1.0 / whole
                else:
                    variance[members[b]] = max(prior - whole, 0.0)
                    if len(left_out) > 0:
                        variance[members[b]] += noise[left_out[members[b]]]
            if with_mean:
                _substitute_back(A, n_rows, first, m)
                W, M = weights[: n * m].reshape(n, m), products[: m * t].reshape(m, t)
                for i in range(n):
                    W[i] = A[i * STRIDE + first : i * STRIDE + first + m]
                np.dot(W.T, targets, M)
                for b in range(m):
                    if len(left_out) == 0:
                        mean[members[b]] = M[b]
                    elif position[b] >= 0:
                        mean[members[b]] = M[b] * variance[members[b]]
                    else:
                        mean[members[b]] = y[left_out[members[b]]] - M[b]


@numba.njit(**OPTIONS)
def whiten(points: Any, X: Any, noise: Any, rates: Any, variances: Any, columns: Any, failed: Any) -> None:
    """Columns (B, n, m) of blocks, `U^-1` of the last `m` of their points (B, n), and which blocks could not be solved.

    `U' U` is the covariance of a block's points; see `block_inverse`.
    """
    (n, m), d = columns.shape[1:], X.shape[1]
    n_rows = -(-n // 4) * 4
    width = -(-n_rows // ALIGNED) * ALIGNED
    A, Z = np.zeros(n_rows * STRIDE), np.zeros((d, STRIDE))
    squares, powers, own = np.empty(STRIDE), np.empty(STRIDE), np.empty(STRIDE)
    for c in range(len(points)):
        last = points[c, n - 1]
        for b in range(n):
            own[b] = noise[points[c, b]]
            for j in range(d):
                Z[j, b] = X[points[c, b], j] - X[last, j]
        _fill(A, Z, own, n, n_rows, width, rates, variances, squares, powers)
        failed[c] = not _eliminate(A, n_rows, width)
        if failed[c]:
            continue
        for i in range(n_rows):
            A[i * STRIDE + width : i * STRIDE + width + m] = 0.0
        for b in range(m):
            A[(n - m + b) * STRIDE + width + b] = 1.0
        _substitute_back(A, n_rows, width, m)
        for i in range(n):
            row, out = A[i * STRIDE + width :], columns[c, i]
            for b in range(m):
                out[b] = row[b]
