"""`--drift` of `nearfield fit` and `nearfield evaluate`."""

import json
from pathlib import Path

import numpy as np
import pytest

import nearfield as nf

RNG = np.random.default_rng(0)
N = 150
PLACES = RNG.uniform(0, 8, (N, 2))
AREA, KIND = RNG.uniform(50, 200, N), RNG.choice(["flat", "house", "villa"], N)
PRICE = 0.02 * AREA + 2.0 * (KIND == "villa") + np.sin(PLACES[:, 0]) + 0.1 * RNG.standard_normal(N)


@pytest.fixture
def sales(tmp_path):
    path = tmp_path / "sales.csv"
    rows = zip(PLACES, AREA, KIND, PRICE, strict=True)
    lines = [f"{p[0]!r},{p[1]!r},{a!r},{k},{y!r}" for p, a, k, y in rows]
    path.write_text(
        "\n".join(["east,north,area,kind,price", *lines]).replace("np.float64(", "").replace(")", "") + "\n"
    )
    return str(path)


def test_columns_that_tell_nothing_are_called_by_their_names(fails, tmp_path):
    path = tmp_path / "sales.csv"
    columns = np.column_stack([PLACES, AREA, 2 * AREA, PRICE])
    np.savetxt(path, columns, delimiter=",", header="east,north,area,twice,price", comments="")
    argv = ["--target", "price", "--features", "east,north", "--drift", "area,twice", "--out", tmp_path / "x.nf"]
    assert "Drift column 'twice' is a linear combination of 'area'" in fails("fit", path, *argv)


@pytest.mark.parametrize("method", ["exact", "local"])
def test_columns_numbers_and_categories(sales, runs, tmp_path, method):
    out = tmp_path / "price.nf"
    argv = ["--features", "east,north", "--drift", "area,C(kind)", "--method", method, "--n-scales", "1"]
    printed, notes = runs("fit", sales, "--target", "price", "--out", out, *argv)
    assert notes == ""
    assert "price from east, north, with a drift of area, kind=flat, kind=house, kind=villa: 150 rows" in printed
    model = nf.load(out)
    assert model.drift_coef_.names == ("intercept", "area", "kind=house", "kind=villa")
    assert model.feature_names_in_.tolist() == ["east", "north", "area", "kind=flat", "kind=house", "kind=villa"]
    columns = np.column_stack([PLACES, AREA, KIND == "house", KIND == "villa"])
    direct = type(model)(coordinates=[0, 1], drift=[2, 3, 4], n_scales=1, random_state=0).fit(columns, PRICE)
    np.testing.assert_allclose(model.drift_coef_.values, direct.drift_coef_.values, rtol=1e-4)
    np.testing.assert_allclose(model.length_scale_, direct.length_scale_, rtol=1e-3)
    runs("predict", out, sales, "--out", tmp_path / "answers.csv", "--noise")
    answers = np.genfromtxt(tmp_path / "answers.csv", delimiter=",", names=True, encoding="utf-8")
    np.testing.assert_allclose(answers["mean"], direct.predict(columns), atol=1e-3)
    assert "kind=villa" in runs("info", out)[0] or method == "exact"
    page = tmp_path / "page.html"
    runs("report", out, "--out", page)
    assert "Drift</h2>" in page.read_text()


def test_words_and_shared_columns(sales, runs, tmp_path):
    out = tmp_path / "price.nf"
    given = ["fit", sales, "--target", "price", "--out", out, "--method", "exact"]
    runs(*given, "--features", "east,north", "--drift", "linear")
    assert nf.load(out).drift_coef_.names == ("intercept", "east", "north")
    runs(*given, "--features", "east,north", "--drift", "north,area")
    model = nf.load(out)
    assert model.drift_coef_.names == ("intercept", "north", "area")
    assert model.coordinates_.tolist() == [0, 1]
    _, notes = runs(*given, "--drift", "area")  # the other numbers are features
    assert "features: east, north" in notes
    assert nf.load(out).coordinates_.tolist() == [0, 1]


def test_evaluation(sales, runs):
    given = ["evaluate", sales, "--target", "price", "--features", "east,north", "--method", "exact", "--json"]
    plain, drift = (json.loads(runs(*given, *argv)[0]) for argv in ([], ["--drift", "area,C(kind)", "--folds", "3"]))
    assert drift["all"]["rmse"] < 0.3 * plain["all"]["rmse"]


@pytest.mark.parametrize(
    ("drift", "message"),
    [
        ("area,kind", "column 'kind' has"),
        ("aria", "has no column 'aria'. Did you mean 'area'?"),
        ("price", "The target 'price' cannot be a feature as well"),
        (",", "--drift must name columns, or be linear or quadratic"),
        ("C(area)", "column 'area' has 150 different values, and categories are 2 to 100"),
    ],
)
def test_refusals(sales, fails, tmp_path, drift, message):
    argv = ["--target", "price", "--features", "east,north", "--drift", drift, "--out", tmp_path / "x.nf"]
    assert message in fails("fit", sales, *argv)
    assert "write it as C(kind)" in fails("fit", sales, *argv) or drift != "area,kind"


