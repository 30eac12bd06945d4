"""What the page makes of its numbers."""

import json
import re

import numpy as np
import pytest

import nearfield as nf
from nearfield.common.distribution import PredictiveDistribution
from nearfield.common.left_out import LeftOut
from nearfield.reporting.page.coverage import words_and_charts
from nearfield.reporting.page.scores import bias_verdict, coverage_verdict, scores
from nearfield.reporting.page.svg import Scale

pytestmark = pytest.mark.usefixtures("quick_pages")
FIXED = {"length_scale": 1.0, "signal_variance": 1.0, "noise_variance": 0.04}


def test_coverage_is_off_where_chance_does_not_explain_it():
    for covered, n, words, is_off in (
        (0.94, 200, "as promised", False),
        (0.90, 2000, "too narrow", True),
        (0.99, 2000, "too wide", True),
        (0.88, 20, "as promised", False),
    ):
        verdict, off = coverage_verdict(covered, n)
        assert words in verdict
        assert off is is_off


def test_coverage_is_told_by_region_and_by_value():
    rng, n = np.random.default_rng(0), 4000
    places, noise = rng.uniform(0, 1, (n, 2)), rng.standard_normal(n)
    # Intervals are too narrow in the east, whatever is predicted there.
    y = noise * np.where(places[:, 0] > 0.75, 3.0, 1.0)
    held_out = LeftOut(y, PredictiveDistribution(places[:, 1], np.ones(n), np.ones(n), location=np.zeros(n)))
    words, charts = words_and_charts(places, held_out, lambda X: X, ("east", "north"))
    low, high, least, most = (float(x) for x in re.findall(r"[0-9.]+(?= and| %)", words.replace("95 %", "")))
    assert low < 60
    assert high > 93
    assert 75 < least <= most < 92
    assert charts.count("<figure>") == 2
    assert words_and_charts(places, held_out, None, ("", ""))[1].count("<figure>") == 1
    few = LeftOut(y[:100], PredictiveDistribution(y[:100], np.ones(100), np.ones(100)))
    assert words_and_charts(places[:100], few, None, ("", "")) == ("", "")


def test_a_slope_of_the_histogram_is_a_bias():
    y = np.random.default_rng(0).standard_normal(4000)
    assert bias_verdict(y) == ""
    assert "predictions are too low" in bias_verdict(y + 0.2)
    assert "predictions are too high" in bias_verdict(y - 0.2)


def test_the_mean_alone_is_that_of_the_training_data():
    y = np.array([1.0, 3.0])
    held_out = LeftOut(y, PredictiveDistribution(y + 0.1, np.ones(2), np.ones(2)))
    rmse = next(score for score in scores(held_out, 0.0) if score.name == "RMSE")
    assert f"{np.sqrt(5):.3f}" in rmse.meaning  # not 1, the spread of these two


@pytest.mark.parametrize(("low", "high"), [(-122.3, -122.1), (1e6, 1e6 + 5), (0.0, 1.0), (37.0, 38.0)])
def test_labels_of_an_axis_differ(low, high):
    scale = Scale(low, high, "x")
    labels = [scale.text(tick) for tick in scale.ticks()]
    assert len(set(labels)) == len(labels) > 2


def test_coordinates_among_other_columns_have_a_map_and_slices():
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"rooms": rng.integers(1, 6, 60), "lat": rng.uniform(50, 52, 60), "lon": rng.uniform(4, 7, 60)})
    y = X["rooms"] + np.sin(X["lon"])
    for metric in ("euclidean", "sphere"):
        given = {**FIXED, "length_scale": [2.0, 1.0, 1.0] if metric == "euclidean" else [100.0, 2.0]}
        page = nf.webpage.build(nf.ExactGPRegressor(metric=metric, **given).fit(X.astype(float), y), X.astype(float), y)
        data = json.loads(re.search(r'<script type="application/json"[^>]*>(.*?)</script>', page, re.DOTALL)[1])
        assert data["map"]["names"] == ["lon", "lat"]
        assert len(data["slices"]) == 3
        assert "the other columns at their medians" in page


def test_a_score_that_is_off_is_coloured():
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 5, (300, 1))
    y = np.sin(X[:, 0]) + 0.6 * rng.standard_normal(300)  # three times the noise that is given
    model = nf.ExactGPRegressor(**FIXED).fit(X[:50], y[:50])
    page = nf.webpage.build(model, X[50:], y[50:])
    assert 'class="off"' in page
    assert "so the intervals are too narrow" in page
