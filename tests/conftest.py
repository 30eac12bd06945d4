"""Fixtures shared by all tests."""

import os
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings

# Workers of pytest-xdist share the cores: threads of one would wait for those of the others.
if "PYTEST_XDIST_WORKER_COUNT" in os.environ:
    share = str(max((os.cpu_count() or 1) // int(os.environ["PYTEST_XDIST_WORKER_COUNT"]), 1))
    os.environ.setdefault("LOKY_MAX_CPU_COUNT", share)  # what n_jobs=None may use
    os.environ.setdefault("OMP_NUM_THREADS", share)  # and PyTorch, whose threads wait for each other busily

# The same examples on every run, and no limit on the time of one: a failure is the code's, not the day's.
settings.register_profile("repeatable", max_examples=30, derandomize=True, deadline=None)
# `make fuzz`: other examples on every run, and many more.
settings.register_profile("fuzz", max_examples=int(os.environ.get("EXAMPLES", "1000")), deadline=None, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))


class UnseededRandomState(np.random.RandomState):
    """Fails the test in which the library draws random numbers that nobody gave a seed for."""

    def __getattribute__(self, name):
        if name.startswith("__"):
            return super().__getattribute__(name)
        pytest.fail(  # no Exception, which the library might catch
            "The library draws random numbers without a seed, so that this test may pass today and fail tomorrow. Give "
            "random_state=0, or mark the test with pytest.mark.unseeded if what it asserts holds for every draw."
        )


@pytest.fixture(autouse=True, scope="session")
def _draws_without_a_seed_fail():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("nearfield.common.validation.unseeded_random_state", UnseededRandomState)
        yield


@pytest.fixture(autouse=True)
def _draws_without_a_seed_pass_where_a_test_says_so(request, _draws_without_a_seed_fail):
    with pytest.MonkeyPatch.context() as patch:
        if request.node.get_closest_marker("unseeded") is not None:
            patch.setattr("nearfield.common.validation.unseeded_random_state", np.random.RandomState)
        yield


def pytest_runtest_setup():
    """Start every test from the same state of NumPy's global generator, which checks of scikit-learn draw from."""
    np.random.seed(0)  # noqa: NPY002


def choose_by_few_probes(patch):
    patch.setattr("nearfield.local.by_radius.LEAST", 8)
    patch.setattr("nearfield.local.by_radius.MOST", 8)
    patch.setattr("nearfield.local.by_radius.GAPS", 8)
    patch.setattr("nearfield.local.by_number.NEIGHBOURHOODS", 12)
    patch.setattr("nearfield.local.by_number.PLACES", 32)


@pytest.fixture
def few_probes(monkeypatch):
    """Choose by fewer probes than usual, where it does not matter how well."""
    choose_by_few_probes(monkeypatch)


@pytest.fixture(scope="module")
def few_probes_in_module():
    """The same for fixtures of a module."""
    with pytest.MonkeyPatch.context() as patch:
        choose_by_few_probes(patch)
        yield


@pytest.fixture(scope="module")
def coarse_maps():
    """Pages whose maps have few cells: to predict all of them takes longer than all else."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("nearfield.reporting.page.maps.CELLS", 4000)
        yield


@pytest.fixture
def quick_pages(coarse_maps, monkeypatch):
    """Pages whose pictures are empty as well, where these are not the subject."""
    if find_spec("matplotlib") is not None:
        monkeypatch.setattr("matplotlib.figure.Figure.savefig", lambda _, file, **__: file.write("<svg></svg>"))


@pytest.fixture(scope="session")
def data_dir():
    """Folder of real data sets, named by the environment variable NEARFIELD_DATA."""
    folder = os.environ.get("NEARFIELD_DATA")
    if not folder:
        pytest.skip("NEARFIELD_DATA does not name a data folder")
    if not Path(folder).is_dir():
        pytest.skip(f"NEARFIELD_DATA={folder} is not a folder")
    return Path(folder)


@pytest.fixture(scope="session")
def kin8nm(data_dir):
    """Inputs (8192, 8), standardised, and targets of kin8nm."""
    path = data_dir / "kin8nm.csv.gz"
    if not path.exists():
        pytest.skip(f"NEARFIELD_DATA={data_dir} has no {path.name}")
    table = np.loadtxt(path, delimiter=",", skiprows=1)
    X, y = table[:, :-1], table[:, -1]
    return (X - X.mean(axis=0)) / X.std(axis=0), y