@pytest.mark.parametrize("method", ["exact", "local", "features"])
def test_groups(sales, runs, tmp_path, method):
    out = tmp_path / "price.nf"
    argv = ["--features", "east,north", "--drift", "area", "--groups", "kind", "--method", method, "--n-scales", "1"]
    printed, notes = runs("fit", sales, "--target", "price", "--out", out, *argv)
    assert notes == ""
    assert "price from east, north, with a drift of area, with groups of kind: 150 rows" in printed
    model = nf.load(out)
    assert model.group_effects_.names == ("kind=flat", "kind=house", "kind=villa")
    assert np.argmax(model.group_effects_.values) == 2
    assert model.group_variance_["kind"] > 0.1
    new = tmp_path / "new.csv"
    new.write_text("east,north,area,kind\n1,2,100,flat\n1,2,100,castle\n1,2,100,villa\n1,2,100,\n")
    runs("predict", out, new, "--out", tmp_path / "answers.csv")
    answers = np.genfromtxt(tmp_path / "answers.csv", delimiter=",", names=True, encoding="utf-8")
    assert answers["mean"][0] < answers["mean"][1] < answers["mean"][2]  # a value not seen has the mean of all
    assert answers["std"][1] > 2 * answers["std"][0]
    assert np.isnan(answers["mean"][3])


def test_groups_alone_and_evaluated(sales, runs, fails, tmp_path):
    given = ["evaluate", sales, "--target", "price", "--features", "east,north,area", "--method", "exact", "--json"]
    plain, grouped = (json.loads(runs(*given, *argv)[0]) for argv in ([], ["--groups", "kind", "--folds", "3"]))
    assert grouped["all"]["rmse"] < 0.5 * plain["all"]["rmse"]
    fit = ["fit", sales, "--target", "price", "--features", "east,north", "--out", tmp_path / "x.nf"]
    assert "--groups names 'kind', which has another role already" in fails(
        *fit, "--drift", "C(kind)", "--groups", "kind"
    )
    assert "has no column 'kint'. Did you mean 'kind'?" in fails(*fit, "--groups", "kint")
    assert "Did you mean" not in fails(*fit, "--drift", "norths")  # north has a role already
    assert "--groups must name columns" in fails(*fit, "--groups", ",")


@pytest.mark.parametrize("method", ["exact", "local"])
def test_groups_of_numbers_of_a_model_made_in_python(runs, tmp_path, method):
    """Levels are what the table calls them, and not their places among the levels."""
    level = np.random.default_rng(1).integers(1, 6, N)
    y = PRICE + np.array([0.0, 3.0, -2.0, 1.0, -4.0])[level - 1]
    X = np.column_stack([PLACES, level])
    given = {"coordinates": [0, 1], "groups": [2], "random_state": 0}
    given |= {"length_scale": 2.0, "signal_variance": 1.0, "noise_variance": 0.1}
    model = {"exact": nf.ExactGPRegressor, "local": nf.LocalGPRegressor}[method](**given).fit(X, y)
    nf.save(model, tmp_path / "m.nf")
    table = tmp_path / "t.csv"
    np.savetxt(table, np.column_stack([X, y]), delimiter=",", header="a,b,level,y", comments="", fmt="%.17g")
    runs("predict", tmp_path / "m.nf", table, "--out", tmp_path / "p.csv", "--noise", "--id", "y")
    found = np.genfromtxt(tmp_path / "p.csv", delimiter=",", names=True)
    np.testing.assert_allclose(found["mean"], model.predict(X), atol=1e-10)
    out, err = runs("evaluate", table, "--model", tmp_path / "m.nf", "--target", "y", "--json")
    assert json.loads(out)["all"]["rmse"] == pytest.approx(np.sqrt(np.mean((y - model.predict(X)) ** 2)))
    assert f"{N} of {N} rows have inputs" in err


def test_a_category_of_dropped_rows_alone_is_none_of_the_model(sales, runs, tmp_path):
    lines = Path(sales).read_text().splitlines()
    with_gap = tmp_path / "gap.csv"
    with_gap.write_text("\n".join([*lines, "1.0,1.0,,barn,3.0", "1.0,1.0,,zoo,3.0"]))
    argv = ["--target", "price", "--features", "east,north", "--method", "exact"]
    for option in (["--drift", "area,C(kind)"], ["--drift", "area", "--groups", "kind"]):
        for table in (sales, with_gap):
            runs("fit", table, "--out", tmp_path / f"{Path(table).read_text().count('zoo')}.nf", *argv, *option)
        tables = []
        for number in (0, 1):
            out = tmp_path / "answers.csv"
            runs("predict", tmp_path / f"{number}.nf", sales, "--out", out, "--noise", "--none")
            tables.append(np.genfromtxt(out, delimiter=",", names=True)["mean"])
        np.testing.assert_allclose(tables[1], tables[0], rtol=1e-9)


def test_a_row_with_another_drift_is_no_row_that_the_model_was_trained_on(sales, runs, tmp_path):
    lines = Path(sales).read_text().splitlines()
    out = tmp_path / "m.nf"
    argv = ["--target", "price", "--features", "east,north", "--drift", "area,C(kind)", "--method", "exact"]
    runs("fit", sales, "--out", out, *argv)
    east, north, area, kind, price = lines[1].split(",")
    rows = [lines[1], f"{east},{north},1{area},{kind},{price}", *lines[2:4]]
    (tmp_path / "new.csv").write_text("\n".join([lines[0], *rows]))
    _, err = runs("evaluate", tmp_path / "new.csv", "--model", out)
    assert "3 of 4 rows have inputs the model was trained on" in err
