"""The same local model on NumPy arrays, which answers where a model of tensors has no way of its own.

Draws, areas, covariances and gradients are computed on the host: cells, centres and all that was chosen stay what they
are, and local models are made again, in double precision.
"""

from __future__ import annotations

import copy
from typing import Any
from weakref import WeakKeyDictionary

from ..common.arrays import as_doubles, is_tensor, like
from ..local.engine import RaggedEngine
from ..local.fit import FittedLocal

_on_host: WeakKeyDictionary[FittedLocal, FittedLocal] = WeakKeyDictionary()


def twin_of(model: Any) -> Any | None:
    """The twin of a local model of tensors, with its parameters as they are now; None for all other models.

    What takes time, its local models, is made once.
    """
    if not is_tensor(getattr(model, "y_mean_", None)) or not hasattr(model, "_fitted"):
        return None
    fitted = _on_host.get(model._fitted)
    if fitted is None:
        fitted = _on_host[model._fitted] = model._fitted.on_host(model.n_jobs)
    twin = copy.copy(model)
    twin._fitted, twin.y_mean_ = fitted.with_engine(RaggedEngine(model.n_jobs)), as_doubles(model.y_mean_)
    return twin


def array_of(X: Any) -> Any:
    """Places as the twin takes them."""
    return as_doubles(X) if is_tensor(X) else X


def as_given(answer: Any, X: Any) -> Any:
    """An array, or several, as tensors where the places `X` are."""
    if not is_tensor(X):
        return answer
    return tuple(like(each, X) for each in answer) if isinstance(answer, tuple) else like(answer, X)
