"""What a choice by radius will come to, beside what it came to."""

import numpy as np
import pytest

from nearfield.kernels import Kernel
from nearfield.local import expected
from nearfield.local.by_radius import choose
from nearfield.local.choices import Request
from nearfield.local.neighbourhoods import TrainingSet

KERNEL = Kernel.gaussian(1.0, 1.0)


def even(n, d, width, noise):
    rng = np.random.RandomState(0)
    X = rng.uniform(0, width, (n, d))
    y = np.cos(X @ rng.standard_normal((d, 16))).sum(axis=1) / 8**0.5 + noise**0.5 * rng.standard_normal(n)
    return TrainingSet.of(X, y[:, None], np.full(n, noise))


@pytest.mark.parametrize(
    ("n", "d", "width", "noise"), [(4000, 2, 16.0, 0.1), (4000, 2, 16.0, 1.0), (4000, 1, 300.0, 0.1)]
)
def test_the_radius_is_about_what_is_chosen(n, d, width, noise):
    data = even(n, d, width, noise)
    digits = 3 + expected.digits_in_gaps(np.ones(5))
    radius = expected.radius_for(KERNEL, data, digits, data.counts(data.X[::50], expected.DENSITY_WITHIN))
    choice = choose(KERNEL, data, Request(1e-3, blend=True), 1, np.random.RandomState(0))
    assert abs(choice.candidate.plan.radius - radius) <= 1.0


def test_costs_grow_with_digits_and_points():
    data, more = even(4000, 2, 16.0, 0.1), even(16_000, 2, 32.0, 0.1)
    costs = [expected.expected_cost(KERNEL, data, tolerance) for tolerance in (1e-2, 1e-3, 1e-4)]
    assert np.all(np.diff(costs) > 0)
    assert expected.expected_cost(KERNEL, more, 1e-3) > costs[1]
    assert expected.expected_cost(KERNEL, data, 1e-12) == np.inf
    assert expected.expected_cost(KERNEL, even(200, 4, 3.0, 0.1), 1e-3) == np.inf


def test_evenness():
    assert expected.evenness(np.full(7, 30)) == pytest.approx(1.0)
    assert expected.evenness(np.array([1, 1000])) < 0.01


def test_uneven_data_take_more_trials():
    even_data = even(3000, 2, 20.0, 0.1)
    X = np.where(np.arange(3000)[:, None] % 4, 0.1 * even_data.X, even_data.X)
    crowded = TrainingSet.of(X, even_data.y[:, :1], even_data.noise)
    sizes = [data.counts(data.X[::30], expected.DENSITY_WITHIN) for data in (even_data, crowded)]
    assert expected.evenness(sizes[0]) > 0.9 > expected.evenness(sizes[1])
    costs = [expected.expected_cost(KERNEL, data, 1e-2) for data in (even_data, crowded)]
    assert costs[0] < expected.FURTHER_TRIALS < costs[1]


def test_the_cost_does_not_depend_on_the_order_of_rows():
    """A raster row by row, dense on one side and sparse on the other: every so many points are of one column."""
    X = 0.3 * np.stack(np.meshgrid(np.arange(60.0), np.arange(100.0)), axis=-1).reshape(-1, 2)
    X[:, 0] = np.where(X[:, 0] > 9.0, 9.0 + 3 * (X[:, 0] - 9.0), X[:, 0])
    costs = [
        expected.expected_cost(KERNEL, TrainingSet.of(X[order], X[order, :1], np.full(len(X), 0.1)), 1e-3)
        for order in (np.arange(len(X)), np.random.RandomState(0).permutation(len(X)))
    ]
    assert costs[0] == pytest.approx(costs[1], rel=0.5)
