"""Whether columns share a length scale, where that is left to the data."""

import dataclasses

import numpy as np
import pytest

from nearfield.hyperparameters import ard
from nearfield.hyperparameters.ard import decide_ard
from nearfield.hyperparameters.blocks import LearningData
from nearfield.hyperparameters.learning import Fixed, LearningRequest
from nearfield.hyperparameters.space import spreads_of

OPEN = LearningRequest(is_ard_open=True)


def waves(X, length_scales, rng, noise=0.3):
    """A function of these length scales at points (n, d), with noise."""
    frequencies, phases = rng.standard_normal((X.shape[1], 100)) / length_scales[:, None], rng.uniform(0, 6.3, 100)
    return (2 / 100) ** 0.5 * np.cos(X @ frequencies + phases).sum(axis=1) + noise * rng.standard_normal(len(X))


def sample(n, length_scales, seed=0, units=1.0, noise=0.3):
    """Data (n, d) whose columns have these length scales, times their units."""
    rng = np.random.default_rng(seed)
    length_scales = np.asarray(length_scales, dtype=float)
    X = rng.uniform(size=(n, len(length_scales)))
    y = waves(X, length_scales, rng, noise)
    return LearningData(X * units, (y - y.mean())[:, None])


def decided(data, request=OPEN, seed=0):
    return decide_ard(data, request, np.random.RandomState(seed))


@pytest.mark.parametrize("n_scales", [1, None])
@pytest.mark.parametrize("d", [2, 3])
def test_columns_of_one_unit_share_a_length_scale_nearly_always(d, n_scales):
    request = dataclasses.replace(OPEN, n_scales=n_scales)
    taken = [decided(sample(150, [0.3] * d, seed), request).ard for seed in range(12)]
    # Schwarz's criterion errs in one or two of a hundred of these; three of twelve come by chance once in 500 runs.
    assert sum(taken) <= 2


@pytest.mark.parametrize("units", [[1e4, 1.0], [1.0, 1e-4], [1e5, 1e-5]])
@pytest.mark.parametrize("n", [100, 600])
def test_columns_of_different_units_have_their_own(n, units):
    assert decided(sample(n, [0.3, 0.3], units=units)).ard


@pytest.mark.parametrize("length_scales", [[0.1, 1.0], [0.2, 1e6], [1e6, 0.2], [0.2, 0.2, 1e6]])
def test_columns_of_different_length_scales_have_their_own(length_scales):
    request = decided(sample(400, length_scales))
    assert request.ard
    assert "one per column" in request.ard_reason


def test_most_rows_are_looked_at_only_where_few_leave_it_open(monkeypatch):
    small = dataclasses.replace(ard.SETTINGS, first_rows=60, most_rows=240, cluster_size=8)
    monkeypatch.setattr(ard, "SETTINGS", small)
    assert "of 60 rows" in decided(sample(1000, [0.05, 1e6], noise=0.01)).ard_reason
    assert "of 240 rows" in decided(sample(1000, [0.3, 0.3])).ard_reason


def test_short_length_scales_are_told_by_neighbours_among_very_many_rows():
    """Of as many rows drawn one by one, hardly any are near enough to each other to tell length scales as short."""
    request = decided(sample(30_000, [0.004, 0.012], noise=0.1))
    assert request.ard
    assert f"of {ard.SETTINGS.first_rows} rows" in request.ard_reason


@pytest.mark.parametrize("outlier", [1e3, 1e6, 1e9])
def test_outliers_do_not_hide_the_length_scale_of_their_column(outlier):
    data = sample(300, [0.2, 0.5])
    data.X[7, 0] = outlier
    assert decided(data).ard


def test_a_column_of_codes_beside_a_large_one():
    rng = np.random.default_rng(0)
    X = np.column_stack([1e5 * rng.uniform(size=200), rng.uniform(size=200) < 0.3])
    y = np.sin(5e-5 * X[:, 0]) + 2 * X[:, 1] + 0.1 * rng.standard_normal(200)
    assert decided(LearningData(X, (y - y.mean())[:, None])).ard


