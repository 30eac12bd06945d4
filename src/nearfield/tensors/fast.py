"""Many centres in a few compiled kernels of a GPU, where Triton is installed, which PyTorch brings along on Linux.

What is done here is done in `models` and `cells` too, in many calls of PyTorch and with the same results up to
rounding; kernels take the common case, which is one Gaussian in up to two columns with neighbourhoods by radius, in
double precision, and leave the rest to them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache, wraps
from importlib.util import find_spec
from traceback import walk_tb
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch
from scipy.special import gammaln

from ..common.arrays import Array as Tensor
from ..common.memory import batches
from ..common.types import Integers
from ..local import blending
from ..local.moments import MomentMap
from ..local.plan import Plan
from .cells import CellLookup, TensorSet
from .moments import MomentModels

MAX_COLUMNS = 2
MAX_RADIUS = 20.0  # length scales, within which no power overflows
MAX_POWERS = 64  # beyond, sums do not fit into registers
MAX_TARGETS = 8
TILE = 16  # rows of the tiles of matrices
SUMS = {"BLOCK": 32, "num_warps": 1}  # what was fastest on an H200
INVERT = {"num_warps": 1}
PREDICT = {"BLOCK": 32, "num_warps": 1}
_ROOM = 2.0**28  # numbers in the matrices that are solved together
_LOOKED_UP = 128  # points that a program takes at once
_logger = logging.getLogger(__name__)

Made: TypeAlias = tuple[list[tuple[Integers, MomentModels, Integers]], Integers]


@cache
def _kernels() -> Any:
    """The compiled kernels; None without Triton. Each is compiled when first used, and kept on disk."""
    if find_spec("triton") is None:
        return None
    _logger.info("loading compiled kernels; the first time on a machine they are compiled, which takes some seconds")
    try:
        from . import compiled
    except ImportError as error:
        _logger.warning("Triton cannot be used: %s", error)
        return None
    return compiled


def kernels_for(X: Tensor) -> Any:
    """The compiled kernels for points `X` (m, d), or None."""
    if _failures or not _is_on_gpu(X) or X.dtype != torch.float64 or X.shape[1] > MAX_COLUMNS:
        return None
    return _kernels()


def _is_on_gpu(X: Tensor) -> bool:
    return bool(X.is_cuda)


_failures: list[str] = []  # of the compiler


def _is_of_compiler(error: Exception) -> bool:
    """Whether an error was raised within Triton."""
    if isinstance(error, torch.OutOfMemoryError):
        return False
    frames = [frame for frame, _ in walk_tb(error.__traceback__)]
    return str(frames[-1].f_globals.get("__name__", "")).partition(".")[0] == "triton"


def _or_left_to_others(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give None, from then on, where the compiler fails, which versions of Triton do on some GPUs.

    Other errors are mistakes, or the GPU's: they are raised.
    """

    @wraps(function)
    def guarded(*args: Any, **options: Any) -> Any:
        try:
            return function(*args, **options)
        except Exception as error:
            if not _is_of_compiler(error):
                raise
            _failures.append(str(error))
            _logger.warning("compiled kernels cannot be used here, PyTorch's are: %s", str(error).partition("\n")[0])
            return None

    return guarded


@dataclass(frozen=True, eq=False)
class _Tables:
    """What kernels need of the moments of one Gaussian, on a device."""

    unit: Tensor  # (d,)
    steps: Tensor  # (P,): what powers are multiplied by
    inverses: Tensor  # (P,): of whole numbers
    index: Tensor  # (SIZE, SIZE): which moment each entry of the matrix is,
    factor: Tensor  # and times what
    precision: Tensor  # (SIZE,): added to the diagonal
    used: Tensor  # (U,): moments that there are entries of,
    entries: Tensor  # (., U): which they are, of the lower triangle,
    factors: Tensor  # and times what
    places: Tensor  # (D,): features among the products of powers,
    feature_factor: Tensor  # and times what
    degree: int
    n_powers: tuple[int, int]
    n_features: tuple[int, int]
    sizes: dict[str, int]  # of the kernels' rectangles

    @property
    def n_rows(self) -> int:
        """Rows of the padded matrix."""
        return len(self.precision)


