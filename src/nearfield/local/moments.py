r"""Moments instead of squares: a centre's sums in feature space, and its variance as a polynomial.

The product of two Taylor features depends on the sum of their exponents alone, so the `D^2` entries of a Gram matrix
are a few distinct sums over the points, the moments, times known numbers:

.. math:: G_{ab} = \sum_i w_i \phi_a(z_i) \phi_b(z_i) = f_{ab} \sum_i w_i e^{-|z_i|^2} z_i^{a + b}

In the same way `phi' A^-1 phi` is a polynomial of twice the degree, times one exponential. All monomials are products
of one of the first half of the columns and one of the second, so that a small matrix product makes all the sums, and
features are never formed. Each half brings its own part of the exponential along: nothing overflows, however high the
degree and however far the points. With several Gaussians, each pair of them has moments of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import gammaln

from ..common.memory import Recent
from ..common.types import Floats, Integers
from ..features import taylor
from ..solvers import linalg
from ..solvers.factors import Cholesky
from ..solvers.feature_space import FeatureSpace
from ..solvers.statistics import Statistics

WORTH = 4.0  # times fewer moments than entries of the matrix, from where on they are quicker
MAX_DEGREE = 300  # beyond, the factors overflow
MOST_KEPT = 1 << 25  # bytes of maps that are kept for later fits
MAX_FEATURES = 2500  # beyond, the table of where each entry of the matrix is among the moments takes too much memory


class Monomials:
    """All monomials up to a degree in `d` columns, as products of a monomial of the first columns and one of the rest.

    Attributes
    ----------
    halves : tuple of two TaylorMap
    n_first : int
        Number of columns of the first half.
    shape : tuple of int
        Numbers of monomials of the two halves; their products beyond the degree are there too, and are not used.
    """

    def __init__(self, d: int, degree: int) -> None:
        self.n_first, self.degree = (d + 1) // 2, degree
        rest = d - self.n_first
        empty = taylor.from_exponents(np.zeros((1, 0), dtype=np.int64))
        self.halves = taylor.sample(self.n_first, degree), taylor.sample(rest, degree) if rest else empty
        self.shape = self.halves[0].n_components, self.halves[1].n_components

    def rows(self, S: Floats, rate: float, factor: Floats | float = 1.0) -> tuple[Floats, Floats]:
        """Monomials of both halves, one per row, times `exp(-rate |s|^2)`; those of the first also times `factor`.

        `S` has shape (n, d), and `factor` (n,). Each monomial `s^c` is divided by the root of `|c|!`.
        """
        first, second = S[:, : self.n_first], S[:, self.n_first :]
        A = taylor.monomial_rows(self.halves[0], first, np.exp(-rate * _squares(first)) * factor)
        B = taylor.monomial_rows(self.halves[1], second, np.exp(-rate * _squares(second)))
        return A, B

    def places(self, exponents: Integers) -> Integers:
        """Where the monomials with some exponents (..., d) are among all products, counted row by row: (...)."""
        first, second = exponents[..., : self.n_first], exponents[..., self.n_first :]
        return _rank(self.halves[0], first) * self.shape[1] + _rank(self.halves[1], second)

    def log_scale(self, exponents: Integers) -> Floats:
        """Logarithm of what the monomials with some exponents (..., d) were divided by: (...)."""
        first, second = exponents[..., : self.n_first].sum(-1), exponents[..., self.n_first :].sum(-1)
        result: Floats = 0.5 * (gammaln(first + 1.0) + gammaln(second + 1.0))
        return result


@dataclass(frozen=True, eq=False)
class Gaussian:
    """Features of one Gaussian of the kernel: as products of the two halves."""

    unit: Floats  # (d,): its length scales
    monomials: Monomials
    places: Integers  # (D,): its features among all products
    factor: Floats  # (D,): what makes features of them
    own: slice  # of all features


@dataclass(frozen=True, eq=False)
class Pair:
    """Products of features of two Gaussians."""

    unit: Floats  # (d,): such that both exponentials together are exp(-|z / unit|^2)
    monomials: Monomials
    own: slice  # of all moments


class MomentMap:
    """The moments of some Taylor features, and what to do with them.

    Attributes
    ----------
    gaussians : list of Gaussian
    pairs : list of Pair
    n_moments : int
    index, factor : ndarrays of shape (D, D), Fortran order
        Which moment each entry of the Gram matrix is, and times what; above the diagonal the factor is zero.
    """

    def __init__(self, scales: Floats, exponents: list[Integers]) -> None:
        D = sum(map(len, exponents))
        self.gaussians: list[Gaussian] = []
        self.pairs: list[Pair] = []
        self.n_moments, start = 0, 0
        self.index, self.factor = np.zeros((D, D), dtype=np.int64, order="F"), np.zeros((D, D), order="F")
        for unit, these in zip(scales, exponents, strict=True):
            monomials, own = Monomials(len(unit), _degree(these)), slice(start, start + len(these))
            factor = np.exp(monomials.log_scale(these) - _log_scale(these))
            self.gaussians.append(Gaussian(unit, monomials, monomials.places(these), factor, own))
            start = own.stop
            for other, its in zip(self.gaussians, exponents, strict=False):
                self._add_pair(self.gaussians[-1], these, other, its)

    def _add_pair(self, row: Gaussian, row_exponents: Integers, column: Gaussian, column_exponents: Integers) -> None:
        """Products of the features of two Gaussians, and the entries of the Gram matrix that they are."""
        unit = 1.0 / np.sqrt(0.5 * (row.unit**-2.0 + column.unit**-2.0))
        monomials = Monomials(len(unit), _degree(row_exponents) + _degree(column_exponents))
        own = slice(self.n_moments, self.n_moments + monomials.shape[0] * monomials.shape[1])
        self.pairs.append(Pair(unit, monomials, own))
        self.n_moments = own.stop
        exponents = row_exponents[:, None] + column_exponents
        of_rows = row_exponents @ np.log(unit / row.unit) - _log_scale(row_exponents)
        of_columns = column_exponents @ np.log(unit / column.unit) - _log_scale(column_exponents)
        factor = np.exp(monomials.log_scale(exponents) + of_rows[:, None] + of_columns)
        self.index[row.own, column.own] = own.start + monomials.places(exponents)
        self.factor[row.own, column.own] = np.tril(factor) if row is column else factor

    @property
    def n_rows(self) -> int:
        """Numbers that a point takes while it is summed."""
        monomials = [p.monomials for p in self.pairs] + [g.monomials for g in self.gaussians]
        return sum(first + second for first, second in (each.shape for each in monomials))

    @property
    def n_bytes(self) -> int:
        """Memory taken, most of it by the tables of entries."""
        return int(self.index.nbytes + self.factor.nbytes)

    def of_both_triangles(self) -> tuple[Integers, Floats]:
        """`index` and `factor` (D, D) with what is above the diagonal as it is below."""
        is_lower = np.tril(np.ones_like(self.index, dtype=bool))
        return np.where(is_lower, self.index, self.index.T), np.where(is_lower, self.factor, self.factor.T)

    # ---- sums ----------------------------------------------------------------------------------------------------

    def rows(self, Z: Floats, weights: Floats) -> list[tuple[Floats, Floats]]:
        """Monomials (., n) of all pairs and then of all Gaussians, the first halves times the weights (n,)."""
        of_pairs = [pair.monomials.rows(Z / pair.unit, 1.0, weights) for pair in self.pairs]
        return of_pairs + [g.monomials.rows(Z / g.unit, 0.5, weights) for g in self.gaussians]

    def sums(self, rows: list[tuple[Floats, Floats]], own: slice, y: Floats, weights: Floats) -> MomentSums:
        """Sums over some of the points: their targets (n, k + 1) and weights (n,)."""
        n_pairs = len(self.pairs)
        moments = np.concatenate([(A[:, own] @ B[:, own].T).ravel() for A, B in rows[:n_pairs]])
        cross = np.empty((len(self.factor), y.shape[1]))
        for gaussian, (A, B) in zip(self.gaussians, rows[n_pairs:], strict=True):
            for j in range(y.shape[1]):
                products = ((A[:, own] * y[:, j]) @ B[:, own].T).ravel()
                cross[gaussian.own, j] = gaussian.factor * products[gaussian.places]
        targets = (y * weights[:, None]).T @ y
        return MomentSums(moments, cross, targets, float(np.log(weights).sum()), len(weights))

    def expanded(self, sums: MomentSums) -> Statistics:
        """The same sums with the whole Gram matrix, as `Statistics` has it."""
        gram = np.take(sums.moments, self.index.ravel(order="F")).reshape(self.index.shape, order="F") * self.factor
        return Statistics(gram, sums.cross, sums.targets, sums.log_weight, sums.n)

    # ---- predictions ---------------------------------------------------------------------------------------------

    def polynomial(self, inverse: Floats) -> Floats:
        """Coefficients (n_moments,) of `phi' B phi` for a symmetric `B` (D, D), of which the lower triangle counts."""
        return np.bincount(self.index.ravel(order="F"), (inverse * self.doubled).ravel(order="F"), self.n_moments)

    @cached_property
    def doubled(self) -> Floats:
        """The factors (D, D) where the lower triangle stands for both."""
        return np.asfortranarray(2.0 * self.factor - np.diag(np.diag(self.factor)))

    def mean(self, coefficients: Sequence[Floats], Z: Floats, owns: Sequence[slice]) -> Floats:
        """Means (m, k + 1) by several models, each with coefficients of the features (D, k + 1).

        Each is asked for its own slice of the points (m, d), which are relative to its centre.
        """
        result = np.zeros((len(Z), coefficients[0].shape[1]))
        for gaussian in self.gaussians:
            A, B = gaussian.monomials.rows(Z / gaussian.unit, 0.5)
            grid = np.zeros(gaussian.monomials.shape)
            for values, own in zip(coefficients, owns, strict=True):
                for j in range(values.shape[1]):
                    grid.flat[gaussian.places] = gaussian.factor * values[gaussian.own, j]
                    result[own, j] += _form(A[:, own], grid, B[:, own])
        return result

    def variance(self, polynomials: Sequence[Floats], Z: Floats, owns: Sequence[slice]) -> Floats:
        """Values (m,) of `phi' B phi` for several `B`; see `polynomial` and `mean`."""
        result = np.zeros(len(Z))
        for pair in self.pairs:
            A, B = pair.monomials.rows(Z / pair.unit, 1.0)
            for values, own in zip(polynomials, owns, strict=True):
                result[own] += _form(A[:, own], values[pair.own].reshape(pair.monomials.shape), B[:, own])
        # What is small comes of cancelling, so rounding may take it below zero.
        return np.maximum(result, 0.0)


@dataclass(frozen=True, eq=False)
class MomentSums:
    """Sums over points from which a centre's model is made. They add.

    As `Statistics`, with moments in place of the Gram matrix.
    """

    moments: Floats  # (n_moments,)
    cross: Floats  # (D, k + 1)
    targets: Floats  # (k + 1, k + 1)
    log_weight: float
    n: int

    def __add__(self, other: MomentSums) -> MomentSums:
        return MomentSums(
            self.moments + other.moments,
            self.cross + other.cross,
            self.targets + other.targets,
            self.log_weight + other.log_weight,
            self.n + other.n,
        )

    @property
    def n_bytes(self) -> int:
        """Memory taken."""
        return int(self.moments.nbytes + self.cross.nbytes + self.targets.nbytes)


@dataclass(frozen=True, eq=False)
class MomentModel:
    """A local model in feature space that keeps moments and a polynomial in place of matrices."""

    coefficients: Floats  # (D, k + 1): of the mean
    polynomial: Floats  # (n_moments,): of the variance
    sums: MomentSums

    @classmethod
    def from_sums(cls, moments: MomentMap, sums: MomentSums, precision: Floats, what: str) -> MomentModel:
        """Condition on sums over data, with the prior precision (D,) of each coefficient."""
        solved = FeatureSpace.from_statistics(moments.expanded(sums), precision, what)
        assert isinstance(solved.factor, Cholesky)
        return cls(solved.coefficients, moments.polynomial(linalg.inverse_in_place(solved.factor.lower)), sums)

    @property
    def n_bytes(self) -> int:
        """Memory taken."""
        return int(self.coefficients.nbytes + self.polynomial.nbytes + self.sums.n_bytes)


def moments_of(scales: Floats, maps: Sequence[taylor.TaylorMap]) -> MomentMap | None:
    """Moments of the Taylor features of Gaussians with some scales, (G, d) or (G, 1).

    None where they would not save anything, or are too many.
    """
    d, D = maps[0].exponents.shape[1], sum(m.n_components for m in maps)
    if D > MAX_FEATURES or max(m.degree for m in maps) > MAX_DEGREE:
        return None
    if WORTH * n_moments([m.degree for m in maps], d) > D**2:
        return None
    scales, exponents = np.broadcast_to(scales, (len(maps), d)), [m.exponents for m in maps]
    key = (d, scales.tobytes(), tuple(each.tobytes() for each in exponents))
    return _RECENT.get(key, lambda: MomentMap(scales.copy(), exponents), lambda made: made.n_bytes)


def n_moments(degrees: Sequence[int], d: int) -> int:
    """Number of moments of Taylor features of some degrees in `d` columns, those that are not used included."""
    first = (d + 1) // 2
    pairs = ((p + q) for i, p in enumerate(degrees) for q in degrees[: i + 1])
    return sum(taylor.n_monomials(first, both) * taylor.n_monomials(d - first, both) for both in pairs)


_RECENT: Recent[MomentMap] = Recent(MOST_KEPT)  # fits to the same tolerance ask for the same ones again and again


def _degree(exponents: Integers) -> int:
    return int(exponents.sum(axis=1).max())


def _form(A: Floats, grid: Floats, B: Floats) -> Floats:
    """`a' grid b` for each column of `A` and its like in `B`."""
    result: Floats = np.einsum("ij,ij->j", A, grid @ B)
    return result


def _squares(Z: Floats) -> Floats:
    result: Floats = np.einsum("ij,ij->i", Z, Z)
    return result


def _log_scale(exponents: Integers) -> Floats:
    """Logarithm of what `taylor.monomial_rows` divides monomials by, those with exponents (D, d): (D,)."""
    result: Floats = 0.5 * gammaln(exponents.sum(axis=1) + 1.0)
    return result


def _rank(monomials: taylor.TaylorMap, exponents: Integers) -> Integers:
    """Where exponents (..., d) are in the order of a map."""
    if exponents.shape[-1] < 2:
        degrees: Integers = exponents.sum(axis=-1)
        return degrees
    strides = (monomials.degree + 1) ** np.arange(exponents.shape[-1], dtype=np.int64)
    codes = monomials.exponents @ strides
    order = np.argsort(codes)
    result: Integers = order[np.searchsorted(codes[order], exponents @ strides)]
    return result
