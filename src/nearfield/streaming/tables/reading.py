"""Opening tables."""

from __future__ import annotations

import gzip
import io
import sys
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from .parquet import ParquetTable
from .table import Table
from .text import TextTable


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
        file: Any = sys.stdin.buffer if path == "-" else stack.enter_context(Path(path).open("rb"))
        start = file.peek(4)[:4] if hasattr(file, "peek") else b""
        if start == b"PAR1":
            yield ParquetTable(name, file if file.seekable() else io.BytesIO(file.read()))
            return
        if start == b"PK\x03\x04":
            raise ValueError(f"{name} is a zip archive or a spreadsheet: save the table as CSV.")
        raw = stack.enter_context(gzip.open(file, "rb")) if start[:2] == b"\x1f\x8b" else file
        size = 0 if path == "-" else Path(path).stat().st_size
        try:
            table = TextTable(name, raw, lambda: file.tell() / size if size else 0.0, encoding, delimiter)
            yield table
            table.detach()
        except (EOFError, zlib.error, gzip.BadGzipFile):
            raise ValueError(f"{name} is damaged: its gzip stream ends early or is no such stream.") from None
