"""Writing tables, whole or not at all."""

from __future__ import annotations

import csv
import gzip
import io
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any, Protocol

import numpy as np

from ...common.files import atomic, is_special
from .parquet import import_arrow
from .text import DELIMITERS


class Writer(Protocol):
    """Takes columns, some rows at a time."""

    def write(self, columns: Sequence[Any]) -> None:
        """Append rows; one sequence per column, floats as arrays with NaN for nothing."""


@contextmanager
def write_table(path: str, columns: Sequence[str], kinds: Sequence[Any], delimiter: str = ",") -> Iterator[Writer]:
    """Write a table, whole or not at all; "-" is the standard output, where each batch goes out at once.

    Parameters
    ----------
    path : str
        ".parquet" and ".pq" are Parquet, ".tsv" is text with tabs, all else CSV; ".gz" after those of text is gzip.
    columns : sequence of str
    kinds : sequence
        Of each column for Parquet: what `Table.field` says, or "float64".
    delimiter : str
        For the standard output.
    """
    if path == "-":
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(encoding="utf-8")  # as in files, whatever the terminal is set to
        yield _TextWriter(sys.stdout, columns, delimiter)
        return
    with atomic(path) as temporary, _writer(path, temporary, columns, kinds) as writer:
        yield writer


def check_writable(path: str) -> None:
    """Refuse an output that cannot be written, before there is anything to write."""
    if path == "-" or is_special(Path(path)):
        return
    if path.endswith((".parquet", ".pq")):
        import_arrow()
    if Path(path).is_dir():
        raise IsADirectoryError(21, "is a folder, where a file is to be written", path)
    if not Path(path).parent.is_dir():
        raise FileNotFoundError(2, "cannot be written, since its folder does not exist", path)
    try:
        with atomic(path) as temporary:
            temporary.write_bytes(b"")
            raise _Stop
    except _Stop:
        return
    except OSError as error:
        raise OSError(error.errno, f"cannot be written: {error.strerror}", path) from None


class _Stop(Exception):  # noqa: N818
    """Leaves `atomic` without putting the file in place."""


@contextmanager
def _writer(path: str, temporary: Path, columns: Sequence[str], kinds: Sequence[Any]) -> Iterator[Writer]:
    if path.endswith((".parquet", ".pq")):
        arrow = import_arrow()
        types = [arrow.float64() if kind == "float64" else kind or arrow.string() for kind in kinds]
        schema = arrow.schema(list(zip(columns, types, strict=True)))
        with arrow.parquet.ParquetWriter(temporary, schema) as file:
            yield _ParquetWriter(arrow, file)
        return
    delimiter = "\t" if path.removesuffix(".gz").endswith((".tsv", ".tab")) else ","
    with ExitStack() as stack:
        raw: Any = stack.enter_context(temporary.open("wb"))
        if path.endswith(".gz"):
            raw = stack.enter_context(gzip.GzipFile("", "wb", 6, raw, mtime=0))
        text = stack.enter_context(io.TextIOWrapper(raw, encoding="utf-8", newline=""))
        yield _TextWriter(text, columns, delimiter)


class _TextWriter:
    def __init__(self, handle: IO[str], columns: Sequence[str], delimiter: str) -> None:
        self._handle, self._columns = handle, columns
        self._csv = csv.writer(handle, delimiter=delimiter, lineterminator="\n")
        self._quoting = csv.writer(handle, delimiter=delimiter, lineterminator="\n", quoting=csv.QUOTE_ALL)
        # Quotes tell which delimiters in the header are part of a name.
        ambiguous = any(c in column for column in columns for c in (*DELIMITERS, "\r"))
        (self._quoting if ambiguous else self._csv).writerow(columns)
        if handle is sys.stdout:
            handle.flush()  # a pipe whose reader has gone says so now

    def write(self, columns: Sequence[Any]) -> None:
        cells = [_cells(name, column) for name, column in zip(self._columns, columns, strict=True)]
        # Python before 3.13 does not quote a carriage return, which ends a line, too.
        returns = any("\r" in cell for column in cells for cell in column if isinstance(cell, str))
        (self._quoting if returns else self._csv).writerows(zip(*cells, strict=True))
        if self._handle is sys.stdout:
            self._handle.flush()


def _cells(name: str, column: Any) -> list[Any]:
    """Cells for a text: nothing for a number that is missing."""
    if isinstance(column, np.ndarray):
        return ["" if value != value else value for value in column.tolist()]
    if not hasattr(column, "to_pylist"):
        return list(column)
    try:
        cells: list[Any] = column.to_pylist()
    except (ArithmeticError, ValueError):  # times have narrower ranges in Python, and text may be no Unicode
        raise ValueError(
            f"Column {name!r} of type {column.type} has a value that cannot be written as text: leave it out, or write "
            "Parquet."
        ) from None
    return cells


class _ParquetWriter:
    def __init__(self, arrow: Any, file: Any) -> None:
        self._arrow, self._file = arrow, file

    def write(self, columns: Sequence[Any]) -> None:
        arrays = [
            self._arrow.array(column, type=kind, from_pandas=True) if isinstance(column, np.ndarray | list) else column
            for column, kind in zip(columns, self._file.schema.types, strict=True)
        ]
        self._file.write_batch(self._arrow.record_batch(arrays, schema=self._file.schema))
