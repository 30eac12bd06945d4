"""Reading tables.

Text is read by Python's own `csv`: it is strict, gives every cell back as it was written, needs no other package, and
keeps up with any model. Parquet takes pyarrow.
"""

from __future__ import annotations

import csv
import gzip
import io
import itertools
import re
import sys
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any, Protocol

import numpy as np

from ...common.types import Floats

MISSING = frozenset({"", "na", "n/a", "#n/a", "nan", "null", "none"})
LARGEST = 1e150  # squares of larger numbers overflow
BATCH = 10_000
LONGEST = 1 << 22  # characters of a row, or of a batch: small files may hold rows without end, in gzip for one

DELIMITERS = (",", ";", "\t", "|")
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
        super().__init__(f"{table}: column {column!r} has {_short(value)} in row {row}, {problem or _problem(value)}.")
        self.is_date, self.has_comma = bool(_DATE.match(value)), bool(_COMMA.match(value))


def _short(value: str) -> str:
    return repr(value if len(value) <= 60 else value[:57] + "...")


def _problem(value: str) -> str:
    if _DATE.match(value):
        return "and dates are no numbers: turn them into, say, days since the first"
    if _COMMA.match(value):
        return "which is no number here: write numbers with a decimal point and without other separators"
    return "where a number must be"


class Batch(Protocol):
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
    """An open table.

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

    def batches(self, size: int = BATCH) -> Iterator[Batch]:
        """All rows, at most `size` at a time. To be called once."""

    def field(self, column: str) -> Any:
        """Type of a column for a Parquet file, None for text."""

    def done(self) -> float:
        """Share of the file that has been read; 0 where that is not known."""


@contextmanager
def open_table(path: str, encoding: str | None = None) -> Iterator[Table]:
    """Open a table by its content: Parquet, or text in gzip or not; "-" is the standard input.

    Parameters
    ----------
    path : str
    encoding : str or None
        Of text; None takes UTF-8, or UTF-16 where the file says so.

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
            yield _ParquetTable(name, raw if raw.seekable() else io.BytesIO(raw.read()))
            return
        if start == b"PK\x03\x04":
            raise ValueError(f"{name} is a zip archive or a spreadsheet: save the table as CSV.")
        if start[:2] == b"\x1f\x8b":
            raw = stack.enter_context(gzip.open(raw, "rb"))
        try:
            table = _TextTable(name, raw, encoding, _reading(path, whole))
            yield table
            table.detach()
        except (EOFError, zlib.error, gzip.BadGzipFile):
            raise ValueError(f"{name} is damaged: its gzip stream ends early or is no such stream.") from None


def _reading(path: str, raw: Any) -> Callable[[], float]:
    """How far a file has been read."""
    size = 0 if path == "-" else Path(path).stat().st_size
    return lambda: raw.tell() / size if size else 0.0


