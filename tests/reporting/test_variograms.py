"""Variograms of the data beside brute force, and of the model beside its kernel."""

from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.spatial.distance import pdist

import nearfield as nf
from nearfield.reporting.variograms import distance_unit, empirical_variogram, model_variogram

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


def test_columns_with_scales_of_their_own_are_measured_in_these():
    X, y = data()
    stretched = nf.ExactGPRegressor(**{**GIVEN, "length_scale": [1.5, 3.0]}).fit(X * [1, 2], y)
    plain = nf.ExactGPRegressor(**GIVEN).fit(X, y)
    distances, halves, counts = empirical_variogram(stretched)
    expected = empirical_variogram(plain)
    assert_allclose(1.5 * distances, expected[0])
    assert_allclose(halves, expected[1])
    assert_allclose(counts, expected[2])
    assert_allclose(model_variogram(stretched, distances), model_variogram(plain, expected[0]))
    assert distance_unit(stretched) == "length scales"
    assert distance_unit(nf.ExactGPRegressor(**GIVEN, metric="sphere").fit(X, y)) == "km"


def test_on_the_earth_distances_are_chords_in_km():
    X, y = data(50)
    model = nf.ExactGPRegressor(**{**GIVEN, "length_scale": 300.0}, metric="sphere").fit(X, y)
    distances, _, counts = empirical_variogram(model, n_bins=1, max_distance=200.0)
    pairs = pdist(model._inner(X))
    assert_allclose(distances, pairs[pairs <= 200].mean())
    assert counts == (pairs <= 200).sum()


@pytest.mark.parametrize("regressor", [nf.ExactGPRegressor, nf.LocalGPRegressor])
def test_a_drift_is_taken_off(regressor):
    X, y = data()
    plain = empirical_variogram(regressor(**GIVEN).fit(X, y))
    steep = regressor(**GIVEN, drift="linear").fit(X, y + 5 * X[:, 1])
    slope = steep.drift_coef_.values
    residuals = y + 5 * X[:, 1] - X @ slope[1:]
    for found in (empirical_variogram(steep), empirical_variogram(steep, X, y + 5 * X[:, 1])):
        assert_allclose(found[1], empirical_variogram(regressor(**GIVEN).fit(X, residuals))[1], rtol=1e-6)
        assert np.abs(found[1] / plain[1] - 1).max() < 0.5


def test_a_picture():
    plt = pytest.importorskip("matplotlib.pyplot")
    X, y = data()
    ax = nf.plotting.variogram(nf.LocalGPRegressor(**GIVEN).fit(X, y))
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["data", "model", "noise"]
    plt.close(ax.figure)


def test_bad_questions():
    X, y = data(60)
    scales = {"length_scale": [[1.0, 2.0], [4.0, 3.0]], "signal_variance": [1.0, 1.0], "noise_variance": 0.1}
    with pytest.raises(ValueError, match="goes by one distance"):
        empirical_variogram(nf.ExactGPRegressor(**scales).fit(X, y))
    model = nf.ExactGPRegressor(**GIVEN).fit(X, y)
    with pytest.raises(ValueError, match="both X and y"):
        empirical_variogram(model, X)
    with pytest.raises(ValueError, match="No two observations"):
        empirical_variogram(model, max_distance=1e-9)
