"""Kernels by name: the exact ones of scikit-learn, learnt, and in local models near the exact process."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process import kernels as sk

import nearfield as nf
from nearfield.kernels import Kernel
from nearfield.kernels.families import FAMILIES

GIVEN = {"length_scale": 1.5, "signal_variance": 2.0, "noise_variance": 0.1}
THEIRS = {
    "gaussian": sk.RBF(1.5),
    "matern12": sk.Matern(1.5, nu=0.5),
    "matern32": sk.Matern(1.5, nu=1.5),
    "matern52": sk.Matern(1.5, nu=2.5),
    "rational_quadratic": sk.RationalQuadratic(1.5, alpha=1.0),
}


def draw(kernel, n=600, side=12.0, noise=0.1, seed=0):
    """Points in the plane, and a draw of the process at them with noise."""
    rng = np.random.RandomState(seed)
    X = rng.uniform(0, side, (n, 2))
    L = np.linalg.cholesky(kernel(X, X) + 1e-10 * np.eye(n))
    return X, L @ rng.standard_normal(n) + noise**0.5 * rng.standard_normal(n)


@pytest.mark.parametrize("name", FAMILIES)
def test_the_exact_process_is_that_of_scikit_learn(name):
    X, y = draw(Kernel.gaussian(1.5, 2.0), n=80)
    Z = np.random.RandomState(1).uniform(-2, 14, (50, 2))
    theirs = GaussianProcessRegressor(2.0 * THEIRS[name], alpha=0.1, optimizer=None).fit(X, y - y.mean())
    mean, std = theirs.predict(Z, return_std=True)
    ours = nf.ExactGPRegressor(**GIVEN, kernel=name).fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        found, found_std = ours.predict(Z, return_std=True)
    assert_allclose(found, mean + y.mean(), rtol=1e-8, atol=1e-8)
    assert_allclose(found_std, std, rtol=1e-8)
    assert_allclose(ours.log_marginal_likelihood(), theirs.log_marginal_likelihood_value_, rtol=1e-8)
    assert ours.kernel_.parameters()["kernel"] == name


@pytest.mark.parametrize("name", FAMILIES)
def test_sums_of_gaussians_stand_for_each(name):
    kernel = Kernel(np.array([[1.5], [6.0]]), np.array([2.0, 1.0]), name)
    r = np.geomspace(1e-2, 30, 200)[:, None]
    expanded = kernel.expanded()
    assert expanded.family == "gaussian"
    assert_allclose(expanded.variance, 3.0)
    assert_allclose(expanded(r, np.zeros((1, 1))), kernel(r, np.zeros((1, 1))), atol=3.1e-3)
    assert np.all(np.diff(expanded.length_scales[:, 0]) >= 0)


@pytest.mark.parametrize("name", ["matern12", "matern32"])
def test_local_models_are_near_the_exact_process_and_go_through_files(name, tmp_path):
    X, y = draw(Kernel(np.array([[1.5]]), np.array([2.0]), name), n=1500, side=30.0)
    Z = np.random.RandomState(1).uniform(0, 30, (200, 2))
    mean, std = nf.ExactGPRegressor(**GIVEN, kernel=name).fit(X, y).predict(Z, return_std=True, include_noise=True)
    model = nf.LocalGPRegressor(**GIVEN, kernel=name, random_state=0).fit(X, y)
    found, found_std = model.predict(Z, return_std=True, include_noise=True)
    # the tolerance, and what the sum of Gaussians differs by
    assert np.mean(nf.metrics.kl_divergence(found, found_std**2, mean, std**2)) < 2e-3
    assert model.length_scale_ == 1.5
    nf.save(model, tmp_path / "model.nf")
    loaded = nf.load(tmp_path / "model.nf")
    assert loaded.kernel_.family == name
    assert_allclose(loaded.predict(Z), model.predict(Z), rtol=1e-10)


def test_the_length_scale_of_a_matern_kernel_is_learnt():
    X, y = draw(Kernel(np.array([[2.0]]), np.array([1.0]), "matern32"), n=1500, side=25.0)
    model = nf.ExactGPRegressor(kernel="matern32", random_state=0, n_restarts=0).fit(X, y)
    errors = model.learned_.standard_errors
    assert errors.shape == (3,)
    truth = np.log([2.0, 1.0, 0.1])
    learnt = np.log([model.length_scale_, model.signal_variance_, model.noise_variance_])
    assert np.all(np.abs(learnt - truth) < 3 * errors)
    assert np.all(errors < 0.5)


def test_auto_finds_the_kernel_the_data_are_drawn_from():
    X, y = draw(Kernel(np.array([[2.0]]), np.array([1.0]), "matern12"), n=1200, side=15.0, noise=0.001)
    model = nf.ExactGPRegressor(kernel="auto", n_scales=1, random_state=0, n_restarts=0).fit(X, y)
    assert model.kernel_.family == "matern12"
    compared = dict(model.learned_.compared)
    assert set(compared) == {"Gaussian", "Matérn 1/2", "Matérn 3/2", "Matérn 5/2"}
    assert max(compared, key=compared.get) == "Matérn 1/2"
    smooth = draw(Kernel.gaussian(2.0), n=500)
    assert nf.ExactGPRegressor(kernel="auto", random_state=0, n_restarts=0).fit(*smooth).kernel_.family == "gaussian"


def test_fourier_features_sample_the_mixture():
    X, y = draw(Kernel(np.array([[1.5]]), np.array([2.0]), "matern32"), n=300)
    features = nf.FourierFeatures(4000, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # how far it is from the exact process
        model = nf.FeatureGPRegressor(features, **GIVEN, kernel="matern32", random_state=0).fit(X, y)
    rows = np.concatenate([each.transform(X[:40]) for each in model.feature_map_], axis=1)
    assert abs(rows.shape[1] - 4000) < 50
    assert_allclose(rows @ rows.T, model.kernel_(X[:40], X[:40]), atol=0.2)


def test_bad_names():
    X, y = draw(Kernel.gaussian(1.5), n=30)
    for model in (nf.ExactGPRegressor(kernel="matern"), nf.LocalGPRegressor(kernel="rbf")):
        with pytest.raises(ValueError, match=r"'kernel'.*'matern32'"):
            model.fit(X, y)
    with pytest.raises(ValueError, match=r"'likelihood'.*'kernel'"):
        nf.FeatureGPRegressor(nf.FourierFeatures(20), kernel="matern32", likelihood="features").fit(X, y)
    assert clone(nf.LocalGPRegressor(kernel="matern12")).kernel == "matern12"


def test_slopes_of_the_exact_process_with_a_smooth_matern_kernel():
    X, y = draw(Kernel.gaussian(1.5, 2.0), n=80)
    model = nf.ExactGPRegressor(**GIVEN, kernel="matern52").fit(X, y)
    Z, step = X[:5] + 0.3, 1e-4
    slopes = model.predict_gradient(Z)
    for j, e in enumerate(step * np.eye(2)):
        assert_allclose(slopes[:, j], (model.predict(Z + e) - model.predict(Z - e)) / (2 * step), atol=0.02)
