"""What can be chosen for a local model, what of it was measured, and what was taken."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import NamedTuple

import numpy as np

from ..common.budget import USUAL, Budget
from ..common.types import Floats
from ..kernels import Kernel
from .depth import Depth
from .distance import Distance
from .features import LocalFeatures
from .plan import USUAL_SIDES, Plan

MEAN_PER_POINT = 1e5  # operations of an exact mean by iteration, at the least
CHEAPEST = "cheapest of those measured that meet the tolerance, with room for the error of measurement"
CLOSEST = "closest of those measured"
OUT_OF_TIME = "closest of those measured before time_budget was over"


@dataclass(frozen=True, eq=False)
class Candidate:
    """A way to do it.

    Attributes
    ----------
    spacing : float
        Covering radius of the centres, in length scales; infinite for a single centre.
    plan : Plan
    label : str
    near : float or None
        Cells whose size follows the distance to the last neighbour, and cover all places: see `graded`.
    depth : Depth or None
        When such cells take more neighbours.
    exact_mean : bool
        Whether only variances are by local models.
    """

    spacing: float
    plan: Plan
    label: str
    near: float | None = None
    depth: Depth | None = None
    exact_mean: bool = False

    @property
    def finite_spacing(self) -> float | None:
        """The spacing; None for a single centre."""
        return self.spacing if np.isfinite(self.spacing) else None


@dataclass(frozen=True, eq=False)
class Trial:
    """A candidate measured.

    Attributes
    ----------
    candidate : Candidate
    distance : Distance
        Means over the neighbourhoods of the probes, in nats per test point.
    cost : float
        Estimated operations for all centres and as many test points as training points.
    largest : float
        Largest mean over the neighbourhood of a probe, of observations.
    """

    candidate: Candidate
    distance: Distance
    cost: float
    largest: float

    @property
    def divergence(self) -> float:
        """What is held against the tolerance: of observations or of the function; see `Distance.binding`."""
        return self.distance.binding.mean

    @property
    def error(self) -> float:
        """Its standard error."""
        return self.distance.binding.error


@dataclass(frozen=True, eq=False)
class Choice:
    """What was chosen and what was measured on the way.

    Attributes
    ----------
    candidate : Candidate
    near_data : Distance or None
        Measured at probes that had no part in the choice; 0 where the exact process was chosen, None where everything
        was given.
    met : bool
        Whether the tolerance is met.
    reason : str
    trials : tuple of Trial
    n_probes : int
        Of those that `near_data` is from.
    gaps : Trial or None
        The same in gaps of the data; None where there are none, or they are not known.
    largest : float
        Largest divergence around a probe, gaps included, of observations.
    verified : bool
        Whether the probes were held against the exact process, or in up to three columns and for streams against
        neighbourhoods whose own error is bounded. Where not, the tolerance does not count as met.
    inverse_variance : float
        Mean of the inverse variance of the function at the probes, by which errors of the mean weigh.
    left : tuple of Distance
        What an exact mean is off by, and Gaussians in the place of another kernel, which the probes do not see.
    """

    candidate: Candidate
    near_data: Distance | None
    met: bool
    reason: str
    trials: tuple[Trial, ...] = ()
    n_probes: int = 0
    gaps: Trial | None = None
    largest: float = 0.0
    verified: bool = True
    inverse_variance: float = 0.0
    left: tuple[Distance, ...] = ()

    @property
    def distance(self) -> Distance | None:
        """The larger of what was measured among the data and in gaps, and what is left besides."""
        if self.near_data is None:
            return None
        largest = self.near_data.larger(None if self.gaps is None else self.gaps.distance)
        return reduce(Distance.plus, self.left, largest)

    def leaving(self, left: Distance, tolerance: float) -> Choice:
        """The choice where something is left that the probes do not see."""
        choice = replace(self, left=(*self.left, left))
        assert choice.distance is not None
        return replace(choice, met=self.met and choice.distance.within(tolerance))


class Speeds(NamedTuple):
    """How many times as fast models will be made as candidates are measured; and see `Plan.feature_speed`."""

    models: float = 1.0
    features: float = 1.0


SAME_SPEED = Speeds()


def no_limit() -> float:
    """Whatever it costs."""
    return np.inf


@dataclass(frozen=True, eq=False)
class Request:
    """What the user fixed; None is free.

    Attributes
    ----------
    tolerance : float
    spacing : float or None
    radius : float or None
    features : callable or None
        From a sample of relative positions to features; used as they are.
    kernel_space : bool
        No features at all.
    correction : bool
    blend : bool
        Whether predictions will be blended.
    exact_mean : bool
        Only variances are asked for: the mean is exact.
    limit_of : callable
        Tells the cost, as in `Trial`, from which on an exact mean is the better way, and the search may end.
    places : ndarray of shape (m, d) or None
        Where predictions will be asked for, in length scales.
    onto : callable or None
        Brings points (n, d) to a surface that all data lie on.
    speeds : Speeds
    budget : Budget
        Time for the whole fit, of which the exact process may take a share: see `exact_budget`.
    n_sides : int
        Right-hand sides that local models are solved for: targets, features of long scales, drift columns, a constant.
    """

    tolerance: float
    spacing: float | None = None
    radius: float | None = None
    features: Callable[[Floats], LocalFeatures] | None = None
    kernel_space: bool = False
    correction: bool = True
    blend: bool = False
    exact_mean: bool = False
    limit_of: Callable[[], float] = no_limit
    places: Floats | None = None
    onto: Callable[[Floats], Floats] | None = None
    speeds: Speeds = SAME_SPEED
    budget: Budget = USUAL
    n_sides: int = USUAL_SIDES

    @cached_property
    def limit(self) -> float:
        """What `limit_of` tells, which takes a while where there are many points."""
        return self.limit_of()


def without_measuring(kernel: Kernel, n: int) -> Choice:
    """The exact process for data so few that it is affordable."""
    return Choice(exact(kernel), Distance(), True, f"{n} points are few enough for the exact Gaussian process")


def as_a_last_resort(kernel: Kernel, choice: Choice) -> Choice:
    """The exact process, where nothing that was tried meets the tolerance."""
    why = "nothing cheaper meets the tolerance"
    return Choice(exact(kernel), Distance(), True, why, choice.trials, choice.n_probes)


def exact(kernel: Kernel) -> Candidate:
    """The exact Gaussian process: one centre, all points, kernel space."""
    return Candidate(np.inf, Plan(kernel, None, None), "exact")
