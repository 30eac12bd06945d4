"""What is a number in the cells of a table, what is missing, and what is refused."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...common.types import Floats

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
        shown = repr(value if len(value) <= 60 else value[:57] + "...")
        super().__init__(f"{table}: column {column!r} has {shown} in row {row}, {problem or _problem(value)}.")
        self.is_date, self.has_comma = bool(_DATE.match(value)), bool(_COMMA.match(value))


def _problem(value: str) -> str:
    if _DATE.match(value):
        return "and dates are no numbers: turn them into, say, days since the first"
    if _COMMA.match(value):
        return "which is no number here: write numbers with a decimal point and without other separators"
    return "where a number must be"


def is_missing(cell: str) -> bool:
    """Whether a cell is empty, or one of the words for that."""
    return cell.strip().lower() in MISSING


def numbers_of(cells: Sequence[str], table: str, column: str, first: int) -> Floats:
    """Numbers (n,) in cells of text, NaN where they are missing; `first` is the row of the first cell."""
    try:
        values = np.array([float(cell) for cell in cells])
    except ValueError:
        numbers = [_number(cell) for cell in cells]
        if None in numbers:
            i = numbers.index(None)
            raise BadValueError(table, column, first + i, cells[i]) from None
        values = np.array(numbers, dtype=np.float64)
    if "_" in "".join(cells):  # which Python takes as a separator
        i = next(i for i, cell in enumerate(cells) if "_" in cell)
        raise BadValueError(table, column, first + i, cells[i])
    return require_size(values, cells, table, column, first)


def _number(cell: str) -> float | None:
    try:
        return float(cell)
    except ValueError:
        return np.nan if is_missing(cell) else None


def count_numbers(cells: Sequence[str | None]) -> tuple[int, int]:
    """How many cells hold a number, and how many hold something else; missing ones do neither."""
    numbers = [_number(cell) for cell in cells if cell is not None]
    return sum(value is not None and value == value for value in numbers), sum(value is None for value in numbers)


def require_size(values: Floats, cells: Sequence[Any] | Floats, table: str, column: str, first: int) -> Floats:
    """The values, none of which may be infinite or so large that its square is."""
    wrong = np.flatnonzero(np.abs(values) > LARGEST)
    if len(wrong):
        i = int(wrong[0])
        problem = "which is infinite" if "inf" in str(cells[i]).lower() else f"and numbers must not exceed {LARGEST:g}"
        raise BadValueError(table, column, first + i, str(cells[i]), problem)
    return values


def require_distinct(table: str, columns: list[str]) -> None:
    """Refuse a table in which two columns have one name."""
    repeated = sorted(column for column, count in Counter(columns).items() if count > 1)
    if repeated:
        raise ValueError(f"{table} has more than one column {repeated[0]!r}: give each a name of its own.")
