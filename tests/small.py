"""Local models of data so few that the library would take the exact process for them."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest


@contextmanager
def exact_up_to(n: int) -> Iterator[None]:
    """Take local models for more than so many points, where the library takes the exact process up to 1500."""
    with pytest.MonkeyPatch.context() as patch:
        for module in ("by_number", "by_radius", "in_memory"):
            patch.setattr(f"nearfield.local.{module}.ALWAYS_EXACT_UP_TO", n)
        yield
