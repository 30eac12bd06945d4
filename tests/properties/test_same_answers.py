"""What must not matter does not, for every regressor and with everything learnt: a few data sets, given in other ways.

`test_invariances.py` has the same for the exact process on data of every sort, at given hyperparameters.
"""

import warnings
from functools import cache

import numpy as np
import pytest

import nearfield as nf

from ..conftest import choose_by_few_probes
from ..small import exact_up_to

N, M = 90, 25
GIVEN = {"length_scale": 1.2, "signal_variance": 1.5, "noise_variance": 0.05}
SHIFT, UNIT = np.array([300.0, -70.0]), 1000.0
LEVEL, HEIGHT = 500.0, 40.0


def uniform(rng, n):
    return rng.uniform(0, 6, (n, 2))


def towns(rng, n):
    return np.array([[1.0, 1.0], [4.5, 2.0], [2.0, 5.0]])[rng.integers(3, size=n)] + 0.4 * rng.standard_normal((n, 2))


def tracks(rng, n):
    return np.column_stack([np.resize(np.linspace(0, 6, 30), n), rng.integers(0, 3, n) * 2.0])


LAYOUTS = {"uniform": uniform, "towns": towns, "tracks, with places that come again": tracks}


@cache
def data(layout):
    """Points, targets and places, the points being numbers of single precision."""
    rng = np.random.default_rng(list(LAYOUTS).index(layout))
    points = LAYOUTS[layout](rng, N + M).astype(np.float32).astype(np.float64)
    values = np.sin(points[:, 0]) + np.cos(0.7 * points[:, 1]) + 0.2 * rng.standard_normal(N + M)
    return points[:N], values[:N], points[N:] + 0.05


def plain(layout):
    X, y, places = data(layout)
    return X, y, places, {}, (0.0, 1.0)


def shuffled(layout):
    X, y, places = data(layout)
    order = np.random.default_rng(7).permutation(N)
    return X[order], y[order], places, {}, (0.0, 1.0)


def shifted(layout):
    X, y, places = data(layout)
    return X + SHIFT, y + LEVEL, places + SHIFT, {}, (LEVEL, 1.0)


def scaled(layout):
    X, y, places = data(layout)
    given = {"length_scale": UNIT, "signal_variance": HEIGHT**2, "noise_variance": HEIGHT**2}
    return UNIT * X, -HEIGHT * y, UNIT * places, given, (0.0, -HEIGHT)


def twice_the_columns(layout):
    X, y, places = data(layout)
    return np.hstack([X, X]), y, np.hstack([places, places]), {"length_scale": 2**0.5}, (0.0, 1.0)


def in_single_precision(layout):
    X, y, places = data(layout)
    return X.astype(np.float32), y, places, {}, (0.0, 1.0)


WAYS = {way.__name__: way for way in (shuffled, shifted, scaled, twice_the_columns, in_single_precision)}

MODELS = {
    "exact": lambda **given: nf.ExactGPRegressor(**given),
    "feature": lambda **given: nf.FeatureGPRegressor(nf.FourierFeatures(60, random_state=0), **given, random_state=0),
    "local": lambda **given: nf.LocalGPRegressor(**given, random_state=0),
    "cells": lambda **given: nf.LocalGPRegressor(**given, random_state=0),
}
# In standard deviations of the answer: rounding; and what a tolerance of 1e-3 nats allows to two models, each of which
# is no farther from the exact process: sqrt(2 * 1e-3) on the average of each.
LIMITS = {"exact": 1e-6, "feature": 1e-6, "local": 1e-6, "cells": 2 * (2e-3) ** 0.5}
# A map of random waves is another one for twice as many columns.
OTHERWISE = {("feature", "twice_the_columns")}


@cache
def answers(kind, layout, way):
    """Means and standard deviations in the units of the first data."""
    X, y, places, factors, (level, height) = (WAYS | {"plain": plain})[way](layout)
    given = {name: value * factors.get(name, 1.0) for name, value in GIVEN.items()}
    with warnings.catch_warnings(), pytest.MonkeyPatch.context() as patch, exact_up_to(0 if kind == "cells" else 1500):
        warnings.simplefilter("ignore")
        choose_by_few_probes(patch)
        model = MODELS[kind](**given).fit(X, y)
        mean, std = model.predict(places, return_std=True)
    return (mean - level) / height, std / abs(height), model


def assert_as_near(one, other, limit):
    (mean, std, _), (other_mean, other_std, _) = one, other
    spread = np.sqrt(std**2 + GIVEN["noise_variance"])
    assert np.sqrt(np.mean(((mean - other_mean) / spread) ** 2)) < limit
    assert np.sqrt(np.mean(((std - other_std) / spread) ** 2)) < limit


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kind", MODELS)
def test_given_hyperparameters(kind, layout, way):
    if (kind, way) in OTHERWISE:
        pytest.skip("a map of random waves is another one for twice as many columns")
    assert_as_near(answers(kind, layout, "plain"), answers(kind, layout, way), LIMITS[kind])


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kind", MODELS)
def test_pieces_of_what_is_asked(kind, layout):
    mean, std, model = answers(kind, layout, "plain")
    places = data(layout)[2]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pieces = [model.predict(places[rows], return_std=True) for rows in np.array_split(np.arange(M)[::-1], 4)]
    for number, whole in enumerate((mean, std)):
        np.testing.assert_allclose(np.concatenate([piece[number] for piece in pieces])[::-1], whole, rtol=1e-9)


@cache
def learnt(layout, way, ard):
    X, y, places, _, (level, height) = (WAYS | {"plain": plain})[way](layout)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = nf.LocalGPRegressor(ard=ard, random_state=0, n_restarts=0).fit(X, y)
        mean, std = model.predict(places, return_std=True, include_noise=True)
    return (mean - level) / height, std / abs(height), model


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_all_learnt(layout, way):
    """The optimum is found to a small share of a standard deviation, wherever the search begins."""
    ard = False if way == "twice_the_columns" else "auto"  # the number of columns decides "auto"
    assert_as_near(learnt(layout, "plain", ard), learnt(layout, way, ard), 0.05)
