"""What there is to ask of a table: its columns, and their cells as numbers or words, some rows at a time."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ...common.types import Floats

BATCH = 10_000
MISSING = frozenset({"", "na", "n/a", "#n/a", "nan", "null", "none"})
LARGEST = 1e150  # squares of larger numbers overflow

_DATE = re.compile(r"\s*\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\s*\d{1,2}[-/.]\d{1,2}[-/.]\d{2,4}(\s|$)")
_COMMA = re.compile(r"\s*[+-]?[\d.]*\d,\d[\d,]*\s*$")


class BadValueError(ValueError):
    """A cell that is no number where one must be; the message names column, row (the first is 1) and value.

    Attributes
    ----------
    is_date, has_comma : bool
        Whether the cell looks like a date, or like a number with commas.
    """

    def __init__(self, table: str, column: str, row: int, value: str, problem: str = "") -> None:
        self.is_date, self.has_comma = bool(_DATE.match(value)), bool(_COMMA.match(value))
        if self.is_date:
            problem = "and dates are no numbers: turn them into, say, days since the first"
        elif self.has_comma:
            problem = "which is no number here: write numbers with a decimal point and without other separators"
        shown = repr(value if len(value) <= 60 else value[:57] + "...")
        super().__init__(f"{table}: column {column!r} has {shown} in row {row}, {problem or 'where a number must be'}.")


class Table:
    """An open table, whose rows are read once.

    Attributes
    ----------
    name : str
        Of the file, for messages.
    columns : list of str
    n_nameless : int
        Columns besides these that have no name, where there are several; a single one is among them as "".
    n_rows : int or None
        Number of rows where the file says it.
    delimiter : str
        Of a text; a comma for Parquet.
    """

    n_nameless = 0
    n_rows: int | None = None
    delimiter = ","

    def __init__(self, name: str, columns: list[str]) -> None:
        self.name, self.columns = name, columns
        repeated = sorted(column for column, count in Counter(columns).items() if count > 1)
        if repeated:
            raise ValueError(f"{name} has more than one column {repeated[0]!r}: give each a name of its own.")

    def batches(self, size: int = BATCH, columns: Sequence[str] | None = None) -> Iterator[TableRows]:
        """All rows, at most `size` at a time; of these columns only, where that saves work."""
        raise NotImplementedError

    def numbers(self, columns: Sequence[str], size: int = BATCH) -> Iterator[list[Floats]]:
        """`TableRows.numbers` of these columns, at least one, for all rows, at most `size` at a time."""
        for rows in self.batches(size, columns):
            yield [rows.numbers(column) for column in columns]

    def field(self, column: str) -> Any:  # noqa: ARG002
        """Type of a column for a Parquet file, None for text."""
        return None

    def done(self) -> float:
        """Share of the file that has been read; 0 where that is not known."""
        raise NotImplementedError


class TableRows:
    """Some rows of a table; `first` is the number of the first of them, counted from 1."""

    def __init__(self, table: str, first: int, n_rows: int) -> None:
        self._name, self._first, self.n_rows = table, first, n_rows

    def cells(self, column: str) -> Any:
        """The column as the file has it, for a writer."""
        raise NotImplementedError

    def _words(self, column: str) -> list[str]:
        """The column as text."""
        words: list[str] = self.cells(column)
        return words

    def texts(self, column: str) -> list[str | None]:
        """Words, None where they are missing."""
        return [None if _is_missing(word) else word.strip() for word in self._words(column)]

    def numbers(self, column: str) -> Floats:
        """Numbers of shape (n_rows,), NaN where they are missing; raises BadValueError."""
        words = self._words(column)
        try:
            values: list[float | None] = [float(word) for word in words]
        except ValueError:
            values = [_number(word) for word in words]
        if None in values or "_" in "".join(words):  # which Python takes as a separator
            i = values.index(None) if None in values else next(i for i, word in enumerate(words) if "_" in word)
            raise BadValueError(self._name, column, self._first + i, words[i])
        return self._require_size(column, np.array(values, dtype=np.float64), words)

    def _require_size(self, column: str, values: Floats, cells: Sequence[Any] | Floats) -> Floats:
        """The values, none of which may be infinite or so large that its square is."""
        wrong = np.flatnonzero(np.abs(values) > LARGEST)
        if len(wrong):
            i, cell = int(wrong[0]), str(cells[wrong[0]])
            problem = "which is infinite" if "inf" in cell.lower() else f"and numbers must not exceed {LARGEST:g}"
            raise BadValueError(self._name, column, self._first + i, cell, problem)
        return values

    def count_numbers(self, column: str) -> tuple[int, int]:
        """How many cells hold a number, and how many hold something else; missing ones hold neither."""
        numbers = [_number(word) for word in self._words(column)]
        return sum(value is not None and value == value for value in numbers), sum(value is None for value in numbers)


def _is_missing(word: str) -> bool:
    return word.strip().lower() in MISSING


def _number(word: str) -> float | None:
    try:
        return float(word)
    except ValueError:
        return np.nan if _is_missing(word) else None
