"""How much time a fit may take.

What changes an answer is decided by counted operations, which are the same on any machine and at any load: seconds
count as so many operations at a nominal speed. The clock only stops work that has taken too long.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

Progress = Callable[[str, float, float], None]
"""Called as `progress(stage, done, value)`, with `done` from 0 to 1."""


@dataclass(frozen=True)
class Budget:
    """Seconds for a fit, and when they are over, by `time.perf_counter`; without arguments there is no limit."""

    seconds: float = np.inf
    deadline: float = np.inf

    @property
    def is_over(self) -> bool:
        """Whether the time is up."""
        return time.perf_counter() > self.deadline

    def stopping(self, progress: Progress | None) -> Progress:
        """The same `progress`, which may be None, and a `StopIteration` when the time is up."""

        def report(stage: str, done: float, value: float) -> None:
            if progress is not None:
                progress(stage, done, value)
            if self.is_over:
                raise StopIteration

        return report


UNLIMITED = Budget()
USUAL = Budget(60.0)
"""What counted operations may take by default, without a clock."""
