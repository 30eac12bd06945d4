"""A line on standard error that says how far a fit is, for `progress=True`."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TextIO

WIDTH = 24
INTERVAL = 0.1  # seconds from one drawing to the next


class ProgressLine:
    """Callable as the estimators' `progress` takes it: the stage, a bar and the time left, drawn over and over.

    Where standard error is not a terminal there is one line per stage instead, when it ends.

    Parameters
    ----------
    stream : text stream or None
        None is standard error.
    clock : callable
        Gives seconds.
    """

    def __init__(self, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self.stream, self.clock = stream or sys.stderr, clock
        self.began: dict[str, float] = {}
        self.drawn = -INTERVAL

    def __call__(self, stage: str, done: float, value: float = 0.0) -> None:
        """Show that of `stage` the share `done` is done; `value` is whatever the stage counts."""
        now = self.clock()
        began = self.began.setdefault(stage, now)
        if done >= 1:
            del self.began[stage]
            self._write(f"{stage:<28} {now - began:.1f} s", "\n")
        elif self.stream.isatty() and now - self.drawn >= INTERVAL:
            self.drawn = now
            filled = round(WIDTH * done)
            bar = "#" * filled + "-" * (WIDTH - filled)
            left = f"{(now - began) * (1 - done) / done:.0f} s left" if done > 0 else f"{value:.6g}"
            self._write(f"{stage:<28} [{bar}] {100 * done:3.0f} %  {left}", "")

    def _write(self, text: str, end: str) -> None:
        self.stream.write((f"\r\x1b[2K{text}" if self.stream.isatty() else text) + end)
        self.stream.flush()
