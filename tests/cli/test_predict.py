"""`nearfield predict`."""

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.special import ndtri

import nearfield as nf
from nearfield.cli.models import rows_at_a_time


def parse(text, delimiter=","):
    """Header and rows of cells."""
    header, *rows = [line.split(delimiter) for line in text.splitlines()]
    return header, rows


def numbers(rows, *columns):
    return np.array([[float(row[c]) for c in columns] for row in rows])


def test_predictions_are_those_of_the_model(runs, model, csv, rows):
    out, err = runs("predict", model, csv, "--id", "station", "--noise")
    header, cells = parse(out)
    assert header == ["station", "mean", "std", "lower", "upper"]
    assert [row[0] for row in cells] == [f"S{i:03}" for i in range(120)]
    assert err == ""
    gp = nf.load(model)
    del gp.feature_names_in_
    mean, std = gp.predict(rows[0], return_std=True, include_noise=True)
    expected = np.column_stack([mean, std, mean - ndtri(0.975) * std, mean + ndtri(0.975) * std])
    np.testing.assert_allclose(numbers(cells, 1, 2, 3, 4), expected, rtol=1e-12)


def test_columns_stay_unless_told_otherwise_and_noise_is_said(runs, model, csv, lines):
    out, err = runs("predict", model, csv)
    header, cells = parse(out)
    assert header == [*lines[0].split(","), "mean", "std", "lower", "upper"]
    assert [",".join(row[:5]) for row in cells] == lines[1:]
    assert "those of observations; the next release gives the function's unless you say --noise" in err
    none, err = runs("predict", model, csv, "--none", "--noise")
    assert parse(none)[1] == [row[5:] for row in cells]
    assert err == ""


def test_the_function_itself_and_other_levels(runs, model, csv, rows):
    _, cells = parse(runs("predict", model, csv, "--id", "station", "--latent", "--level", "0.5")[0])
    gp = nf.load(model)
    del gp.feature_names_in_
    mean, std = gp.predict(rows[0], return_std=True)
    np.testing.assert_allclose(numbers(cells, 2)[:, 0], std)
    np.testing.assert_allclose(numbers(cells, 4)[:, 0], mean + ndtri(0.75) * std)


@pytest.mark.parametrize("size", [1, 7, 120, 1000])
def test_batches_change_nothing(runs, model, csv, size):
    whole = numbers(parse(runs("predict", model, csv, "--id", "station")[0])[1], 1, 2, 3, 4)
    parts = numbers(parse(runs("predict", model, csv, "--id", "station", "--batch-size", size)[0])[1], 1, 2, 3, 4)
    np.testing.assert_allclose(parts, whole, rtol=1e-9)


def test_models_that_are_made_anew_for_each_batch_get_large_ones(rows):
    gp = nf.LocalGPRegressor(length_scale=1.0, signal_variance=1.0, noise_variance=0.1, random_state=0)
    gp.fit(rows[0], rows[1])
    assert rows_at_a_time(gp) == 10_000
    gp._predictor.models.clear()
    assert rows_at_a_time(gp) == 200_000


def test_columns_that_are_kept(runs, model, csv, lines):
    header, cells = parse(runs("predict", model, csv, "--all", "--prefix", "p_")[0])
    assert header == ["station", "lon", "lat", "town", "temp", "p_mean", "p_std", "p_lower", "p_upper"]
    assert [",".join(row[:5]) for row in cells] == lines[1:]  # to the last character
    header, _ = parse(runs("predict", model, csv, "--id", "town,station")[0])
    assert header[:2] == ["town", "station"]


def test_columns_may_stand_in_another_order_and_among_others(runs, model, csv, tmp_path, lines):
    other = tmp_path / "other.csv"
    other.write_text("\n".join(";".join([*(line.split(",")[i] for i in (3, 2, 1)), "more"]) for line in lines))
    header, cells = parse(runs("predict", model, other, "--none")[0], ";")  # a pipe speaks as it is spoken to
    assert header == ["mean", "std", "lower", "upper"]
    np.testing.assert_array_equal(
        numbers(cells, 0), numbers(parse(runs("predict", model, csv, "--id", "station")[0])[1], 1)
    )


