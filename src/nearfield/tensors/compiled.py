"""The loops over many centres on a GPU, compiled by Triton.

They do what `moments` and `cells` do with many calls of PyTorch, for one Gaussian in up to two columns: sum moments
over neighbourhoods, solve them, find the centres near each point and ask their models. A centre is a program: no
rectangles are padded, and nothing but sums and answers is written. Nothing but `fast` imports this module, and only
where Triton is installed.

Sizes of arrays in a program are powers of two, as Triton wants them; what is beyond the real ones is masked. One column
is two of which the second is zero. Numbers come in arrays, since Triton takes those given alone in single precision. As
little as can be is known when a kernel is compiled, which takes seconds: degrees and numbers of points are not.
"""

import triton
import triton.language as tl


@triton.jit
def _lacking(square, degree, inverses):
    """Share of the variance that features up to a degree lack at squared distances, in length scales."""
    total = tl.full(square.shape, 1.0, tl.float64)
    for n in range(degree):
        total = total * (square * tl.load(inverses + degree - n)) + 1.0
    return tl.maximum(1.0 - total * tl.exp(-square), 0.0)


@triton.jit
def _powers(z, exponent, BITS: tl.constexpr):
    """Powers of `z`, from its squares, the squares of these and so on; exponents have up to so many bits."""
    square = z
    result = tl.where(exponent & 1 > 0, square, 1.0)
    for bit in tl.static_range(1, BITS):
        square = square * square
        result = tl.where((exponent >> bit) & 1 > 0, result * square, result)
    return result


@triton.jit
def _eighth(z):
    square = z * z
    square = square * square
    return square * square