class _TextTable:
    def __init__(self, name: str, raw: Any, encoding: str | None, done: Callable[[], float]) -> None:
        self.name, self.done = name, done
        start = raw.peek(2)[:2]
        if encoding is None:
            encoding = "utf-16" if start in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
        self._encoding = encoding
        try:
            self._text = io.TextIOWrapper(raw, encoding=encoding, newline="")
        except LookupError:
            raise ValueError(f"There is no encoding {encoding!r}; latin-1 and utf-16 are examples.") from None
        self._of_row = self._of_batch = 0  # characters read for them
        with self._clear_errors(None):
            lines = itertools.dropwhile(lambda line: not line.strip(), self._lines())
            first = next(lines, "")
        if not first:
            raise ValueError(f"{name} is empty: a table starts with a row of column names.")
        self.delimiter = "\t" if name.endswith((".tsv", ".tsv.gz", ".tab")) else _sniff(first)
        # Blanks after the delimiters of the header are a habit of the writer; elsewhere they belong to the cells.
        spaced = f"{self.delimiter} " in _unquoted(first)
        self._reader = csv.reader(
            itertools.chain([first], lines), delimiter=self.delimiter, skipinitialspace=spaced, strict=True
        )
        with self._clear_errors(self._reader):
            header = [column.strip() for column in next(self._reader)]
        self._width, nameless = len(header), header.count("")
        self.n_nameless = nameless if nameless > 1 else 0
        self.columns = [column for column in header if column or not self.n_nameless]
        if not self.columns:
            raise ValueError(f"{name} has no column names: a table starts with a row of them.")
        _require_distinct(name, self.columns)
        self.places = {column: i for i, column in enumerate(header) if column or not self.n_nameless}

    def _lines(self) -> Iterator[str]:
        """Lines, as long as a row does not take too many characters of them."""
        while line := self._text.readline(LONGEST):
            self._of_row += len(line)
            self._of_batch += len(line)
            if self._of_row >= LONGEST:
                raise ValueError(
                    f"{self.name} is no proper table: a row has more than {LONGEST} characters, so that a quote or an "
                    "end of line may be missing."
                )
            if line.isspace():
                self._of_row = 0  # it belongs to no row, or to one whose next line is counted
            yield line

    def detach(self) -> None:
        """Leave the file open: whoever opened it closes it."""
        self._text.detach()

    def field(self, column: str) -> Any:  # noqa: ARG002
        return None

    def batches(self, size: int = BATCH) -> Iterator[_TextBatch]:
        first = 1
        while True:
            with self._clear_errors(self._reader):
                rows = self._rows(first, size)
            if not rows:
                return
            yield _TextBatch(self, first, rows)
            first += len(rows)

    def _rows(self, first: int, size: int) -> list[list[str]]:
        """The next rows: `size` of them, or fewer where they are long."""
        rows: list[list[str]] = []
        self._of_batch = 0
        for row in self._reader:
            self._of_row = 0
            if not row and self._width == 1:
                row = [""]  # an empty line is a missing value, and with more columns no row
            if len(row) == self._width:
                rows.append(row)
                if len(rows) == size or self._of_batch >= LONGEST:
                    break
            elif len(row) > 1 or "".join(row).strip():
                raise ValueError(
                    f"{self.name}: row {first + len(rows)} has {len(row)} field{'s' * (len(row) != 1)} and the header "
                    f"has {self._width}, with {_DELIMITER_NAMES[self.delimiter]} between them."
                )
        return rows

    @contextmanager
    def _clear_errors(self, reader: Any) -> Iterator[None]:
        try:
            yield
        except UnicodeError:
            raise ValueError(
                f"{self.name} is not text in {self._encoding.removesuffix('-sig').upper()}: save it in UTF-8, or name "
                "its encoding with --encoding, for example latin-1."
            ) from None
        except csv.Error as error:
            raise ValueError(
                f"{self.name} is no proper table near line {getattr(reader, 'line_num', 1)}: {error}."
            ) from None


_DELIMITER_NAMES = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}


def _sniff(header: str) -> str:
    """The delimiter that the header has most of, outside quotes."""
    return max(DELIMITERS, key=_unquoted(header).count)


def _unquoted(header: str) -> str:
    return re.sub(r'"[^"]*"', "", header)


def _require_distinct(name: str, columns: list[str]) -> None:
    repeated = sorted(column for column, count in Counter(columns).items() if count > 1)
    if repeated:
        raise ValueError(f"{name} has more than one column {repeated[0]!r}: give each a name of its own.")


class _TextBatch:
    def __init__(self, table: _TextTable, first: int, rows: list[list[str]]) -> None:
        self._table, self._first, self._rows = table, first, rows
        self.n_rows = len(rows)

    def cells(self, column: str) -> list[str]:
        i = self._table.places[column]
        return [row[i] for row in self._rows]

    def texts(self, column: str) -> list[str | None]:
        return [None if cell.strip().lower() in MISSING else cell.strip() for cell in self.cells(column)]

    def numbers(self, column: str) -> Floats:
        return _parsed(self._table.name, column, self._first, self.cells(column))

    def count_numbers(self, column: str) -> tuple[int, int]:
        return _counted(self.cells(column))


