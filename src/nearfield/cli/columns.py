"""From columns of a table to the numbers a model takes."""

from __future__ import annotations

import csv
import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..common import memory
from ..common.types import Booleans, Floats
from ..persistence import files as io
from ..persistence.checks import conform
from ..reporting.numbers import counted
from ..streaming.tables import Table, TableRows
from ..streaming.tables.table import BATCH
from .messages import CommandError, note

_COPIES = 3  # of all numbers, while they are put together


@dataclass(frozen=True)
class Column:
    """A column used as it is, or as one column of zeros and ones for each of its `categories`.

    Of a group it is the number of the category, and one more for others.
    """

    name: str
    categories: tuple[str, ...] | None = None
    is_group: bool = False

    @property
    def indicated(self) -> tuple[str, ...] | None:
        """Categories that have a feature each."""
        return None if self.is_group else self.categories


@dataclass(frozen=True)
class Recipe:
    """How the columns of a table become the features of a model, when it is made and whenever it predicts.

    The first `n_process` features are those of the process, where there are others besides. `drift` is "linear" or
    "quadratic", or the numbers of the features that are a drift.
    """

    columns: tuple[Column, ...]
    n_process: int | None = None
    drift: str | tuple[int, ...] | None = None

    def roles_in(self, X: Floats) -> dict[str, Any]:
        """Parameters of an estimator of rows (n, p)."""
        if self.drift is None and not self.levels:
            return {}
        roles: dict[str, Any] = {"coordinates": list(range(len(self.process)))}
        if self.drift is not None:
            roles["drift"] = self.drift if isinstance(self.drift, str) else self._drift_in(X, self.drift)
        return roles | ({"groups": list(self.levels)} if self.levels else {})

    def _drift_in(self, X: Floats, drift: tuple[int, ...]) -> list[int]:
        """Numbers of the drift's features; categories are compared to the first of them that rows (n, p) have."""
        chosen: list[int] = []
        for column, features in self.blocks():
            named = [j for j in features if j in drift]
            if column.indicated is not None and named:
                named = [j for j in features if X[:, j].any()][1:]
            chosen += named
        return sorted(chosen, key=lambda j: drift.index(j))

    def unknown_in(self, train: Floats, test: Floats) -> dict[str, Booleans]:
        """Which rows (m, p) of `test` have a category of the drift that no row (n, p) of `train` has, by column."""
        drift = () if self.drift is None or isinstance(self.drift, str) else self.drift
        return {
            column.name: (test[:, features] @ ~train[:, features].any(axis=0)) > 0
            for column, features in self.blocks()
            if column.indicated is not None and any(j in drift for j in features)
        }

    def blocks(self) -> Iterator[tuple[Column, list[int]]]:
        """Each column with the numbers of its features."""
        start = 0
        for column in self.columns:
            stop = start + len(column.indicated or ("",))
            yield column, list(range(start, stop))
            start = stop

    @property
    def levels(self) -> dict[int, tuple[str, ...]]:
        """Categories of the features that are groups, by the number of the feature."""
        groups = {c.name: c.categories or () for c in self.columns if c.is_group}
        return {i: groups[name] for i, name in enumerate(self.names) if name in groups}

    @property
    def process(self) -> list[str]:
        """Names of the features of the process."""
        return self.names[: self.n_process]

    @property
    def names(self) -> list[str]:
        """Names of the features."""
        names: list[str] = []
        for column in self.columns:
            names += [column.name] if column.indicated is None else [f"{column.name}={c}" for c in column.indicated]
        return names

    @property
    def is_number(self) -> Booleans:
        """Which features are numbers of the table, and not zeros and ones made of text."""
        return np.array([c.categories is None for c in self.columns for _ in c.indicated or ("",)])

    def matrix(self, batch: TableRows) -> tuple[Floats, dict[str, Booleans]]:
        """Features (n, p), NaN where they are missing, and which rows (n,) have a category unknown to the model."""
        blocks: list[Floats] = []
        unknown: dict[str, Booleans] = {}
        for column in self.columns:
            if column.categories is None:
                blocks.append(batch.numbers(column.name)[:, None])
                continue
            texts = batch.texts(column.name)
            if column.is_group:
                blocks.append(codes(column.categories, texts))
                continue
            blocks.append(indicators(column.categories, texts))
            familiar = {None, *column.categories}
            unknown[column.name] = np.array([text not in familiar for text in texts])
        return np.concatenate(blocks, axis=1), unknown

    def to_json(self) -> list[dict[str, Any]]:
        """The recipe for the metadata of a model file."""
        return [
            {"name": c.name, "kind": "number"}
            if c.categories is None
            else {"name": c.name, "kind": "group" if c.is_group else "one-hot", "categories": list(c.categories)}
            for c in self.columns
        ]

    @classmethod
    def from_json(cls, value: Any) -> Recipe:
        """The recipe from such metadata; raises ValueError or LookupError where it is none."""
        conform(value, list)
        for c in value:
            conform(c, dict)
            conform(c["name"], str)
            conform(c["kind"], str)
        with_words = [c for c in value if c["kind"] in ("one-hot", "group")]
        for c in with_words:
            conform(c["categories"], list[str])
        return cls(
            tuple(
                Column(c["name"], tuple(c["categories"]) if c in with_words else None, c["kind"] == "group")
                for c in value
            )
        )


