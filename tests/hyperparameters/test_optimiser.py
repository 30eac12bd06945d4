"""Newton's method from near a maximum, on functions whose maximum is known."""

import numpy as np
from numpy.testing import assert_allclose
from scipy.linalg import LinAlgError

from nearfield.hyperparameters.optimiser import polish

A = np.array([[3.0, 1.0], [1.0, 0.5]])
TOP = np.array([0.3, -0.2])
WIDE = [(-5.0, 5.0)] * 2


def hill(point):
    step = point - TOP
    return -0.5 * step @ A @ step - 0.1 * np.sum(step**4), -A @ step - 0.4 * step**3


def test_the_maximum_is_found_with_a_curvature_that_is_right_wrong_or_of_the_wrong_sign():
    for curvature in (A, 10 * np.eye(2), -A, np.zeros((2, 2))):
        optimum = polish(hill, np.array([1.0, 0.5]), WIDE, curvature, 1e6)
        assert optimum.converged
        assert -1e-6 < optimum.value <= 0  # 0.05 of a million, and some of what the curvature is off
        assert_allclose(optimum.point, TOP, atol=5e-3)
        assert optimum.curvature.shape == (2, 2)


def test_bounds_hold():
    optimum = polish(hill, np.array([1.0, 0.5]), [(0.5, 5.0), (-5.0, 5.0)], A, 1e8)
    assert optimum.converged
    assert optimum.point[0] == 0.5
    assert abs(hill(optimum.point)[1][1]) < 1e-3


def test_a_start_out_of_reach_says_so_and_steps_out_of_reach_are_shortened():
    def nowhere(_):
        raise LinAlgError

    assert polish(nowhere, np.zeros(2), WIDE, A, 1e6).value == -np.inf

    def half(point):
        if point[0] < 0.25:
            raise LinAlgError
        return hill(point)

    assert_allclose(polish(half, np.array([1.0, 0.5]), WIDE, 0.3 * A, 1e6).point, TOP, atol=5e-3)
