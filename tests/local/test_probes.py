from math import gamma, pi

import numpy as np
import pytest

from nearfield import metrics
from nearfield.features import taylor
from nearfield.kernels import Kernel
from nearfield.local import probes
from nearfield.local.features import LocalFeatures
from nearfield.local.neighbourhoods import TrainingSet
from nearfield.local.plan import Plan
from nearfield.local.probes import cell_radius, make_subset_worlds, make_worlds
from nearfield.solvers.kernel_space import KernelSpace

KERNEL = Kernel.gaussian(1.0, 1.3)
NOISE = 0.05


def training(n=600, d=2, width=8.0, seed=0):
    """Points whose first target is their number, by which they can be told."""
    rng = np.random.RandomState(seed)
    X = rng.uniform(0, width, (n, d))
    y = np.stack([np.arange(n), np.sin(X.sum(axis=1)) + 0.2 * rng.standard_normal(n)], axis=1)
    return TrainingSet.of(X, y, NOISE * rng.uniform(0.5, 2.0, n))


def worlds_of(data, radius=3.0, n_worlds=12, n_jobs=1, seed=0, kernel=KERNEL):
    return make_worlds(kernel, data, radius, n_worlds, n_jobs, np.random.RandomState(seed))


# ---- worlds ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("d", [1, 2, 3])
def test_a_world_is_what_lies_around_a_training_point_set_aside(d):
    data = training(d=d)
    for world in worlds_of(data):
        known = world.y[:, 0].astype(int)
        origin = data.X[known[0]] - world.X[0]
        np.testing.assert_allclose(data.X[known] - origin, world.X, atol=1e-12)
        np.testing.assert_array_equal(data.noise[known], world.noise)
        inside = set(np.flatnonzero(np.linalg.norm(data.X - origin, axis=1) <= 3.0).tolist())
        aside = inside - set(known.tolist())
        assert len(aside) == len(world.probes)
        # The probes are those set aside: as training points lie, and out of the candidate's sight.
        expected = data.X[sorted(aside)] - origin
        order = np.lexsort(world.probes.T)
        np.testing.assert_allclose(world.probes[order], expected[np.lexsort(expected.T)], atol=1e-12)
        np.testing.assert_array_equal(world.probes[0], 0.0)
        assert np.all(np.linalg.norm(world.probes, axis=1) <= 1.0)
        np.testing.assert_array_equal(world.counts, 1.0)


@pytest.mark.parametrize("radius", [4.0, 6.0])
@pytest.mark.parametrize("d", [1, 2, 4])
def test_the_reference_is_the_exact_process_in_the_world(d, radius):
    for world in worlds_of(training(d=d), radius, n_worlds=6):
        exact = KernelSpace.from_points(KERNEL, world.X, world.y[:, 1:], world.noise)
        mean, variance = exact.mean_and_variance(world.probes)
        kl = metrics.kl_divergence(world.mean[:, 1], world.variance + NOISE, mean[:, 0], variance + NOISE)
        assert kl.max() < 10.0 ** (-2 - radius)


def test_worlds_depend_on_the_seed_alone():
    data = training()
    first, again, other = (worlds_of(data, seed=s, n_jobs=j) for s, j in ((1, 1), (1, 2), (2, 1)))
    for a, b in zip(first, again, strict=True):
        np.testing.assert_array_equal(a.X, b.X)
        np.testing.assert_array_equal(a.probes, b.probes)
        np.testing.assert_array_equal(a.mean, b.mean)
        np.testing.assert_array_equal(a.direction, b.direction)
    assert not np.array_equal(first[0].direction, other[0].direction)


def test_there_are_no_more_worlds_than_points():
    assert len(worlds_of(training(n=5), n_worlds=20)) == 5


def test_lonely_points_have_empty_worlds():
    data = training(n=20, width=1e6)
    plan = Plan(KERNEL, 2.0, None)
    for world in worlds_of(data):
        assert world.X.shape == (0, 2)
        np.testing.assert_array_equal(world.mean, 0.0)
        np.testing.assert_allclose(world.variance, 1.3)
        assert world.divergence(plan, 1.0) == 0.0


# ---- candidates in worlds ----------------------------------------------------------------------------------------


def test_centres_lie_within_the_cell():
    for d in (1, 2, 3):
        offsets = np.array([w.center(2.0) for w in worlds_of(training(n=2000, d=d), radius=0.2, n_worlds=400)])
        distances = np.linalg.norm(offsets, axis=1) / (2.0 * cell_radius(d))
        assert distances.max() <= 1.0
        # Uniform in a ball: the d-th power of the distance is uniform between 0 and 1.
        np.testing.assert_allclose(np.mean(distances**d), 0.5, atol=5 * (1 / 12 / 400) ** 0.5)
        np.testing.assert_allclose(offsets.mean(axis=0), 0.0, atol=0.5)


def test_a_single_cell_is_centred_on_the_probe():
    (world,) = worlds_of(training(), n_worlds=1)
    np.testing.assert_array_equal(world.center(np.inf), 0.0)


@pytest.mark.parametrize("d", [1, 2, 3, 8])
def test_a_cell_is_as_large_as_its_ball(d):
    cube = (2 / d**0.5) ** d  # corners 1 from the middle
    ball = pi ** (d / 2) / gamma(d / 2 + 1) * cell_radius(d) ** d
    np.testing.assert_allclose(ball, cube)


def test_neighbourhoods_in_a_world():
    for world in worlds_of(training()):
        near = world.neighbourhood(1.5, 2.0)
        distances = np.linalg.norm(world.X - world.center(1.5), axis=1)
        np.testing.assert_array_equal(near, distances <= 2.0)
        assert world.neighbourhood(1.5, None).all()


