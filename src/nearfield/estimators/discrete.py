"""Targets that are not measured but counted, or yes and no: a warning that intervals are those of a normal target."""

from __future__ import annotations

import numpy as np

from ..common.types import Floats
from ..common.warnings import warn

LEAST_ROWS = 20  # of which more than two values are expected of a measurement
LARGEST_MEAN = 5.0  # of counts: beyond, a Poisson distribution is nearly normal
LEAST_SKEWNESS = LARGEST_MEAN**-0.5  # of a Poisson distribution with that mean; grades from 0 on have less
NOT_NORMAL = "intervals, quantiles and the NLL are those of a normal target"


def warn_of_discrete(y: Floats, is_transformed: bool = False) -> None:
    """Warn of targets (n, k) that take two values only, or are small counts; the latter not where transformed."""
    for column in y.T if len(y) >= LEAST_ROWS else ():
        first, last = float(column.min()), float(column.max())
        if first < last and np.all((column == first) | (column == last)):
            probability = "as the probability of 1 at most" if (first, last) == (0.0, 1.0) else "as a score at most"
            warn(
                f"y takes two values only, {first:g} and {last:g}, but {NOT_NORMAL}, and mean nothing here: read the "
                f"mean {probability}, or use a classifier, such as HistGradientBoostingClassifier or "
                "GaussianProcessClassifier of scikit-learn."
            )
            return
        if first == 0 < last and not is_transformed and _are_small_counts(column):
            warn(
                f"y holds small counts, whole numbers from 0 with a mean of {column.mean():.2g}, but {NOT_NORMAL}, and "
                "reach below 0: take target='sqrt' of LocalGPRegressor, or a model of counts, such as "
                "HistGradientBoostingRegressor(loss='poisson') of scikit-learn."
            )
            return


def _are_small_counts(column: Floats) -> bool:
    """Whether numbers (n,) are whole, and small and skewed as those of a Poisson distribution of small mean."""
    mean, spread = column.mean(), column.std()
    skewness = np.mean(((column - mean) / spread) ** 3)
    return bool(mean < LARGEST_MEAN and skewness > LEAST_SKEWNESS and np.all(column == np.rint(column)))
