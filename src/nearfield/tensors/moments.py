"""Moments of many local models at once, on a device: see `local.moments`, which does the same for one model in NumPy.

A neighbourhood's sums are two small batched products, a prediction's variance is a polynomial: what is read and written
for a point is some fifty numbers instead of some hundreds. In double precision only: polynomials cancel.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import torch

from ..common.arrays import Array as Tensor
from ..features import taylor
from ..local.model import FEATURE_MATRIX, point_variances
from ..local.moments import MomentMap, MomentSums, Monomials
from ..local.plan import Plan
from ..solvers.feature_space import FeatureSpace
from ..solvers.statistics import Statistics

MOST_NUMBERS = 2**27  # of the matrix that makes polynomials


@dataclass(frozen=True, eq=False)
class TensorMoments:
    """The tables of a `MomentMap` on a device.

    Attributes
    ----------
    moments : MomentMap
    index : tensor of shape (D * D,)
        The moment of each entry of the Gram matrix.
    factor : tensor of shape (D * D,)
        And what it is multiplied by.
    used : tensor of shape (U,)
        Moments that there are entries of.
    to_polynomial : tensor of shape (D * D, U)
        From the entries of an inverse to the coefficients of the polynomial of the variance.
    places, factors : tuples of tensors
        Of the Gaussians; see `local.moments.Gaussian`.
    """

    moments: MomentMap
    index: Tensor
    factor: Tensor
    used: Tensor
    to_polynomial: Tensor
    places: tuple[Tensor, ...]
    factors: tuple[Tensor, ...]

    @classmethod
    def of(cls, moments: MomentMap, device: Any) -> TensorMoments:
        """Of the moments of a plan's features."""
        index, factor = (each.ravel() for each in moments.of_both_triangles())
        used, rank = np.unique(index, return_inverse=True)
        polynomial = np.zeros((len(index), len(used)))
        polynomial[np.arange(len(index)), rank] = factor
        places, factors = (
            tuple(torch.as_tensor(array, device=device) for array in each)
            for each in ([g.places for g in moments.gaussians], [g.factor for g in moments.gaussians])
        )
        arrays = index, factor, used, polynomial
        index, factor, used, polynomial = (torch.as_tensor(each, device=device) for each in arrays)
        return cls(moments, index, factor, used, polynomial, places, factors)

    def sums(self, plan: Plan, Z: Tensor, y: Tensor, noise: Tensor, real: Tensor) -> MomentSums:
        """Sums over points (B, n, d) with targets (B, n, k + 1) and noise (B, n), of those that are `real` (B, n)."""
        weights = torch.where(real, 1.0 / point_variances(plan, Z, noise, None), 0.0)
        moments = []
        for pair in self.moments.pairs:
            A, B = _rows(pair.monomials, Z, pair.unit, 1.0, weights)
            moments.append((A @ B.mT).flatten(1))
        b, n, k = y.shape
        cross = y.new_empty((b, len(self.moments.factor), k))
        for gaussian, places, factor in zip(self.moments.gaussians, self.places, self.factors, strict=True):
            A, B = _rows(gaussian.monomials, Z, gaussian.unit, 0.5, weights)
            products = (A[:, None] * y.mT[:, :, None]).reshape(b, -1, n) @ B.mT
            cross[:, gaussian.own] = (products.reshape(b, k, -1)[:, :, places] * factor).mT
        positive = torch.where(real, weights, 1.0)
        return MomentSums(
            torch.cat(moments, dim=1),
            cross,
            (y * weights[:, :, None]).mT @ y,
            positive.log().sum(dim=1),
            real.sum(dim=1),
        )

    def solved(self, plan: Plan, sums: MomentSums) -> MomentModels:
        """Models of the sums of many neighbourhoods."""
        assert plan.features is not None
        D = len(self.moments.factor)
        gram = (sums.moments[:, self.index] * self.factor).reshape(-1, D, D)
        statistics = Statistics(gram, sums.cross, sums.targets, sums.log_weight, sums.n)
        model = FeatureSpace.from_statistics(statistics, plan.features.precision, FEATURE_MATRIX)
        whitener = model.factor.inverse  # type: ignore[union-attr]
        polynomials = gram.new_zeros((len(gram), self.moments.n_moments))
        polynomials[:, self.used] = (whitener.mT @ whitener).reshape(-1, D * D) @ self.to_polynomial
        return MomentModels.of(self.moments, model.coefficients, polynomials, self.places, self.factors)


