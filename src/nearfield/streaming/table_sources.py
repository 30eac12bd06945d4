"""Sources of tables in files: Parquet and CSV."""

from __future__ import annotations

import gzip
import os
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from .batches import SourceError
from .source import BATCH_ROWS, SAMPLE_ROWS, Source, check_batch_size

CSV_BLOCK = 1 << 23  # bytes
HEADER_BLOCK = 1 << 16
MOST_COLUMNS = 10_000  # of a CSV file; pyarrow takes 10 KB for each, whether it is wanted or not


def _pyarrow(what: str) -> Any:
    try:
        import pyarrow
    except ImportError:
        raise ImportError(f"{what} need pyarrow: pip install 'nearfield[parquet]'.") from None
    return pyarrow


class TableSource(Source):
    """Columns of the tables in one or more files.

    Parameters
    ----------
    path : path of a file, or of a folder of files, or several paths
    target : str, sequence of str or None
        Column, or columns, of the targets.
    features : sequence of str or None
        Columns of X, in this order; None takes all others of the first file.
    sample_weight : str or None
        Column of the sample weights.
    """

    suffixes: tuple[str, ...] = ()

    def __init__(
        self,
        path: Any,
        *,
        target: str | Sequence[str] | None = None,
        features: Sequence[str] | None = None,
        sample_weight: str | None = None,
        sample_size: int = SAMPLE_ROWS,
    ) -> None:
        super().__init__(sample_size)
        self.files = _files(path, self.suffixes)
        self.single_target = target is None or isinstance(target, str)
        self.target_names = () if target is None else (target,) if isinstance(target, str) else tuple(target)
        self.weight_name = sample_weight
        others = {*self.target_names, *([sample_weight] if sample_weight else [])}
        if isinstance(features, str):
            raise ValueError(f"The 'features' argument must be a sequence of column names. Got {features!r}.")
        if features is None:
            self.names = tuple(name for name in self._columns(self.files[0]) if name not in others)
        else:
            self.names = tuple(features)
            both = [name for name in self.names if name in others]
            if both:
                raise ValueError(
                    f"The 'features' argument must not name the column {both[0]!r}, which is the "
                    f"{'target' if both[0] in self.target_names else 'sample weight'}."
                )
        if not self.names:
            raise SourceError(f"{self.files[0]}: no column is left for X.")

    @property
    def wanted(self) -> list[str]:
        """Columns read."""
        names = [*(self.names or ()), *self.target_names]
        return names if self.weight_name is None else [*names, self.weight_name]

    def _columns(self, file: Path) -> list[str]:
        raise NotImplementedError

    def _tables(self, file: Path) -> Iterator[Any]:
        """Record batches of the wanted columns."""
        raise NotImplementedError

    def _require_columns(self, file: Path, found: Sequence[str]) -> None:
        missing = [name for name in self.wanted if name not in found]
        if missing:
            raise SourceError(
                f"{file}: there is no column {', '.join(map(repr, missing))}; its columns are "
                f"{', '.join(map(repr, found[:20]))}{', ...' if len(found) > 20 else ''}."
            )
        counts = Counter(found)
        for name in self.wanted:
            if counts[name] > 1:
                raise SourceError(f"{file}: there is more than one column {name!r}: give each a name of its own.")

    def raw(self) -> Iterator[tuple[Any, Any, Any, str]]:
        """See `Source`."""
        arrow = _pyarrow("Parquet and CSV files")
        k = len(self.target_names)
        d = len(self.names or ())
        for file in self.files:
            row = 0
            try:
                for table in self._tables(file):
                    columns = [self._column(file, table, name, row) for name in self.wanted]
                    X = np.stack(columns[:d], axis=1)
                    y = np.stack(columns[d : d + k], axis=1) if k else None
                    yield X, y, columns[-1] if self.weight_name else None, f"{file}, from row {row} on"
                    row += len(X)
            except (arrow.ArrowException, OSError) as error:
                text = " ".join(str(error).split())
                raise SourceError(f"{file}: could not be read after row {row}: {text}") from error

    def _column(self, file: Path, table: Any, name: str, row: int) -> Any:
        column = table.column(table.schema.get_field_index(name))
        if column.null_count:
            first = int(np.flatnonzero(np.asarray(column.is_null()))[0])
            raise SourceError(f"{file}: column {name!r} has no value in row {row + first}; drop or fill such rows.")
        numbers = np.asarray(column, dtype=np.float64)
        if not np.all(np.isfinite(numbers)):
            first = int(np.flatnonzero(~np.isfinite(numbers))[0])
            raise SourceError(f"{file}: column {name!r} has a NaN or infinity in row {row + first}; drop such rows.")
        return numbers


