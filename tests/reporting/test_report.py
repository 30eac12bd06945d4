from dataclasses import FrozenInstanceError, fields, replace

import numpy as np
import pytest

from nearfield import LocalGPRegressor, TaylorFeatures
from nearfield.local import in_memory
from nearfield.reporting.report import Report

FIXED = {"length_scale": 1.0, "signal_variance": 1.0, "noise_variance": 0.09, "random_state": 0}
REPORT = Report(
    n_samples=10_000,
    n_features=2,
    method="Taylor features of degree 11",
    reason="cheapest of those measured that meet the tolerance",
    divergence=3.4567e-4,
    divergence_error=2.1e-5,
    tolerance=1e-3,
    tolerance_met=True,
    divergence_upper=4.1e-4,
    divergence_of_function=2e-3,
    divergence_of_function_upper=3.1e-3,
    n_probes=96,
    n_centers=54,
    n_kernel_space=7,
    n_components=78,
    spacing=1.5,
    radius=3.0,
    median_neighbours=420,
    hyperparameters={"length_scale": np.array([0.25, 123.456]), "signal_variance": 0.51, "noise_variance": 0.2},
    seconds={"learning": 1.234, "fitting": 0.5},
    model_bytes=3 * 2**20,
)


def line(report, name):
    (text,) = (row for row in str(report).splitlines() if row.split()[0] == name)
    return text.split(maxsplit=1)[1]


def test_a_report_says_what_it_knows_in_words():
    assert str(REPORT).splitlines()[1] == "Local Gaussian process on 10000 samples of 2 columns"
    assert line(REPORT, "method") == "Taylor features of degree 11"
    assert line(REPORT, "distance") == (
        "3.5e-04 nats of KL per test point from the exact Gaussian process (at most 4.1e-04 with 95 % confidence), "
        "96 probes, within the tolerance of 0.001"
    )
    assert line(REPORT, "of") == (
        "the function 2.0e-03 nats of KL per test point (at most 3.1e-03 with 95 % confidence) without noise, as "
        "predict returns it; ten times the tolerance is allowed"
    )
    assert line(REPORT, "hyperparameters") == (
        "length_scale = [0.25, 123.5], signal_variance = 0.51, noise_variance = 0.2"
    )
    assert line(REPORT, "centres") == (
        "54, every point within 1.5 length scales of one; 78 features each; 7 of them use the kernel matrix of their "
        "points instead"
    )
    assert line(REPORT, "neighbourhoods") == "within 3 length scales, 420 points in the median"
    assert line(REPORT, "time") == "learning 1.23 s, fitting 0.50 s"
    assert line(REPORT, "memory") == "3.0 MiB"


def test_a_tolerance_missed_is_said_aloud():
    assert "ABOVE the tolerance of 0.001" in str(replace(REPORT, divergence=2e-3, tolerance_met=False))


def test_only_the_exact_process_is_called_exact():
    exact = replace(REPORT, divergence=0.0, divergence_error=0.0, radius=None, n_components=0, spacing=None)
    assert line(exact, "distance") == "none: this is the exact Gaussian process"
    assert line(exact, "neighbourhoods") == "all points"
    assert exact.is_exact
    assert "0.0e+00 nats" in line(replace(REPORT, divergence=0.0), "distance")  # measured so, but not the exact one
    assert not replace(REPORT, divergence=0.0).is_exact


def test_what_was_not_measured_is_not_claimed():
    given = replace(REPORT, divergence=None, divergence_error=None, tolerance=None, tolerance_met=None, n_probes=0)
    assert line(given, "distance") == "not measured, since everything was given"


def test_a_report_without_bounds_claims_none():
    """As files of earlier versions have it."""
    earlier = replace(REPORT, divergence_upper=None, divergence_of_function=None)
    assert line(earlier, "distance") == (
        "3.5e-04 nats of KL per test point from the exact Gaussian process, 96 probes, within the tolerance of 0.001"
    )
    assert "of the function" not in str(earlier)


def test_a_distance_that_is_not_verified_is_no_claim():
    report = replace(REPORT, verified=False, tolerance_met=False)
    assert line(report, "distance").startswith("not verified: 3.5e-04 nats")
    assert "Look again: how far predictions are from the exact Gaussian process is not verified" in report.verdict


def test_centres_at_the_test_points_are_not_counted():
    assert line(replace(REPORT, n_centers=0, n_kernel_space=0), "centres") == "every test point; 78 features each"


def test_a_report_does_not_change():
    with pytest.raises(FrozenInstanceError):
        REPORT.n_samples = 3
    assert "trials" not in repr(REPORT)


def data(n, seed=0):
    rng = np.random.RandomState(seed)
    X = rng.uniform(0, 12, (n, 2))
    return X, np.sin(X[:, 0]) + 0.3 * rng.standard_normal(n)


