"""One budget of time for a whole fit."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import nearfield as nf
from nearfield.common.budget import UNLIMITED, Budget
from nearfield.hyperparameters.learning import LearningRequest, learn_hyperparameters
from nearfield.hyperparameters.work import Work
from nearfield.kernels import Kernel
from nearfield.local import by_number, by_radius, iteration
from nearfield.local.choices import OUT_OF_TIME, Request
from nearfield.local.neighbourhoods import TrainingSet

OVER = Budget(60.0, 0.0)


def waves(n=3000, d=2, seed=0):
    rng = np.random.RandomState(seed)
    X = rng.uniform(0, 30, (n, d))
    return X, np.sin(X[:, 0]) * np.cos(0.3 * X[:, -1]) + 0.3 * rng.standard_normal(n)


@pytest.mark.parametrize("d", [2, 5])
def test_next_to_no_time_gives_an_honest_answer(d):
    X, y = waves(d=d)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        model = nf.LocalGPRegressor(time_budget=1e-3, random_state=0).fit(X[:2500], y[:2500])
    assert any("raise time_budget (0.001 s)" in str(each.message) for each in warned)
    mean, std = model.predict(X[2500:], return_std=True)
    assert np.all(np.isfinite(mean))
    assert np.all(std > 0)
    assert np.sqrt(np.mean((y[2500:] - mean) ** 2)) < 1.05 * y.std()
    low, high = model.predict_interval(X[2500:], 0.95)
    assert np.mean((low < y[2500:]) & (y[2500:] < high)) > 0.9
    assert model.report_.divergence is not None


def test_where_time_is_enough_it_changes_nothing():
    X, y = waves(1800)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        usual, unlimited = (
            nf.LocalGPRegressor(random_state=0, **options).fit(X, y) for options in ({}, {"time_budget": np.inf})
        )
    np.testing.assert_array_equal(usual.predict(X[:50]), unlimited.predict(X[:50]))


@pytest.mark.parametrize("value", [0, -1.0, np.nan, "long", None, True])
def test_what_is_no_time_is_refused(value):
    X, y = waves(20)
    with pytest.raises(ValueError, match="time_budget' parameter of LocalGPRegressor must be a positive number"):
        nf.LocalGPRegressor(time_budget=value).fit(X, y)


@pytest.mark.parametrize("choose", [by_radius.choose, by_number.choose])
def test_choosing_ends_with_the_closest_so_far(choose):
    X, y = waves()
    data, kernel = TrainingSet.of(X, y[:, None], np.full(len(X), 0.1)), Kernel(np.array([[1.0]]), np.array([1.0]))
    rest = 1, np.random.RandomState(0)
    whole = choose(kernel, data, Request(1e-6, budget=Budget(1e-3)), *rest)
    cut = choose(kernel, data, Request(1e-6, budget=Budget(1e-3, 0.0)), *rest)
    assert len(whole.trials) > 1
    assert (len(cut.trials), cut.reason, cut.met) == (1, OUT_OF_TIME, False)
    assert cut.near_data == cut.trials[0].distance


def test_an_exact_mean_that_would_cost_too_much_is_not_begun(monkeypatch):
    X, y = waves()
    data, kernel = TrainingSet.of(X, y[:, None], np.full(len(X), 0.1)), Kernel(np.array([[1.0]]), np.array([1.0]))

    def solve(budget):
        return iteration.solve_mean(kernel, None, data, 1e-3, np.random.RandomState(0), 1, None, 1, budget=budget)

    assert solve(UNLIMITED) is not None
    monkeypatch.setattr(iteration.System, "of", lambda *_, **__: pytest.fail("begun"))
    assert solve(Budget(1e-3)) is None
    assert solve(OVER) is None


def test_the_clock_stops_an_exact_mean():
    X, y = waves()
    kernel = Kernel(np.array([[1.0], [4.0]]), np.array([1.0, 1.0]))
    data, told = TrainingSet.of(X, y[:, None], np.full(len(X), 1e-2)), []

    class UntilTold(Budget):
        is_over = property(lambda _: bool(told))

    given = (kernel, None, data, 1e-6, np.random.RandomState(0), 1, lambda *each: told.append(each), 1)
    assert iteration.solve_mean(*given, budget=UntilTold()) is None
    assert len(told) == 1
    assert iteration.solve_mean(*given) is not None
    assert len(told) > 2


def test_all_learning_of_a_fit_shares_its_work():
    X, y = waves(400)
    request = LearningRequest(n_restarts=0, n_jobs=1)
    alone = Work(60.0)
    given = X, y[:, None], None
    learn_hyperparameters(*given, replace(request, work=alone), np.random.RandomState(0))
    taken = 60.0 - alone.left
    shared = replace(request, work=Work(1.2 * taken))
    assert learn_hyperparameters(*given, shared, np.random.RandomState(0)).converged
    with pytest.warns(ConvergenceWarning, match="raise time_budget"):
        assert not learn_hyperparameters(*given, shared, np.random.RandomState(0)).converged
