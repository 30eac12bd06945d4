"""`nearfield evaluate`."""

import json

import numpy as np
import pytest

import nearfield as nf
from nearfield.cli.evaluate import split

from ..small import exact_up_to
from ..warned import on_bounds

OPTIONS = ["--target", "temp", "--features", "lon,lat", "--method", "exact"]


def test_scores_of_rows_held_out(runs, csv, rows):
    out, _ = runs("evaluate", csv, *OPTIONS, "--json", "--seed", "5")
    result = json.loads(out)
    places, target, _ = rows
    (test,) = split(120, 0.2, None, None, 5)
    assert len(test) == 24
    train = np.setdiff1d(np.arange(120), test)
    gp = nf.ExactGPRegressor(metric="sphere", random_state=5).fit(places[train], target[train])
    mean, std = gp.predict(places[test], return_std=True, include_noise=True)
    scores = result["all"]
    assert scores["rmse"] == pytest.approx(nf.metrics.rmse(target[test], mean), rel=1e-6)
    assert scores["nll"] == pytest.approx(nf.metrics.mean_nll(target[test], mean, std=std), rel=1e-6)
    assert scores["crps"] == pytest.approx(nf.metrics.crps(target[test], mean, std=std), rel=1e-6)
    assert scores["coverage"] == nf.metrics.coverage(target[test], mean, std=std)
    expected = np.sqrt(np.mean((target[test] - target[train].mean()) ** 2))
    assert result["rmse_of_the_mean"] == pytest.approx(expected)
    assert result["folds"][0]["train"] == 96


def test_a_table_for_people(runs, csv):
    out, _ = runs("evaluate", csv, *OPTIONS, "--folds", "3", "--level", "0.9")
    lines = out.splitlines()
    assert lines[0] == "temp from lon, lat; single rows, 3 folds"
    assert lines[1].split() == ["train", "test", "RMSE", "NLL", "CRPS", "in", "90%"]
    assert [line.split()[0] for line in lines[2:]] == ["fold", "fold", "fold", "all", "mean"]
    assert lines[5].split()[1] == "120"
    assert len({len(line) for line in lines[1:6]}) == 1


def test_every_row_is_held_out_once(csv, runs):
    parts = split(103, 0.2, 4, None, 0)
    assert sorted(np.concatenate(parts).tolist()) == list(range(103))
    assert {len(part) for part in parts} == {25, 26}
    labels = np.repeat(np.arange(12), np.arange(1, 13))
    parts = split(len(labels), 0.2, 3, labels, 0)
    assert sorted(np.concatenate(parts).tolist()) == list(range(len(labels)))
    for a, b in ((0, 1), (0, 2), (1, 2)):
        assert not set(labels[parts[a]]) & set(labels[parts[b]])
    assert max(map(len, parts)) - min(map(len, parts)) <= 2  # of 78


@pytest.mark.parametrize("share", [0.01, 0.2, 0.5, 0.99])
def test_whole_groups_are_held_out_up_to_the_share(share):
    labels = np.repeat(np.arange(20), 5)
    (test,) = split(100, share, None, labels, 0)
    assert len(test) == min(max(5 * np.ceil(share * 20), 5), 95)
    assert not set(labels[test]) & set(np.delete(labels, test))


def test_blocks_keep_test_rows_away_from_training_rows(runs, csv, rows, monkeypatch):
    """The distance to the nearest training row is larger, and so is the error."""
    taken = []
    original = split

    def spy(*args):
        taken.append(original(*args))
        return taken[-1]

    monkeypatch.setattr("nearfield.cli.evaluate.split", spy)
    results = [
        json.loads(runs("evaluate", csv, *OPTIONS, "--folds", "4", "--json", *more)[0])
        for more in ([], ["--spatial-blocks", "--n-blocks", "8"])
    ]
    places = rows[0]
    gaps = []
    for parts in taken:
        nearest = [
            np.min(np.linalg.norm(places[test][:, None] - np.delete(places, test, axis=0)[None], axis=2), axis=1)
            for test in parts
        ]
        gaps.append(np.median(np.concatenate(nearest)))
    assert gaps[1] > 1.5 * gaps[0]
    assert results[1]["all"]["rmse"] > 1.5 * results[0]["all"]["rmse"]
    assert results[1]["split"] == "spatial blocks, 4 folds"


def test_blocks_by_some_columns(runs, csv, monkeypatch):
    taken = []
    original = split
    monkeypatch.setattr("nearfield.cli.evaluate.split", lambda *a: taken.append(a[3]) or original(*a))
    runs("evaluate", csv, *OPTIONS, "--spatial-blocks", "--n-blocks", "4", "--block-columns", "lon")
    order = np.argsort(np.loadtxt(csv, delimiter=",", skiprows=1, usecols=1))
    assert np.count_nonzero(np.diff(taken[0][order])) == 3  # four intervals of lon


