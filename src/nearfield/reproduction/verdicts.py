"""Results against the paper's: differences in standard errors, and what to make of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

AGREES, DIFFERS, SAME_SIZE, OTHER_SIZE, NONE = "agrees", "differs", "same size", "other size", "not published"
LIMIT = 3.0  # standard errors
FACTOR = 3.0  # within which two means are of the same size


@dataclass(frozen=True)
class Comparison:
    """One measure of one cell: our mean and spread, the published ones, their difference in standard errors."""

    mean: float
    std: float
    n: int
    published: float | None = None
    published_std: float | None = None
    runs: int | None = None
    z: float | None = None
    verdict: str = NONE


def compare(
    values: Sequence[float],
    published: float | None = None,
    published_std: float | None = None,
    runs: int | None = None,
    *,
    same_data: bool = True,
) -> Comparison:
    """Hold one value per seed against a published mean.

    The standard error of the difference is that of both means, `sqrt(s1^2 / n1 + s2^2 / n2)`; a single seed borrows the
    published spread. On other data than the paper's only the size is compared.
    """
    sample = np.asarray(values, dtype=float)
    mean, n = float(sample.mean()), len(sample)
    std = float(sample.std(ddof=1)) if n > 1 else 0.0
    if published is None or published_std is None or runs is None:
        return Comparison(mean, std, n)
    error = math.hypot((std if n > 1 else published_std) / n**0.5, published_std / runs**0.5)
    z = (mean - published) / error if error > 0 else (0.0 if mean == published else math.inf)
    if same_data:
        verdict = AGREES if abs(z) <= LIMIT else DIFFERS
    else:
        alike = published > 0 and mean > 0 and 1 / FACTOR <= mean / published <= FACTOR
        verdict = SAME_SIZE if alike else OTHER_SIZE
    return Comparison(mean, std, n, published, published_std, runs, z, verdict)