def _parsed(table: str, column: str, first: int, cells: Sequence[str]) -> Floats:
    try:
        values = np.array([float(cell) for cell in cells])
    except ValueError:
        values = np.array([_number(cell) for cell in cells], dtype=object)
        wrong = [i for i, value in enumerate(values) if value is None]
        if wrong:
            raise BadValueError(table, column, first + wrong[0], cells[wrong[0]]) from None
        values = values.astype(np.float64)
    for i, cell in enumerate(cells):
        if "_" in cell:  # which Python takes as a separator
            raise BadValueError(table, column, first + i, cell)
    return _require_size(table, column, first, values, cells)


def _number(cell: str) -> float | None:
    try:
        return float(cell)
    except ValueError:
        return np.nan if cell.strip().lower() in MISSING else None


def _counted(cells: Sequence[str | None]) -> tuple[int, int]:
    parsed = [_number(cell) for cell in cells if cell is not None]
    return sum(value is not None and value == value for value in parsed), sum(value is None for value in parsed)


def _require_size(table: str, column: str, first: int, values: Floats, cells: Sequence[Any]) -> Floats:
    wrong = np.flatnonzero(np.abs(values) > LARGEST)
    if len(wrong):
        i = int(wrong[0])
        problem = "which is infinite" if "inf" in str(cells[i]).lower() else f"and numbers must not exceed {LARGEST:g}"
        raise BadValueError(table, column, first + i, str(cells[i]), problem)
    return values


def import_arrow() -> Any:
    """The package pyarrow."""
    try:
        import pyarrow.parquet
    except ImportError:
        raise ImportError("Parquet files need one more package: pip install 'nearfield[parquet]'") from None
    return pyarrow


class _ParquetTable:
    delimiter = ","
    n_nameless = 0

    def __init__(self, name: str, raw: IO[bytes]) -> None:
        self.name = name
        self.arrow = import_arrow()
        try:
            self._file = self.arrow.parquet.ParquetFile(raw)
            self.schema = self._file.schema_arrow
            self.columns: list[str] = self.schema.names
        except (self.arrow.ArrowException, OSError, EOFError, UnicodeError):
            raise ValueError(f"{name} is a damaged or truncated Parquet file.") from None
        self._n_read = 0
        _require_distinct(name, self.columns)

    def field(self, column: str) -> Any:
        return self.schema.field(column).type

    def done(self) -> float:
        return min(self._n_read / max(int(self._file.metadata.num_rows), 1), 1.0)

    def batches(self, size: int = BATCH) -> Iterator[_ParquetBatch]:
        first = 1
        try:
            for part in self._file.iter_batches(size):
                self._n_read += part.num_rows
                if part.num_rows:
                    yield _ParquetBatch(self, first, part)
                first += part.num_rows
        except (self.arrow.ArrowException, OSError):
            raise ValueError(f"{self.name} is a damaged or truncated Parquet file.") from None


class _ParquetBatch:
    def __init__(self, table: _ParquetTable, first: int, part: Any) -> None:
        self._table, self._first, self._part = table, first, part
        self.n_rows: int = part.num_rows

    def cells(self, column: str) -> Any:
        return self._part.column(self._table.columns.index(column))

    def texts(self, column: str) -> list[str | None]:
        return [
            None if cell is None or str(cell).strip().lower() in MISSING else str(cell).strip()
            for cell in self._values(column)
        ]

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
        cells, types = self.cells(column), self._table.arrow.types
        if not _holds_numbers(types, cells.type):
            texts = ["" if text is None else text for text in self.texts(column)]
            return _parsed(self._table.name, column, self._first, texts)
        if types.is_boolean(cells.type):
            cells = cells.cast("uint8")
        values = np.array(cells.cast("float64", safe=False).to_numpy(zero_copy_only=False))
        return _require_size(self._table.name, column, self._first, values, values.tolist())

    def count_numbers(self, column: str) -> tuple[int, int]:
        if _holds_numbers(self._table.arrow.types, self.cells(column).type):
            return self.n_rows - int(np.isnan(self.numbers(column)).sum()), 0
        return _counted(self.texts(column))


def _holds_numbers(types: Any, kind: Any) -> bool:
    tests = (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal)
    return any(test(kind) for test in tests)
