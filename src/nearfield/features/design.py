"""Columns of a drift, made of the columns of the data: powers, indicators of categories, or what a transformer makes.

Columns are scaled and centred, so that their sums are well conditioned; `to_given` brings coefficients to the units of
the data.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, combinations_with_replacement
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from ..common.types import Floats

INTERCEPT = "intercept"
CLEARLY = 1e-6  # least eigenvalue of the products of scaled columns, from where on nothing need be looked at closely
DEPENDENT = 1e-9  # of its size is left of a column that others explain


class DependentColumn(NamedTuple):
    """A column that is a combination of others before it."""

    number: int
    others: tuple[int, ...]


@dataclass(frozen=True)
class Term:
    """A product of columns of the data, none for a constant; or of one column, whether it holds a certain level."""

    columns: tuple[int, ...] = ()
    level: int = -1


@dataclass(frozen=True, eq=False)
class Design:
    """Drift columns that are products of columns and indicators of categories.

    Attributes
    ----------
    terms : tuple of Term
        One per drift column. With a product there are all products of fewer of its columns.
    names : tuple of str
    middle, unit : ndarray of shape (n_features,)
        Products are of columns less their middle, in these units.
    """

    terms: tuple[Term, ...]
    names: tuple[str, ...]
    middle: Floats
    unit: Floats

    @classmethod
    def of(cls, terms: Sequence[Term], names: Sequence[str], points: Floats) -> Design:
        """Design for data (n, n_features)."""
        unit = points.std(axis=0)
        return cls(tuple(terms), tuple(names), points.mean(axis=0), np.where(unit > 0, unit, 1.0))

    def __call__(self, points: Floats) -> Floats:
        """Drift columns (m, p) of rows (m, n_features)."""
        # Columns are picked by a product with a matrix of zeros and ones, in a fraction of the time of picking them.
        scaled = (points - self.middle) / self.unit
        chosen = np.zeros((points.shape[1], len(self.terms)))
        for i, term in enumerate(self.terms):
            if len(term.columns) == 1 and term.level < 0:
                chosen[term.columns[0], i] = 1.0
        result = scaled @ chosen
        for i, term in enumerate(self.terms):
            if not term.columns:
                result[:, i] = 1.0
            elif term.level >= 0:
                result[:, i] = points[:, term.columns[0]].real == term.level
            elif len(term.columns) > 1:
                result[:, i] = np.prod(scaled[:, term.columns], axis=1)
        return result

    @property
    def to_given(self) -> Floats:
        """Matrix (p, p) that turns coefficients into those of products of the columns as they are."""
        places = {term: i for i, term in enumerate(self.terms)}
        result = np.eye(len(self.terms))
        for i, term in enumerate(self.terms):
            if term.level >= 0:
                continue
            scale = float(np.prod([self.unit[j] for j in term.columns]))
            for count in range(len(term.columns) + 1):
                for kept in combinations(range(len(term.columns)), count):
                    rest = [self.middle[j] for at, j in enumerate(term.columns) if at not in kept]
                    place = places[Term(tuple(term.columns[at] for at in kept))]
                    share = float(np.prod([-value for value in rest])) / scale
                    result[place, i] = share + (result[place, i] if place != i else 0.0)
        return result

    def without(self, numbers: Sequence[int]) -> Design:
        """The same without some columns."""
        kept = [i for i in range(len(self.terms)) if i not in numbers]
        return replace(self, terms=tuple(self.terms[i] for i in kept), names=tuple(self.names[i] for i in kept))

    def named(self, names: Sequence[str]) -> Design:
        """The same design, without categories, for columns that are called so."""
        called = (_product(names, term.columns) if term.columns else INTERCEPT for term in self.terms)
        return replace(self, names=tuple(called))

    def rescaled(self, units: Floats) -> Design:
        """The design for data whose columns are multiplied by `units` (n_features,), with the same drift columns."""
        return replace(self, middle=self.middle * units, unit=self.unit * units)


@dataclass(frozen=True, eq=False)
class TransformedDesign:
    """Drift columns that a transformer of scikit-learn makes.

    Attributes
    ----------
    transformer : transformer
        Fitted.
    as_given : callable
        Turns rows (m, n_features) of numbers into what the transformer takes.
    names : tuple of str
    columns : tuple of int
        Those of its columns that are taken; -1 is a constant.
    middle, unit : ndarray of shape (p,)
        Columns are taken less their middle, in these units.
    """

    transformer: Any
    as_given: Callable[[Floats], Any]
    names: tuple[str, ...]
    columns: tuple[int, ...]
    middle: Floats
    unit: Floats

    @classmethod
    def of(cls, transformer: Any, as_given: Callable[[Floats], Any], points: Floats) -> TransformedDesign:
        """Design from a fitted transformer, with a constant beside it unless its columns add up to one."""
        made = transformed(transformer, as_given(points))
        with_constant = np.column_stack([made, np.ones(len(made))])
        spans_constant = any(found.number == made.shape[1] for found in dependent_columns(with_constant))
        names, columns = list(_names_of(transformer, made.shape[1])), list(range(made.shape[1]))
        if not spans_constant:
            names, columns, made = [INTERCEPT, *names], [-1, *columns], with_constant[:, [-1, *columns]]
        unit = made.std(axis=0)
        # Without a constant among the columns, centred ones would span something else.
        middle = np.zeros(len(unit)) if spans_constant else np.where(unit > 0, made.mean(axis=0), 0.0)
        return cls(transformer, as_given, tuple(names), tuple(columns), middle, np.where(unit > 0, unit, 1.0))

    def __call__(self, points: Floats) -> Floats:
        """Drift columns (m, p) of rows (m, n_features)."""
        if len(points) == 0:
            return np.empty((0, len(self.columns)))
        made = transformed(self.transformer, self.as_given(points))
        made = np.column_stack([made, np.ones(len(made))])[:, list(self.columns)]
        return (made - self.middle) / self.unit

    @property
    def to_given(self) -> Floats:
        """Matrix (p, p) that turns coefficients into those of the transformer's own columns."""
        result = np.diag(1 / self.unit)
        if -1 in self.columns:
            constant = self.columns.index(-1)
            result[constant] -= self.middle / self.unit
        return result

    def without(self, numbers: Sequence[int]) -> TransformedDesign:
        """The same without some columns."""
        kept = [i for i in range(len(self.columns)) if i not in numbers]
        names, columns = tuple(self.names[i] for i in kept), tuple(self.columns[i] for i in kept)
        return replace(self, names=names, columns=columns, middle=self.middle[kept], unit=self.unit[kept])


