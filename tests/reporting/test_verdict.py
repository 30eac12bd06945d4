"""The first line of a report: fine, or what is wrong and what to do."""

from dataclasses import replace

import numpy as np
import pytest

import nearfield as nf

from .test_report import REPORT

SCORES = {"samples": 1000, "rmse": 0.1, "nll": 0.2, "crps": 0.1, "coverage": 0.951}
GOOD = replace(REPORT, left_out=SCORES)


def test_a_good_model_is_fine():
    assert GOOD.verdict == (
        "Fine: predictions are 3.5e-04 nats of KL per point (the function without noise: 2.0e-03) from the exact "
        "Gaussian process, within the tolerance of 0.001, and 95.1% of left-out rows lie inside their 95 % intervals."
    )
    assert str(GOOD).splitlines()[0] == GOOD.verdict
    assert GOOD.verdict in GOOD._repr_html_()


PROBLEMS = {
    "distance": ({"divergence": 2e-3, "tolerance_met": False}, "not within the tolerance of 0.001", "raise tolerance"),
    "unsettled": ({"settled": False}, "stopped before the hyperparameters settled", "raise time_budget"),
    "too few": ({"settled": False, "n_samples": 3}, "3 samples do not determine the hyperparameters", "give more"),
    "variogram": ({"variogram": (0.5, 2.25)}, "rows 0.5 length scales apart differ more", "try another kernel"),
    "variogram below": ({"variogram": (0.5, 0.4)}, "differ less than the model expects", "n_scales='auto'"),
    "coverage": ({"left_out": {**SCORES, "coverage": 0.9}}, "90.0% of the left-out rows", "narrow; try noise='auto'"),
    "noise": (
        {"hyperparameters": {"length_scale": 1.0, "signal_variance": 1e-9, "noise_variance": 1.0}},
        "nothing but noise was found",
        "check that the columns",
    ),
    "not served": ({"divergence": None, "served": 0.9, "tolerance_met": None}, "10% of the samples", "open_centers"),
}


@pytest.mark.parametrize("name", list(PROBLEMS))
def test_what_is_wrong_comes_with_what_to_do(name):
    changes, problem, remedy = PROBLEMS[name]
    verdict = replace(GOOD, **changes).verdict
    assert verdict.startswith("Look again: ")
    assert verdict.count("Look again") == 1
    assert problem in verdict
    assert remedy in verdict


def test_several_problems_are_all_said():
    verdict = replace(GOOD, settled=False, divergence=2e-3, tolerance_met=False).verdict
    assert verdict.count("Look again: ") == 2


@pytest.mark.parametrize(("samples", "coverage", "is_fine"), [(40, 0.9, True), (4000, 0.9, False), (10**5, 0.96, True)])
def test_coverage_is_wrong_where_it_is_off_by_more_than_chance_and_by_much(samples, coverage, is_fine):
    report = replace(GOOD, left_out={**SCORES, "samples": samples, "coverage": coverage})
    assert report.verdict.startswith("Fine") == is_fine


def test_what_was_not_measured_is_not_praised():
    report = replace(REPORT, divergence=None, divergence_error=None, tolerance=None, tolerance_met=None)
    assert "was not measured" in report.verdict


GIVEN = {"signal_variance": 1.0, "noise_variance": 0.1, "noise": "constant", "likelihood": "gaussian"}


def draw(length_scale, n=300, seed=0):
    """Rows of a square, and a draw of the process there."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, 2))
    squares = ((X[:, None] - X) ** 2).sum(axis=2)
    C = np.exp(-0.5 * squares / length_scale**2) + 0.1 * np.eye(n)
    return X, np.linalg.cholesky(C) @ rng.standard_normal(n)


@pytest.mark.parametrize("length_scale", [0.05, 0.3, 3.0])
@pytest.mark.parametrize("seed", range(4))
def test_the_variogram_of_a_draw_of_the_model_agrees_with_it(length_scale, seed):
    """The limit allows one false alarm in a million fits."""
    X, y = draw(length_scale, seed=seed)
    model = nf.LocalGPRegressor(length_scale=length_scale, **GIVEN, random_state=0).fit(X, y)
    assert model.report_.variogram is None


def test_a_length_scale_that_is_much_too_long_shows_in_the_variogram():
    X, y = draw(0.05)
    report = nf.LocalGPRegressor(length_scale=2.0, **GIVEN, random_state=0).fit(X, y).report_
    distance, ratio = report.variogram
    assert distance < 1
    assert ratio > 2
    assert "differ more than the model expects" in report.verdict


def test_a_trend_that_is_taken_out_does_not_show_in_the_variogram():
    X, y = draw(0.3)
    y = y + 1000 * X[:, 0]
    report = nf.LocalGPRegressor(length_scale=0.3, drift="linear", **GIVEN, random_state=0).fit(X, y).report_
    assert report.variogram is None


def test_targets_without_a_signal_are_said_to_be_noise():
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(400, 2))
    with pytest.warns(UserWarning, match="no signal was found"):
        model = nf.LocalGPRegressor(random_state=0).fit(X, rng.standard_normal(400))
    assert "nothing but noise was found" in model.report_.verdict