@pytest.mark.parametrize("radius", [1.5, 2.5])
@pytest.mark.parametrize("degree", [None, 4])
def test_the_divergence_of_a_candidate_is_that_of_its_model_at_the_probes_of_the_cell(radius, degree):
    features = None if degree is None else LocalFeatures.of(KERNEL, (taylor.sample(2, degree),))
    plan = Plan(KERNEL, radius, features, either_side=False)
    several = 0
    for world in worlds_of(training(n=1000), n_worlds=8):
        center = 1.2 * world.direction
        near = np.linalg.norm(world.X - center, axis=1) <= radius
        inside = np.linalg.norm(world.probes - center, axis=1) <= 1.2 * cell_radius(2)
        inside[0] = True
        several += inside.sum() > 1
        Z, test = world.X[near] - center, world.probes[inside] - center
        y, noise = world.y[near, :-1], world.noise[near]
        if features is None:
            K, k, prior = KERNEL(Z, Z), KERNEL(test, Z), 1.3
        else:
            phi, phi_test = (1.3**0.5 * taylor.apply(features.maps[0], z) for z in (Z, test))
            K, k, prior = phi @ phi.T, phi_test @ phi.T, 1.3
            noise = noise + 1.3 - (phi**2).sum(axis=1)
        inverse = np.linalg.inv(K + np.diag(noise))
        mean, variance = k @ inverse @ y, prior - np.einsum("ij,jk,ik->i", k, inverse, k)
        noise = world.probe_noise[inside]
        expected = np.mean(
            [
                metrics.kl_divergence(
                    mean[:, j], variance + noise, world.mean[inside, j], world.variance[inside] + noise
                )
                for j in range(2)
            ]
        )
        np.testing.assert_allclose(world.divergence(plan, 1.2), expected, rtol=1e-6)
    assert several > 1


def test_a_candidate_with_the_whole_world_has_no_divergence():
    for world in worlds_of(training(n=300)):
        assert world.divergence(Plan(KERNEL, None, None), 1.0) < 1e-8 * world.y[:, 0].max() ** 2


# ---- dense places ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("d", [1, 2, 3])
def test_averaged_points_keep_the_weight_of_the_data(monkeypatch, d):
    monkeypatch.setattr(probes, "MAX_WORLD", 150)
    data = training(n=2000, d=d, width=3.0)
    X, y, noise, counts = probes.thinned(data.X, data.y, data.noise, np.random.RandomState(0))
    assert 40 < len(X) <= 150
    assert counts.sum() == 2000
    np.testing.assert_allclose((1 / noise).sum(), (1 / data.noise).sum())
    np.testing.assert_allclose((y / noise[:, None]).sum(axis=0), (data.y / data.noise[:, None]).sum(axis=0))
    np.testing.assert_allclose((X / noise[:, None]).sum(axis=0), (data.X / data.noise[:, None]).sum(axis=0))
    np.testing.assert_allclose(y[:, -1], 1.0)


def test_averaging_hardly_changes_the_exact_process(monkeypatch):
    monkeypatch.setattr(probes, "MAX_WORLD", 400)
    data = training(n=1500, width=4.0)
    kernel = Kernel.gaussian(1.0, 1.3)
    X, y, noise, _ = probes.thinned(data.X, data.y, data.noise, np.random.RandomState(0))
    test = np.random.RandomState(1).uniform(0.5, 3.5, (50, 2))
    mean, variance = KernelSpace.from_points(kernel, X, y[:, 1:2], noise).mean_and_variance(test)
    mean_ref, variance_ref = KernelSpace.from_points(kernel, data.X, data.y[:, 1:2], data.noise).mean_and_variance(test)
    kl = metrics.kl_divergence(mean[:, 0], variance + NOISE, mean_ref[:, 0], variance_ref + NOISE)
    assert kl.mean() < 1e-3


def test_equal_points_are_averaged_to_one(monkeypatch):
    monkeypatch.setattr(probes, "MAX_WORLD", 100)
    y = np.arange(500.0)[:, None]
    X, average, noise, counts = probes.thinned(np.ones((500, 2)), y, np.full(500, 0.5), np.random.RandomState(0))
    assert X.shape == (1, 2)
    np.testing.assert_allclose(average, y.mean())
    np.testing.assert_allclose(noise, 0.5 / 500)
    assert counts.tolist() == [500]


def test_few_points_are_left_alone():
    data = training(n=50)
    X, y, noise, counts = probes.thinned(data.X, data.y, data.noise, np.random.RandomState(0))
    assert X is data.X
    assert y is data.y
    assert noise is data.noise
    np.testing.assert_array_equal(counts, 1.0)


# ---- subsets -----------------------------------------------------------------------------------------------------


def test_subsets_are_nested_and_share_their_probes():
    data = training(n=500, d=5)
    small, large = make_subset_worlds(KERNEL, data, [100, 200], 30, np.random.RandomState(0))
    np.testing.assert_array_equal(small.probes, large.probes)
    np.testing.assert_array_equal(small.X, large.X[:100])
    origin = data.X.mean(axis=0)
    for world in (small, large):
        known = world.y[:, 0].astype(int)
        np.testing.assert_allclose(world.X, data.X[known] - origin)
        exact = KernelSpace.from_points(KERNEL, world.X, world.y, world.noise)
        mean, variance = exact.mean_and_variance(world.probes)
        np.testing.assert_allclose(world.mean, mean, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(world.variance, variance, atol=1e-9)
        set_aside = {tuple(row) for row in np.round(world.probes, 9).tolist()}
        assert not set_aside & {tuple(row) for row in np.round(world.X, 9).tolist()}
        assert len(set_aside) == 30