def test_a_model_is_scored_on_rows_it_is_given(runs, model, csv, rows, tmp_path, lines):
    out, err = runs("evaluate", csv, "--model", model, "--json")
    result = json.loads(out)
    assert "120 of 120 rows have inputs the model was trained on: scores flatter" in err
    assert result["rows_trained_on"] == 120
    gp = nf.load(model)
    del gp.feature_names_in_
    mean = gp.predict(rows[0])
    assert result["all"]["rmse"] == pytest.approx(nf.metrics.rmse(rows[1], mean))
    (tmp_path / "gaps.csv").write_text("\n".join([*lines, "S,1,,Bath,3", "S,1,1,Bath,"]))
    out, err = runs("evaluate", tmp_path / "gaps.csv", "--model", model)
    assert "dropped 2 rows of 122" in err
    assert out.splitlines()[2].startswith("all")


@pytest.mark.parametrize("method", ["exact", "local"])
def test_training_rows_are_found_whatever_the_units(runs, tmp_path, method):
    rng = np.random.default_rng(1)
    X = rng.uniform(0, 1, (60, 3)) * [1e6, 1, 1e-3] + [3e6, 0, 1]
    table = np.column_stack([X, X[:, 1] + 0.1 * rng.standard_normal(60)]).tolist()
    rows = [",".join(map(repr, row)) for row in table]
    for name, part in (("train", rows[:40]), ("some", rows[35:]), ("new", rows[40:])):
        (tmp_path / f"{name}.csv").write_text("\n".join(["a,b,c,y", *part]))
    runs("fit", tmp_path / "train.csv", "-t", "y", "-o", tmp_path / "m.nf", "--method", method, "--n-scales", "1")
    _, err = runs("evaluate", tmp_path / "some.csv", "--model", tmp_path / "m.nf")
    assert "5 of 25 rows have inputs the model was trained on" in err
    assert runs("evaluate", tmp_path / "new.csv", "--model", tmp_path / "m.nf")[1] == ""


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ([], "--target"),
        (["--target", "heat"], "no column 'heat'"),
        ([*OPTIONS, "--folds", "1"], "--folds must be at least 2"),
        ([*OPTIONS, "--folds", "100"], "too few"),
        ([*OPTIONS, "--hold-out", "1"], "--hold-out"),
        ([*OPTIONS, "--level", "2"], "--level"),
        ([*OPTIONS, "--spatial-blocks", "--n-blocks", "1"], "--n-blocks"),
        ([*OPTIONS, "--spatial-blocks", "--n-blocks", "100"], "--n-blocks"),
        ([*OPTIONS, "--spatial-blocks", "--n-blocks", "2", "--folds", "3"], "in 2 regions are too few"),
        ([*OPTIONS, "--spatial-blocks", "--block-columns", "temp"], "--block-columns"),
        ([*OPTIONS, "--method", "magic"], "--method"),
        ([*OPTIONS, "--noise", "local"], "--noise is for local models"),
        (["--target", "temp", "--noise", "loud"], "--noise must be one of auto, constant, local, not 'loud'"),
        (["--target", "temp", "--likelihood", "t"], "--likelihood must be one of auto, gaussian, student, not 't'"),
        (["--model", "none.nf"], "No such file"),
        (["--model", "none.nf", "--folds", "5"], "--folds cannot go with --model"),
        (["--model", "none.nf", "--spatial-blocks", "-f", "lon", "--no-ard"], "--features, --spatial-blocks, --ard"),
        (["--model", "none.nf", "--seed", "0", "--one-hot", "town"], "--one-hot, --seed"),
    ],
)
def test_a_bad_option_is_one_line(fails, csv, options, words):
    assert words in fails("evaluate", csv, *options)