def test_beyond_three_columns_that_vary_each_has_its_own():
    assert decided(sample(80, [0.3] * 4)).ard
    data = sample(100, [0.3] * 2)
    constant = np.full((100, 3), [2.0, 0.0, 1e6])
    assert not decided(dataclasses.replace(data, X=np.column_stack([data.X, constant]))).ard


def test_of_few_rows_in_many_columns_the_likelihood_decides():
    """As many length scales as columns fit the noise of a hundred rows, unless columns differ much."""
    alike, unlike = sample(100, [3.0] * 12), sample(100, [0.6, 0.6, *[1e3] * 10])
    assert not decided(alike).ard
    assert decided(unlike).ard
    assert decided(sample(240, [3.0] * 12)).ard  # twenty rows per column


def test_targets_of_very_different_size_count_alike():
    wide, narrow = sample(300, [0.2, 1e3], seed=1), sample(300, [0.3, 0.3], seed=2)
    y = np.column_stack([wide.y, 1e6 * narrow.y])
    together = decided(dataclasses.replace(wide, y=np.column_stack([wide.y, 1e6 * wide.y])))
    assert together.ard
    assert decided(dataclasses.replace(wide, y=y)).ard == decided(dataclasses.replace(wide, y=y / [1.0, 1e6])).ard


@pytest.mark.parametrize("X", [np.zeros((20, 2)), np.eye(20)[:, :1], np.column_stack([np.arange(20.0), np.ones(20)])])
def test_where_one_column_varies_at_most_there_is_no_question(X):
    request = decided(LearningData(X, np.arange(20.0)[:, None] - 9.5))
    assert (request.ard, request.is_ard_open, request.ard_reason) == (False, False, "")


def test_targets_that_are_all_equal_say_nothing():
    assert not decided(LearningData(np.random.RandomState(0).rand(30, 2), np.zeros((30, 1)))).ard


@pytest.mark.parametrize(("given", "taken"), [([[0.3]], False), ([[0.3, 2.0]], True)])
def test_length_scales_that_are_given_decide_by_their_shape(given, taken):
    request = dataclasses.replace(OPEN, fixed=Fixed(length_scales=np.array(given)))
    assert decided(sample(50, [0.3, 0.3]), request).ard is taken


@pytest.mark.parametrize("taken", [False, True])
def test_an_answer_that_is_given_stays(taken):
    request = LearningRequest(ard=taken)
    assert decided(sample(50, [0.3, 0.3]), request) is request


def test_random_numbers_are_left_as_they_were():
    rng = np.random.RandomState(3)
    decide_ard(sample(100, [0.3, 0.3]), OPEN, rng)
    assert rng.randint(10**6) == np.random.RandomState(3).randint(10**6)


def test_weights_targets_and_a_drift_go_into_the_likelihood():
    data = sample(300, [0.2, 1.0])
    trend = np.column_stack([np.ones(300), data.X[:, 0]])
    steep = data.y + 100 * trend[:, 1:]
    steep -= trend @ np.linalg.lstsq(trend, steep, rcond=None)[0]
    assert decided(dataclasses.replace(data, y=steep, drift=trend)).ard
    several = np.column_stack([data.y, data.y[::-1]])
    assert decided(dataclasses.replace(data, y=several, weights=np.linspace(0.5, 2.0, 300))).ard


# ---- units of the starts ---------------------------------------------------------------------------------------------


def test_spreads_are_standard_deviations_unless_outliers_make_them():
    rng = np.random.default_rng(0)
    X = np.column_stack(
        [rng.standard_normal(400), rng.uniform(size=400), np.arange(400) % 2, np.arange(400) < 8, np.ones(400)]
    )
    np.testing.assert_allclose(spreads_of(X), X.std(axis=0))
    X[0, 0] = 1e9
    assert 0.5 < spreads_of(X)[0] < 1.0


def test_spreads_are_in_the_units_of_the_columns():
    X = np.random.default_rng(0).standard_cauchy((300, 2))
    np.testing.assert_allclose(spreads_of(X * [1e3, 1e-6]), spreads_of(X) * [1e3, 1e-6])
