"""What must not matter does not: order, origin, orientation, units, copies, and the size of the pieces data come in."""

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import ortho_group

import nearfield as nf

from ..warned import far_points, few_features
from .problems import problems

pytestmark = far_points

# Rounding in the distances and sums is amplified by the condition of the matrix, at most about n over the noise.
tame = {
    "noise": (1e-3, 10.0),
    "layouts": ("uniform", "clusters", "grid", "repeats", "collinear"),
    "dtypes": (np.float64,),
}
seeds = st.integers(0, 2**32 - 1)


def exact(problem, X=None, y=None, weights=None, **changed):
    X = problem.X if X is None else X
    y = problem.y if y is None else y
    return nf.ExactGPRegressor(**{**problem.hyperparameters, **changed}).fit(
        X, y, problem.weights if weights is None else weights
    )


def local(problem, X, y, weights, **changed):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        gp = nf.LocalGPRegressor(**{**problem.hyperparameters, "n_scales": 1, "random_state": 0, **changed})
        return gp.fit(X, y, weights)


def assert_same(one, other, problem, tolerance=1e-6, means=1.0):
    """Means and standard deviations agree, to a share of the size of what they are about."""
    height = np.sqrt(problem.signal_variance) + np.abs(problem.y).max()
    np.testing.assert_allclose(other[0], one[0], rtol=0, atol=tolerance * height * means)
    # Near zero a standard deviation has half the digits of a variance.
    np.testing.assert_allclose(other[1] ** 2, one[1] ** 2, rtol=0, atol=tolerance * problem.signal_variance)


@given(problem=problems(**tame), seed=seeds)
def test_order_of_rows_exact(problem, seed):
    order = np.random.default_rng(seed).permutation(len(problem.X))
    weights = None if problem.weights is None else problem.weights[order]
    shuffled = exact(problem, problem.X[order], problem.y[order], weights)
    assert_same(
        exact(problem).predict(problem.test, return_std=True), shuffled.predict(problem.test, return_std=True), problem
    )


@given(problem=problems(**tame, max_columns=3), seed=seeds)
def test_order_of_rows_local(problem, seed):
    """At given centres the models are those of the same neighbourhoods, whatever the order of their rows."""
    order = np.random.default_rng(seed).permutation(len(problem.X))
    weights = None if problem.weights is None else problem.weights[order]
    by_hand = {"features": nf.TaylorFeatures(degree=4), "spacing": 1.0, "radius": 2.0, "centers": problem.X[:3]}
    one = local(problem, problem.X, problem.y, problem.weights, **by_hand)
    other = local(problem, problem.X[order], problem.y[order], weights, **by_hand)
    assert_same(one.predict(problem.test, return_std=True), other.predict(problem.test, return_std=True), problem, 1e-5)


@given(problem=problems(**tame), seed=seeds, steps=st.floats(-100, 100))
def test_origin(problem, seed, steps):
    shift = steps * problem.length_scale * np.random.default_rng(seed).uniform(size=problem.X.shape[1])
    shifted = exact(problem, problem.X + shift)
    assert_same(
        exact(problem).predict(problem.test, return_std=True),
        shifted.predict(problem.test + shift, return_std=True),
        problem,
    )


@given(problem=problems(**tame, max_columns=10), seed=seeds)
def test_orientation(problem, seed):
    d = problem.X.shape[1]
    turn = ortho_group.rvs(d, random_state=seed) if d > 1 else -np.ones((1, 1))
    turned = exact(problem, problem.X @ turn)
    assert_same(
        exact(problem).predict(problem.test, return_std=True),
        turned.predict(problem.test @ turn, return_std=True),
        problem,
    )


@given(problem=problems(**tame), factor=st.floats(-6, 6).map(lambda power: 10.0**power), sign=st.sampled_from([1, -1]))
def test_unit_of_targets(problem, factor, sign):
    scaled = exact(
        problem,
        y=sign * factor * problem.y,
        signal_variance=factor**2 * problem.signal_variance,
        noise_variance=factor**2 * problem.noise_variance,
    )
    mean, std = scaled.predict(problem.test, return_std=True)
    assert_same(exact(problem).predict(problem.test, return_std=True), (sign * mean / factor, std / factor), problem)


@given(problem=problems(**tame, min_samples=2, max_samples=150), power=st.integers(-40, 40))
def test_unit_of_targets_learnt(problem, power):
    """With everything learnt: the likelihood reached, for flat ones do not tell the hyperparameters.

    Half a nat is allowed for: of maxima that are as good as equal, rounding picks one.
    """
    factor = 2.0**power

    def reached(y):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            gp = nf.ExactGPRegressor(random_state=0, n_restarts=0, time_budget=60.0).fit(problem.X, y, problem.weights)
        return gp.log_marginal_likelihood()

    n = len(problem.y)
    assert reached(problem.y * factor) + n * np.log(factor) == pytest.approx(reached(problem.y), abs=0.5 + 1e-3 * n)


