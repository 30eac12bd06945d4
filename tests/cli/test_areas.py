"""`nearfield areas`."""

import json

import numpy as np
import pytest

import nearfield as nf


def parse(text):
    """Header and rows of cells."""
    header, *rows = [line.split(",") for line in text.splitlines()]
    return header, rows


@pytest.fixture
def gp(model):
    made = nf.load(model)
    del made.feature_names_in_
    return made


def test_areas_are_those_of_the_model(runs, model, csv, rows, gp):
    out, err = runs("areas", model, csv, "--group", "town")
    header, cells = parse(out)
    assert header == ["town", "n_places", "weight", "mean", "std", "lower", "upper", "mean_error", "std_error"]
    assert [row[0] for row in cells] == ["Bath", "York"]
    expected = gp.predict_areas(rows[0], rows[2])
    found = np.array([[float(cell) for cell in row[1:]] for row in cells])
    np.testing.assert_allclose(found[:, 2], expected.mean)
    np.testing.assert_allclose(found[:, 3], expected.std)
    np.testing.assert_allclose(found[:, 5] - found[:, 2], 1.959964 * expected.std, rtol=1e-6)
    assert found[:, 0].sum() == 120
    assert err == ""


def test_weights_totals_samples_and_chances(runs, model, tmp_path, lines, rows, gp):
    table, out = tmp_path / "grid.csv", tmp_path / "areas.csv"
    weights = np.linspace(1, 3, 120)
    table.write_text("\n".join([f"{lines[0]},people", *(f"{a},{w}" for a, w in zip(lines[1:], weights, strict=True))]))
    options = ("--weight", "people", "--total", "--method", "samples", "--n-samples", "50", "--above", "1.2", "--json")
    said, err = runs("areas", model, table, "--group", "town", *options, "--out", out)
    assert json.loads(said)["areas"] == 2
    assert "from 50 samples" in err
    header, cells = parse(out.read_text())
    assert header[-1] == "above_1.2"
    expected = gp.predict_areas(rows[0], rows[2], weights, total=True, method="samples", n_samples=50)
    np.testing.assert_allclose([float(row[4]) for row in cells], expected.std, rtol=1e-4)
    chance = gp.sampler(50, 0).above(rows[0], 1.2, rows[2])
    np.testing.assert_allclose([float(row[-1]) for row in cells], chance)


def test_rows_that_lack_something_are_left_out_and_counted(runs, model, tmp_path, lines, rows, gp):
    table = tmp_path / "grid.csv"
    some = [*lines, "S200,,3.0,Bath,1.0", "S201,2.0,3.0,,1.0"]
    table.write_text("\n".join(some) + "\n")
    out, err = runs("areas", model, table, "--group", "town")
    assert "left out 2 rows of 122 with missing values" in err
    np.testing.assert_allclose([float(row[3]) for row in parse(out)[1]], gp.predict_areas(rows[0], rows[2]).mean)


def test_parquet_is_written(runs, model, csv, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    runs("areas", model, csv, "--group", "town", "--out", tmp_path / "areas.parquet")
    assert parquet.read_table(tmp_path / "areas.parquet").column("town").to_pylist() == ["Bath", "York"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--group", "city"), "no column 'city'"),
        (("--group", "town", "--weight", "people"), "no column 'people'"),
        (("--group", "town", "--weight", "temp"), "'weights' argument must be finite numbers of at least 0"),
        (("--group", "town", "--level", "2"), "--level must lie between 0 and 1"),
        (("--group", "town", "--method", "quick"), "--method must be auto, exact or samples"),
        (("--group", "town", "--n-samples", "1"), "--n-samples must be at least 2"),
        (("--group", "town", "--json"), "--json needs --out FILE"),
    ],
)
def test_what_cannot_be_done_is_said(fails, model, csv, options, words):
    assert words in fails("areas", model, csv, *options)


def test_a_table_without_groups_is_refused(fails, model, tmp_path, lines):
    table = tmp_path / "grid.csv"
    table.write_text("\n".join([lines[0], "S1,1.0,2.0,,3.0"]) + "\n")
    assert "no rows with a group" in fails("areas", model, table, "--group", "town", notes=1)
