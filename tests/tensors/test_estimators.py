"""Tensors give what NumPy arrays give: same hyperparameters, same centres, same answers."""

import pickle
import warnings

import numpy as np
import pytest
from sklearn.base import clone

import nearfield as nf

from ..warned import far_points, few_features

torch = pytest.importorskip("torch")
tensor_fit = pytest.importorskip("nearfield.tensors.fit")
pytestmark = [far_points, few_features]

FIXED = {"length_scale": 1.0, "signal_variance": 1.0, "noise_variance": 0.1, "random_state": 0}
TWO = {"length_scale": [1.0, 3.0], "signal_variance": [1.0, 1.0], "noise_variance": 0.1, "n_scales": 2}
LOCAL = {"spacing": 2.0, "radius": 3.0, "features": nf.TaylorFeatures(9)}
DEVICES = [
    "cpu",
    pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")),
]


def problem(n=400, d=2, seed=0, side=7.0):
    rng = np.random.RandomState(seed)
    X = rng.uniform(0, side, (n, d))
    y = np.sin(X[:, 0]) * np.cos(X[:, -1]) + 0.3 * rng.standard_normal(n) + 5.0
    # Inside, in a hole beyond the edge, and far away.
    X_test = np.concatenate([rng.uniform(0, side, (90, d)), np.full((1, d), -2.5), np.full((1, d), -60.0)])
    return X, y, X_test


def both(model, X, y, X_test, device="cpu", weights=None, **options):
    """Answers of NumPy and of tensors, as arrays."""
    expected = model.fit(X, y, weights).predict(X_test, return_std=True, **options)
    tensors = [torch.as_tensor(a, device=device) for a in (X, y, X_test)]
    given = None if weights is None else torch.as_tensor(weights, device=device)
    found = model.fit(*tensors[:2], given).predict(tensors[2], return_std=True, **options)
    for part in found:
        assert isinstance(part, torch.Tensor)
        assert part.device == tensors[0].device
        assert part.dtype == torch.float64
    return expected, [part.cpu().numpy() for part in found]


