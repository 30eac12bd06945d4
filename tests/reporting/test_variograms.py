"""Variograms of the data beside brute force, and of the model beside its kernel."""

from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.spatial.distance import pdist

import nearfield as nf
from nearfield.reporting.variograms import empirical_variogram, model_variogram

GIVEN = {"length_scale": 1.5, "signal_variance": 2.0, "noise_variance": 0.1}


def data(n=300):
    rng = np.random.RandomState(0)
    X = rng.uniform(0, 10, (n, 2))
    return X, np.sin(X[:, 0]) + 0.3 * rng.standard_normal(n)


def test_bins_hold_half_the_mean_squared_differences():
    X, y = data()
    model = nf.ExactGPRegressor(**GIVEN).fit(X, y)
    distances, halves, counts = empirical_variogram(model, n_bins=8, max_distance=4.0)
    pairs, squares = pdist(X), 0.5 * pdist(y[:, None]) ** 2
    edges = 4.0 * (np.arange(9) / 8) ** 2
    for i, (low, high) in enumerate(pairwise(edges)):
        inside = (pairs >= low) & (pairs < high)
        assert counts[i] == inside.sum()
        assert_allclose([distances[i], halves[i]], [pairs[inside].mean(), squares[inside].mean()])
    for array, again in zip(empirical_variogram(model, X, y, 8, 4.0), (distances, halves, counts), strict=True):
        assert_allclose(array, again, rtol=1e-9)


def test_the_model_starts_at_its_noise_and_ends_at_all_variance():
    X, y = data()
    for kernel in ("gaussian", "matern12"):
        model = nf.ExactGPRegressor(**GIVEN, kernel=kernel).fit(X, y)
        assert_allclose(model_variogram(model, np.array([0.0, 1e3])), [0.1, 2.1])
    assert_allclose(model_variogram(model, np.array([1.5])), 0.1 + 2 * (1 - np.exp(-1.0)))


def test_a_picture():
    plt = pytest.importorskip("matplotlib.pyplot")
    X, y = data()
    ax = nf.plotting.variogram(nf.LocalGPRegressor(**GIVEN).fit(X, y))
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["data", "model", "noise"]
    plt.close(ax.figure)


def test_bad_questions():
    X, y = data(60)
    columns = nf.ExactGPRegressor(length_scale=[1.0, 2.0], signal_variance=1.0, noise_variance=0.1).fit(X, y)
    with pytest.raises(ValueError, match="one length scale for all columns"):
        empirical_variogram(columns)
    model = nf.ExactGPRegressor(**GIVEN).fit(X, y)
    with pytest.raises(ValueError, match="both X and y"):
        empirical_variogram(model, X)
    with pytest.raises(ValueError, match="No two observations"):
        empirical_variogram(model, max_distance=1e-9)
