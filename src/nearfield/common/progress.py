"""A line on standard error that says how far a fit is, for `progress=True`; a bar in notebooks."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from html import escape
from importlib import import_module
from typing import Any, TextIO

WIDTH = 24
INTERVAL = 0.1  # seconds from one drawing to the next


def row_of(stage: str) -> str:
    """What steps of one stage have in common, such as "learning: start 1" and "learning: refine": they share a bar."""
    return stage.partition(": ")[0]


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
        self.step, self.step_began = "", 0.0
        self.drawn = -INTERVAL

    def __call__(self, stage: str, done: float, value: float = 0.0) -> None:
        """Show that of `stage` the share `done` is done; `value` is whatever the stage counts."""
        now, row = self.clock(), row_of(stage)
        began = self.began.setdefault(row, now)
        if stage != self.step:
            self.step, self.step_began = stage, now
        if done >= 1 and stage == row:
            del self.began[row]
            self._write(f"{stage:<28} {now - began:.1f} s", "\n")
        elif self.stream.isatty() and now - self.drawn >= INTERVAL:
            self.drawn = now
            filled = round(WIDTH * min(done, 1.0))
            bar = "#" * filled + "-" * (WIDTH - filled)
            passed = now - self.step_began
            left = f"{passed * (1 - done) / done:.0f} s left" if done > 0 else f"{value:.6g}"
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
        row = row_of(stage)
        if self.bar is None or row != self.row:
            self._close()
            self.bar, self.row = self.make_bar(total=100, leave=False, bar_format="{desc} {bar} {elapsed}"), row
        self.bar.set_description_str(stage, refresh=False)
        self.bar.n = round(100 * min(max(done, 0.0), 1.0))
        self.bar.refresh()
        if done >= 1 and stage == row:
            self._close()

    def _close(self) -> None:
        if self.bar is not None:
            self.bar.close()
            self.bar = None


class HtmlBar:
    """A bar of HTML that is drawn over and over in one place, with what `NotebookBar` asks of tqdm.

    For notebooks without ipywidgets, where tqdm would write lines to standard error.
    """

    def __init__(self) -> None:
        self.n = 0
        self._text = ""
        self._place: Any = None
        self._drawn = -INTERVAL

    def set_description_str(self, text: str, **_: Any) -> None:
        """Words beside the bar."""
        self._text = text

    def refresh(self) -> None:
        """Draw it, unless it was drawn just now."""
        now = time.monotonic()
        if now - self._drawn >= INTERVAL:
            self._drawn = now
            self._show(f'<progress value="{self.n}" max="100"></progress> {escape(self._text)}')

    def close(self) -> None:
        """Leave nothing behind."""
        if self._place is not None:
            self._show("")
            self._drawn = -INTERVAL

    def _show(self, text: str) -> None:
        from IPython.display import HTML
        from IPython.display import display as show

        if self._place is None:
            self._place = show(HTML(text), display_id=True)
        else:
            self._place.update(HTML(text))


def _is_notebook() -> bool:
    """Whether this process is the kernel of a notebook; to have imported what kernels are made of is not enough."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return getattr(shell, "kernel", None) is not None


def display() -> Callable[..., None]:
    """What `progress=True` shows: a bar in notebooks, by tqdm where it has widgets to draw with; else a line."""
    if not _is_notebook():
        return ProgressLine()
    try:
        import_module("ipywidgets")
        from tqdm.auto import tqdm
    except ImportError:
        bar = HtmlBar()
        return NotebookBar(lambda **_: bar)  # one place for all stages
    return NotebookBar(tqdm)
