"""Gradients: against finite differences of predictions, against the exact process, and on draws of known slope."""

import numpy as np
import pytest
from sklearn.kernel_approximation import Nystroem

from nearfield import (
    ExactGPRegressor,
    FeatureGPRegressor,
    FourierFeatures,
    LocalGPRegressor,
    MaclaurinFeatures,
    TaylorFeatures,
)
from nearfield.kernels import Kernel
from nearfield.kernels.draws import PriorDraws

from ..warned import far_points
from .fitted import KINDS, NOISE, PLAIN, exact, local, training
from .fitted import places as places_in_square


def places(n=60):
    """Also where cells are opened, and beyond."""
    return places_in_square(n, beyond=2.0)


def by_differences(predict, X, step=1e-5):
    columns = []
    for c in range(X.shape[1]):
        e = step * np.eye(X.shape[1])[c]
        columns.append(
            (8 * (predict(X + e) - predict(X - e)) - (predict(X + 2 * e) - predict(X - 2 * e))) / (12 * step)
        )
    return np.stack(columns, axis=1)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", KINDS)
def test_gradients_are_those_of_the_mean(name):
    model, X = local(name), places()
    assert (model._fitted.exact_mean is not None) == (name == "exact mean")
    gradient, std = model.predict_gradient(X, return_std=True)
    assert gradient.shape == std.shape == (60, 2)
    expected = by_differences(model.predict, X)
    # Differences cannot tell more than rounding of the predictions allows, and are wrong where a border lies between.
    errors = np.abs(gradient - expected) / (1 + np.abs(expected))
    assert np.mean(errors > 1e-6) <= (0.0 if name != "by number" else 0.05)
    np.testing.assert_array_equal(model.predict_gradient(X), gradient)


def test_weights_of_opened_cells_have_their_slopes():
    """Just beyond the centres, where the weight goes over from one kind of cell to the other, and between the cells."""
    model = local("features")
    rng = np.random.RandomState(0)
    X = rng.uniform(-3, 8, (4000, 2))
    points = model._fitted.frame.points(X)
    distance, _ = model._predictor.engine.nearest(model._predictor.placement, points, True)
    spacing = model._predictor.placement.spacing
    between = X[(distance > spacing) & (distance < 1.15 * spacing)][:40]
    beyond = X[(distance > 1.15 * spacing) & (distance < 2 * spacing)][:40]
    for chosen in (between, beyond):
        assert len(chosen) == 40
        with np.errstate(all="ignore"):
            expected = by_differences(model.predict, chosen)
        np.testing.assert_allclose(model.predict_gradient(chosen), expected, atol=2e-6)


@pytest.mark.parametrize("name", ["features", "long scales", "exact mean"])
def test_gradients_are_near_those_of_the_exact_process(name):
    X = places_in_square(100, beyond=-0.1)
    (gradient, std), (expected, exact_std) = (
        each(name).predict_gradient(X, return_std=True) for each in (local, exact)
    )
    assert np.sqrt(np.mean(((gradient - expected) / exact_std) ** 2)) < (0.35 if name != "exact mean" else 1e-2)
    assert np.abs(np.log(std / exact_std)).mean() < 0.1


@far_points
def test_gradients_of_the_exact_process():
    """Means by differences; standard deviations by the joint covariance of places that are close together."""
    model = ExactGPRegressor(length_scale=[0.5, 1.1], signal_variance=1.3, noise_variance=NOISE).fit(*training(300))
    X, h = places(20), 1e-4
    gradient, std = model.predict_gradient(X, return_std=True)
    np.testing.assert_allclose(gradient, by_differences(model.predict, X), atol=1e-7)
    for c in range(2):
        pairs = np.concatenate([X + h * np.eye(2)[c], X - h * np.eye(2)[c]])
        joint = model.predict(pairs, return_cov=True)[1]
        d = np.arange(20)
        variance = (joint[d, d] + joint[d + 20, d + 20] - 2 * joint[d, d + 20]) / (2 * h) ** 2
        np.testing.assert_allclose(std[:, c], np.sqrt(variance), rtol=1e-4)


