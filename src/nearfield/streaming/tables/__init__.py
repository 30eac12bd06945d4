"""Tables in files and pipes: CSV, TSV, the same in gzip, and Parquet, read and written in batches of rows."""

from .reading import BATCH, BadValueError, Batch, Table, open_table
from .writing import Writer, check_writable, write_table

__all__ = ["BATCH", "BadValueError", "Batch", "Table", "Writer", "check_writable", "open_table", "write_table"]