def test_rows_with_missing_values_stay_and_are_counted(runs, model, tmp_path):
    path = tmp_path / "gaps.csv"
    path.write_text("station,lon,lat\nA,1,2\nB,,2\nC,1,NaN\nD,3,4\n")
    out, err = runs("predict", model, path, "--id", "station", "--noise")
    _, cells = parse(out)
    assert [row[0] for row in cells] == ["A", "B", "C", "D"]
    assert [row[1:] == ["", "", "", ""] for row in cells] == [False, True, True, False]
    assert err == "note: no prediction for 2 rows of 4 with missing values\n"


def test_categories_unknown_to_the_model(runs, csv, tmp_path):
    runs("fit", csv, "-t", "temp", "-f", "lon,lat", "--one-hot", "town", "--method", "exact", "-o", tmp_path / "m.nf")
    path = tmp_path / "new.csv"
    path.write_text("town,lat,lon\nYork,1,2\nHull,1,2\n,1,2\nBath,1,2\n")
    out, err = runs("predict", tmp_path / "m.nf", path, "--none")
    means = [row[0] for row in parse(out)[1]]
    assert means[1] == means[2] == ""
    assert means[0] != means[3]
    assert "no prediction for 1 row of 4 with missing values" in err
    assert "no prediction for 1 row of 4 with a value of 'town' unknown to the model" in err
    path.write_text(path.read_text().replace("town,", "temp,town,").replace("\n", "\n1,").removesuffix("1,"))
    _, err = runs("report", tmp_path / "m.nf", path, "--out", tmp_path / "r.html")
    assert "dropped 1 row of 4 with missing values" in err
    assert "dropped 1 row of 4 with a value of 'town' unknown to the model" in err


def test_files_of_every_kind(runs, model, csv, tmp_path):
    plain, _ = runs("predict", model, csv, "--id", "station")
    runs("predict", model, csv, "--id", "station", "--out", tmp_path / "p.csv")
    assert (tmp_path / "p.csv").read_text() == plain
    runs("predict", model, csv, "--id", "station", "--out", tmp_path / "p.tsv.gz")
    assert gzip.decompress((tmp_path / "p.tsv.gz").read_bytes()).decode() == plain.replace(",", "\t")
    pq = pytest.importorskip("pyarrow.parquet")
    runs("predict", model, csv, "--all", "--out", tmp_path / "p.parquet")
    table = pq.read_table(tmp_path / "p.parquet")
    assert table.num_rows == 120
    assert repr(table["mean"][5].as_py()) == plain.splitlines()[6].split(",")[1]
    again, _ = runs("predict", model, tmp_path / "p.parquet", "--prefix", "p_", "--id", "station")
    assert again.splitlines()[1:] == plain.splitlines()[1:]


def test_the_summary_for_machines(runs, model, csv, tmp_path):
    out, _ = runs("predict", model, csv, "--out", tmp_path / "p.csv", "--json")
    assert json.loads(out) == {
        "out": str(tmp_path / "p.csv"), "rows": 120, "missing": 0, "unknown": {},
        "columns": ["mean", "std", "lower", "upper"],
    }  # fmt: skip


def test_a_header_alone_gives_a_header_alone(runs, model, tmp_path):
    (tmp_path / "head.csv").write_text("lat,lon\n")
    out, err = runs("predict", model, tmp_path / "head.csv", "--none")
    assert out == "mean,std,lower,upper\n"
    assert "no rows" in err


