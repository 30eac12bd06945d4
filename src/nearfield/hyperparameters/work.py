"""How much learning may take: work, which is the same on any machine, and time, which ends it at the latest.

Whoever learns twice with the same seed gets the same result, also where a budget ends the search: it is turned into a
number of evaluations by a speed that most machines have.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from .blocks import Block

SPEED = 5e9  # units of work per second, which an ordinary core exceeds


class Work:
    """What was done since the beginning, of a budget in seconds."""

    def __init__(self, budget: float) -> None:
        self._budget = budget
        self._left = SPEED * budget
        self.deadline = time.perf_counter() + budget

    def spend(self, blocks: Sequence[Block], n_evaluations: int) -> None:
        """Take note of evaluations of some blocks."""
        self._left -= n_evaluations * _units(blocks)

    def evaluations_of(self, blocks: Sequence[Block]) -> int:
        """Number of evaluations of some blocks that are left."""
        return max(int(self._left / _units(blocks)), 0)

    @property
    def is_done(self) -> bool:
        """Whether work or time is spent."""
        return self._left <= 0 or time.perf_counter() > self.deadline


def _units(blocks: Sequence[Block]) -> float:
    """Work of an evaluation: factoring matrices, and what is done to their entries."""
    return float(sum(n**3 + 100 * n**2 for n in (len(block.X) for block in blocks)))
