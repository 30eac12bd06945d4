"""Progress of work deep inside a fit: whoever starts the fit says whom to tell, and any function below tells."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from .budget import Progress

_told: ContextVar[Progress | None] = ContextVar("told", default=None)


@contextmanager
def telling(progress: Progress | None) -> Iterator[None]:
    """Call `progress` with what is told here, and in threads of `common.threads` that are started here."""
    token = _told.set(progress)
    try:
        yield
    finally:
        _told.reset(token)


def tell(stage: str, done: float, value: float = 0.0) -> None:
    """Say that of a stage the share `done`, from 0 to 1, is done; `value` is whatever the stage counts."""
    progress = _told.get()
    if progress is not None:
        progress(stage, done, value)
