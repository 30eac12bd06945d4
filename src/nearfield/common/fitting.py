"""Fits that take effect at their end, and not before."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

Method = TypeVar("Method", bound=Callable[..., Any])


def all_or_nothing(method: Method) -> Method:
    """Make a method that fits take effect at its end only: an error or Ctrl-C leaves the estimator as it was.

    A method named `fit` starts without what the last one set, so that no attribute of an earlier fit survives.
    """

    @wraps(method)
    def fit(self: Any, *args: Any, **kwargs: Any) -> Any:
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        if method.__name__ == "fit":
            for name in twin.__dict__.pop("_set_by_fit", ()):
                twin.__dict__.pop(name, None)
        before = set(twin.__dict__)
        method(twin, *args, **kwargs)
        if method.__name__ == "fit":
            note_fitted(twin, before)
        self.__dict__ = twin.__dict__  # in one step, which no interrupt divides
        return self

    return cast(Method, fit)


def note_fitted(estimator: Any, before: set[str]) -> None:
    """Note which attributes are there besides those `before`, for the next fit to start without."""
    estimator._set_by_fit = sorted(set(vars(estimator)) - before)
