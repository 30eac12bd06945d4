"""Local models of data so few that the library would take the exact process for them."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from nearfield.local import exact_budget


@contextmanager
def exact_up_to(n: int) -> Iterator[None]:
    """Take local models for more than so many points, where the library would prefer the exact process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("nearfield.local.exact_budget.is_preferred", lambda rows, *_: rows <= n)
        yield


@contextmanager
def approximations_only() -> Iterator[None]:
    """Never take the exact process for an answer: it remains the reference."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exact_budget, "SETTINGS", replace(exact_budget.SETTINGS, may_answer=False))
        yield


def exact_at_most(patch: pytest.MonkeyPatch, n: int) -> None:
    """Take the exact process for more than so many points under no circumstances."""
    patch.setattr("nearfield.local.exact_budget.answers_up_to", lambda _: n)
