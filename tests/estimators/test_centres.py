"""Wherever the centres are, the answers hold or the report says that they may not."""

import warnings
from functools import cache

import numpy as np
import pytest

from nearfield import ExactGPRegressor, LocalGPRegressor, TaylorFeatures, metrics
from nearfield.local import by_number, by_radius
from nearfield.sources import ArraySource

from ..small import exact_at_most

pytestmark = pytest.mark.usefixtures("few_probes")
ONE = {"length_scale": 1.0, "signal_variance": 1.0, "noise_variance": 0.05, "n_scales": 1, "random_state": 0}
TWO = {**ONE, "length_scale": [1.0, 12.0], "signal_variance": [0.5, 1.0], "n_scales": 2}
WIDTH = 25.0


def data(n=2500, d=2, width=WIDTH, seed=0):
    rng = np.random.RandomState(seed)
    X = rng.uniform(0, width, (n, d))
    return X, np.sin(X[:, 0]) + np.cos(X[:, 1]) + 0.2 * X[:, 0] + 0.2 * rng.standard_normal(n)


def sparse():
    """Points a length scale apart, where neighbourhoods of two scales are so many nearest points."""
    return data(1600, width=48.0)


@pytest.fixture(autouse=True, scope="module")
def _one_choice_for_all_kinds():
    """What is chosen does not depend on the kind of centres, and takes most of the time of a fit."""

    def once(original):
        made = {}

        def choose(kernel, data, request, *options, **streamed):
            key = (kernel.variance, len(data.X), data.X.sum(), data.y.sum(), str(request), str(streamed))
            if key not in made:
                made[key] = original(kernel, data, request, *options, **streamed)
            return made[key]

        return choose

    with pytest.MonkeyPatch.context() as patch:
        for module in (by_number, by_radius):
            patch.setattr(module, "choose", once(module.choose))
        yield


def held_out(n=300, width=WIDTH):
    return np.random.RandomState(1).uniform(0, width, (n, 2))


@cache
def exact(n_scales, n, width):
    """The exact process of `data(n, width=width)`."""
    return ExactGPRegressor(**(ONE if n_scales == 1 else TWO)).fit(*data(n, width=width))


def distance(model, reference, test):
    """Mean KL per test point from the exact process."""
    parts = []
    for gp in (model, reference):
        mean, std = gp.predict(test, return_std=True, include_noise=True)
        parts += [mean, std**2]
    return metrics.kl_divergence(*parts).mean()


KINDS = [
    {"centers": "grid"},
    {"centers": "net"},
    {"centers": "farthest"},
    {"centers": "mean"},
    {"centers": 7},
    {"centers": "farthest", "n_centers": 30},
    {"centers": "random", "n_centers": 30},
    {"centers": "kmeans", "n_centers": 30},
    {"centers": "test"},
    {"centers": np.random.RandomState(2).uniform(0, WIDTH, (20, 2))},
]


def name(kind):
    return kind["centers"] if isinstance(kind["centers"], str) else type(kind["centers"]).__name__


@pytest.mark.parametrize("kind", [KINDS[1], *KINDS[3:5], KINDS[6], *KINDS[8:]], ids=name)
def test_with_several_scales_every_kind_keeps_what_the_report_says(kind):
    """Neighbourhoods are so many nearest points there, and a centre serves only what is near beside them."""
    X, y = sparse()
    model = LocalGPRegressor(**TWO, **kind).fit(X, y)
    assert model.report_.tolerance_met
    assert distance(model, exact(2, 1600, 48.0), held_out(100, 48.0)) < 1e-3


@pytest.mark.parametrize("kind", KINDS, ids=name)
def test_with_one_scale_too(kind):
    X, y = data(1600, width=20.0)
    model = LocalGPRegressor(**ONE, **kind).fit(X, y)
    assert model.report_.tolerance_met
    assert distance(model, exact(1, 1600, 20.0), held_out(100, 20.0)) < 1e-3


@pytest.mark.parametrize(("given", "make"), [(ONE, data), (TWO, sparse)], ids=["one scale", "two"])
@pytest.mark.parametrize("kind", [*KINDS[3:5], KINDS[6]], ids=name)
def test_centres_that_leave_samples_alone_make_the_distance_unknown(given, make, kind):
    X, y = make()
    with pytest.warns(UserWarning, match="farther from all centres than the measurements assume"):
        model = LocalGPRegressor(**given, **kind, open_centers=False).fit(X, y)
    assert model.report_.divergence is None
    assert model.report_.tolerance_met is None
    assert 0 < model.report_.served < 1
    assert "not known, since some samples are far from all centres" in str(model.report_)


def test_the_report_says_how_many_samples_are_near_a_centre():
    X, y = data()
    covered = LocalGPRegressor(**ONE, centers="grid").fit(X, y)
    assert "every point within" in str(covered.report_)
    model = LocalGPRegressor(**ONE, centers=7).fit(X, y)
    gaps = np.min(np.linalg.norm(X[:, None] - model.centers_, axis=2), axis=1)
    share = np.mean(gaps <= model.spacing_)
    assert model.report_.served == pytest.approx(share)
    assert f"{share:.0%} of the points within" in str(model.report_)


