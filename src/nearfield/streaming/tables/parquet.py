"""Tables in Parquet, by pyarrow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import IO, Any

import numpy as np

from ...common.types import Floats
from .table import BATCH, Table, TableRows


def import_arrow() -> Any:
    """The package pyarrow."""
    try:
        import pyarrow.parquet
    except ImportError:
        raise ImportError("Parquet files need one more package: pip install 'nearfield[parquet]'") from None
    return pyarrow


class ParquetTable(Table):
    """See `Table` and `open_table`."""

    def __init__(self, name: str, raw: IO[bytes]) -> None:
        self._arrow, self._n_read = import_arrow(), 0
        try:
            self._file = self._arrow.parquet.ParquetFile(raw)
            self._schema = self._file.schema_arrow
            self.n_rows: int = self._file.metadata.num_rows
            columns = self._schema.names
        except (self._arrow.ArrowException, OSError, EOFError, UnicodeError):
            raise ValueError(f"{name} is a damaged or truncated Parquet file.") from None
        super().__init__(name, columns)

    def field(self, column: str) -> Any:
        """See `Table`."""
        return self._schema.field(column).type

    def done(self) -> float:
        """See `Table`."""
        return min(self._n_read / max(self.n_rows, 1), 1.0)

    def batches(self, size: int = BATCH, columns: Sequence[str] | None = None) -> Iterator[TableRows]:
        """See `Table`."""
        wanted = None if columns is None else list(columns)
        first = 1
        try:
            for batch in self._file.iter_batches(size, columns=wanted, use_threads=False):
                self._n_read += batch.num_rows
                if batch.num_rows:
                    yield _ParquetRows(self.name, first, batch, self._arrow)
                first += batch.num_rows
        except (self._arrow.ArrowException, OSError):
            raise ValueError(f"{self.name} is a damaged or truncated Parquet file.") from None


class _ParquetRows(TableRows):
    def __init__(self, table: str, first: int, batch: Any, arrow: Any) -> None:
        super().__init__(table, first, batch.num_rows)
        self._batch, self._arrow = batch, arrow

    def cells(self, column: str) -> Any:
        return self._batch.column(column)

    def _words(self, column: str) -> list[str]:
        try:
            # Some of Python's types have narrower ranges: times, and text in Unicode.
            return ["" if cell is None else str(cell).strip() for cell in self.cells(column).to_pylist()]
        except (ArithmeticError, ValueError, self._arrow.ArrowException):
            raise ValueError(
                f"{self._name}: column {column!r} of type {self.cells(column).type} has a value beyond what can be "
                f"read, in row {self._first} or one of the {self.n_rows} from there on."
            ) from None

    def numbers(self, column: str) -> Floats:
        if not self._holds_numbers(column):
            return super().numbers(column)
        cells = self.cells(column)
        if self._arrow.types.is_boolean(cells.type):
            cells = cells.cast("uint8")
        values = cells.cast("float64", safe=False).to_numpy(zero_copy_only=False)
        return self._require_size(column, values, values)

    def count_numbers(self, column: str) -> tuple[int, int]:
        if not self._holds_numbers(column):
            return super().count_numbers(column)
        return self.n_rows - int(np.isnan(self.numbers(column)).sum()), 0

    def _holds_numbers(self, column: str) -> bool:
        kind, types = self.cells(column).type, self._arrow.types
        return any(test(kind) for test in (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal))
