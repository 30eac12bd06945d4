"""Fixtures of the estimators' tests."""

import pytest
from threadpoolctl import threadpool_limits


@pytest.fixture(autouse=True, scope="session")
def _one_thread_of_blas():
    # The problems are small, and on a busy machine threads that wait for each other take longer than one alone.
    with threadpool_limits(limits=1, user_api="blas"):
        yield