def test_models_saved_in_python(runs, rows, csv, tmp_path):
    places, target, _ = rows
    gp = nf.ExactGPRegressor(length_scale=1.0, signal_variance=1.0, noise_variance=0.1)
    nf.save(gp.fit(places, np.column_stack([target, -target])), tmp_path / "m.nf")
    (tmp_path / "two.csv").write_text("u,v\n1,2\n")
    header, cells = parse(runs("predict", tmp_path / "m.nf", tmp_path / "two.csv", "--none")[0])
    assert header[:2] == ["mean_0", "std_0"]
    assert header[4:6] == ["mean_1", "std_1"]
    np.testing.assert_allclose(numbers(cells, 0, 4), gp.predict([[1, 2]]))
    gp.feature_names_in_ = np.array(["lon", "lat"], dtype=object)
    nf.save(gp, tmp_path / "m.nf")
    assert len(parse(runs("predict", tmp_path / "m.nf", csv)[0])[1]) == 120


def test_a_pipe_gives_as_many_rows_as_it_takes_whatever_the_locale(model, lines):
    table = "\n".join([lines[0].replace("station", "größe"), *lines[1:] * 30]) + "\n"
    done = subprocess.run(
        [sys.executable, "-m", "nearfield", "predict", model, "-", "--noise", "--batch-size", "1000", "--all"],
        env={**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
        input=table.encode("utf-8"), capture_output=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stderr == b""
    written = done.stdout.decode("utf-8").splitlines()
    assert len(written) == 3601
    assert written[0].startswith("größe,lon,lat,town,temp,mean")
    assert [line.split(",")[0] for line in written] == [line.split(",")[0] for line in table.split()]


def test_a_closed_pipe_ends_it_without_a_word(model, lines, tmp_path):
    (tmp_path / "big.csv").write_text("\n".join([lines[0], *lines[1:] * 200]))
    process = subprocess.Popen(
        [sys.executable, "-m", "nearfield", "predict", model, tmp_path / "big.csv", "--batch-size", "100"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout.readline() == "station,lon,lat,town,temp,mean,std,lower,upper\n"
    process.stdout.close()
    err = process.stderr.read()
    process.stderr.close()
    assert process.wait() == 141  # what a shell says of a process that SIGPIPE has ended
    assert err == ""


# ---- what goes wrong -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "No such file"),
        ("", "is empty"),
        ("lon,height\n1,2\n", "no column 'lat', which the model predicts from"),
        ("lon,Lat\n1,2\n", "Did you mean 'Lat'?"),
        ("lon,lat\n1,2\n3,south\n", "column 'lat' has 'south' in row 2"),
        ("lon,lat\n1,2\n3\n", "row 2 has 1 field and"),
        ("lon,lat\n1,inf\n", "infinite"),
    ],
)
def test_a_bad_table_is_one_line_and_leaves_no_file(fails, model, tmp_path, content, words):
    path = tmp_path / "t.csv"
    if content is not None:
        path.write_text(content)
    out = tmp_path / "out.csv"
    assert words in fails("predict", model, path, "--out", out)
    assert set(os.listdir(tmp_path)) <= {"t.csv"}


def test_a_bad_row_late_in_the_table_leaves_no_file(fails, model, tmp_path):
    (tmp_path / "t.csv").write_text("lon,lat\n" + "1,2\n" * 50 + "1,x\n")
    (tmp_path / "out.csv").write_text("old")
    assert "row 51" in fails("predict", model, tmp_path / "t.csv", "--out", tmp_path / "out.csv", "--batch-size", 10)
    assert (tmp_path / "out.csv").read_text() == "old"
    assert sorted(os.listdir(tmp_path)) == ["out.csv", "t.csv"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--level", "95"], "--level must lie between 0 and 1"),
        (["--batch-size", "0"], "--batch-size"),
        (["--json"], "--json needs --out FILE"),
        (["--id", "name"], "no column 'name'"),
        (["--out", "/no/such/folder/p.csv"], "does not exist"),
        (["--prefix", "sta", "--id", "station", "--all", "--nope"], "--nope"),
    ],
)
def test_a_bad_option_is_one_line(fails, model, csv, options, words):
    assert words in fails("predict", model, csv, *options)


def test_inputs_are_never_overwritten(fails, model, csv, tmp_path):
    (tmp_path / "m.nf").symlink_to(model)
    with open(csv, "rb") as table, open(model, "rb") as file:
        before = table.read(), file.read()
    assert "--out is the table itself" in fails("predict", model, csv, "--out", csv)
    assert "--out is the model itself" in fails("predict", model, csv, "--out", tmp_path / "m.nf")
    with open(csv, "rb") as table, open(model, "rb") as file:
        assert (table.read(), file.read()) == before


def test_a_column_is_never_overwritten(fails, model, tmp_path):
    (tmp_path / "t.csv").write_text("lon,lat,mean\n1,2,3\n")
    assert "--prefix" in fails("predict", model, tmp_path / "t.csv", "--all")


def test_a_bad_model_is_one_line(fails, model, csv, tmp_path):
    assert "No such file" in fails("predict", tmp_path / "none.nf", csv)
    assert "not a nearfield model" in fails("predict", csv, csv)
    content = bytearray(Path(model).read_bytes())
    path = tmp_path / "m.nf"
    path.write_bytes(content[:-1])
    assert "truncated" in fails("predict", path, csv)
    content[16] = 9
    path.write_bytes(content)
    assert "update nearfield" in fails("predict", path, csv)


def test_a_model_without_names_needs_the_right_number_of_columns(fails, rows, csv, tmp_path):
    gp = nf.ExactGPRegressor(length_scale=1.0, signal_variance=1.0, noise_variance=0.1)
    nf.save(gp.fit(rows[0], rows[1]), tmp_path / "m.nf")
    assert "takes 2 columns" in fails("predict", tmp_path / "m.nf", csv)
    nf.save(gp, tmp_path / "m.nf", {"columns": "nonsense"})
    assert "cannot be read here" in fails("predict", tmp_path / "m.nf", csv)
    nf.save(gp, tmp_path / "m.nf", {"columns": [{"name": "lon", "kind": "number"}]})
    assert "other columns" in fails("predict", tmp_path / "m.nf", csv)


def test_rows_far_outside_are_counted_once(runs, model, tmp_path):
    rows = "".join(f"{i % 9},{80 if i in (30, 50) else 5}\n" for i in range(60))
    (tmp_path / "t.csv").write_text(f"lon,lat\n{rows}")
    _, err = runs("predict", model, tmp_path / "t.csv", "--noise", "--batch-size", "10")
    assert "2 of 60 points lie more than 3 length scales outside of the data, the first of them in row 31" in err
    assert len(err.splitlines()) == 1


def test_latitudes_beyond_the_pole_are_one_line(fails, model, tmp_path):
    (tmp_path / "t.csv").write_text("lon,lat\n1,2\n3,95\n")
    message = fails("predict", model, tmp_path / "t.csv", "--out", tmp_path / "o.csv")
    assert "column 'lat' must hold latitudes from -90 to 90 in degrees. Got 95 in row 2" in message


def test_quantiles_and_probabilities(runs, model, csv):
    header, cells = parse(
        runs("predict", model, csv, "--noise", "--none", "--quantiles", "0.1,0.5", "--above", "0.25,-3.5")[0]
    )
    assert header == ["mean", "std", "lower", "upper", "q0.1", "q0.5", "above_0.25", "above_-3.5"]
    mean, std, _, _, low, median, above, surely = numbers(cells, *range(8)).T
    np.testing.assert_allclose(median, mean, rtol=1e-9)
    np.testing.assert_allclose(low, mean + ndtri(0.1) * std, rtol=1e-9)
    np.testing.assert_allclose(
        ndtri(np.clip(above, 1e-12, 1 - 1e-12)), np.clip((mean - 0.25) / std, -7.03, 7.03), atol=0.05
    )
    assert np.all(surely > 0.99)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--quantiles", "0.5,1"], "--quantiles must lie between 0 and 1, not 1."),
        (["--quantiles", "half"], "--quantiles must be numbers with commas between them, not 'half'."),
        (["--above", "inf"], "--above must be finite numbers, not 'inf'."),
        (["--above", "3,3"], "--quantiles and --above must not name a number twice."),
    ],
)
def test_quantiles_and_thresholds_that_are_none(fails, model, csv, options, sentence):
    assert sentence in fails("predict", model, csv, *options)
