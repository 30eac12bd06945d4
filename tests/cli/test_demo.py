import sys

import numpy as np
import pytest

pytest.importorskip("typer")

from nearfield import cli
from nearfield.cli import airports as demo


def test_the_globe_looks_from_above_its_middle():
    inside, places, turn = demo.globe(51)
    assert inside.sum() == len(places)
    np.testing.assert_allclose(turn @ turn.T, np.eye(3), atol=1e-12)
    middle = np.flatnonzero(np.flatnonzero(inside) == 25 * 51 + 25)
    np.testing.assert_allclose(places[middle][0], demo.VIEW)


def few_airports(n=500):
    """Made-up airports on a bumpy earth."""
    rng = np.random.default_rng(0)
    places = np.column_stack([rng.uniform(-130, -60, n), rng.uniform(0, 50, n)])
    elevation = 200 + 150 * np.sin(places[:, 0] / 8) + 5 * rng.standard_normal(n)
    order = rng.permutation(n)
    return demo.Airports(places, elevation, order[n // 6 :], order[: n // 6], 3, 1)


@pytest.mark.usefixtures("few_probes", "coarse_maps")
def test_the_demo_writes_pictures_and_a_page_and_prints_scores(tmp_path, monkeypatch, capsys):
    pytest.importorskip("matplotlib")
    pytest.importorskip("airportsdata")
    monkeypatch.setattr(demo, "load", few_airports)
    out = tmp_path / "new" / "folder"
    assert cli.main(["demo", "--out", str(out), "--size", "60"]) == 0
    assert sorted(path.name for path in out.iterdir()) == ["calibration.png", "map.png", "report.html"]
    for name in ("map.png", "calibration.png"):
        assert (out / name).read_bytes().startswith(b"\x89PNG")
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "longitude (degrees)" in page
    said = capsys.readouterr().out
    for words in ("504 airports", "417 to train, 83 to test", "RMSE", "95 % coverage", "exact", "All done"):
        assert words in said


def test_the_airports_are_cleaned():
    pytest.importorskip("airportsdata")
    data = demo.load()
    assert len(data.elevation) > 20_000
    assert np.all(data.elevation != 0)
    assert len(np.unique(data.places, axis=0)) == len(data.places)
    assert sorted([*data.train, *data.test]) == list(range(len(data.elevation)))
    assert np.abs(data.places[:, 0]).max() <= 180
    assert np.abs(data.places[:, 1]).max() <= 90
    assert data.elevation.max() > 4000


@pytest.mark.parametrize("package", ["airportsdata", "matplotlib"])
def test_a_missing_package_is_one_line(tmp_path, monkeypatch, capsys, package):
    monkeypatch.setitem(sys.modules, package, None)
    assert cli.main(["demo", "--out", str(tmp_path / "new")]) == 2
    said = capsys.readouterr()
    assert "pip install 'nearfield[demo]'" in said.err
    assert said.err.count("\n") == 1
    assert not (tmp_path / "new").exists()


def test_a_folder_that_cannot_be_written_is_refused_before_the_fit(tmp_path, monkeypatch, capsys):
    pytest.importorskip("matplotlib")
    pytest.importorskip("airportsdata")
    monkeypatch.setattr(demo, "load", lambda: pytest.fail("it went on"))
    (tmp_path / "file").touch()
    for out in (tmp_path / "file", tmp_path / "file" / "folder"):
        assert cli.main(["demo", "--out", str(out)]) == 2
        said = capsys.readouterr()
        assert "cannot be written" in said.err
        assert said.err.count("\n") == 1


@pytest.mark.parametrize("options", [["--scales", "many"], ["--scales", "0"], ["--size", "1"], ["--tolerance", "0"]])
def test_wrong_options_are_one_line(tmp_path, capsys, options):
    assert cli.main(["demo", "--out", str(tmp_path), *options]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []
