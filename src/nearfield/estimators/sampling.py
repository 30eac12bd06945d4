"""The first pass over a source: a sample of its rows, and what scikit-learn wants to know of its columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..streaming.batches import SourceError
from ..streaming.passes import Passes, Sample, Sampled

if TYPE_CHECKING:
    from ._base import GPRegressor


def take_sample(model: GPRegressor, passes: Passes, rng: np.random.RandomState) -> Sampled:
    """Random sample of the rows; sets the model's names and number of columns."""
    source = passes.source
    sampled: Sampled = passes.run(Sample(source.sample_size, int(rng.randint(2**31 - 1))), "sample")
    least = model._least_samples()
    if sampled.n < least:
        raise SourceError(f"The source has {sampled.n} rows (of positive weight), but a fit needs at least {least}.")
    model.n_features_in_ = sampled.rows.X.shape[1]
    model._single_target = source.single_target and sampled.rows.targets.shape[1] == 1
    if hasattr(model, "feature_names_in_"):
        del model.feature_names_in_
    if source.names is not None:
        if len(source.names) != model.n_features_in_:
            raise SourceError(f"The source names {len(source.names)} columns, but X has {model.n_features_in_}.")
        model.feature_names_in_ = np.array(source.names, dtype=object)
    return sampled
