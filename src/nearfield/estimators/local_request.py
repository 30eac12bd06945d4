"""From the parameters of `LocalGPRegressor` to a request: each is checked, and refused in one sentence."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from numbers import Integral
from typing import Any, TypeVar, cast

import numpy as np

from ..common import memory
from ..common.budget import Budget
from ..common.types import Floats
from ..common.validation import (
    check_bool,
    check_integer,
    check_memory_budget,
    check_option,
    check_positive,
    check_time_budget,
    describe,
)
from ..common.warnings import warn
from ..features import MaclaurinFeatures, TaylorFeatures
from ..hyperparameters.work import Work
from ..local.request import CENTERS, COUNTED, LocalRequest

LEARNING_SHARE = 0.5
"""Of `time_budget`, that learning may take: choosing an approximation, solving and the noise take the other half. Work
counts two to three times the seconds that it takes on two cores, so that it is a fifth of the time in fact."""

Method = TypeVar("Method", bound=Callable[..., Any])


def within_memory_budget(method: Method) -> Method:
    """Make the regressor's `memory_budget` hold for all that a method does."""

    @wraps(method)
    def limited(self: Any, *args: Any, **kwargs: Any) -> Any:
        with memory.limited_to(check_memory_budget(self)):
            return method(self, *args, **kwargs)

    return cast(Method, limited)


def local_request(model: Any, start: float | None = None) -> LocalRequest:
    """What is asked of a regressor whose number of columns is known, and whose fit began at `start`, or begins now.

    Times are those of `time.perf_counter`. Learning may take its share of them, all repetitions together.
    """
    kind, n_centers = _centers(model), _n_centers(model)
    learning = model._learning_request(model._n_inner)
    seconds = check_time_budget(model)
    budget = Budget(seconds, (time.perf_counter() if start is None else start) + seconds)
    work = Work(LEARNING_SHARE * budget.seconds, budget.deadline)
    request = LocalRequest(
        learning=replace(learning, work=work),
        budget=budget,
        tolerance=check_positive(model, "tolerance"),
        spacing=None if _is_auto(model.spacing) else check_positive(model, "spacing"),
        radius=None if model.radius is None or _is_auto(model.radius) else check_positive(model, "radius"),
        all_points=model.radius is None,
        feature_map=_feature_map(model),
        kernel_space=isinstance(model.features, str) and model.features == "kernel",
        correction=check_bool(model, "correction"),
        blend=check_bool(model, "blend"),
        open_centers=check_bool(model, "open_centers"),
        centers=kind,
        n_centers=n_centers,
        n_jobs=model.n_jobs,
        progress=model._check_progress(),
        onto=None if model._sphere is None else model._sphere.onto,
    )
    if request.all_points and request.feature_map is not None and request.spacing is None and request.are_spaced:
        raise ValueError(
            f"{describe(model, 'radius')}=None takes all points for every centre, and nothing then tells how many "
            "centres: give spacing, or n_centers with centers='farthest', or centers='mean' for one."
        )
    return request


def _feature_map(model: Any) -> TaylorFeatures | MaclaurinFeatures | None:
    features = model.features
    if isinstance(features, TaylorFeatures):
        check_integer(features, "degree", 1)
        return features
    if isinstance(features, MaclaurinFeatures):
        check_integer(features, "n_components", 2)
        return features
    if isinstance(features, str) and features in ("auto", "kernel"):
        return None
    raise ValueError(
        f"{describe(model, 'features')} must be 'auto', 'kernel', TaylorFeatures or MaclaurinFeatures. "
        f"Got {features!r}."
    )


def _centers(model: Any) -> str | int | Floats:
    kind = model.centers
    if isinstance(kind, str):
        return check_option(model, "centers", CENTERS)
    if isinstance(kind, Integral):
        return check_integer(model, "centers", 1)
    d = len(model.coordinates_)
    try:
        given = np.asarray(kind, dtype=np.float64)
    except (TypeError, ValueError):
        given = np.empty(0)
    if given.ndim != 2 or given.shape[1] != d or len(given) == 0 or not np.all(np.isfinite(given)):
        names = ", ".join(repr(name) for name in CENTERS)
        raise ValueError(
            f"{describe(model, 'centers')} must be one of {names}, an integer, or finite numbers of shape "
            f"(n_centers, {d})."
        )
    return np.asarray(model._seen(given))


def _n_centers(model: Any) -> int | None:
    kind = model.centers if isinstance(model.centers, str) else "those given"
    if model.n_centers is None and kind not in ("kmeans", "random"):
        return None
    n_centers = check_integer(model, "n_centers", 1)
    if kind not in COUNTED:
        names = ", ".join(repr(name) for name in COUNTED)
        warn(f"n_centers={n_centers} has no effect with centers={kind!r}: it is for {names}.")
    return n_centers


def _is_auto(value: Any) -> bool:
    return isinstance(value, str) and value == "auto"
