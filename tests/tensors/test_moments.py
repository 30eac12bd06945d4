"""Moments of many models at once equal those of one model in NumPy, and products of features."""

from dataclasses import replace

import numpy as np
import pytest

from nearfield.features import taylor
from nearfield.kernels import Kernel
from nearfield.local.features import LocalFeatures
from nearfield.local.model import mean_and_variance, sums_of
from nearfield.local.moments import MomentModel
from nearfield.local.plan import Plan

torch = pytest.importorskip("torch")

from nearfield.tensors import models
from nearfield.tensors import moments as tensor_moments

PLANS = [(1, (10,)), (2, (8,)), (2, (6, 9)), (3, (6,))]  # columns, and a degree per Gaussian


def made(d, degrees):
    scales = np.linspace(1.0, 2.0, len(degrees))[:, None]
    kernel = Kernel(scales, np.linspace(1.0, 0.5, len(degrees)))
    features = LocalFeatures.of(kernel, tuple(taylor.sample(d, degree) for degree in degrees))
    assert features.moments is not None
    return Plan(kernel, 3.0, features)


def neighbourhoods(d, seed=0):
    """Points of three centres, of which some of the rows are not real: (3, n, d), (3, n, 2), (3, n), (3, n)."""
    rng = np.random.RandomState(seed)
    Z, y, noise = rng.uniform(-2, 2, (3, 60, d)), rng.standard_normal((3, 60, 2)), rng.uniform(0.1, 0.3, (3, 60))
    real = np.arange(60) < np.array([60, 41, 0])[:, None]
    Z[~real] = 1e8  # wherever those lie
    return Z, y, noise, real


@pytest.mark.parametrize(("d", "degrees"), PLANS)
def test_sums_and_predictions_are_those_of_single_models(d, degrees):
    plan, (Z, y, noise, real) = made(d, degrees), neighbourhoods(d)
    tables = tensor_moments.moments_of(plan, torch.zeros(1, dtype=torch.float64))
    sums = tables.sums(plan, *(torch.as_tensor(each) for each in (Z, y, noise, real)))
    fitted = tables.solved(plan, sums)
    places = np.random.RandomState(1).uniform(-2, 2, (3, 7, d))
    mean, variance = fitted.mean_and_variance(plan, torch.as_tensor(places))
    for i in range(3):
        rows = real[i]
        expected = sums_of(plan, Z[i, rows], y[i, rows], noise[i, rows])
        np.testing.assert_allclose(sums.moments[i], expected.moments, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(sums.cross[i], expected.cross, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(sums.targets[i], expected.targets, rtol=1e-12, atol=1e-12)
        assert float(sums.log_weight[i]) == pytest.approx(expected.log_weight, rel=1e-12)
        assert int(sums.n[i]) == expected.n
        model = MomentModel.from_sums(plan.features.moments, expected, plan.features.precision, "matrix")
        expected_mean, expected_variance = mean_and_variance(plan, model, places[i])
        np.testing.assert_allclose(mean[i], expected_mean, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(variance[i], expected_variance, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("d", "degrees"), PLANS)
def test_models_of_moments_answer_as_those_of_features(d, degrees, monkeypatch):
    plan, rng = replace(made(d, degrees), either_side=False), np.random.RandomState(2)
    X, y = torch.as_tensor(rng.uniform(0, 8, (400, d))), torch.as_tensor(rng.standard_normal((400, 1)))
    data = models.TensorSet.of(X, y, torch.full((400,), 0.2, dtype=torch.float64), plan.radius)
    centers, places = X[:5] + 0.1, torch.as_tensor(rng.uniform(0, 8, (150, d)))
    owner = torch.cdist(places, centers).argmin(dim=1)

    def answers():
        batches = list(models.fit(plan, data, centers))
        return batches, models.predict(plan, iter(batches), centers, places, owner, 2)

    batches, found = answers()
    monkeypatch.setattr(tensor_moments, "MOST_NUMBERS", 0)
    others, expected = answers()
    kinds = {type(batch.models).__name__ for batch in batches}, {type(batch.models).__name__ for batch in others}
    assert kinds == ({"MomentModels"}, {"FeatureSpace"})
    for value, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(value, other, rtol=1e-8, atol=1e-8)
    assert sum(batch.n_bytes for batch in batches) <= sum(batch.n_bytes for batch in others)


def test_single_precision_takes_products_of_features():
    assert tensor_moments.moments_of(made(2, (8,)), torch.zeros(1, dtype=torch.float32)) is None
