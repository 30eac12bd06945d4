"""The package: what it offers, and that it loads nothing before it is needed."""

import subprocess
import sys

import pytest

import nearfield as nf


def test_everything_offered_is_there():
    for name in nf.__all__:
        assert getattr(nf, name) is not None
        assert name in dir(nf)


def test_nothing_else_is():
    with pytest.raises(AttributeError, match="nothing_of_the_kind"):
        _ = nf.nothing_of_the_kind


def test_importing_the_package_loads_no_other():
    code = "import sys, nearfield; print([m for m in ('numpy', 'sklearn', 'scipy', 'typer') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