def test_the_report_of_a_model_that_was_tuned(monkeypatch):
    monkeypatch.setattr(in_memory, "FEW_DIGITS", 0.0)  # no exact mean
    X, y = data(1800)
    model = LocalGPRegressor(**FIXED).fit(X, y)
    report = model.report_
    assert report.n_samples == 1800
    assert report.n_features == 2
    assert report.tolerance == 1e-3
    assert report.tolerance_met is True
    assert 0 < report.divergence <= 1e-3
    assert 0 < report.divergence_error < report.divergence
    assert report.n_centers == len(model.centers_) > 1
    assert report.spacing == model.spacing_
    assert report.radius == model.radius_
    assert report.n_components == model.feature_map_.n_components
    assert report.hyperparameters == pytest.approx(
        {"length_scale": 1.0, "signal_variance": 1.0, "noise_variance": 0.09}
    )
    neighbours = (np.linalg.norm(X - model.centers_[:, None], axis=2) <= model.radius_).sum(axis=1)
    assert report.median_neighbours == int(np.median(neighbours))
    assert list(report.seconds) == ["learning", "tuning", "centres", "fitting"]
    assert min(report.seconds.values()) >= 0
    assert report.model_bytes > X.nbytes
    measured = report.divergence_near_data
    assert any(label == report.method and divergence == measured for label, divergence, _ in report.trials)
    text = str(report)
    for word in ("KL", "centres", "tolerance", "probes", report.method):
        assert word in text
    assert max(len(row) for row in text.splitlines()) < 220


def test_the_report_of_a_model_with_everything_given():
    X, y = data(300)
    report = LocalGPRegressor(**FIXED, spacing=1.5, radius=3.0, features=TaylorFeatures(8)).fit(X, y).report_
    assert report.divergence is None
    assert report.tolerance is None
    assert report.tolerance_met is None
    assert report.method == "as given"
    assert report.n_components == 45
    assert "not measured" in str(report)


def test_the_report_counts_data_that_come_later():
    X, y = data(400)
    model = LocalGPRegressor(**FIXED, spacing=1.5, radius=3.0, features=TaylorFeatures(5)).fit(X[:100], y[:100])
    before = model.report_
    model.partial_fit(X[100:], y[100:])
    assert model.report_.n_samples == 400
    assert model.report_.model_bytes == model._predictor.n_bytes
    assert before.n_samples == 100


def test_every_field_is_documented():
    for field in fields(Report):
        assert field.name in Report.__doc__


def test_columns_are_named_in_one_table_and_those_that_matter_come_first():
    rng = np.random.default_rng(0)
    names = [f"c{j}" for j in range(15)]
    scales = rng.uniform(5, 50, 15)
    scales[7] = 0.5
    report = replace(
        REPORT,
        hyperparameters={"length_scale": scales, "signal_variance": 1.0, "noise_variance": 0.1},
        columns=tuple(names),
        extents=(10.0,) * 15,
    )
    lines = str(report).splitlines()
    assert line(report, "hyperparameters") == "signal_variance = 1, noise_variance = 0.1"
    start = next(i for i, text in enumerate(lines) if text.startswith("  length scales"))
    assert lines[start].split() == ["length", "scales", "length", "scale", "range", "of", "the", "data"]
    assert lines[start + 1].split() == ["c7", "0.5", "10"]
    assert lines[start + 13].strip() == "and 3 more columns, which matter less"
    assert str(report).count("0.5\n") <= 1


def test_several_gaussians_of_several_columns_are_one_table():
    lengths = np.array([[1.0, 20.0], [3.0, 60.0]])
    values = {"length_scale": lengths, "signal_variance": np.array([0.3, 0.7]), "noise_variance": 0.1}
    report = replace(REPORT, hyperparameters=values, columns=("a", "b"), extents=(9.0, 9.0), variance_shares=(0.3, 0.7))
    text = str(report)
    assert "30%  70%  range of the data, by their shares of the signal variance" in text
    assert "a    1    3" in text
    assert "times the shortest length scale" in text


def test_the_earth_is_measured_in_km():
    values = {"length_scale": 86.1, "signal_variance": 1.0, "noise_variance": 0.1}
    report = replace(REPORT, hyperparameters=values, metric="sphere")
    assert line(report, "hyperparameters") == "length_scale = 86.1 km, signal_variance = 1, noise_variance = 0.1"


def test_features_that_no_centre_needs_are_not_spoken_of():
    report = replace(REPORT, n_kernel_space=54)
    assert line(report, "method") == "kernel matrices: all neighbourhoods have fewer points than 78 features"
    assert "features each" not in str(report)


def test_models_made_later_are_not_counted_yet():
    report = replace(REPORT, radius=None, least_neighbours=50, n_components=0, seconds={"fitting": 0.0})
    assert line(report, "time") == "fitting 0.00 s; local models are built by the first predictions"
    assert line(report, "memory") == "3.0 MiB before local models are built"
    assert line(report, "neighbourhoods") == "the 50 nearest points, more in gaps"


def test_models_that_are_not_kept_are_spoken_of():
    report = replace(
        REPORT, radius=None, least_neighbours=50, n_components=0, n_centers=0, n_features=8, seconds={"fitting": 0.0}
    )
    assert line(report, "time") == "fitting 0.00 s; each test point gets a model of its own, which is not kept"
    assert line(report, "neighbourhoods") == "the 50 nearest points"
