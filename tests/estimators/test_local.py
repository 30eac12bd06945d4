import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from nearfield import ExactGPRegressor, FeatureGPRegressor, LocalGPRegressor, MaclaurinFeatures, TaylorFeatures, metrics
from nearfield.features import maclaurin, taylor
from nearfield.local.moments import MomentModel
from nearfield.solvers.kernel_space import KernelSpace

from ..warned import far_points, few_features

pytestmark = pytest.mark.usefixtures("few_probes")
NOISE = 0.09
FIXED = {"length_scale": 1.0, "signal_variance": 1.0, "noise_variance": NOISE, "random_state": 0}
LOCAL = {"spacing": 1.5, "radius": 4.0, "features": TaylorFeatures(20)}  # near exact, and nothing to be tuned
COARSE = {"spacing": 1.0, "radius": 2.0, "features": TaylorFeatures(5)}


def smooth(X):
    return np.sin(X[:, 0]) + np.cos(0.7 * X.sum(axis=1))


def data(n=400, d=2, width=7.0, seed=0):
    rng = np.random.RandomState(seed)
    X = rng.uniform(0, width, (n, d))
    return X, smooth(X) + NOISE**0.5 * rng.standard_normal(n)


def held_out(n=150, d=2, width=7.0, margin=2.0, seed=1):
    return np.random.RandomState(seed).uniform(-margin, width + margin, (n, d))


def divergence(model, exact, X):
    mean, std = model.predict(X, return_std=True, include_noise=True)
    mean_ref, std_ref = exact.predict(X, return_std=True, include_noise=True)
    return metrics.kl_divergence(mean, std**2, mean_ref, std_ref**2).mean()


def assert_same(model, other, X, tolerance=1e-8):
    for found, expected in zip(model.predict(X, return_std=True), other.predict(X, return_std=True), strict=True):
        np.testing.assert_allclose(found, expected, atol=tolerance)


def assert_sane(model, X):
    """Every row there, nothing missing, no variance below zero or above the prior's."""
    mean, std = model.predict(X, return_std=True)
    assert mean.shape[0] == std.shape[0] == len(X)
    assert np.all(np.isfinite(mean))
    assert np.all(np.isfinite(std))
    assert np.all(std >= 0)
    assert np.all(std**2 <= model.kernel_.variance * (1 + 1e-9))


# ---- the pathology -----------------------------------------------------------------------------------------------

# The paper's data: sinc(t) = sin(pi t) / (pi t), since the length scale found is 0.11.
SINC = {"length_scale": 0.11, "signal_variance": 0.08, "noise_variance": 0.01, "random_state": 0, "n_scales": 1}
FAR = np.array([[-20.0], [-5.0], [3.0], [5.0], [100.0], [1e6]])


@pytest.fixture(scope="module")
def sinc():
    rng = np.random.RandomState(0)
    X = rng.uniform(-1.5, 1.5, (50, 1))
    return X, np.sinc(5 * X[:, 0]) + 0.1 * rng.standard_normal(50)


def test_the_length_scale_of_the_sinc_data_is_the_papers(sinc):
    model = LocalGPRegressor(noise_variance=0.01, n_scales=1, random_state=0).fit(*sinc)
    assert 0.09 < model.length_scale_ < 0.14


@far_points
@pytest.mark.parametrize(
    "model",
    [
        LocalGPRegressor(**SINC),
        LocalGPRegressor(**SINC, spacing=1.0, radius=3.0, features=TaylorFeatures(9)),
        LocalGPRegressor(**SINC, spacing=1.0, radius=3.0, features=TaylorFeatures(9), blend=True),
        LocalGPRegressor(**SINC, spacing=1.0, radius=3.0, features=TaylorFeatures(9), open_centers=False),
        LocalGPRegressor(**SINC, radius=None, features=TaylorFeatures(9), centers="mean"),
        LocalGPRegressor(**SINC, spacing=1.0, radius=3.0, features="kernel"),
        LocalGPRegressor.from_paper(10, **SINC, centers="test"),
        LocalGPRegressor.from_paper(10, **SINC).set_params(correction=True),
        LocalGPRegressor.from_paper(10, **SINC, centers="mean").set_params(correction=True),
    ],
    ids=["default", "taylor", "blended", "closed", "one centre", "kernel", "paper at test points", "corrected", "mean"],
)
@pytest.mark.filterwarnings("ignore:tolerance")
def test_far_away_mean_and_std_return_to_the_prior(sinc, model):
    X, y = sinc
    model = clone(model).fit(X, y)
    mean, std = model.predict(FAR, return_std=True)
    np.testing.assert_allclose(mean, y.mean(), atol=1e-3)
    np.testing.assert_allclose(std, 0.08**0.5, rtol=1e-3)
    exact = ExactGPRegressor(**SINC).fit(X, y)
    for found, expected in zip((mean, std), exact.predict(FAR, return_std=True), strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-3)


@far_points
@few_features
@pytest.mark.parametrize(
    "model",
    [
        LocalGPRegressor.from_paper(10, **SINC, centers="mean"),
        LocalGPRegressor.from_paper(10, **SINC),  # beyond its outermost centroids
        FeatureGPRegressor(TaylorFeatures(9), **SINC),
        FeatureGPRegressor(MaclaurinFeatures(10), **SINC),
    ],
    ids=["one centroid", "centroids", "taylor", "maclaurin"],
)
def test_far_away_the_plain_series_collapses(sinc, model):
    X, y = sinc
    model = clone(model).fit(X, y)
    mean, std = model.predict(FAR, return_std=True)
    np.testing.assert_allclose(mean, y.mean(), atol=1e-9)
    np.testing.assert_allclose(std, 0.0, atol=1e-9)


