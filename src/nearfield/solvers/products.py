"""Products with the kernel matrix of all data, each Gaussian of the kernel by the method that costs least.

A Gaussian of short length scale is multiplied pair by pair (`kernel_products`), one of long length scale on a grid of
nodes (`grid_products`). A pair costs the more the farther the kernel reaches, and a grid costs less: so in the order of
their reaches the first Gaussians are taken pair by pair, and the rest on grids.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import Protocol

import numpy as np

from ..common.errors import OutOfReachError
from ..common.samples import some_rows
from ..common.types import Floats
from ..kernels import Kernel
from .grid_products import FINEST, GridProduct, grid_costs
from .kernel_products import LEAF, Gaussians, KernelProduct, NearSums

SAMPLED, AMONG = 100, 5000
"""Points whose neighbours are counted to estimate the number of pairs, and among how many points they are counted."""
GRID_SHARE_OF_ERROR = 0.01
"""Error of an entry on a grid, as a share of the error at the edge of a kernel that is cut off: a grid makes its error
at all pairs of points, and a cut-off kernel at few."""
LARGEST_CUTOFF = 0.5
"""Of a Gaussian's own variance. Below the cutoff of the whole kernel a Gaussian may be negligible altogether."""
EXPONENTIAL = 22.0
"""Multiplications of a matrix product that take as long as an entry of the matrix, its exponential above all
(`benchmarks/products.py`)."""


class Product(Protocol):
    """The matrix `K` (n, n) of a kernel at the data, as something to multiply with."""

    @property
    def left_out(self) -> float:
        """Bound on the row sums of the difference from `K`, and so on its spectral norm."""

    def product(self, V: Floats) -> Floats:
        """`K V` of shape (n, r) for `V` of shape (n, r)."""


@dataclass(frozen=True, eq=False)
class SumOfProducts:
    """The sum of several matrices, as something to multiply with; their error bounds add up."""

    parts: tuple[Product, ...]

    @property
    def left_out(self) -> float:
        """See `Product`."""
        return sum(part.left_out for part in self.parts)

    def product(self, V: Floats) -> Floats:
        """See `Product`."""
        return reduce(operator.iadd, (part.product(V) for part in self.parts))


@dataclass(frozen=True)
class ProductPlan:
    """Which Gaussians of a kernel are multiplied pair by pair, and which on grids.

    Attributes
    ----------
    by_pairs, by_grids : Kernel or None
    cost : float
        Of a product, in pairs of points that are multiplied with `n_sides` right-hand sides.
    """

    by_pairs: Kernel | None
    by_grids: Kernel | None
    cost: float


def plan_product(kernel: Kernel, X: Floats, cutoff: float, n_sides: int = 1) -> ProductPlan:
    """The cheapest way to multiply with the matrix of a kernel at points (n, d), by counted operations.

    A pair takes one exponential per Gaussian that reaches so far, and one multiplication per right-hand side.
    """
    sorted_kernel = _by_reach(kernel, cutoff)
    J, counted = kernel.n_scales, _CountedPairs.of(X)
    costs = np.zeros(J + 1)  # with the first s Gaussians pair by pair, and the others on grids
    costs[:J] = np.cumsum(grid_costs(sorted_kernel, X, _cutoff_on_grids(cutoff), n_sides)[::-1])[::-1]
    for s in range(1, J + 1):
        first = _some_of(sorted_kernel, slice(s))
        costs[s] += counted.cost(first, _cutoff_of_some(first, kernel, cutoff), n_sides)
    s = int(np.argmin(costs))
    by_pairs = _some_of(sorted_kernel, slice(s)) if s > 0 else None
    by_grids = _some_of(sorted_kernel, slice(s, J)) if s < J else None
    return ProductPlan(by_pairs, by_grids, float(costs[s]))


def kernel_product(
    kernel: Kernel,
    X: Floats,
    *,
    cutoff: float = 1e-10,
    n_jobs: int | None = None,
    max_pairs: float = np.inf,
    most_left_out: float = np.inf,
    keep: bool | None = None,
    n_sides: int = 1,
) -> SumOfProducts:
    """The matrix of a kernel at points (n, d), each of its Gaussians pair by pair or on a grid, whichever is cheaper.

    Parameters
    ----------
    max_pairs : float
        Refuse what costs more than so many pairs of points.
    most_left_out : float
        Bound on what grids may leave out; see `GridProduct.left_out`. Pairs leave out what `cutoff` says.
    n_sides : int
        Right-hand sides that it will be multiplied with at a time.
    cutoff, n_jobs, keep
        See `KernelProduct`.

    Raises
    ------
    OutOfReachError
        Where products cost more than `max_pairs`.
    MemoryError
        See `KernelProduct`.
    """
    plan = plan_product(kernel, X, cutoff, n_sides)
    if plan.cost > max_pairs:
        raise OutOfReachError(
            f"The kernel costs as much as {plan.cost:.2g} pairs of points, more than {max_pairs:.2g}."
        )
    parts: list[Product] = []
    if plan.by_grids is not None:
        on_grids = _on_grids(plan.by_grids, X, cutoff, most_left_out, n_jobs, keep)
        if on_grids is None:  # rounding allows no more digits on a grid
            plan = ProductPlan(kernel, None, np.nan)
        else:
            parts.append(on_grids)
    if plan.by_pairs is not None:
        own = _cutoff_of_some(plan.by_pairs, kernel, cutoff)
        parts.append(KernelProduct(plan.by_pairs, X, cutoff=own, max_pairs=max_pairs, n_jobs=n_jobs, keep=keep))
    return SumOfProducts(tuple(parts))


