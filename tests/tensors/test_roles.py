"""Tensors whose columns have roles: what arrays give, as tensors of the kind of X."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LinearRegression
from sklearn.preprocessing import SplineTransformer

import nearfield as nf

from ..warned import few_features

torch = pytest.importorskip("torch")
pytestmark = few_features

GIVEN = {"length_scale": 1.0, "signal_variance": 0.5, "noise_variance": 0.05, "random_state": 0}
REGRESSORS = {
    "exact": nf.ExactGPRegressor(**GIVEN),
    "feature": nf.FeatureGPRegressor(nf.FourierFeatures(300, random_state=0), **GIVEN),
    "local": nf.LocalGPRegressor(**GIVEN),
}
ROLES = {
    "drift": {"coordinates": [0, 1], "drift": [2]},
    "linear": {"coordinates": [0, 1], "drift": "linear"},
    "transformer": {"coordinates": [0, 1], "drift": make_column_transformer((SplineTransformer(n_knots=3), [2]))},
    "groups": {"coordinates": [0, 1], "groups": [3]},
    "mean": {"coordinates": [0, 1], "mean": LinearRegression()},
}


def rows(seed, n):
    rng = np.random.RandomState(seed)
    X = np.column_stack([rng.uniform(0, 6, (n, 2)), rng.standard_normal(n), rng.randint(4, size=n)])
    return X, np.sin(X[:, 0]) + 2.0 * X[:, 2] + 0.5 * X[:, 3] + 0.2 * rng.standard_normal(n)


X, y = rows(0, 160)
X_NEW = rows(1, 30)[0]


def assert_same(found, expected, atol=1e-12):
    assert isinstance(found, torch.Tensor)
    np.testing.assert_allclose(found.numpy(), expected, atol=atol)


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("name", REGRESSORS)
def test_answers_are_those_of_arrays(name, role):
    on_arrays, on_tensors = (clone(REGRESSORS[name]).set_params(**ROLES[role]) for _ in range(2))
    on_arrays.fit(X, y)
    on_tensors.fit(torch.as_tensor(X), torch.as_tensor(y))
    at = torch.as_tensor(X_NEW)
    found, expected = on_tensors.predict(at, return_std=True), on_arrays.predict(X_NEW, return_std=True)
    assert_same(found[0], expected[0])
    assert_same(found[1], expected[1])
    parts, known = on_tensors.predict_parts(at), on_arrays.predict_parts(X_NEW)
    for part in ("drift", "process", "total"):
        assert_same(getattr(parts, part).mean, getattr(known, part).mean)
        assert_same(getattr(parts, part).std, getattr(known, part).std)
    if role == "drift":
        assert on_tensors.drift_coef_.values == pytest.approx(on_arrays.drift_coef_.values, abs=1e-12)
    if role == "groups":
        assert on_tensors.group_effects_.values == pytest.approx(on_arrays.group_effects_.values, abs=1e-12)


@pytest.fixture(scope="module", params=REGRESSORS)
def models(request):
    """The same model with a drift on arrays, and on tensors in single precision, of numbers that it holds exactly."""
    single, targets = X.astype(np.float32), y.astype(np.float32)
    on_arrays, on_tensors = (clone(REGRESSORS[request.param]).set_params(**ROLES["drift"]) for _ in range(2))
    on_arrays.fit(single.astype(float), targets.astype(float))
    return on_arrays, on_tensors.fit(torch.as_tensor(single), torch.as_tensor(targets))


def test_answers_have_the_kind_of_the_places(models):
    on_arrays, on_tensors = models
    single = X_NEW.astype(np.float32)
    at, same = torch.as_tensor(single), single.astype(float)
    mean = on_tensors.predict(at)
    assert (mean.dtype, mean.device) == (torch.float32, at.device)
    assert_same(mean, on_arrays.predict(same), 1e-5)
    assert_same(on_tensors.predict(at.double()), on_arrays.predict(same))
    np.testing.assert_allclose(on_tensors.predict(same), on_arrays.predict(same), atol=1e-12)  # arrays will do as well
    assert_same(on_tensors.predict_interval(at)[1], on_arrays.predict_interval(same)[1], 1e-5)
    assert_same(on_tensors.predict(at, return_cov=True)[1], on_arrays.predict(same, return_cov=True)[1], 1e-5)
    assert_same(on_tensors.sample_y(at, 3, random_state=0), on_arrays.sample_y(same, 3, random_state=0), 1e-3)
    assert_same(on_tensors.predict_gradient(at), on_arrays.predict_gradient(same), 1e-4)
    areas = on_tensors.predict_areas(at, np.arange(30) % 3)
    np.testing.assert_allclose(areas.mean, on_arrays.predict_areas(same, np.arange(30) % 3).mean, atol=1e-5)
    truth = torch.as_tensor(same[:, 2], dtype=torch.float32)
    assert on_tensors.score(at, truth) == pytest.approx(on_arrays.score(same, truth.numpy()), abs=1e-5)


def test_reports_say_where_tensors_were_computed_with(models):
    _, on_tensors = models
    if hasattr(on_tensors, "report_"):
        assert "on the host in double precision" in str(on_tensors.report_)
        plain = clone(on_tensors).set_params(coordinates=None, drift="constant")
        assert "on the host" not in str(plain.fit(torch.as_tensor(X), torch.as_tensor(y)).report_)


def test_files_hold_a_model_of_arrays(models, tmp_path):
    on_arrays, on_tensors = models
    nf.save(on_tensors, tmp_path / "model.nf")
    loaded = nf.load(tmp_path / "model.nf")
    np.testing.assert_allclose(loaded.predict(X_NEW), on_arrays.predict(X_NEW), atol=1e-9)
    with pytest.raises(ValueError, match="fitted on NumPy arrays, but X is a tensor"):
        loaded.predict(torch.as_tensor(X_NEW))


@pytest.mark.parametrize("name", ["feature", "local"])
def test_more_rows(name):
    roles = ROLES["drift"]
    on_arrays, on_tensors = (clone(REGRESSORS[name]).set_params(**roles) for _ in range(2))
    for run in (slice(0, 100), slice(100, 160)):
        on_arrays.partial_fit(X[run], y[run])
        on_tensors.partial_fit(torch.as_tensor(X[run]), torch.as_tensor(y[run]))
    assert_same(on_tensors.predict(torch.as_tensor(X_NEW)), on_arrays.predict(X_NEW))


@pytest.mark.parametrize("name", REGRESSORS)
def test_what_is_wrong_is_named(name):
    model = clone(REGRESSORS[name]).set_params(**ROLES["drift"])
    tensors = torch.as_tensor(X), torch.as_tensor(y)
    with pytest.raises(ValueError, match="X is a tensor, but y is a ndarray"):
        model.fit(tensors[0], y)
    with pytest.raises(ValueError, match="names column 7, and X has 4 columns"):
        clone(model).set_params(drift=[7]).fit(*tensors)
    with pytest.raises(ValueError, match="Drift column 'x4' is constant"):
        clone(model).set_params(drift=[4]).fit(torch.column_stack([tensors[0], torch.ones(160)]), tensors[1])
    model.fit(*tensors)
    with pytest.raises(ValueError, match="Column 'x2' of X contains NaN or infinity: a missing value in row 1"):
        model.predict(torch.tensor([[1.0, 1.0, 0.0, 0.0], [1.0, 1.0, float("nan"), 0.0]]))
    with pytest.raises(ValueError, match="has 3 features, but"):
        model.predict(tensors[0][:, :3])
    with pytest.raises(ValueError, match="fitted on NumPy arrays, but X is a tensor"):
        clone(model).fit(X, y).predict(tensors[0])


def test_a_mean_of_zero():
    on_arrays, on_tensors = (nf.LocalGPRegressor(**GIVEN, drift=None) for _ in range(2))
    on_arrays.fit(X[:, :2], y)
    on_tensors.fit(torch.as_tensor(X[:, :2]), torch.as_tensor(y))
    assert_same(on_tensors.predict(torch.as_tensor(X_NEW[:, :2])), on_arrays.predict(X_NEW[:, :2]))