def test_within_the_data_the_plain_series_collapses_and_centroids_do_not(sinc):
    """The middle and the right plot of the paper's first figure."""
    X, y = sinc
    grid = np.linspace(-1.5, 1.5, 100)[:, None]
    exact = ExactGPRegressor(**SINC).fit(X, y)
    plain = LocalGPRegressor.from_paper(10, **SINC, centers="mean").fit(X, y)
    centroids = LocalGPRegressor.from_paper(10, **SINC).fit(X, y)
    at_test_points = LocalGPRegressor.from_paper(10, **SINC, centers="test").fit(X, y)
    edges = np.abs(grid[:, 0]) > 1.0
    assert plain.predict(grid, return_std=True)[1][edges].max() < 1e-3
    assert divergence(plain, exact, grid) > 0.1
    assert divergence(centroids, exact, grid) < 0.03
    assert divergence(at_test_points, exact, grid) < 0.005


# ---- Algorithm 1 -------------------------------------------------------------------------------------------------


def algorithm_1(X, y, test, phi, theta, noise_variance, at_test_points=False):
    """The paper's Algorithm 1, line by line; `phi` are features of points relative to a centroid."""
    C = [X.mean(axis=0)]
    while True:
        delta = cdist(X, np.array(C)).min(axis=1)
        if delta.max() < theta:
            break
        C.append(X[np.argmax(delta)])
    C = test if at_test_points else np.array(C)

    def inverse(c):
        Phi = phi(X - c)
        return np.linalg.inv(Phi.T @ Phi / noise_variance + np.eye(Phi.shape[1]))

    pretrained = [inverse(c) for c in C]  # of the first centroid, too, which the paper forgets
    means, variances = [], []
    for x in test:
        c = np.argmin(np.linalg.norm(x - C, axis=1))
        phi_star = phi((x - C[c])[None])[0]
        means.append(phi_star @ pretrained[c] @ phi(X - C[c]).T @ y / noise_variance)
        variances.append(phi_star @ pretrained[c] @ phi_star)
    return C, np.array(means), np.array(variances)


@pytest.mark.parametrize("at_test_points", [False, True])
@pytest.mark.parametrize(("d", "sampling"), [(1, "rademacher"), (2, "rademacher"), (3, "gaussian"), (3, "tensor_srht")])
def test_from_paper_is_algorithm_1(d, sampling, at_test_points):
    X, y = data(120, d, width=3.0)
    length_scale, variance, D = 0.6, 1.7, 25
    model = LocalGPRegressor.from_paper(
        D,
        sampling=sampling,
        spacing=2.0,
        centers="test" if at_test_points else "farthest",
        length_scale=length_scale,
        signal_variance=variance,
        noise_variance=NOISE,
        random_state=0,
    ).fit(X, y)
    (feature_map,) = model.feature_map_.maps
    if d == 1:  # explicit features
        assert isinstance(feature_map, taylor.TaylorMap)
        assert feature_map.degree == D - 1
        apply = taylor.apply
    else:  # sketches of every degree but the constant
        assert isinstance(feature_map, maclaurin.MaclaurinMap)
        assert feature_map.n_components == D
        assert feature_map.monomials.n_components == 1
        apply = maclaurin.apply
    test = held_out(20, d, width=3.0, margin=0.5)

    def phi(differences):
        return variance**0.5 * apply(feature_map, differences / length_scale)

    C, mean, var = algorithm_1(X, y - y.mean(), test, phi, 2.0 * length_scale, NOISE, at_test_points)
    found_mean, found_std = model.predict(test, return_std=True)
    np.testing.assert_allclose(found_mean, mean + y.mean(), atol=1e-8)
    np.testing.assert_allclose(found_std**2, var, atol=1e-8)
    if not at_test_points:
        np.testing.assert_allclose(model.centers_, C, atol=1e-12)
        assert len(C) > 2
        assert not any(isinstance(m, KernelSpace) for m in model._predictor.models)


def test_from_paper_takes_other_centroids_too():
    X, y = data(200, 2)
    for centers, n_centers, expected in (("kmeans", 7, 7), ("random", 7, 7), (9, None, 9), ("farthest", 5, 5)):
        model = LocalGPRegressor.from_paper(20, centers=centers, n_centers=n_centers, **FIXED).fit(X, y)
        assert len(model.centers_) == expected
        assert model.radius_ is None
    given_centers = np.array([[1.0, 1.0], [5.0, 5.0]])
    model = LocalGPRegressor.from_paper(20, centers=given_centers, **FIXED).fit(X, y)
    np.testing.assert_allclose(model.centers_, given_centers)
    assert LocalGPRegressor.from_paper(20, sampling="gaussian").get_params()["features__sampling"] == "gaussian"


# ---- near the exact process --------------------------------------------------------------------------------------


@pytest.mark.parametrize("centers", ["auto", "grid", "net", "farthest", "kmeans", "random", "mean", "test", 5])
@pytest.mark.parametrize("blend", [False, True])
def test_every_kind_of_centres_comes_near_the_exact_process(centers, blend):
    X, y = data()
    exact = ExactGPRegressor(**FIXED).fit(X, y)
    n_centers = 12 if centers in ("kmeans", "random") else None
    model = LocalGPRegressor(**FIXED, **LOCAL, centers=centers, n_centers=n_centers, blend=blend).fit(X, y)
    assert divergence(model, exact, held_out()) < 1e-3


