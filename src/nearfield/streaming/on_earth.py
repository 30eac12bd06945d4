"""Passes over rows of longitude and latitude, which a reduction sees as points of a sphere in km."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ..common.sphere import N_CHORD_COLUMNS, Sphere
from .batches import Batch, SourceError, row_in_words
from .passes import Reduction


class OnEarth(Reduction):
    """A reduction whose rows are checked and turned into points of the sphere on their way.

    Parameters
    ----------
    reduction : Reduction
        Of points in km.
    sphere : Sphere
    names : sequence of str or None
        Names of the columns of the source, for messages.
    """

    def __init__(self, reduction: Reduction, sphere: Sphere, names: Sequence[str] | None) -> None:
        self.reduction, self.sphere, self.names = reduction, sphere, names
        self.batch_rows = reduction.batch_rows
        if reduction.n_features is not None:
            self.n_features = reduction.n_features - (N_CHORD_COLUMNS - 2)

    def start(self) -> Any:
        """See `Reduction`."""
        return self.reduction.start()

    def update(self, state: Any, batch: Batch) -> Any:
        """See `Reduction`."""
        try:
            self.sphere.check(batch.X, self.names, lambda i: row_in_words(int(batch.ids[i])))
        except ValueError as error:
            raise SourceError(str(error)) from None
        return self.reduction.update(state, replace(batch, X=self.sphere.points(batch.X)))

    def merge(self, first: Any, second: Any) -> Any:
        """See `Reduction`."""
        return self.reduction.merge(first, second)

    def finish(self, state: Any) -> Any:
        """See `Reduction`."""
        return self.reduction.finish(state)

    def owned(self, state: Any) -> Any:
        """See `Reduction`."""
        return self.reduction.owned(state)

    def split(self, state: Any) -> list[Any]:
        """See `Reduction`."""
        return self.reduction.split(state)

    @property
    def n_parts(self) -> int:
        """See `Reduction`."""
        return self.reduction.n_parts

    def join(self, parts: list[Any]) -> Any:
        """See `Reduction`."""
        return self.reduction.join(parts)
