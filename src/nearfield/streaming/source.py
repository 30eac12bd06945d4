"""The interface of sources, and those that need no library: arrays, and batches from a function."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from ..common.validation import is_whole
from .batches import Batch, SourceError, check_batch, rebatched
from .passes import Reduction

BATCH_ROWS = 1 << 16
SAMPLE_ROWS = 100_000


class Source:
    """Rows in batches, in a fixed order, as often as they are asked for.

    A source of your own needs `raw`, `names` and `n_rows`.

    Parameters
    ----------
    sample_size : int
        Rows of the random sample that hyperparameters and centres are learnt from. A source of no more rows than that
        is read into memory and fitted there.

    Attributes
    ----------
    names : tuple of str or None
        Names of the columns of X.
    n_rows : int or None
        Number of rows where it is known beforehand.
    single_target : bool
        Whether predictions have one dimension.
    """

    names: tuple[str, ...] | None = None
    n_rows: int | None = None
    single_target: bool = True

    def __init__(self, sample_size: int = SAMPLE_ROWS) -> None:
        self.sample_size = check_count("sample_size", sample_size, 2)

    def raw(self) -> Iterator[tuple[Any, Any, Any, str]]:
        """X, y or None, sample weights or None, and where they are from (for messages), batch by batch."""
        raise NotImplementedError

    def batches(self, with_y: bool = True, n_features: int | None = None) -> Iterator[Batch]:
        """Checked batches, in row order; batches without rows, and rows of weight 0, are left out.

        Parameters
        ----------
        with_y : bool, default=True
            Whether targets must be there; they and the weights are left out otherwise.
        n_features : int or None, default=None
            Number of columns that X must have.
        """
        start = 0
        n_targets: int | None = None
        for X, y, weights, where in self.raw():
            if len(X) == 0:
                continue
            y, weights = (y, weights) if with_y else (None, None)
            batch = check_batch(X, y, weights, where, start, with_y, n_features)
            n_features = batch.X.shape[1]
            if batch.y is not None:
                if n_targets is not None and batch.y.shape[1] != n_targets:
                    raise SourceError(f"{where}: y has {batch.y.shape[1]} columns, but {n_targets} are expected.")
                n_targets = batch.y.shape[1]
            start += len(X)
            if len(batch):
                yield batch

    def of_target(self, j: int) -> Source:
        """The same rows with one of several targets."""
        return TargetSource(self, j)

    def run(self, reduction: Reduction, report: Callable[[int], None]) -> Any:
        """One pass: the result of a reduction over all rows; `report` is told the rows seen so far."""
        state, n = reduction.start(), 0
        for batch in rebatched(self.batches(n_features=reduction.n_features), reduction.batch_rows):
            state = reduction.update(state, batch)
            n += len(batch)
            report(n)
        return reduction.finish(state)


class ArraySource(Source):
    """Arrays that are read slice by slice and never copied whole: memory maps, or anything that slices by rows.

    Parameters
    ----------
    X : array of shape (n, d)
    y : array of shape (n,) or (n, k), or None
    sample_weight : array of shape (n,) or None
    batch_size : int
        Rows read at a time.
    sample_size : int
        See `Source`.
    """

    def __init__(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        batch_size: int = BATCH_ROWS,
        sample_size: int = SAMPLE_ROWS,
    ) -> None:
        super().__init__(sample_size)
        if not hasattr(X, "shape") or len(X.shape) != 2:
            raise ValueError(f"The 'X' argument must be an array of two dimensions. Got {type(X).__name__}.")
        for name, values in (("y", y), ("sample_weight", sample_weight)):
            if values is not None and len(values) != len(X):
                raise ValueError(f"The {name!r} argument has {len(values)} rows, but X has {len(X)}.")
        self.X, self.y, self.sample_weight = X, y, sample_weight
        self.batch_size, self.n_rows = check_count("batch_size", batch_size), len(X)
        self.single_target = y is None or np.ndim(y) == 1

    def raw(self) -> Iterator[tuple[Any, Any, Any, str]]:
        """See `Source`."""
        for start in range(0, len(self.X), self.batch_size):
            rows = slice(start, min(start + self.batch_size, len(self.X)))
            y = None if self.y is None else self.y[rows]
            weights = None if self.sample_weight is None else self.sample_weight[rows]
            yield self.X[rows], y, weights, f"Rows {rows.start} to {rows.stop - 1}"


class TargetSource(Source):
    """The rows of a source with one of its targets."""

    def __init__(self, source: Source, j: int) -> None:
        super().__init__(source.sample_size)
        self.source, self.j = source, j
        self.names, self.n_rows = source.names, source.n_rows

    def raw(self) -> Iterator[tuple[Any, Any, Any, str]]:
        """See `Source`."""
        for X, y, weights, where in self.source.raw():
            yield X, None if y is None else column_of(y, self.j), weights, where


def column_of(y: Any, j: int) -> Any:
    """One of several targets of a batch, in the kind of array or table that they are."""
    return y.iloc[:, j] if hasattr(y, "iloc") else np.asanyarray(y)[:, j]


class BatchSource(Source):
    """Batches from a function that starts them afresh each time it is called.

    Parameters
    ----------
    start : callable
        Takes nothing and gives an iterator of batches: X, or (X, y), or (X, y, sample_weight). It is called once for
        every pass, and must give the same rows in the same order each time.
    names : sequence of str or None
        Names of the columns of X.
    n_rows : int or None
        Number of rows if known, for the display of progress.
    sample_size : int
        See `Source`.
    """

    def __init__(
        self,
        start: Callable[[], Iterable[Any]],
        *,
        names: Iterable[str] | None = None,
        n_rows: int | None = None,
        sample_size: int = SAMPLE_ROWS,
    ) -> None:
        super().__init__(sample_size)
        if not callable(start):
            raise TypeError(
                f"The 'start' argument must be a function that returns a fresh iterator of batches. Got "
                f"{type(start).__name__}, which can be read only once, and fitting takes several passes; save such "
                "data to a file first, or take them in batch by batch with partial_fit."
            )
        self.start, self.n_rows = start, n_rows
        self.names = None if names is None else tuple(names)

    def raw(self) -> Iterator[tuple[Any, Any, Any, str]]:
        """See `Source`."""
        i, n = 0, 0
        iterator: Iterator[Any] | None = None
        while True:
            where = f"Batch {i} (from row {n} on)"
            try:
                iterator = iter(self.start()) if iterator is None else iterator
                item = next(iterator)
            except StopIteration:
                return
            except Exception as error:
                raise SourceError(f"{where} could not be read: {type(error).__name__}: {error}") from error
            values = item if isinstance(item, tuple) else (item,)
            if not 1 <= len(values) <= 3:
                raise SourceError(f"{where} must be X, (X, y) or (X, y, sample_weight). Got {len(values)} parts.")
            X, y, weights = (*values, None, None)[:3]
            self.single_target = y is None or np.ndim(y) == 1
            yield X, y, weights, where
            i, n = i + 1, n + len(X)


def check_count(name: str, value: Any, minimum: int = 1) -> int:
    """A number of rows given as an argument."""
    if not is_whole(value, minimum):
        raise ValueError(f"The {name!r} argument must be an integer of at least {minimum}. Got {value!r}.")
    return int(value)
