"""Progress on standard error: one bar per stage, with the time left; nothing where that is not a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from .messages import errors


@contextmanager
def bars(quiet: bool = False) -> Iterator[Callable[..., None]]:
    """A callable `show(stage, done, *ignored)` with `done` from 0 to 1, as the estimators' `progress` takes it.

    Nothing is shown where `quiet`: where results go to the same terminal.
    """
    if quiet or not errors.is_terminal:
        yield lambda *_: None  # older versions of rich end even a disabled display with an empty line
        return
    columns = (TextColumn("{task.description:<28}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=errors, transient=True) as progress:
        tasks: dict[str, TaskID] = {}

        def show(stage: str, done: float, *_: object) -> None:
            # One bar for all that begins alike, such as "learning: start 1" and "learning: refine".
            row = stage.partition(": ")[0]
            if row not in tasks:
                for before, task in tasks.items():
                    progress.update(task, completed=1.0, description=before)
                tasks[row] = progress.add_task(stage, total=1.0)
            progress.update(tasks[row], completed=min(max(done, 0.0), 1.0), description=stage)

        yield show