def test_test_points_in_holes_are_right():
    rng = np.random.RandomState(0)
    X = rng.uniform(0, 12, (900, 2))
    X = X[np.linalg.norm(X - 6, axis=1) > 3.5]
    y = smooth(X) + NOISE**0.5 * rng.standard_normal(len(X))
    exact = ExactGPRegressor(**FIXED).fit(X, y)
    hole = 6 + rng.uniform(-1.5, 1.5, (100, 2))
    model = LocalGPRegressor(**FIXED, **LOCAL).fit(X, y)
    assert cdist(hole, model.centers_).min(axis=1).min() > 1.0
    assert divergence(model, exact, hole) < 1e-3
    lone = LocalGPRegressor(**FIXED, **LOCAL, centers=[[0.0, 0.0]]).fit(X, y)
    assert divergence(lone, exact, X[::5]) < 1e-3  # nothing but holes, and data in them
    assert divergence(lone.set_params(open_centers=False).fit(X, y), exact, X[::5]) > 1.0


def test_blended_predictions_have_no_seams():
    X, y = data()
    plain, blended = (LocalGPRegressor(**FIXED, **COARSE, blend=blend).fit(X, y) for blend in (False, True))
    t = np.linspace(0, 7, 4001)
    line = np.stack([t, 0.4 * t + 1.2], axis=1)
    step = [np.abs(np.diff(model.predict(line))).max() for model in (plain, blended)]
    assert step[0] > 5 * step[1]
    exact = ExactGPRegressor(**FIXED).fit(X, y)
    assert divergence(blended, exact, held_out()) <= 1.1 * divergence(plain, exact, held_out())


def test_hyperparameters_are_learnt():
    X, y = data(300)
    local, exact = (kind(n_scales=1, random_state=0).fit(X, y) for kind in (LocalGPRegressor, ExactGPRegressor))
    np.testing.assert_allclose(local.length_scale_, exact.length_scale_, rtol=1e-6)
    np.testing.assert_allclose(local.signal_variance_, exact.signal_variance_, rtol=1e-6)
    np.testing.assert_allclose(local.noise_variance_, exact.noise_variance_, rtol=1e-6)
    assert 0.5 * NOISE < local.noise_variance_ < 2 * NOISE
    assert local.score(X, y) > 0.8


def test_one_length_scale_per_column():
    X, y = data(300)
    stretched = X * [1.0, 100.0]
    scales = np.array([1.0, 100.0])
    fixed = {**FIXED, "length_scale": scales}
    test = held_out()
    plain = LocalGPRegressor(**FIXED, **COARSE).fit(X, y)
    ard = LocalGPRegressor(**fixed, **COARSE).fit(stretched, y)
    for found, expected in zip(
        ard.predict(test * scales, return_std=True), plain.predict(test, return_std=True), strict=True
    ):
        np.testing.assert_allclose(found, expected, atol=1e-8)
    np.testing.assert_allclose(ard.centers_, plain.centers_ * scales)
    learnt = LocalGPRegressor(ard=True, n_scales=1, random_state=0).fit(stretched, y)
    assert learnt.length_scale_.shape == (2,)
    assert learnt.length_scale_[1] > 10 * learnt.length_scale_[0]


@pytest.mark.parametrize("options", [{}, LOCAL, COARSE, {**COARSE, "blend": True}], ids=["exact", "fine", "coarse", ""])
def test_several_targets_are_each_their_own(options):
    X, y = data()
    targets = np.stack([y, 100 + 3 * X[:, 0], -y], axis=1)
    model = LocalGPRegressor(**FIXED, **options).fit(X, targets)
    mean, std = model.predict(held_out(), return_std=True)
    assert mean.shape == std.shape == (150, 3)
    for j in range(3):
        single = LocalGPRegressor(**FIXED, **options).fit(X, targets[:, j])
        single_mean, single_std = single.predict(held_out(), return_std=True)
        np.testing.assert_allclose(mean[:, j], single_mean, atol=1e-9)
        np.testing.assert_allclose(std[:, j], single_std, atol=1e-9)
    one_column = LocalGPRegressor(**FIXED, **options).fit(X, y[:, None])
    np.testing.assert_allclose(one_column.predict(held_out()), mean[:, :1], atol=1e-9)


def test_the_mean_of_the_targets_is_taken_out_and_put_back():
    X, y = data()
    plain, raised = (LocalGPRegressor(**FIXED, **COARSE).fit(X, y + shift) for shift in (0.0, 1e6))
    np.testing.assert_allclose(raised.predict(held_out()) - 1e6, plain.predict(held_out()), atol=1e-6)
    np.testing.assert_allclose(raised.y_mean_, y.mean() + 1e6)


# ---- weights, noise ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, LOCAL], ids=["exact", "local"])
def test_weights_are_precisions(options):
    X, y = data()
    weights = np.random.RandomState(2).uniform(0.1, 10, len(y))
    model = LocalGPRegressor(**FIXED, **options).fit(X, y, sample_weight=weights)
    # The exact process with the noise of each sample, written out.
    mean_y = np.average(y, weights=weights)
    K = np.exp(-0.5 * cdist(X, X, "sqeuclidean")) + np.diag(NOISE / weights)
    test = held_out(margin=0.5)
    k = np.exp(-0.5 * cdist(test, X, "sqeuclidean"))
    mean = mean_y + k @ np.linalg.solve(K, y - mean_y)
    variance = 1 - np.einsum("ij,ji->i", k, np.linalg.solve(K, k.T))
    found_mean, found_std = model.predict(test, return_std=True)
    kl = metrics.kl_divergence(found_mean, found_std**2 + NOISE, mean, variance + NOISE)
    assert kl.mean() < (1e-3 if options else 1e-12)
    exact = ExactGPRegressor(**FIXED).fit(X, y, sample_weight=weights)
    assert divergence(model, exact, test) < (1e-3 if options else 1e-12)
    assert divergence(LocalGPRegressor(**FIXED, **options).fit(X, y), exact, test) > 1e-2  # weights do matter


