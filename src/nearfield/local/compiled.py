"""The hot loops over many centres, compiled by Numba.

They do what `ensemble` and `moments` do in NumPy, for one Gaussian and up to three columns: sum moments over
neighbourhoods, solve them, and ask the nearest models. They let go of Python's lock and write into arrays that they are
given, so that threads share the work. Nothing but `fast` imports this module, and only where Numba is installed.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

MOST_NEAR = 256  # centres that may be looked at for a test point
FEW_TARGETS = 4  # up to which targets are gone through one after the other, and beyond side by side
ABREAST = 8  # targets side by side are padded to a multiple of this, which processors take in whole steps
_BLOCK = 8  # points that are summed together, so that each moment is fetched and stored once for all of them


def _nothing() -> None:
    """A function to try."""


def _can_be_kept() -> bool:
    """Whether there is a folder to keep compiled loops in: beside this file, or the user's own."""
    try:
        numba.njit(cache=True)(_nothing)
    except RuntimeError:
        return False
    return True


_options: dict[str, Any] = {
    "cache": _can_be_kept(),
    "nogil": True,
    "fastmath": {"reassoc", "contract", "nsz", "arcp"},
}


@numba.njit(**_options)
def _span(place: Any, radius: float, low: Any, side: float, extent: Any, first: Any, last: Any) -> None:
    """First and last cell in each column that may hold points within a radius."""
    for j in range(len(place)):
        first[j] = min(max(int(np.floor((place[j] - radius - low[j]) / side)), 0), extent[j] - 1)
        last[j] = min(max(int(np.floor((place[j] + radius - low[j]) / side)), 0), extent[j] - 1)


@numba.njit(**_options)
def _find(
    place: Any, radius: float, X: Any, keys: Any, low: Any, side: float, extent: Any, first: Any, last: Any, out: Any
) -> int:
    """Number of points within a radius, and which they are, as far as `out` has room.

    Points are sorted by the keys of their cells, in which the last column counts by one, so cells of a line are a run.
    """
    d = len(place)
    _span(place, radius, low, side, extent, first, last)
    n_found = 0
    lines, second = 1, 1
    if d > 1:
        lines = last[0] - first[0] + 1
    if d > 2:
        second = last[1] - first[1] + 1
    for line in range(lines):
        for inner in range(second):
            base = 0
            if d == 2:
                base = (first[0] + line) * extent[1]
            elif d == 3:
                base = ((first[0] + line) * extent[1] + first[1] + inner) * extent[2]
            start = np.searchsorted(keys, base + first[d - 1])
            stop = np.searchsorted(keys, base + last[d - 1], side="right")
            for i in range(start, stop):
                square = 0.0
                for j in range(d):
                    square += (X[i, j] - place[j]) ** 2
                if square <= radius * radius:
                    if n_found < len(out):
                        out[n_found] = i
                    n_found += 1
    return n_found


@numba.njit(**_options)
def count(
    centers: Any, radius: float, X: Any, keys: Any, low: Any, side: float, extent: Any, counts: Any
) -> None:  # fmt: skip
    """Number of points within a radius of each centre."""
    d = centers.shape[1]
    first, last = np.empty(d, dtype=np.int64), np.empty(d, dtype=np.int64)
    nothing = np.empty(0, dtype=np.int64)
    for c in range(len(centers)):
        counts[c] = _find(centers[c], radius, X, keys, low, side, extent, first, last, nothing)


@numba.njit(**_options)
def _monomials(z: Any, parents: Any, variables: Any, steps: Any, out: Any) -> None:
    """Monomials of a few columns, each its parent times one variable and a step."""
    out[0] = 1.0
    for i in range(1, len(parents)):
        out[i] = out[parents[i]] * z[variables[i]] * steps[i]


@numba.njit(**_options)
def _lacking(square: float, root: float, degree: int) -> float:
    """Share of the variance that features up to a degree lack at a squared distance, of which `root` is exp(-s / 2)."""
    term, total = 1.0, 1.0
    for n in range(1, degree + 1):
        term *= square * (1.0 / n)
        total += term
    return max(1.0 - total * root * root, 0.0)


