"""Neighbours that a device finds, beside those of the host."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from nearfield import LocalGPRegressor
from nearfield.local.neighbourhoods import TrainingSet
from nearfield.tensors import fit as tensor_fit
from nearfield.tensors.host_copy import HostCopy


def both(n=3000, d=2, seed=0):
    rng = np.random.default_rng(seed)
    X = np.concatenate([rng.uniform(0, 12, (n - 100, d)), rng.normal(40, 0.01, (100, d))])
    y, noise = rng.standard_normal((n, 1)), rng.uniform(0.1, 0.2, n)
    tensors = (torch.as_tensor(values) for values in (X, y, noise))
    return TrainingSet.of(X, y, noise), HostCopy.copied(*tensors)


@pytest.mark.parametrize("d", [1, 2, 3])
def test_neighbours_are_those_of_the_host(d):
    host, copy = both(d=d)
    np.testing.assert_array_equal(copy.y, host.y)
    places = np.random.default_rng(1).uniform(-3, 45, (60, d))
    for radius in (0.3, 2.0):
        for mine, theirs in zip(copy.within(places, radius), host.within(places, radius), strict=True):
            np.testing.assert_array_equal(np.sort(mine), np.sort(theirs))
        np.testing.assert_array_equal(copy.counts(places, radius), host.counts(places, radius))
    np.testing.assert_array_equal(copy.counts(places, None), len(host.X))


@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize("k", [1, 2, 10])
def test_distances_are_those_of_the_host(d, k):
    host, copy = both(d=d)
    places = np.concatenate([host.X[::50], np.random.default_rng(1).uniform(-60, 90, (40, d))])
    np.testing.assert_allclose(copy.distances(places, k), host.distances(places, k), atol=1e-9)


def test_a_choice_can_be_made_with_them(monkeypatch):
    monkeypatch.setattr(tensor_fit, "_has_index", lambda _: True)
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 14, (3000, 2))
    y = np.sin(X).sum(axis=1) + 0.3 * rng.standard_normal(3000)
    given = {"length_scale": 1.0, "signal_variance": 1.0, "noise_variance": 0.09, "n_scales": 1, "random_state": 0}
    on_device = LocalGPRegressor(**given).fit(torch.as_tensor(X), torch.as_tensor(y))
    on_host = LocalGPRegressor(**given).fit(X, y)
    assert on_device.report_.tolerance_met
    places = X[::7] + 0.1
    mean, std = on_host.predict(places, return_std=True)
    apart = (on_device.predict(torch.as_tensor(places)).numpy() - mean) / std
    assert np.sqrt(np.mean(apart**2)) < 0.2