def test_a_whole_weight_is_a_repeated_sample():
    X, y = data(200)
    counts = np.random.RandomState(3).randint(0, 4, len(y))
    whole = {"spacing": 1.0, "radius": None, "features": TaylorFeatures(5), "correction": False}
    for options in ({}, {**COARSE, "features": "kernel", "tolerance": 1.0}, whole):
        weighted = LocalGPRegressor(**FIXED, **options).fit(X, y, sample_weight=counts)
        repeated = LocalGPRegressor(**FIXED, **options).fit(np.repeat(X, counts, axis=0), np.repeat(y, counts))
        assert_same(weighted, repeated, held_out())
    assert weighted.report_.n_samples == np.sum(counts > 0)


@pytest.mark.parametrize("options", [{}, COARSE], ids=["exact", "local"])
def test_noise_is_included_on_request(options):
    X, y = data()
    model = LocalGPRegressor(**FIXED, **options).fit(X, y)
    mean, std = model.predict(held_out(), return_std=True)
    noisy_mean, noisy_std = model.predict(held_out(), return_std=True, include_noise=True)
    np.testing.assert_array_equal(mean, noisy_mean)
    np.testing.assert_allclose(noisy_std**2, std**2 + NOISE)
    np.testing.assert_allclose(model.predict(held_out()), mean, atol=1e-13)


def test_samples_that_contradict_each_other_are_refused_without_noise():
    X, y = data(50)
    with pytest.raises(ValueError, match="Samples 3 and 50 are at the same place but have different targets"):
        LocalGPRegressor(**{**FIXED, "noise_variance": 0.0}).fit(np.vstack([X, X[3]]), np.append(y, y[3] + 1))


def test_without_noise_the_targets_are_met():
    X, _ = data(60, width=12.0)
    y = smooth(X)
    for options in ({}, {"spacing": 1.0, "radius": 4.0, "features": "kernel"}):
        model = LocalGPRegressor(**{**FIXED, "noise_variance": 0.0}, **options).fit(X, y)
        mean, std = model.predict(X, return_std=True)
        np.testing.assert_allclose(mean, y, atol=1e-4)
        assert std.max() < 1e-2
        assert_sane(model, held_out(width=12.0))


# ---- more data ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [COARSE, {**COARSE, "centers": "net"}, {**COARSE, "features": "kernel"}, {**COARSE, "blend": True}, {}],
    ids=["grid", "net", "kernel", "blend", "exact"],
)
@pytest.mark.filterwarnings("ignore:tolerance")
def test_chunks_give_the_model_of_the_whole(options):
    X, y = data(600)
    y = y + np.linspace(0, 5, 600)  # so that the mean of y changes from chunk to chunk
    chunks = [slice(0, 150), slice(150, 151), slice(151, 400), slice(400, 600)]
    if "features" in options and not isinstance(options["features"], str):
        options = {**options, "centers": held_out(30, margin=0.0)} if options.get("centers") != "net" else options
    model = LocalGPRegressor(**FIXED, **options)
    for chunk in chunks:
        model.partial_fit(X[chunk], y[chunk])
    centers = model.centers_ if options else "auto"
    whole = LocalGPRegressor(**FIXED, **{**options, "centers": centers}).fit(X, y)
    test = held_out(margin=0.0)
    known = cdist(test, model.centers_).min(axis=1) <= 1.0 if options else slice(None)  # the lattices differ in holes
    np.testing.assert_allclose(model.y_mean_, y.mean())
    assert_same(model, whole, test[known])


def test_chunks_with_weights_and_several_targets():
    X, y = data(300)
    targets = np.stack([y, 7 - 2 * y + np.linspace(0, 9, 300)], axis=1)
    weights = np.random.RandomState(4).uniform(0, 2, 300)
    weights[::7] = 0
    model = LocalGPRegressor(**FIXED, **COARSE)
    for chunk in (slice(0, 100), slice(100, 300)):
        model.partial_fit(X[chunk], targets[chunk], sample_weight=weights[chunk])
    whole = LocalGPRegressor(**FIXED, **COARSE, centers=model.centers_).fit(X, targets, sample_weight=weights)
    test = held_out(margin=0.0)
    assert_same(model, whole, test[cdist(test, model.centers_).min(axis=1) <= 1.0])


def test_partial_fit_keeps_hyperparameters_and_centres():
    X, y = data(400)
    model = LocalGPRegressor(n_scales=1, random_state=0, **COARSE).partial_fit(X[:200], y[:200])
    before = (model.length_scale_, model.noise_variance_, model.centers_.copy())
    model.partial_fit(X[200:], y[200:])
    assert (model.length_scale_, model.noise_variance_) == before[:2]
    np.testing.assert_array_equal(model.centers_, before[2])


def test_later_data_of_another_place_count():
    X, y = data(300)
    model = LocalGPRegressor(**FIXED, **LOCAL).fit(X, y)
    model.partial_fit(X + 1000, y)
    whole = ExactGPRegressor(**FIXED).fit(np.concatenate([X, X + 1000]), np.concatenate([y, y]))
    assert divergence(model, whole, X + 1000.1) < 1e-3


def test_partial_fit_refuses_other_shapes():
    X, y = data(50)
    model = LocalGPRegressor(**FIXED, **COARSE).fit(X, y)
    with pytest.raises(ValueError, match="'y' argument must have 1 targets as in fit"):
        model.partial_fit(X, np.stack([y, y], axis=1))
    with pytest.raises(ValueError, match="features"):
        model.partial_fit(X[:, :1], y)


# ---- every row once ----------------------------------------------------------------------------------------------


