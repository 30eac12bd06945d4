"""Predictions taken apart: what the drift says, what the process says, and both together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from .arrays import side_by_side
from .types import Floats


class Part(NamedTuple):
    """Means and standard deviations, each of shape (m,) or (m, n_targets)."""

    mean: Floats
    std: Floats


@dataclass(frozen=True, eq=False)
class PredictedParts:
    """Drift, process and their sum at some places.

    Attributes
    ----------
    drift, process, total : Part
        Each with `mean` and `std`; those of the function without noise.
    """

    drift: Part
    process: Part
    total: Part

    @staticmethod
    def of_targets(answers: list[PredictedParts]) -> PredictedParts:
        """Those of several targets, from those of each."""
        pairs = [[(part.mean, part.std) for part in (each.drift, each.process, each.total)] for each in answers]
        return PredictedParts(*(Part(*side_by_side(list(each))) for each in zip(*pairs, strict=True)))

    def to_frame(self) -> Any:
        """A pandas DataFrame with columns drift, drift_std, process, ...; of several targets drift_0, ..."""
        import pandas as pd

        columns: dict[str, Any] = {}
        for name in ("drift", "process", "total"):
            part: Part = getattr(self, name)
            for called, values in ((name, part.mean), (f"{name}_std", part.std)):
                several = {f"{called}_{k}": values[:, k] for k in range(values.shape[1])} if values.ndim > 1 else {}
                columns |= several or {called: values}
        return pd.DataFrame(columns)
