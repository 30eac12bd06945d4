"""Pictures of `plots` inside of the page."""

import re
import sys

import numpy as np
import pytest

import nearfield as nf
from nearfield import webpage
from nearfield.reporting.page.figures import figure

matplotlib = pytest.importorskip("matplotlib")

pytestmark = pytest.mark.usefixtures("few_probes_in_module", "coarse_maps")
FIXED = {"length_scale": 1.0, "signal_variance": 1.0, "noise_variance": 0.09, "random_state": 0}


@pytest.fixture(scope="module")
def model():
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 8, (2000, 2))
    return nf.LocalGPRegressor(**FIXED, n_scales=1, tolerance=1e-2).fit(X, np.sin(X[:, 0]))


@pytest.fixture(scope="module")
def held_out():
    rng = np.random.default_rng(1)
    X = rng.uniform(0, 8, (3000, 2))
    return X, np.sin(X[:, 0]) + 0.3 * rng.standard_normal(3000)


@pytest.fixture(scope="module")
def page(model, held_out):
    return webpage.build(model, *held_out)


def charts(page):
    return re.findall(r'<svg class="plot".*?</svg>', page, re.S)


def test_a_page_has_the_pictures_of_plotting(model, page):
    variogram, calibration, probabilities, residuals, by_value, by_region, trials = charts(page)
    assert [text for text in ("data", "model", "noise") if f">{text}</text>" in variogram] == ["data", "model", "noise"]
    assert 15 <= variogram.count("fill: var(--ink)") <= 30  # a dot per bin, and the legend
    assert ">this model</text>" in calibration
    assert 'aria-label="Calibration: coverage differs' in calibration
    assert probabilities.count("fill: var(--accent)") == 20
    assert residuals.count("<use") == 2000  # of 3000, which the caption says
    assert "2000 of 3000 are drawn" in page
    assert trials.count("<use") >= len(model.report_.trials)
    assert ">tolerance</text>" in trials
    assert by_value.count("<use") >= 10  # tenths
    assert len(re.findall(r">\d\d</text>", by_region)) >= 10


def test_ids_are_unique_and_those_that_are_used(page):
    ids = re.findall(r'\bid="([^"]*)"', page)
    assert len(ids) == len(set(ids))
    used = re.findall(r'(?:url\(|href=")#([^)"]*)', page)
    assert len(used) > 2000
    assert set(used) <= set(ids)


def test_pictures_have_the_type_and_colours_of_the_page(page):
    for chart in charts(page):
        assert "font-family" not in chart
        assert "<style" not in chart  # it would be one for the whole page
        assert "<metadata" not in chart
        assert not re.search('#[0-9a-f]{6}[;"]', chart)
        assert set(re.findall(r"var\(--(\w+)\)", chart)) <= {"accent", "warm", "soft", "ink", "rule", "card"}
        assert set(re.findall(r"font-size: ([\d.]+)px", chart)) <= {"13.5", "12"}


def test_pictures_are_small(page):
    assert sum(map(len, charts(page))) < 175_000


def test_numbers_in_words_are_not_rounded():
    assert ">0.0012345</text>" in figure("name", lambda ax: ax.set_title("0.0012345"), "", "")


def test_pictures_are_the_same_each_time_whatever_is_set_for_others(model, held_out, page):
    with matplotlib.rc_context({"font.size": 30, "text.color": "red", "axes.facecolor": "black"}):
        before = dict(matplotlib.rcParams)
        assert charts(webpage.build(model, *held_out)) == charts(page)
        assert dict(matplotlib.rcParams) == before


def test_a_page_without_matplotlib_says_what_to_install(model, held_out, page, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    without = webpage.build(model, *held_out)
    assert charts(without) == []
    assert without.count("pip install 'nearfield[plot]'") == 1
    assert "candidates</summary>" in without
    assert "RMSE" in without
    assert "pip install" not in page
    plain = nf.ExactGPRegressor(**FIXED).fit(held_out[0][:20], held_out[1][:20])
    assert "pip install" not in webpage.build(plain)  # nothing is missing there
