"""The same local model on NumPy arrays, which answers where a model of tensors has no way of its own.

Draws, areas, covariances and gradients are computed on the host: cells, centres and all that was chosen stay what they
are, and local models are made again, in double precision.
"""

from __future__ import annotations

import copy
from typing import Any
from weakref import WeakKeyDictionary

from ..common.arrays import as_doubles, is_tensor, like
from ..local.fit import FittedLocal

_twins: WeakKeyDictionary[FittedLocal, Any] = WeakKeyDictionary()


def twin_of(model: Any) -> Any | None:
    """The twin of a local model of tensors, which is made once; None for all other models."""
    if not is_tensor(getattr(model, "y_mean_", None)) or not hasattr(model, "_fitted"):
        return None
    if model._fitted not in _twins:
        twin = copy.copy(model)
        twin._fitted, twin.y_mean_ = model._fitted.on_host(model.n_jobs), as_doubles(model.y_mean_)
        _twins[model._fitted] = twin
    return _twins[model._fitted]


def array_of(X: Any) -> Any:
    """Places as the twin takes them."""
    return as_doubles(X) if is_tensor(X) else X


def as_given(answer: Any, X: Any) -> Any:
    """An array, or several, as tensors where the places `X` are."""
    if not is_tensor(X):
        return answer
    return tuple(like(each, X) for each in answer) if isinstance(answer, tuple) else like(answer, X)
