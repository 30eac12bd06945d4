"""What `fit` and `predict` are given as X: which of it is a source."""

from __future__ import annotations

import os
from typing import Any

from numpy.typing import ArrayLike

from .source import Source


def refuse_source(estimator: object, X: Any) -> None:
    """Refuse a source where all of X must be in memory."""
    if isinstance(X, Source):
        raise TypeError(
            f"{type(estimator).__name__} needs all of X in memory and takes no source: LocalGPRegressor and "
            "FeatureGPRegressor do."
        )


def as_source(X: Any, y: ArrayLike | None, sample_weight: ArrayLike | None) -> Source | None:
    """`X` if it is a source, a source of it if it is a Dask collection, and None for anything else."""
    if isinstance(X, str | os.PathLike):
        raise TypeError(
            f"The 'X' argument is the path {str(X)!r}; say how to read it: nearfield.sources has ParquetSource and "
            "CSVSource."
        )
    if isinstance(X, Source):
        for name, value in (("y", y), ("sample_weight", sample_weight)):
            if value is not None:
                raise ValueError(f"The {name!r} argument must be None where X is a source, which holds it already.")
        return X
    if type(X).__module__.partition(".")[0] in ("dask", "dask_expr"):
        from .dask import DaskSource

        return DaskSource(X, y, sample_weight)
    return None
