"""The zoo must notice what it is there to notice, and nothing else, with made-up tables and regressors."""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

import nearfield as nf

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from fuzz.judging import Case, judge, kind, limits, measure

from fuzz import many, zoo

# ---- judgement -------------------------------------------------------------------------------------------------------


def case(n=300, m=200, decimals=9):
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(n + m, 1))
    y = np.round(X[:, 0] + 0.2 * rng.standard_normal(n + m), decimals)
    return Case("a", X[:n], y[:n], X[n:], y[n:], ard=False)


class Known:
    """A regressor that knows how the data of `case` are made; tests spoil one of its answers."""

    std = 0.2

    def __init__(self, **_):
        pass

    def fit(self, X, y):
        return self

    def predict(self, X, **_):
        return X[:, 0], np.full(len(X), self.std)

    def predict_interval(self, X, level):
        return X[:, 0] - 1.96 * self.std, X[:, 0] + 1.96 * self.std

    def predict_distribution(self, X):
        return norm(X[:, 0], self.std)


def kinds_of(model, data=None):
    return [kind(failure) for failure in judge(measure(data or case(), make=model))]


def test_a_good_regressor_fails_in_nothing():
    assert kinds_of(Known) == []
    assert kinds_of(nf.LocalGPRegressor) == []


def raising(error):
    def fit(self, X, y):
        raise error

    return type("Raising", (Known,), {"fit": fit})


@pytest.mark.parametrize("error", [ValueError("not the library's own"), np.linalg.LinAlgError("x"), TypeError("x")])
def test_an_exception_is_a_crash(error):
    assert kinds_of(raising(error)) == ["crash"]


def test_the_librarys_own_sentence_is_a_refusal():
    figures = measure(case(), make=lambda **_: nf.LocalGPRegressor(tolerance=-1.0))
    assert figures["refused"]
    assert "tolerance" in figures["error"]
    assert judge(figures) == []


class NotFinite(Known):
    def predict(self, X, **_):
        return X[:, 0], np.where(np.arange(len(X)) == 3, np.nan, self.std)


class Short(Known):
    def predict(self, X, **_):
        return X[1:, 0], np.full(len(X) - 1, self.std)


class Backwards(Known):
    def predict(self, X, **_):
        return 1 - X[:, 0], np.full(len(X), self.std)


class Absurd(Known):
    """One answer, far away: its own differences have as large a standard error."""

    def predict(self, X, **_):
        return np.where(np.arange(len(X)) == 3, 1e3, X[:, 0]), np.full(len(X), self.std)


class TooSure(Known):
    std = 0.07


class SureOnce(Known):
    """One row that is said to be impossible."""

    def predict_distribution(self, X):
        return norm(np.where(np.arange(len(X)) == 3, 10.0, X[:, 0]), self.std)


class TooWide(Known):
    std = 0.6


@pytest.mark.parametrize(
    ("model", "kinds"),
    [
        (NotFinite, ["not finite"]),
        (Short, ["rows"]),
        (Backwards, ["worse than the mean"]),
        (Absurd, ["worse than the mean"]),
        (TooSure, ["NLL", "covers too little"]),
        (SureOnce, ["NLL"]),
        (TooWide, ["NLL", "too wide"]),
    ],
)
def test_what_is_wrong_is_named(model, kinds):
    assert kinds_of(model) == kinds


def test_wide_intervals_around_counted_things_are_no_failure():
    assert "too wide" in kinds_of(TooWide)
    assert "too wide" not in kinds_of(TooWide, case(decimals=0))


def test_equal_rows_count_once_in_what_chance_may_do():
    """Intervals that hold 88 % of 200 rows fail; of 10 rows, each 20 times, they do not."""
    few = case(m=10)
    copies = replace(few, X_test=np.tile(few.X_test, (20, 1)), y_test=np.tile(few.y_test, 20))
    narrow = type("Narrow", (Known,), {"std": 0.12})
    assert kinds_of(narrow) == ["covers too little"]
    assert measure(copies, make=narrow)["inside"] < measure(case(), make=narrow)["inside"]
    assert kinds_of(narrow, copies) == []


def test_a_constant_target_is_predicted_and_has_no_normal():
    data = case()
    figures = measure(replace(data, y=np.full(300, 2.5), y_test=np.full(200, 2.5)))
    assert judge(figures) == []
    assert "nll_of_normal" not in figures


def test_limits_of_the_coverage_leave_chance_its_share():
    """Intervals between quantiles of n normal values: how many of m others are inside, 20 000 times."""
    rng = np.random.default_rng(0)
    n, m = 99, 40
    learnt = np.sort(rng.standard_normal((20_000, n)), axis=1)
    inside = (np.sort(rng.standard_normal((20_000, m))) < learnt[:, [94]]).sum(axis=1)  # level 95 %, learnt from 99
    least, _ = limits(n, m)
    # One in 2000 is 10 expected; four standard errors of that.
    assert (inside / m < least).sum() <= 10 + 4 * np.sqrt(10)
    assert ((inside - 4) / m < least).sum() > 10 + 4 * np.sqrt(10)


# ---- tables ----------------------------------------------------------------------------------------------------------


def frame(n=100, **columns):
    rng = np.random.default_rng(0)
    return pd.DataFrame({"rownames": range(n), "a": rng.random(n), "b": rng.random(n)} | columns)


