"""The number of length scales is learnt from a source, and the model is the one of arrays."""

import copy

import numpy as np
import pytest

import nearfield as nf
from nearfield.sources import ArraySource
from nearfield.streaming.predictor import StreamedPredictor

pytestmark = pytest.mark.usefixtures("few_probes_in_module")
N, SAMPLE = 2000, 1200


def two_scales(n=N, seed=0):
    """A sum of a long and a short wave-like function on a square, and noise."""
    rng = np.random.RandomState(seed)
    X = rng.uniform(0, 10, (n, 2))
    phases, y = rng.uniform(0, 2 * np.pi, (2, 200)), 0.3 * rng.standard_normal(n)
    for scale, size, phase in zip((0.3, 5.0), (0.5, 3.0), phases, strict=True):
        y += size * (2 / 200) ** 0.5 * np.cos(X @ (rng.standard_normal((2, 200)) / scale) + phase).sum(axis=1)
    return X, y


@pytest.fixture(scope="module", autouse=True)
def few_blocks():
    """Learning is not what is tested here: a few blocks do."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("nearfield.streaming.fit.N_BLOCKS", 16)
        patch.setattr("nearfield.streaming.fit.N_ASIDE", 0)
        yield


@pytest.fixture(scope="module")
def learnt(few_blocks):
    X, y = two_scales()
    return nf.LocalGPRegressor(random_state=0, n_restarts=0).fit(ArraySource(X, y, sample_size=SAMPLE, batch_size=700))


def as_learnt(model):
    return nf.LocalGPRegressor(
        length_scale=model.length_scale_,
        signal_variance=model.signal_variance_,
        noise_variance=model.noise_variance_,
        n_scales=model.kernel_.n_scales,
        random_state=0,
    )


def test_several_scales_are_learnt(learnt):
    assert learnt.kernel_.n_scales > 1
    lengths = np.ravel(learnt.length_scale_)
    assert 0.15 < lengths[0] < 0.6
    assert lengths[-1] > 2.0
    assert learnt.report_.n_samples == N


@pytest.fixture(scope="module")
def in_memory(learnt):
    """A model of arrays, with what was learnt from the source."""
    return as_learnt(learnt).fit(*two_scales())


@pytest.fixture(scope="module")
def given(learnt):
    """A model of a source, with what was learnt from it, and other batches."""
    return as_learnt(learnt).fit(ArraySource(*two_scales(), sample_size=SAMPLE, batch_size=5000))


def test_the_model_is_the_one_of_arrays(learnt, in_memory, given):
    places = np.random.RandomState(1).uniform(-1, 11, (300, 2))
    expected = in_memory.predict(places, return_std=True)
    for model in (learnt, given):
        np.testing.assert_allclose(model.predict(places, return_std=True), expected, rtol=1e-8, atol=1e-9)


def test_more_rows_are_taken_in_at_the_same_global_features(in_memory, given):
    further = np.random.RandomState(2).uniform(0, 10, (300, 2))
    values = np.sin(further[:, 0])
    model = copy.deepcopy(given).partial_fit(ArraySource(further, values, batch_size=300))
    other = copy.deepcopy(in_memory).partial_fit(further, values)
    assert model.report_.n_samples == N + 300
    places = np.random.RandomState(1).uniform(0, 10, (200, 2))
    np.testing.assert_allclose(
        model.predict(places, return_std=True), other.predict(places, return_std=True), rtol=1e-8, atol=1e-9
    )


def test_one_scale_is_learnt_where_rows_do_not_fit_into_memory(monkeypatch):
    X, y = two_scales()
    monkeypatch.setattr("nearfield.streaming.fit.HELD_SHARE", 0.0)
    model = nf.LocalGPRegressor(random_state=0, n_restarts=0, tolerance=1e-1)
    with pytest.warns(UserWarning, match=r"One length scale is learnt: .* all 2000 rows"):
        model.fit(ArraySource(X, y, sample_size=SAMPLE))
    assert model.kernel_.n_scales == 1
    assert isinstance(model._predictor, StreamedPredictor)


def test_one_scale_is_learnt_where_the_approximation_is_given():
    X, y = two_scales()
    given = {"spacing": 1.0, "radius": 2.0, "features": nf.TaylorFeatures(6)}
    model = nf.LocalGPRegressor(random_state=0, n_restarts=0, **given).fit(ArraySource(X, y, sample_size=SAMPLE))
    assert model.kernel_.n_scales == 1
    assert isinstance(model._predictor, StreamedPredictor)


def test_dask_collections_give_the_model_of_arrays():
    array = pytest.importorskip("dask.array", reason="Dask is not installed")
    from nearfield.streaming.dask import DaskSource

    X, y = two_scales()
    chunked = (array.from_array(each, chunks=(450, *each.shape[1:])) for each in (X, y))
    streamed = nf.LocalGPRegressor(random_state=0, n_restarts=0).fit(DaskSource(*chunked, sample_size=SAMPLE))
    assert streamed.kernel_.n_scales > 1
    places = np.random.RandomState(1).uniform(0, 10, (200, 2))
    expected = as_learnt(streamed).fit(X, y).predict(places, return_std=True)
    np.testing.assert_allclose(streamed.predict(places, return_std=True), expected, rtol=1e-8, atol=1e-9)
