"""Newton's method with a curvature that is corrected on the way, on functions whose maximum is known."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.linalg import LinAlgError
from scipy.optimize import lsq_linear

from nearfield.hyperparameters.optimiser import Climb

A = np.array([[3.0, 1.0], [1.0, 0.5]])
TOP = np.array([0.3, -0.2])
WIDE = [(-5.0, 5.0)] * 2


def climbed(objective, start, bounds, curvature, enough):
    return Climb(objective, curvature, np.array(start), bounds).go(25, enough)


def hill(point):
    step = point - TOP
    return -0.5 * step @ A @ step - 0.1 * np.sum(step**4), -A @ step - 0.4 * step**3


def test_the_maximum_is_found_with_a_curvature_that_is_right_wrong_or_of_the_wrong_sign():
    for curvature in (A, 10 * np.eye(2), -A, np.zeros((2, 2))):
        optimum = climbed(hill, [1.0, 0.5], WIDE, curvature, 5e-8)
        assert optimum.converged
        assert -1e-6 < optimum.value <= 0  # what was asked for, and some of what the curvature is off
        assert_allclose(optimum.point, TOP, atol=5e-3)
        assert optimum.curvature.shape == (2, 2)


def test_bounds_hold():
    optimum = climbed(hill, [1.0, 0.5], [(0.5, 5.0), (-5.0, 5.0)], A, 5e-10)
    assert optimum.converged
    assert optimum.point[0] == 0.5
    assert abs(hill(optimum.point)[1][1]) < 1e-3


def test_a_step_that_would_leave_a_bound_goes_along_it():
    """The slope leads away from the bound of the first entry, and Newton's step beyond it."""
    top = np.array([-1.0, 6.0])

    def leaning(point):
        return -0.5 * (point - top) @ A @ (point - top), -A @ (point - top)

    start = np.array([0.0, 2.0])
    assert leaning(start)[1][0] > 0 > np.linalg.solve(A, leaning(start)[1])[0]
    optimum = climbed(leaning, start, [(0.0, 5.0), (-5.0, 5.0)], A, 1e-12)
    assert optimum.converged
    assert_allclose(optimum.point, [0.0, 4.0], atol=1e-6)


@pytest.mark.parametrize("seed", range(20))
def test_maxima_in_boxes_are_those_of_another_optimiser(seed):
    rng = np.random.RandomState(seed)
    p = rng.randint(2, 7)
    root = rng.standard_normal((p, p))
    H, top = root @ root.T + 0.05 * np.eye(p), 2 * rng.standard_normal(p)
    bounds = [(-1.0, 1.0)] * p

    def bowl(point):
        return -0.5 * (point - top) @ H @ (point - top), -H @ (point - top)

    start = rng.choice([-1.0, 0.3, 1.0], p)
    factor = np.linalg.cholesky(H).T
    expected = lsq_linear(factor, factor @ top, (-1.0, 1.0), tol=1e-14).cost
    optimum = climbed(bowl, start, bounds, 0.5 * H + 0.1 * np.eye(p), 1e-12)
    assert optimum.converged
    assert_allclose(optimum.value, -expected, rtol=1e-5, atol=1e-10)


def test_values_that_are_no_numbers_end_a_climb():
    optimum = climbed(lambda point: (np.nan if point[0] else 0.0, np.ones(2)), [0.0, 0.0], WIDE, A, 1e-10)
    assert optimum.value == 0.0


def test_a_start_out_of_reach_says_so_and_steps_out_of_reach_are_shortened():
    def nowhere(_):
        raise LinAlgError

    assert climbed(nowhere, [0.0, 0.0], WIDE, A, 5e-8).value == -np.inf

    def half(point):
        if point[0] < 0.25:
            raise LinAlgError
        return hill(point)

    assert_allclose(climbed(half, [1.0, 0.5], WIDE, 0.3 * A, 5e-8).point, TOP, atol=5e-3)


def test_a_climb_goes_on_where_it_was_left_and_asks_for_the_curvature_after_long_steps():
    asked = []

    def curvature(point):
        asked.append(point)
        step = point - TOP
        return A + np.diag(1.2 * step**2)

    start = np.array([4.5, -4.0])
    climb = Climb(hill, curvature, start, WIDE)
    first = climb.go(2, 1e-10)
    assert not first.converged
    assert first.n_evaluations == 3
    assert len(asked) == 2
    last = climb.go(25, 1e-10)
    assert last.converged
    assert last.n_evaluations < 15
    assert_allclose(last.point, TOP, atol=1e-4)
    whole = Climb(hill, curvature, start, WIDE).go(27, 1e-10)
    assert_allclose(whole.point, last.point, rtol=0)
    assert whole.n_evaluations == last.n_evaluations


def test_no_entry_of_a_step_goes_farther_than_it_may():
    points = []

    def slope(point):
        points.append(point)
        return float(point[0]), np.array([1.0, 0.0])

    Climb(slope, 1e-6 * np.eye(2), np.zeros(2), [(-50.0, 50.0)] * 2).go(6, 1e-10)
    lengths = np.abs(np.diff(points, axis=0)).max(axis=1)
    assert lengths[0] <= 1.0 + 1e-6
    assert lengths.max() <= 2.0 + 1e-6
