"""Numbers of neighbours found on tensors are those of arrays, and so are predictions in a hole of the data."""

import numpy as np
import pytest

import nearfield as nf
from nearfield.kernels import Kernel
from nearfield.local.depth import Depth
from nearfield.local.engine import RaggedEngine
from nearfield.local.plan import Plan

torch = pytest.importorskip("torch")
from nearfield.tensors.engine import PaddedEngine

KERNEL = Kernel(np.array([[1.0], [4.0]]), np.array([1.0, 2.0]))


def with_a_hole(n):
    rng = np.random.RandomState(0)
    X = rng.uniform(0, 12, (n, 2))
    X = X[np.linalg.norm(X - 6, axis=1) > 2.5]
    return X, np.sin(X[:, 0]) + np.cos(0.3 * X[:, 1]) + 0.3 * rng.standard_normal(len(X))


@pytest.mark.parametrize("most", [100, 400, 5000])
@pytest.mark.parametrize("excess", [1e-4, 1e-2, None])
def test_numbers_are_those_of_arrays(excess, most):
    X, y = with_a_hole(900)
    noise, rng = np.full(len(X), 0.1), np.random.RandomState(1)
    centers, sizes = rng.uniform(0, 12, (20, 2)), rng.uniform(0.05, 1.0, 20)
    plan, depth = Plan(KERNEL, None, None, count=25), None if excess is None else Depth(excess, most, 0.1)
    answers = []
    for engine, array in ((RaggedEngine(1), np.asarray), (PaddedEngine(), torch.as_tensor)):
        data = engine.training_set(*(array(each) for each in (X, y[:, None], noise)), plan)
        answers.append(engine.numbers(plan, depth, data, array(centers), sizes))
    (counts, lacking), (found, found_lacking) = answers
    np.testing.assert_array_equal(found, counts)
    np.testing.assert_allclose(found_lacking, lacking, rtol=1e-6, atol=1e-12)
    if excess == 1e-4:
        assert counts.max() > 25
    if (excess, most) == (1e-4, 100):
        assert lacking.max() > 0


def test_long_scales_and_a_hole():
    X, y = with_a_hole(2400)
    given = {"length_scale": [1.0, 6.0], "signal_variance": [0.5, 2.0], "noise_variance": 0.1, "n_scales": 2}
    places = np.random.RandomState(2).uniform(3, 9, (200, 2))
    model = nf.LocalGPRegressor(**given, tolerance=1e-2, random_state=0)
    expected = model.fit(X, y).predict(places, return_std=True)
    assert model.report_.n_global > 0
    model.fit(torch.as_tensor(X), torch.as_tensor(y))
    for _ in range(2):  # the second time, numbers of neighbours are known
        for a, b in zip(expected, model.predict(torch.as_tensor(places), return_std=True), strict=True):
            assert isinstance(b, torch.Tensor)
            np.testing.assert_allclose(b.numpy(), a, rtol=1e-7, atol=1e-7)
    assert len(model._predictor.kept) == 0  # nothing is solved on the host