class Unused:
    """Counts of rows, and of those that could not be used: with missing values, or categories unknown to the model."""

    def __init__(self) -> None:
        self.n_rows = self.n_missing = 0
        self.unknown: dict[str, int] = {}

    def add(self, unused: Any, unknown: dict[str, Booleans]) -> None:
        """Count rows (n,), of which some are not used; `unknown` are those with an unknown category, by column."""
        self.n_rows += len(unused)
        strange = np.any([*unknown.values(), np.zeros(len(unused), dtype=bool)], axis=0)
        self.n_missing += int((unused & ~strange).sum())
        for name, rows in unknown.items():
            if rows.any():
                self.unknown[name] = self.unknown.get(name, 0) + int(rows.sum())

    def say(self, what: str) -> None:
        """Note what became of them."""
        if self.n_missing:
            note(f"{what} {counted(self.n_missing, 'row')} of {self.n_rows} with missing values")
        for column, count in self.unknown.items():
            note(f"{what} {counted(count, 'row')} of {self.n_rows} with a value of {column!r} unknown to the model")


def split_names(text: str | None) -> list[str]:
    """Names separated by commas; quotes protect a comma."""
    if text is None:
        return []
    return [name.strip() for name in next(csv.reader([text], skipinitialspace=True), []) if name.strip()]


def require_columns(table: Table, names: Sequence[str], where: str = "") -> None:
    """Refuse a table without these columns."""
    for name in names:
        if name in table.columns:
            continue
        message = f"{table.name} has no column {name!r}{where}."
        near = difflib.get_close_matches(name, [column for column in table.columns if column not in names], 1)
        if len(table.columns) == 1 and name in table.columns[0].split():
            message += " Its first line has blanks between names: put commas, semicolons or tabs there."
        elif near:
            message += f" Did you mean {near[0]!r}?"
        elif "".join(table.columns[:1]).startswith("#"):
            message += " Its first line begins with #, and should be the row of column names."
        elif all(_is_number(column) for column in table.columns):
            message += " Its first row holds numbers, so it seems to have no header."
        else:
            shown = ", ".join(column or "(no name)" for column in table.columns[:12])
            message += f" It has {shown}{', ...' if len(table.columns) > 12 else ''}."
        raise CommandError(message)


def require_room(table: Table, n_rows: int, n_columns: int) -> None:
    """Refuse a table whose rows so far, of so many columns, fill the memory: a small file may hold very many."""
    memory.require(
        _COPIES * 8.0 * n_rows * n_columns,
        f"{table.name}, of which {n_rows} rows were read,",
        "Take fewer rows, or fit from Python with a source (see nearfield.sources).",
    )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def load_model(path: str) -> tuple[Any, dict[str, Any]]:
    """A model and its metadata; columns, where a file names them, must be those of the model."""
    gp, metadata = io.load_with_metadata(path)
    if "columns" in metadata:
        try:
            n = len(Recipe.from_json(metadata["columns"]).names)
        except (LookupError, ValueError):
            raise CommandError(f"{path} names its columns in a way that cannot be read here.") from None
        if n != gp.n_features_in_:
            raise CommandError(f"{path} names other columns than its model takes.")
    return gp, metadata


def recipe_of(gp: Any, metadata: dict[str, Any], table: Table, kept: list[str]) -> Recipe:
    """How a model uses the columns of a table.

    As its file says; for a model saved in Python, by the names it knows, or by their number, not counting those `kept`
    for other ends.
    """
    if "columns" in metadata:
        recipe = Recipe.from_json(metadata["columns"])
    elif hasattr(gp, "feature_names_in_"):
        recipe = Recipe(tuple(Column(name) for name in gp.feature_names_in_))
    else:
        free = [name for name in table.columns if name not in kept or len(kept) == len(table.columns)]
        if len(free) != gp.n_features_in_:
            raise CommandError(
                f"The model takes {gp.n_features_in_} columns, whose names it does not know, and {table.name} has "
                f"{len(free)}."
            )
        recipe = Recipe(tuple(Column(name) for name in free))
    require_columns(table, [column.name for column in recipe.columns], ", which the model predicts from")
    return recipe


def complete_rows(
    table: Table, recipe: Recipe, target: str | None, unused: Unused, size: int = BATCH
) -> Iterator[tuple[Floats, Floats]]:
    """Features (n, p) and target (n,) of rows that lack none of them, batch by batch; the others are counted.

    Without a target its values are 0. Rows are refused where all of them would fill the memory.
    """
    for batch in table.batches(size):
        X, unknown = recipe.matrix(batch)
        y = np.zeros(len(X)) if target is None else batch.numbers(target)
        used = ~np.isnan(y) & ~np.isnan(X).any(axis=1)
        unused.add(~used, unknown)
        require_room(table, unused.n_rows, X.shape[1] + 1)
        yield X[used], y[used]


def indicators(categories: tuple[str, ...], texts: Sequence[str | None]) -> Floats:
    """A column of zeros and ones for each category; NaN in all of them where the text is missing or no category."""
    rows = np.concatenate([np.eye(len(categories)), np.full((1, len(categories)), np.nan)])
    places = {category: i for i, category in enumerate(categories)}
    result: Floats = rows[[places.get(text, -1) if text is not None else -1 for text in texts]]
    return result


def codes(categories: tuple[str, ...], texts: Sequence[str | None]) -> Floats:
    """Numbers (n, 1) of categories, one more than all where a text is none of them; NaN where it is missing."""
    places: dict[str | None, float] = {category: float(i) for i, category in enumerate(categories)}
    places[None] = np.nan
    return np.array([[places.get(text, float(len(categories)))] for text in texts])
