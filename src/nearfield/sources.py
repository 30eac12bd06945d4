"""Where data come from when they do not fit into memory: files, mapped arrays, batches.

A source gives its rows batch by batch, always in the same order, and as often as it is asked: fitting takes several
passes (a random sample, a few neighbourhoods, the sums). `fit`, `partial_fit` and `predict` of `LocalGPRegressor` and
`FeatureGPRegressor` take a source in place of arrays; `predict_to` writes predictions to a file as they are made.
"""

from typing import Any

from .streaming.batches import Batch, SourceError
from .streaming.output import predict_batches, predict_to
from .streaming.source import ArraySource, BatchSource, Source
from .streaming.table_sources import CSVSource, ParquetSource

__all__ = [
    "ArraySource",
    "Batch",
    "BatchSource",
    "CSVSource",
    "ParquetSource",
    "Source",
    "SourceError",
    "predict_batches",
    "predict_to",
]


def __getattr__(name: str) -> Any:
    """`DaskSource`, which needs Dask and is imported when it is asked for."""
    if name != "DaskSource":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from .streaming.dask import DaskSource
    except ImportError:
        raise ImportError("DaskSource needs Dask: pip install 'nearfield[dask]'.") from None
    return DaskSource
