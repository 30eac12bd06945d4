"""Batches of rows, checked, cut and put together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..common.types import Floats, Integers
from ..common.validation import column_at_fault, refuse_masked, refuse_without_squares
from ..local.frame import Frame
from ..local.neighbourhoods import TrainingSet

PARTITION_BITS = 40  # of a row's number, that count rows within a partition


class SourceError(ValueError):
    """A source that cannot be read; the message names the file or the batch."""


@dataclass(frozen=True, eq=False)
class Batch:
    """Some rows of a source.

    Attributes
    ----------
    X : ndarray of shape (n, d)
    y : ndarray of shape (n, k) or None
    weights : ndarray of shape (n,) or None
        Positive.
    ids : ndarray of shape (n,)
        A number of its own for each row, the same in every pass.
    """

    X: Floats
    y: Floats | None
    weights: Floats | None
    ids: Integers

    def __len__(self) -> int:
        return len(self.X)

    def __getitem__(self, rows: Any) -> Batch:
        y = None if self.y is None else self.y[rows]
        return Batch(self.X[rows], y, None if self.weights is None else self.weights[rows], self.ids[rows])

    def in_frame(self, frame: Frame) -> TrainingSet:
        """The rows in length scales, with targets less an offset."""
        return TrainingSet.of(*frame.rows(self.X, self.targets, self.weights))

    def weighed(self) -> tuple[float, Floats]:
        """Sum of the weights, and weighted sum (k,) of the targets."""
        if self.weights is None:
            return float(len(self)), self.targets.sum(axis=0)
        return float(self.weights.sum()), self.weights @ self.targets

    @property
    def targets(self) -> Floats:
        """Targets, which a pass of a fit can rely on."""
        assert self.y is not None
        return self.y


def check_batch(
    X: Any, y: Any, weights: Any, where: str, start: int, with_y: bool = True, n_features: int | None = None
) -> Batch:
    """Batch of what a source gave, as float64 and without rows of weight 0, or an error that says where it is wrong."""
    points = _numbers(X, "X", where)
    if points.ndim != 2 or points.shape[1] == 0:
        raise SourceError(f"{where}: X must have two dimensions, rows and columns. Got shape {points.shape}.")
    if n_features is not None and points.shape[1] != n_features:
        raise SourceError(f"{where}: X has {points.shape[1]} columns, but {n_features} are expected.")
    targets = None
    if y is not None:
        targets = _numbers(y, "y", where)
        if targets.ndim not in (1, 2) or len(targets) != len(points):
            raise SourceError(f"{where}: y has shape {targets.shape}, but X has {len(points)} rows.")
        targets = targets[:, None] if targets.ndim == 1 else targets
        refuse_without_squares(targets)
    elif with_y:
        raise SourceError(f"{where}: there are no targets, which a fit needs.")
    if weights is not None:
        weights = _numbers(weights, "sample_weight", where)
        if weights.shape != (len(points),) or np.any(weights < 0):
            raise SourceError(f"{where}: sample weights must be one number of at least 0 for each row.")
    batch = Batch(points, targets, weights, np.arange(start, start + len(points)))
    return batch if weights is None or np.all(weights > 0) else batch[weights > 0]


def _numbers(values: Any, name: str, where: str) -> Floats:
    refuse_masked(values, name, f"{where}: ")
    try:
        numbers = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise SourceError(f"{where}: {name} must hold numbers only ({column_at_fault(values)}{error}).") from None
    finite = np.isfinite(numbers)
    if not np.all(finite):
        row, *column = map(int, np.argwhere(~finite)[0])
        names = getattr(values, "columns", None)
        if column:
            name = f"column {names[column[0]]!r} of {name}" if names is not None else f"column {column[0]} of {name}"
        raise SourceError(f"{where}: {name} has a NaN or infinity in row {row} of the batch; drop or fill such rows.")
    return numbers


def row_in_words(number: int) -> str:
    """Which row of a source has this number."""
    partition, row = number >> PARTITION_BITS, number & ((1 << PARTITION_BITS) - 1)
    return f"row {row} of partition {partition}" if partition else f"row {row}"


def rebatched(batches: Iterable[Batch], n_rows: int) -> Iterator[Batch]:
    """The same rows in batches of `n_rows`, but for the last."""
    held: list[Batch] = []
    for batch in batches:
        held.append(batch)
        n = sum(map(len, held))
        if n >= n_rows:
            whole = concatenated(held)
            for start in range(0, n - n_rows + 1, n_rows):
                yield whole[start : start + n_rows]
            held = [whole[n - n % n_rows :]] if n % n_rows else []
    if held:
        yield concatenated(held)


def concatenated(batches: list[Batch]) -> Batch:
    """One batch of several, at least one."""
    if len(batches) == 1:
        return batches[0]
    has_y, has_weights = batches[0].y is not None, [b.weights is not None for b in batches]
    weights = None
    if any(has_weights):
        weights = np.concatenate([np.ones(len(b)) if b.weights is None else b.weights for b in batches])
    return Batch(
        np.concatenate([b.X for b in batches]),
        np.concatenate([b.targets for b in batches]) if has_y else None,
        weights,
        np.concatenate([b.ids for b in batches]),
    )