@far_points
@pytest.mark.parametrize(
    "options",
    [{}, COARSE, {**COARSE, "blend": True}, {**COARSE, "centers": "test"}],
    ids=["exact", "grid", "b", "test"],
)
def test_rows_come_in_order_whatever_their_batch(options):
    X, y = data()
    model = LocalGPRegressor(**FIXED, **options).fit(X, y)
    test = np.concatenate([held_out(), [[1e5, 0.0]], held_out(3)])  # one far away, and some twice
    mean, std = model.predict(test, return_std=True)
    order = np.random.RandomState(5).permutation(len(test))
    for found, expected in zip(model.predict(test[order], return_std=True), (mean, std), strict=True):
        np.testing.assert_allclose(found, expected[order], atol=1e-10)
    for size in (1, 40):
        parts = [model.predict(test[i : i + size], return_std=True) for i in range(0, len(test), size)]
        np.testing.assert_allclose(np.concatenate([part[0] for part in parts]), mean, atol=1e-10)
        np.testing.assert_allclose(np.concatenate([part[1] for part in parts]), std, atol=1e-10)


@pytest.mark.parametrize("options", [{}, COARSE, {**COARSE, "blend": True}], ids=["tuned", "given", "blend"])
def test_threads_do_not_change_the_model(options):
    X, y = data(1600, width=12.0)
    one, two = (LocalGPRegressor(**FIXED, **options, n_jobs=n_jobs).fit(X, y) for n_jobs in (1, 2))
    np.testing.assert_array_equal(one.centers_, two.centers_)
    assert_same(one, two, held_out(width=12.0), 1e-12)


def test_the_order_of_the_training_data_does_not_matter():
    X, y = data()
    order = np.random.RandomState(6).permutation(len(y))
    assert_same(
        LocalGPRegressor(**FIXED, **COARSE).fit(X, y),
        LocalGPRegressor(**FIXED, **COARSE).fit(X[order], y[order]),
        held_out(),
    )


# ---- randomness --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"centers": "net"}, {"features": MaclaurinFeatures(20), **COARSE}], ids=str)
@pytest.mark.filterwarnings("ignore:tolerance")
def test_the_same_seed_gives_the_same_model(options):
    X, y = data(1600, width=12.0)
    options = {**COARSE, **options} if "features" in options else options
    models = [LocalGPRegressor(**FIXED, **options).fit(X, y) for _ in range(2)]
    for found, expected in zip(*(m.predict(held_out(), return_std=True) for m in models), strict=True):
        np.testing.assert_array_equal(found, expected)
    assert models[0].report_.divergence == models[1].report_.divergence


def test_seeds_of_sketches_differ():
    X, y = data(200, 3)
    first, other = (
        LocalGPRegressor.from_paper(30, **{**FIXED, "random_state": seed}).fit(X, y).predict(X) for seed in (0, 1)
    )
    assert np.abs(first - other).max() > 1e-6


def test_the_global_random_state_is_left_alone():
    X, y = data(1600, width=12.0)
    np.random.seed(7)  # noqa: NPY002
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    LocalGPRegressor(**FIXED).fit(X, y).predict(X)
    LocalGPRegressor(**FIXED, **COARSE, centers="kmeans", n_centers=9).fit(X, y)
    LocalGPRegressor.from_paper(20, **FIXED).fit(X, y)
    np.testing.assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002


def test_arguments_are_left_as_they_are():
    X, y = data(200)
    weights, test, centers = np.ones(200), held_out(), np.array([[1.0, 1.0]])
    scales = np.array([1.0, 2.0])
    arrays = (X, y, weights, test, centers, scales)
    copies = [a.copy() for a in arrays]
    for array in arrays:
        array.setflags(write=False)
    features = TaylorFeatures(3)
    for options in ({}, {"spacing": 1.0, "radius": 2.0, "features": features, "centers": centers}):
        model = LocalGPRegressor(**{**FIXED, "length_scale": scales}, **options).fit(X, y, weights)
        model.predict(test, return_std=True)
        model.partial_fit(X, y, weights)
    for array, copy in zip(arrays, copies, strict=True):
        np.testing.assert_array_equal(array, copy)
    assert not hasattr(features, "map_")


# ---- scikit-learn's company --------------------------------------------------------------------------------------


@far_points
def test_pipeline_and_grid_search():
    X, y = data(150)
    pipeline = make_pipeline(StandardScaler(), LocalGPRegressor(noise_variance=NOISE, random_state=0, **COARSE))
    search = GridSearchCV(
        pipeline,
        {"localgpregressor__length_scale": [0.01, 0.5], "localgpregressor__signal_variance": [1.0]},
        cv=3,
        error_score="raise",
    ).fit(X, y)
    assert search.best_params_["localgpregressor__length_scale"] == 0.5
    assert search.best_score_ > 0.5
    nested = GridSearchCV(
        LocalGPRegressor(**FIXED, **COARSE), {"features__degree": [1, 6]}, cv=3, error_score="raise"
    ).fit(X, y)
    assert nested.best_params_ == {"features__degree": 6}
    assert cross_val_score(LocalGPRegressor(**FIXED), X, y, error_score="raise").mean() > 0.5


def test_clone_and_pickle():
    X, y = data(200)
    for options in ({}, COARSE, {**COARSE, "centers": np.array([[1.0, 2.0], [5.0, 5.0]]), "blend": True}):
        model = LocalGPRegressor(**FIXED, **options).fit(X, y)
        restored = pickle.loads(pickle.dumps(model))
        for found, expected in zip(
            restored.predict(held_out(), return_std=True), model.predict(held_out(), return_std=True), strict=True
        ):
            np.testing.assert_array_equal(found, expected)
        assert str(restored.report_) == str(model.report_)
        copy = clone(model)
        assert not hasattr(copy, "centers_")
        with pytest.raises(NotFittedError):
            copy.predict(X)
        assert_same(copy.fit(X, y), model, held_out(), 0)


