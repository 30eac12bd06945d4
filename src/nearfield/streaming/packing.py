"""Sums and models of many places as a few large arrays, on the way between processes and to files.

A pickle of thousands of small arrays takes longer to write and to read than the sums took to make.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from ..local.model_stack import ModelStack
from ..local.moments import MomentModel, MomentSums

Packed: TypeAlias = tuple[dict[int, Any], "Stack | None", "Stack | None"]
"""What stays as it is; sums; models."""
Stack: TypeAlias = tuple[list[int], Any]
"""Numbers of places, and the arrays that theirs are views of."""


def packed(things: dict[int, Any]) -> Packed:
    """Things by number of the place, with those that are moments stacked."""
    sums = {i: thing for i, thing in things.items() if isinstance(thing, MomentSums)}
    models = {i: thing for i, thing in things.items() if isinstance(thing, MomentModel)}
    rest = {i: thing for i, thing in things.items() if i not in sums and i not in models}
    return rest, _stack_of_sums(sums), _stack_of_models(models)


def unpacked(given: Packed | dict[int, Any]) -> dict[int, Any]:
    """The inverse; things that were never packed, as in old files, stay as they are."""
    if isinstance(given, dict):
        return given
    rest, sums, models = given
    result = dict(rest)
    if sums is not None:
        numbers, (*arrays, log_weight, n) = sums
        columns = zip(*arrays, log_weight.tolist(), n.tolist(), strict=True)
        result.update(zip(numbers, (MomentSums(*column) for column in columns), strict=True))
    if models is not None:
        result.update(zip(*models, strict=True))
    return result


def _stack_of_sums(sums: dict[int, MomentSums]) -> Stack | None:
    return (list(sums), _arrays_of(list(sums.values()))) if sums else None


def _stack_of_models(models: dict[int, MomentModel]) -> Stack | None:
    if not models:
        return None
    values = list(models.values())
    coefficients = np.stack([model.coefficients for model in values])
    polynomials = np.stack([model.polynomial for model in values])
    return list(models), ModelStack(coefficients, polynomials, *_arrays_of([model.sums for model in values]))


def _arrays_of(sums: Sequence[MomentSums]) -> tuple[Any, ...]:
    return (
        np.stack([each.moments for each in sums]),
        np.stack([each.cross for each in sums]),
        np.stack([each.targets for each in sums]),
        np.array([each.log_weight for each in sums]),
        np.array([each.n for each in sums]),
    )
