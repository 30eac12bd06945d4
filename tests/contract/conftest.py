"""Fixtures of the contract's tests."""

import pytest
from threadpoolctl import threadpool_limits


@pytest.fixture(autouse=True, scope="session")
def _one_thread():
    # The problems are tiny, and threads that wait for each other take longer than one alone.
    with threadpool_limits(limits=1):
        yield
