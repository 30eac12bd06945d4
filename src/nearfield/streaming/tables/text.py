"""Tables in text: CSV and TSV.

Python's own `csv` reads them: it is strict, gives every cell back as it was written, and needs no other package. Where
nothing but numbers is wanted, pyarrow reads plain text ten times as fast, and what it does not take goes to `csv`.
"""

from __future__ import annotations

import csv
import io
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from ...common.types import Floats
from .table import BATCH, LARGEST, Table, TableRows

LONGEST = 1 << 22  # characters of a row, or of a batch: small files may hold rows without end, in gzip for one
BLOCK = 1 << 22  # characters that pyarrow is given at a time
LONGEST_PLAIN = 1 << 17  # characters of a row that pyarrow is given, where `csv` has its limit for a cell
MOST_COLUMNS = 1000  # that pyarrow is given: it takes 10 KB for each, and ends the process where there is no memory

DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}


class TextTable(Table):
    """See `Table` and `open_table`; `raw` is a buffered stream of bytes, and `done` the share of it that was read."""

    def __init__(
        self, name: str, raw: Any, done: Callable[[], float], encoding: str | None = None, delimiter: str | None = None
    ) -> None:
        self.name, self._done = name, done
        if encoding is None:
            encoding = "utf-16" if raw.peek(2)[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
        self._encoding = encoding
        try:
            self._text = io.TextIOWrapper(raw, encoding=encoding, newline="")
        except LookupError:
            raise ValueError(f"There is no encoding {encoding!r}; latin-1 and utf-16 are examples.") from None
        self._row_length = self._batch_length = 0  # characters
        with self._clear_errors():
            lines = itertools.dropwhile(lambda line: not line.strip(), self._lines(self._text))
            header_line = next(lines, "")
        if not header_line:
            raise ValueError(f"{name} is empty: a table starts with a row of column names.")
        unquoted = re.sub(r'"[^"]*"', "", header_line)
        if delimiter is None:
            is_tsv = name.endswith((".tsv", ".tsv.gz", ".tab"))
            delimiter = "\t" if is_tsv else max(DELIMITERS, key=unquoted.count)
        self.delimiter = delimiter
        # Blanks after the delimiters of the header are a habit of the writer; elsewhere they belong to the cells.
        self._spaced = f"{delimiter} " in unquoted
        self._read_on(itertools.chain([header_line], lines))
        with self._clear_errors():
            header = [column.strip() for column in next(self._reader)]
        self._width, nameless = len(header), header.count("")
        self.n_nameless = nameless if nameless > 1 else 0
        columns = [column for column in header if column or not self.n_nameless]
        if not columns:
            raise ValueError(f"{name} has no column names: a table starts with a row of them.")
        super().__init__(name, columns)
        self._places = {column: i for i, column in enumerate(header) if column or not self.n_nameless}

    def detach(self) -> None:
        """Leave the file open: whoever opened it closes it."""
        self._text.detach()

    def done(self) -> float:
        """See `Table`."""
        return self._done()

    def batches(self, size: int = BATCH, columns: Sequence[str] | None = None) -> Iterator[TableRows]:  # noqa: ARG002
        """See `Table`."""
        return self._batches(1, size)

    def numbers(self, columns: Sequence[str], size: int = BATCH) -> Iterator[list[Floats]]:
        """See `Table`."""
        first = 1
        places = [self._places[column] for column in columns]
        while block := self._block():
            plain = _plain_numbers(block, self.delimiter, self._width, places)
            if plain is not None:
                for start in range(0, len(plain[0]), size):
                    yield [values[start : start + size] for values in plain]
                first += len(plain[0])
                continue
            lines = self._lines(io.StringIO(block, newline=""))
            # A quote may be closed in a later block.
            self._read_on(itertools.chain(lines, self._lines(self._text)) if '"' in block else lines, first)
            for rows in self._batches(first, size):
                yield [rows.numbers(column) for column in columns]
                first += rows.n_rows

    def _block(self) -> str:
        """Some whole lines; nothing at the end."""
        with self._clear_errors():
            return self._text.read(BLOCK) + self._text.readline(LONGEST)

    def _lines(self, text: Any) -> Iterator[str]:
        """Lines, as long as a row does not take too many characters of them."""
        while line := text.readline(LONGEST):
            self._row_length += len(line)
            self._batch_length += len(line)
            if self._row_length >= LONGEST:
                raise ValueError(
                    f"{self.name} is no proper table: a row has more than {LONGEST} characters, so that a quote or an "
                    "end of line may be missing."
                )
            if line.isspace():
                self._row_length = 0  # it belongs to no row, or to one whose next line is counted
            yield line

    def _read_on(self, lines: Iterable[str], n_before: int = 0) -> None:
        """Take rows from these lines, which come after so many others."""
        self._lines_before = n_before
        self._reader = csv.reader(lines, delimiter=self.delimiter, skipinitialspace=self._spaced, strict=True)

    def _batches(self, first: int, size: int) -> Iterator[TableRows]:
        while True:
            with self._clear_errors():
                rows = self._rows(first, size)
            if not rows:
                return
            yield _TextRows(self.name, first, rows, self._places)
            first += len(rows)

    def _rows(self, first: int, size: int) -> list[list[str]]:
        """The next rows: `size` of them, or fewer where they are long."""
        rows: list[list[str]] = []
        self._batch_length = 0
        for row in self._reader:
            self._row_length = 0
            if not row and self._width == 1:
                row = [""]  # an empty line is a missing value, and with more columns no row
            if len(row) == self._width:
                rows.append(row)
                if len(rows) == size or self._batch_length >= LONGEST:
                    break
            elif len(row) > 1 or "".join(row).strip():
                raise ValueError(
                    f"{self.name}: row {first + len(rows)} has {len(row)} field{'s' * (len(row) != 1)} and the header "
                    f"has {self._width}, with {DELIMITERS.get(self.delimiter, repr(self.delimiter))} between them."
                )
        return rows

    @contextmanager
    def _clear_errors(self) -> Iterator[None]:
        try:
            yield
        except UnicodeError:
            raise ValueError(
                f"{self.name} is not text in {self._encoding.removesuffix('-sig').upper()}: save it in UTF-8, or name "
                "its encoding with --encoding, for example latin-1."
            ) from None
        except csv.Error as error:
            line = self._lines_before + self._reader.line_num
            raise ValueError(f"{self.name} is no proper table near line {line}: {error}.") from None


class _TextRows(TableRows):
    def __init__(self, table: str, first: int, rows: list[list[str]], places: dict[str, int]) -> None:
        super().__init__(table, first, len(rows))
        self._rows, self._places = rows, places

    def cells(self, column: str) -> list[str]:
        i = self._places[column]
        return [row[i] for row in self._rows]


def _plain_numbers(block: str, delimiter: str, width: int, places: Sequence[int]) -> list[Floats] | None:
    """Columns of numbers as pyarrow reads them from whole lines, or None.

    None where it is not installed or refuses the text, where a value is missing or too large, and where there are
    quotes or long rows, of which pyarrow and Python's `csv` have different ideas.
    """
    half = LONGEST_PLAIN // 2  # no row is longer than two stretches that each have an end of line
    stretches = range(0, len(block) - half, half)
    if width > MOST_COLUMNS or '"' in block or any(block.find("\n", i, i + half) < 0 for i in stretches):
        return None
    try:
        import pyarrow.csv

        data = block.encode("utf-8", "surrogatepass")
        names = [str(i) for i in range(width)]
        wanted = [names[i] for i in places]
        table = pyarrow.csv.read_csv(
            pyarrow.BufferReader(data),
            pyarrow.csv.ReadOptions(use_threads=False, block_size=len(data) + 1, column_names=names),
            pyarrow.csv.ParseOptions(delimiter=delimiter, quote_char=False, ignore_empty_lines=width > 1),
            pyarrow.csv.ConvertOptions(
                column_types=dict.fromkeys(wanted, pyarrow.float64()), include_columns=wanted, null_values=[]
            ),
        )
    except (ImportError, ValueError):  # and so are pyarrow's errors
        return None
    columns = [table.column(name).to_numpy() for name in wanted]
    return columns if all(np.all(np.abs(values) <= LARGEST) for values in columns) else None
