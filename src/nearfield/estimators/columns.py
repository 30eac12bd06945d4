"""Roles of the columns of X: where the process lives, what enters as a drift, and categories as numbers."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import clone

from ..common.types import Floats
from ..common.validation import describe, without_na
from ..common.warnings import warn
from ..features.design import (
    INTERCEPT,
    AnyDesign,
    Design,
    Term,
    TransformedDesign,
    dependent_columns,
    failed,
    polynomial,
)

DEGREES = {"linear": 1, "quadratic": 2}
BOOSTING = "boosting"  # stands for a mean model of gradient boosted trees
MOST_LEVELS = 1000  # of a category
MISSING = "(missing)"  # what no category is called, where that may be
DTYPES = (
    "category",
    "bool",
    *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
    "float32",
    "float64",
)
UNSEEN = "(unseen)"  # what levels of groups are called that fit has not seen
_CATEGORIES = ("categor", "enum")  # how the names of their types begin, in pandas and others
_FEW = 8  # columns that a message lists


@dataclass(frozen=True, eq=False)
class Encoding:
    """Columns of a table as numbers: categories are the numbers of their levels.

    Attributes
    ----------
    n_columns : int
    names : tuple of str, or None
        Of the columns, where they have any.
    used : tuple of int
        Columns that have a role; the others are not looked at, and are 0.
    levels : dict of str to tuple of str
        Levels of the columns of categories, by the number of the column.
    groups : tuple of int
        Columns of categories that may hold others than those of `fit`, which get one more number.
    dtypes : dict of str to str
        What columns of a table are stored as, by the number of the column; one of `DTYPES`.
    may_lack : tuple of int
        Columns that only a mean model looks at, where values may be missing: NaN, or the category `MISSING`.
    """

    n_columns: int
    names: tuple[str, ...] | None
    used: tuple[int, ...]
    levels: dict[str, tuple[str, ...]]
    groups: tuple[int, ...] = ()
    dtypes: dict[str, str] = field(default_factory=dict)
    may_lack: tuple[int, ...] = ()

    def name(self, j: int) -> str:
        """Name of a column; without names they are x0, x1, ..."""
        return f"x{j}" if self.names is None else self.names[j]

    def levels_of(self, j: int) -> tuple[str, ...] | None:
        """Levels of a column of categories; None of one of numbers."""
        return self.levels.get(str(j))

    @property
    def categories(self) -> list[int]:
        """Columns that hold categories."""
        return sorted(map(int, self.levels))

    def encode(self, X: Any) -> Floats:
        """Numbers (m, n_columns) of a table or an array with as many columns."""
        if isinstance(X, np.ndarray) and X.dtype.kind == "f" and not self.levels and np.isfinite(X).all():
            return X.astype(np.float64) * np.isin(np.arange(self.n_columns), self.used)  # all at once
        points = np.zeros((_n_rows(X), self.n_columns))
        for j in self.used:
            values, levels = column_of(X, j), self.levels_of(j)
            points[:, j] = self._numbers(j, values) if levels is None else self._codes(j, values, levels)
        return points

    def _numbers(self, j: int, values: Any) -> Floats:
        kind = f"Column {self.name(j)!r} of X"
        if values.dtype.kind in "mM":
            raise ValueError(
                f"{kind} holds times: make them numbers in a unit of your choice, such as days, by "
                "(times - times.min()) / np.timedelta64(1, 'D')."
            )
        try:
            numbers = np.asarray(values, dtype=np.float64)
        except (TypeError, ValueError):
            row = next(i for i, value in enumerate(values) if not _is_number(value))
            raise ValueError(f"{kind} must hold numbers. Got {values[row]!r} in row {row} (counted from 0).") from None
        wrong = np.flatnonzero(np.isinf(numbers) if j in self.may_lack else ~np.isfinite(numbers))
        if len(wrong):
            what = "a missing value" if np.isnan(numbers[wrong[0]]) else "infinity"
            raise ValueError(
                f"{kind} contains NaN or infinity: {what} in row {wrong[0]} (counted from 0). Drop such rows, or fill "
                "them."
            )
        return numbers

    def _codes(self, j: int, values: Any, levels: tuple[str, ...]) -> Floats:
        places = {level: float(i) for i, level in enumerate(levels)}
        labels = labels_of(values, self.name(j), j in self.may_lack)
        if j in self.groups:
            return np.array([places.get(label, float(len(levels))) for label in labels])
        unknown = next((i for i, label in enumerate(labels) if label not in places), None)
        if unknown is not None:
            more = ", ..." if len(levels) > _FEW else ""
            raise ValueError(
                f"Column {self.name(j)!r} of X has the category {labels[unknown]!r} in row {unknown} (counted from 0), "
                f"which fit has not seen; it saw {', '.join(map(repr, levels[:_FEW]))}{more}."
            )
        return np.array([places[label] for label in labels])

    def decode(self, points: Floats) -> Any:
        """The table, or the array, that `encode` made numbers of: what transformers and regressors are given."""
        if self.names is None and not self.levels:
            return points
        columns = [self._as_given(j, points[:, j]) for j in range(self.n_columns)]
        if self.names is None:
            return np.array(columns, dtype=object).T
        import pandas as pd

        return pd.DataFrame(dict(zip(self.names, columns, strict=True)))

    def _as_given(self, j: int, numbers: Floats) -> Any:
        """A column as it is stored in the table, from its numbers or those of its levels (m,)."""
        levels, dtype = self.levels_of(j), self.dtypes.get(str(j), "object")
        if levels is not None:
            labels = np.array([*levels, UNSEEN], dtype=object)
            if j in self.may_lack:
                labels[labels == MISSING] = np.nan
            values = labels[numbers.astype(np.int64)]
            if dtype == "category":
                import pandas as pd

                return pd.Categorical(values, [label for label in labels if label == label and label != UNSEEN])
            if dtype == "object":
                return values
            known = {"True": 1.0, "False": 0.0, UNSEEN: np.nan}
            numbers = np.array([float(known.get(value, value)) for value in values])
        return numbers if dtype == "object" or np.isnan(numbers).any() else numbers.astype(dtype)


@dataclass(frozen=True, eq=False)
class Roles:
    """What the columns of X are for.

    Attributes
    ----------
    encoding : Encoding
    coordinates : tuple of int
        Columns that the process lives in.
    drift_columns : tuple of int
        Columns that are named as drift.
    design : Design, TransformedDesign or None
        Columns of the drift; None where the mean is a constant, or 0.
    groups : Design or None
        An indicator per level of each column of groups, and one for levels that `fit` has not seen.
    """

    encoding: Encoding
    coordinates: tuple[int, ...]
    drift_columns: tuple[int, ...] = ()
    design: AnyDesign | None = None
    groups: Design | None = None

    def columns(self, points: Floats) -> Floats | None:
        """Columns (m, p) of drift and groups, in this order, of rows (m, n_columns); None where there are none."""
        made = [design(points) for design in (self.design, self.groups) if design is not None]
        return np.concatenate(made, axis=1) if made else None

    @property
    def n_columns(self) -> int:
        """Number of columns of drift and groups."""
        return self.n_drift + (0 if self.groups is None else len(self.groups.names))

    @property
    def n_drift(self) -> int:
        """Number of columns of the drift alone."""
        return 0 if self.design is None else len(self.design.names)

    @property
    def blocks(self) -> dict[str, slice]:
        """Which of all columns belong to which group, by its name."""
        result: dict[str, slice] = {}
        start = self.n_drift
        for j in self.encoding.groups:
            stop = start + len(self.encoding.levels[str(j)]) + 1
            result[self.encoding.name(j)], start = slice(start, stop), stop
        return result

    def places(self, points: Any) -> Any:
        """Coordinates (m, c) of rows (m, n_columns)."""
        return points[:, list(self.coordinates)]

    def named(self, names: tuple[str, ...], levels: Mapping[int, Sequence[str]]) -> Roles:
        """The same where columns of numbers are called so, and effects of groups after levels by their numbers."""
        design = self.design.named(names) if isinstance(self.design, Design) else self.design
        called: list[str] = []
        for j in self.encoding.groups:
            labels, given = self.encoding.levels[str(j)], levels.get(j)
            called += [f"{names[j]}={label if given is None else given[int(label)]}" for label in labels]
            called.append(f"{names[j]}={UNSEEN}")
        groups = None if self.groups is None else replace(self.groups, names=tuple(called))
        return replace(self, encoding=replace(self.encoding, names=names), design=design, groups=groups)

    def rescaled(self, units: Floats) -> Roles:
        """Roles of data whose columns are multiplied by `units` (n_columns,), with the same drift columns."""
        if not isinstance(self.design, Design):
            return self
        return replace(self, design=self.design.rescaled(units))

    @property
    def names(self) -> tuple[str, ...] | None:
        """Names of the coordinates, where columns have any."""
        names = self.encoding.names
        return None if names is None else tuple(names[j] for j in self.coordinates)


def has_roles(model: Any) -> bool:
    """Whether columns of X are to have different roles."""
    given = (model.coordinates, model.mean, model.groups)
    return any(value is not None for value in given) or not is_plain_drift(model.drift)


def is_plain_mean(model: Any) -> bool:
    """Whether all columns are coordinates, and the mean of the targets is all that is taken out of them."""
    return not has_roles(model) and model.drift is not None


def is_plain_drift(drift: Any) -> bool:
    """Whether a drift takes no columns: None, or a constant that is taken out of the targets."""
    return drift is None or (isinstance(drift, str) and drift == "constant")


def column_of(X: Any, j: int) -> Any:
    """Values (m,) of a column of a table or an array."""
    return np.asarray(without_na(X[X.columns[j]] if hasattr(X, "columns") else X[:, j]))


def labels_of(values: Any, name: str, may_lack: bool = False) -> list[str]:
    """Categories as text; a whole number is the same however it is stored."""
    labels = []
    for row, value in enumerate(values.tolist()):
        if value is None or value != value:
            if may_lack:
                labels.append(MISSING)
                continue
            raise ValueError(
                f"Column {name!r} of X contains NaN: a missing value in row {row} (counted from 0). Drop such rows, or "
                "fill them."
            )
        whole = isinstance(value, float) and value.is_integer()
        labels.append(str(int(value)) if whole else str(value))
    return labels


def roles_of(model: Any, X: Any, names: Sequence[str] | None) -> Roles:
    """Roles of the columns of a table or an array, as the parameters of a model say; the drift is not yet made."""
    n_columns = int(X.shape[1])
    names = None if names is None else tuple(map(str, names))
    everything = tuple(range(n_columns))
    coordinates, drift = everything, model.drift
    if model.coordinates is not None:
        coordinates, _ = _chosen(model, "coordinates", model.coordinates, X, names)
        if not coordinates:
            raise ValueError(f"{describe(model, 'coordinates')} must name at least one column.")
    used, named, categories = coordinates, tuple[int, ...](), set[int]()
    is_regressor = hasattr(model.mean, "predict") and not isinstance(model.mean, type)
    if not (model.mean is None or is_regressor or (isinstance(model.mean, str) and model.mean == BOOSTING)):
        raise ValueError(
            f"{describe(model, 'mean')} must be None, {BOOSTING!r} or a regressor of scikit-learn. Got {model.mean!r}."
        )
    if is_transformer(drift):
        used = everything
    elif not is_plain_drift(drift) and not _is_kind(drift):
        named, categories = _chosen(model, "drift", drift, X, names)
        used = tuple(sorted({*coordinates, *named}))
    groups: tuple[int, ...] = ()
    if model.groups is not None:
        groups, _ = _chosen(model, "groups", model.groups, X, names)
        both = [j for j in groups if j in (*named, *coordinates)]
        if both:
            raise ValueError(
                f"{describe(model, 'groups')} names column {_called(names, both[0])!r}, which has another role already."
            )
        used, categories = tuple(sorted({*used, *groups})), categories | set(groups)
    if model.mean is not None:
        used = everything
    others = () if model.mean is None or is_transformer(drift) else set(everything) - {*coordinates, *named, *groups}
    encoding = Encoding(n_columns, names, used, {}, groups, _dtypes_of(X), tuple(sorted(others)))
    levels = {str(j): _levels(encoding, X, j) for j in used if j in categories or _holds_categories(X, j)}
    for j in coordinates:
        if str(j) in levels:
            raise ValueError(
                f"Column {encoding.name(j)!r} holds categories, and the process lives in columns of numbers: name "
                "those as coordinates, and such columns in drift."
            )
    return Roles(replace(encoding, levels=levels), coordinates, named)


def with_design(model: Any, roles: Roles, points: Floats) -> Roles:
    """The same with drift columns made of training rows (n, n_columns)."""
    drift, encoding = model.drift, roles.encoding
    if encoding.groups:
        roles = replace(roles, groups=_group_design(encoding, points))
    if is_plain_drift(drift):
        if drift is None or not encoding.groups:
            return roles
        drift = []  # the constant is found along with the effects of groups
    design: AnyDesign
    if is_transformer(drift):
        given = encoding.decode(points)
        try:
            transformer = clone(drift).fit(given)
        except Exception as error:
            raise failed("fit", "drift", drift, error, given) from error
        design = TransformedDesign.of(transformer, encoding.decode, points)
    elif _is_kind(drift):
        names = [encoding.name(j) for j in roles.coordinates]
        design = Design.of(*polynomial(roles.coordinates, names, DEGREES[drift]), points)
    else:
        terms, names = [Term()], [INTERCEPT]
        for j in roles.drift_columns:
            levels = encoding.levels_of(j)
            if levels is None:
                terms.append(Term((j,)))
                names.append(encoding.name(j))
            else:  # the first level is what the others are compared to
                terms.extend(Term((j,), i) for i in range(1, len(levels)))
                names.extend(f"{encoding.name(j)}={level}" for level in levels[1:])
        design = Design.of(terms, names, points)
    return replace(roles, design=_independent(design, points))


def _group_design(encoding: Encoding, points: Floats) -> Design:
    """An indicator per level of each column of groups, those not seen included."""
    terms: list[Term] = []
    names: list[str] = []
    for j in encoding.groups:
        levels = [*encoding.levels[str(j)], UNSEEN]
        terms.extend(Term((j,), i) for i in range(len(levels)))
        names.extend(f"{encoding.name(j)}={level}" for level in levels)
    return Design.of(terms, names, points)


def _called(names: Sequence[str] | None, j: int) -> str:
    return f"x{j}" if names is None else names[j]


def _independent(design: AnyDesign, points: Floats) -> AnyDesign:
    """The design without columns that follow from others: refused where they were named, left out where made."""
    names, n = design.names, len(points)
    if len(names) >= n:
        raise ValueError(
            f"The drift has {len(names)} columns ({_listed(names)}), and there are {n} samples: it takes more samples "
            "than columns to tell their coefficients."
        )
    dependent = dependent_columns(design(points))
    made = []
    for number, others in dependent:
        told = [names[i] for i in others]
        if told in ([], [INTERCEPT]):
            message = f"Drift column {names[number]!r} is constant in the data, and the intercept stands for that"
        else:
            message = f"Drift column {names[number]!r} is a linear combination of {_listed(told)} in the data"
        if isinstance(design, Design) and design.terms[number].level < 0:
            raise ValueError(f"{message}: leave it out of drift.")
        made.append(message)
    for message in made:
        warn(f"{message}: it is left out.")
    return design.without([found.number for found in dependent])


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names[:_FEW])) + (", ..." if len(names) > _FEW else "")


# ---- which columns ---------------------------------------------------------------------------------------------------


def _is_kind(drift: Any) -> bool:
    return isinstance(drift, str) and drift in DEGREES


def is_transformer(drift: Any) -> bool:
    """Whether a drift is a transformer of scikit-learn."""
    return not isinstance(drift, type) and hasattr(drift, "fit") and hasattr(drift, "transform")


def _chosen(
    model: Any, parameter: str, given: Any, X: Any, names: Sequence[str] | None
) -> tuple[tuple[int, ...], set[int]]:
    """Numbers of the columns that a parameter names, and which of them are to be categories: `C(name)`."""
    n_columns = int(X.shape[1])
    if callable(given) and not isinstance(given, type):
        given = given(X)
    items = [given] if isinstance(given, str | Integral) else given
    try:
        items = list(items)
    except TypeError:
        items = [given]
    numbers, categories = [], set[int]()
    for item in items:
        number, is_category = _column(model, parameter, item, names, n_columns)
        if number in numbers:
            raise ValueError(f"{describe(model, parameter)} names column {item!r} twice.")
        numbers.append(number)
        if is_category:
            categories.add(number)
    return tuple(numbers), categories


def _named(model: Any) -> set[str]:
    """Names of columns that have a role already, as the parameters of a model say them."""
    given = [role for role in (model.coordinates, model.drift, model.groups) if isinstance(role, list | tuple)]
    names = {item for role in given for item in role if isinstance(item, str)}
    return names | {role for role in (model.coordinates, model.drift, model.groups) if isinstance(role, str)}


def _column(model: Any, parameter: str, item: Any, names: Sequence[str] | None, n_columns: int) -> tuple[int, bool]:
    """Number of a column given by name or number, and whether it is to be a category."""
    opening = describe(model, parameter)
    if isinstance(item, Integral) and not isinstance(item, bool | np.bool_):
        if not -n_columns <= int(item) < n_columns:
            raise ValueError(f"{opening} names column {int(item)}, and X has {n_columns} columns, counted from 0.")
        return int(item) % n_columns, False
    if not isinstance(item, str):
        kinds = ", ".join(map(repr, ("constant", *DEGREES))) if parameter == "drift" else "None"
        raise ValueError(
            f"{opening} must be {kinds}, or names or numbers of columns"
            f"{', or a transformer' if parameter == 'drift' else ', or a function that gives them'}. Got {item!r}."
        )
    if names is None:
        raise ValueError(f"{opening} names column {item!r}, and X is an array without names: give the column's number.")
    if item in names:
        return list(names).index(item), False
    inner = item[2:-1] if item.startswith("C(") and item.endswith(")") else None
    if inner is not None and inner in names:
        return list(names).index(inner), True
    near = difflib.get_close_matches(item, [name for name in names if name not in _named(model)], 1)
    hint = f" Do you mean {near[0]!r}?" if near else f" It has {_listed(list(names))}."
    raise ValueError(f"{opening} names column {item!r}, which X does not have.{hint}")


# ---- what columns hold -----------------------------------------------------------------------------------------------


def _n_rows(X: Any) -> int:
    return int(X.shape[0])


def _holds_categories(X: Any, j: int) -> bool:
    """Whether a column holds words, or is declared to hold categories."""
    if hasattr(X, "columns") and str(getattr(X[X.columns[j]], "dtype", "")).lower().startswith(_CATEGORIES):
        return True
    values = column_of(X, j)
    if values.dtype.kind not in "OUST":
        return False
    words = [value for value in values.tolist() if not _is_number(value)]
    odd = next((value for value in words if not isinstance(value, str | bytes)), None)
    if odd is not None:
        raise TypeError(f"Column {j} of X (counted from 0): argument must be a string or a number. Got {odd!r}.")
    return bool(words)


def _dtypes_of(X: Any) -> dict[str, str]:
    """What columns of a table are stored as, where `DTYPES` has that; types that know of missing values are alike."""
    if not hasattr(X, "columns"):
        return {}
    dtypes = [str(getattr(X[name], "dtype", "")).lower() for name in X.columns]
    plain = ["category" if dtype.startswith(_CATEGORIES) else {"boolean": "bool"}.get(dtype, dtype) for dtype in dtypes]
    return {str(j): dtype for j, dtype in enumerate(plain) if dtype in DTYPES}


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return value is None
    return True


def _levels(encoding: Encoding, X: Any, j: int) -> tuple[str, ...]:
    labels = set(labels_of(column_of(X, j), encoding.name(j), j in encoding.may_lack))
    levels = tuple(sorted(labels, key=float) if all(map(_is_number, labels)) else sorted(labels))
    if j in encoding.may_lack:
        return levels
    if len(levels) < 2:
        raise ValueError(f"Drift column {encoding.name(j)!r} has one category only, {levels[0]!r}: leave it out.")
    if len(levels) > MOST_LEVELS:
        raise ValueError(
            f"Column {encoding.name(j)!r} has {len(levels)} categories, and a drift takes up to {MOST_LEVELS}: is it "
            "an identifier? Leave it out."
        )
    return levels