def test_slopes_of_draws_are_covered():
    """Data of a function drawn from the prior, whose slope is known: 95 % intervals of the gradient hold it."""
    rng = np.random.RandomState(1)
    X, at, h = rng.uniform(0, 10, (1600, 2)), rng.uniform(0.5, 9.5, (300, 2)), 0.02
    truth = PriorDraws(Kernel.gaussian(1.0), 4)
    y = truth(X, range(1))[:, 0] + 0.2 * rng.standard_normal(1600)
    approximation = {"features": TaylorFeatures(12), "radius": 3.5, "spacing": 1.5}
    model = LocalGPRegressor(
        length_scale=1.0, signal_variance=1.0, noise_variance=0.04, random_state=0, **approximation
    )
    gradient, std = model.fit(X, y).predict_gradient(at, return_std=True)
    slopes = by_differences(lambda places: truth(places, range(1))[:, 0], at, h)
    z = (gradient - slopes) / std
    assert np.mean(np.abs(z) < 1.96) == pytest.approx(0.95, abs=0.05)  # errors of neighbouring places go together


@pytest.mark.parametrize("features", [FourierFeatures(51, random_state=0), TaylorFeatures(12), MaclaurinFeatures(40)])
def test_gradients_of_feature_maps(features):
    rng = np.random.RandomState(0)
    X = rng.uniform(-1, 1, (100, 2))
    settings = {"length_scale": 1.0, "signal_variance": 1.0, "noise_variance": 0.1, "random_state": 0}
    model = FeatureGPRegressor(features, **settings).fit(X, np.sin(3 * X[:, 0]))
    gradient, std = model.predict_gradient(X[:10], return_std=True)
    np.testing.assert_allclose(gradient, by_differences(model.predict, X[:10]), atol=1e-7)
    h, d = 1e-4, np.arange(10)
    joint = model.predict(np.concatenate([X[:10] + np.array([h, 0]), X[:10] - np.array([h, 0])]), return_cov=True)[1]
    variance = (joint[d, d] + joint[d + 10, d + 10] - 2 * joint[d, d + 10]) / (2 * h) ** 2
    np.testing.assert_allclose(std[:, 0], np.sqrt(variance), rtol=1e-3)


def test_slopes_on_the_sphere_are_per_degree():
    rng = np.random.RandomState(0)
    X = np.column_stack([rng.uniform(-20, 20, 300), rng.uniform(30, 60, 300)])
    y = np.sin(X[:, 0] / 5) + np.cos(X[:, 1] / 6)
    settings = {"length_scale": 800.0, "signal_variance": 1.0, "noise_variance": 0.01, "metric": "sphere"}
    model = LocalGPRegressor(**settings, random_state=0).fit(X, y)
    gradient, std = model.predict_gradient(X[:20], return_std=True)
    np.testing.assert_allclose(gradient, by_differences(model.predict, X[:20], 1e-3), atol=1e-6)
    h, d = 1e-2, np.arange(20)
    joint = model.predict(np.concatenate([X[:20] + np.array([h, 0]), X[:20] - np.array([h, 0])]), return_cov=True)[1]
    variance = (joint[d, d] + joint[d + 20, d + 20] - 2 * joint[d, d + 20]) / (2 * h) ** 2
    np.testing.assert_allclose(std[:, 0], np.sqrt(variance), rtol=1e-2)


def test_several_targets_and_no_places():
    X, y = training(200)
    model = LocalGPRegressor(**PLAIN, noise_variance=NOISE, random_state=0).fit(X, np.column_stack([y, -2 * y]))
    gradient, std = model.predict_gradient(X[:5], return_std=True)
    assert gradient.shape == std.shape == (5, 2, 2)
    np.testing.assert_allclose(gradient[:, :, 1], -2 * gradient[:, :, 0], atol=1e-9)
    assert model.predict_gradient(X[:0]).shape == (0, 2, 2)


def test_what_cannot_be_done_is_said():
    X, y = training(100)
    transformed = LocalGPRegressor(**PLAIN, noise_variance=NOISE, target="log", random_state=0).fit(X, np.exp(y))
    with pytest.raises(ValueError, match="needs target='identity'"):
        transformed.predict_gradient(X)
    foreign = FeatureGPRegressor(Nystroem(n_components=20, random_state=0), noise_variance=NOISE).fit(X, y)
    with pytest.raises(ValueError, match="Nystroem is none"):
        foreign.predict_gradient(X)
