import json
import re

import numpy as np
import pytest

pytest.importorskip("typer")

import nearfield as nf
from nearfield import cli

from ..warned import few_features

pytestmark = pytest.mark.usefixtures("quick_pages")
FIXED = {"length_scale": 1.0, "signal_variance": 1.0, "noise_variance": 0.09, "random_state": 0}
NAMES = np.array(["east", "north"], dtype=object)


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 8, (120, 2))
    return np.column_stack([X, np.sin(X[:, 0]) + 0.3 * rng.standard_normal(120)])


@pytest.fixture
def folder(tmp_path, monkeypatch, table):
    """A folder with a model of 100 rows and a table of 20 others, which is where the command runs."""
    monkeypatch.chdir(tmp_path)
    model = nf.LocalGPRegressor(**FIXED).fit(table[:100, :2], table[:100, 2])
    model.feature_names_in_ = NAMES
    nf.save(model, "model.nf", {"target": "rain", "columns": [{"name": name, "kind": "number"} for name in NAMES]})
    # columns in another order, and one that the model does not know
    rows = "\n".join(f"{n!r},{y!r},x,{e!r}" for e, n, y in table[100:].tolist())
    (tmp_path / "data.csv").write_text(f"north,rain,note,east\n{rows}\n")
    return tmp_path


def page(path):
    return path.read_text(encoding="utf-8")


def test_a_page_of_a_model(folder, capsys):
    assert cli.main(["report", "model.nf"]) == 0
    said = capsys.readouterr()
    assert said.out.startswith("Wrote report.html")
    assert said.err == ""
    text = page(folder / "report.html")
    names = json.loads(re.search(r'id="data">(.*?)</script>', text, re.S)[1])["map"]["names"]
    assert names == ["east", "north"]
    assert "<b>rain</b>" in text
    assert "Calibration." not in text


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
def test_a_page_with_scores(folder, table, capsys):
    assert cli.main(["report", "model.nf", "data.csv", "--out", "a.html", "--title", "Rain <in> June"]) == 0
    assert capsys.readouterr().err == ""
    text = page(folder / "a.html")
    assert "<h1>Rain &lt;in&gt; June</h1>" in text
    mean = nf.load("model.nf").predict(table[100:, :2])
    assert f"{nf.metrics.rmse(table[100:, 2], mean):.4f}".rstrip("0") in text
    assert "20 observations" in text


def test_scores_of_training_rows_say_so(folder, table, capsys):
    rows = "\n".join(f"{e!r},{n!r},{y!r}" for e, n, y in table[90:110].tolist())
    (folder / "mixed.csv").write_text(f"east,north,rain\n{rows}\n")
    assert cli.main(["report", "model.nf", "mixed.csv"]) == 0
    assert "10 of 20 rows have inputs the model was trained on: scores flatter" in capsys.readouterr().err
    assert "trained on the inputs of 10 of them" in page(folder / "report.html")
    assert cli.main(["report", "model.nf", "data.csv"]) == 0
    assert capsys.readouterr().err == ""
    assert "trained on the inputs" not in page(folder / "report.html")


def test_rows_with_missing_values_are_counted(folder, capsys):
    with (folder / "data.csv").open("a") as handle:
        handle.write("1.5,,x,2.0\n,1.0,x,2.0\n")
    assert cli.main(["report", "model.nf", "data.csv"]) == 0
    assert "dropped 2 rows of 22" in capsys.readouterr().err
    assert "20 observations" in page(folder / "report.html")


def test_data_without_the_target_has_no_scores(folder, capsys):
    (folder / "places.csv").write_text("east,north\n1,2\n")
    assert cli.main(["report", "model.nf", "places.csv"]) == 0
    assert "no column 'rain'" in capsys.readouterr().err
    assert "Calibration." not in page(folder / "report.html")


def test_standard_output(folder, capsys):
    assert cli.main(["report", "model.nf", "--out", "-"]) == 0
    assert capsys.readouterr().out.startswith("<!doctype html>")
    assert not (folder / "report.html").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nope.nf"], "nope.nf"),
        (["data.csv"], "not a nearfield model"),
        (["model.nf", "nope.csv"], "nope.csv"),
        (["model.nf", "empty.csv"], "empty.csv"),
        (["model.nf", "header.csv"], "no row"),
        (["model.nf", "text.csv"], "'north' has 'abc' in row 1"),
        (["model.nf", "other.csv"], "no column 'north'"),
        (["model.nf", "data.csv", "--target", "snow"], "no column 'snow'"),
        (["model.nf", "--out", "nowhere/a.html"], "nowhere"),
        (["model.nf", "--out", "."], "folder"),
        (["model.nf", "--out", "./model.nf"], "--out is the model itself"),
        (["model.nf", "data.csv", "--out", "data.csv"], "--out is the table itself"),
    ],
)
def test_what_cannot_be_is_one_line_and_nothing_is_written(folder, capsys, arguments, words):
    (folder / "empty.csv").write_text("")
    (folder / "header.csv").write_text("east,north,rain\n")
    (folder / "text.csv").write_text("east,north,rain\n1,abc,2\n")
    (folder / "other.csv").write_text("east,south,rain\n1,1,2\n")
    before = sorted(folder.iterdir())
    assert cli.main(["report", *arguments]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1
    assert words in said.err
    assert sorted(folder.iterdir()) == before


@few_features
def test_a_model_without_training_data_needs_a_table(folder, table, capsys):
    model = nf.FeatureGPRegressor(nf.TaylorFeatures(8), **FIXED).fit(table[:, :2], table[:, 2])
    nf.save(model, "features.nf")
    assert cli.main(["report", "features.nf"]) == 2
    assert "give DATA" in capsys.readouterr().err
    (folder / "places.csv").write_text("a,b\n1,2\n2,3\n")
    assert cli.main(["report", "features.nf", "places.csv"]) == 0
    assert "--target" in capsys.readouterr().err


def test_an_old_page_survives_a_failure(folder):
    (folder / "report.html").write_text("old")
    assert cli.main(["report", "model.nf", "nope.csv"]) == 2
    assert page(folder / "report.html") == "old"