@given(problem=problems(**tame), factor=st.floats(-6, 6).map(lambda power: 10.0**power))
def test_unit_of_inputs(problem, factor):
    scaled = exact(problem, problem.X * factor, length_scale=problem.length_scale * factor)
    assert_same(
        exact(problem).predict(problem.test, return_std=True),
        scaled.predict(problem.test * factor, return_std=True),
        problem,
    )


@given(problem=problems(**tame), seed=seeds)
def test_more_data_never_raises_the_variance(problem, seed):
    rng = np.random.default_rng(seed)
    kept = rng.permutation(len(problem.X))[: rng.integers(1, len(problem.X) + 1)]
    weights = None if problem.weights is None else problem.weights[kept]
    _, fewer = exact(problem, problem.X[kept], problem.y[kept], weights).predict(problem.test, return_std=True)
    _, all_of_them = exact(problem).predict(problem.test, return_std=True)
    assert np.all(all_of_them**2 <= fewer**2 + 1e-9 * problem.signal_variance)


@given(problem=problems(**tame, max_samples=100), seed=seeds)
def test_a_weight_of_two_is_a_row_that_comes_twice(problem, seed):
    weights = np.random.default_rng(seed).integers(0, 4, len(problem.X)).astype(float)
    weights[0] = 2
    repeated = np.repeat(np.arange(len(problem.X)), weights.astype(int))
    gp = nf.ExactGPRegressor(**problem.hyperparameters)
    one = gp.fit(problem.X, problem.y, weights).predict(problem.test, return_std=True)
    other = gp.fit(problem.X[repeated], problem.y[repeated]).predict(problem.test, return_std=True)
    assert_same(one, other, problem)


@few_features
@given(problem=problems(**tame, length=(0.3, 5.0)), seed=seeds)
def test_pieces_features(problem, seed):
    """`partial_fit` in pieces is `fit` on all."""
    n = len(problem.X)
    cuts = np.sort(np.random.default_rng(seed).integers(2, n + 1, 3)) if n > 2 else []
    weights = np.ones(n) if problem.weights is None else problem.weights
    features = nf.FourierFeatures(n_components=30, random_state=0)
    fixed = {**problem.hyperparameters, "random_state": 0}
    whole = nf.FeatureGPRegressor(features, **fixed).fit(problem.X, problem.y, weights)
    pieces = nf.FeatureGPRegressor(features, **fixed)
    for part in np.split(np.arange(n), cuts):
        if len(part):
            pieces.partial_fit(problem.X[part], problem.y[part], weights[part])
    assert_same(whole.predict(problem.test, return_std=True), pieces.predict(problem.test, return_std=True), problem)


@pytest.mark.filterwarnings("ignore:.*in no neighbourhood")
@given(problem=problems(**tame, max_columns=3), seed=seeds)
def test_pieces_local(problem, seed):
    n = len(problem.X)
    cuts = np.sort(np.random.default_rng(seed).integers(2, n + 1, 3)) if n > 2 else []
    weights = np.ones(n) if problem.weights is None else problem.weights
    # Cells without a centre open on a lattice around the first data; the centres given stay.
    by_hand = {
        "features": nf.TaylorFeatures(degree=4),
        "spacing": 1.0,
        "radius": 2.0,
        "centers": problem.X[:3],
        "open_centers": False,
    }
    whole = local(problem, problem.X, problem.y, weights, **by_hand)
    parts = [part for part in np.split(np.arange(n), cuts) if len(part)]
    pieces = local(problem, problem.X[parts[0]], problem.y[parts[0]], weights[parts[0]], **by_hand)
    for part in parts[1:]:
        pieces.partial_fit(problem.X[part], problem.y[part], weights[part])
    assert_same(
        whole.predict(problem.test, return_std=True), pieces.predict(problem.test, return_std=True), problem, 1e-5
    )


@given(problem=problems(noise=(1e-3, 10.0), dtypes=(np.float32,)))
def test_float32_is_the_same_numbers_in_float64(problem):
    one = exact(problem).predict(problem.test, return_std=True)
    other = exact(problem, problem.X.astype(np.float64)).predict(problem.test.astype(np.float64), return_std=True)
    np.testing.assert_array_equal(one[0], other[0])
    np.testing.assert_array_equal(one[1], other[1])
