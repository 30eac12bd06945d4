"""`nearfield fit`."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import nearfield as nf
from nearfield import cli, io

from ..warned import on_bounds


def others(path):
    """Files beside the table."""
    return sorted(set(os.listdir(os.path.dirname(path))) - {os.path.basename(path)})


@pytest.fixture
def fit(csv, tmp_path, runs):
    """Fit to the table and load the model."""

    def run(*argv):
        out = tmp_path / "model.nf"
        printed, notes = runs("fit", csv, "--target", "temp", "--out", out, *argv)
        return nf.load(out), printed, notes

    return run


def test_a_model_comes_out_that_python_can_open(fit, rows):
    places, target, _ = rows
    model, printed, notes = fit("--features", "lon,lat")
    assert isinstance(model, nf.LocalGPRegressor)
    assert model.feature_names_in_.tolist() == ["lon", "lat"]
    assert notes == ""
    assert "temp from lon, lat: 120 rows" in printed
    assert "hyperparameters" in printed
    direct = nf.LocalGPRegressor(metric="sphere", random_state=0).fit(places, target)
    model.__dict__.pop("feature_names_in_")
    np.testing.assert_allclose(model.predict(places), direct.predict(places), rtol=1e-9)


@on_bounds
def test_axes_may_be_rotated(runs, fails, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 10, (150, 2)) * [1.0, 30.0]
    y = np.sin(X[:, 0] + X[:, 1] / 5)
    table, out = tmp_path / "t.csv", tmp_path / "m.nf"
    np.savetxt(table, np.column_stack([X, y]), delimiter=",", header="east,north,value", comments="")
    argv = ["fit", table, "-t", "value", "-o", out, "--method", "exact"]
    printed, _ = runs(*argv, "--rotated")
    model = nf.load(out)
    direct = nf.ExactGPRegressor(anisotropy="rotated", random_state=0).fit(X, y)  # in the units of the table
    np.testing.assert_allclose(model.rotation_, direct.rotation_, rtol=1e-9)
    assert "degrees, from east towards north" in printed
    assert "--rotated takes two or three coordinates" in fails(*argv, "--rotated", "--features", "east")


def test_all_other_numbers_are_features_and_it_says_so(fit):
    model, _, notes = fit("--method", "exact", "--id", "station")
    assert model.feature_names_in_.tolist() == ["lon", "lat"]
    assert "features: lon, lat" in notes
    assert "left out: town (text)" in notes
    assert "station" not in notes


def test_numbers_with_commas_are_not_called_text(runs, fails, tmp_path):
    rows = "\n".join(f'{i},"9,{i:03}",{i % 3},,' for i in range(30))
    (tmp_path / "t.csv").write_text(f"lon,height,temp,,\n{rows}\n")
    argv = ["fit", tmp_path / "t.csv", "-t", "temp", "-o", tmp_path / "m.nf", "--method", "exact"]
    _, err = runs(*argv)
    assert "left out: height (numbers with commas; write a decimal point" in err
    assert "2 columns (no name)" in err
    assert "--one-hot" not in err
    message = fails(*argv, "-f", "lon,height")
    assert "decimal point" in message
    assert "--one-hot" not in message


def test_what_does_not_vary_is_named(runs, tmp_path):
    (tmp_path / "t.csv").write_text("lon,lat,temp\n" + "".join(f"{i},7,{i % 4}\n" for i in range(20)))
    options = ["-o", tmp_path / "m.nf", "--method", "exact"]
    _, err = runs("fit", tmp_path / "t.csv", "-t", "temp", *options)
    assert "column 'lat' is 7 in every row" in err
    assert "the target is" not in err
    _, err = runs("fit", tmp_path / "t.csv", "-t", "lat", *options)
    assert "the target is 7 in every row" in err
    runs("report", tmp_path / "m.nf", "--out", tmp_path / "r.html")
    page = (tmp_path / "r.html").read_text()
    assert "<b>lat</b> is 7 in every row, so there was nothing to learn" in page
    assert "were given" not in page
    assert "of the variance" not in page


def test_dates_and_an_index_without_a_name_are_no_features(runs, fails, tmp_path):
    path = tmp_path / "t.csv"
    path.write_text(",day,x,y\n0,2020-01-01,1,2\n1,2020-01-02,2,3\n2,2020-01-03,4,5\n")
    _, notes = runs("fit", path, "-t", "y", "-o", tmp_path / "m.nf")
    assert "features: x\n" in notes
    assert "left out: day (dates), a column (no name)\n" in notes
    message = fails("fit", path, "-t", "y", "-f", "day", "-o", tmp_path / "m.nf")
    assert message.endswith("days since the first.")


@pytest.mark.parametrize(
    ("method", "cls"),
    [("exact", nf.ExactGPRegressor), ("features", nf.FeatureGPRegressor), ("local", nf.LocalGPRegressor)],
)
def test_the_methods_and_their_units(csv, tmp_path, runs, rows, method, cls):
    """Columns in other units make the same model, with length scales in the units of the table."""
    places, target, _ = rows
    other = tmp_path / "other.csv"
    table = np.column_stack([places * [1.0, 1000.0], target]).tolist()
    other.write_text("lon,lat,temp\n" + "\n".join(",".join(map(repr, row)) for row in table))
    options = ["--target", "temp", "--features", "lon,lat", "--no-sphere", "--method", method, "--scale", "--ard"]
    models = []
    for path in (csv, other):
        runs("fit", path, *options, "--out", tmp_path / "m.nf")
        models.append(nf.load(tmp_path / "m.nf"))
        assert isinstance(models[-1], cls)
        del models[-1].feature_names_in_
    a = models[0].predict(places, return_std=True)
    b = models[1].predict(places * [1.0, 1000.0], return_std=True)
    np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(
        np.asarray(models[1].length_scale_), np.asarray(models[0].length_scale_) * [1.0, 1000.0], rtol=1e-6
    )


def test_coordinates_keep_their_units_and_share_a_length_scale(fit):
    model, *_ = fit("--features", "lon,lat", "--method", "exact", "--no-sphere")
    assert np.ndim(model.length_scale_) == 0
    model, *_ = fit("--features", "lon,lat", "--one-hot", "town", "--method", "exact", "--no-sphere")
    assert np.shape(model.length_scale_) == (4,)


def test_longitude_and_latitude_are_places_on_the_earth(fit, csv, runs, tmp_path):
    model, printed, _ = fit("--features", "lat,lon", "--one-hot", "town", "--method", "exact")
    assert model.metric_ == "sphere"
    assert model.feature_names_in_.tolist() == ["lon", "lat", "town=Bath", "town=York"]
    assert np.shape(model.length_scale_) == (3,)  # one in km, and one for each category
    assert "distances are in km on the earth" in printed
    text = Path(csv).read_text()
    (tmp_path / "metres.csv").write_text(text.replace("\nS000,", "\nS000,500"))
    runs("fit", tmp_path / "metres.csv", "-t", "temp", "-f", "lon,lat", "--method", "exact", "-o", tmp_path / "m.nf")
    assert nf.load(tmp_path / "m.nf").metric_ == "euclidean"  # no degrees
    (tmp_path / "other.csv").write_text(text.replace("lon,lat", "a,b"))
    runs(
        "fit",
        tmp_path / "other.csv",
        "-t",
        "temp",
        "-f",
        "a,b",
        "--sphere",
        "--method",
        "exact",
        "-o",
        tmp_path / "m.nf",
    )
    assert nf.load(tmp_path / "m.nf").metric_ == "sphere"


def test_text_becomes_columns_on_request(fit):
    model, printed, _ = fit("--features", "lon,lat", "--one-hot", "town", "--method", "exact")
    assert model.feature_names_in_.tolist() == ["lon", "lat", "town=Bath", "town=York"]
    assert "town=York" in printed


def test_rows_with_missing_values_are_dropped_and_counted(csv, lines, tmp_path, runs):
    changed = [*lines]
    changed[3] = "S,,1,Bath,2"
    changed[5] = "S,1,1,Bath,NA"
    changed[9] = "S,1,null,Bath,"
    (tmp_path / "gaps.csv").write_text("\n".join(changed))
    out = tmp_path / "m.nf"
    printed, notes = runs(
        "fit", tmp_path / "gaps.csv", "-t", "temp", "-f", "lon,lat", "-o", out, "--method", "exact", "--json"
    )
    assert "dropped 3 rows of 120 with missing values (lon 1, lat 1, temp 2)" in notes
    result = json.loads(printed)
    assert result["metadata"]["rows_dropped"] == 3
    assert result["metadata"]["rows_used"] == 117
    assert result["metadata"]["missing"] == {"lon": 1, "lat": 1, "temp": 2}


def test_the_metadata_of_a_model(model, rows):
    metadata = io.inspect(model).metadata
    places, target, _ = rows
    assert metadata["target"] == "temp"
    assert metadata["id"] == "station"
    assert metadata["columns"] == [{"name": "lon", "kind": "number"}, {"name": "lat", "kind": "number"}]
    assert metadata["source"] == "stations.csv"
    assert metadata["rows"] == 120
    assert metadata["made_by"] == f"nearfield {nf.__version__}"
    assert metadata["summary"]["lat"]["max"] == places[:, 1].max()
    assert metadata["target_summary"]["mean"] == pytest.approx(target.mean())


def test_the_same_seed_makes_the_same_model(fit):
    a, *_ = fit("--features", "lon,lat", "--seed", "3")
    b, *_ = fit("--features", "lon,lat", "--seed", "3")
    assert a.length_scale_ == b.length_scale_
    del a.feature_names_in_, b.feature_names_in_
    np.testing.assert_array_equal(a.predict(np.ones((1, 2))), b.predict(np.ones((1, 2))))


def test_a_pipe_in(runs, model, csv, tmp_path, monkeypatch):
    with subprocess.Popen(["cat", csv], stdout=subprocess.PIPE, text=True) as process:
        monkeypatch.setattr(sys, "stdin", process.stdout)
        runs("fit", "-", "-t", "temp", "-f", "lon,lat", "--method", "exact", "-o", tmp_path / "m.nf")
    assert io.inspect(tmp_path / "m.nf").metadata["source"] == "standard input"
    X = np.ones((3, 2))
    a, b = nf.load(model), nf.load(tmp_path / "m.nf")
    del a.feature_names_in_, b.feature_names_in_
    np.testing.assert_array_equal(a.predict(X), b.predict(X))


# ---- what goes wrong -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "No such file"),
        ("", "is empty"),
        ("lon,temp\n", "a header and no rows"),
        ("lon,temp\n1,2\n", "1 of 1 rows without missing values"),
        ("lon,temp\n1,2\n3,\n", "1 of 2 rows"),
        ("lon,heat\n1,2\n3,4\n", "no column 'temp'. It has lon, heat."),
        ("lon,tempe\n1,2\n3,4\n", "Did you mean 'tempe'?"),
        ("1,2\n3,4\n", "no header"),
        ("lon lat temp\n1 2 3\n", "blanks between names: put commas, semicolons or tabs there"),
        ("# logger\nlon,temp\n1,2\n", "first line begins with #"),
        ("lon;temp\n1,5;2\n2,5;4\n", "The numbers of 'lon' have commas: write a decimal point"),
        ("lon,temp\n1,2\n3,cold\n4,5\n", "column 'temp' has 'cold' in row 2, where a number must be."),
        ("lon,temp\n1,2\n3,4\nfar,5\n", "column 'lon' has 'far' in row 3"),
        ("lon,temp\n1,2\n3,4,5\n", "row 2 has 3 fields"),
        ("lon,lon,temp\n1,2,3\n3,4,5\n", "more than one column 'lon'"),
        ("temp\n1\n2\n", "no column of numbers besides 'temp'"),
        ("town,temp\na,1\nb,2\n", "no column of numbers besides 'temp'"),
        ("lon,temp\n1,\n2,NA\n", "column 'temp' has no values"),
        ("lon,temp\n1,inf\n2,3\n", "infinite"),
        ("lon,temp\n1,\x1b[2J\n2,3\n", "column 'temp' has"),
    ],
)
def test_a_bad_table_is_one_line(fails, tmp_path, content, words):
    path = tmp_path / "t.csv"
    if content is not None:
        path.write_text(content)
    assert words in fails("fit", path, "--target", "temp", "--out", tmp_path / "m.nf")
    assert others(path) == []


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--features", "lon,height"], "no column 'height'"),
        (["--features", "lon,town"], "column 'town' has 'York' in row 1"),
        (["--features", "lon,town"], "--one-hot town"),
        (["--features", "lon,temp"], "cannot be a feature as well"),
        (["--one-hot", "station"], "120 different values"),
        (["--one-hot", "villages"], "no column 'villages'"),
        (["--id", "name"], "no column 'name'"),
        (["--method", "magic"], "--method must be local, exact or features"),
        (["--tolerance", "-1"], "--tolerance must be positive"),
        (["--tolerance", "much"], "--tolerance"),
        (["--n-scales", "0"], "--n-scales"),
        (["--n-scales", "x"], "--n-scales"),
        (["--n-jobs", "0"], "--n-jobs"),
        (["--seed", "-1"], "--seed"),
        (["--encoding", "klingon"], "no encoding 'klingon'"),
        (["--nope"], "--nope"),
    ],
)
def test_a_bad_option_is_one_line(fails, csv, tmp_path, options, words):
    assert words in fails("fit", csv, "--target", "temp", "--out", tmp_path / "m.nf", *options)
    assert others(csv) == []


def test_an_output_that_cannot_be_written_is_found_before_the_work(fails, csv, tmp_path, monkeypatch):
    monkeypatch.setattr("nearfield.cli.training.read_training", None)  # it would be called next
    assert "does not exist" in fails("fit", csv, "-t", "temp", "-o", tmp_path / "no" / "m.nf")
    assert "folder" in fails("fit", csv, "-t", "temp", "-o", tmp_path)
    assert "file" in fails("fit", csv, "-t", "temp", "-o", "-")
    monkeypatch.setattr("os.open", lambda *_: (_ for _ in ()).throw(PermissionError(13, "Permission denied")))
    assert "cannot be written: Permission denied" in fails("fit", csv, "-t", "temp", "-o", tmp_path / "m.nf")
    assert others(csv) == []


def test_the_table_is_never_replaced_by_the_model(fails, csv, tmp_path, monkeypatch):
    before = (tmp_path / "stations.csv").read_text()
    (tmp_path / "link.csv").symlink_to("stations.csv")
    monkeypatch.setattr("nearfield.cli.training.read_training", None)  # it would be called next
    monkeypatch.chdir(tmp_path)
    for out in (csv, "stations.csv", "./stations.csv", "link.csv"):
        assert "--out is the table itself: give another name" in fails("fit", csv, "-t", "temp", "-o", out)
    assert (tmp_path / "stations.csv").read_text() == before


def test_nor_is_the_table_on_standard_input(fails, csv, tmp_path):
    before = os.dup(0)
    try:
        with open(csv) as table:
            os.dup2(table.fileno(), 0)
        assert "--out is the table itself" in fails("fit", "-", "-t", "temp", "-o", csv)
    finally:
        os.dup2(before, 0)
        os.close(before)
    assert (tmp_path / "stations.csv").read_text().startswith("station,")


def test_a_full_disk_leaves_the_old_model(fails, csv, tmp_path, monkeypatch):
    out = tmp_path / "m.nf"
    out.write_text("old")

    def full(*_):
        raise OSError(28, "No space left on device", str(out))

    monkeypatch.setattr("nearfield.persistence.container.write", full)
    message = fails("fit", csv, "-t", "temp", "-f", "lon,lat", "--method", "exact", "-o", out)
    assert "No space left" in message
    assert out.read_text() == "old"
    assert others(csv) == ["m.nf"]


def test_ctrl_c_is_one_line_and_code_130_and_leaves_nothing(csv, tmp_path):
    rng = np.random.default_rng(0)
    big = tmp_path / "big.csv"
    np.savetxt(big, rng.standard_normal((6000, 9)), delimiter=",", header=",".join("abcdefghy"), comments="")
    process = subprocess.Popen(
        [sys.executable, "-m", "nearfield", "fit", big, "--target", "y", "--out", tmp_path / "m.nf"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )  # fmt: skip
    assert process.stderr.readline().startswith("note: features")  # the table is read, and the work begins
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 130
    assert out == ""
    assert err == "nearfield: interrupted\n"
    assert sorted(os.listdir(tmp_path)) == ["big.csv", "stations.csv"]


def test_the_help_has_examples_and_imports_nothing_heavy():
    code = (
        "import sys; from nearfield.cli import main; main(['fit', '--help']); "
        "print([m for m in ('numpy', 'sklearn', 'scipy', 'pyarrow') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "nearfield fit stations.csv" in done.stdout
    assert done.stdout.strip().endswith("[]")


def test_estimates_on_a_bound_are_named_in_the_units_of_the_table(tmp_path, capsys):
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 3, (150, 3)) * [1.0, 1.0, 1000.0]
    y = np.sin(3 * X[:, 0]) + 0.1 * rng.standard_normal(150)
    table, out = tmp_path / "t.csv", str(tmp_path / "m.nf")
    np.savetxt(table, np.column_stack([X, y]), delimiter=",", header="height,width,depth,z", comments="")
    assert cli.main(["fit", str(table), "--target", "z", "--method", "exact", "--ard", "--out", out]) == 0
    notes = [line for line in capsys.readouterr().err.splitlines() if "sit on a bound" in line]
    model = nf.load(out)
    assert len(notes) == 1
    assert model.learned_.on_bounds
    for estimate in model.learned_.on_bounds:
        assert estimate.value == pytest.approx(model.length_scale_[estimate.column])
        name = ["height", "width", "depth"][estimate.column]
        assert f"length scale of {name} = {estimate.value:.3g} (" in notes[0]


def test_predictions_are_those_of_python(tmp_path, runs):
    """Columns of different units are taken as they are, on the command line and in Python."""
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 3, (150, 2)) * [1.0, 1000.0]
    y = np.sin(3 * X[:, 0]) + np.cos(X[:, 1] / 1000) + 0.1 * rng.standard_normal(150)
    table, out = tmp_path / "t.csv", tmp_path / "m.nf"
    np.savetxt(table, np.column_stack([X, y]), delimiter=",", header="height,width,z", comments="", fmt="%.17g")
    runs("fit", table, "--target", "z", "--method", "exact", "--out", out)
    model, direct = nf.load(out), nf.ExactGPRegressor(random_state=0).fit(X, y)
    assert direct.ard_
    np.testing.assert_allclose(model.length_scale_, direct.length_scale_)
    del model.feature_names_in_
    np.testing.assert_allclose(model.predict(X, return_std=True), direct.predict(X, return_std=True))