def test_the_last_numeric_column_that_is_no_class_is_the_target():
    n = 100
    data = frame(constant=1.0, y=np.arange(n), sex=np.arange(n) % 2, name=["x"] * n)
    X, y = zoo.table(data)
    np.testing.assert_array_equal(X, data[["a", "b", "constant", "sex"]])
    np.testing.assert_array_equal(y, data["y"])


def test_eight_inputs_at_most():
    X, _ = zoo.table(frame(**{f"c{i}": np.arange(100.0) for i in range(12)}))
    assert X.shape == (100, 8)


def test_missing_values():
    missing, few = np.full(100, np.nan), np.arange(100.0)
    missing[:40], few[[3, 7]] = 1.0, [np.nan, np.inf]
    X, y = zoo.table(frame(missing=missing, few=few))
    assert X.shape == (98, 2)  # the column goes, the rows go
    assert np.isfinite(y).all()


@pytest.mark.parametrize(
    "data",
    [
        frame(59),
        frame(100)[["rownames", "a"]],
        frame(100, a=0, b=np.arange(100) % 4),
        frame(100, a=[np.nan] * 45 + [1.0] * 55, b=[*range(55), *[np.nan] * 45]),
    ],
    ids=["few rows", "one column", "classes", "no row is whole"],
)
def test_tables_that_are_not_for_us(data):
    assert zoo.table(data) is None


def test_a_table_is_split_at_random_and_always_alike():
    X, y = np.arange(800.0).reshape(400, 2), np.arange(400.0)
    made = zoo.split("a/b", X, y)
    np.testing.assert_array_equal(np.sort([*made.y, *made.y_test]), y)
    assert 60 < len(made.y_test) < 140  # 100 expected, standard deviation 9
    np.testing.assert_array_equal(zoo.split("a/b", X, y).X_test, made.X_test)
    assert not np.array_equal(zoo.split("a/c", X, y).y_test, made.y_test)


def test_the_sample_is_fixed_and_of_all_sizes(monkeypatch):
    sizes = {f"p/{i}": (60 + i, Path()) for i in range(100)}
    monkeypatch.setattr(zoo, "tables", lambda: sizes)
    names = zoo.Zoo().sample(10)
    assert [int(name[2:]) // 10 for name in names] == list(range(10))
    monkeypatch.setattr(zoo, "tables", lambda: dict(reversed(sizes.items())))
    assert zoo.Zoo().sample(10) == names


# ---- many of them ----------------------------------------------------------------------------------------------------


def well(name):
    return measure(case(), make=Known) | {"name": name}


def test_the_verdict():
    good = 40 * [well("a")]
    assert many.verdict(good, 40) == 0
    assert many.verdict(good, 41) == 1  # one is lost
    assert many.verdict([*good[1:], {"name": "x", "ended": "time: no answer"}], 40) == 1
    sure = measure(case(), make=TooSure)
    assert many.verdict([*good[2:], sure, sure], 40) == 0
    assert many.verdict([*good[3:], sure, sure, sure], 40) == 1


def test_the_worst_and_the_changes_are_shown():
    before = {"a": well("a"), "b": measure(case(), make=TooSure) | {"name": "b"}, "c": well("c")}
    after = {"a": measure(case(), make=Short) | {"name": "a"}, "b": well("b"), "c": well("c")}
    lines = many.worst([*before.values(), after["a"]], 5)
    assert [line.split()[0] for line in lines[1:]] == ["a", "b"]
    assert "3 cases: 1 fail (1 NLL, 1 covers too little), 0 refused" in many.summary(before.values())[0]
    told = many.changes(before, after)
    assert told[0] == "3 cases in both: 1 failed, 1 fail now"
    assert [line.split(":")[0].strip() for line in told[-2:]] == ["a", "b"]


def test_children_that_die_or_hang_are_found_out_and_the_rest_is_still_tried(tmp_path, monkeypatch):
    (tmp_path / "strange.py").write_text(
        "import os, sys, time\n"
        "from fuzz import many\n"
        "many.measure = lambda case, beside: {'name': case}\n"
        "class Strange:\n"
        "    name, beside = 'strange', ''\n"
        "    def case(self, name):\n"
        "        if name == 'dies': os.abort()\n"
        "        if name == 'works': any(iter(int, 1))\n"
        "        if name == 'hangs': time.sleep(60)\n"
        "        return name\n"
        "sys.exit(many.main(Strange()))\n"
    )
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{ROOT}:{ROOT / 'src'}")
    names = ["a", "dies", "b", "hangs", "works"]
    found = {figures["name"]: figures.get("ended") for figures in many.run("strange", names, 1, 0.3)}
    assert list(found) == names
    assert found["dies"].startswith("crash: the process ended with -6")
    assert [found[name] for name in names if name != "dies"] == [None, None, "time: no answer", "time: no answer"]


def test_figures_are_kept_and_not_made_again(tmp_path, monkeypatch, capsys):
    asked = []

    def run(module, names, jobs, limit):
        asked.append(list(names))
        return map(well, names)

    monkeypatch.setattr(many, "run", run)
    source, out = type("Three", (), {"name": "three", "names": lambda self: ["a", "b", "c"]})(), tmp_path / "f.jsonl"
    assert many.main(source, ["--only", "b", "--out", str(out)]) == 0
    assert many.main(source, ["--out", str(out), "--against", str(out)]) == 0
    assert asked == [["b"], ["a", "c"]]
    assert "3 cases in both: 0 failed, 0 fail now" in capsys.readouterr().out
