"""Tables in files and pipes: CSV, TSV, the same in gzip, and Parquet, read and written in batches of rows."""

from .parquet import ParquetTable
from .reading import open_table
from .table import BadValueError, Table, TableRows
from .writing import check_writable, write_table

__all__ = ["BadValueError", "ParquetTable", "Table", "TableRows", "check_writable", "open_table", "write_table"]
