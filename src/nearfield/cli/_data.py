"""From columns of a table to the numbers a model takes."""

from __future__ import annotations

import csv
import difflib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..common import memory
from ..common.types import Booleans, Floats
from ..persistence import files as io
from ..persistence.checks import conform
from ..streaming.tables import BadValueError, Table, TableRows, open_table
from ._output import counted, note
from ._run import CommandError

MAX_CATEGORIES = 100
_COMMAS = "numbers with commas; write a decimal point and no other separators"
_COPIES = 3  # of all numbers, while they are put together


@dataclass(frozen=True)
class Column:
    """A column used as it is, or as one column of zeros and ones for each of its `categories`."""

    name: str
    categories: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Recipe:
    """How the columns of a table become the features of a model, when it is made and whenever it predicts."""

    columns: tuple[Column, ...]

    @property
    def names(self) -> list[str]:
        """Names of the features."""
        return [
            name
            for column in self.columns
            for name in (
                [column.name] if column.categories is None else [f"{column.name}={c}" for c in column.categories]
            )
        ]

    @property
    def is_number(self) -> Booleans:
        """Which features are numbers of the table, and not zeros and ones made of text."""
        return np.array([c.categories is None for c in self.columns for _ in c.categories or ("",)])

    def matrix(self, batch: TableRows) -> tuple[Floats, dict[str, Booleans]]:
        """Features (n, p), NaN where they are missing, and which rows (n,) have a category unknown to the model."""
        parts: list[Floats] = []
        unknown: dict[str, Booleans] = {}
        for column in self.columns:
            if column.categories is None:
                parts.append(batch.numbers(column.name)[:, None])
                continue
            texts = batch.texts(column.name)
            parts.append(_indicators(column.categories, texts))
            known = {None, *column.categories}
            unknown[column.name] = np.array([text not in known for text in texts])
        return np.concatenate(parts, axis=1), unknown

    def to_json(self) -> list[dict[str, Any]]:
        """The recipe for the metadata of a model file."""
        return [
            {"name": c.name, "kind": "number"}
            if c.categories is None
            else {"name": c.name, "kind": "one-hot", "categories": list(c.categories)}
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
        with_words = [c for c in value if c["kind"] == "one-hot"]
        for c in with_words:
            conform(c["categories"], list[str])
        return cls(tuple(Column(c["name"], tuple(c["categories"]) if c in with_words else None) for c in value))


class Unused:
    """Counts of rows that could not be used: with missing values, and with categories unknown to the model."""

    def __init__(self) -> None:
        self.n_missing = 0
        self.unknown: dict[str, int] = {}

    def add(self, unused: Any, unknown: dict[str, Booleans]) -> None:
        """Count rows (n,), and those of them with an unknown category by column."""
        strange = np.any([*unknown.values(), np.zeros(len(unused), dtype=bool)], axis=0)
        self.n_missing += int((unused & ~strange).sum())
        for name, rows in unknown.items():
            if rows.any():
                self.unknown[name] = self.unknown.get(name, 0) + int(rows.sum())

    def say(self, what: str, n: int) -> None:
        """Note what became of them, of `n` rows."""
        if self.n_missing:
            note(f"{what} {counted(self.n_missing, 'row')} of {n} with missing values")
        for column, count in self.unknown.items():
            note(f"{what} {counted(count, 'row')} of {n} with a value of {column!r} unknown to the model")


@dataclass(frozen=True)
class Training:
    """A table read for a model.

    Attributes
    ----------
    name : str
        Of the file.
    X, y : ndarray
        Rows without missing values.
    recipe : Recipe
    target : str
    n_rows : int
        Of the file.
    missing : dict
        Column -> rows in which it is missing.
    left_out : dict
        Column -> why it is no feature, where features were not named.
    """

    name: str
    X: Floats
    y: Floats
    recipe: Recipe
    target: str
    n_rows: int
    missing: dict[str, int] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)

    @property
    def n_dropped(self) -> int:
        """Rows with missing values."""
        return self.n_rows - len(self.y)


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
        near = difflib.get_close_matches(name, table.columns, 1)
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


def read_training(
    path: str,
    target: str,
    features: str | None = None,
    identifier: str | None = None,
    one_hot: str | None = None,
    encoding: str | None = None,
) -> Training:
    """Read target and features; rows where one is missing are dropped, and counted."""
    with open_table(path, encoding) as table:
        named, texts = split_names(features), split_names(one_hot)
        require_columns(table, [target, *named, *texts, *([identifier] if identifier else [])])
        for name in (*named, *texts):
            if name == target:
                raise CommandError(f"The target {target!r} cannot be a feature as well.")
        taken = {target, identifier, *texts, ""}
        candidates = [c for c in (named or table.columns) if c not in (texts if named else taken)]
        columns = {name: _Numbers(name, must=bool(named)) for name in candidates}
        columns[target] = _Numbers(target, must=True, is_target=True)
        words: dict[str, list[str | None]] = {name: [] for name in texts}
        n_rows = 0
        for batch in table.batches():
            n_rows += batch.n_rows
            require_room(table, n_rows, len(columns) + len(words))
            for column in columns.values():
                column.add(batch)
            for name, found in words.items():
                found.extend(batch.texts(name))
    if n_rows == 0:
        raise CommandError(f"{table.name} has a header and no rows.")
    return _assemble(table, target, named or table.columns, columns, words, texts, n_rows)