class ParquetSource(TableSource):
    """A Parquet file, or a folder of them (in the order of their names), read piece by piece.

    Every file's columns and their types are checked at once; missing values are found as they are read.

    Parameters
    ----------
    path : path of a file or a folder, or a sequence of paths
    target : str, sequence of str or None, default=None
        Column, or columns, of the targets; a source to predict from needs none.
    features : sequence of str or None, default=None
        Columns of X; None takes all columns of the first file but the target and the weight.
    sample_weight : str or None, default=None
        Column of the sample weights.
    batch_size : int
        Rows read at a time.
    sample_size : int
        See `Source`.
    """

    suffixes = (".parquet", ".pq")

    def __init__(self, path: Any, *, batch_size: int = BATCH_ROWS, **options: Any) -> None:
        _pyarrow("Parquet files")
        super().__init__(path, **options)
        self.batch_size = check_batch_size(batch_size)
        self.n_rows = sum(self._check_file(file) for file in self.files)

    def _open(self, file: Path) -> Any:
        import pyarrow
        import pyarrow.parquet as pq

        try:
            return pq.ParquetFile(file, memory_map=False)
        except (pyarrow.ArrowException, OSError, UnicodeError) as error:
            raise SourceError(f"{file}: could not be read as Parquet: {' '.join(str(error).split())}") from error

    def _columns(self, file: Path) -> list[str]:
        with self._open(file) as opened:
            return _names(file, opened.schema_arrow)

    def _check_file(self, file: Path) -> int:
        """Number of rows, once the columns are as they should be."""
        import pyarrow.types as types

        with self._open(file) as opened:
            schema = opened.schema_arrow
            self._require_columns(file, _names(file, schema))
            for name in self.wanted:
                kind = schema.field(name).type
                if not (types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind)):
                    raise SourceError(f"{file}: column {name!r} holds {kind}, not numbers.")
            return int(opened.metadata.num_rows)

    def _tables(self, file: Path) -> Iterator[Any]:
        with self._open(file) as opened:
            yield from opened.iter_batches(self.batch_size, columns=self.wanted, use_threads=False)


class CSVSource(TableSource):
    """A CSV file with a header, or a folder of them (in the order of their names), read piece by piece.

    Parameters
    ----------
    path, target, features, sample_weight, sample_size
        See `ParquetSource`.
    delimiter : str, default=","
    """

    suffixes = (".csv", ".csv.gz", ".tsv", ".txt")

    def __init__(self, path: Any, *, delimiter: str = ",", **options: Any) -> None:
        _pyarrow("CSV files")
        self.delimiter = delimiter
        super().__init__(path, **options)
        for file in self.files:
            self._require_columns(file, self._columns(file))

    def _reader(self, file: Path, convert: Any, block: int) -> Any:
        import pyarrow
        from pyarrow import csv

        try:
            return csv.open_csv(
                file,
                csv.ReadOptions(block_size=block, use_threads=False),
                csv.ParseOptions(delimiter=self.delimiter),
                convert,
            )
        except (pyarrow.ArrowException, OSError) as error:
            raise SourceError(f"{file}: could not be read as CSV: {' '.join(str(error).split())}") from error

    def _columns(self, file: Path) -> list[str]:
        from pyarrow import csv

        self._require_few(file)
        with self._reader(file, csv.ConvertOptions(), HEADER_BLOCK) as reader:
            return _names(file, reader.schema)

    def _require_few(self, file: Path) -> None:
        with (
            suppress(EOFError, OSError, zlib.error),
            gzip.open(file) if file.suffix == ".gz" else file.open("rb") as raw,
        ):
            n = raw.readline(HEADER_BLOCK).count(self.delimiter.encode()) + 1
            if n > MOST_COLUMNS:
                raise SourceError(
                    f"{file}: the header has {n} columns or more, and at most {MOST_COLUMNS} can be read."
                )

    def _tables(self, file: Path) -> Iterator[Any]:
        import pyarrow
        from pyarrow import csv

        convert = csv.ConvertOptions(
            include_columns=self.wanted, column_types=dict.fromkeys(self.wanted, pyarrow.float64())
        )
        with self._reader(file, convert, CSV_BLOCK) as reader:
            yield from reader


def _names(file: Path, schema: Any) -> list[str]:
    """Names of the columns."""
    try:
        return list(schema.names)
    except UnicodeDecodeError:
        raise SourceError(f"{file}: the names of its columns are not text in UTF-8: save the table in UTF-8.") from None


def _files(path: Any, suffixes: tuple[str, ...]) -> list[Path]:
    if isinstance(path, str | os.PathLike):
        place = Path(path)
        if place.is_dir():
            # Names that begin with a dot or a line are no data: files being written, logs, metadata.
            found = sorted(p for p in place.rglob("*") if p.is_file() and p.name.endswith(suffixes))
            files = [p for p in found if not any(part[0] in "._" for part in p.relative_to(place).parts)]
            if not files:
                raise SourceError(f"{place}: the folder has no file that ends in {' or '.join(suffixes)}.")
            return files
        path = [place]
    files = [Path(p) for p in path]
    if not files:
        raise SourceError("There is no file to read: the list of paths is empty.")
    for file in files:
        if not file.is_file():
            raise SourceError(f"{file}: there is no such file.")
    return files