@numba.njit(**_options)
def _monomials_of_block(z: Any, parents: Any, variables: Any, steps: Any, out: Any) -> None:
    """The same for a block of points side by side: `z` (d, block) and `out` (n, block)."""
    out[0] = 1.0
    for i in range(1, len(parents)):
        parent, variable, step = parents[i], variables[i], steps[i]
        for b in range(_BLOCK):
            out[i, b] = out[parent, b] * (z[variable, b] * step)


@numba.njit(**_options)
def _add_products(U: Any, w: Any, V: Any, limits: Any, M: Any) -> None:
    """Add `w u v'` of a block of points, `U` (n1, block) and `V` (block, n2), to `M` (n1, n2), up to the limits."""
    for q in range(len(limits)):
        a0, a1, a2, a3 = w[0] * U[q, 0], w[1] * U[q, 1], w[2] * U[q, 2], w[3] * U[q, 3]
        a4, a5, a6, a7 = w[4] * U[q, 4], w[5] * U[q, 5], w[6] * U[q, 6], w[7] * U[q, 7]
        for r in range(limits[q]):
            M[q, r] += (
                a0 * V[0, r] + a1 * V[1, r] + a2 * V[2, r] + a3 * V[3, r]
                + a4 * V[4, r] + a5 * V[5, r] + a6 * V[6, r] + a7 * V[7, r]
            )  # fmt: skip


@numba.njit(**_options)
def _add_to_targets(U: Any, V: Any, Y: Any, limits: Any, B: Any) -> None:
    """Add `u v' y` of a block of points, with targets `Y` (block, K) times weights, to `B` (f1, f2, K)."""
    for q in range(len(limits)):
        for r in range(limits[q]):
            a0, a1, a2, a3 = U[q, 0] * V[0, r], U[q, 1] * V[1, r], U[q, 2] * V[2, r], U[q, 3] * V[3, r]
            a4, a5, a6, a7 = U[q, 4] * V[4, r], U[q, 5] * V[5, r], U[q, 6] * V[6, r], U[q, 7] * V[7, r]
            for j in range(Y.shape[1]):
                B[q, r, j] += (
                    a0 * Y[0, j] + a1 * Y[1, j] + a2 * Y[2, j] + a3 * Y[3, j]
                    + a4 * Y[4, j] + a5 * Y[5, j] + a6 * Y[6, j] + a7 * Y[7, j]
                )  # fmt: skip


