"""The models of many centres, as a few large arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import overload

import numpy as np

from ..common.types import Booleans, Floats, Integers
from .moments import MomentModel, MomentSums


@dataclass(frozen=True, eq=False)
class ModelStack(Sequence[MomentModel]):
    """Models in feature space of `C` centres, which are views of these arrays; see `MomentModel`."""

    coefficients: Floats  # (C, D, k + 1)
    polynomials: Floats  # (C, n_moments)
    moments: Floats  # (C, n_moments)
    cross: Floats  # (C, D, k + 1)
    targets: Floats  # (C, k + 1, k + 1)
    log_weight: Floats  # (C,)
    n: Integers  # (C,)

    @property
    def n_bytes(self) -> int:
        """Memory taken."""
        return sum(each.nbytes for each in vars(self).values())

    def __len__(self) -> int:
        return len(self.coefficients)

    @overload
    def __getitem__(self, which: int) -> MomentModel: ...
    @overload
    def __getitem__(self, which: slice) -> list[MomentModel]: ...
    def __getitem__(self, which: int | slice) -> MomentModel | list[MomentModel]:
        if isinstance(which, slice):
            return [self[i] for i in range(*which.indices(len(self)))]
        sums = MomentSums(
            self.moments[which],
            self.cross[which],
            self.targets[which],
            float(self.log_weight[which]),
            int(self.n[which]),
        )
        return MomentModel(self.coefficients[which], self.polynomials[which], sums)


def forms_of(models: Sequence[object]) -> tuple[Booleans, Floats, Floats] | None:
    """Which of some models have moments (C,), their coefficients (C, D, k + 1) and polynomials (C, n_moments).

    Those of the others are zero. None where no model has moments.
    """
    if isinstance(models, ModelStack):
        return np.ones(len(models), dtype=bool), models.coefficients, models.polynomials
    with_moments = {i: model for i, model in enumerate(models) if isinstance(model, MomentModel)}
    if not with_moments:
        return None
    has_moments = np.zeros(len(models), dtype=bool)
    has_moments[list(with_moments)] = True
    example = next(iter(with_moments.values()))
    coefficients = np.zeros((len(models), *example.coefficients.shape))
    polynomials = np.zeros((len(models), *example.polynomial.shape))
    coefficients[has_moments] = [model.coefficients for model in with_moments.values()]
    polynomials[has_moments] = [model.polynomial for model in with_moments.values()]
    return has_moments, coefficients, polynomials
