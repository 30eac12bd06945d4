"""Fixtures shared by all tests."""

import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings

# The same examples on every run, and no limit on the time of one: a failure is the code's, not the day's.
settings.register_profile("repeatable", max_examples=30, derandomize=True, deadline=None)
# `make fuzz`: other examples on every run, and many more.
settings.register_profile("fuzz", max_examples=int(os.environ.get("EXAMPLES", "1000")), deadline=None, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))


@pytest.fixture
def few_probes(monkeypatch):
    """Choose by fewer probes than usual, where it does not matter how well."""
    monkeypatch.setattr("nearfield.local.by_radius.LEAST", 8)
    monkeypatch.setattr("nearfield.local.by_radius.MOST", 8)
    monkeypatch.setattr("nearfield.local.by_radius.GAPS", 8)
    monkeypatch.setattr("nearfield.local.by_number.NEIGHBOURHOODS", 12)
    monkeypatch.setattr("nearfield.local.by_number.PLACES", 32)


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
