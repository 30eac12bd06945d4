"""How much learning may take: work, which is the same on any machine, and time, which ends it at the latest.

Whoever learns twice with the same seed gets the same result, also where a budget ends the search: it is turned into a
number of evaluations by a speed that most machines have.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from ..common.types import Floats

SPEED = 5e9  # units of work per second, which an ordinary core exceeds
MOST_EVALUATIONS = 10**9  # that stand for no limit


class Rows(Protocol):
    """Some of the data, whose covariance matrix an evaluation factors."""

    @property
    def X(self) -> Floats:  # noqa: N802
        """Points (n, d)."""


class Work:
    """What was done since the beginning, of a budget in seconds.

    `deadline` is when the clock ends it, by `time.perf_counter`; None is so many seconds from now.
    """

    def __init__(self, budget: float, deadline: float | None = None) -> None:
        self._left = SPEED * budget
        self.deadline = time.perf_counter() + budget if deadline is None else deadline

    def spend(self, blocks: Sequence[Rows], n_evaluations: int) -> None:
        """Take note of evaluations of some blocks."""
        self._left -= n_evaluations * _units(blocks)

    def evaluations_of(self, blocks: Sequence[Rows]) -> int:
        """Number of evaluations of some blocks that are left."""
        return int(np.clip(self._left / _units(blocks), 0, MOST_EVALUATIONS))

    @property
    def left(self) -> float:
        """Seconds that are left, by work."""
        return self._left / SPEED

    @property
    def is_done(self) -> bool:
        """Whether work or time is spent."""
        return self._left <= 0 or time.perf_counter() > self.deadline


def _units(blocks: Sequence[Rows]) -> float:
    """Work of an evaluation: factoring matrices, and what is done to their entries."""
    return float(sum(n**3 + 100 * n**2 for n in (len(block.X) for block in blocks)))
