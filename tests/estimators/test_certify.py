import numpy as np
import pytest

from nearfield import ExactGPRegressor, FeatureGPRegressor, FourierFeatures, LocalGPRegressor, metrics
from nearfield.local import certificate, iteration
from nearfield.sources import ArraySource

pytestmark = pytest.mark.usefixtures("few_probes_in_module")
GIVEN = {"length_scale": [0.3, 2.0], "signal_variance": [1.0, 2.0], "noise_variance": 0.1, "n_scales": 2}


def data(n=1600, k=1):
    rng = np.random.RandomState(0)
    X = rng.uniform(0, 6, (n, 2))
    y = np.stack([5 + np.sin((3 + i) * X[:, 0]) * X[:, 1] + 0.3 * rng.standard_normal(n) for i in range(k)], axis=1)
    return X, y[:, 0] if k == 1 else y


def places(m=40):
    return np.random.RandomState(1).uniform(-1, 7, (m, 2))


@pytest.fixture(scope="module")
def model():
    return LocalGPRegressor(**GIVEN, tolerance=0.1, random_state=0).fit(*data())


@pytest.fixture(scope="module")
def exact():
    return ExactGPRegressor(**GIVEN).fit(*data())


@pytest.fixture(scope="module")
def found(model):
    return model.certify(places(), random_state=0)


def test_it_is_the_exact_process_within_its_bounds(found, exact):
    mean, std = exact.predict(found.X, return_std=True, include_noise=True)
    assert found.converged
    assert np.all(np.abs(found.mean - mean) <= found.mean_bound + 1e-9)
    assert np.all(found.std - std <= found.std_bound + 1e-9)
    np.testing.assert_allclose(found.mean, mean, atol=1e-6)
    np.testing.assert_allclose(found.std, std, rtol=1e-7)
    assert found.mean_bound.max() < 1e-3


def test_the_distance_is_that_of_the_model(found, model, exact):
    answers = model.predict(found.X, return_std=True, include_noise=True)
    mean, std = exact.predict(found.X, return_std=True, include_noise=True)
    expected = metrics.kl_divergence(answers[0], answers[1] ** 2, mean, std**2)
    np.testing.assert_allclose(found.divergences, expected, atol=1e-7)
    assert found.divergence == pytest.approx(found.divergences.mean())
    assert f"{found.divergence:.1e} nats of KL per test point" in str(found)


def test_places_are_drawn_by_their_seed(model):
    X = places(60)
    first, again, other = (model.certify(X, n_probes=5, random_state=seed).X for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert len(first) == 5
    assert not np.array_equal(first, other)
    assert (first[:, None] == X).all(axis=2).any(axis=1).all()


def test_several_targets():
    X, y = data(k=2)
    model, exact = (cls(**GIVEN, random_state=0).fit(X, y) for cls in (LocalGPRegressor, ExactGPRegressor))
    found = model.certify(places(8), random_state=0)
    np.testing.assert_allclose(found.mean, exact.predict(found.X), atol=1e-6)
    assert found.mean_bound.shape == (8, 2)
    assert found.std.shape == found.divergences.shape == (8,)


def test_after_more_data(exact):
    X, y = data()
    model = LocalGPRegressor(**GIVEN, tolerance=0.1, random_state=0).fit(X[:1400], y[:1400])
    found = model.partial_fit(X[1400:], y[1400:]).certify(places(6))
    np.testing.assert_allclose(found.mean, exact.predict(found.X), atol=1e-5)


def test_where_it_does_not_converge_its_bounds_still_hold(model, exact, monkeypatch):
    monkeypatch.setattr(iteration, "MAX_ITERATIONS", 0)
    monkeypatch.setattr(iteration, "N_EARLIER", 2)
    monkeypatch.setattr(iteration, "CELL_POINTS", 2)
    with pytest.warns(UserWarning, match="did not converge"):
        found = model.certify(places(10))
    assert not found.converged
    assert "which did not converge" in str(found)
    mean, std = exact.predict(found.X, return_std=True, include_noise=True)
    assert np.abs(found.mean - mean).max() > 1e-6
    assert np.all(np.abs(found.mean - mean) <= found.mean_bound)
    assert np.all(found.std - std <= found.std_bound)


def test_bad_input(model, monkeypatch):
    with pytest.raises(ValueError, match="no places"):
        model.certify(np.empty((0, 2)))
    with pytest.raises(ValueError, match="3 features"):
        model.certify(np.zeros((4, 3)))
    with pytest.raises(ValueError, match="'n_probes' argument must be an integer of at least 1"):
        model.certify(places(), n_probes=0)
    one = {"length_scale": 0.7, "signal_variance": 1.0, "noise_variance": 0.1, "n_scales": 1}
    streamed = LocalGPRegressor(**one, random_state=0).fit(ArraySource(*data(2000), sample_size=500))
    with pytest.raises(ValueError, match="keeps no training points"):
        streamed.certify(places())
    monkeypatch.setattr(certificate, "MOST_PAIRS", 10)
    with pytest.raises(ValueError, match="pairs of points"):
        model.certify(places())


def test_places_to_predict_at_must_fit_the_data():
    with pytest.raises(ValueError, match=r"'X_test' argument: X has 3 features"):
        LocalGPRegressor(**GIVEN).fit(*data(100), X_test=np.zeros((4, 3)))


def test_progress_is_told(model):
    stages = []
    model.set_params(progress=lambda stage, *_: stages.append(stage))
    model.certify(places(4))
    model.set_params(progress=None)
    assert set(stages) == {"conjugate gradients"}


# ---- the global regressor is told on, too ----------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "tolerance"), [(500, 1e-6), (1500, 0.2)])
def test_the_distance_of_features_is_right(n, tolerance):
    """Up to 600 points the reference is the exact process itself; beyond, that of the nearest."""
    X, y = data(n)
    one = {"length_scale": 0.7, "signal_variance": 1.0, "noise_variance": 0.1}
    with pytest.warns(UserWarning, match="nats of KL per point from the exact Gaussian process"):
        model = FeatureGPRegressor(FourierFeatures(60, random_state=0), **one, random_state=0).fit(X, y)
    exact = ExactGPRegressor(**one).fit(X, y)
    asked, reference = (m.predict(X, return_std=True, include_noise=True) for m in (model, exact))
    truth = metrics.kl_divergence(asked[0], asked[1] ** 2, reference[0], reference[1] ** 2)
    found = model.report_
    assert abs(found.divergence - truth.mean()) <= 4 * found.divergence_error + tolerance * truth.mean()
    assert found.n_probes == 64


def test_enough_features_are_no_reason_to_warn(recwarn):
    X, y = data(400)
    FeatureGPRegressor(
        FourierFeatures(3000, random_state=0), length_scale=2.0, signal_variance=1.0, noise_variance=0.1, random_state=0
    ).fit(X, y)
    assert not [w for w in recwarn if "nats" in str(w.message)]


@pytest.mark.unseeded
def test_the_draw_of_places_leaves_global_random_numbers_alone(model):
    before = np.random.get_state()  # noqa: NPY002
    first, second = (model.certify(places(400), n_probes=3).X for _ in range(2))
    assert np.any(first != second)
    for a, b in zip(before, np.random.get_state(), strict=True):  # noqa: NPY002
        np.testing.assert_array_equal(a, b)