AnyDesign = Design | TransformedDesign


def failed(to: str, what: str, model: Any, error: Exception, X: Any) -> ValueError:
    """What to raise where a transformer or regressor that was given fails: why, and which columns hold words."""
    words = [str(name) for name in getattr(X, "columns", ()) if X[name].dtype.kind not in "fiub"]
    hint = f" It was given columns of categories: {', '.join(map(repr, words))}." if words else ""
    return ValueError(f"The {what} {type(model).__name__} failed to {to}: {str(error).rstrip('.')}.{hint}")


def transformed(transformer: Any, X: Any) -> Floats:
    """What a fitted transformer makes of rows, as an array (m, q) of finite numbers."""
    try:
        made = transformer.transform(X)
    except Exception as error:
        raise failed("transform", "drift", transformer, error, X) from error
    made = made.toarray() if sparse.issparse(made) else made
    columns = np.asarray(made, dtype=np.float64)
    if columns.ndim != 2 or not np.isfinite(columns).all():
        raise ValueError(f"The drift {type(transformer).__name__} makes columns that are not all finite numbers.")
    return columns


def _names_of(transformer: Any, count: int) -> Sequence[str]:
    try:
        names = [str(name) for name in transformer.get_feature_names_out()]
    except (AttributeError, ValueError):
        names = []
    return names if len(names) == count else [f"{type(transformer).__name__.lower()}{i}" for i in range(count)]


def polynomial(columns: Sequence[int], names: Sequence[str], degree: int) -> tuple[list[Term], list[str]]:
    """All products of at most `degree` columns, and what they are called; `names` are those of these columns."""
    terms, called = [], []
    for order in range(degree + 1):
        for chosen in combinations_with_replacement(range(len(columns)), order):
            terms.append(Term(tuple(columns[i] for i in chosen)))
            called.append(_product(names, chosen) if chosen else INTERCEPT)
    return terms, called


def _product(names: Sequence[str], chosen: tuple[int, ...]) -> str:
    powers = {i: chosen.count(i) for i in chosen}
    return " ".join(names[i] if power == 1 else f"{names[i]}^{power}" for i, power in powers.items())


def dependent_columns(F: Floats) -> list[DependentColumn]:
    """The columns of `F` (n, p) that are combinations of others before them, and of which."""
    sizes = np.linalg.norm(F, axis=0)
    if _clearly_independent(F, sizes):
        return []
    basis, kept, found = np.empty((len(F), 0)), [], []
    for j in range(F.shape[1]):
        column = F[:, j] / (sizes[j] or 1.0)
        rest = column - basis @ (basis.T @ column)
        rest -= basis @ (basis.T @ rest)
        size = float(np.linalg.norm(rest))
        if size > DEPENDENT:
            basis = np.column_stack([basis, rest / size])
            kept.append(j)
            continue
        shares = np.linalg.lstsq(F[:, kept] / sizes[kept], column, rcond=None)[0] if kept else np.empty(0)
        others = tuple(kept[i] for i in np.flatnonzero(np.abs(shares) > 1e-6))
        found.append(DependentColumn(j, others))
    return found


def _clearly_independent(F: Floats, sizes: Floats) -> bool:
    """Whether products of the columns tell that none follows from others: far quicker, with half of the digits."""
    if not (sizes > 0).all() or F.shape[1] >= len(F):
        return False
    correlations = (F.T @ F) / np.outer(sizes, sizes)
    return bool(np.linalg.eigvalsh(correlations)[0] > CLEARLY)
