"""Fits that take effect at their end, and not before."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

Method = TypeVar("Method", bound=Callable[..., Any])


def all_or_nothing(method: Method) -> Method:
    """Make a method that fits take effect at its end only: an error or Ctrl-C leaves the estimator as it was."""

    @wraps(method)
    def fit(self: Any, *args: Any, **kwargs: Any) -> Any:
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        method(twin, *args, **kwargs)
        self.__dict__ = twin.__dict__  # in one step, which no interrupt divides
        return self

    return cast(Method, fit)
