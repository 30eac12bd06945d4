"""Sets of places: which group each place belongs to, and how much it counts there."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..common.types import Floats, Integers
from ..common.validation import as_numbers, without_na
from ..local.covariance import Conditioning, variances_of_sums


class Groups(NamedTuple):
    """Places of groups, checked.

    Attributes
    ----------
    labels : ndarray of shape (G,)
        In sorted order.
    owner : ndarray of shape (m,)
        Group of each place; -1 where it has none.
    weights : ndarray of shape (m,)
        Shares of the mean, or of the total, that places have.
    total : ndarray of shape (G,)
        Sum of the weights.
    """

    labels: Any
    owner: Integers
    weights: Floats
    total: Floats

    @classmethod
    def of(cls, m: int, groups: Any, weights: Any, is_total: bool) -> Groups:
        """From labels (m,), of which missing ones stand for no group, and weights (m,) or None."""
        labels, owner = _labelled(m, groups)
        numbers = np.ones(m) if weights is None else as_numbers(weights)
        if numbers.shape != (m,):
            raise ValueError(f"The 'weights' argument must have one number for each of the {m} places.")
        if not np.all(np.isfinite(numbers) & (numbers >= 0)):
            raise ValueError("The 'weights' argument must be finite numbers of at least 0.")
        inside = owner >= 0
        total = np.bincount(owner[inside], numbers[inside], len(labels))
        if np.any(total == 0):
            raise ValueError(f"The 'weights' argument sums to zero in group {labels[int(np.argmin(total))]!r}.")
        shares = np.zeros(m)
        shares[inside] = numbers[inside] if is_total else numbers[inside] / total[owner[inside]]
        return cls(labels, owner, shares, total)

    @property
    def n_places(self) -> Integers:
        """Number of places of each group, (G,)."""
        return np.bincount(self.owner[self.owner >= 0], minlength=len(self.labels))

    def variances(
        self, given: Conditioning, places: Floats, n_jobs: int | None, factors: Floats | None = None
    ) -> Floats:
        """Variances (G,) of the weighted sums of a Gaussian process at places (m, d), as the kernel sees them.

        `factors` (m,) are what the function is multiplied by.
        """
        inside, weights = self.owner >= 0, self.weights if factors is None else self.weights * factors
        sums = (self.owner[inside], weights[inside], len(self.labels))
        return variances_of_sums(given, places[inside], *sums, n_jobs)

    def sums(self, values: Floats, rows: slice | Integers = slice(None)) -> Floats:
        """Weighted sums (G, ...) of values (m, ...) at some places, by group."""
        owner, weights = self.owner[rows], self.weights[rows]
        inside = owner >= 0
        shape = values.shape[1:]
        scaled = (values[inside].reshape(int(inside.sum()), -1).T * weights[inside]).T
        result = np.zeros((len(self.labels), scaled.shape[1]))
        order = np.argsort(owner[inside], kind="stable")
        present, starts = np.unique(owner[inside][order], return_index=True)
        if len(present):
            result[present] = np.add.reduceat(scaled[order], starts, axis=0)
        return result.reshape(len(self.labels), *shape)

    def maxima(self, values: Floats, rows: slice | Integers = slice(None)) -> Floats:
        """Largest values (G, ...) at some places, by group; minus infinity where there are none."""
        owner = self.owner[rows]
        inside = owner >= 0
        result = np.full((len(self.labels), *values.shape[1:]), -np.inf)
        order = np.argsort(owner[inside], kind="stable")
        present, starts = np.unique(owner[inside][order], return_index=True)
        if len(present):
            result[present] = np.maximum.reduceat(values[inside][order], starts, axis=0)
        return result


def _labelled(m: int, groups: Any) -> tuple[Any, Integers]:
    labels = np.asarray(without_na(groups))
    if labels.shape != (m,):
        raise ValueError(
            f"The 'groups' argument must have one label for each of the {m} places. Got an array of shape "
            f"{labels.shape}."
        )
    if labels.dtype.kind == "f":
        missing = np.isnan(labels)
    elif labels.dtype.kind == "O":
        missing = np.array([label is None or label != label for label in labels], dtype=bool)
        if len({isinstance(label, str) for label in labels[~missing]}) > 1:
            raise ValueError("The 'groups' argument must have labels of one kind, all words or all numbers.")
    else:
        missing = np.zeros(m, dtype=bool)
    present = labels[~missing]
    if len(present) == 0:
        raise ValueError("The 'groups' argument has no labels, so that there are no areas.")
    if present.dtype.kind == "O" and isinstance(present[0], str):
        present = present.astype(str)
    distinct, inverse = np.unique(present, return_inverse=True)
    owner = np.full(m, -1, dtype=np.int64)
    owner[~missing] = inverse.reshape(-1)
    return distinct, owner
