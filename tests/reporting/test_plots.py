import subprocess
import sys

import numpy as np
import pytest
from scipy.special import ndtri

import nearfield as nf
from nearfield import plotting
from nearfield.common.distribution import PredictiveDistribution

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")
plt = pytest.importorskip("matplotlib.pyplot")

FIXED = {"length_scale": 1.0, "signal_variance": 1.0, "noise_variance": 0.09, "random_state": 0}


@pytest.fixture
def ax():
    figure, ax = plt.subplots()
    yield ax
    figure.canvas.draw()  # what was drawn can be
    plt.close(figure)


def data(n, d, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(0, 8, (n, d))
    return X, np.sin(X[:, 0]) + 0.3 * rng.standard_normal(n)


@pytest.fixture(scope="module")
def line():
    X, y = data(60, 1)
    return nf.ExactGPRegressor(**FIXED).fit(X, y), X, y


@pytest.fixture(scope="module")
def plane():
    X, y = data(200, 2)
    return nf.LocalGPRegressor(**FIXED, n_scales=1).fit(X, y), X, y


def test_a_curve_is_the_mean_and_its_band_the_interval(ax, line):
    model, X, y = line
    assert plotting.prediction(model, X, y, level=0.9, include_noise=True, ax=ax) is ax
    curve, points = ax.lines
    x, shown = curve.get_data()
    mean, std = model.predict(x[:, None], return_std=True, include_noise=True)
    np.testing.assert_allclose(shown, mean)
    np.testing.assert_array_equal(points.get_xdata(), X[:, 0])
    (band,) = ax.collections
    edges = band.get_paths()[0].vertices
    assert edges[:, 1].max() == pytest.approx((mean + ndtri(0.95) * std).max())
    assert x[0] < X.min() < X.max() < x[-1]


def test_a_curve_of_training_data_needs_no_points(ax, line):
    plotting.prediction(line[0], include_noise=True, ax=ax)
    assert len(ax.lines) == 1


@pytest.mark.parametrize(("draw", "which"), [(plotting.mean_map, 0), (plotting.std_map, 1)])
def test_a_map_shows_the_predictions(ax, plane, draw, which):
    model, X, _ = plane
    assert draw(model, X, size=15, ax=ax) is ax
    (mesh,) = ax.collections
    x, y = mesh.get_coordinates()[3, 7]
    expected = model.predict([[x, y]], return_std=True)[which][0]
    assert mesh.get_array()[3, 7] == pytest.approx(expected)


def test_samples_are_curves_or_a_map(ax, line, plane):
    sampler = line[0].sampler(5, 0)
    assert plotting.samples(sampler, ax=ax) is ax
    x = ax.lines[0].get_xdata()
    np.testing.assert_allclose([each.get_ydata() for each in ax.lines], sampler(x[:, None]).T)
    figure, other = plt.subplots()
    sampler = plane[0].sampler(3, 0)
    plotting.samples(sampler, which=2, size=20, ax=other)
    mesh = other.collections[0]
    values = np.asarray(mesh.get_array()).reshape(20, 20)
    corners = np.asarray(mesh.get_coordinates()).reshape(-1, 2)
    np.testing.assert_allclose(values.ravel(), sampler(corners)[:, 2], atol=1e-5)
    plt.close(figure)
    with pytest.raises(ValueError, match="'which' argument"):
        plotting.samples(sampler, which=3)
    with pytest.raises(ValueError, match="no functions"):
        plotting.samples(plane[0].sampler(0))


def test_pictures_are_not_drawn_over_each_other(ax, plane):
    model, _, _ = plane
    assert plotting.mean_map(model, size=5) is ax  # the current one, and empty
    second = plotting.std_map(model, size=5)
    third = plotting.calibration([0.0, 1.0], [0.1, 0.9], std=[1.0, 1.0])
    assert len({ax.figure, second.figure, third.figure}) == 3
    assert len(ax.collections) == len(second.collections) == 1
    plt.close(second.figure)
    plt.close(third.figure)


def test_axes_are_named_after_the_columns(ax):
    pandas = pytest.importorskip("pandas")
    X, y = data(40, 2)
    model = nf.ExactGPRegressor(**FIXED).fit(pandas.DataFrame(X, columns=["lon", "lat"]), y)
    plotting.mean_map(model, size=5, ax=ax)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("lon", "lat")


def test_calibration_of_the_right_distribution_is_the_diagonal(ax):
    n = 2001
    y = ndtri((np.arange(n) + 0.5) / n)  # a perfect sample
    plotting.calibration(y, np.zeros(n), std=np.ones(n), ax=ax)
    nominal, covered = ax.lines[1].get_data()
    np.testing.assert_allclose(covered, nominal, atol=0.1)


def test_probabilities_of_the_right_distribution_are_flat(ax):
    n = 2000
    y = ndtri((np.arange(n) + 0.5) / n)
    plotting.probabilities(y, np.zeros(n), std=np.ones(n), ax=ax)
    assert [bar.get_height() for bar in ax.patches] == pytest.approx([1.0] * 20)


def test_residuals_are_in_standard_deviations(ax):
    plotting.residuals([1.0, 5.0], [2.0, 3.0], std=[0.5, 4.0], ax=ax)
    np.testing.assert_allclose(ax.lines[-1].get_ydata(), [-2.0, 0.5])


def test_calibration_of_a_model_is_that_of_its_observations(ax):
    """Where most of the spread is noise, that of the function alone would seem to be far too narrow."""
    X, y = data(200, 1)
    model = nf.ExactGPRegressor(**FIXED).fit(X, y)
    distribution = model.predict_distribution(X)
    plotting.calibration(y, distribution, ax=ax)
    covered = dict(zip(*np.round(ax.lines[1].get_data(), 6), strict=True))
    for level in (0.5, 0.94):
        expected = nf.metrics.coverage(y, model.predict_interval(X, level))
        assert covered[100 * level] == pytest.approx(100 * expected)
    plotting.residuals(y, distribution, ax=ax)
    np.testing.assert_allclose(ax.lines[-1].get_ydata(), (y - distribution.mean) / distribution.std)


@pytest.mark.parametrize("draw", [plotting.calibration, plotting.probabilities, plotting.residuals])
def test_a_spread_without_a_name_is_refused(draw):
    y, mean, std = np.zeros(3), np.zeros(3), np.ones(3)
    with pytest.raises(TypeError, match=r"no third argument by position.*predict_distribution\(X\)"):
        draw(y, mean, std)
    with pytest.raises(TypeError, match="takes what predict_distribution gives, or means and the std="):
        draw(y, mean)
    with pytest.raises(TypeError, match="no std= beside distributions"):
        draw(y, PredictiveDistribution(mean, std, std), std=std)


def test_the_chosen_candidate_is_marked(ax):
    X, y = data(1800, 2)
    report = nf.LocalGPRegressor(**FIXED, n_scales=1).fit(X, y).report_
    plotting.error_against_cost(report, ax=ax)
    candidates, chosen, tolerance = ax.lines
    assert len(candidates.get_xdata()) == len(report.trials)
    assert chosen.get_ydata() == [report.divergence_near_data]
    assert tolerance.get_ydata()[0] == report.tolerance


def test_what_does_not_suit_is_refused(ax, line, plane):
    with pytest.raises(ValueError, match="2 columns"):
        plotting.mean_map(line[0], ax=ax)
    with pytest.raises(ValueError, match="1 column"):
        plotting.prediction(plane[0], ax=ax)
    with pytest.raises(ValueError, match="level"):
        plotting.prediction(line[0], level=95, ax=ax)
    with pytest.raises(ValueError, match="no trials"):
        plotting.error_against_cost(plane[0].report_, ax=ax)
    for draw in (plotting.calibration, plotting.probabilities, plotting.residuals):
        with pytest.raises(ValueError, match="std"):
            draw([1.0], [1.0], std=[0.0], ax=ax)
        with pytest.raises(ValueError, match="std"):
            draw([1.0, 2.0], [1.0, 2.0], std=[1.0, -1.0], ax=ax)
        with pytest.raises(ValueError, match="no observations"):
            draw([], [], std=[], ax=ax)
    features = nf.FeatureGPRegressor(nf.TaylorFeatures(8), **FIXED).fit(line[1], line[2])
    with pytest.raises(ValueError, match="give X"):
        plotting.prediction(features, ax=ax)
    assert plotting.prediction(features, line[1], include_noise=True, ax=ax) is ax


def test_nearfield_imports_no_optional_package():
    code = "import sys, nearfield; print([m for m in ('matplotlib', 'xarray', 'typer') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_without_matplotlib_one_sentence_says_what_to_install(monkeypatch, line):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"nearfield\[plot\]"):
        plotting.prediction(line[0], include_noise=True)


def test_a_picture_that_fails_leaves_no_figure(line, plane):
    import matplotlib.pyplot as plt

    plt.close("all")
    for fail in (
        lambda: plotting.prediction(plane[0], include_noise=True),
        lambda: plotting.mean_map(line[0]),
        lambda: plotting.calibration([1.0], [1.0], std=[0.0]),
        lambda: plotting.probabilities([], [], std=[]),
        lambda: plotting.residuals([1.0], [np.nan], std=[1.0]),
    ):
        with pytest.raises(ValueError):
            fail()
    assert plt.get_fignums() == []