MODELS = {
    "exact": nf.ExactGPRegressor(**FIXED),
    "Fourier": nf.FeatureGPRegressor(nf.FourierFeatures(60, random_state=0), **FIXED),
    "structured": nf.FeatureGPRegressor(nf.FourierFeatures(60, sampling="orthogonal", random_state=0), **FIXED),
    "Taylor": nf.FeatureGPRegressor(nf.TaylorFeatures(6), **FIXED),
    "Maclaurin": nf.FeatureGPRegressor(nf.MaclaurinFeatures(40, random_state=0), **FIXED),
    "two maps": nf.FeatureGPRegressor(
        nf.FourierFeatures(40, random_state=0),
        length_scale=[1, 3],
        signal_variance=[1, 1],
        noise_variance=0.1,
        n_scales=2,
        random_state=0,
    ),
    "local": nf.LocalGPRegressor(**FIXED, **LOCAL),
    "local, no correction": nf.LocalGPRegressor(**FIXED, **LOCAL, correction=False),
    "local, closed": nf.LocalGPRegressor(**FIXED, **LOCAL, open_centers=False),
    "local, ARD": nf.LocalGPRegressor(**{**FIXED, "length_scale": [1.0, 1.5]}, **LOCAL),
    "kernel space": nf.LocalGPRegressor(**FIXED, **{**LOCAL, "features": "kernel"}),
    "farthest": nf.LocalGPRegressor(**FIXED, **LOCAL, centers="farthest"),
    "given": nf.LocalGPRegressor(**FIXED, **LOCAL, centers=np.array([[2.0, 2.0], [7.0, 6.0]])),
    "test": nf.LocalGPRegressor(**FIXED, **LOCAL, centers="test"),
    "Maclaurin, local": nf.LocalGPRegressor(**FIXED, **{**LOCAL, "features": nf.MaclaurinFeatures(30, random_state=0)}),
    "paper": nf.LocalGPRegressor.from_paper(20, **FIXED),
    "few points": nf.LocalGPRegressor(**FIXED),
}


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", sorted(MODELS.keys() - {"Maclaurin, local"}))  # whose sample is drawn elsewhere
def test_tensors_give_what_arrays_give(name, device, monkeypatch):
    monkeypatch.setattr(tensor_fit, "FEATURE_SPEED", 1.0)  # models of few points in kernel space, as arrays have them
    X, y, X_test = problem()
    for expected, found in zip(*both(MODELS[name], X, y, X_test, device), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


def test_sketches_around_local_centres_are_near_the_exact_process():
    X, y, X_test = problem()
    exact, _ = both(MODELS["exact"], X, y, X_test)
    _, found = both(MODELS["Maclaurin, local"], X, y, X_test)
    assert np.abs(found[0][:90] - exact[0][:90]).mean() < 0.1


@pytest.mark.parametrize("d", [1, 3, 5])
def test_any_number_of_columns(d):
    X, y, X_test = problem(n=500, d=d, side=6.0)
    model = nf.LocalGPRegressor(**FIXED, **{**LOCAL, "features": nf.TaylorFeatures(4)}, centers="farthest")
    for expected, found in zip(*both(model, X, y, X_test), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


def test_weights_targets_and_noise():
    X, y, X_test = problem()
    weights = np.random.RandomState(1).choice([0.0, 0.5, 1.0, 2.0], len(X))
    targets = np.stack([y, -2 * y, X[:, 0]], axis=1)
    for name in ("exact", "Fourier", "local"):
        answers = both(MODELS[name], X, targets, X_test, weights=weights, include_noise=True)
        for expected, found in zip(*answers, strict=True):
            assert found.shape == (len(X_test), 3)
            np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


def test_uneven_density_is_split_into_batches_that_fit():
    rng = np.random.RandomState(0)
    X = np.concatenate([rng.uniform(0, 40, (300, 2)), 20 + 0.05 * rng.standard_normal((5000, 2))])
    y = np.sin(X[:, 0]) + 0.1 * rng.standard_normal(len(X))
    model = nf.LocalGPRegressor(**FIXED, **LOCAL)
    for expected, found in zip(*both(model, X, y, X[::40] + 0.01), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-7)
    assert len({type(batch.models) for batch in model._predictor.models}) == 2  # some in kernel space, some by features


def test_an_outlier_does_not_harm_the_cells():
    X, y, X_test = problem(n=400)
    X[0] = [1e13, -1e13]
    for expected, found in zip(*both(MODELS["local"], X, y, X_test), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("scales", [[1.0, 4.0], [0.3, 2.0]])
def test_several_scales_by_tolerance(scales):
    X, y, X_test = problem(n=2000, side=14.0)
    options = {"length_scale": scales, "signal_variance": [1.0, 1.0], "noise_variance": 0.1, "n_scales": 2}
    model = nf.LocalGPRegressor(**options, tolerance=3e-2, random_state=0)
    for expected, found in zip(*both(model, X, y, X_test), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-8)


def test_the_tolerance_is_met_by_what_is_chosen():
    X, y, X_test = problem(n=2500, side=14.0)
    expected, found = both(nf.LocalGPRegressor(**FIXED, tolerance=1e-2), X, y, X_test[:90])
    for a, b in zip(expected, found, strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("n_scales", [1, "auto"])
@pytest.mark.parametrize("ard", [False, True])
def test_hyperparameters_are_learnt_on_the_device(ard, n_scales):
    X, y, X_test = problem(n=300)  # up to a thousand points the likelihood is exact, and so are the blocks the same
    model = nf.ExactGPRegressor(random_state=0, n_restarts=0, ard=ard, n_scales=n_scales)
    expected, found = both(model, X, y, X_test[:50])
    np.testing.assert_allclose(found[0], expected[0], atol=1e-3)
    np.testing.assert_allclose(found[1], expected[1], rtol=1e-2)


def test_learning_from_many_points_finds_what_numpy_finds():
    X, y, _ = problem(n=3000, side=20.0)
    model = nf.LocalGPRegressor(random_state=0, n_restarts=0, n_scales=1, **LOCAL)
    expected = model.fit(X, y).length_scale_
    found = model.fit(torch.as_tensor(X), torch.as_tensor(y)).length_scale_
    assert found == pytest.approx(expected, rel=0.05)


@pytest.mark.parametrize("name", ["exact", "Fourier", "local"])
def test_single_precision_is_near_double(name):
    X, y, X_test = problem()
    mean, std = MODELS[name].fit(X, y).predict(X_test, return_std=True, include_noise=True)
    parts = [torch.as_tensor(a, dtype=torch.float32) for a in (X, y, X_test)]
    single = MODELS[name].fit(*parts[:2]).predict(parts[2], return_std=True, include_noise=True)
    assert all(part.dtype == torch.float32 for part in single)
    assert np.max(np.abs(single[0].numpy() - mean) / std) < 1e-3
    np.testing.assert_allclose(single[1].numpy(), std, rtol=1e-3)


def test_single_precision_refuses_noise_it_cannot_resolve():
    X, y, _ = problem()
    parts = [torch.as_tensor(a, dtype=torch.float32) for a in (X, y)]
    with pytest.raises(ValueError, match="float64"):
        nf.LocalGPRegressor(**{**FIXED, "noise_variance": 1e-6}, **LOCAL).fit(*parts)


@pytest.mark.filterwarnings("ignore:radius")
@pytest.mark.parametrize("name", ["Fourier", "local"])
def test_more_data_is_as_if_it_had_been_there(name):
    X, y, X_test = (torch.as_tensor(a) for a in problem())
    model = clone(MODELS[name])
    if name == "local":
        model.set_params(centers=np.array([[2.0, 2.0], [6.0, 6.0], [2.0, 6.0], [6.0, 2.0]]), spacing=5.0)
        X_test = X_test[:90]  # cells that are opened in holes depend on what was there first
    else:
        model.set_params(feature_map=nf.FourierFeatures(60, random_state=0))
    expected = model.fit(X, y).predict(X_test, return_std=True)
    grown = model.fit(X[:300], y[:300]).partial_fit(X[300:], y[300:]).predict(X_test, return_std=True)
    for a, b in zip(expected, grown, strict=True):
        torch.testing.assert_close(b, a, rtol=1e-9, atol=1e-9)


@pytest.mark.filterwarnings("ignore:radius")
@pytest.mark.parametrize("name", ["Fourier", "local"])
def test_what_is_forgotten_leaves_no_trace(name):
    X, y, X_test = (torch.as_tensor(a) for a in problem())
    model = clone(MODELS[name])
    if name == "local":
        model.set_params(centers=np.array([[2.0, 2.0], [6.0, 6.0], [2.0, 6.0], [6.0, 2.0]]), spacing=5.0)
        X_test = X_test[:90]
    expected = model.fit(X[300:], y[300:]).predict(X_test, return_std=True)
    again = model.fit(X[:300], y[:300] + 9).partial_fit(X[300:], y[300:], forget=True).predict(X_test, return_std=True)
    for a, b in zip(expected, again, strict=True):
        torch.testing.assert_close(b, a, rtol=1e-9, atol=1e-9)


def test_covariances_samples_and_scores():
    X, y, X_test = problem(n=200)
    for name in ("exact", "Taylor"):
        model = MODELS[name]
        _, covariance = model.fit(X, y).predict(X_test, return_cov=True)
        score, likelihood = model.score(X, y), model.log_marginal_likelihood()
        tensors = [torch.as_tensor(a) for a in (X, y, X_test)]
        model.fit(*tensors[:2])
        torch.testing.assert_close(model.predict(tensors[2], return_cov=True)[1], torch.as_tensor(covariance))
        assert model.score(*tensors[:2]) == pytest.approx(score)
        assert model.log_marginal_likelihood() == pytest.approx(likelihood)
        assert model.sample_y(tensors[2], 3).shape == (len(X_test), 3)
        assert model.sample_y(tensors[2][:0], 3).shape == (0, 3)


def test_models_that_would_fill_the_memory_are_made_at_prediction(monkeypatch):
    X, y, X_test = (torch.as_tensor(a) for a in problem())
    model = nf.LocalGPRegressor(**FIXED, **LOCAL)
    expected = model.fit(X, y).predict(X_test, return_std=True)
    monkeypatch.setattr("nearfield.common.memory.available", lambda: 2.0**18)
    assert model.fit(X, y)._predictor.models == []
    for a, b in zip(expected, model.predict(X_test, return_std=True), strict=True):
        torch.testing.assert_close(b, a, rtol=1e-9, atol=1e-9)
    with pytest.raises(MemoryError, match=r"needs .*, but only 256 KiB are free"):
        nf.ExactGPRegressor(**FIXED).fit(X, y)


@pytest.mark.parametrize("name", ["exact", "Fourier", "local"])
def test_a_fitted_model_can_be_pickled(name):
    X, y, X_test = (torch.as_tensor(a) for a in problem(n=200))
    model = MODELS[name].fit(X, y)
    torch.testing.assert_close(pickle.loads(pickle.dumps(model)).predict(X_test), model.predict(X_test))


def test_no_test_points_no_answers():
    X, y, X_test = (torch.as_tensor(a) for a in problem(n=200))
    for name in ("exact", "Fourier", "local"):
        mean, std = MODELS[name].fit(X, y).predict(X_test[:0], return_std=True)
        assert len(mean) == len(std) == 0


@pytest.mark.parametrize("name", ["exact", "Fourier", "local"])
@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda X, y: (X.requires_grad_(), y), "detach"),
        (lambda X, y: (X, y.float()), "float32"),
        (lambda X, y: (X, y.numpy()), "ndarray"),
        (lambda X, y: (X.long(), y.long()), "int64"),
        (lambda X, y: (X * torch.nan, y), "NaN"),
        (lambda X, y: (X[:-1], y), "samples"),
        (lambda X, y: (X[:0], y[:0]), "minimum of 1"),
        (lambda X, y: (X[:, 0], y), "two dimensions"),
        (lambda X, y: (X, y.to("meta")), "meta"),
    ],
)
def test_what_cannot_be_taken_is_said_in_one_sentence(name, spoil, message):
    X, y, _ = (torch.as_tensor(a) for a in problem(n=50))
    with pytest.raises(ValueError, match=message):
        MODELS[name].fit(*spoil(X, y))


@pytest.mark.parametrize("name", ["exact", "Fourier", "local"])
def test_arrays_and_tensors_do_not_mix(name):
    X, y, X_test = problem(n=200)
    model = MODELS[name].fit(X, y)
    with pytest.raises(ValueError, match="fitted on NumPy arrays"):
        model.predict(torch.as_tensor(X_test))
    model.fit(torch.as_tensor(X), torch.as_tensor(y))
    with pytest.raises(ValueError, match="fitted on tensors"):
        model.predict(X_test)
    with pytest.raises(ValueError, match="float32"):
        model.predict(torch.as_tensor(X_test).float())
    with pytest.raises(ValueError, match="features"):
        model.predict(torch.as_tensor(X_test)[:, :1])


@pytest.mark.parametrize("name", ["exact", "Taylor", "Fourier", "local"])
def test_a_saved_model_is_one_of_arrays(name, tmp_path):
    X, y, X_test = problem(n=300)
    estimators = {
        "exact": nf.ExactGPRegressor(**FIXED),
        "Taylor": nf.FeatureGPRegressor(nf.TaylorFeatures(20), **FIXED),
        "Fourier": nf.FeatureGPRegressor(nf.FourierFeatures(40, random_state=0), **FIXED),
        "local": nf.LocalGPRegressor(**FIXED, **LOCAL),
    }
    model = estimators[name].fit(torch.as_tensor(X[:200]), torch.as_tensor(y[:200]))
    if name != "exact":
        model.partial_fit(torch.as_tensor(X[200:]), torch.as_tensor(y[200:]))
    nf.save(model, tmp_path / "model.nf")
    loaded = nf.load(tmp_path / "model.nf")
    for tensor, array in zip(
        model.predict(torch.as_tensor(X_test), return_std=True), loaded.predict(X_test, return_std=True), strict=True
    ):
        np.testing.assert_allclose(array, tensor.numpy(), rtol=1e-9, atol=1e-9)
    if name != "exact":
        loaded.partial_fit(X[:10], y[:10])


@pytest.mark.parametrize("centers", ["grid", "net"])
@pytest.mark.parametrize("open_centers", [True, False])
def test_blended_predictions_are_those_of_numpy(centers, open_centers):
    X, y, X_test = problem()
    X_test = np.concatenate([X_test, X_test + 3.0])  # beyond the data, too
    options = {**FIXED, **LOCAL, "centers": centers, "open_centers": open_centers}
    expected = nf.LocalGPRegressor(**options, blend=True).fit(X, y).predict(X_test, return_std=True)
    model = nf.LocalGPRegressor(**options, blend=True).fit(torch.as_tensor(X), torch.as_tensor(y))
    for tensor, array in zip(model.predict(torch.as_tensor(X_test), return_std=True), expected, strict=True):
        np.testing.assert_allclose(tensor.numpy(), array, atol=1e-9)
    plain = model.set_params(blend=False).predict(torch.as_tensor(X_test)).numpy()
    assert np.abs(plain - expected[0]).max() > 1e-6


def test_maps_take_tensors():
    X = np.random.RandomState(0).standard_normal((50, 3))
    for feature_map in (
        nf.FourierFeatures(20, random_state=0),
        nf.TaylorFeatures(3, length_scale=[1, 2, 3]),
        nf.MaclaurinFeatures(20, random_state=0),
        nf.PolynomialSketch(20, random_state=0),
    ):
        expected = feature_map.fit(X).transform(X)
        found = feature_map.fit(torch.as_tensor(X)).transform(torch.as_tensor(X))
        torch.testing.assert_close(found, torch.as_tensor(expected))
        assert feature_map.transform(torch.as_tensor(X).float()).dtype == torch.float32


def test_what_needs_arrays_says_so(tmp_path):
    X, y, _ = (torch.as_tensor(a) for a in problem(n=50))
    model = MODELS["local"].fit(X, y)
    for call in (
        model.predict_grid,
        lambda: model.to_html(tmp_path / "a.html"),
    ):
        with pytest.raises(ValueError, match=r"NumPy arrays|pickle"):
            call()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("fitted", "given"), [(1, 2), (2, 1)])