@numba.njit(**_options)
def _add(
    X: Any, y: Any, noise: Any, center: Any, unit: Any, near: Any, n_first: int, degree: int, correction: float,
    parents1: Any, variables1: Any, steps1: Any, parents2: Any, variables2: Any, steps2: Any,
    limits: Any, feature_limits: Any, M: Any, B: Any, targets: Any,
) -> float:  # fmt: skip
    """Add points to the moments (n1, n2), the products with targets, and the products of targets (k, k).

    Products with targets have shape (k, f1, f2), or (f1, f2, K), padded, where there are more than `FEW_TARGETS`.
    Returns the sum of the logarithms of the weights.
    """
    d, k, n1, n2 = X.shape[1], y.shape[1], len(parents1), len(parents2)
    K = -(-k // ABREAST) * ABREAST
    plain, Y, products = np.zeros((_BLOCK, K)), np.zeros((_BLOCK, K)), np.zeros((k, K))
    U, V, columns = np.empty((n1, _BLOCK)), np.empty((_BLOCK, n2)), np.empty((n2, _BLOCK))
    w, root, w_root = np.empty(_BLOCK), np.empty(_BLOCK), np.empty(_BLOCK)
    z, squares, term, total = np.empty((d, _BLOCK)), np.empty(_BLOCK), np.empty(_BLOCK), np.empty(_BLOCK)
    log_weight = 0.0
    for start in range(0, len(near), _BLOCK):
        size = min(_BLOCK, len(near) - start)
        for b in range(_BLOCK):  # a block that is not full repeats its last point, with no weight
            i = near[start + min(b, size - 1)]
            squares[b] = 0.0
            for j in range(d):
                z[j, b] = (X[i, j] - center[j]) / unit[j]
                squares[b] += z[j, b] * z[j, b]
            root[b] = np.exp(-0.5 * squares[b])
        term[:], total[:] = 1.0, 1.0
        for n in range(1, degree + 1):  # see `_lacking`
            inverse = 1.0 / n
            for b in range(_BLOCK):
                term[b] *= squares[b] * inverse
                total[b] += term[b]
        for b in range(_BLOCK):
            w[b] = 0.0
            if b < size:
                i = near[start + b]
                w[b] = 1.0 / (noise[i] + correction * max(1.0 - total[b] * root[b] * root[b], 0.0))
                log_weight += np.log(w[b])
                if k <= FEW_TARGETS:
                    for j in range(k):
                        for m in range(k):
                            targets[j, m] += w[b] * y[i, j] * y[i, m]
        _monomials_of_block(z[:n_first], parents1, variables1, steps1, U)
        _monomials_of_block(z[n_first:], parents2, variables2, steps2, columns)
        for b in range(_BLOCK):
            for r in range(n2):
                V[b, r] = columns[r, b]
        if k > FEW_TARGETS:
            for b in range(_BLOCK):
                i = near[start + min(b, size - 1)]
                for j in range(k):
                    plain[b, j] = y[i, j]
                    Y[b, j] = w[b] * y[i, j]
            for j in range(k):
                a0, a1, a2, a3, a4, a5, a6, a7 = Y[:, j]
                for m in range(K):
                    products[j, m] += (
                        a0 * plain[0, m] + a1 * plain[1, m] + a2 * plain[2, m] + a3 * plain[3, m]
                        + a4 * plain[4, m] + a5 * plain[5, m] + a6 * plain[6, m] + a7 * plain[7, m]
                    )  # fmt: skip
            for b in range(_BLOCK):
                for j in range(k):
                    Y[b, j] *= root[b]
            _add_to_targets(U, V, Y, feature_limits, B)
        else:
            for j in range(k):
                for b in range(_BLOCK):
                    w_root[b] = w[b] * root[b] * y[near[start + min(b, size - 1)], j]
                _add_products(U, w_root, V, feature_limits, B[j])
        for b in range(_BLOCK):
            w[b] *= root[b] * root[b]
        _add_products(U, w, V, limits, M)
    if k > FEW_TARGETS:
        targets += products[:, :k]
    return log_weight


@numba.njit(**_options)
def _invert(A: Any, L: Any) -> bool:
    """Overwrite the lower triangle of `A` by that of its inverse; False where it is not positive definite."""
    D = len(A)
    for i in range(D):
        for j in range(i + 1):
            total = A[i, j]
            for m in range(j):
                total -= A[i, m] * A[j, m]
            if i == j:
                if not total > 0.0:
                    return False
                A[i, i] = np.sqrt(total)
            else:
                A[i, j] = total / A[j, j]
    for i in range(D):  # the inverse of the factor, row by row
        for j in range(i + 1):
            L[i, j] = 0.0
        for m in range(i):
            factor = A[i, m]
            for j in range(m + 1):
                L[i, j] -= factor * L[m, j]
        inverse = 1.0 / A[i, i]
        for j in range(i):
            L[i, j] *= inverse
        L[i, i] = inverse
    for i in range(D):
        for j in range(i + 1):
            A[i, j] = 0.0
    for m in range(D):
        for i in range(m + 1):
            factor = L[m, i]
            for j in range(i + 1):
                A[i, j] += factor * L[m, j]
    return True


@numba.njit(**_options)
def fit(
    centers: Any, counts: Any, radius: float, X: Any, y: Any, noise: Any, keys: Any, low: Any, side: float, extent: Any,
    unit: Any, n_first: int, degree: int, correction: float,
    parents1: Any, variables1: Any, steps1: Any, parents2: Any, variables2: Any, steps2: Any,
    limits: Any, feature_limits: Any, places: Any, feature_factor: Any, index: Any, factor: Any, precision: Any,
    moments: Any, cross: Any, targets: Any, log_weight: Any, coefficients: Any, polynomials: Any, failed: Any,
) -> None:  # fmt: skip
    """Sums and solutions of some centres; see `MomentModel`. Also which of them could not be solved.

    `index` and `factor` are those of the lower triangle, row by row. What is summed up must be zero at first.
    """
    d, D, k, n1, n2 = centers.shape[1], len(precision), y.shape[1], len(parents1), len(parents2)
    first, last = np.empty(d, dtype=np.int64), np.empty(d, dtype=np.int64)
    near = np.empty(max(counts.max(), 1), dtype=np.int64)
    f1, f2 = len(feature_limits), feature_limits[0]
    B = np.empty((f1, f2, -(-k // ABREAST) * ABREAST)) if k > FEW_TARGETS else np.empty((k, f1, f2))
    right, solution = np.empty(D), np.empty(D)
    A, L = np.empty((D, D)), np.empty((D, D))
    for c in range(len(centers)):
        _find(centers[c], radius, X, keys, low, side, extent, first, last, near)
        B[:] = 0.0
        log_weight[c] = _add(
            X, y, noise, centers[c], unit, near[: counts[c]], n_first, degree, correction,
            parents1, variables1, steps1, parents2, variables2, steps2,
            limits, feature_limits, moments[c], B, targets[c],
        )  # fmt: skip
        table, entry = moments[c].reshape(n1 * n2), 0
        for i in range(D):
            for j in range(i + 1):
                A[i, j] = factor[entry] * table[index[entry]]
                entry += 1
            A[i, i] += precision[i]
            q, r = places[i] // f2, places[i] % f2
            for j in range(k):
                cross[c, i, j] = feature_factor[i] * (B[q, r, j] if k > FEW_TARGETS else B[j, q, r])
        failed[c] = not _invert(A, L)
        if failed[c]:
            continue
        if k > FEW_TARGETS:  # in one product with the inverse, whose upper triangle is not made yet
            for i in range(D):
                for j in range(i):
                    A[j, i] = A[i, j]
            np.dot(A, cross[c], coefficients[c])
        for j in range(k if k <= FEW_TARGETS else 0):
            right[:], solution[:] = cross[c, :, j], 0.0
            for i in range(D):
                half = 0.0
                for m in range(i + 1):
                    half += L[i, m] * right[m]
                for m in range(i + 1):
                    solution[m] += L[i, m] * half
            coefficients[c, :, j] = solution
        polynomial, entry = polynomials[c], 0
        for i in range(D):
            for j in range(i):
                polynomial[index[entry]] += 2.0 * factor[entry] * A[i, j]
                entry += 1
            polynomial[index[entry]] += factor[entry] * A[i, i]
            entry += 1


@numba.njit(**_options)
def products(
    centers: Any, counts: Any, radius: float, X: Any, y: Any, noise: Any, keys: Any, low: Any, side: float, extent: Any,
    unit: Any, n_first: int, degree: int, correction: float,
    parents1: Any, variables1: Any, steps1: Any, parents2: Any, variables2: Any, steps2: Any,
    feature_limits: Any, places: Any, feature_factor: Any, cross: Any,
) -> None:  # fmt: skip
    """Products (C, D, t) of the weighted features of neighbourhoods with many targets `y` (n, t), in single precision.

    A matrix product per centre, for which features are laid out one per row, and targets side by side.
    """
    d, D, t, most = centers.shape[1], len(places), y.shape[1], max(counts.max(), 1)
    first, last, near = np.empty(d, dtype=np.int64), np.empty(d, dtype=np.int64), np.empty(most, dtype=np.int64)
    f1, f2 = len(feature_limits), feature_limits[0]
    z, weights = np.empty((d, most), dtype=np.float32), np.empty(most, dtype=np.float32)
    U, V = np.empty((f1, most), dtype=np.float32), np.empty((f2, most), dtype=np.float32)
    features, targets = np.empty(D * most, dtype=np.float32), np.empty((most, t), dtype=np.float32)
    for c in range(len(centers)):
        _find(centers[c], radius, X, keys, low, side, extent, first, last, near)
        n = counts[c]
        for b in range(n):
            i, square = near[b], 0.0
            for j in range(d):
                scaled = (X[i, j] - centers[c, j]) / unit[j]
                z[j, b] = scaled
                square += scaled * scaled
            root = np.exp(-0.5 * square)
            weights[b] = root / (noise[i] + correction * _lacking(square, root, degree))
            targets[b] = y[i]
        U[0, :n], V[0, :n] = weights[:n], np.float32(1.0)
        for i in range(1, f1):
            parent, variable, step = parents1[i], variables1[i], np.float32(steps1[i])
            for b in range(n):
                U[i, b] = U[parent, b] * (z[variable, b] * step)
        for i in range(1, f2):
            parent, variable, step = parents2[i], n_first + variables2[i], np.float32(steps2[i])
            for b in range(n):
                V[i, b] = V[parent, b] * (z[variable, b] * step)
        rows = features[: D * n].reshape(D, n)
        for i in range(D):
            row, column, factor = places[i] // f2, places[i] % f2, np.float32(feature_factor[i])
            for b in range(n):
                rows[i, b] = factor * U[row, b] * V[column, b]
        np.dot(rows, targets[:n], cross[c])


@numba.njit(**_options)
def predict(
    points: Any, reach: float, close: float, tiny: float, centers: Any, keys: Any, low: Any, side: float, extent: Any,
    is_solved: Any, grids: Any, polynomials: Any,
    unit: Any, n_first: int, degree: int, correction: float, variance: float,
    parents1: Any, variables1: Any, steps1: Any, parents2: Any, variables2: Any, steps2: Any,
    limits: Any, feature_limits: Any, mean: Any, variances: Any, left: Any,
) -> None:  # fmt: skip
    """Means (m, k) and variances (m,) at points, by the centres near each, blended up to `close` times the nearest.

    `grids` are coefficients (C, k, f1, f2), or (C, 1, k, D) where there are more than `FEW_TARGETS`.
    Points without a centre in reach, or with one that has no moments, are `left` (m,).
    """
    d, k, n1, n2 = points.shape[1], mean.shape[1], len(parents1), len(parents2)
    features = np.empty(grids.shape[3])
    first, last = np.empty(d, dtype=np.int64), np.empty(d, dtype=np.int64)
    near, squares = np.empty(MOST_NEAR, dtype=np.int64), np.empty(MOST_NEAR)
    z, u, v = np.empty(d), np.empty(n1), np.empty(n2)
    for i in range(len(points)):
        left[i] = True
        n = _find(points[i], close * reach, centers, keys, low, side, extent, first, last, near)
        if n == 0 or n > MOST_NEAR:
            continue
        nearest = np.inf
        for a in range(n):
            squares[a] = 0.0
            for j in range(d):
                squares[a] += (points[i, j] - centers[near[a], j]) ** 2
            nearest = min(nearest, squares[a])
        if nearest > reach * reach:
            continue
        limit = close * close * max(nearest, tiny * tiny)
        total, complete = 0.0, True
        for a in range(n):
            if close > 1.0:
                weight = max(1.0 - squares[a] / limit, 0.0) ** 2
            else:
                weight = 1.0 if squares[a] == nearest and total == 0.0 else 0.0
            squares[a] = weight
            total += weight
            complete = complete and (weight == 0.0 or is_solved[near[a]])
        if not complete:
            continue
        left[i] = False
        variances[i] = 0.0
        for j in range(k):
            mean[i, j] = 0.0
        for a in range(n):
            weight = squares[a] / total
            if weight == 0.0:
                continue
            c = near[a]
            square = 0.0
            for j in range(d):
                z[j] = (points[i, j] - centers[c, j]) / unit[j]
                square += z[j] * z[j]
            _monomials(z[:n_first], parents1, variables1, steps1, u)
            _monomials(z[n_first:], parents2, variables2, steps2, v)
            root = np.exp(-0.5 * square)
            form = 0.0
            for q in range(n1):
                inner = 0.0
                for r in range(limits[q]):
                    inner += polynomials[c, q, r] * v[r]
                form += u[q] * inner
            form = max(form * root * root, 0.0)
            if correction > 0.0:
                form = min(form + correction * _lacking(square, root, degree), variance)
            variances[i] += weight * form
            if k > FEW_TARGETS:
                place = 0
                for q in range(len(feature_limits)):
                    for r in range(feature_limits[q]):
                        features[place] = u[q] * v[r]
                        place += 1
                for j in range(k):
                    form = 0.0
                    for q in range(len(features)):
                        form += features[q] * grids[c, 0, j, q]
                    mean[i, j] += weight * root * form
                continue
            for j in range(k):
                form = 0.0
                for q in range(len(feature_limits)):
                    inner = 0.0
                    for r in range(feature_limits[q]):
                        inner += grids[c, j, q, r] * v[r]
                    form += u[q] * inner
                mean[i, j] += weight * root * form
