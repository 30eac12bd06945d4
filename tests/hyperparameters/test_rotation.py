"""Rotated axes against finite differences, brute force, and draws whose axes are known."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from nearfield.common.axes import angles_of, as_rotation, axis_names, in_words, turned
from nearfield.hyperparameters.blocks import Block, LearningData, make_blocks
from nearfield.hyperparameters.request import Fixed, LearningRequest
from nearfield.hyperparameters.rotation import MatrixLikelihood, learn_rotation
from nearfield.hyperparameters.space import Space
from nearfield.kernels import Kernel

from .single import kernel_log_likelihood


def plane_rotation(degrees):
    angle = np.radians(degrees)
    return np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])


def a_draw(rotation, lengths, n, seed, noise=0.05):
    """Points (n, d), and targets (n, 1) of a Gaussian kernel with these lengths along the rows of a rotation."""
    rng = np.random.RandomState(seed)
    X = rng.uniform(0, 10, (n, len(rotation)))
    K = Kernel(np.array([lengths], dtype=float), np.ones(1))(X @ rotation.T, X @ rotation.T)
    y = np.linalg.cholesky(K + noise * np.eye(n)) @ rng.standard_normal(n)
    return X, (y - y.mean())[:, None]


def learnt(X, y, seed=0, **options):
    request = LearningRequest(**{"n_restarts": 0, "n_jobs": 1, **options})
    return learn_rotation(LearningData(X, y), request, np.random.RandomState(seed))


@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("family", ["gaussian", "matern32"])
def test_the_likelihood_of_a_matrix_of_lengths_is_that_in_its_axes_and_its_gradient_is_right(d, family):
    rng = np.random.RandomState(d)
    X, y = rng.uniform(0, 5, (40, d)), rng.standard_normal((40, 2))
    space = Space.of(X, y, Fixed(), 1, False, family=family)
    likelihood = MatrixLikelihood.of([Block(X, y)], space, map)
    n_own = d + d * (d - 1) // 2
    equal = np.concatenate([np.zeros(n_own), [0.3, -1.0]])  # all directions are axes there
    for theta in (0.5 * rng.standard_normal(n_own + 2), equal):
        S = np.diag(theta[:d])
        S[np.triu_indices(d, 1)] = theta[d:n_own]
        logs, vectors = np.linalg.eigh(S, UPLO="U")
        kernel = Kernel(np.exp(logs)[None, :], np.exp(theta[-2:-1]), family)
        value, gradient = likelihood(theta)
        expected, _ = kernel_log_likelihood(kernel, float(np.exp(theta[-1])), X @ vectors, y)
        assert value * y.size == pytest.approx(expected, rel=1e-10)
        steps = 1e-5 * np.eye(len(theta))
        differences = [(likelihood(theta + step)[0] - likelihood(theta - step)[0]) / 2e-5 for step in steps]
        np.testing.assert_allclose(gradient, differences, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("degrees", [0.0, 30.0, 80.0, 135.0])
def test_the_angle_of_a_draw_is_found(degrees):
    X, y = a_draw(plane_rotation(degrees), [3.0, 0.7], 350, 1)
    off = (angles_of(learnt(X, y))[0] - degrees + 90) % 180 - 90
    assert abs(off) < 3.0


def test_the_angle_is_found_from_blocks_of_many_points():
    X, y = a_draw(plane_rotation(110.0), [2.0, 0.5], 1300, 2)
    assert len(make_blocks(X, y, None, False, np.random.RandomState(0))) > 1
    assert abs(angles_of(learnt(X, y))[0] - 110.0) < 3.0


def test_no_other_angle_is_likelier():
    X, y = a_draw(plane_rotation(50.0), [3.0, 0.7], 250, 3)
    best = angles_of(learnt(X, y))[0]

    def height(degrees):
        points = X @ plane_rotation(degrees).T
        values = [
            kernel_log_likelihood(Kernel(np.array([[a, b]]), np.ones(1)), 0.05, points, y)[0]
            for a in np.geomspace(1.5, 6.0, 7)
            for b in np.geomspace(0.4, 1.2, 7)
        ]
        return max(values)

    angles = np.arange(0.0, 180.0, 15.0)
    assert height(best) > max(height(angle) for angle in angles[np.abs(angles - best) > 7])


def test_three_axes_are_found():
    rotation = Rotation.from_euler("xyz", [30, 20, 50], degrees=True).as_matrix()
    X, y = a_draw(rotation, [8.0, 3.0, 1.0], 500, 4)
    found = learnt(X, y)
    assert np.linalg.det(found) == pytest.approx(1.0)
    np.testing.assert_allclose(np.abs(found @ rotation.T), np.eye(3), atol=0.08)


def test_the_longest_length_scale_given_belongs_to_the_axis_of_farthest_reach():
    X, y = a_draw(plane_rotation(30.0), [3.0, 0.7], 200, 5)
    short_first = learnt(X, y, fixed=Fixed(length_scales=np.array([[0.7, 3.0]])))
    long_first = learnt(X, y, fixed=Fixed(length_scales=np.array([[3.0, 0.7]])))
    assert angles_of(long_first) == pytest.approx(angles_of(short_first)[::-1])
    assert abs(angles_of(long_first)[0] - 30.0) < 4.0


def test_axes_are_the_columns_where_the_data_tell_nothing():
    X = np.random.RandomState(0).uniform(size=(30, 2))
    np.testing.assert_array_equal(learnt(X, np.zeros((30, 1))), np.eye(2))
    np.testing.assert_array_equal(learnt(np.ones((30, 2)), np.random.RandomState(1).normal(size=(30, 1))), np.eye(2))


def test_axes_are_a_rotation_and_have_names():
    rotation = as_rotation(np.array([[-1.0, -1.0], [1.0, -1.0]]) / np.sqrt(2))
    np.testing.assert_allclose(rotation, np.array([[1.0, 1.0], [-1.0, 1.0]]) / np.sqrt(2))
    assert angles_of(rotation) == pytest.approx([45.0, 135.0])
    assert axis_names(rotation) == ["axis at 45.0 degrees", "axis at 135.0 degrees"]
    assert in_words(rotation, ["east", "north"]) == "axes at 45.0 and 135.0 degrees, from east towards north"
    assert axis_names(np.eye(3))[1] == "axis along (0.00, 1.00, 0.00)"
    assert in_words(np.eye(3), "abc").startswith("axes along (1.00, 0.00, 0.00); (0.00")
    X = np.random.RandomState(0).normal(size=(7, 2))
    np.testing.assert_allclose(turned(X, rotation), X @ rotation.T)
    np.testing.assert_allclose(turned(turned(X, rotation), rotation.T), X)