@pytest.mark.parametrize("name", ["Fourier", "local"])
def test_other_numbers_of_targets_are_refused(name, fitted, given):
    X, y, _ = map(torch.as_tensor, problem(n=300))
    targets = {1: y, 2: torch.stack([y, y + 100], dim=1)}
    model = clone(MODELS[name]).fit(X, targets[fitted])
    before = model.predict(X)
    with pytest.raises(ValueError, match=f"'y' argument must have {fitted} targets as in fit. Got {given}"):
        model.partial_fit(X, targets[given])
    assert torch.equal(model.predict(X), before)


@pytest.mark.parametrize("name", ["Fourier", "local"])
def test_more_data_of_another_precision_are_refused(name):
    X, y, _ = map(torch.as_tensor, problem(n=300))
    model = clone(MODELS[name]).fit(X, y)
    with pytest.raises(ValueError, match="X is float32, but the model was fitted on float64"):
        model.partial_fit(X.float(), y.float())


@pytest.mark.parametrize("name", ["exact", "local"])
def test_samples_that_contradict_each_other_are_refused_without_noise(name):
    x = np.linspace(0, 6, 13)[:, None]
    twice, weights = np.concatenate([x, x]), np.ones(26)
    model = clone(MODELS[name]).set_params(noise_variance=0.0, length_scale=0.4)
    for expected, found in zip(*both(model, twice, np.sin(twice[:, 0]), x, weights=weights), strict=True):
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)
    weights[1] = 0.0
    tensors = map(torch.as_tensor, (twice, np.sin(twice[:, 0]) + np.eye(26)[16], weights))
    with pytest.raises(ValueError, match=r"Samples 3 and 16 .* different targets.*noise_variance"):
        model.fit(*tensors)


