"""Sources of tables in files: Parquet and CSV."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from .batches import SourceError
from .source import BATCH_ROWS, SAMPLE_ROWS, Source, check_count
from .tables import ParquetTable, Table, open_table


class TableSource(Source):
    """Columns of the tables in one or more files; for the parameters see `ParquetSource`."""

    suffixes: tuple[str, ...] = ()

    def __init__(
        self,
        path: Any,
        *,
        target: str | Sequence[str] | None = None,
        features: Sequence[str] | None = None,
        sample_weight: str | None = None,
        batch_size: int = BATCH_ROWS,
        sample_size: int = SAMPLE_ROWS,
    ) -> None:
        super().__init__(sample_size)
        self.batch_size = check_count("batch_size", batch_size)
        self.files = _files(path, self.suffixes)
        self.single_target = target is None or isinstance(target, str)
        self.target_names = () if target is None else (target,) if isinstance(target, str) else tuple(target)
        self.weight_name = sample_weight
        others = {*self.target_names, *([sample_weight] if sample_weight else [])}
        if isinstance(features, str):
            raise ValueError(f"The 'features' argument must be a sequence of column names. Got {features!r}.")
        for name in features or ():
            if name in others:
                raise ValueError(
                    f"The 'features' argument must not name the column {name!r}, which is the "
                    f"{'target' if name in self.target_names else 'sample weight'}."
                )
        self.names = None if features is None else tuple(features)
        n_rows = []
        for file in self.files:
            with self._open(file) as table:
                if self.names is None:
                    self.names = tuple(name for name in table.columns if name not in others)
                if not self.names:
                    raise SourceError(f"{file}: no column is left for X.")
                _require_columns(table, self.wanted)
                n_rows.append(table.n_rows)
        self.n_rows = None if None in n_rows else sum(n for n in n_rows if n is not None)

    @property
    def wanted(self) -> list[str]:
        """Columns read: of X, then targets, then the weight."""
        names = [*(self.names or ()), *self.target_names]
        return names if self.weight_name is None else [*names, self.weight_name]

    def _table(self, file: Path) -> AbstractContextManager[Table]:
        raise NotImplementedError

    @contextmanager
    def _open(self, file: Path) -> Iterator[Table]:
        """The table in a file, whose errors are those of a source."""
        try:
            with self._table(file) as table:
                yield table
        except SourceError:
            raise
        except ValueError as error:
            # The reader of tables speaks to users of the command line.
            raise SourceError(str(error).replace("--encoding", "encoding=")) from None
        except OSError as error:
            raise SourceError(f"{file}: could not be read: {error}") from error

    def raw(self) -> Iterator[tuple[Any, Any, Any, str]]:
        """See `Source`."""
        k = len(self.target_names)
        d = len(self.names or ())
        for file in self.files:
            row = 1
            with self._open(file) as table:
                _require_columns(table, self.wanted)  # the file may have changed since
                for columns in table.numbers(self.wanted, self.batch_size):
                    _require_complete(table, self.wanted, columns, row)
                    X = np.stack(columns[:d], axis=1)
                    y = np.stack(columns[d : d + k], axis=1) if k else None
                    yield X, y, columns[-1] if self.weight_name else None, f"{file}, from row {row} on"
                    row += len(X)


class ParquetSource(TableSource):
    """A Parquet file, or a folder of them, read batch by batch.

    The columns of all files are checked at once; values that are missing or no numbers are found as they are read.

    Parameters
    ----------
    path : path of a file or a folder, or a sequence of paths
        Files of a folder are read in the order of their names.
    target : str, sequence of str or None, default=None
        Column, or columns, of the targets; a source to predict from needs none.
    features : sequence of str or None, default=None
        Columns of X, in this order; None takes all columns of the first file but the target and the weight.
    sample_weight : str or None, default=None
        Column of the sample weights.
    batch_size : int
        Rows given at a time, at most.
    sample_size : int
        See `Source`.
    """

    suffixes = (".parquet", ".pq")

    @contextmanager
    def _table(self, file: Path) -> Iterator[Table]:
        with file.open("rb") as raw:
            yield ParquetTable(str(file), raw)


class CSVSource(TableSource):
    """A CSV file with a header, plain or in gzip, or a folder of them, read batch by batch.

    Parameters
    ----------
    path, target, features, sample_weight, batch_size, sample_size
        See `ParquetSource`.
    delimiter : str or None, default=None
        One character; None takes tabs for files that end in .tsv, and otherwise the one of comma, semicolon, tab and
        bar that the header has most of.
    encoding : str or None, default=None
        None takes UTF-8, or UTF-16 where the file says so.
    """

    suffixes = (".csv", ".csv.gz", ".tsv", ".txt")

    def __init__(self, path: Any, *, delimiter: str | None = None, encoding: str | None = None, **options: Any) -> None:
        if delimiter is not None and (not isinstance(delimiter, str) or len(delimiter) != 1):
            raise ValueError(f"The 'delimiter' argument must be one character, or None. Got {delimiter!r}.")
        self.delimiter, self.encoding = delimiter, encoding
        super().__init__(path, **options)

    def _table(self, file: Path) -> AbstractContextManager[Table]:
        return open_table(str(file), self.encoding, self.delimiter)


def _require_columns(table: Table, wanted: list[str]) -> None:
    missing = [name for name in wanted if name not in table.columns]
    if missing:
        raise SourceError(
            f"{table.name}: there is no column {', '.join(map(repr, missing))}; its columns are "
            f"{', '.join(map(repr, table.columns[:20]))}{', ...' if len(table.columns) > 20 else ''}."
        )


def _require_complete(table: Table, names: list[str], columns: list[Any], first_row: int) -> None:
    for name, values in zip(names, columns, strict=True):
        missing = np.isnan(values)
        if missing.any():
            row = first_row + int(np.argmax(missing))
            raise SourceError(f"{table.name}: column {name!r} has no value in row {row}; drop or fill such rows.")


def _files(path: Any, suffixes: tuple[str, ...]) -> list[Path]:
    if isinstance(path, str | os.PathLike):
        folder = Path(path)
        if folder.is_dir():
            paths = sorted(p for p in folder.rglob("*") if p.is_file() and p.name.endswith(suffixes))
            # Names that begin with a dot or a line are no data: files being written, logs, metadata.
            files = [p for p in paths if not any(name[0] in "._" for name in p.relative_to(folder).parts)]
            if not files:
                raise SourceError(f"{folder}: the folder has no file that ends in {' or '.join(suffixes)}.")
            return files
        path = [folder]
    files = [Path(p) for p in path]
    if not files:
        raise SourceError("There is no file to read: the list of paths is empty.")
    for file in files:
        if not file.is_file():
            raise SourceError(f"{file}: there is no such file.")
    return files