def test_a_table_that_does_not_suit_the_model(fails, model, tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("lon,lat,heat\n1,2,3\n")
    assert "no column 'temp'" in fails("evaluate", path, "--model", model)
    path.write_text("lon,temp\n1,2\n")
    assert "no column 'lat'" in fails("evaluate", path, "--model", model)
    path.write_text("lon,lat,temp\n1,2,\n")
    assert "no row with 'temp'" in fails("evaluate", path, "--model", model)


@pytest.mark.parametrize("options", [[], ["--no-sphere", "--ard", "--scale"]])
def test_folds_learn_once_unless_told_otherwise(runs, csv, monkeypatch, options):
    from nearfield.cli import models

    made = []
    real = models.make

    def watched(*arguments):
        made.append(real(*arguments))
        return made[-1]

    monkeypatch.setattr(models, "make", watched)
    once = json.loads(runs("evaluate", csv, *OPTIONS, *options, "--folds", "3", "--json")[0])
    learnt = [m.model.learned_.n_evaluations > 0 for m in made]
    assert learnt == [True, False, False]
    for m in made[1:]:
        np.testing.assert_allclose(m.model.kernel_.length_scales, made[0].model.kernel_.length_scales, rtol=1e-12)
        assert m.model.noise_variance_ == made[0].model.noise_variance_
    made.clear()
    anew = json.loads(runs("evaluate", csv, *OPTIONS, *options, "--folds", "3", "--relearn", "--json")[0])
    assert all(m.model.learned_.n_evaluations > 0 for m in made)
    assert once["folds"][0] == anew["folds"][0]
    assert once["all"]["rmse"] == pytest.approx(anew["all"]["rmse"], rel=0.2)


def test_folds_of_a_local_model_choose_once(runs, csv, rows, monkeypatch):
    fits = []
    original = nf.LocalGPRegressor.fit

    def fit(self, *arguments, **options):
        fits.append(self)
        return original(self, *arguments, **options)

    monkeypatch.setattr(nf.LocalGPRegressor, "fit", fit)
    options = ["--target", "temp", "--features", "lon,lat", "--folds", "3", "--n-scales", "1", "--no-sphere", "--json"]
    out, err = runs("evaluate", csv, *options, "--noise", "local", "--likelihood", "student")
    assert err == ""
    assert len(fits) == 1
    assert (fits[0].noise, fits[0].likelihood) == ("local", "student")
    assert json.loads(out)["all"]["rmse"] < 0.3 * rows[1].std()


# ---- folds of models with a drift or groups --------------------------------------------------------------------------

N = 90
EAST, NORTH, AREA = np.random.default_rng(0).uniform([[0], [0], [50]], [[8], [8], [150]], (3, N))
ZONE = np.array(["barn", "flat", "house"])[np.random.default_rng(1).integers(0, 3, N)]
OWNER = np.array([f"owner {i}" for i in np.random.default_rng(2).integers(0, 30, N)])  # some are in one fold only
PRICE = (
    *(np.sin(EAST) + np.cos(NORTH) + 0.02 * AREA + (ZONE == "flat") + 5,),
    *(np.random.default_rng(3).standard_normal(30), 0.2 * np.random.default_rng(4).standard_normal(N)),
)
PRICE = PRICE[0] + PRICE[1][[int(owner.split()[1]) for owner in OWNER]] + PRICE[2]


@pytest.fixture
def sales(tmp_path):
    """Write a table of sales, with other categories of some rows on request, and some rows a second time."""

    def write(zones=None, again=()):
        zone = ZONE.copy().astype(object)
        for row, category in (zones or {}).items():
            zone[row] = category
        rows = list(zip(EAST.tolist(), NORTH.tolist(), AREA.tolist(), zone, OWNER, PRICE.tolist(), strict=True))
        rows += [rows[i] for i in again]
        path = tmp_path / "sales.csv"
        path.write_text("\n".join(["east,north,area,zone,owner,price", *(",".join(map(str, row)) for row in rows)]))
        return path

    return write


SALES = ["--target", "price", "--features", "east,north", "--folds", "3", "--n-scales", "1", "--json"]
DRIFTS = {
    "area": {"drift": ["area"]},
    "area,C(zone)": {"drift": ["area", "zone"]},
    "linear": {"drift": "linear"},
    None: {},
}


@on_bounds
@pytest.mark.parametrize(
    ("drift", "groups"),
    [
        *((drift, groups) for drift in DRIFTS for groups in ([], ["owner"])),
        ("area", ["owner", "zone"]),
        (None, ["owner", "zone"]),
    ],
)
@pytest.mark.parametrize(
    ("method", "transform"), [("local", []), ("local", ["--transform", "log"]), ("exact", [])], ids=str
)
def test_folds_are_scored_by_models_of_their_own_rows(runs, sales, method, transform, drift, groups):
    """Each is that of its training rows alone, at the hyperparameters of the first."""
    pd = pytest.importorskip("pandas")
    options = ["--method", method, *transform] + (["--drift", drift] if drift else [])
    options += ["--groups", ",".join(groups)] if groups else []
    options += ["--noise", "constant", "--likelihood", "gaussian"] if method == "local" else []
    result = json.loads(runs("evaluate", sales(), *SALES, *options)[0])
    table = pd.DataFrame({"east": EAST, "north": NORTH, "area": AREA, "zone": ZONE, "owner": OWNER})
    given = {"coordinates": ["east", "north"], **DRIFTS[drift], "groups": groups or None, "random_state": 0}
    if method == "local":
        given |= {"n_scales": 1, "noise": "constant", "likelihood": "gaussian"}
        given |= {"target": "log"} if transform else {}
    regressor = nf.LocalGPRegressor if method == "local" else nf.ExactGPRegressor
    for test, scores in zip(split(N, 0.2, 3, None, 0), result["folds"], strict=True):
        train = np.setdiff1d(np.arange(N), test)
        model = regressor(**given).fit(table.iloc[train], PRICE[train])
        given |= {"noise_variance": model.noise_variance_, **model.kernel_.parameters()}
        found = model.predict_distribution(table.iloc[test])
        assert scores["rmse"] == pytest.approx(np.sqrt(np.mean((PRICE[test] - found.mean) ** 2)), rel=1e-4)
        assert scores["nll"] == pytest.approx(-np.mean(found.logpdf(PRICE[test])), abs=1e-4)


@pytest.mark.usefixtures("few_probes")
@pytest.mark.parametrize("options", [["--n-scales", "1"], ["--n-scales", "2"], ["--kernel", "matern52"]])
def test_folds_of_local_models_with_a_drift_and_groups_have_the_scores_of_the_exact_process(runs, sales, options):
    """Where each takes local models, or all rows for the long scales and the mean, and levels differ between folds."""
    given = [*SALES, "--drift", "area", "--groups", "owner", *options]
    exact = json.loads(runs("evaluate", sales(), *given, "--method", "exact")[0])
    with exact_up_to(10):
        local = json.loads(
            runs("evaluate", sales(), *given, "--noise", "constant", "--likelihood", "gaussian", "--tolerance", "1e-4")[
                0
            ]
        )
    for found, expected in zip(local["folds"], exact["folds"], strict=True):
        assert found["rmse"] == pytest.approx(expected["rmse"], rel=0.02)
        assert found["nll"] == pytest.approx(expected["nll"], abs=0.02)


@pytest.mark.parametrize("method", ["local", "exact", "features"])
def test_rows_of_a_category_without_training_rows_are_not_scored(runs, sales, method):
    test = split(N, 0.2, 3, None, 0)[1]
    table = sales({test[0]: "a castle", test[1]: "a castle"})  # what others are compared to, in the other folds
    out, err = runs("evaluate", table, *SALES, "--drift", "C(zone)", "--method", method)
    result = json.loads(out)
    assert "2 of 90 test rows with a category of 'zone' that no training row of the fold has" in err
    assert [fold["test"] for fold in result["folds"]] == [30, 28, 30]
    assert (result["all"]["test"], result["rows_not_scored"]) == (88, 2)
    without = json.loads(runs("evaluate", sales(), *SALES, "--drift", "C(zone)", "--method", method)[0])
    assert result["all"]["rmse"] == pytest.approx(without["all"]["rmse"], rel=0.05)


def test_a_fold_without_rows_to_score_has_no_scores(runs, tmp_path):
    """A region has a category of its own, of whose effect the others tell nothing."""
    rng = np.random.default_rng(0)
    x = rng.uniform(0, 1, 90) + np.repeat([0, 50, 100], 30)
    kind = np.repeat(["near", "near", "far"], 30)
    rows = [f"{a!r},{b!r},{c},{a!r}" for a, b, c in zip(x.tolist(), rng.uniform(0, 1, 90).tolist(), kind, strict=True)]
    (tmp_path / "t.csv").write_text("\n".join(["x,y,kind,v", *rows]))
    argv = ["evaluate", tmp_path / "t.csv", "-t", "v", "-f", "x,y", "--drift", "C(kind)", "--method", "exact"]
    argv += ["--no-sphere", "--folds", "3", "--spatial-blocks", "--n-blocks", "3", "--block-columns", "x"]
    result = json.loads(runs(*argv, "--json")[0])
    assert sorted(fold["test"] for fold in result["folds"]) == [0, 30, 30]
    assert result["all"]["test"] == 60
    lines = runs(*argv)[0].splitlines()
    assert [len(line.split()) for line in lines[2:6]].count(4) == 1  # fold, its number, and two counts of rows


def test_rows_with_a_copy_among_the_training_rows_are_counted(runs, sales):
    again = range(20)
    out, err = runs("evaluate", sales(again=again), *SALES, "--drift", "area", "--method", "exact")
    fold_of = np.empty(N + 20, dtype=int)
    for number, test in enumerate(split(N + 20, 0.2, 3, None, 0)):
        fold_of[test] = number
    n = 2 * sum(fold_of[i] != fold_of[N + i] for i in again)
    assert 0 < n < 40
    words = f"{n} of 110 test rows have an exact copy (same inputs) among the training rows of their fold"
    assert f"{words}, so that scores look better than on new places" in err
    assert json.loads(out)["rows_with_copies"] == n
    out, err = runs("evaluate", sales(), *SALES, "--drift", "area", "--method", "exact")
    assert err == ""
    assert json.loads(out)["rows_with_copies"] == 0