@pytest.mark.parametrize("n", [1, 30])
@pytest.mark.parametrize("n_targets", [1, 2])
def test_scores_of_constant_targets_are_those_of_arrays(n_targets, n):
    X, y, _ = problem(n=100)
    y = y if n_targets == 1 else np.stack([y, y**2], axis=1)
    constant, weights = np.full_like(y[:n], 4.0), np.linspace(1, 2, n)
    model = clone(MODELS["exact"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of scikit-learn, on one sample
        expected = model.fit(X, y).score(X[:n], constant, weights)
        model.fit(torch.as_tensor(X), torch.as_tensor(y))
        found = model.score(*map(torch.as_tensor, (X[:n], constant, weights)))
    np.testing.assert_allclose(found, expected)


def test_scores_need_tensors_alone():
    X, y, _ = problem(n=100)
    points, targets = torch.as_tensor(X), torch.as_tensor(y)
    model = clone(MODELS["exact"]).fit(points, targets)
    with pytest.raises(ValueError, match="X is a tensor, but y is a ndarray: make both tensors"):
        model.score(points, y)
    with pytest.raises(ValueError, match="X is a tensor, but sample_weight is a ndarray: make both tensors"):
        model.score(points, targets, np.ones(100))
    with pytest.raises(ValueError, match="X has 100 samples, but y has 50"):
        model.score(points, targets[:50])


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", ["exact", "Fourier", "local"])
def test_each_of_several_targets_has_variances_of_its_own(name, device):
    X, y, X_test = problem()
    rng = np.random.RandomState(1)
    Y = np.column_stack([1000 * y, y + 2 * rng.standard_normal(len(y))])
    model = clone({**MODELS, "local": nf.LocalGPRegressor(noise="constant", likelihood="gaussian")}[name])
    model.set_params(length_scale=None, signal_variance=None, noise_variance=None, n_scales=1, random_state=0)
    expected, found = both(model, X, Y, X_test, device, include_noise=True)
    for answer, known in zip(found, expected, strict=True):
        np.testing.assert_allclose(answer / [1000, 1], known / [1000, 1], atol=1e-2)
    assert found[1][0, 0] / found[1][0, 1] == pytest.approx(1000 * 0.3 / (4 + 0.3**2) ** 0.5, rel=0.2)
