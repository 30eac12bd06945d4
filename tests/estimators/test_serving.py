"""Models that are kept, sent and asked again and again."""

import pickle

import numpy as np
import pytest

import nearfield as nf
from nearfield.local.fit import FittedLocal
from nearfield.solvers.kernel_space import KernelSpace

RNG = np.random.RandomState(0)
X = RNG.uniform(0, 9, (600, 2))
Y = np.sin(X[:, 0]) + np.where(X[:, 1] > 5, 0.1, 0.4) * RNG.standard_normal(600)
KINDS = {
    "exact": {},
    "local": {"tolerance": 1e-2, "radius": 3.0, "spacing": 2.0, "features": nf.TaylorFeatures(6)},
    "kernel space": {"features": "kernel", "radius": 2.0, "spacing": 1.0},
}


@pytest.mark.parametrize("kind", KINDS)
def test_pickles_after_predictions_are_as_small_as_before(kind):
    model = nf.LocalGPRegressor(random_state=0, n_scales=1, n_restarts=0, **KINDS[kind]).fit(X, Y)
    before = len(pickle.dumps(model))
    answers = model.predict(X[:50] + 0.1, return_std=True)
    stored = pickle.dumps(model)
    assert abs(len(stored) - before) < 200
    for one, other in zip(pickle.loads(stored).predict(X[:50] + 0.1, return_std=True), answers, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9)
    if kind != "local":
        assert before < 8 * 600**2  # no factor


@pytest.mark.parametrize("make", [nf.LocalGPRegressor, nf.ExactGPRegressor])
def test_a_loaded_model_factorises_at_the_first_std(make, tmp_path, monkeypatch):
    model = make(random_state=0, n_scales=1, n_restarts=0).fit(X, Y)
    nf.save(model, tmp_path / "model.nf")
    made, factorise = [], KernelSpace.factorise

    def counted(*given):
        made.append(given)
        return factorise(*given)

    monkeypatch.setattr(KernelSpace, "factorise", staticmethod(counted))
    loaded = nf.load(tmp_path / "model.nf")
    np.testing.assert_array_equal(loaded.predict(X[:9]), model.predict(X[:9]))
    assert made == []
    for one, other in zip(loaded.predict(X[:9], True), model.predict(X[:9], True), strict=True):
        np.testing.assert_array_equal(one, other)
    assert len(made) == 1


def test_a_prediction_with_std_asks_the_model_once(monkeypatch):
    model = nf.LocalGPRegressor(random_state=0, n_scales=1, n_restarts=0, noise="local").fit(X, Y)
    asked, predict = [], FittedLocal.predict

    def counted(*given, **named):
        asked.append(given)
        return predict(*given, **named)

    monkeypatch.setattr(FittedLocal, "predict", counted)
    mean, std = model.predict(X[:20], return_std=True)
    assert len(asked) == 1
    distribution = model.predict_distribution(X[:20], include_noise=False)
    np.testing.assert_allclose(std, distribution.std)
    np.testing.assert_allclose(mean, model.predict_distribution(X[:20]).mean)