@lru_cache(maxsize=4)
def _tables(moments: MomentMap, precision: bytes, device: Any) -> _Tables:
    gaussian, pair = moments.gaussians[0], moments.pairs[0]
    D, size = len(moments.factor), -(-len(moments.factor) // TILE) * TILE
    index, factor = np.zeros((size, size), dtype=np.int32), np.zeros((size, size))
    index[:D, :D], factor[:D, :D] = moments.of_both_triangles()
    diagonal = np.ones(size)
    diagonal[:D] = np.frombuffer(precision)

    rows, columns = np.tril_indices(D)
    order = np.argsort(index[rows, columns], kind="stable")
    rows, columns = rows[order], columns[order]
    used, first, counts = np.unique(index[rows, columns], return_index=True, return_counts=True)
    entries, factors = np.full((counts.max(), len(used)), -1, dtype=np.int32), np.zeros((counts.max(), len(used)))
    term, moment = np.arange(len(rows)) - np.repeat(first, counts), np.repeat(np.arange(len(used)), counts)
    entries[term, moment] = rows * size + columns
    factors[term, moment] = moments.doubled[rows, columns]

    width = _padded(max(pair.monomials.shape))
    arrays = (
        gaussian.unit, np.exp(-0.5 * gammaln(np.arange(width) + 1.0)),
        1.0 / np.maximum(np.arange(width), 1.0), index, factor, diagonal, used, entries, factors,
        gaussian.places, gaussian.factor,
    )  # fmt: skip
    sizes = {
        "COLUMNS": len(gaussian.unit),
        "P": width,
        "F": _padded(max(gaussian.monomials.shape)),
    }
    on_device = [torch.tensor(array, device=device) for array in arrays]
    shapes: tuple[Any, ...] = (gaussian.monomials.degree, pair.monomials.shape, gaussian.monomials.shape, sizes)
    return _Tables(*on_device, *shapes)


def _padded(size: int, least: int = 16) -> int:
    """The next power of two."""
    return max(1 << (size - 1).bit_length(), least)


def _moments(plan: Plan, X: Tensor, n_targets: int) -> MomentMap | None:
    """Moments of a plan that kernels can do; else None."""
    moments = None if plan.features is None else plan.features.moments
    if moments is None or len(moments.gaussians) > 1 or n_targets > MAX_TARGETS or kernels_for(X) is None:
        return None
    unit = moments.gaussians[0].unit
    is_near = plan.radius is not None and plan.count is None and plan.radius / unit.min() <= MAX_RADIUS
    return moments if is_near and max(moments.pairs[0].monomials.shape) <= MAX_POWERS else None


def _correction(plan: Plan) -> float:
    return float(plan.kernel.variance) if plan.correction else 0.0


def _numbers(X: Tensor, *values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64, device=X.device)


@_or_left_to_others
def fit(plan: Plan, data: TensorSet, centers: Tensor) -> Made | None:
    """Models around centres, and which centres are left to others; None if all are.

    Models come as members, models and numbers of points of batches; see `Batch`.
    """
    moments = None if data.index is None else _moments(plan, centers, data.y.shape[1])
    if moments is None or data.index is None or plan.radius is None or plan.features is None:
        return None
    tables = _tables(moments, plan.features.precision.tobytes(), centers.device)
    kernels, D, k = _kernels(), len(moments.factor), int(data.y.shape[1])
    (n1, n2), (f1, f2) = tables.n_powers, tables.n_features
    X, y = data.columns
    result = []
    starts, lengths = data.index.strips(centers, plan.radius)
    order = torch.argsort(lengths.sum(dim=1), descending=True)
    n_centers = len(centers)
    sums = centers.new_empty((n_centers, moments.n_moments))
    products = centers.new_empty((n_centers, k, f1 * f2))
    counts = order.new_empty(n_centers)
    kernels.sums[(n_centers,)](
        X, y, data.noise, len(data.X), centers.contiguous(), starts.contiguous(), lengths.contiguous(), order,
        tables.unit, tables.steps, _numbers(X, plan.radius, _correction(plan)), sums, products, counts,
        tables.inverses, tables.degree, starts.shape[1], n1, n2, f1, f2, k, **tables.sizes, K=_padded(k, 1), **SUMS,
    )  # fmt: skip
    n = counts.cpu().numpy()
    in_kernel_space = plan.in_kernel_space(n)
    mine, left = np.flatnonzero(~in_kernel_space), np.flatnonzero(in_kernel_space)
    if len(left):
        chosen = torch.as_tensor(mine, device=centers.device)
        sums, products = sums[chosen], products[chosen]
    for run in batches(len(mine), max(int(_ROOM / (2 * tables.n_rows**2)), 1)):
        model = _solved(moments, tables, sums[run], products[run], D)
        if model is None:
            return None
        result.append((mine[run], model, n[mine[run]]))
    return result, left


def _solved(moments: MomentMap, tables: _Tables, sums: Tensor, products: Tensor, D: int) -> MomentModels | None:
    """Models of the sums of many neighbourhoods; None where a matrix is not positive definite."""
    kernels, n, size = _kernels(), len(sums), tables.n_rows
    lower, whitener = sums.new_empty((n, size, size)), sums.new_zeros((n, size, size))
    kernels.invert[(n,)](
        sums, moments.n_moments, tables.index, tables.factor, tables.precision, lower, whitener,
        size // TILE, size, TILE=TILE, **INVERT,
    )  # fmt: skip
    cross = (products[:, :, tables.places] * tables.feature_factor).mT
    own = whitener[:, :D, :D]
    coefficients = own.mT @ (own @ cross)
    if not bool(coefficients.isfinite().all()):
        return None
    polynomials = sums.new_zeros((n, moments.n_moments))
    longest, n_used = tables.entries.shape
    matrices, block = 4, 128
    kernels.polynomials[(-(-n // matrices), -(-n_used // block))](
        lower, tables.entries, tables.factors, tables.used, polynomials, n, n_used, longest, moments.n_moments,
        size, MATRICES=matrices, BLOCK=block, num_warps=4,
    )  # fmt: skip
    return MomentModels.of(moments, coefficients, polynomials, (tables.places,), (tables.feature_factor,))


@_or_left_to_others
def answer(
    plan: Plan, models: Any, members: Tensor, centers: Tensor, X: Tensor, point: Tensor, order: Tensor, bounds: Tensor,
    mean: Tensor, variance: Tensor,
) -> bool:  # fmt: skip
    """Write means (q, k) and variances (q,) for pairs of a point of `X` (m, d) and a centre; False if left to others.

    Pairs of centre `c` are `order[bounds[c] : bounds[c + 1]]`; those of `members` are answered, each by its model.
    """
    k = mean.shape[1]
    moments = _moments(plan, X, k) if isinstance(models, MomentModels) else None
    if moments is None or plan.features is None:
        return False
    tables = _tables(moments, plan.features.precision.tobytes(), X.device)
    _kernels().predict[(len(members),)](
        X.contiguous(), point, order, bounds, members, centers.contiguous(), tables.unit, tables.steps,
        models.grids[0], models.polynomials, _numbers(X, plan.kernel.variance, _correction(plan)), mean, variance,
        tables.inverses, tables.degree, *tables.n_powers, *tables.n_features, k, **tables.sizes,
        K=_padded(k, 1), IS_CORRECTED=plan.correction, **PREDICT,
    )  # fmt: skip
    return True


class Shares(NamedTuple):
    """Which centres share which points (m, d): `counts` pairs of each, from `starts` on."""

    counts: Tensor  # (m,)
    starts: Tensor  # (m,)
    left: Tensor  # (m,): points that have none, since no centre is near
    point: Tensor  # (q,)
    owner: Tensor  # (q,): which centre
    weights: Tensor  # (q,): they sum to 1 for each point


@_or_left_to_others
def shares(lookup: CellLookup | None, spacing: float | None, X: Tensor, blend: bool) -> Shares | None:
    """Shares of the centres near each point, or of the nearest alone; None where that is left to others."""
    kernels, table = kernels_for(X), None if lookup is None else lookup.table
    if kernels is None or lookup is None or table is None or spacing is None or len(X) == 0:
        return None
    m, X, centers = len(X), X.contiguous(), lookup.centers.contiguous()
    numbers = _numbers(X, lookup.side, blending.SLACK * spacing, blending.CLOSE, blending.TINY)
    counts = torch.empty(m, dtype=torch.int64, device=X.device)
    left = torch.empty(m, dtype=torch.bool, device=X.device)

    def share_out(*pairs: Tensor, fill: bool) -> None:
        kernels.share_out[_grid(m)](
            X, m, table, centers, lookup.origin, numbers, lookup.low, lookup.extent, counts, left, *pairs,
            COLUMNS=X.shape[1], OFFSETS=4 ** X.shape[1], BLOCK=_LOOKED_UP, BLEND=blend, FILL=fill, num_warps=4,
        )  # fmt: skip

    share_out(counts, counts, counts, X, fill=False)
    ends = torch.cumsum(counts, 0)
    starts, n_pairs = ends - counts, int(ends[-1])
    result = Shares(counts, starts, left, counts.new_empty(n_pairs), counts.new_empty(n_pairs), X.new_empty(n_pairs))
    share_out(starts, result.point, result.owner, result.weights, fill=True)
    return result


def combine(shared: Shares, means: Tensor, variances: Tensor) -> tuple[Tensor, Tensor]:
    """Means (m, k) and variances (m,) of points from those of their pairs, (q, k) and (q,)."""
    m, k = len(shared.counts), means.shape[1]
    mean, variance = means.new_empty((m, k)), means.new_empty(m)
    _kernels().combine[_grid(m)](
        shared.counts, shared.starts, shared.weights, means, variances, m, k, mean, variance,
        K=_padded(k, 1), BLOCK=_LOOKED_UP,
    )  # fmt: skip
    return mean, variance


def _grid(m: int) -> tuple[int]:
    return (-(-m // _LOOKED_UP),)


@_or_left_to_others
def nearest(lookup: CellLookup, X: Tensor) -> tuple[Tensor, Tensor] | None:
    """See `CellLookup.nearest`; None where that is left to it."""
    kernels, table, m = kernels_for(X), lookup.table, len(X)
    if kernels is None or table is None or m == 0:
        return None
    squares, owner = X.new_empty(m), torch.empty(m, dtype=torch.int64, device=X.device)
    kernels.nearest[_grid(m)](
        X.contiguous(), m, table, lookup.centers.contiguous(), lookup.origin, _numbers(X, lookup.side), lookup.low,
        lookup.extent, squares, owner, COLUMNS=X.shape[1], OFFSETS=4 ** X.shape[1], BLOCK=_LOOKED_UP, num_warps=4,
    )  # fmt: skip
    return squares.sqrt(), owner
