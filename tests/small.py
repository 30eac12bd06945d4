"""Local models of data so few that the library would take the exact process for them."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest


@contextmanager
def exact_up_to(n: int) -> Iterator[None]:
    """Take local models for more than so many points, where the library would prefer the exact process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("nearfield.local.exact_budget.is_preferred", lambda rows, *_: rows <= n)
        yield


def exact_at_most(patch: pytest.MonkeyPatch, n: int) -> None:
    """Take the exact process for more than so many points under no circumstances."""
    patch.setattr("nearfield.local.exact_budget.affordable_up_to", lambda _: n)
