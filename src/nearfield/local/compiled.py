"""The hot loops over many centres, compiled by Numba.

They do what `ensemble` and `moments` do in NumPy, for one Gaussian and up to three columns: sum moments over
neighbourhoods, solve them, and ask the nearest models. Sums over the points of a neighbourhood are small matrix
products, which BLAS does at its full speed; so points are one per column, and loops over them are the innermost. The
functions let go of Python's lock and write into arrays that they are given, so that threads share the work. Nothing but
`fast` imports this module, and only where Numba is installed.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from ..common.compiling import options

MOST_NEAR = 256  # centres that may be looked at for the test points of a cell
MOST_TOGETHER = 256  # test points of a cell that are answered together
MOST_SUMMED = 512  # points of a neighbourhood that are summed together, so that their powers stay in the cache
OPTIONS = options()


@numba.njit(**OPTIONS)
def _span(place: Any, radius: float, low: Any, side: float, extent: Any, first: Any, last: Any) -> None:
    """First and last cell in each column that may hold points within a radius."""
    for j in range(len(place)):
        first[j] = min(max(int(np.floor((place[j] - radius - low[j]) / side)), 0), extent[j] - 1)
        last[j] = min(max(int(np.floor((place[j] + radius - low[j]) / side)), 0), extent[j] - 1)


@numba.njit(**OPTIONS)
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


@numba.njit(**OPTIONS)
def count(
    centers: Any, radius: float, X: Any, keys: Any, low: Any, side: float, extent: Any, counts: Any
) -> None:  # fmt: skip
    """Number of points within a radius of each centre."""
    d = centers.shape[1]
    first, last = np.empty(d, dtype=np.int64), np.empty(d, dtype=np.int64)
    nothing = np.empty(0, dtype=np.int64)
    for c in range(len(centers)):
        counts[c] = _find(centers[c], radius, X, keys, low, side, extent, first, last, nothing)


@numba.njit(**OPTIONS)
def _powers(z: Any, first: Any, parents: Any, variables: Any, steps: Any, out: Any) -> None:
    """Monomials `out` (N, n) of points `z` (d, n) times `first` (n,), each its parent times one variable and a step."""
    out[0] = first
    for i in range(1, len(parents)):
        parent, variable, step = parents[i], variables[i], steps[i]
        for b in range(out.shape[1]):
            out[i, b] = out[parent, b] * (z[variable, b] * step)


@numba.njit(**OPTIONS)
def _place(X: Any, rows: Any, center: Any, unit: Any, z: Any, square: Any, root: Any) -> None:
    """Points relative to a centre in length scales, `z` (d, n), their squares (n,) and `root` = exp(-square / 2)."""
    square[:] = 0.0
    for j in range(len(center)):
        for b in range(len(rows)):
            z[j, b] = (X[rows[b], j] - center[j]) / unit[j]
            square[b] += z[j, b] * z[j, b]
    for b in range(len(rows)):
        root[b] = np.exp(-0.5 * square[b])


@numba.njit(**OPTIONS)
def _lacking(square: Any, root: Any, degree: int, term: Any, out: Any) -> None:
    """Share `out` (n,) of the variance that features up to a degree lack; see `_place`. `term` (n,) is overwritten."""
    term[:], out[:] = 1.0, 1.0
    for n in range(1, degree + 1):
        inverse = 1.0 / n
        for b in range(len(out)):
            term[b] *= square[b] * inverse
            out[b] += term[b]
    for b in range(len(out)):
        out[b] = max(1.0 - out[b] * root[b] * root[b], 0.0)


@numba.njit(**OPTIONS)
def _weigh(noise: Any, rows: Any, square: Any, root: Any, degree: int, correction: float, term: Any, out: Any) -> None:
    """Weights `out` (n,) of points; see `_place`."""
    _lacking(square, root, degree, term, out)
    for b in range(len(rows)):
        out[b] = 1.0 / (noise[rows[b]] + correction * out[b])


@numba.njit(**OPTIONS)
def _invert(A: Any, L: Any) -> bool:
    """Overwrite the lower triangle of `A` by that of its inverse, and that of `L` by the inverse of its factor.

    False where it is not positive definite.
    """
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


@numba.njit(**OPTIONS)
def sums(
    centers: Any, counts: Any, radius: float, X: Any, y: Any, noise: Any, keys: Any, low: Any, side: float, extent: Any,
    unit: Any, n_first: int, degree: int, correction: float,
    parents1: Any, variables1: Any, steps1: Any, parents2: Any, variables2: Any, steps2: Any,
    f1: int, f2: int, places: Any, feature_factor: Any, moments: Any, cross: Any, targets: Any, log_weight: Any,
) -> None:  # fmt: skip
    """Sums over the neighbourhoods of some centres; see `MomentSums`.

    The first `f1` and `f2` monomials of the halves are those of features.
    """
    d, D, k, n1, n2 = centers.shape[1], len(places), y.shape[1], len(parents1), len(parents2)
    first, last = np.empty(d, dtype=np.int64), np.empty(d, dtype=np.int64)
    most = max(counts.max(), 1)
    near, most = np.empty(most, dtype=np.int64), min(most, MOST_SUMMED)
    square, root, term, weights, start = np.empty((5, most))
    all_z, all_u, all_v = np.empty(d * most), np.empty(n1 * most), np.empty(n2 * most)
    all_y, all_weighted, all_products = np.empty(k * most), np.empty(k * most), np.empty(k * f1 * most)
    M, T, B, total = np.empty((n1, n2)), np.empty((k, k)), np.empty((k * f1, f2)), np.empty((k * f1, f2))
    for c in range(len(centers)):
        _find(centers[c], radius, X, keys, low, side, extent, first, last, near)
        moments[c], targets[c], total[:], log_weight[c] = 0.0, 0.0, 0.0, 0.0
        for begin in range(0, counts[c], MOST_SUMMED):
            n = min(counts[c] - begin, MOST_SUMMED)
            rows, z = near[begin : begin + n], all_z[: d * n].reshape(d, n)
            U, V = all_u[: n1 * n].reshape(n1, n), all_v[: n2 * n].reshape(n2, n)
            Y, weighted = all_y[: k * n].reshape(k, n), all_weighted[: k * n].reshape(k, n)
            products = all_products[: k * f1 * n].reshape(k * f1, n)
            _place(X, rows, centers[c], unit, z, square[:n], root[:n])
            _weigh(noise, rows, square[:n], root[:n], degree, correction, term[:n], weights[:n])
            for b in range(n):
                log_weight[c] += np.log(weights[b])
                start[b] = weights[b] * root[b] * root[b]
            _powers(z[:n_first], start[:n], parents1, variables1, steps1, U)
            start[:n] = 1.0
            _powers(z[n_first:], start[:n], parents2, variables2, steps2, V)
            for j in range(k):
                for b in range(n):
                    Y[j, b] = y[rows[b], j]
                    weighted[j, b] = weights[b] * Y[j, b]
                    start[b] = Y[j, b] / root[b]  # `U` has the square of the root
                for q in range(f1):
                    for b in range(n):
                        products[j * f1 + q, b] = U[q, b] * start[b]
            np.dot(U, V.T, M)
            np.dot(weighted, Y.T, T)
            np.dot(products, V[:f2].T, B)
            moments[c] += M
            targets[c] += T
            total += B
        for i in range(D):
            q, r = places[i] // f2, places[i] % f2
            for j in range(k):
                cross[c, i, j] = feature_factor[i] * total[j * f1 + q, r]


@numba.njit(**OPTIONS)
def solve(
    moments: Any, cross: Any, index: Any, factor: Any, precision: Any, coefficients: Any, polynomials: Any, failed: Any
) -> None:
    """Solutions from the sums of some centres; see `MomentModel`. Also which of them could not be solved.

    `index` and `factor` are those of the lower triangle, row by row.
    """
    D, k = cross.shape[1:]
    A, L, half = np.empty((D, D)), np.zeros((D, D)), np.empty((D, k))
    for c in range(len(moments)):
        table, entry = moments[c].reshape(-1), 0
        for i in range(D):
            for j in range(i + 1):
                A[i, j] = factor[entry] * table[index[entry]]
                entry += 1
            A[i, i] += precision[i]
        failed[c] = not _invert(A, L)
        if failed[c]:
            continue
        np.dot(L, cross[c], half)  # by the inverse of the factor, which loses fewer digits than that of the matrix
        np.dot(L.T, half, coefficients[c])
        polynomial, entry = polynomials[c], 0
        polynomial[:] = 0.0
        for i in range(D):
            for j in range(i):
                polynomial[index[entry]] += 2.0 * factor[entry] * A[i, j]
                entry += 1
            polynomial[index[entry]] += factor[entry] * A[i, i]
            entry += 1


@numba.njit(**OPTIONS)
def fit(
    centers: Any, counts: Any, radius: float, X: Any, y: Any, noise: Any, keys: Any, low: Any, side: float, extent: Any,
    unit: Any, n_first: int, degree: int, correction: float,
    parents1: Any, variables1: Any, steps1: Any, parents2: Any, variables2: Any, steps2: Any,
    f1: int, f2: int, places: Any, feature_factor: Any, index: Any, factor: Any, precision: Any,
    moments: Any, cross: Any, targets: Any, log_weight: Any, coefficients: Any, polynomials: Any, failed: Any,
) -> None:  # fmt: skip
    """Sums and solutions of some centres; see `sums` and `solve`."""
    sums(
        centers, counts, radius, X, y, noise, keys, low, side, extent, unit, n_first, degree, correction,
        parents1, variables1, steps1, parents2, variables2, steps2, f1, f2, places, feature_factor,
        moments, cross, targets, log_weight,
    )  # fmt: skip
    solve(moments, cross, index, factor, precision, coefficients, polynomials, failed)


@numba.njit(**OPTIONS)
def products(
    centers: Any, counts: Any, radius: float, X: Any, y: Any, noise: Any, keys: Any, low: Any, side: float, extent: Any,
    unit: Any, n_first: int, degree: int, correction: float,
    parents1: Any, variables1: Any, steps1: Any, parents2: Any, variables2: Any, steps2: Any,
    f1: int, f2: int, places: Any, feature_factor: Any, cross: Any,
) -> None:  # fmt: skip
    """Products (C, D, t) of the weighted features of neighbourhoods with many targets `y` (n, t), in single precision.

    A matrix product per centre, for which features are laid out one per row, and targets side by side.
    """
    d, D, t, most = centers.shape[1], len(places), y.shape[1], max(counts.max(), 1)
    first, last, near = np.empty(d, dtype=np.int64), np.empty(d, dtype=np.int64), np.empty(most, dtype=np.int64)
    square, root, term, weights = np.empty((4, most))
    all_z, ones = np.empty(d * most), np.ones(most)
    U, V = np.empty((f1, most), dtype=np.float32), np.empty((f2, most), dtype=np.float32)
    features, targets = np.empty(D * most, dtype=np.float32), np.empty((most, t), dtype=np.float32)
    for c in range(len(centers)):
        _find(centers[c], radius, X, keys, low, side, extent, first, last, near)
        n = counts[c]
        rows, z = near[:n], all_z[: d * n].reshape(d, n)
        _place(X, rows, centers[c], unit, z, square[:n], root[:n])
        _weigh(noise, rows, square[:n], root[:n], degree, correction, term[:n], weights[:n])
        for b in range(n):
            weights[b] *= root[b]
            targets[b] = y[rows[b]]
        _powers(z[:n_first], weights[:n], parents1[:f1], variables1, steps1, U[:, :n])
        _powers(z[n_first:], ones[:n], parents2[:f2], variables2, steps2, V[:, :n])
        lines = features[: D * n].reshape(D, n)
        for i in range(D):
            row, column, factor = places[i] // f2, places[i] % f2, np.float32(feature_factor[i])
            for b in range(n):
                lines[i, b] = factor * U[row, b] * V[column, b]
        np.dot(lines, targets[:n], cross[c])


@numba.njit(**OPTIONS)
def _share_out(
    points: Any, centers: Any, near: Any, can_answer: Any, reach: float, close: float, tiny: float,
    weights: Any, left: Any,
) -> None:  # fmt: skip
    """Weights (a, n) of near centres at points (d, n), blended up to `close` times the nearest.

    Points without a centre in reach, or with one that has no moments, are `left` (n,), without weights.
    """
    n = points.shape[1]
    nearest = np.full(n, np.inf)
    for a in range(len(near)):
        weights[a] = 0.0
        for j in range(len(points)):
            place = centers[near[a], j]
            for b in range(n):
                weights[a, b] += (points[j, b] - place) ** 2
        for b in range(n):
            nearest[b] = min(nearest[b], weights[a, b])
    for b in range(n):
        limit, total, left[b] = close * close * max(nearest[b], tiny * tiny), 0.0, nearest[b] > reach * reach
        for a in range(len(near)):
            if close > 1.0:
                weights[a, b] = max(1.0 - weights[a, b] / limit, 0.0) ** 2
            else:
                weights[a, b] = 1.0 if weights[a, b] == nearest[b] and total == 0.0 else 0.0
            total += weights[a, b]
            left[b] = left[b] or (weights[a, b] > 0.0 and not can_answer[near[a]])
        for a in range(len(near)):
            weights[a, b] = 0.0 if left[b] else weights[a, b] / total


@numba.njit(**OPTIONS)
def predict(
    X: Any, order: Any, reach: float, close: float, tiny: float,
    number: Any, centers: Any, keys: Any, low: Any, side: float, extent: Any,
    is_solved: Any, coefficients: Any, polynomials: Any,
    unit: Any, n_first: int, degree: int, correction: float, variance: float,
    parents1: Any, variables1: Any, steps1: Any, parents2: Any, variables2: Any, steps2: Any,
    f1: int, f2: int, places: Any, feature_factor: Any, mean: Any, variances: Any, left: Any,
) -> None:  # fmt: skip
    """Means (m, k) and variances (m,) at some of the points, by the models of the centres near each; see `_share_out`.

    `order` are these points, those of a cell one after the other: they are answered together. `number` (C,) is the
    model of each centre.
    """
    d, k, D, n1, n2 = X.shape[1], mean.shape[1], len(places), len(parents1), len(parents2)
    first, last, cell = np.empty(d, dtype=np.int64), np.empty(d, dtype=np.int64), np.empty(d, dtype=np.int64)
    near, middle, ones = np.empty(MOST_NEAR, dtype=np.int64), np.empty(d), np.ones(MOST_TOGETHER)
    weights, is_left = np.empty((MOST_NEAR, MOST_TOGETHER)), np.empty(MOST_TOGETHER, dtype=np.bool_)
    all_points, all_z = np.empty(d * MOST_TOGETHER), np.empty(d * MOST_TOGETHER)
    own, rows = np.empty(MOST_TOGETHER, dtype=np.int64), np.empty(MOST_TOGETHER, dtype=np.int64)
    square, root, term, lacking, form = np.empty((5, MOST_TOGETHER))
    all_u, all_v = np.empty(n1 * MOST_TOGETHER), np.empty(n2 * MOST_TOGETHER)
    all_forms, all_means = np.empty(n1 * MOST_TOGETHER), np.empty(k * f1 * MOST_TOGETHER)
    grids = np.zeros((k * f1, f2))
    start = 0
    while start < len(order):
        _span(X[order[start]], 0.0, low, side, extent, cell, last)
        n = 0
        while n < MOST_TOGETHER and start + n < len(order):
            _span(X[order[start + n]], 0.0, low, side, extent, first, last)
            if not np.array_equal(first, cell):
                break
            n += 1
        together = order[start : start + n]
        start += n
        points = all_points[: d * n].reshape(d, n)
        for j in range(d):
            middle[j] = low[j] + (cell[j] + 0.5) * side
            for b in range(n):
                points[j, b] = X[together[b], j]
        # Whatever is within a side of a point of the cell is in it or in one that touches it.
        n_near = _find(middle, 1.5 * side * d**0.5, centers, keys, low, side, extent, first, last, near)
        is_left[:n] = True
        if 0 < n_near <= MOST_NEAR:
            _share_out(points, centers, near[:n_near], is_solved, reach, close, tiny, weights[:n_near, :n], is_left[:n])
        for b in range(n):
            i = together[b]
            left[i] = is_left[b]
            variances[i] = 0.0
            for j in range(k):
                mean[i, j] = 0.0
        for a in range(n_near if n_near <= MOST_NEAR else 0):
            size = 0
            for b in range(n):
                if weights[a, b] > 0.0 and not is_left[b]:
                    own[size], rows[size] = b, together[b]
                    size += 1
            if size == 0:
                continue
            c, z = number[near[a]], all_z[: d * size].reshape(d, size)
            U, V = all_u[: n1 * size].reshape(n1, size), all_v[: n2 * size].reshape(n2, size)
            forms, means = all_forms[: n1 * size].reshape(n1, size), all_means[: k * f1 * size].reshape(k * f1, size)
            _place(X, rows[:size], centers[near[a]], unit, z, square[:size], root[:size])
            _lacking(square[:size], root[:size], degree, term[:size], lacking[:size])
            _powers(z[:n_first], ones[:size], parents1, variables1, steps1, U)
            _powers(z[n_first:], ones[:size], parents2, variables2, steps2, V)
            np.dot(polynomials[c].reshape(n1, n2), V, forms)
            form[:size] = 0.0
            for q in range(n1):
                for b in range(size):
                    form[b] += U[q, b] * forms[q, b]
            for b in range(size):
                value = max(form[b] * root[b] * root[b], 0.0)
                if correction > 0.0:
                    value = min(value + correction * lacking[b], variance)
                variances[rows[b]] += weights[a, own[b]] * value
            for i in range(D):
                for j in range(k):
                    grids[j * f1 + places[i] // f2, places[i] % f2] = feature_factor[i] * coefficients[c, i, j]
            np.dot(grids, V[:f2], means)
            for j in range(k):
                form[:size] = 0.0
                for q in range(f1):
                    for b in range(size):
                        form[b] += U[q, b] * means[j * f1 + q, b]
                for b in range(size):
                    mean[rows[b], j] += weights[a, own[b]] * root[b] * form[b]