@triton.jit
def _rows_of_powers(z, first, N: tl.constexpr, K: tl.constexpr, BLOCK: tl.constexpr):
    """The first N powers of `z` (BLOCK,) times each row of `first` (K, BLOCK): (K * N, BLOCK).

    As products of a power up to seven and one of the eighth, so that each takes but a multiplication.
    """
    low = _powers(z[None, :], tl.arange(0, 8)[:, None], 3)
    high = _powers(_eighth(z)[None, :], tl.arange(0, N // 8)[:, None], 3)
    high = tl.reshape(first[:, None, :] * high[None, :, :], (K * N // 8, BLOCK))
    return tl.reshape(high[:, None, :] * low[None, :, :], (K * N, BLOCK))


@triton.jit
def _columns_of_powers(z, first, N: tl.constexpr, BLOCK: tl.constexpr):
    """The first N powers of `z` (BLOCK,) times `first` (BLOCK,): (BLOCK, N)."""
    low = _powers(z[:, None], tl.arange(0, 8)[None, :], 3)
    high = first[:, None] * _powers(_eighth(z)[:, None], tl.arange(0, N // 8)[None, :], 3)
    return tl.reshape(high[:, :, None] * low[:, None, :], (BLOCK, N))


@triton.jit(do_not_specialize=["n", "degree", "n_strips", "n1", "n2", "f1", "f2", "k"])
def sums(
    X, y, noise, n, centers, starts, lengths, order, units, steps, numbers, moments, cross, counts,
    inverses, degree, n_strips, n1, n2, f1, f2, k,
    COLUMNS: tl.constexpr, P: tl.constexpr, F: tl.constexpr, K: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Moments (C, n1, n2), products with targets (C, k, f1, f2) and numbers of points (C,) of all neighbourhoods.

    Points `X` (d, n) and targets `y` (k, n) are sorted into cells; `starts` and `lengths` (C, n_strips) are the runs
    that hold the neighbourhood of each centre. Centres are taken in the given order, the largest first.
    """
    c = tl.load(order + tl.program_id(0))
    radius, correction = tl.load(numbers), tl.load(numbers + 1)
    power, feature, target = tl.arange(0, P), tl.arange(0, F), tl.arange(0, K)
    center0, unit0 = tl.load(centers + c * COLUMNS), 1.0 / tl.load(units)
    center1, unit1 = center0, unit0
    if COLUMNS == 2:
        center1, unit1 = tl.load(centers + c * COLUMNS + 1), 1.0 / tl.load(units + 1)
    all_moments = tl.zeros((P, P), dtype=tl.float64)
    all_cross = tl.zeros((K * F, F), dtype=tl.float64)
    count = tl.zeros((BLOCK,), dtype=tl.int64)
    for strip in range(n_strips):
        start, length = tl.load(starts + c * n_strips + strip), tl.load(lengths + c * n_strips + strip)
        for offset in range(0, length, BLOCK):
            place = offset + tl.arange(0, BLOCK)
            inside = place < length
            place += start
            z0 = tl.load(X + place, mask=inside, other=center0) - center0
            z1 = tl.zeros((BLOCK,), dtype=tl.float64)
            if COLUMNS == 2:
                z1 = tl.load(X + n + place, mask=inside, other=center1) - center1
            # Points beyond the radius have infinite noise, and so no weight.
            is_near = inside & (z0 * z0 + z1 * z1 <= radius * radius)
            variance = tl.load(noise + place, mask=is_near, other=float("inf"))
            z0, z1 = z0 * unit0, z1 * unit1
            square = z0 * z0 + z1 * z1
            variance += correction * _lacking(square, degree, inverses)
            root = tl.exp(-0.5 * square)
            weight = root / variance
            count += (weight > 0.0).to(tl.int64)
            ones = tl.full((BLOCK,), 1.0, tl.float64)
            A = _rows_of_powers(z0, (weight * root)[None, :], P, 1, BLOCK)
            all_moments += tl.dot(A, _columns_of_powers(z1, ones, P, BLOCK), out_dtype=tl.float64)
            has = inside[None, :] & (target < k)[:, None]
            values = tl.load(y + target[:, None] * n + place[None, :], mask=has, other=0.0)
            A = _rows_of_powers(z0, values * weight[None, :], F, K, BLOCK)
            all_cross += tl.dot(A, _columns_of_powers(z1, ones, F, BLOCK), out_dtype=tl.float64)
    step = tl.load(steps + power)
    all_moments = all_moments * step[:, None] * step[None, :]
    inside = (power < n1)[:, None] & (power < n2)[None, :]
    tl.store(moments + c * n1 * n2 + power[:, None] * n2 + power[None, :], all_moments, mask=inside)
    row = tl.arange(0, K * F)
    j, q = row // F, row % F
    all_cross = all_cross * tl.load(steps + q)[:, None] * tl.load(steps + feature)[None, :]
    inside = ((j < k) & (q < f1))[:, None] & (feature < f2)[None, :]
    tl.store(cross + ((c * k + j) * f1 + q)[:, None] * f2 + feature[None, :], all_cross, mask=inside)
    tl.store(counts + c, tl.sum(count, 0))


@triton.jit
def _tile(i, j, size, TILE: tl.constexpr):
    """Where the entries of a tile are in a square matrix."""
    place = tl.arange(0, TILE)
    return (i * TILE + place)[:, None] * size + (j * TILE + place)[None, :]


@triton.jit
def _whitener(S, TILE: tl.constexpr):
    """The inverse of the Cholesky factor of a tile, column by column; not finite where there is none."""
    place = tl.arange(0, TILE)
    W = tl.where(place[:, None] == place[None, :], 1.0, 0.0).to(tl.float64)
    for j in range(TILE):
        here = place == j
        row = tl.sum(tl.where(here[:, None], S, 0.0), 0)
        column = tl.sum(tl.where(here[None, :], S, 0.0), 1)
        scale = 1.0 / tl.sqrt(tl.sum(tl.where(here, row, 0.0), 0))
        below = tl.where(place > j, column * scale, 0.0)
        solved = tl.sum(tl.where(here[:, None], W, 0.0), 0) * scale
        S -= below[:, None] * (row * scale)[None, :]
        W = tl.where(here[:, None], solved[None, :], W - below[:, None] * solved[None, :])
    return W


@triton.jit
def _gram(moments, index, factor, precision, i, j, size, TILE: tl.constexpr):
    """A tile of the matrix that is solved."""
    where = _tile(i, j, size, TILE)
    place = tl.arange(0, TILE)
    gram = tl.load(moments + tl.load(index + where)) * tl.load(factor + where)
    if i == j:
        gram += tl.where(place[:, None] == place[None, :], tl.load(precision + i * TILE + place)[:, None], 0.0)
    return gram


@triton.jit(do_not_specialize=["n_moments", "n_tiles"])
def invert(
    moments, n_moments, index, factor, precision, lower, whitener, n_tiles, size, TILE: tl.constexpr
):  # fmt: skip
    """Whiteners (C, size, size), inverses of Cholesky factors; and the lower triangles of inverses, over `lower`.

    Tile by tile, `n_tiles` in a row. Matrices are made of moments: `index`, `factor` (size, size) and `precision`
    (size,) are padded with ones on the diagonal.
    """
    c = tl.program_id(0).to(tl.int64)
    moments += c * n_moments
    L, W = lower + c * size * size, whitener + c * size * size
    for j in range(n_tiles):
        S = _gram(moments, index, factor, precision, j, j, size, TILE)
        for m in range(j):
            part = tl.load(L + _tile(j, m, size, TILE))
            S -= tl.dot(part, tl.trans(part), out_dtype=tl.float64)
        own = _whitener(S, TILE)
        tl.store(W + _tile(j, j, size, TILE), own)
        for i in range(j + 1, n_tiles):
            S = _gram(moments, index, factor, precision, i, j, size, TILE)
            for m in range(j):
                left, right = tl.load(L + _tile(i, m, size, TILE)), tl.load(L + _tile(j, m, size, TILE))
                S -= tl.dot(left, tl.trans(right), out_dtype=tl.float64)
            tl.store(L + _tile(i, j, size, TILE), tl.dot(S, tl.trans(own), out_dtype=tl.float64))
        tl.debug_barrier()
    for i in range(1, n_tiles):
        own = tl.load(W + _tile(i, i, size, TILE))
        for j in range(i):
            S = tl.zeros((TILE, TILE), dtype=tl.float64)
            for m in range(j, i):
                left, right = tl.load(L + _tile(i, m, size, TILE)), tl.load(W + _tile(m, j, size, TILE))
                S -= tl.dot(left, right, out_dtype=tl.float64)
            tl.store(W + _tile(i, j, size, TILE), tl.dot(own, S, out_dtype=tl.float64))
        tl.debug_barrier()
    for i in range(n_tiles):
        for j in range(i + 1):
            S = tl.zeros((TILE, TILE), dtype=tl.float64)
            for m in range(i, n_tiles):
                left, right = tl.load(W + _tile(m, i, size, TILE)), tl.load(W + _tile(m, j, size, TILE))
                S += tl.dot(tl.trans(left), right, out_dtype=tl.float64)
            tl.store(L + _tile(i, j, size, TILE), S)


@triton.jit(do_not_specialize=["n_matrices", "n_used", "longest", "n_moments"])
def polynomials(
    inverse, entries, factors, used, out, n_matrices, n_used, longest, n_moments, size,
    MATRICES: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Polynomials (C, n_moments) of variances from the lower triangles of inverses (C, size, size).

    The moments `used` (n_used,) are sums over `entries` (longest, n_used) of the matrix, times `factors`.
    """
    matrix = (tl.program_id(0) * MATRICES + tl.arange(0, MATRICES)).to(tl.int64)
    u = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = (matrix < n_matrices)[:, None] & (u < n_used)[None, :]
    total = tl.zeros((MATRICES, BLOCK), dtype=tl.float64)
    for t in range(longest):
        entry = tl.load(entries + t * n_used + u, mask=u < n_used, other=-1)
        factor = tl.load(factors + t * n_used + u, mask=entry >= 0, other=0.0)
        value = tl.load(
            inverse + matrix[:, None] * size * size + entry[None, :], mask=inside & (entry >= 0)[None, :], other=0.0
        )
        total += factor[None, :] * value
    moment = tl.load(used + u, mask=u < n_used, other=0)
    tl.store(out + matrix[:, None] * n_moments + moment[None, :], total, mask=inside)


@triton.jit
def _near(
    X, i, real, table, centers, origin, side, low, extent,
    COLUMNS: tl.constexpr, OFFSETS: tl.constexpr,
):  # fmt: skip
    """Centres in the cells around the own of each point, and their squared distances, infinite where there is none."""
    offset = tl.arange(0, OFFSETS)
    x0 = tl.load(X + i * COLUMNS, mask=real, other=0.0)
    cell = tl.floor((x0 - tl.load(origin)) / side).to(tl.int64) - tl.load(low)
    if COLUMNS == 2:
        cell = cell[:, None] + (offset // 3 - 1)[None, :]
        inside = real[:, None] & (offset < 9)[None, :] & (cell >= 0) & (cell < tl.load(extent))
        x1 = tl.load(X + i * COLUMNS + 1, mask=real, other=0.0)
        second = tl.floor((x1 - tl.load(origin + 1)) / side).to(tl.int64) - tl.load(low + 1)
        second = second[:, None] + (offset % 3 - 1)[None, :]
        inside = inside & (second >= 0) & (second < tl.load(extent + 1))
        center = tl.load(table + cell * tl.load(extent + 1) + second, mask=inside, other=-1)
        inside = center >= 0
        d0 = x0[:, None] - tl.load(centers + center * COLUMNS, mask=inside, other=0.0)
        d1 = x1[:, None] - tl.load(centers + center * COLUMNS + 1, mask=inside, other=0.0)
        square = d0 * d0 + d1 * d1
    else:
        cell = cell[:, None] + (offset - 1)[None, :]
        inside = real[:, None] & (offset < 3)[None, :] & (cell >= 0) & (cell < tl.load(extent))
        center = tl.load(table + cell, mask=inside, other=-1)
        inside = center >= 0
        d0 = x0[:, None] - tl.load(centers + center * COLUMNS, mask=inside, other=0.0)
        square = d0 * d0
    return center, tl.where(inside, square, float("inf"))


@triton.jit(do_not_specialize=["m"])
def nearest(
    X, m, table, centers, origin, numbers, low, extent, squares, owner,
    COLUMNS: tl.constexpr, OFFSETS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Squared distance (m,) and index of the nearest centre in the cells around the own of each point `X` (m, d).

    Infinite where there is none. `table` has the centre of each cell of a lattice, or -1.
    """
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    real = i < m
    center, square = _near(X, i, real, table, centers, origin, tl.load(numbers), low, extent, COLUMNS, OFFSETS)
    least = tl.argmin(square, 1)
    is_least = tl.arange(0, OFFSETS)[None, :] == least[:, None]
    tl.store(squares + i, tl.min(square, 1), mask=real)
    tl.store(owner + i, tl.maximum(tl.sum(tl.where(is_least, center, 0), 1), 0), mask=real)


@triton.jit(do_not_specialize=["m"])
def share_out(
    X, m, table, centers, origin, numbers, low, extent, counts, left, starts, point, owner, weights,
    COLUMNS: tl.constexpr, OFFSETS: tl.constexpr, BLOCK: tl.constexpr, BLEND: tl.constexpr, FILL: tl.constexpr,
):  # fmt: skip
    """How many centres share each point `X` (m, d), and whether it is `left` to others; or, with FILL, which ones.

    Centres up to `close` times as far as the nearest have weights, which sum to 1. Points without a centre in reach
    are left, and have none.
    """
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    real = i < m
    side, reach, close, tiny = tl.load(numbers), tl.load(numbers + 1), tl.load(numbers + 2), tl.load(numbers + 3)
    center, square = _near(X, i, real, table, centers, origin, side, low, extent, COLUMNS, OFFSETS)
    offset, closest = tl.arange(0, OFFSETS), tl.min(square, 1)
    if BLEND:
        limit = close * close * tl.maximum(tl.minimum(closest, reach * reach), tiny * tiny)
        weight = 1.0 - tl.minimum(square, limit[:, None]) / limit[:, None]
        weight = weight * weight
    else:
        weight = tl.where(offset[None, :] == tl.argmin(square, 1)[:, None], 1.0, 0.0).to(tl.float64)
    has = weight > 0.0
    is_left = closest > reach * reach
    has = has & (is_left == 0)[:, None] & real[:, None]
    if FILL:
        place = tl.load(starts + i, mask=real, other=0)[:, None] + tl.cumsum(has.to(tl.int64), 1) - 1
        weight = weight / (tl.sum(weight, 1) + is_left.to(tl.float64))[:, None]
        tl.store(point + place, i[:, None] + tl.zeros_like(place), mask=has)
        tl.store(owner + place, center, mask=has)
        tl.store(weights + place, weight, mask=has)
    else:
        tl.store(counts + i, tl.sum(has.to(tl.int64), 1), mask=real)
        tl.store(left + i, is_left, mask=real)


@triton.jit(do_not_specialize=["degree", "n1", "n2", "f1", "f2", "k"])
def predict(
    X, point, order, bounds, members, centers, units, steps, grids, polynomials, numbers, mean, variances,
    inverses, degree, n1, n2, f1, f2, k,
    COLUMNS: tl.constexpr, P: tl.constexpr, F: tl.constexpr, K: tl.constexpr,
    IS_CORRECTED: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Means (q, k) and variances (q,) for pairs of a centre and a point, which is one of `X` (m, d).

    Pairs of centre `c` are `order[bounds[c] : bounds[c + 1]]`.
    """
    b = tl.program_id(0).to(tl.int64)
    c = tl.load(members + b)
    variance, correction = tl.load(numbers), tl.load(numbers + 1)
    power, feature, target = tl.arange(0, P), tl.arange(0, F), tl.arange(0, K)
    center0, unit0 = tl.load(centers + c * COLUMNS), 1.0 / tl.load(units)
    center1, unit1 = center0, unit0
    if COLUMNS == 2:
        center1, unit1 = tl.load(centers + c * COLUMNS + 1), 1.0 / tl.load(units + 1)
    step = tl.load(steps + power)
    inside = (power < n1)[:, None] & (power < n2)[None, :]
    polynomial = tl.load(polynomials + b * n1 * n2 + power[:, None] * n2 + power[None, :], mask=inside, other=0.0)
    polynomial = polynomial * step[:, None] * step[None, :]
    row = tl.arange(0, K * F)
    j, q = row // F, row % F
    has = ((j < k) & (q < f1))[:, None] & (feature < f2)[None, :]
    grid = tl.load(grids + ((b * k + j) * f1 + q)[:, None] * f2 + feature[None, :], mask=has, other=0.0)
    grid = grid * tl.load(steps + q)[:, None] * tl.load(steps + feature)[None, :]
    stop = tl.load(bounds + c + 1)
    for offset in range(tl.load(bounds + c), stop, BLOCK):
        place = offset + tl.arange(0, BLOCK)
        real = place < stop
        pair = tl.load(order + place, mask=real, other=0)
        i = tl.load(point + pair, mask=real, other=0)
        z0 = (tl.load(X + i * COLUMNS, mask=real, other=center0) - center0) * unit0
        z1 = tl.zeros((BLOCK,), dtype=tl.float64)
        if COLUMNS == 2:
            z1 = (tl.load(X + i * COLUMNS + 1, mask=real, other=center1) - center1) * unit1
        square = z0 * z0 + z1 * z1
        root = tl.exp(-0.5 * square)
        one = tl.full((1, BLOCK), 1.0, tl.float64)
        form = tl.dot(polynomial, _rows_of_powers(z1, one, P, 1, BLOCK), out_dtype=tl.float64)
        form = tl.sum(form * _rows_of_powers(z0, one, P, 1, BLOCK), 0)
        form = tl.maximum(form, 0.0) * root * root  # rounding may take what cancels below zero
        if IS_CORRECTED:
            form = tl.minimum(form + correction * _lacking(square, degree, inverses), variance)
        tl.store(variances + pair, form, mask=real)
        products = tl.dot(grid, _rows_of_powers(z1, one, F, 1, BLOCK), out_dtype=tl.float64)
        powers = _rows_of_powers(z0, root[None, :], F, 1, BLOCK)
        values = tl.sum(tl.reshape(products, (K, F, BLOCK)) * powers[None, :, :], 1)
        is_asked = real[None, :] & (target < k)[:, None]
        tl.store(mean + pair[None, :] * k + target[:, None], values, mask=is_asked)


@triton.jit(do_not_specialize=["m", "k"])
def combine(
    counts, starts, weights, pair_means, pair_variances, m, k, mean, variance, K: tl.constexpr, BLOCK: tl.constexpr
):
    """Means (m, k) and variances (m,) of points as weighted sums over their pairs, `counts` from `starts` on."""
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    number = tl.arange(0, K)
    count, start = tl.load(counts + i, mask=i < m, other=0), tl.load(starts + i, mask=i < m, other=0)
    total, means = tl.zeros((BLOCK,), dtype=tl.float64), tl.zeros((BLOCK, K), dtype=tl.float64)
    for t in range(tl.max(count, 0)):
        has = t < count
        weight = tl.load(weights + start + t, mask=has, other=0.0)
        total += weight * tl.load(pair_variances + start + t, mask=has, other=0.0)
        inside = has[:, None] & (number < k)[None, :]
        values = tl.load(pair_means + (start + t)[:, None] * k + number[None, :], mask=inside, other=0.0)
        means += weight[:, None] * values
    tl.store(variance + i, total, mask=i < m)
    tl.store(mean + i[:, None] * k + number[None, :], means, mask=(i < m)[:, None] & (number < k)[None, :])
