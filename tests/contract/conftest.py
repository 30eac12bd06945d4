"""Fixtures of the contract's tests."""

from importlib.util import find_spec

import pytest
from threadpoolctl import threadpool_limits


@pytest.fixture(autouse=True, scope="session")
def _one_thread():
    # The problems are tiny, and threads that wait for each other take longer than one alone.
    with threadpool_limits(limits=1):
        yield


@pytest.fixture(autouse=True, scope="package")
def _coarse_and_empty_pictures():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("nearfield.reporting.page.maps.CELLS", 100)
        if find_spec("matplotlib") is not None:
            patch.setattr("matplotlib.figure.Figure.savefig", lambda _, file, **__: file.write("<svg></svg>"))
        yield