@dataclass(frozen=True, eq=False)
class MomentModels:
    """Local models side by side, each with the coefficients of its mean and the polynomial of its variance."""

    moments: MomentMap
    coefficients: Tensor  # (B, D, k + 1)
    grids: tuple[Tensor, ...]  # (B, k + 1, ., .): the same, as `Gaussian` has its features
    polynomials: Tensor  # (B, n_moments)

    @classmethod
    def of(
        cls,
        moments: MomentMap,
        coefficients: Tensor,
        polynomials: Tensor,
        places: Sequence[Tensor],
        factors: Sequence[Tensor],
    ) -> MomentModels:
        """With the grids of some coefficients; `places` and `factors` are those of the Gaussians, on the device."""
        grids = []
        for gaussian, at, factor in zip(moments.gaussians, places, factors, strict=True):
            first, second = gaussian.monomials.shape
            grid = coefficients.new_zeros((len(coefficients), coefficients.shape[-1], first * second))
            grid[:, :, at] = (coefficients[:, gaussian.own] * factor[:, None]).mT
            grids.append(grid.reshape(*grid.shape[:2], first, second))
        return cls(moments, coefficients, tuple(grids), polynomials)

    def mean_and_variance(self, plan: Plan, Z: Tensor) -> tuple[Tensor, Tensor]:
        """Means (B, m, k + 1) and variances (B, m) at points relative to the centres, (B, m, d)."""
        variance: Tensor = 0.0
        for pair in self.moments.pairs:
            A, B = _rows(pair.monomials, Z, pair.unit, 1.0)
            polynomial = self.polynomials[:, pair.own].reshape(-1, *pair.monomials.shape)
            variance = variance + (polynomial @ B).mul_(A).sum(dim=1)
        mean: Tensor = 0.0
        for gaussian, grid in zip(self.moments.gaussians, self.grids, strict=True):
            A, B = _rows(gaussian.monomials, Z, gaussian.unit, 0.5)
            b, k, first, second = grid.shape
            products = (grid.reshape(b, k * first, second) @ B).reshape(b, k, first, -1)
            mean = mean + products.mul_(A[:, None]).sum(dim=2).mT
        # What is small comes of cancelling, so rounding may take it below zero.
        return mean, plan.total_variance(variance.clamp(min=0.0), Z)

    def take(self, chosen: Tensor) -> MomentModels:
        """Those at the indices `chosen`."""
        grids = tuple(grid[chosen] for grid in self.grids)
        return replace(self, coefficients=self.coefficients[:0], grids=grids, polynomials=self.polynomials[chosen])

    def n_numbers(self, n_points: int) -> int:
        """That a model takes which is asked for so many points."""
        return 2 * self.moments.n_moments + 3 * n_points * self.moments.n_rows

    @property
    def n_bytes(self) -> int:
        """Memory taken."""
        return int(self.coefficients.nbytes + sum(grid.nbytes for grid in self.grids) + self.polynomials.nbytes)


def moments_of(plan: Plan, X: Tensor) -> TensorMoments | None:
    """What sums the moments of a plan on the device of `X`; None where products of features are better."""
    moments = None if plan.features is None else plan.features.moments
    if moments is None or X.dtype != torch.float64 or moments.factor.size * moments.n_moments > MOST_NUMBERS:
        return None
    return _tables(moments, X.device)


@lru_cache(maxsize=4)
def _tables(moments: MomentMap, device: Any) -> TensorMoments:
    return TensorMoments.of(moments, device)


def _rows(
    monomials: Monomials, Z: Tensor, unit: Any, rate: float, factor: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Monomials (B, ., n) of both halves of points (B, n, d), those of the first times a factor (B, n)."""
    S = Z / Z.new_tensor(unit)
    first, second = S[..., : monomials.n_first], S[..., monomials.n_first :]
    decay = torch.exp(-rate * first.square().sum(dim=-1))
    A = _monomials(monomials.halves[0], first, decay if factor is None else decay * factor)
    B = _monomials(monomials.halves[1], second, torch.exp(-rate * second.square().sum(dim=-1)))
    return A, B


def _monomials(half: taylor.TaylorMap, z: Tensor, start: Tensor) -> Tensor:
    """Those of one column in two goes, whatever the degree: each call of a device takes its time."""
    if z.shape[-1] != 1:
        return taylor.monomial_rows(half, z, start)
    rows = z.new_empty((*z.shape[:-2], half.n_components, z.shape[-2]))
    rows[..., 0, :] = start
    steps = torch.arange(1, half.n_components, dtype=z.dtype, device=z.device).rsqrt()
    torch.mul(z.mT, steps[:, None], out=rows[..., 1:, :])
    return torch.cumprod(rows, dim=-2)
