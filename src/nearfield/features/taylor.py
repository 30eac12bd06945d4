r"""Explicit Taylor features of the Gaussian kernel: monomials, without repeats and without randomness.

.. math:: \phi_a(z) = e^{-|z|^2/2} z^a / \sqrt{a!}, \qquad \sum_a \phi_a(z) \phi_a(z') = e^{-|z-z'|^2/2}

over all multi-indices `a`. Those of total degree up to `p` give the series truncated after degree `p`, with
`C(d+p, p)` columns.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from math import comb
from typing import Any

import array_api_compat
import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from ..common.arrays import Array, empty_like_shape, like, namespace
from ..common.types import Integers
from ..common.validation import check_integer, describe
from .base import ShiftedFeatures

MAX_COLUMNS = 1 << 17


@dataclass(frozen=True, eq=False)
class TaylorMap:
    """Monomials to evaluate, ordered by degree.

    The first is the constant, and each other one has a parent, itself less one in some variable, before it, which makes
    evaluation one multiplication per column.
    """

    exponents: Integers  # (D, d): the multi-indices
    scale: NDArray[np.float64] = field(repr=False)  # (D,): `sqrt(|a|! / a!)`, to normalise the rows of `monomial_rows`
    _runs: tuple[tuple[int, int, int, int, int], ...] = field(repr=False)

    @property
    def n_components(self) -> int:
        """Number of columns `D`."""
        return len(self.exponents)

    @property
    def degree(self) -> int:
        """Largest total degree."""
        return int(self.exponents[-1].sum())


def n_monomials(n_variables: int, degree: int) -> int:
    """Count the monomials of total degree up to `degree`: `C(d + p, p)`."""
    return comb(n_variables + degree, degree)


@lru_cache(maxsize=64)  # fits to the same tolerance ask for the same ones again and again
def sample(n_variables: int, degree: int) -> TaylorMap:
    """All monomials of total degree up to `degree` in `n_variables` variables."""
    D = n_monomials(n_variables, degree)
    if D > MAX_COLUMNS:
        raise ValueError(
            f"Degree {degree} in {n_variables} variables needs {D} monomials, more than {MAX_COLUMNS}. "
            "Lower the degree, or use MaclaurinFeatures."
        )
    level = np.zeros((1, n_variables), dtype=np.int64)
    levels = [level]
    for _ in range(degree):
        # Of the level before, sorted by first variable, variable j multiplies those without a variable before j.
        first = np.argmax(level > 0, axis=1) if level.any() else np.full(1, n_variables)
        level = np.concatenate([_raised(level[first >= j], j) for j in range(n_variables)])
        levels.append(level)
    return from_exponents(np.concatenate(levels))


def _raised(exponents: Integers, variable: int) -> Integers:
    raised = exponents.copy()
    raised[:, variable] += 1
    return raised


def from_exponents(exponents: Integers) -> TaylorMap:
    """Map of any set of monomials in which each but the constant has a parent (see `TaylorMap`)."""
    exponents = np.asarray(exponents, dtype=np.int64)
    exponents = exponents[np.argsort(exponents.sum(axis=1), kind="stable")]
    degrees = exponents.sum(axis=1)
    position = {tuple(row): i for i, row in enumerate(exponents.tolist())}
    runs: list[list[int]] = []  # [start, stop, parent start, variable, degree]: neighbours whose parents are neighbours
    for i, row in enumerate(exponents.tolist()):
        if i == 0:
            continue
        for j in np.flatnonzero(row).tolist():
            parent = position.get((*row[:j], row[j] - 1, *row[j + 1 :]))
            if parent is None:
                continue
            last = runs[-1] if runs else [0, 0, 0, -1, 0]
            if last[1] == i and last[3] == j and last[4] == degrees[i] and parent == last[2] + (i - last[0]):
                last[1] = i + 1
            else:
                runs.append([i, i + 1, parent, j, int(degrees[i])])
            break
        else:
            raise ValueError(f"Monomial {row} has no parent in the set.")
    # Rows are built as z^a / sqrt(|a|!), which can neither overflow nor underflow early, and rescaled at the end.
    scale = np.exp(0.5 * (gammaln(degrees + 1.0) - gammaln(exponents + 1.0).sum(axis=1)))
    return TaylorMap(exponents, scale, tuple((r[0], r[1], r[2], r[3], r[4]) for r in runs))


def monomial_rows(taylor: TaylorMap, z: Array, first: Array) -> Array:
    """Monomials, one per row, `(..., D, n)`, not yet normalised: `first * z^a / sqrt(|a|!)`.

    Parameters
    ----------
    z : array of shape (..., n, d)
        Scaled and centred points.
    first : array of shape (..., n)
        The row of the constant, which every other row is a multiple of.
    """
    xp = namespace(z)
    columns = xp.matrix_transpose(z)
    rows = empty_like_shape((*z.shape[:-2], taylor.n_components, z.shape[-2]), z)
    rows[..., 0, :] = first
    level, scaled = 0, columns
    multiply = _multiply_into(xp)
    for start, stop, parent, variable, degree in taylor._runs:
        if degree != level:
            level, scaled = degree, columns / degree**0.5
        multiply(
            rows[..., parent : parent + stop - start, :],
            scaled[..., variable : variable + 1, :],
            rows[..., start:stop, :],
        )
    return rows


def _multiply_into(xp: Any) -> Any:
    """`multiply(a, b, out)` of an array library: in one pass where it can, as NumPy and PyTorch do."""
    if array_api_compat.is_numpy_namespace(xp) or array_api_compat.is_torch_namespace(xp):
        return lambda a, b, out: xp.multiply(a, b, out=out)

    def multiply_and_copy(a: Array, b: Array, out: Array) -> None:
        out[...] = a * b

    return multiply_and_copy


def feature_rows(taylor: TaylorMap, z: Array) -> Array:
    """Features, one per row, `(..., D, n)`, of scaled and centred points `z` of shape (..., n, d)."""
    xp = namespace(z)
    rows = monomial_rows(taylor, z, xp.exp(-0.5 * xp.sum(z * z, axis=-1)))
    rows *= like(taylor.scale, z)[:, None]
    return rows


def squared_norms(degree: int, squares: Array) -> Array:
    """Sum of the squared features of all degrees up to `degree` at points with `|z|^2 = squares`.

    That is the probability that a Poisson variable of mean `|z|^2` is at most `degree`: 1 near the centre, 0 far away.
    """
    xp = namespace(squares)
    term = xp.exp(-squares)
    total = xp.asarray(term, copy=True)
    for n in range(1, degree + 1):
        term *= squares
        term *= 1 / n
        total += term
    return total


def apply(taylor: TaylorMap, z: Array) -> Array:
    """Features `(..., n, D)` of scaled and centred points `z` of shape (..., n, d)."""
    return namespace(z).matrix_transpose(feature_rows(taylor, z))


class TaylorFeatures(ShiftedFeatures):
    """Explicit Taylor expansion of the Gaussian kernel around the mean of the training points.

    The kernel `variance * exp(-|x - x'|^2 / (2 length_scale^2))` is expanded to total degree `degree` with
    `C(d + degree, degree)` monomials. It is accurate within about `sqrt(degree)` length scales of the centre and
    vanishes far from it.

    Parameters
    ----------
    degree : int, default=8
        Largest total degree of the monomials, at least 1.
    length_scale : float or array of shape (n_features,), default=1.0
        Length scale, one or one per column.
    variance : float, default=1.0
        Kernel value at distance zero.
    center : "mean", None or array of shape (n_features,), default="mean"
        Point of expansion: the mean of the training points, the origin, or a given point. The Gaussian kernel does
        not depend on it, the quality of its expansion does.

    Attributes
    ----------
    center_ : ndarray of shape (n_features,)
    map_ : TaylorMap
        The monomials.
    n_features_in_ : int
    feature_names_in_ : ndarray of str, where X has column names

    Examples
    --------
    >>> import numpy as np, nearfield as nf
    >>> nf.TaylorFeatures(degree=12).fit_transform(np.zeros((5, 2))).shape
    (5, 91)
    """

    def __init__(
        self, degree: int = 8, *, length_scale: Any = 1.0, variance: float = 1.0, center: Any = "mean"
    ) -> None:
        self.degree = degree
        self.length_scale = length_scale
        self.variance = variance
        self.center = center

    def _sample(self, z: NDArray[Any]) -> TaylorMap:
        degree = check_integer(self, "degree", 1)
        if n_monomials(z.shape[1], degree) > MAX_COLUMNS:
            raise ValueError(
                f"{describe(self, 'degree')} is too large: degree {degree} in {z.shape[1]} columns needs "
                f"{n_monomials(z.shape[1], degree)} monomials. Lower it, or use MaclaurinFeatures."
            )
        return sample(z.shape[1], degree)

    def _apply(self, z: Array) -> Array:
        return apply(self.map_, z)