class _Numbers:
    """A column collected batch by batch; one that was not asked for may turn out to be text."""

    def __init__(self, name: str, must: bool, is_target: bool = False) -> None:
        self.name, self.must, self.is_target = name, must, is_target
        self._parts: list[Floats] = []
        self._bad: BadValueError | None = None
        self._n_numbers = self._n_words = 0

    def add(self, batch: TableRows) -> None:
        if self._bad is None:
            try:
                self._parts.append(batch.numbers(self.name))
                return
            except BadValueError as error:
                if self.must:
                    raise self._advised(error, batch) from None
                self._bad = error
                self._n_numbers = int(sum(np.count_nonzero(~np.isnan(part)) for part in self._parts))
        numbers, words = batch.count_numbers(self.name)
        self._n_numbers += numbers
        self._n_words += words

    def _advised(self, error: BadValueError, batch: TableRows) -> Exception:
        numbers, words = batch.count_numbers(self.name)
        if numbers >= words or self.is_target or error.is_date or error.has_comma:
            return error
        return CommandError(f"{error} Leave the column out, or turn its text into columns with --one-hot {self.name}.")

    def what_else(self) -> str | None:
        """What the column holds where most cells are no numbers; a few of those among numbers are mistakes."""
        if self._bad is None:
            return None
        if self._n_numbers >= self._n_words:
            raise self._bad
        return "dates" if self._bad.is_date else _COMMAS if self._bad.has_comma else "text"

    def values(self) -> Floats:
        return np.concatenate(self._parts)


def _assemble(
    table: Table,
    target: str,
    order: list[str],
    columns: dict[str, _Numbers],
    words: dict[str, list[str | None]],
    texts: list[str],
    n_rows: int,
) -> Training:
    left_out = {name: kind for name, column in columns.items() if (kind := column.what_else())}
    values = {name: column.values() for name, column in columns.items() if name not in left_out}
    for name in [name for name, v in values.items() if np.isnan(v).all()]:
        if columns[name].must:
            raise CommandError(f"{table.name}: column {name!r} has no values.")
        del values[name]
        left_out[name] = "empty"
    if "" in order:
        left_out[""] = "no name"
    if table.n_nameless:
        left_out[f"{table.n_nameless} columns"] = "no name"
    used = [*dict.fromkeys(n for n in order if n in values and n != target and n not in texts), *texts]
    if not used:
        commas = [repr(name) for name, why in left_out.items() if why == _COMMAS]
        hint = f" The numbers of {', '.join(commas)} have commas: write a decimal point and no other separators."
        raise CommandError(
            f"{table.name} has no column of numbers besides {target!r} to predict from.{hint if commas else ''}"
        )
    recipe = Recipe(
        tuple(Column(name, _categories(table, name, words[name]) if name in words else None) for name in used)
    )
    X, missing = _stack(recipe, values, words)
    missing[target] = int(np.isnan(values[target]).sum())
    kept = ~np.isnan(values[target]) & ~np.isnan(X).any(axis=1)
    if kept.sum() < 2:
        raise CommandError(
            f"{table.name} has {int(kept.sum())} of {n_rows} rows without missing values, and a model needs at least 2."
        )
    X, y = X[kept], values[target][kept]
    missing = {name: n for name, n in missing.items() if n}
    return Training(table.name, X, y, recipe, target, n_rows, missing, left_out)


def _categories(table: Table, name: str, texts: list[str | None]) -> tuple[str, ...]:
    found = sorted({text for text in texts if text is not None})
    if not 2 <= len(found) <= MAX_CATEGORIES:
        raise CommandError(
            f"{table.name}: column {name!r} has {len(found)} different values, and --one-hot takes 2 to "
            f"{MAX_CATEGORIES}."
        )
    return tuple(found)


def _stack(
    recipe: Recipe, values: dict[str, Floats], words: dict[str, list[str | None]]
) -> tuple[Floats, dict[str, int]]:
    parts = [
        values[column.name][:, None]
        if column.categories is None
        else _indicators(column.categories, words[column.name])
        for column in recipe.columns
    ]
    missing = {c.name: int(np.isnan(p).any(axis=1).sum()) for c, p in zip(recipe.columns, parts, strict=True)}
    return np.concatenate(parts, axis=1), missing


def _indicators(categories: tuple[str, ...], texts: Sequence[str | None]) -> Floats:
    """A column of zeros and ones for each category; NaN in all of them where the text is missing or no category."""
    rows = np.concatenate([np.eye(len(categories)), np.full((1, len(categories)), np.nan)])
    places = {category: i for i, category in enumerate(categories)}
    result: Floats = rows[[places.get(text, -1) if text is not None else -1 for text in texts]]
    return result
