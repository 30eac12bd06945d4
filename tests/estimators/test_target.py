"""Local models of a transformed target, which answer in its own units."""

import numpy as np
import pytest
from sklearn.preprocessing import FunctionTransformer

import nearfield as nf
from nearfield.sources import ArraySource

RNG = np.random.RandomState(0)
X = RNG.uniform(0, 6, (400, 2))
Z = np.sin(X[:, 0]) + 0.4 * RNG.standard_normal(400)
TEST = RNG.uniform(0, 6, (50, 2))
GIVEN = {"length_scale": 1.0, "signal_variance": 1.0, "noise_variance": 0.16, "random_state": 0}


@pytest.fixture(scope="module")
def models():
    plain = nf.LocalGPRegressor(**GIVEN).fit(X, Z - np.log(np.median(np.exp(Z))))
    return plain, nf.LocalGPRegressor(**GIVEN, target="log").fit(X, np.exp(Z))


def test_answers_are_those_of_the_logarithm(models):
    plain, model = models
    unit = np.median(np.exp(Z))
    mean, std = plain.predict(TEST, return_std=True, include_noise=True)
    np.testing.assert_allclose(model.predict_quantiles(TEST, [0.1, 0.5])[:, 1], unit * np.exp(mean))
    np.testing.assert_allclose(model.predict(TEST), unit * np.exp(mean + std**2 / 2), rtol=0.01)
    np.testing.assert_allclose(model.predict(TEST, return_std=True)[0], model.predict(TEST))
    latent = plain.predict(TEST, return_std=True)[1]
    np.testing.assert_allclose(
        model.predict_interval(TEST, 0.9, include_noise=False)[1], unit * np.exp(mean + 1.6448536 * latent), rtol=1e-6
    )
    np.testing.assert_allclose(model.predict_above(TEST, unit * np.exp(mean)), 0.5)
    assert np.all(model.predict_interval(TEST, 0.999)[0] > 0)
    assert model.score(X, np.exp(Z)) > 0.2
    assert "transformed: log" in str(model.report_)


def test_left_out_scores_are_in_the_units_of_the_target(models):
    plain, model = models
    np.testing.assert_allclose(model.loo_.y, np.exp(Z))
    jacobian = np.mean(Z)
    assert model.loo_.nll == pytest.approx(plain.loo_.nll + jacobian, abs=1e-9)
    assert model.loo_.coverage() == plain.loo_.coverage()
    assert model.cross_validate(3).nll > model.loo_.nll


def test_more_data_and_files(models, tmp_path):
    _, model = models
    nf.save(model, tmp_path / "log.nf")
    loaded = nf.load(tmp_path / "log.nf")
    np.testing.assert_allclose(loaded.predict(TEST), model.predict(TEST))
    more = nf.LocalGPRegressor(**GIVEN, target="log").fit(X[:200], np.exp(Z[:200]))
    more.partial_fit(X[200:], np.exp(Z[200:]))
    assert len(more.loo_) == 400
    with pytest.raises(ValueError, match="must be positive for target='log'"):
        more.partial_fit(X[:1], [-1.0])
    cube = nf.LocalGPRegressor(**GIVEN, target=FunctionTransformer(np.cbrt, lambda z: z**3)).fit(X, Z**3)
    np.testing.assert_allclose(
        cube.predict_quantiles(TEST, 0.5), nf.LocalGPRegressor(**GIVEN).fit(X, Z).predict(TEST) ** 3
    )
    with pytest.raises(ValueError, match="use pickle or skops"):
        nf.save(cube, tmp_path / "cube.nf")


@pytest.mark.parametrize("target", ["cube", None, 3])
def test_others_are_refused(target):
    with pytest.raises(ValueError, match="'target' parameter of LocalGPRegressor must be one of 'identity'"):
        nf.LocalGPRegressor(**GIVEN, target=target).fit(X, Z)


def test_where_it_is_not_supported():
    with pytest.raises(ValueError, match="must be positive for target='log'"):
        nf.LocalGPRegressor(**GIVEN, target="log").fit(X, Z)
    with pytest.raises(ValueError, match="must be 'identity' for several targets"):
        nf.LocalGPRegressor(**GIVEN, target="auto").fit(X, np.column_stack([Z, Z]))
    with pytest.raises(ValueError, match="must be 'identity' for rows of a source"):
        nf.LocalGPRegressor(**GIVEN, target="auto").fit(ArraySource(X, Z))
