"""Moments against products of features: the Gram matrix, the right sides, means and variances."""

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearfield.features import taylor
from nearfield.kernels import Kernel
from nearfield.local.features import LocalFeatures
from nearfield.local.moments import MAX_DEGREE, MomentMap, MomentModel, n_moments
from nearfield.solvers.feature_space import FeatureSpace
from nearfield.solvers.statistics import Statistics


def make(d, degrees, n=80, radius=None, noise=1e-2, seed=0):
    """Features of a sum of Gaussians, points around a centre, targets, and weights."""
    rng = np.random.default_rng(seed)
    radius = max(degrees) ** 0.5 if radius is None else radius
    Z = rng.standard_normal((n, d))
    Z *= (radius * rng.uniform(size=n) ** (1 / d) / np.linalg.norm(Z, axis=1))[:, None]
    scales = np.array([1.6**i * rng.uniform(1, 1.3, d) for i in range(len(degrees))])
    kernel = Kernel(scales, rng.uniform(0.5, 1.5, len(degrees)))
    features = LocalFeatures.of(kernel, tuple(taylor.sample(d, p) for p in degrees))
    y = np.column_stack([rng.standard_normal((n, 2)), np.ones(n)])
    return features, Z, y, 1 / (noise * rng.uniform(0.5, 2.0, n))


def products(features, Z, y, weights):
    root = weights**0.5
    return Statistics.of_weighted(features.rows(Z, root), y * root[:, None], root)


def map_of(features):
    return MomentMap(features.kernel.length_scales, [m.exponents for m in features.maps])


def summed(moments, Z, y, weights):
    return moments.sums(moments.rows(Z, weights), slice(None), y, weights)


def assert_same_sums(found, expected, atol=1e-13):
    diagonal = np.sqrt(np.diagonal(expected.gram))
    assert np.max(np.abs(found.gram - expected.gram) / diagonal / diagonal[:, None]) < atol
    lengths = np.sqrt(np.diagonal(expected.targets))
    assert np.max(np.abs(found.cross - expected.cross) / diagonal[:, None] / lengths) < atol
    np.testing.assert_allclose(found.targets, expected.targets, atol=atol * lengths.max() ** 2)
    np.testing.assert_allclose(found.log_weight, expected.log_weight)
    assert found.n == expected.n


@pytest.mark.parametrize(
    ("d", "degrees"),
    [(1, (3,)), (1, (60,)), (2, (1,)), (2, (12,)), (2, (40,)), (2, (60,)), (3, (8,)), (3, (14,)), (4, (5,)), (5, (3,)),
     (1, (20, 9)), (2, (12, 7)), (2, (10, 10, 4)), (3, (6, 4, 2)), (4, (4, 2))],
)  # fmt: skip
def test_moments_are_the_products_they_stand_for(d, degrees):
    features, Z, y, weights = make(d, degrees)
    moments = map_of(features)
    assert_same_sums(moments.expanded(summed(moments, Z, y, weights)), products(features, Z, y, weights))
    assert moments.n_moments == n_moments(degrees, d)


@pytest.mark.parametrize("noise", [1e-1, 1e-5, 1e-9])
@pytest.mark.parametrize(("d", "degrees"), [(1, (12,)), (2, (12,)), (2, (24,)), (3, (7,)), (2, (12, 6))])
def test_means_and_variances_are_those_of_the_features(d, degrees, noise):
    features, Z, y, weights = make(d, degrees, n=400, noise=noise)
    moments = map_of(features)
    model = MomentModel.from_sums(moments, summed(moments, Z, y, weights), features.precision, "matrix")
    exact = FeatureSpace.from_statistics(products(features, Z, y, weights), features.precision)
    test = 0.6 * Z[:50]
    mean, variance = exact.mean_and_variance(features.rows(test))
    found = moments.mean([model.coefficients], test, [slice(None)])
    np.testing.assert_allclose(found, mean, atol=1e-12 + 1e-14 / noise)  # the condition of the matrix
    found = moments.variance([model.polynomial], test, [slice(None)])
    np.testing.assert_allclose(found, variance, atol=1e-14 * len(features.precision))
    assert (found >= 0).all()


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 4), st.integers(1, 9), st.integers(1, 30), st.integers(0, 1000), st.floats(0.01, 30.0))
def test_any_points(d, degree, n, seed, radius):
    features, Z, y, weights = make(d, (degree,), n, radius, seed=seed)
    Z[0] = 0.0  # exactly at the centre
    moments = map_of(features)
    expected = products(features, Z, y, weights)
    found = moments.expanded(summed(moments, Z, y, weights))
    diagonal = np.sqrt(np.maximum(np.diagonal(expected.gram), 1e-250))
    assert np.max(np.abs(found.gram - expected.gram) / diagonal / diagonal[:, None]) < 1e-12
    assert np.all(np.triu(found.gram, 1) == 0)


def test_sums_add_and_leave_each_other_alone():
    features, Z, y, weights = make(2, (9,), n=60)
    moments = map_of(features)
    first, second = (summed(moments, Z[s], y[s], weights[s]) for s in (slice(20), slice(20, None)))
    before = copy.deepcopy(first)
    both = moments.expanded(first + second)
    assert_same_sums(both, products(features, Z, y, weights))
    np.testing.assert_array_equal(first.moments, before.moments)


def test_several_models_side_by_side():
    features, Z, y, weights = make(2, (7, 4), n=90)
    moments = map_of(features)
    owns = [slice(0, 30), slice(30, 90)]
    rows = moments.rows(Z, weights)
    for own in owns:
        alone = summed(moments, Z[own], y[own], weights[own])
        np.testing.assert_allclose(moments.sums(rows, own, y[own], weights[own]).moments, alone.moments, rtol=1e-13)


@pytest.mark.parametrize("far", [1e3, 1e30, 1e100])
def test_points_far_away_count_for_nothing(far):
    features, Z, y, weights = make(2, (30,), n=20)
    moments = map_of(features)
    near = summed(moments, Z, y, weights)
    with_far = summed(moments, np.vstack([Z, [[far, -far]]]), np.vstack([y, y[:1]]), np.append(weights, weights[0]))
    np.testing.assert_array_equal(with_far.moments, near.moments)
    np.testing.assert_array_equal(with_far.cross, near.cross)


def test_degrees_beyond_the_range_of_numbers_are_left_to_products():
    kernel = Kernel.gaussian(1.0)
    assert LocalFeatures.of(kernel, (taylor.sample(1, MAX_DEGREE),)).moments is not None
    assert LocalFeatures.of(kernel, (taylor.sample(1, MAX_DEGREE + 1),)).moments is None
    features = LocalFeatures.of(kernel, (taylor.sample(1, MAX_DEGREE),))
    Z = np.linspace(-15, 15, 500)[:, None]
    moments, ones = map_of(features), np.ones((500, 2))
    found = moments.expanded(summed(moments, Z, ones, ones[:, 0]))
    assert np.isfinite(found.gram).all()
    assert_same_sums(found, products(features, Z, ones, ones[:, 0]), atol=1e-11)


def test_tables_do_not_travel_with_the_features():
    features = LocalFeatures.of(Kernel.gaussian(1.0), (taylor.sample(2, 20),))
    alone = len(pickle.dumps(features))
    assert features.moments is not None
    assert len(pickle.dumps(features)) == alone
    assert pickle.loads(pickle.dumps(features)).moments is features.moments  # found again, not made again
