"""The first pass over a source: a sample of its rows, and what scikit-learn wants to know of its columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ..common import memory
from ..common.types import Floats
from ..common.validation import check_n_targets
from ..solvers.statistics import Statistics
from ..streaming.batches import Batch, SourceError, row_in_words
from ..streaming.on_earth import OnEarth
from ..streaming.passes import Passes, Reduction, Sample, Sampled
from ..streaming.source import Source
from .discrete import warn_of_discrete
from .places import sphere_for
from .rotated import refuse_rows_of_rotated

if TYPE_CHECKING:
    from .base import GPRegressor
    from .feature import FeatureGPRegressor


def take_sample(model: GPRegressor, passes: Passes, rng: np.random.RandomState) -> Sampled:
    """Random sample of the rows; sets the model's names, number of columns, and whether they are places on the earth.

    From then on passes are over points as the kernel sees them, and so is the sample: one pass more on the earth.
    """
    source = passes.source
    sample = Sample(source.sample_size, int(rng.randint(2**31 - 1)))
    sampled: Sampled = passes.run(sample, "sample")
    least = model._least_samples()
    if sampled.n < least:
        raise SourceError(f"The source has {sampled.n} rows (of positive weight), but a fit needs at least {least}.")
    model.n_features_in_ = sampled.rows.X.shape[1]
    model._single_target = source.single_target and sampled.rows.targets.shape[1] == 1
    if source.names is not None:
        if len(source.names) != model.n_features_in_:
            raise SourceError(f"The source names {len(source.names)} columns, but X has {model.n_features_in_}.")
        model.feature_names_in_ = np.array(source.names, dtype=object)
    ids = sampled.rows.ids
    model._sphere = sphere_for(model, sampled.rows.X, lambda i: row_in_words(int(ids[i])))
    passes.seen = rows_seen_by(model)
    if passes.seen is not None:
        sampled = passes.run(sample, "sample")
    model._box = np.stack([sampled.low, sampled.high])
    warn_of_discrete(sampled.rows.targets)
    return sampled


def rows_seen_by(model: GPRegressor) -> Callable[[Reduction], Reduction] | None:
    """What makes of reductions of points as the kernel sees them such of rows; None where these are the same."""
    sphere = model._sphere
    return None if sphere is None else lambda reduction: OnEarth(reduction, sphere, model._coordinate_names())


def whole_rows(model: GPRegressor, source: Source) -> tuple[Any, Floats, Floats | None]:
    """All rows of a source, its targets and weights, for a local model whose columns have roles.

    What drift columns tell takes neighbours among all rows, so that sums over batches do not do.
    """
    refuse_rows_of_rotated(model)
    passes = Passes(source, model._check_progress())
    sampled: Sampled = passes.run(Sample(source.sample_size, 0), "sample")
    if sampled.n == 0:
        raise SourceError("The source has 0 rows (of positive weight).")
    memory.require(
        8.0 * sampled.n * (14 * sampled.rows.X.shape[1] + 40),
        f"A local model of {sampled.n} samples, with columns that have roles,",
        "FeatureGPRegressor takes such columns batch by batch.",
    )
    if sampled.n > source.sample_size:
        sampled = passes.run(Sample(sampled.n, 0), "rows")
    rows = sampled.rows
    y = rows.targets[:, 0] if source.single_target else rows.targets
    if source.names is None:
        return rows.X, y, rows.weights
    import pandas as pd

    return pd.DataFrame(rows.X, columns=list(source.names)), y, rows.weights


class FeatureSums(Reduction):
    """The sums of a model with one feature map; None before any data."""

    batch_rows = 1 << 16

    def __init__(self, model: FeatureGPRegressor) -> None:
        self.model = model
        self.n_features = model._n_inner if model._roles is None else model.n_features_in_

    def start(self) -> None:
        """See `Reduction`."""
        return

    def update(self, state: Statistics | None, batch: Batch) -> Statistics:
        """See `Reduction`."""
        check_n_targets(batch.targets.shape[1], len(self.model._offset))
        new = self.model._sums_of_rows(batch.X, batch.targets, batch.weights)
        return new if state is None else state + new

    def merge(self, first: Statistics | None, second: Statistics | None) -> Statistics | None:
        """See `Reduction`."""
        return first + second if first is not None and second is not None else first or second
