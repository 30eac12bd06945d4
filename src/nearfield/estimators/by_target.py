"""Questions to a regressor that holds one per target: each target answers, and the answers go side by side."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

Method = TypeVar("Method", bound=Callable[..., Any])

LIVE = ("n_jobs", "progress", "blend")
"""Parameters that act on predictions, and may be set after the fit."""


def by_target(join: Callable[[list[Any]], Any]) -> Callable[[Method], Method]:
    """Have the regressor of each target answer, where there is one per target, and join the answers.

    It decorates methods, and the getters of properties.
    """

    def decorate(method: Method) -> Method:
        @wraps(method)
        def answer(self: Any, *args: Any, **kwargs: Any) -> Any:
            ones = own_regressors(self)
            if not ones:
                return method(self, *args, **kwargs)
            if isinstance(getattr(type(self), method.__name__), property):
                return join([getattr(one, method.__name__) for one in ones])
            return join([getattr(one, method.__name__)(*args, **kwargs) for one in ones])

        return cast(Method, answer)

    return decorate


def of_the_first(answers: list[Any]) -> Any:
    """What all targets share, as the regressor of the first has it."""
    return answers[0]


def own_regressors(model: Any) -> tuple[Any, ...]:
    """The regressors of the targets, with the parameters that `model` has now; empty where one model serves all."""
    ones: tuple[Any, ...] = vars(model).get("estimators_", ())
    for one in ones:
        for name in LIVE:
            if hasattr(model, name) and getattr(one, name) is not getattr(model, name):
                setattr(one, name, getattr(model, name))
    return ones


def refuse_several(model: Any, method: str) -> None:
    """Refuse a question about hyperparameters that each target has of its own."""
    if own_regressors(model):
        raise ValueError(
            f"{method} is about hyperparameters, and each of several targets has its own: ask the regressor of a "
            f"target, `estimators_[i].{method}`."
        )
