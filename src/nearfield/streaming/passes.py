"""Passes over data that are too many to hold: reductions, and the first of them, a random sample.

A reduction has a state that takes in batches, and states that can be merged; so it runs over a file batch by batch,
or over the partitions of a cluster side by side, with the same result.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..common.arrays import column_range
from ..common.types import Floats, Integers
from .batches import Batch, SourceError, concatenated

if TYPE_CHECKING:
    from .source import Source


class Reduction:
    """What a pass computes. States may be overwritten by `update` and `finish`, but not by `merge`.

    Attributes
    ----------
    batch_rows : int
        Rows that `update` is given at a time.
    n_features : int or None
        Number of columns that X must have, where it is known.
    """

    batch_rows: int = 1 << 18
    n_features: int | None = None

    def start(self) -> Any:
        """State before any data."""
        raise NotImplementedError

    def update(self, state: Any, batch: Batch) -> Any:
        """State with a batch taken in."""
        raise NotImplementedError

    def merge(self, first: Any, second: Any) -> Any:
        """State of the data of both."""
        raise NotImplementedError

    def finish(self, state: Any) -> Any:
        """Result of the pass."""
        return state

    def owned(self, state: Any) -> Any:
        """A copy of a state as far as `update` and `finish` overwrite it."""
        return state

    def split(self, state: Any) -> list[Any]:
        """Parts of a state, always as many, that can be merged each with its like."""
        return [state]

    @property
    def n_parts(self) -> int:
        """Number of parts that `split` gives."""
        return 1

    def join(self, parts: list[Any]) -> Any:
        """Result of the pass from the results of the parts."""
        return parts[0]


class Passes:
    """Passes over one source, with progress, and a check that each sees the same rows.

    Parameters
    ----------
    source : Source
    progress : callable or None
        Called as `progress(stage, done, rows)`, with `done` from 0 to 1 (0 where the number of rows is not known).
    seen : callable or None
        Makes a reduction one of rows in the columns of the source, where it is of points that are made of them.
    """

    def __init__(
        self,
        source: Source,
        progress: Callable[[str, float, float], None] | None,
        seen: Callable[[Reduction], Reduction] | None = None,
    ) -> None:
        self.source = source
        self.progress = progress
        self.seen = seen
        self.n_rows = source.n_rows
        self.n_used: int | None = None

    def run(self, reduction: Reduction, stage: str) -> Any:
        """Result of one pass."""
        seen = 0

        def report(n: int) -> None:
            nonlocal seen
            seen = n
            if self.progress is not None and n != self.n_rows:
                self.progress(stage, min(n / self.n_rows, 0.99) if self.n_rows else 0.0, float(n))

        result = self.source.run(reduction if self.seen is None else self.seen(reduction), report)
        if self.n_used is not None and seen != self.n_used:
            raise SourceError(
                f"The source gave {seen} rows in the pass '{stage}', but {self.n_used} in the first one. Every pass "
                "needs all rows again: a function for BatchSource must return a fresh iterator each time."
            )
        self.n_used = seen
        if self.progress is not None:
            self.progress(stage, 1.0, float(seen))
        return result


def mixed(ids: Integers, seed: int) -> NDArray[np.uint64]:
    """Random numbers of 64 bits that depend on nothing but the numbers of the rows and the seed (SplitMix64)."""
    with np.errstate(over="ignore"):
        z = ids.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(seed) * np.uint64(0xD1342543DE82EF95)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


@dataclass(eq=False)
class Sampled:
    """A random sample of the rows, and a few sums over all of them."""

    batches: list[Batch]  # candidates for the sample; `Sample.finish` leaves one, in row order
    n: int = 0  # number of all rows
    low: Any = np.inf  # (d,): extremes of the points
    high: Any = -np.inf  # (d,)
    weight: float = 0.0  # sum of the weights
    total: Any = 0.0  # (k,): weighted sum of the targets
    least: Any = np.inf  # (k,): extremes of the targets
    most: Any = -np.inf  # (k,)

    @property
    def rows(self) -> Batch:
        """The sample."""
        return self.batches[0]

    def centred(self) -> tuple[Floats, Floats, Floats | None]:
        """Points, targets less their mean, and weights of the sample."""
        return self.rows.X, self.rows.targets - self.mean, self.rows.weights

    @property
    def mean(self) -> Floats:
        """Weighted mean of the targets; of equal numbers it is just these."""
        result: Floats = np.where(self.least == self.most, self.least, self.total / max(self.weight, 1e-300))
        return result


class Sample(Reduction):
    """Uniform random sample of `size` rows: those with the least random numbers, so that samples can be merged."""

    batch_rows = 1 << 16

    def __init__(self, size: int, seed: int) -> None:
        self.size, self.seed = size, seed

    def start(self) -> Sampled:
        """See `Reduction`."""
        return Sampled([])

    def update(self, state: Sampled, batch: Batch) -> Sampled:
        """See `Reduction`."""
        extremes, of_targets = column_range(batch.X), column_range(batch.targets)
        new = Sampled([batch], len(batch), *extremes, *batch.weighed(), *of_targets)
        return self.merge(state, new)

    def merge(self, first: Sampled, second: Sampled) -> Sampled:
        """See `Reduction`."""
        merged = Sampled(
            first.batches + second.batches,
            first.n + second.n,
            np.minimum(first.low, second.low),
            np.maximum(first.high, second.high),
            first.weight + second.weight,
            first.total + second.total,
            np.minimum(first.least, second.least),
            np.maximum(first.most, second.most),
        )
        if sum(map(len, merged.batches)) > 2 * self.size:
            merged.batches = [self._kept(merged.batches)]
        return merged

    def finish(self, state: Sampled) -> Sampled:
        """See `Reduction`."""
        if state.n:
            kept = self._kept(state.batches)
            state.batches = [kept[np.argsort(kept.ids, kind="stable")]]
        return state

    def split(self, state: Sampled) -> list[Sampled]:
        """See `Reduction`: with no more rows than can be of use."""
        return [replace(state, batches=[self._kept(state.batches)]) if state.batches else state]

    def _kept(self, batches: list[Batch]) -> Batch:
        rows = concatenated(batches)
        if len(rows) <= self.size:
            return rows
        return rows[np.argpartition(mixed(rows.ids, self.seed), self.size - 1)[: self.size]]
