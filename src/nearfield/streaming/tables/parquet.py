"""Tables in Parquet, by pyarrow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import IO, Any

import numpy as np

from ...common.types import Floats
from .text import BATCH
from .values import count_numbers, is_missing, numbers_of, require_distinct, require_size


def import_arrow() -> Any:
    """The package pyarrow."""
    try:
        import pyarrow.parquet
    except ImportError:
        raise ImportError("Parquet files need one more package: pip install 'nearfield[parquet]'") from None
    return pyarrow


class ParquetTable:
    """See `Table` and `open_table`."""

    delimiter = ","
    n_nameless = 0

    def __init__(self, name: str, raw: IO[bytes]) -> None:
        self.name = name
        self.arrow = import_arrow()
        try:
            self._file = self.arrow.parquet.ParquetFile(raw)
            self._schema = self._file.schema_arrow
            self.columns: list[str] = self._schema.names
            self.n_rows = int(self._file.metadata.num_rows)
        except (self.arrow.ArrowException, OSError, EOFError, UnicodeError):
            raise ValueError(f"{name} is a damaged or truncated Parquet file.") from None
        self._n_read = 0
        require_distinct(name, self.columns)

    def field(self, column: str) -> Any:
        """See `Table`."""
        return self._schema.field(column).type

    def done(self) -> float:
        """See `Table`."""
        return min(self._n_read / max(self.n_rows, 1), 1.0)

    def batches(self, size: int = BATCH) -> Iterator[ParquetRows]:
        """See `Table`."""
        return self._batches(size, None)

    def numbers(self, columns: Sequence[str], size: int = BATCH) -> Iterator[list[Floats]]:
        """See `Table`."""
        for rows in self._batches(size, list(columns)):
            yield [rows.numbers(column) for column in columns]

    def _batches(self, size: int, columns: list[str] | None) -> Iterator[ParquetRows]:
        first = 1
        try:
            for batch in self._file.iter_batches(size, columns=columns, use_threads=False):
                self._n_read += batch.num_rows
                if batch.num_rows:
                    yield ParquetRows(self, first, batch)
                first += batch.num_rows
        except (self.arrow.ArrowException, OSError):
            raise ValueError(f"{self.name} is a damaged or truncated Parquet file.") from None


class ParquetRows:
    """See `TableRows`."""

    def __init__(self, table: ParquetTable, first: int, batch: Any) -> None:
        self._table, self._first, self._batch = table, first, batch
        self.n_rows: int = batch.num_rows

    def cells(self, column: str) -> Any:
        """See `TableRows`."""
        return self._batch.column(column)

    def texts(self, column: str) -> list[str | None]:
        """See `TableRows`."""
        cells = ["" if cell is None else str(cell) for cell in self._values(column)]
        return [None if is_missing(cell) else cell.strip() for cell in cells]

    def _values(self, column: str) -> list[Any]:
        """The column in Python's types, some of which have narrower ranges: times, and text in Unicode."""
        try:
            values: list[Any] = self.cells(column).to_pylist()
        except (ArithmeticError, ValueError, self._table.arrow.ArrowException):
            raise ValueError(
                f"{self._table.name}: column {column!r} of type {self.cells(column).type} has a value beyond what can "
                f"be read, in row {self._first} or one of the {self.n_rows} from there on."
            ) from None
        return values

    def numbers(self, column: str) -> Floats:
        """See `TableRows`."""
        if not self._holds_numbers(column):
            texts = ["" if text is None else text for text in self.texts(column)]
            return numbers_of(texts, self._table.name, column, self._first)
        cells = self.cells(column)
        if self._table.arrow.types.is_boolean(cells.type):
            cells = cells.cast("uint8")
        values = cells.cast("float64", safe=False).to_numpy(zero_copy_only=False)
        return require_size(values, values, self._table.name, column, self._first)

    def count_numbers(self, column: str) -> tuple[int, int]:
        """See `TableRows`."""
        if self._holds_numbers(column):
            return self.n_rows - int(np.isnan(self.numbers(column)).sum()), 0
        return count_numbers(self.texts(column))

    def _holds_numbers(self, column: str) -> bool:
        kind, types = self.cells(column).type, self._table.arrow.types
        return any(test(kind) for test in (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal))
