"""A table read for a model: its target and features in memory, and what was left out."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from ..common.sphere import degree_columns
from ..common.types import Floats
from ..estimators.columns import MOST_LEVELS
from ..reporting.numbers import counted
from ..streaming.tables import BadValueError, Table, TableRows, open_table
from .columns import Column, Recipe, codes, indicators, require_columns, require_room, split_names
from .messages import CommandError, note

MAX_CATEGORIES = 100
_COMMAS = "numbers with commas; write a decimal point and no other separators"


@dataclass(frozen=True)
class Training:
    """A table read for a model: its rows without missing values."""

    name: str  # of the file
    X: Floats
    y: Floats
    recipe: Recipe
    target: str
    n_rows: int  # of the file
    missing: dict[str, int] = field(default_factory=dict)  # column -> rows in which it is missing
    left_out: dict[str, str] = field(default_factory=dict)  # column -> why it is no feature, where none were named

    @property
    def n_dropped(self) -> int:
        """Rows with missing values."""
        return self.n_rows - len(self.y)


def read_training(
    path: str,
    target: str,
    features: str | None = None,
    identifier: str | None = None,
    one_hot: str | None = None,
    encoding: str | None = None,
    drift: str | None = None,
    groups: str | None = None,
) -> Training:
    """Read target, features, drift columns and groups; rows where one is missing are dropped, and counted."""
    with open_table(path, encoding) as table:
        named, texts = split_names(features), split_names(one_hot)
        asked, grouped = DriftNames.of(drift, table.columns), split_names(groups)
        if groups is not None and not grouped:
            raise CommandError("--groups must name columns.")
        all_named = [*named, *texts, *asked.columns, *grouped]
        require_columns(table, [target, *all_named, *([identifier] if identifier else [])])
        if target in all_named:
            raise CommandError(f"The target {target!r} cannot be a feature as well.")
        for name in grouped:
            if name in (*named, *texts, *asked.columns):
                raise CommandError(f"--groups names {name!r}, which has another role already.")
        taken = {target, identifier, *texts, *asked.columns, *grouped, ""}
        candidates = [c for c in (named or table.columns) if c not in (texts if named else taken)]
        columns = {name: _Numbers(name, must=bool(named)) for name in candidates}
        further = [name for name in asked.numbers if name not in columns]
        columns |= {name: _Numbers(name, must=True, is_drift=True) for name in further}
        columns[target] = _Numbers(target, must=True, is_target=True)
        words: dict[str, list[str | None]] = {name: [] for name in (*texts, *asked.categories, *grouped)}
        n_rows = 0
        for batch in table.batches():
            n_rows += batch.n_rows
            require_room(table, n_rows, len(columns) + len(words))
            for column in columns.values():
                column.add(batch)
            for name, collected in words.items():
                collected.extend(batch.texts(name))
    if n_rows == 0:
        raise CommandError(f"{table.name} has a header and no rows.")
    order = [name for name in named or table.columns if name in candidates or name not in asked.columns]
    return _assemble(table, target, order, columns, words, texts, n_rows, asked, grouped)


@dataclass(frozen=True)
class DriftNames:
    """What `--drift` asks for: a word, or columns of numbers and of categories, in their order."""

    word: str | None = None
    columns: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()

    @classmethod
    def of(cls, text: str | None, known: list[str]) -> DriftNames:
        """From `linear`, `quadratic`, or names with commas, those of categories as `C(name)`."""
        names = split_names(text)
        if text is not None and not names:
            raise CommandError("--drift must name columns, or be linear or quadratic.")
        if len(names) == 1 and names[0] in ("linear", "quadratic") and names[0] not in known:
            return cls(names[0])
        columns, categories = [], []
        for name in names:
            inner = name[2:-1].strip() if name.startswith("C(") and name.endswith(")") and name not in known else name
            columns.append(inner)
            if inner != name:
                categories.append(inner)
        return cls(None, tuple(dict.fromkeys(columns)), tuple(dict.fromkeys(categories)))

    @property
    def numbers(self) -> list[str]:
        """Columns of numbers."""
        return [name for name in self.columns if name not in self.categories]

    @property
    def is_nothing(self) -> bool:
        """Whether no drift was asked for."""
        return self.word is None and not self.columns


class _Numbers:
    """A column collected batch by batch; one that was not asked for may turn out to be text."""

    def __init__(self, name: str, must: bool, is_target: bool = False, is_drift: bool = False) -> None:
        self.name, self.must, self.is_target, self.is_drift = name, must, is_target, is_drift
        self._values: list[Floats] = []
        self._bad: BadValueError | None = None
        self._n_numbers = self._n_words = 0

    def add(self, batch: TableRows) -> None:
        if self._bad is None:
            try:
                self._values.append(batch.numbers(self.name))
                return
            except BadValueError as error:
                if self.must:
                    raise self._advised(error, batch) from None
                self._bad = error
                self._n_numbers = int(sum(np.count_nonzero(~np.isnan(values)) for values in self._values))
        numbers, words = batch.count_numbers(self.name)
        self._n_numbers += numbers
        self._n_words += words

    def _advised(self, error: BadValueError, batch: TableRows) -> Exception:
        numbers, words = batch.count_numbers(self.name)
        if numbers >= words or self.is_target or error.is_date or error.has_comma:
            return error
        way = (
            f"write it as C({self.name})" if self.is_drift else f"turn its text into columns with --one-hot {self.name}"
        )
        return CommandError(f"{error} Leave the column out, or {way}.")

    def what_else(self) -> str | None:
        """What the column holds where most cells are no numbers; a few of those among numbers are mistakes."""
        if self._bad is None:
            return None
        if self._n_numbers >= self._n_words:
            raise self._bad
        return "dates" if self._bad.is_date else _COMMAS if self._bad.has_comma else "text"

    def values(self) -> Floats:
        return np.concatenate(self._values)


def _assemble(
    table: Table,
    target: str,
    order: list[str],
    columns: dict[str, _Numbers],
    words: dict[str, list[str | None]],
    texts: list[str],
    n_rows: int,
    drift: DriftNames,
    groups: list[str],
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
    degrees = degree_columns(used)
    if degrees is not None:  # longitude and latitude come first, in this order, as the sphere takes them
        first = [used[j] for j in degrees]
        used = first + [name for name in used if name not in first]
    if not used:
        commas = [repr(name) for name, why in left_out.items() if why == _COMMAS]
        hint = f" The numbers of {', '.join(commas)} have commas: write a decimal point and no other separators."
        raise CommandError(
            f"{table.name} has no column of numbers besides {target!r} to predict from.{hint if commas else ''}"
        )
    lacking = {name: np.isnan(values[name]) for name in (*used, *drift.numbers, target) if name in values}
    for name, cells in words.items():
        lacking[name] = lacking.get(name, False) | np.array([text is None for text in cells])
    kept = ~np.any(list(lacking.values()), axis=0)
    if kept.sum() < 2:
        raise CommandError(
            f"{table.name} has {int(kept.sum())} of {n_rows} rows without missing values, and a model needs at least 2."
        )
    # Categories are those of rows that the model will see.
    words = {name: [text for text, used in zip(cells, kept, strict=True) if used] for name, cells in words.items()}
    recipe = _recipe(table, used, words, texts, drift)
    if groups:
        levels = [Column(name, _categories(table, name, words[name], MOST_LEVELS), True) for name in groups]
        n_process = len(recipe.names) if recipe.n_process is None else recipe.n_process
        recipe = replace(recipe, columns=(*recipe.columns, *levels), n_process=n_process)
    X = _stack(recipe, {name: column[kept] for name, column in values.items()}, words)
    missing = {name: int(lacking[name].sum()) for name in (*(c.name for c in recipe.columns), target)}
    missing = {name: n for name, n in missing.items() if n}
    return Training(table.name, X, values[target][kept], recipe, target, n_rows, missing, left_out)


def _recipe(
    table: Table, used: list[str], words: dict[str, list[str | None]], texts: list[str], drift: DriftNames
) -> Recipe:
    """Features of the process first, then those that only the drift has."""
    columns = [Column(name, _categories(table, name, words[name]) if name in texts else None) for name in used]
    if drift.is_nothing:
        return Recipe(tuple(columns))
    n_process = len(Recipe(tuple(columns)).names)
    if drift.word is not None:
        return Recipe(tuple(columns), n_process, drift.word)
    numbers: list[int] = []
    for name in drift.columns:
        is_category = name in drift.categories
        present = next((c for c in columns if c.name == name and (c.categories is not None or not is_category)), None)
        if present is None:
            present = Column(name, _categories(table, name, words[name]) if is_category else None)
            columns.append(present)
        before = len(Recipe(tuple(columns[: columns.index(present)])).names)
        # Of categories the first is what the others are compared to.
        width = len(present.categories or ("",))
        numbers.extend(range(before + (present.categories is not None), before + width))
    return Recipe(tuple(columns), n_process, tuple(numbers))


def _categories(table: Table, name: str, texts: list[str | None], most: int = MAX_CATEGORIES) -> tuple[str, ...]:
    categories = sorted({text for text in texts if text is not None})
    if not 2 <= len(categories) <= most:
        raise CommandError(
            f"{table.name}: column {name!r} has {len(categories)} different values, and categories are 2 to {most}."
        )
    return tuple(categories)


def _stack(recipe: Recipe, values: dict[str, Floats], words: dict[str, list[str | None]]) -> Floats:
    """Features (n, p) of rows without missing values."""
    blocks = [
        values[column.name][:, None]
        if column.categories is None
        else (codes if column.is_group else indicators)(column.categories, words[column.name])
        for column in recipe.columns
    ]
    return np.concatenate(blocks, axis=1)


def say_what_was_read(data: Training, features_named: bool) -> None:
    """Notes on columns and rows that are not used."""
    if not features_named:
        note(f"features: {', '.join(column.name for column in data.recipe.columns)}")
    if data.left_out:
        listed = ", ".join(f"{name or 'a column'} ({why})" for name, why in data.left_out.items())
        hint = "; --one-hot turns text into columns of zeros and ones" if "text" in data.left_out.values() else ""
        note(f"left out: {listed}{hint}")
    if np.ptp(data.y) == 0:
        note(f"the target is {data.y[0]:g} in every row: there is nothing to learn")
    for name, values in zip(data.recipe.names, data.X.T, strict=True):
        if np.ptp(values) == 0:
            note(f"column {name!r} is {values[0]:g} in every row: it tells nothing")
    if data.n_dropped:
        listed = ", ".join(f"{name} {n}" for name, n in data.missing.items())
        note(f"dropped {counted(data.n_dropped, 'row')} of {data.n_rows} with missing values ({listed})")
