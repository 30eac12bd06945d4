"""A line on standard error that says how far a fit is, for `progress=True`; a bar of tqdm in notebooks."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any, TextIO

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


class NotebookBar:
    """The same as one bar of tqdm, which goes when the stage is done: what notebooks write to standard error is red.

    Parameters
    ----------
    make_bar : callable
        `tqdm.auto.tqdm`, or what takes its arguments.
    """

    def __init__(self, make_bar: Callable[..., Any]) -> None:
        self.make_bar = make_bar
        self.bar: Any = None
        self.row = ""

    def __call__(self, stage: str, done: float, value: float = 0.0) -> None:  # noqa: ARG002
        """Show that of `stage` the share `done` is done."""
        row = stage.partition(": ")[0]  # "learning: start 1" and "learning: refine" share a bar
        if self.bar is None or row != self.row:
            self._close()
            self.bar, self.row = self.make_bar(total=100, leave=False, bar_format="{desc} {bar} {elapsed}"), row
        self.bar.set_description_str(stage, refresh=False)
        self.bar.n = round(100 * min(max(done, 0.0), 1.0))
        self.bar.refresh()
        if done >= 1:
            self._close()

    def _close(self) -> None:
        if self.bar is not None:
            self.bar.close()
            self.bar = None


def display() -> Callable[..., None]:
    """What `progress=True` shows: a bar in notebooks where tqdm is installed, else lines on standard error."""
    if "ipykernel" in sys.modules:
        try:
            from tqdm.auto import tqdm
        except ImportError:
            return ProgressLine(sys.stdout)
        return NotebookBar(tqdm)
    return ProgressLine()
