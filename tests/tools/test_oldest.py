"""The pins of `make test-oldest` are the floors of pyproject.toml, all of them."""

import runpy
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "tools" / "oldest.py"
oldest = runpy.run_path(str(SCRIPT))["oldest"]

PROJECT = {
    "name": "here",
    "dependencies": ["numpy>=2.0"],
    "optional-dependencies": {
        "all": ["here[lazy,plot]", "scikit_thing>=1.2.3,<2"],
        "lazy": ["dask[array,dataframe]>=2025.1"],
        "plot": ["plotter>=3", "numpy>=2.0"],
        "other": ["other>=1"],
        "loose": ["anything"],
    },
}


def test_floors_become_pins_once_each():
    assert oldest(PROJECT, []) == ["numpy==2.0"]
    assert oldest(PROJECT, ["all"]) == [
        "dask[array,dataframe]==2025.1", "numpy==2.0", "plotter==3", "scikit_thing==1.2.3",
    ]  # fmt: skip


def test_a_requirement_without_a_floor_is_refused():
    with pytest.raises(SystemExit, match="'anything' names no oldest version"):
        oldest(PROJECT, ["loose"])
