"""Tables in files and pipes: CSV, TSV, the same in gzip, and Parquet, read and written in batches of rows."""

from .parquet import ParquetTable
from .reading import Table, TableRows, open_table
from .text import BATCH
from .values import BadValueError
from .writing import Writer, check_writable, write_table

__all__ = [
    "BATCH",
    "BadValueError",
    "ParquetTable",
    "Table",
    "TableRows",
    "Writer",
    "check_writable",
    "open_table",
    "write_table",
]