def test_streams_say_so_too():
    X, y = data()
    given = {**ONE, "spacing": 2.0, "centers": np.array([[3.0, 3.0]]), "open_centers": False}
    with pytest.warns(UserWarning, match="farther from all centres"):
        model = LocalGPRegressor(**given).fit(ArraySource(X, y, sample_size=1000))
    assert model.report_.divergence is None


def test_the_exact_process_is_made_once_whatever_the_centres():
    X, y = data(300)
    for kind in KINDS:
        model = LocalGPRegressor(**ONE, **kind).fit(X, y)
        assert len(model.centers_) == 1
        assert distance(model, exact(1, 300, WIDTH), held_out()) < 1e-10


def test_a_radius_below_the_spacing_is_warned_of():
    X, y = data()
    with pytest.warns(UserWarning, match=r"radius=0.5 is smaller than spacing=2: samples .* are not used"):
        LocalGPRegressor(**ONE, spacing=2.0, radius=0.5, features="kernel").fit(X, y)


@pytest.mark.parametrize("centers", ["auto", "grid", "net", "farthest"])
def test_all_points_for_every_centre_needs_a_number_of_centres(centers):
    X, y = data()
    given = {**ONE, "radius": None, "features": TaylorFeatures(8), "centers": centers}
    with pytest.raises(ValueError, match="nothing then tells how many centres: give spacing"):
        LocalGPRegressor(**given).fit(X, y)
    with pytest.raises(ValueError, match="give spacing"):
        LocalGPRegressor.from_paper(50, spacing="auto", centers=centers).fit(X, y)
    assert len(LocalGPRegressor(**{**given, "spacing": 3.0}).fit(X, y).centers_) > 1


def test_a_number_of_centres_that_nobody_asks_for_is_warned_of():
    X, y = data(300)
    with pytest.warns(UserWarning, match="n_centers=7 has no effect with centers='grid'"):
        LocalGPRegressor(**ONE, centers="grid", n_centers=7).fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        LocalGPRegressor(**ONE, centers="random", n_centers=7).fit(X, y)


# ---- data taken in later -------------------------------------------------------------------------------------------


def test_later_data_that_no_centre_sees_are_warned_of():
    X, y = data()
    given = {**ONE, "spacing": 1.0, "radius": 3.0, "features": "kernel", "open_centers": False}
    model = LocalGPRegressor(**given).fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.partial_fit(X[:50] + 0.01, y[:50])
    with pytest.warns(UserWarning, match="40 of 2590 samples are in no neighbourhood"):
        model.partial_fit(X[:40] + 1000, y[:40])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        LocalGPRegressor(**{**given, "open_centers": True}).fit(X, y).partial_fit(X[:40] + 1000, y[:40])


def test_the_report_tells_what_was_measured_before():
    X, y = data()
    model = LocalGPRegressor(**ONE).fit(X[:2000], y[:2000])
    before = model.report_
    model.partial_fit(X[2000:2300], y[2000:2300]).partial_fit(X[2300:], y[2300:])
    after = model.report_
    assert (after.n_samples, after.n_measured, before.n_measured) == (2500, 2000, 0)
    assert after.median_neighbours > before.median_neighbours
    assert "measured at the fit, with 2000 samples" in str(after)
    model.partial_fit(X[:100], y[:100], forget=True)
    assert model.report_.median_neighbours <= 100


def test_data_taken_in_later_must_fit_into_memory(monkeypatch):
    X, y = data()
    model = LocalGPRegressor(**ONE).fit(X[:1000], y[:1000])
    monkeypatch.setattr("nearfield.common.memory.available", lambda: 20 * 10**6)
    with pytest.raises(MemoryError, match=r"local models of 2500 samples .* Fit again"):
        model.partial_fit(X[1000:], y[1000:])
    assert model.report_.n_samples == 1000


# ---- many columns --------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:tolerance")
def test_a_tolerance_out_of_reach_never_gives_a_worse_model(monkeypatch):
    """In many columns, beyond where the exact process can be afforded."""
    exact_at_most(monkeypatch, 1000)
    monkeypatch.setattr(by_number, "MOST_POINTS", (400,))
    monkeypatch.setattr(by_number, "NEIGHBOURHOODS", 48)
    rng = np.random.RandomState(0)
    X = rng.uniform(0, 3, (1600, 5))
    y = np.sin(X @ rng.standard_normal(5)) + 0.1 * rng.standard_normal(1600)
    reports = [
        LocalGPRegressor(**{**ONE, "noise_variance": 0.01}, tolerance=tolerance).fit(X, y).report_
        for tolerance in (1e-1, 1e-4)
    ]
    assert reports[1].divergence <= reports[0].divergence
