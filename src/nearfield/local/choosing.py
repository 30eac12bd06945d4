"""The approximation: as given where everything is, else chosen by measurement."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..common.types import Floats
from ..common.warnings import warn
from ..kernels import Kernel
from . import by_number, by_radius, choices, exact_budget, gaps
from .choices import SAME_SPEED, Candidate, Choice, Request, Speeds, no_limit
from .neighbourhoods import TrainingSet
from .plan import USUAL_SIDES, Plan
from .request import LocalRequest

SAMPLED_CENTERS = 20  # whose neighbourhoods a map that adapts to the data looks at


def choose(
    request: LocalRequest,
    kernel: Kernel,
    data: TrainingSet,
    rng: np.random.RandomState,
    exact_mean: bool = False,
    limit_of: Callable[[], float] = no_limit,
    places: Floats | None = None,
    kept: dict[str, Any] | None = None,
    speeds: Speeds = SAME_SPEED,
    n_sides: int = USUAL_SIDES,
    **streamed: Any,
) -> Choice:
    """What to do for points in length scales; `streamed` are options of `by_radius.choose` where data are a sample.

    See `by_number.choose` for `kept`, and `Request` for `limit_of`, `places`, `speeds` and `n_sides`.
    """
    if request.is_complete:
        return as_given(request, kernel, lambda: _relative_positions(request, data, rng), rng, speeds)
    if request.all_points:
        raise ValueError(
            "radius=None takes all points for every centre, which needs features: set features to TaylorFeatures "
            "or MaclaurinFeatures, or use ExactGPRegressor."
        )
    asked = Request(
        request.tolerance,
        request.spacing,
        request.radius,
        request.features_of(kernel, rng),
        request.kernel_space,
        request.correction,
        request.blend,
        exact_mean,
        limit_of,
        places,
        request.onto,
        speeds,
        request.budget,
        n_sides,
    )
    given = (kernel, data, asked, request.n_jobs, rng, request.progress)
    if kernel.n_scales == 1 or not request.is_free:
        choice = by_radius.choose(*given, **streamed)
        if choice.met or streamed or not request.is_free or data.X.shape[1] <= gaps.MAX_COLUMNS:
            return choice
        # Where space is wide and the scale is long, neither a few features nor all points within reach may do. What
        # the nearest would do is not easy to tell there either, since much of what matters is far away.
        if len(data.X) <= exact_budget.answers_up_to(asked.budget.seconds) and not exact_mean:
            return choices.as_a_last_resort(kernel, choice)
        if asked.budget.is_over:
            return choice
        nearest = by_number.choose(*given, kept)
        return min(nearest, choice, key=_binding)
    if streamed:
        raise ValueError(
            "The 'n_scales' parameter of LocalGPRegressor must be 1 with a source, or spacing, radius and features "
            "must be given: neighbourhoods for several length scales need all points in memory."
        )
    return by_number.choose(*given, kept)


def as_given(
    request: LocalRequest,
    kernel: Kernel,
    positions: Callable[[], Floats],
    rng: np.random.RandomState,
    speeds: Speeds = SAME_SPEED,
) -> Choice:
    """What was given, as a choice; `positions` gives a sample of positions (n, d) relative to a centre."""
    features, label = None, "the kernel matrix of each neighbourhood"
    make_features = request.features_of(kernel, rng)
    if make_features is not None:
        features, label = make_features(positions()), "as given"
    in_features_only, speed = request.all_points, speeds.features
    plan = Plan(
        kernel, request.radius, features, request.correction, either_side=not in_features_only, feature_speed=speed
    )
    if request.radius is not None and request.spacing is not None and request.radius < request.spacing:
        warn(
            f"radius={request.radius:g} is smaller than spacing={request.spacing:g}: samples that are farther than "
            "the radius from every centre are not used. A radius of twice the spacing is usual."
        )
    candidate = Candidate(request.spacing if request.spacing is not None else np.inf, plan, label)
    return Choice(candidate, None, True, "spacing, radius and features were given")


def _relative_positions(request: LocalRequest, data: TrainingSet, rng: np.random.RandomState) -> Floats:
    """Positions relative to a centre, as neighbourhoods have them; none for features that do not adapt to them."""
    if request.has_taylor_features:
        return data.X[:0]
    if request.radius is None:
        result: Floats = data.X - data.X.mean(axis=0)
        return result
    centers = data.X[rng.choice(len(data.X), min(len(data.X), SAMPLED_CENTERS), replace=False)]
    neighbourhoods = data.neighbourhoods(centers, request.radius)
    return np.concatenate([data.X[rows] - center for center, rows in zip(centers, neighbourhoods, strict=True)])


def _binding(choice: Choice) -> float:
    """What a choice has to be held against the tolerance."""
    return np.inf if choice.distance is None else choice.distance.binding.mean