def test_pandas_input():
    X, y = data(200)
    frame = pd.DataFrame(X, columns=["lon", "lat"])
    model = LocalGPRegressor(**FIXED, **COARSE).fit(frame, pd.Series(y), sample_weight=pd.Series(np.ones(200)))
    assert model.feature_names_in_.tolist() == ["lon", "lat"]
    plain = LocalGPRegressor(**FIXED, **COARSE).fit(X, y, np.ones(200))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(
            model.predict(pd.DataFrame(held_out(), columns=["lon", "lat"])), plain.predict(held_out())
        )
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[["lat", "lon"]])
    two = LocalGPRegressor(**FIXED, **COARSE).fit(frame, pd.DataFrame({"a": y, "b": -y}))
    assert two.predict(frame).shape == (200, 2)


# ---- bad input ---------------------------------------------------------------------------------------------------


def sets_of_options():
    return [{}, COARSE, {**COARSE, "blend": True}, {**COARSE, "centers": "net"}, {**COARSE, "centers": "farthest"}]


@far_points
@pytest.mark.parametrize("n", [40, 1600])
@pytest.mark.filterwarnings("ignore:tolerance")
def test_duplicate_points(n):
    X = np.repeat(data(n // 8)[0], 8, axis=0)
    y = smooth(X) + NOISE**0.5 * np.random.RandomState(0).standard_normal(n)
    exact = ExactGPRegressor(**FIXED).fit(X, y)
    for options in sets_of_options():
        model = LocalGPRegressor(**FIXED, **options).fit(X, y)
        assert_sane(model, np.concatenate([X[::8], held_out()]))
        assert divergence(model, exact, held_out(margin=0.0)) < (2e-3 if not options else 0.1)


@far_points
@pytest.mark.parametrize(("n", "d"), [(20, 1), (20, 2), (20, 5), (1600, 1), (1600, 5)])
def test_all_points_equal(n, d):
    X, y = np.full((n, d), 3.0), np.random.RandomState(0).standard_normal(n)
    exact = ExactGPRegressor(**FIXED).fit(X[:20], y[:20])
    test = np.concatenate([X[:3], X[:3] + 0.5, X[:3] + 100])
    for options in sets_of_options():
        model = LocalGPRegressor(**FIXED, **options).fit(X, y)
        assert_sane(model, test)
        if n == 20:
            assert divergence(model, exact, test) < 0.01
    learnt = LocalGPRegressor(random_state=0).fit(X[:20], y[:20])
    assert np.all(np.isfinite(learnt.predict(test)))


@pytest.mark.parametrize(
    ("n", "distance"), [(100, 1e3), (100, -1e9), (100, 1e20), (100, -1e100), (1600, 1e3), (1600, 1e20)]
)
def test_one_far_outlier(n, distance):
    X, y = data(n, width=10.0)
    X = np.vstack([X, [[distance, 5.0]]])
    y = np.append(y, 4.0)
    exact = ExactGPRegressor(**FIXED).fit(X, y)
    test = np.concatenate([held_out(width=10.0, margin=0.5), X[-1:]])
    for options in sets_of_options():
        model = LocalGPRegressor(**FIXED, **options).fit(X, y)
        assert_sane(model, test)
        assert divergence(model, exact, test) < (2e-3 if not options else 0.1)
        # Less than the tolerance asks for by far: a standard deviation of the noise is 0.3.
        np.testing.assert_allclose(model.predict(X[-1:]), exact.predict(X[-1:]), atol=2e-3)


@pytest.mark.parametrize(("n", "length_scale"), [(60, 0.1), (60, 3.0), (60, 50.0), (1600, 0.1), (1600, 50.0)])
def test_fifty_columns(n, length_scale):
    X, y = data(n, 50, width=1.0)
    test = held_out(30, 50, width=1.0, margin=0.1)
    fixed = {**FIXED, "length_scale": length_scale}
    exact = ExactGPRegressor(**fixed).fit(X, y)
    model = LocalGPRegressor(**fixed).fit(X, y)
    assert_sane(model, test)
    assert divergence(model, exact, test) < 2e-3
    for options in ({"centers": "net"}, {"centers": "grid"}, {"centers": "net", "blend": True}) if n == 60 else ():
        model = LocalGPRegressor(**fixed, **{**COARSE, "features": TaylorFeatures(1)}, **options).fit(X, y)
        assert_sane(model, test)
    assert_sane(LocalGPRegressor.from_paper(60, **fixed, centers=5).set_params(correction=True).fit(X, y), test)


@pytest.mark.parametrize("options", sets_of_options(), ids=str)
def test_whole_numbers_and_single_precision(options):
    rng = np.random.RandomState(0)
    X, y = rng.randint(0, 8, (200, 2)), rng.randint(-3, 4, 200)
    expected = LocalGPRegressor(**FIXED, **options).fit(X.astype(float), y.astype(float)).predict(X.astype(float))
    for kind in (np.int64, np.int8, np.float32):
        found = LocalGPRegressor(**FIXED, **options).fit(X.astype(kind), y.astype(kind)).predict(X.astype(kind))
        assert found.dtype == np.float64
        np.testing.assert_allclose(found, expected, atol=1e-12)
    assert_sane(LocalGPRegressor(**FIXED, **options).fit(X.tolist(), y.tolist()), X.tolist())


@far_points
@pytest.mark.parametrize("options", [*sets_of_options(), {**COARSE, "centers": "test"}], ids=str)
def test_a_test_set_far_away_and_none(options):
    X, y = data(200)
    far = np.array([[1e2, 0.0], [-1e5, 3.0], [1e30, -1e30], [1e200, 1e-200], [1.7e308, -1.7e308]])
    model = LocalGPRegressor(**FIXED, **options).fit(X, y)
    mean, std = model.predict(far, return_std=True)
    np.testing.assert_allclose(mean, y.mean())
    np.testing.assert_allclose(std, 1.0)
    mean, std = model.predict(np.empty((0, 2)), return_std=True)
    assert mean.shape == std.shape == (0,)
    two = LocalGPRegressor(**FIXED, **options).fit(X, np.stack([y, y], axis=1))
    mean, std = two.predict(np.empty((0, 2)), return_std=True)
    assert mean.shape == std.shape == (0, 2)


@far_points
def test_far_away_the_papers_method_has_no_gaps_either():
    X, y = data(200)
    far = np.array([[1e2, 0.0], [1e30, -1e30], [1.7e308, -1.7e308]])
    for centers in ("farthest", "test"):
        model = LocalGPRegressor.from_paper(20, centers=centers, **FIXED).fit(X, y)
        assert_sane(model, far)
        assert model.predict(np.empty((0, 2))).shape == (0,)


@far_points
@pytest.mark.parametrize(
    ("d", "ratio"),
    [(1, 1e-6), (1, 1e-4), (1, 1e-2), (1, 1e6), (2, 1e-6), (2, 1e-2), (2, 1e2), (2, 1e6), (3, 1e-6), (3, 1e6)],
)
def test_length_scales_of_any_size(d, ratio):
    rng = np.random.RandomState(0)
    X = rng.uniform(0, 1, (1900, d))
    y = np.sin(5 * X[:, 0]) + NOISE**0.5 * rng.standard_normal(1900)
    fixed = {**FIXED, "length_scale": ratio}
    exact = ExactGPRegressor(**fixed).fit(X[:1600], y[:1600])
    test = X[1600:]
    model = LocalGPRegressor(**fixed).fit(X[:1600], y[:1600])
    assert_sane(model, np.concatenate([test, held_out(20, d, 1.0), 1e7 * held_out(20, d, 1.0)]))
    assert divergence(model, exact, test) < 3e-3  # few probes choose


@pytest.mark.parametrize("scale", [1e-150, 1e-8, 1e8, 1e150])
def test_units_do_not_matter(scale):
    X, y = data(200)
    plain = LocalGPRegressor(**FIXED, **COARSE).fit(X, y)
    scaled = LocalGPRegressor(**{**FIXED, "length_scale": scale}, **COARSE).fit(X * scale, y)
    for found, expected in zip(
        scaled.predict(held_out() * scale, return_std=True),
        plain.predict(held_out(), return_std=True),
        strict=True,
    ):
        np.testing.assert_allclose(found, expected, atol=1e-6)


@far_points
@pytest.mark.filterwarnings("ignore:radius")
@settings(max_examples=25)
@given(
    n=st.integers(2, 60),
    d=st.integers(1, 6),
    extent=st.floats(-6, 6),
    noise=st.floats(-12, 2),
    variance=st.floats(-6, 6),
    repeated=st.booleans(),
    blend=st.booleans(),
    centers=st.sampled_from(["auto", "grid", "net", "farthest", "mean", "test", 3]),
    spacing=st.floats(0.1, 5.0),
    radius=st.floats(0.1, 8.0),
    degree=st.integers(1, 5),
    seed=st.integers(0, 1000),
)
def test_never_a_gap(n, d, extent, noise, variance, repeated, blend, centers, spacing, radius, degree, seed):
    rng = np.random.RandomState(seed)
    X = 10.0**extent * rng.standard_normal((n, d))
    if repeated:
        X = X[rng.randint(n, size=n)]
    y = 10.0 ** (0.5 * variance) * rng.standard_normal(n)
    model = LocalGPRegressor(
        length_scale=1.0,
        signal_variance=10.0**variance,
        noise_variance=10.0 ** (variance + noise),
        spacing=spacing,
        radius=radius,
        features=TaylorFeatures(degree),
        blend=blend,
        centers=centers,
        random_state=0,
    ).fit(X, y)
    test = np.concatenate(
        [X, X + 10.0**extent * rng.standard_normal(X.shape), rng.standard_normal((3, d)), X[:1] + 1e9]
    )
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The .* singular", RuntimeWarning)
        assert_sane(model, test)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"length_scale": -1.0}, "'length_scale' parameter of LocalGPRegressor must be None"),
        ({"length_scale": [1.0, 2.0, 3.0], "n_scales": 1}, "'length_scale' parameter of LocalGPRegressor must be"),
        ({"signal_variance": 0.0}, "'signal_variance' parameter of LocalGPRegressor must be None"),
        ({"noise_variance": -0.1}, "'noise_variance' parameter of LocalGPRegressor must be None"),
        ({"tolerance": 0.0}, "'tolerance' parameter of LocalGPRegressor must be a positive, finite number. Got 0.0"),
        ({"tolerance": "small"}, "'tolerance' parameter of LocalGPRegressor must be a positive, finite number"),
        ({"spacing": 0.0}, "'spacing' parameter of LocalGPRegressor must be"),
        ({"spacing": "wide"}, "'spacing' parameter of LocalGPRegressor must be"),
        ({"spacing": None}, "'spacing' parameter of LocalGPRegressor must be"),
        ({"radius": -2.0}, "'radius' parameter of LocalGPRegressor must be"),
        ({"radius": "wide"}, "'radius' parameter of LocalGPRegressor must be"),
        ({"radius": np.inf}, "'radius' parameter of LocalGPRegressor must be"),
        ({"features": "taylor"}, "'features' parameter of LocalGPRegressor must be 'auto', 'kernel', TaylorFeatures"),
        ({"features": 7}, "'features' parameter of LocalGPRegressor must be"),
        ({"features": TaylorFeatures(0), "radius": 1.0}, "'degree' parameter of TaylorFeatures must be"),
        ({"centers": "corners"}, "'centers' parameter of LocalGPRegressor must be one of 'auto', 'grid'"),
        ({"centers": 0}, "'centers' parameter of LocalGPRegressor must be an integer of at least 1"),
        ({"centers": True}, "'centers' parameter of LocalGPRegressor must be an integer"),
        ({"centers": [[1.0, 2.0, 3.0]]}, r"'centers' parameter of LocalGPRegressor must be .*\(n_centers, 2\)"),
        ({"centers": [[np.nan, 1.0]]}, "'centers' parameter of LocalGPRegressor must be"),
        ({"centers": [["a", "b"]]}, "'centers' parameter of LocalGPRegressor must be"),
        ({"centers": "kmeans"}, "'n_centers' parameter of LocalGPRegressor must be an integer of at least 1. Got None"),
        ({"centers": "random", "n_centers": 0}, "'n_centers' parameter of LocalGPRegressor must be an integer"),
        ({"correction": "yes"}, "'correction' parameter of LocalGPRegressor must be True or False. Got 'yes'"),
        ({"blend": 2}, "'blend' parameter of LocalGPRegressor must be True or False. Got 2"),
        ({"open_centers": None}, "'open_centers' parameter of LocalGPRegressor must be True or False. Got None"),
        ({"ard": "both"}, "'ard' parameter of LocalGPRegressor must be True, False or 'auto'"),
        ({"n_restarts": -1}, "'n_restarts' parameter of LocalGPRegressor must be an integer of at least 0"),
        ({"n_jobs": 0}, "'n_jobs' parameter must be None or an integer other than 0"),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_wrong_parameters_are_named_in_one_sentence(options, message):
    X, y = data(30)
    with pytest.raises(ValueError, match=message) as caught:
        LocalGPRegressor(**{**FIXED, **options}).fit(X, y)
    assert "\n" not in str(caught.value)


