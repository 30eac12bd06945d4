"""One summary for prints, notebooks, the command line and the page."""

import re
from dataclasses import replace
from html import escape

import numpy as np
import pytest
from sklearn.kernel_approximation import Nystroem

import nearfield as nf
from nearfield.cli.summary import account
from nearfield.reporting.frames import report_table
from nearfield.reporting.numbers import with_powers
from nearfield.reporting.summary import summarise

from ..warned import few_features

pytestmark = [pytest.mark.usefixtures("quick_pages"), few_features]
FIXED = {"length_scale": 1.0, "signal_variance": 1.0, "noise_variance": 0.09, "random_state": 0}
X = np.random.default_rng(0).uniform(0, 8, (60, 2))
MODELS = {
    "tuned": nf.LocalGPRegressor(**FIXED, tolerance=1e-2),
    "local": nf.LocalGPRegressor(**FIXED, spacing=1.5, radius=3.0, features=nf.TaylorFeatures(8)),
    "exact": nf.ExactGPRegressor(**FIXED),
    "features": nf.FeatureGPRegressor(nf.FourierFeatures(20, random_state=0), **FIXED),
    "foreign": nf.FeatureGPRegressor(Nystroem(n_components=20, random_state=0)),
}


@pytest.fixture(scope="module", params=MODELS)
def model(request):
    return MODELS[request.param].fit(X, np.sin(X[:, 0]))


def test_all_say_the_same(model):
    summary = summarise(model)
    table = report_table(model)
    page = nf.webpage.build(model, X)
    assert account(model) == account(vars(model)) == str(summary)
    for name, text in summary.lines:
        assert f">{name}</th>" in table
        assert escape(text) in table
        if name not in ("distance", "of the function", "hyperparameters"):  # the page has more on those than a line
            assert f"<dt>{name}</dt><dd>{escape(text)}</dd>" in page
    distance = with_powers(summary["distance"])
    assert f"<p>{distance[0].upper()}{escape(distance[1:])}." in page


@pytest.mark.parametrize(
    ("name", "method", "distance"),
    [
        ("exact", "the exact Gaussian process", "none: this is the exact Gaussian process"),
        (
            "features",
            "one feature map for all points: 20 features, 60 samples",
            r"\S+ nats of KL per test point from the exact Gaussian process "
            r"\(at most \S+ with 95 % confidence\), 60 probes",
        ),
    ],
)
def test_models_without_a_report(name, method, distance):
    summary = summarise(MODELS[name].fit(X, np.sin(X[:, 0])))
    assert summary.title == "Gaussian process of 2 columns"
    assert summary["method"] == method
    assert re.fullmatch(distance, summary["distance"])
    assert summary["hyperparameters"] == "length_scale = 1, signal_variance = 1, noise_variance = 0.09"


def test_a_length_scale_that_the_feature_map_has():
    summary = summarise(MODELS["foreign"].fit(X, np.sin(X[:, 0])))
    assert summary["hyperparameters"].startswith("length_scale = that of the feature map, signal_variance = ")


def test_the_page_says_that_a_distance_is_not_known_where_the_report_does():
    """It said that the distance was not measured, since everything was given."""
    rng = np.random.default_rng(0)
    points = rng.uniform(0, 8, (1800, 2))
    model = nf.LocalGPRegressor(**FIXED, centers=points[:3], open_centers=False)
    with pytest.warns(UserWarning, match="is not known"):
        model.fit(points, np.sin(points[:, 0]) + 0.3 * rng.standard_normal(1800))
    assert "not known, since some samples are far from all centres" in str(model.report_)
    page = nf.webpage.build(model)
    assert "<p>Not known, since some samples are far from all centres.</p>" in page
    assert "everything was given" not in page


def test_the_page_calls_a_model_exact_where_the_report_does():
    """It did so whenever the distance measured was 0."""
    model = MODELS["local"].fit(X, np.sin(X[:, 0]))
    measured = {"divergence": 0.0, "divergence_error": 0.0, "tolerance": 1e-3, "tolerance_met": True, "n_probes": 9}
    report = model.report_
    try:
        model.report_ = replace(report, **measured)
        assert "0.0e+00 nats" in str(model.report_)
        assert "exact process</small>" not in nf.webpage.build(model)
    finally:
        model.report_ = report
