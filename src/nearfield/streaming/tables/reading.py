"""Reading tables: what there is to ask of one, and how it is opened."""

from __future__ import annotations

import gzip
import io
import sys
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Protocol

from ...common.types import Floats
from .parquet import ParquetTable
from .text import BATCH, TextTable


class TableRows(Protocol):
    """Some rows of a table."""

    n_rows: int

    def numbers(self, column: str) -> Floats:
        """Numbers of shape (n_rows,), NaN where they are missing; raises BadValueError."""

    def texts(self, column: str) -> list[str | None]:
        """Words, None where they are missing."""

    def cells(self, column: str) -> Sequence[Any]:
        """The column as the file has it, for a writer."""

    def count_numbers(self, column: str) -> tuple[int, int]:
        """How many cells hold a number, and how many hold something else."""


class Table(Protocol):
    """An open table, whose rows are read once: by `batches` or by `numbers`.

    Attributes
    ----------
    name : str
        Of the file, for messages.
    columns : list of str
    n_nameless : int
        Columns besides these that have no name, where there are several; a single one is among them as "".
    delimiter : str
        Of a text; a comma for Parquet.
    """

    name: str
    columns: list[str]
    n_nameless: int
    delimiter: str

    @property
    def n_rows(self) -> int | None:
        """Number of rows where the file says it."""

    def batches(self, size: int = BATCH) -> Iterator[TableRows]:
        """All rows, at most `size` at a time."""

    def numbers(self, columns: Sequence[str], size: int = BATCH) -> Iterator[list[Floats]]:
        """`TableRows.numbers` of these columns, at least one, for all rows, at most `size` at a time."""

    def field(self, column: str) -> Any:
        """Type of a column for a Parquet file, None for text."""

    def done(self) -> float:
        """Share of the file that has been read; 0 where that is not known."""


@contextmanager
def open_table(path: str, encoding: str | None = None, delimiter: str | None = None) -> Iterator[Table]:
    """Open a table by its content: Parquet, or text in gzip or not; "-" is the standard input.

    Parameters
    ----------
    path : str
    encoding : str or None
        Of text; None takes UTF-8, or UTF-16 where the file says so.
    delimiter : str or None
        Of text; None takes tabs where the name of the file says so, or else what the header has most of.

    Raises
    ------
    ValueError
        In one sentence, here or while rows are read, where the file is no proper table.
    """
    name = "standard input" if path == "-" else path
    with ExitStack() as stack:
        raw: Any = sys.stdin.buffer if path == "-" else stack.enter_context(Path(path).open("rb"))
        whole = raw
        start = raw.peek(4)[:4] if hasattr(raw, "peek") else b""
        if start == b"PAR1":
            yield ParquetTable(name, raw if raw.seekable() else io.BytesIO(raw.read()))
            return
        if start == b"PK\x03\x04":
            raise ValueError(f"{name} is a zip archive or a spreadsheet: save the table as CSV.")
        if start[:2] == b"\x1f\x8b":
            raw = stack.enter_context(gzip.open(raw, "rb"))
        try:
            table = TextTable(name, raw, _share_read(path, whole), encoding, delimiter)
            yield table
            table.detach()
        except (EOFError, zlib.error, gzip.BadGzipFile):
            raise ValueError(f"{name} is damaged: its gzip stream ends early or is no such stream.") from None


def _share_read(path: str, raw: Any) -> Callable[[], float]:
    """How far a file has been read."""
    size = 0 if path == "-" else Path(path).stat().st_size
    return lambda: raw.tell() / size if size else 0.0
