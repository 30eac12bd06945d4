"""Whether the exact Gaussian process, or its mean by iteration, is affordable, by counted operations and bytes.

Costs are counted and not timed, so that the same data give the same model on a slow machine and on a loaded one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ..common import memory
from .gaps import MAX_COLUMNS


@dataclass(frozen=True)
class ExactSettings:
    """When the exact process is taken. Operations are multiplications and additions counted as one each."""

    may_answer: bool = True
    """Whether the exact process may be the answer at all: measurements of approximations switch it off."""

    local_operations: float = 8e9
    """What choosing a local approximation costs at least: below it, at 1500 rows, the exact process is quicker
    (`benchmarks/exact.py`)."""

    time_share: float = 1 / 3
    """Share of `time_budget` that the exact process may take."""

    operations_per_second: float = 6e10
    """Nominal speed that turns seconds of the budget into operations: a Cholesky factorisation in double precision on
    two cores (`benchmarks/exact.py`)."""

    n_places: int = 1000
    """Predictions with standard deviations that are counted; more are the user's choice."""

    n_left_out: int = 2000
    """Left-out residuals that the noise is learnt from."""

    mean_share: float = 0.5
    """Share of `time_budget` that the exact mean may take by iteration."""

    mean_operations_per_second: float = 4e9
    """Nominal speed of these iterations, in the operations that `iteration.cost_of_mean` counts: two cores do 2.5e9
    where nearly all pairs of points matter, and 7e9 where few do (`benchmarks/real.py`)."""


SETTINGS = ExactSettings()


def is_preferred(n: float, n_columns: int, time_budget: float) -> bool:
    """Whether `n` rows are given to the exact process without looking at anything else.

    In up to three columns, that is where it is quicker than choosing a local approximation. In more columns nothing
    local is cheap, and the exact process is taken wherever it is affordable.
    """
    if not SETTINGS.may_answer:
        return False
    if exact_cost(n) <= SETTINGS.local_operations:
        return 8.0 * n**2 <= memory.budget()
    return n_columns > MAX_COLUMNS and n <= affordable_up_to(time_budget)


def answers_up_to(time_budget: float) -> int:
    """Largest number of rows whose answer the exact process may be; see `affordable_up_to`."""
    return affordable_up_to(time_budget) if SETTINGS.may_answer else 0


def affordable_up_to(time_budget: float) -> int:
    """Largest number of rows whose exact process fits its share of `time_budget` (seconds) and `memory.budget`."""
    return _largest_within(time_budget, math.isqrt(int(memory.budget() / 8)))


def memory_is_short(n: float, time_budget: float) -> bool:
    """Whether `n` rows could have the exact process in the time, and lack the memory for it."""
    return np.isfinite(n) and 8.0 * n**2 > memory.budget() and _largest_within(time_budget, int(n)) == n


def _largest_within(time_budget: float, high: int) -> int:
    """Largest number of rows, up to `high`, whose exact process fits its share of `time_budget` (seconds)."""
    most, low = SETTINGS.time_share * time_budget * SETTINGS.operations_per_second, 0
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if operations(middle) <= most else (low, middle - 1)
    return low


def most_of_mean(time_budget: float) -> float:
    """Operations that the exact mean may take within `time_budget` (seconds); see `iteration.cost_of_mean`."""
    return SETTINGS.mean_share * time_budget * SETTINGS.mean_operations_per_second


def operations(n: float) -> float:
    """Operations of the factorisation, of predictions with standard deviations, and of left-out residuals."""
    return n**3 / 3 + n**2 * (SETTINGS.n_places + min(SETTINGS.n_left_out, n))


def exact_cost(n: float) -> float:
    """Operations of the exact process with as many test points as training points."""
    return n**3 / 3 + 2 * n**3
