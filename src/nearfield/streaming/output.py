"""Predictions for a source: batch by batch, in row order, to memory or to a file."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..common.types import Floats
from .batches import Batch, SourceError, rebatched
from .inputs import as_source
from .source import Source
from .tables import write_table

PREDICTED_ROWS = 1 << 18  # at a time: so many that each centre has work worth the call


def predict_batches(
    model: Any, source: Source, return_std: bool = False, include_noise: bool = False
) -> Iterator[tuple[Floats, Floats | None]]:
    """Means, and standard deviations on request, of one batch of a source after the other, in row order.

    Parameters
    ----------
    model : LocalGPRegressor or FeatureGPRegressor, fitted
    source : Source
        Its targets and weights, if any, are left alone.
    return_std, include_noise : bool, default=False
        See `predict` of the model.

    Returns
    -------
    predictions : iterator of pairs
        Means of shape (m,) or (m, n_targets), and standard deviations of the same shape, or None.
    """
    return _predictions(model, _rows(model, source), return_std, include_noise)


def _predictions(
    model: Any, batches: Iterable[Batch], return_std: bool, include_noise: bool
) -> Iterator[tuple[Floats, Floats | None]]:
    for batch in batches:
        answer = model._predict_points(model._rows_of_source(batch.X), return_std, include_noise)
        yield answer if return_std else (answer, None)


def check_fitted_on(model: Any, source: Source) -> None:
    """Refuse a model that is not fitted, and a source whose columns are not those of the fit."""
    check_is_fitted(model, "kernel_")
    fitted = getattr(model, "feature_names_in_", None)
    if fitted is not None and source.names is not None and tuple(fitted) != source.names:
        raise SourceError(
            f"The source has the columns {', '.join(source.names)}, but the model was fitted with {', '.join(fitted)}; "
            "name these as the source's features."
        )


def _rows(model: Any, source: Source) -> Iterator[Batch]:
    check_fitted_on(model, source)
    n, total, progress = 0, source.n_rows, model._check_progress()
    for batch in source.batches(with_y=False, n_features=model.n_features_in_):
        model._check_degrees(batch.X, first=n)
        yield batch
        n += len(batch)
        if progress is not None and n != total:
            progress("prediction", min(n / total, 0.99) if total else 0.0, float(n))
    if progress is not None:
        progress("prediction", 1.0, float(n))


def predict_source(model: Any, source: Source, return_std: bool, include_noise: bool) -> Any:
    """All predictions for a source, in memory; for a Dask collection, Dask arrays that compute them."""
    check_fitted_on(model, source)
    if hasattr(source, "predict"):
        return source.predict(model, return_std, include_noise)
    batches = rebatched(_rows(model, source), PREDICTED_ROWS)
    answers = list(_predictions(model, batches, return_std, include_noise))
    if not answers:
        empty = model._predict_points(np.empty((0, model.n_features_in_)), return_std, include_noise)
        answers = [empty if return_std else (empty, None)]
    mean = np.concatenate([means for means, _ in answers])
    return (mean, np.concatenate([stds for _, stds in answers if stds is not None])) if return_std else mean


def points_of(model: Any, source: Source) -> Iterator[Floats]:
    """Points (m, d) of one large batch of a source after the other, in row order; at least one, which may be empty."""
    check_fitted_on(model, source)
    is_empty = True
    for batch in rebatched(_rows(model, source), PREDICTED_ROWS):
        is_empty = False
        yield model._rows_of_source(batch.X)
    if is_empty:
        yield np.empty((0, model.n_features_in_))


def predict_to(
    model: Any, source: Any, path: str | os.PathLike[str], *, return_std: bool = True, include_noise: bool = False
) -> int:
    """Write predictions for a source to a Parquet or CSV file, one row for each of the source's, in their order.

    The file appears when it is complete; where anything goes wrong on the way there is none, and one that was there
    before is left alone. Columns are `mean` and `std`, with the number of the target behind them where there are
    several.

    Parameters
    ----------
    model : LocalGPRegressor or FeatureGPRegressor, fitted
    source : Source
    path : path of a file that ends in .parquet, .pq or .csv
    return_std : bool, default=True
    include_noise : bool, default=False
        See `predict` of the model.

    Returns
    -------
    n_rows : int
        Number of rows written.
    """
    source = as_source(source, None, None) or source
    if not isinstance(source, Source):
        raise TypeError(f"The 'source' argument must be a source of nearfield.sources. Got {type(source).__name__}.")
    target = Path(path)
    if target.suffix not in (".parquet", ".pq", ".csv"):
        raise ValueError(f"The 'path' argument must end in .parquet, .pq or .csv. Got {str(target)!r}.")
    check_is_fitted(model, "kernel_")
    k, n = len(model.y_mean_), 0
    kinds = ("mean", "std") if return_std else ("mean",)
    names = [kind if k == 1 else f"{kind}_{i}" for kind in kinds for i in range(k)]
    with write_table(str(target), names, ["float64"] * len(names)) as writer:
        batches = rebatched(_rows(model, source), PREDICTED_ROWS)
        for answers in _predictions(model, batches, return_std, include_noise):
            columns = [values.reshape(-1, k) for values in answers if values is not None]
            writer.write(list(np.concatenate(columns, axis=1).T))
            n += len(columns[0])
    return n
