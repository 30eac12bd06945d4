"""The quick examples run as a user would run them, and print figures that make sense."""

import importlib.util
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from .warned import far_points

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"

# script -> (package it needs, pattern with numbers, their limits)
QUICK = {
    "globe": (None, r"'sphere' +RMSE (\S+) near .* (\S+) elsewhere", [(0.02, 0.08), (0.02, 0.08)]),
    "rain": (None, r"elevation +RMSE (\S+) above 1200 m, (\S+) below", [(0.0, 0.06), (0.0, 0.03)]),
    "terrain": (None, r"RMSE (\S+) m/km.* cover (\S+) %", [(30, 60), (90, 98)]),
    "trend": (None, r"x0 +(\S+) +(\S+)", [(0.04, 0.08), (0.005, 0.02)]),
    "photograph": (None, r"RMSE (\S+) .* cover (\S+) %", [(0.05, 0.12), (88, 98)]),
    "seattle": ("vega_datasets", r"RMSE (\S+) K, 95 % intervals cover (\S+) %", [(2, 6), (85, 100)]),
    "clock": ("vega_datasets", r"circles +RMSE (\S+) K, 95 % intervals cover (\S+) %", [(0.05, 0.24), (88, 99)]),
    "tolerance": ("airportsdata", r"\n +1e-02 +(\S+) +(\S+)", [(0, 1e-2), (0, 1e-2)]),
    "columns": (None, r"process +cross-validated RMSE (\S+)", [(50, 58)]),
    "sinc": (None, r"corrected +KL per grid point (\S+)", [(0, 1e-2)]),
}


@far_points
@pytest.mark.usefixtures("few_probes")
@pytest.mark.parametrize("name", [name for name in QUICK if name != "sinc"])
def test_quick_example_runs_and_prints_sensible_figures(name, tmp_path, monkeypatch, capsys):
    package = QUICK[name][0]
    for needed in filter(None, ("matplotlib", package)):
        if importlib.util.find_spec(needed) is None:
            pytest.skip(f"examples/{name}.py needs {needed}: pip install '.[examples]'")
    picture = tmp_path / "pictures" / "picture.png"
    printed = run_here(name, str(picture), monkeypatch, capsys)
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert_sensible(name, printed)


def test_an_example_runs_in_a_process_of_its_own(tmp_path):
    pytest.importorskip("matplotlib")
    picture = tmp_path / "new" / "sinc.png"
    result = start("sinc", "--out", str(picture))
    assert result.returncode == 0, result.stderr
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert_sensible("sinc", result.stdout)


def test_flats_without_their_file_say_where_to_get_it(tmp_path):
    pytest.importorskip("matplotlib")
    result = start("flats", NEARFIELD_DATA=str(tmp_path))
    assert result.returncode == 1
    assert "Price Paid Data" in result.stderr
    assert "NEARFIELD_DATA" in result.stderr
    assert "Traceback" not in result.stderr


def test_gallery_names_every_example_and_reads_the_code_of_those_it_shows():
    docs = EXAMPLES.parent / "docs"
    page = (docs / "gallery.md").read_text(encoding="utf-8")
    included = re.findall(r'^ +--8<-- "examples/(\w+)\.py"$', page, re.MULTILINE)
    assert sorted(included) == sorted(path.stem for path in (docs / "images" / "gallery").glob("*.png"))
    assert {path.stem for path in EXAMPLES.glob("*.py")} <= set(re.findall(r"(\w+)\.py", page))


def assert_sensible(name, printed):
    _, pattern, limits = QUICK[name]
    numbers = [float(number) for number in re.search(pattern, printed).groups()]
    for number, (low, high) in zip(numbers, limits, strict=True):
        assert low <= number <= high, printed


def run_here(name, picture, monkeypatch, capsys):
    """Standard output of an example, run in this process: most of the time of a new one would go into imports."""
    import matplotlib.pyplot as plt

    monkeypatch.setattr(sys, "argv", [name, "--out", picture])
    with plt.rc_context():
        plt.switch_backend("Agg")
        try:
            runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
        finally:
            plt.close("all")
    return capsys.readouterr().out


def start(name, *arguments, **environment):
    """Run an example in a process of its own, without a screen."""
    return subprocess.run(
        [sys.executable, EXAMPLES / f"{name}.py", *arguments],
        env={**os.environ, "MPLBACKEND": "Agg", **environment},
        capture_output=True,
        text=True,
        check=False,
    )
