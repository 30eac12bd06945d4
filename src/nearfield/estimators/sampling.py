"""The first pass over a source: a sample of its rows, and what scikit-learn wants to know of its columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..common.validation import check_n_targets
from ..solvers.statistics import Statistics
from ..streaming.batches import Batch, SourceError
from ..streaming.passes import Passes, Reduction, Sample, Sampled

if TYPE_CHECKING:
    from .base import GPRegressor
    from .feature import FeatureGPRegressor


def take_sample(model: GPRegressor, passes: Passes, rng: np.random.RandomState) -> Sampled:
    """Random sample of the rows; sets the model's names and number of columns."""
    source = passes.source
    sampled: Sampled = passes.run(Sample(source.sample_size, int(rng.randint(2**31 - 1))), "sample")
    least = model._least_samples()
    if sampled.n < least:
        raise SourceError(f"The source has {sampled.n} rows (of positive weight), but a fit needs at least {least}.")
    model.n_features_in_ = sampled.rows.X.shape[1]
    model._single_target = source.single_target and sampled.rows.targets.shape[1] == 1
    if source.names is not None:
        if len(source.names) != model.n_features_in_:
            raise SourceError(f"The source names {len(source.names)} columns, but X has {model.n_features_in_}.")
        model.feature_names_in_ = np.array(source.names, dtype=object)
    return sampled


class FeatureSums(Reduction):
    """The sums of a model with one feature map; None before any data."""

    batch_rows = 1 << 16

    def __init__(self, model: FeatureGPRegressor) -> None:
        self.model, self.n_features = model, model.n_features_in_

    def start(self) -> None:
        """See `Reduction`."""
        return

    def update(self, state: Statistics | None, batch: Batch) -> Statistics:
        """See `Reduction`."""
        check_n_targets(batch.targets.shape[1], len(self.model._offset))
        new = self.model._sums(batch.X, batch.targets - self.model._offset, batch.weights)
        return new if state is None else state + new

    def merge(self, first: Statistics | None, second: Statistics | None) -> Statistics | None:
        """See `Reduction`."""
        return first + second if first is not None and second is not None else first or second