def test_wrong_parameters_are_found_before_anything_is_learnt():
    X, y = data(30)
    told = []
    for options in ({"centers": "corners"}, {"features": "?"}, {"centers": "kmeans"}, {"spacing": -1}, {"blend": "?"}):
        with pytest.raises(ValueError, match="parameter of LocalGPRegressor"):
            LocalGPRegressor(progress=lambda *args: told.append(args), **options).fit(X, y)
    assert told == []


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_missing_values_are_refused(wrong):
    X, y = data(30)
    for where in ("X", "y", "sample_weight"):
        arguments = {"X": X.copy(), "y": y.copy(), "sample_weight": np.ones(30)}
        arguments[where][3] = wrong
        with pytest.raises(ValueError, match=f"{where}|contains"):
            LocalGPRegressor(**FIXED).fit(**arguments)
    model = LocalGPRegressor(**FIXED, **COARSE).fit(X, y)
    with pytest.raises(ValueError, match="Input X contains"):
        model.predict([[wrong, 0.0]])


@far_points
def test_hardly_any_data():
    with pytest.raises(ValueError, match="minimum of 2"):
        LocalGPRegressor(length_scale=1.0).fit([[0.0]], [1.0])
    for options in sets_of_options():
        for X, y in (([[0.0]], [1.0]), ([[0.0], [1.0]], [1.0, 2.0])):
            model = LocalGPRegressor(**FIXED, **options).fit(X, y)
            assert_sane(model, [[0.0], [0.5], [9.0]])


