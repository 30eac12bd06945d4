"""The command, on small data made on the spot: files, resuming, and everything that can be wrong."""

import csv
import os
import re

import pytest

pytest.importorskip("matplotlib")
pytest.importorskip("typer")

from nearfield import cli
from nearfield.reproduction import Settings, methods, reproduce
from nearfield.reproduction.cache import Cache
from nearfield.reproduction.cells import Cell, Laboratory

FIGURES = ["vanishing", "sinc", "uk-map", "clusters", "features", "variances"]


def command(folder, out, *arguments):
    return cli.main(["reproduce", "--quick", "--data-dir", str(folder), "--out", str(out), *arguments])


def test_clusters_and_features_write_everything(folder, tiny, tmp_path, capsys):
    out = tmp_path / "out"
    assert command(folder, out, "features", "clusters", "--seeds", "2", "--protocol", "published") == 0
    assert str(out / "index.html") in capsys.readouterr().out
    page = (out / "index.html").read_text()
    for name in ("clusters", "features"):
        for file in (f"{name}-published.png", f"{name}-published.pdf", f"{name}.csv", f"{name}.md"):
            assert (out / file).stat().st_size > 500
        assert f"src='{name}-published.png'" in page
        for link in re.findall(r"(?:href|src)='([^#'][^']*)'", page):
            assert (out / link).exists()
    rows = list(csv.DictReader((out / "features.csv").open()))
    kinds = {(r["data"], r["method"], r["sampling"], r["spacing"]) for r in rows}
    assert ("yacht", "fourier", "structured", "") in kinds
    assert ("uk_flats", "fourier", "structured", "") not in kinds
    assert ("uk_flats", "maclaurin", "tensor_srht", "2.0") in kinds
    assert len(rows) == 2 * 2 * (7 + 8 + 8)  # seeds, sizes, methods of each data set
    assert all(float(r["kl_sum"]) >= 0 and float(r["rmse"]) > 0 for r in rows)
    assert "verdict" in (out / "clusters.md").read_text()
    assert [p for p in out.rglob(".*") if p.is_file()] == []


@pytest.mark.usefixtures("no_pictures")
def test_both_protocols_on_a_map_and_a_page_that_remembers(folder, tiny, tmp_path, monkeypatch):
    from nearfield.reproduction import uk_map

    monkeypatch.setattr(uk_map, "CHUNK", 300)
    out = tmp_path / "out"
    assert command(folder, out, "vanishing") == 0
    assert command(folder, out, "uk-map", "--protocol", "converged") == 0
    page = (out / "index.html").read_text()
    assert "vanishing.png" in page
    assert "uk-map.png" in page
    assert len(list(csv.DictReader((out / "uk-map.csv").open()))) == 5 * 900


def _laboratory(folder, out):
    from nearfield import datasets

    settings = Settings(out, folder, 1, True, ("published",))
    loaded = {name: datasets.load(name, folder) for name in datasets.SOURCES}
    return Laboratory(settings, loaded, Cache(out / "cells"), lambda *_: None)


def test_an_interrupted_run_goes_on_where_it_stopped(folder, tiny, tmp_path, monkeypatch):
    cells = [Cell("yacht", "published", 0, "fourier", "gaussian", D) for D in (4, 6, 8, 10)]
    real, calls = methods.fourier, []

    def interrupted(problem, sampling, D):
        calls.append(D)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return real(problem, sampling, D)

    monkeypatch.setattr(methods, "fourier", interrupted)
    monkeypatch.setattr("nearfield.reproduction.cells.n_threads", lambda _: 1)
    with pytest.raises(KeyboardInterrupt):
        _laboratory(folder, tmp_path).run(cells, "stage")
    assert len(calls) == 3
    done = calls[:2]
    results = _laboratory(folder, tmp_path).run(cells, "stage")
    assert sorted(calls[3:]) == sorted({4, 6, 8, 10} - set(done))  # each of the others once, none of those again
    calls.clear()
    again = _laboratory(folder, tmp_path).run(cells, "stage")
    assert calls == []
    assert again == results