def cost_of_pair(n_sides: int) -> float:
    """Multiplications that a pair of points is worth, in products with so many right-hand sides."""
    return EXPONENTIAL + n_sides


def kernel_sums(
    kernel: Kernel, X: Floats, V: Floats, *, cutoff: float, n_jobs: int | None
) -> Callable[[Floats], Floats]:
    """The function that gives `k(Xs, X) V` (m, r) at points `Xs` (m, d), for `V` (n, r).

    Each Gaussian is summed pair by pair or on a grid, whichever is cheaper for products at points `X` (n, d).
    """
    plan = plan_product(kernel, X, cutoff, V.shape[1])
    parts: list[Callable[[Floats], Floats]] = []
    if plan.by_grids is not None:
        on_grids = GridProduct(plan.by_grids, X, cutoff=_cutoff_on_grids(cutoff), n_jobs=n_jobs, keep=False)
        parts.append(on_grids.evaluator(V))
    if plan.by_pairs is not None:
        own = _cutoff_of_some(plan.by_pairs, kernel, cutoff)
        parts.append(NearSums.of(plan.by_pairs, X, V, cutoff=own, n_jobs=n_jobs))
    return lambda Xs: reduce(operator.iadd, (part(Xs) for part in parts))


def _on_grids(
    kernel: Kernel, X: Floats, cutoff: float, most_left_out: float, n_jobs: int | None, keep: bool | None
) -> GridProduct | None:
    """Grids that leave out at most what is allowed; None where rounding forbids it."""
    finer = _cutoff_on_grids(cutoff)
    product = GridProduct(kernel, X, cutoff=finer, n_jobs=n_jobs, keep=keep)
    if product.left_out > most_left_out:
        finer *= 0.5 * most_left_out / product.left_out
        product = GridProduct(kernel, X, cutoff=max(finer, FINEST), n_jobs=n_jobs, keep=keep)
    return product if product.left_out <= most_left_out else None


def _by_reach(kernel: Kernel, cutoff: float) -> Kernel:
    """The kernel with its Gaussians in the order of how far they reach, the shortest first."""
    unit = kernel.length_scales.max(axis=0)
    reaching = Gaussians.of(Kernel(kernel.length_scales / unit, kernel.variances), cutoff).kernel
    return Kernel(reaching.length_scales[::-1] * unit, reaching.variances[::-1])


def _some_of(kernel: Kernel, which: slice) -> Kernel:
    """Some of the Gaussians of a kernel."""
    return Kernel(kernel.length_scales[which], kernel.variances[which])


def _cutoff_on_grids(cutoff: float) -> float:
    return max(GRID_SHARE_OF_ERROR * cutoff, FINEST)


def _cutoff_of_some(some: Kernel, kernel: Kernel, cutoff: float) -> float:
    """The cutoff at which some of a kernel's Gaussians reach as far as they do beside all of them."""
    share = some.n_scales / kernel.n_scales * kernel.variance / some.variance
    return float(min(cutoff * share, LARGEST_CUTOFF))


@dataclass(frozen=True, eq=False)
class _CountedPairs:
    """Some of the points, by which pairs within reach of each other are counted.

    Attributes
    ----------
    n : int
        Number of all points.
    squares : ndarray of shape (d, p, q)
        Squared differences of two samples of points, column by column.
    """

    n: int
    squares: Floats

    @classmethod
    def of(cls, X: Floats) -> _CountedPairs:
        """Of points (n, d)."""
        places, among = (X[some_rows(len(X), size)] for size in (SAMPLED, AMONG))
        return cls(len(X), (places.T[:, :, None] - among.T[:, None, :]) ** 2)

    def pairs(self, kernel: Kernel, cutoff: float) -> Floats:
        """About how many pairs of points each Gaussian (J,) is computed for, those with the farthest reach first.

        Blocks of pairs belong to leaves of a tree and hold all points within reach of a leaf. So to the reach comes the
        radius of a ball with as many points as a leaf.
        """
        (d, _, m), unit = self.squares.shape, kernel.length_scales.max(axis=0)
        distances = np.sqrt(np.tensordot(np.broadcast_to(1.0 / unit**2, (d,)), self.squares, 1))
        reaches = Gaussians.of(Kernel(kernel.length_scales / unit, kernel.variances), cutoff).reaches
        in_leaf = min(LEAF, self.n) * m / self.n  # of the points counted among
        radii = np.partition(distances, min(int(in_leaf), m - 1), axis=1)[:, min(int(in_leaf), m - 1)]
        radii *= min(in_leaf, 1.0) ** (1 / d)
        return np.array([self.n**2 * float(np.mean(distances <= reach + radii[:, None])) for reach in reaches])

    def cost(self, kernel: Kernel, cutoff: float, n_sides: int) -> float:
        """Of a product pair by pair, in pairs of one exponential and a multiplication per right-hand side."""
        pairs = self.pairs(kernel, cutoff)
        return float(EXPONENTIAL * pairs.sum() + n_sides * pairs[0]) / cost_of_pair(n_sides)
