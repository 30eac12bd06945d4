"""The kernels of a GPU give what PyTorch's calls give.

Without a GPU, Triton interprets them in Python, and compiles them for one that is not there.
"""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from nearfield.features import taylor
from nearfield.kernels import Kernel
from nearfield.local.features import LocalFeatures
from nearfield.local.plan import Plan

torch = pytest.importorskip("torch")
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
if DEVICE == "cpu":
    os.environ["TRITON_INTERPRET"] = "1"  # which Triton asks for when it is imported
pytest.importorskip("triton")

import nearfield as nf
from nearfield.tensors import cells, fast, models
from nearfield.tensors import fit as tensor_fit
from nearfield.tensors.moments import MomentModels


@pytest.fixture
def with_kernels(monkeypatch):
    monkeypatch.setattr(fast, "_failures", [])
    monkeypatch.setattr(fast, "_is_on_gpu", lambda _: True)


def without(function):
    """What a function gives without the kernels."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fast, "_is_on_gpu", lambda _: False)
        return function()


def failing_compiler():
    """Raises an error as if it came out of Triton."""
    scope = {"__name__": "triton.compiler.somewhere"}
    exec("def compile():\n    raise RuntimeError('no such instruction')", scope)
    scope["compile"]()


def tensor(array):
    return torch.as_tensor(array, device=DEVICE)


@pytest.mark.usefixtures("with_kernels")
@pytest.mark.parametrize(("d", "degree", "is_corrected"), [(1, 9, True), (2, 6, True), (2, 7, False)])
def test_models_are_those_of_moments(d, degree, is_corrected):
    rng = np.random.RandomState(0)
    kernel = Kernel(np.array([[1.3]]), np.array([1.4]))
    features = LocalFeatures.of(kernel, (taylor.sample(d, degree),))
    plan = Plan(kernel, 2.0, features, correction=is_corrected, either_side=False)
    X, y, noise = rng.uniform(0, 4, (160, d)), rng.standard_normal((160, 2)), rng.uniform(0.1, 0.3, 160)
    data = cells.TensorSet.of(tensor(X), tensor(y), tensor(noise), plan.radius)
    centers, places = tensor(rng.uniform(0, 4, (3, d))), tensor(rng.uniform(0, 4, (40, d)))
    centers[2] += 100.0  # one without points
    owner = tensor(rng.randint(3, size=40))

    def answers():
        batches = list(models.fit(plan, data, centers))
        return batches, models.predict(plan, batches, centers, places, owner, 3)

    (batch,), found = answers()
    (expected_batch,), expected = without(answers)
    assert isinstance(batch.models, MomentModels)
    assert not fast._failures
    order = np.argsort(expected_batch.members)
    np.testing.assert_array_equal(batch.n, expected_batch.n[order])
    for name in ("coefficients", "polynomials"):
        mine, theirs = (getattr(each.models, name).cpu().numpy() for each in (batch, expected_batch))
        np.testing.assert_allclose(mine, theirs[order], rtol=1e-9, atol=1e-9 * np.abs(theirs).max())
    for mine, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(mine.cpu(), theirs.cpu(), rtol=1e-9, atol=1e-11)


@pytest.mark.usefixtures("with_kernels")
@pytest.mark.parametrize(("d", "blend"), [(1, True), (2, True), (2, False)])
def test_an_estimator_answers_the_same_wherever_it_is_asked(d, blend, monkeypatch):
    rng = np.random.RandomState(1)
    X = rng.uniform(0, 4, (100, d))
    X[:6] = 9.0 + rng.uniform(0, 0.1, (6, d))  # a place with few points, and a gap between
    y, places = tensor(np.sin(2 * X[:, 0]) + 0.1 * rng.standard_normal(100)), tensor(rng.uniform(-1, 10, (30, d)))
    X = tensor(X)
    options = {"length_scale": 1.0, "signal_variance": 1.3, "noise_variance": 0.05, "n_scales": 1}
    model = nf.LocalGPRegressor(
        **options, spacing=1.6, radius=2.5, features=nf.TaylorFeatures(6), blend=blend, random_state=0
    )
    asked = []
    monkeypatch.setattr(fast, "combine", lambda *each, combine=fast.combine: asked.append(1) or combine(*each))
    monkeypatch.setattr(tensor_fit, "FEATURE_SPEED", 1.0)  # some models in kernel space

    def answers():
        return model.fit(X, y).predict(places, return_std=True)

    found, expected = answers(), without(answers)
    assert asked == [1]
    assert not fast._failures
    for mine, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(mine.cpu(), theirs.cpu(), rtol=1e-9, atol=1e-11)


@pytest.mark.usefixtures("with_kernels")
def test_kernels_make_models_of_features_where_others_would_be_in_kernel_space():
    rng = np.random.RandomState(1)
    X = tensor(rng.uniform(0, 6, (120, 2)))
    y = torch.sin(2 * X[:, 0])
    given = {"length_scale": 1.0, "signal_variance": 1.3, "noise_variance": 0.05, "n_scales": 1}
    model = nf.LocalGPRegressor(**given, spacing=1.6, radius=2.5, features=nf.TaylorFeatures(6), random_state=0)
    assert model.fit(X, y).report_.n_kernel_space == 0
    assert without(lambda: model.fit(X, y).report_.n_kernel_space) > 0


@pytest.mark.usefixtures("with_kernels")
def test_centres_near_points_are_those_of_a_search_by_hand():
    X = tensor(np.random.RandomState(2).uniform(0, 5, (300, 2)))
    placement = cells.place(X[:200], 0.7)
    lookup = cells.CellLookup(placement.lattice, placement.centers)
    distances = torch.cdist(X[200:], placement.centers)
    shared = fast.shares(lookup, placement.spacing, X[200:], True)
    nearest = distances.min(dim=1).values
    assert torch.equal(shared.left, nearest > 1.03 * 0.7)
    weights = (1 - (distances / (1.25 * nearest[:, None])) ** 2).clip(0) ** 2
    weights = torch.where(shared.left[:, None], 0.0, weights / weights.sum(dim=1, keepdim=True))
    found = torch.zeros_like(weights)
    found[shared.point, shared.owner] = shared.weights
    np.testing.assert_allclose(found.cpu(), weights.cpu(), atol=1e-13)
    for mine, theirs in zip(fast.nearest(lookup, X[200:]), lookup.nearest(X[200:]), strict=True):
        np.testing.assert_allclose(mine.cpu(), theirs.cpu(), rtol=1e-14)


@pytest.mark.usefixtures("with_kernels")
def test_a_compiler_that_fails_leaves_all_to_pytorch(monkeypatch, caplog):
    monkeypatch.setattr(fast, "_tables", lambda *_: failing_compiler())
    X = tensor(np.random.RandomState(3).uniform(0, 4, (100, 2)))
    options = {"length_scale": 1.0, "signal_variance": 1.0, "noise_variance": 0.1, "n_scales": 1}
    model = nf.LocalGPRegressor(**options, spacing=1.5, radius=2.5, features=nf.TaylorFeatures(6), random_state=0)

    def answers():
        return model.fit(X, X[:, 0]).predict(X)

    found = answers()
    assert "cannot be used" in caplog.text
    np.testing.assert_allclose(found.cpu(), without(answers).cpu())


def test_plans_that_kernels_do_not_know_are_left(with_kernels):
    kernel = Kernel(np.array([[1.0]]), np.array([1.0]))
    plan = Plan(kernel, 2.0, LocalFeatures.of(kernel, (taylor.sample(2, 6),)))
    X = tensor(np.zeros((1, 2)))
    assert fast._moments(plan, X, 2) is not None
    for other in (replace(plan, radius=None), replace(plan, count=5), replace(plan, radius=30.0)):
        assert fast._moments(other, X, 2) is None
    assert fast._moments(plan, X, 9) is None
    assert fast._moments(plan, X.float(), 2) is None
    two = Kernel(np.array([[1.0], [2.0]]), np.array([1.0, 1.0]))
    features = LocalFeatures.of(two, (taylor.sample(2, 6), taylor.sample(2, 6)))
    assert fast._moments(Plan(two, 2.0, features), X, 2) is None


def test_kernels_compile_for_a_gpu():
    script = Path(__file__).with_name("compile_kernels.py")
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    run = subprocess.run([sys.executable, script], env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr[-2000:]


def test_kernels_are_for_gpus_alone():
    X = torch.zeros((3, 2), dtype=torch.float64)
    assert fast.kernels_for(X) is None


def test_only_what_triton_raises_leaves_the_work_to_others(monkeypatch, caplog):
    monkeypatch.setattr(fast, "_failures", [])

    def mistaken():
        raise ValueError("a mistake of ours")

    with pytest.raises(ValueError, match="of ours"):
        fast._or_left_to_others(mistaken)()
    assert not fast._failures
    assert fast._or_left_to_others(failing_compiler)() is None
    assert fast._failures == ["no such instruction"]
    assert "no such instruction" in caplog.text