@pytest.mark.usefixtures("no_pictures")
def test_so_far_shows_what_there_is_and_computes_nothing(folder, tiny, tmp_path, monkeypatch, capsys):
    out = tmp_path / "out"
    arguments = ("features", "--protocol", "published", "--seeds", "2", "--so-far")
    _refused(capsys, command(folder, out, *arguments), "Nothing of features", "--so-far")
    cells = [Cell("kin8nm", "published", 0, "fourier", "gaussian", D) for D in (8, 16)]
    _laboratory(folder, out).run(cells, "stage")
    for name in ("fourier", "maclaurin", "ours"):
        monkeypatch.delattr(methods, name)
    assert command(folder, out, *arguments) == 0
    rows = list(csv.DictReader((out / "features.csv").open()))
    assert [(r["data"], r["D"], r["seed"]) for r in rows] == [("kin8nm", "8", "0"), ("kin8nm", "16", "0")]


def test_results_are_kept_by_everything_that_determines_them(tmp_path):
    cache = Cache(tmp_path)
    cache.put({"a": 1, "b": None}, {"x": 0.1})
    assert cache.get({"b": None, "a": 1}) == {"x": 0.1}
    assert cache.get({"a": 2, "b": None}) is None
    (file,) = tmp_path.rglob("*.json")
    file.write_text(file.read_text()[:-4])  # a file cut short counts as none
    assert cache.get({"a": 1, "b": None}) is None


def test_ctrl_c_is_130_and_leaves_no_half_written_file(folder, tiny, tmp_path, monkeypatch, capsys):
    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(methods, "ours", stop)
    out = tmp_path / "out"
    assert command(folder, out, "features", "--protocol", "published") == 130
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") <= 1
    assert not (out / "features.csv").exists()
    assert not (out / "index.html").exists()


def _refused(capsys, code, *words):
    assert code == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert all(word in captured.err for word in words), captured.err


def test_bad_input_is_one_line_and_nothing_written(folder, tiny, tmp_path, capsys):
    out = tmp_path / "out"
    _refused(capsys, command(folder, out, "figure-9"), "figure-9", *FIGURES)
    _refused(capsys, command(tmp_path / "nowhere", out, "clusters"), "nowhere", "does not exist")
    _refused(capsys, command(tmp_path, out, "clusters"), "has no uk_flats_2020-12.csv.gz", "Land Registry")
    _refused(capsys, command(folder, out, "--seeds", "0"), "seeds")
    _refused(capsys, command(folder, out, "--protocol", "best"), "best")
    (folder / "yacht.csv.gz").write_bytes((folder / "kin8nm.csv.gz").read_bytes())
    _refused(capsys, command(folder, out, "features"), "yacht.csv.gz", "lacks lcb")
    assert not out.exists()


def test_an_output_folder_that_cannot_be_written(folder, tiny, tmp_path, capsys):
    file = tmp_path / "file"
    file.write_text("here")
    _refused(capsys, command(folder, file, "vanishing"), str(file), "cannot be written")
    _refused(capsys, command(folder, file / "below", "vanishing"), "cannot be written")
    assert file.read_text() == "here"
    if os.geteuid() != 0:
        closed = tmp_path / "closed"
        closed.mkdir(mode=0o500)
        _refused(capsys, command(folder, closed, "vanishing"), "cannot be written")


@pytest.mark.usefixtures("no_pictures")
def test_figures_without_data_need_none(tmp_path, monkeypatch):
    monkeypatch.delenv("NEARFIELD_DATA", raising=False)
    sections = reproduce(Settings(tmp_path / "out", None, 1, True), ["sinc", "vanishing"])
    assert [s.name for s in sections] == ["vanishing", "sinc"]
    table = sections[0].tables[0]
    lines = table.markdown().splitlines()[2:]
    assert {line.replace("\\|", "").count("|") for line in lines} == {5}  # bars in a cell do not end it
    assert [row[-1] for row in table.rows] == ["yes"] * 4


def test_the_help_does_not_import_the_experiments():
    import subprocess
    import sys

    code = (
        "import sys; from nearfield.cli import main; main(['--help']); "
        "sys.exit('nearfield.reproduction' in sys.modules or 'matplotlib' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode == 0