# ---- real data ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def uk_flats(data_dir):
    """Longitude, latitude and log price: 3000 rows to train, 1000 to test."""
    path = data_dir / "uk_flats_2020-12.csv.gz"
    if not path.exists():
        pytest.skip(f"NEARFIELD_DATA={data_dir} has no {path.name}")
    table = pd.read_csv(path)
    rows = np.random.RandomState(0).permutation(len(table))[:4000]
    X, y = table[["lon", "lat"]].to_numpy()[rows], table["log_price"].to_numpy()[rows]
    return X[:3000], y[:3000], X[3000:]


PUBLISHED = {"length_scale": 0.25, "signal_variance": 0.51, "noise_variance": 0.20, "random_state": 0}


@pytest.fixture(scope="module")
def uk_exact(uk_flats):
    return ExactGPRegressor(**PUBLISHED).fit(*uk_flats[:2])


@pytest.mark.parametrize("tolerance", [1e-2, 1e-3, 1e-4])
def test_uk_flats_to_a_tolerance(uk_flats, uk_exact, tolerance):
    X, y, test = uk_flats
    model = LocalGPRegressor(**PUBLISHED, tolerance=tolerance).fit(X, y)
    truth = divergence(model, uk_exact, test)
    assert truth <= tolerance
    assert truth <= max(3 * model.report_.divergence, tolerance / 5)  # few probes choose
    assert model.report_.divergence <= max(truth * 3, tolerance)  # if in doubt, on the safe side
    assert_sane(model, test)


def test_uk_flats_with_few_features_beat_the_paper(uk_flats, uk_exact):
    X, y, test = uk_flats
    ours = LocalGPRegressor(**PUBLISHED, spacing=2.0, radius=3.5, features=TaylorFeatures(12)).fit(X, y)
    paper = LocalGPRegressor.from_paper(256, **PUBLISHED).fit(X, y)
    assert ours.feature_map_.n_components == 91
    assert divergence(ours, uk_exact, test) < 1e-3
    assert divergence(ours, uk_exact, test) < 0.1 * divergence(paper, uk_exact, test)


def test_uk_flats_have_both_kinds_of_models(uk_flats):
    X, y, _ = uk_flats
    model = LocalGPRegressor(**PUBLISHED, spacing=2.0, radius=3.5, features=TaylorFeatures(12)).fit(X, y)
    kinds = {type(m) for m in model._predictor.models}
    assert kinds == {MomentModel, KernelSpace}
