"""Long scales by features and short ones locally: together the exact process."""

from dataclasses import replace

import numpy as np
import pytest

from nearfield import metrics
from nearfield.common import memory
from nearfield.common.sphere import Sphere
from nearfield.kernels import Kernel
from nearfield.local import global_part
from nearfield.local.global_part import GlobalPart, domain, fit_global_part, rows_of, split
from nearfield.local.neighbourhoods import TrainingSet
from nearfield.solvers.kernel_space import KernelSpace

KERNEL = Kernel(np.array([[0.5], [5.0]]), np.array([0.8, 2.0]))
SHORT = Kernel(np.array([[0.5]]), np.array([0.8]))
WIDTH, NOISE = 6.0, 0.1
FINEST = 1e-12  # a tolerance for which as little is left out as can be


@pytest.fixture(autouse=True)
def _all_earlier_points(monkeypatch):
    monkeypatch.setattr(global_part, "N_EARLIER", 10_000)


def training(n=800, k=1, seed=0, noise=None, width=WIDTH):
    """Points of a square with a hole in its middle, the corners first."""
    rng = np.random.RandomState(seed)
    X = rng.uniform(0, width, (2 * n, 2))
    X = X[np.linalg.norm(X - width / 2, axis=1) > 1.2][: n - 4]
    X = np.concatenate([[[0, 0], [0, width], [width, 0], [width, width]], X])
    y = np.sin(X @ rng.uniform(0.3, 3.0, (2, k))) + NOISE**0.5 * rng.standard_normal((n, k)) + 0.5
    return TrainingSet.of(X, y, np.full(n, NOISE) if noise is None else noise)


def rows(data, chosen):
    return TrainingSet.of(data.X[chosen], data.y[chosen, :-1], data.noise[chosen])


def fit(data, kernel=KERNEL, tolerance=FINEST):
    part = fit_global_part(kernel, data, tolerance, np.random.RandomState(0), 1)
    assert isinstance(part, GlobalPart)
    return part


def assembled(part, data, X):
    """Mean and variance with an exact local process on all points."""
    local = KernelSpace.from_points(part.kernel, data.X, part.targets(data.X, data.y), data.noise)
    return part.completed(X, *local.mean_and_variance(X))


def exact(data, X, kernel=KERNEL):
    return KernelSpace.from_points(kernel, data.X, data.y, data.noise).mean_and_variance(X)


def places(n=150, margin=0.0, seed=5, d=2):
    return np.random.RandomState(seed).uniform(-margin, WIDTH + margin, (n, d))


# ---- the whole -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [1, 3])
def test_long_and_short_together_are_the_exact_process(k):
    data, X = training(k=k), places()
    mean, variance = assembled(fit(data), data, X)
    expected, expected_variance = exact(data, X)
    assert mean.shape == (len(X), k + 1)
    np.testing.assert_allclose(mean, expected, atol=1e-6)
    np.testing.assert_allclose(variance, expected_variance, atol=1e-6)


@pytest.mark.parametrize("variance", [1e7, 1e8])
def test_long_scales_of_large_variance(variance):
    """Trends learn such variances, beside which single precision has no digits left."""
    kernel = Kernel(np.array([[0.5], [5.0]]), np.array([0.8, variance]))
    data, X = training(), places()
    data = replace(data, y=data.y + np.sqrt(variance) * np.sin(data.X[:, :1] / 4))
    (mean, var), (expected, expected_var) = assembled(fit(data, kernel, 1e-3), data, X), exact(data, X, kernel)
    kl = metrics.kl_divergence(mean[:, 0], var + NOISE, expected[:, 0], expected_var + NOISE)
    assert kl.mean() < 1e-5


def test_with_noise_of_several_sizes():
    noise = np.random.RandomState(3).uniform(0.01, 2.0, 800)
    data, X = training(noise=noise), places()
    for found, expected in zip(assembled(fit(data), data, X), exact(data, X), strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-5)


def test_with_one_length_scale_per_column_and_two_long_ones():
    kernel = Kernel(np.array([[0.5, 0.8], [6.0, 8.0], [20.0, 15.0]]), np.array([0.8, 1.0, 1.5]))
    data, X = training(), places()
    part = fit(data, kernel)
    assert len(part.features) == 2
    assert part.kernel.n_scales == 1
    assert part.variance == pytest.approx(2.5)
    for found, expected in zip(assembled(part, data, X), exact(data, X, kernel), strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-5)


def test_far_away_the_prior_answers():
    data = training()
    X = np.array([[WIDTH / 2, 90.0], [-60.0, -60.0], [1e6, 3.0]])
    mean, variance = assembled(fit(data), data, X)
    np.testing.assert_allclose(mean, 0.0, atol=1e-9)
    np.testing.assert_allclose(variance, KERNEL.variance, rtol=1e-9)


def test_beyond_the_edge_the_variance_is_never_too_small_and_never_more_than_the_prior():
    """Features fade faster than the kernel there, and what they lack is given back as variance."""
    data, X = training(), places(400, margin=8.0)
    _, variance = assembled(fit(data), data, X)
    _, expected = exact(data, X)
    assert np.all(variance >= expected - 1e-5)
    assert np.all(variance <= KERNEL.variance * (1 + 1e-9))


@pytest.mark.parametrize("tolerance", [1e-1, 1e-3])
def test_directions_that_are_left_out_change_the_variance_by_little(tolerance):
    data, X = training(), places()
    part = fit(data, tolerance=tolerance)
    assert 1 <= part.n_further <= part.n_components
    whole = replace(part, spread=global_part._spread(part.gram))
    mean, variance = assembled(part, data, X)
    mean_whole, variance_whole = assembled(whole, data, X)
    np.testing.assert_allclose(mean, mean_whole, atol=1e-8)
    # Twice what is allowed at the places where it was looked at.
    assert np.all(variance <= variance_whole + 1e-9)
    assert np.max(variance_whole - variance) <= 2 * 0.1 * tolerance**0.5 * NOISE


def test_coefficients_and_sums_are_those_of_the_dense_model():
    data = training(400)
    part = fit(data)
    Phi = part.rows(data.X)
    np.testing.assert_array_equal(rows_of(part.features, data.X, 2), Phi)
    C = SHORT(data.X, data.X) + np.diag(data.noise)
    gram, cross = Phi.T @ np.linalg.solve(C, Phi), Phi.T @ np.linalg.solve(C, data.y)
    np.testing.assert_allclose(part.gram, gram, atol=1e-8 * np.trace(gram))
    np.testing.assert_allclose(part.cross, cross, atol=1e-8 * np.abs(cross).max())
    inverse = np.linalg.inv(np.eye(len(gram)) + gram)
    np.testing.assert_allclose(part.coefficients, inverse @ cross, atol=1e-6)
    spread = global_part._spread(part.gram)
    np.testing.assert_allclose(spread @ spread.T, inverse, atol=1e-8)


# ---- targets -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [1, 3])
def test_original_and_restored_invert_targets(k):
    data = training(k=k)
    part = fit(data, tolerance=1e-2)
    targets = part.targets(data.X, data.y)
    r = part.n_further
    assert targets.shape == (len(data.X), r + k + 1)
    np.testing.assert_allclose(part.original(data.X, targets), data.y, atol=1e-10)
    np.testing.assert_allclose(part.restored(data.X, targets[:, r : r + k]), targets, atol=1e-10)
    np.testing.assert_allclose(targets[:, :r], part.rows(data.X) @ part.spread, atol=1e-12)


def test_chunks_change_nothing(monkeypatch):
    data, X = training(), places()
    part = fit(data)
    expected = assembled(part, data, X)
    monkeypatch.setattr(global_part, "rows_per_chunk", lambda *_: 7)
    for found, whole in zip(assembled(part, data, X), expected, strict=True):
        np.testing.assert_allclose(found, whole, atol=1e-10)


def test_tensors_give_what_arrays_give():
    torch = pytest.importorskip("torch")
    data, X = training(300), places(40)
    part = fit(data, tolerance=1e-2)
    targets = part.targets(data.X, data.y)
    tensors = [torch.as_tensor(each) for each in (data.X, data.y)]
    np.testing.assert_allclose(part.targets(*tensors).numpy(), targets, atol=1e-10)
    np.testing.assert_allclose(part.original(tensors[0], part.targets(*tensors)).numpy(), data.y, atol=1e-10)
    local = KernelSpace.from_points(part.kernel, data.X, targets, data.noise).mean_and_variance(X)
    found = part.completed(torch.as_tensor(X), *(torch.as_tensor(each.copy()) for each in local))
    for a, b in zip(found, part.completed(X, *local), strict=True):
        np.testing.assert_allclose(a.numpy(), b, atol=1e-10)


# ---- more data -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_before", [500, 799, 800])
def test_more_points_are_as_if_they_had_been_there_from_the_start(n_before):
    data, X = training(), places(60)
    updated = fit(rows(data, slice(n_before))).updated(data, n_before, 1)
    expected = fit(data)
    scale = np.trace(expected.gram)  # the corners are among the first points, so that the features are the same
    np.testing.assert_allclose(updated.gram, expected.gram, atol=1e-9 * scale)
    np.testing.assert_allclose(updated.cross, expected.cross, atol=1e-9 * scale)
    for found, whole in zip(assembled(updated, data, X), exact(data, X), strict=True):
        np.testing.assert_allclose(found, whole, atol=1e-5)


def test_in_several_steps():
    data, X = training(), places(60)
    part = fit(rows(data, slice(500)))
    for start, stop in ((500, 501), (501, 700), (700, 800)):
        part = part.updated(rows(data, slice(stop)), start, 1)
    for found, whole in zip(assembled(part, data, X), exact(data, X), strict=True):
        np.testing.assert_allclose(found, whole, atol=1e-5)


def test_more_points_beyond_the_domain_are_as_if_they_had_been_there_from_the_start():
    first, later, shift = training(500), training(300, seed=4), np.array([2 * WIDTH, 0.0])
    data = TrainingSet.of(
        np.concatenate([first.X, later.X + shift]), np.concatenate([first.y, later.y])[:, :-1], np.full(800, NOISE)
    )
    part, X = fit(first).updated(data, 500, 1), places(100) + shift
    (mean, variance), (expected, expected_variance) = assembled(part, data, X), exact(data, X)
    kl = metrics.kl_divergence(mean[:, 0], variance + NOISE, expected[:, 0], expected_variance + NOISE)
    assert kl.mean() < 1e-3


def test_forgetting_leaves_nothing_of_the_earlier_points():
    data, other, X = training(), training(500, seed=9), places(60)
    part = fit(data).updated(other, 0, 1)
    for found, whole in zip(assembled(part, other, X), exact(other, X), strict=True):
        np.testing.assert_allclose(found, whole, atol=1e-5)


def test_forgetting_for_no_points_leaves_the_prior():
    part = fit(training())
    empty = TrainingSet.of(np.empty((0, 2)), np.empty((0, 1)), np.empty(0))
    part = part.updated(empty, 0, 1)
    X = places(20)
    np.testing.assert_array_equal(part.coefficients, 0.0)
    local = np.zeros((20, part.n_further + 2)), np.full(20, SHORT.variance)
    mean, variance = part.completed(X, *local)
    np.testing.assert_array_equal(mean, 0.0)
    np.testing.assert_allclose(variance, KERNEL.variance, rtol=1e-9)


# ---- which scales are long -----------------------------------------------------------------------------------------


def test_all_scales_but_one_may_be_long():
    X = places(2000)
    kernel = Kernel(np.array([[10.0], [20.0], [40.0]]), np.ones(3))
    short, features = split(kernel, X, 1e-6)
    np.testing.assert_array_equal(short.length_scales, [[10.0]])
    assert [each.length_scales[0] for each in features] == [40.0, 20.0]
    assert split(Kernel(np.array([[40.0]]), np.ones(1)), X, 1e-6)[1] == ()


def test_a_scale_that_needs_too_many_features_stays_short_with_all_below():
    X = places(2000)
    kernel = Kernel(np.array([[0.05], [0.2], [6.0]]), np.array([1.0, 2.0, 3.0]))
    short, features = split(kernel, X, 1e-6)
    np.testing.assert_array_equal(short.length_scales, [[0.05], [0.2]])
    np.testing.assert_array_equal(short.variances, [1.0, 2.0])
    assert [each.variance for each in features] == [3.0]


@pytest.mark.parametrize("width", [1e2, 1e4, 1e9])
def test_none_is_long_where_the_domain_is_too_wide(width):
    X = places(2000) * width
    short, features = split(KERNEL, X, 1e-6)
    assert features == ()
    np.testing.assert_array_equal(short.length_scales, KERNEL.length_scales)
    data = TrainingSet.of(X, X[:, :1], np.full(len(X), NOISE))
    assert fit_global_part(KERNEL, data, 1e-3, np.random.RandomState(0), 1) is None


@pytest.mark.parametrize("n", [1, 5, 50])
def test_few_points_get_few_features_or_none(n):
    _, features = split(Kernel(np.array([[0.1], [3.0]]), np.ones(2)), places(2000)[:n], 1e-6)
    assert sum(each.n_components for each in features) <= n // global_part.POINTS_PER_FEATURE


def test_features_of_all_long_scales_share_the_room(monkeypatch):
    monkeypatch.setattr(global_part, "MOST_FEATURES", 60)
    X = places(2000)
    kernel = Kernel(np.array([[0.1], [4.0], [8.0]]), np.ones(3))
    short, features = split(kernel, X, 1e-6)
    assert sum(each.n_components for each in features) <= 60
    monkeypatch.setattr(global_part, "MOST_FEATURES", 1000)
    assert len(split(kernel, X, 1e-6)[1]) == 2
    assert short.n_scales + len(features) == 3


def test_features_of_all_points_fit_into_the_memory_budget():
    X, kernel = places(2000), Kernel(np.array([[0.1], [4.0]]), np.ones(2))
    [feature] = split(kernel, X, 1e-6)[1]
    needed = 8.0 * global_part.COPIES * len(X) * feature.n_components
    with memory.limited_to(needed):
        assert len(split(kernel, X, 1e-6)[1]) == 1
    with memory.limited_to(0.9 * needed):
        assert split(kernel, X, 1e-6)[1] == ()


def test_what_is_lacking_is_a_share_of_the_whole_variance():
    """A long scale of little variance needs fewer features."""
    X = places(2000)
    numbers = []
    for variance in (1e-4, 1e-2, 1.0):
        _, features = split(Kernel(np.array([[0.1], [4.0]]), np.array([1.0, variance])), X, 1e-6)
        numbers.append(features[0].n_components)
    assert numbers[0] < numbers[1] < numbers[2]


def caps(n, width, seed=0):
    """Places on the earth within `width` degrees of a middle, in km."""
    rng = np.random.default_rng(seed)
    degrees = np.column_stack([rng.uniform(5 - width, 5 + width, n), rng.uniform(45 - width, 45 + width, n)])
    return Sphere(meridian=5.0, parallel=45.0).points(degrees)


@pytest.mark.parametrize(("width", "scale"), [(8.0, 400.0), (2.0, 900.0), (40.0, 3000.0)])
def test_on_a_surface_features_reach_along_it_and_not_across(width, scale):
    X, onto = caps(3000, width), Sphere().onto
    reach = np.full(3, scale)
    low, high = domain(X, reach, onto)
    plain = domain(X, reach, None)
    assert np.prod(high - low) < 0.75 * np.prod(plain[1] - plain[0])
    # All of the surface that is in the plain box is in this one, but for what its margin is for.
    surface = onto(np.random.default_rng(1).uniform(*plain, (20_000, 3)))
    surface = surface[np.all((surface >= plain[0]) & (surface <= plain[1]), axis=1)]
    assert np.all((surface >= low - 0.1 * reach) & (surface <= high + 0.1 * reach))
    # There, features are the kernel.
    kernel = Kernel(np.array([[scale / 20], [scale]]), np.array([1.0, 1.0]))
    _, (features,) = split(kernel, X, 1e-6, onto)
    _, (more,) = split(kernel, X, 1e-6)
    assert features.n_components < 0.8 * more.n_components
    places = surface[:200]
    expected = Kernel.gaussian(scale)(places, places)
    rows = features(places)
    assert np.abs(rows @ rows.T - expected).max() < 1e-3
    assert np.mean(1 - np.sum(rows**2, axis=1)) < 1e-5


def test_later_points_on_a_surface_keep_its_features():
    X, onto = caps(700, 8.0), Sphere().onto
    y = np.sin(X[:, 1:2] / 300)
    data = TrainingSet.of(X, y, np.full(len(X), 0.01))
    kernel = Kernel(np.array([[20.0], [900.0]]), np.array([1.0, 1.0]))
    part = fit_global_part(kernel, data, 1e-3, np.random.RandomState(0), 1, onto)
    assert part is not None
    assert part._covers(caps(500, 8.5, seed=1))
    assert not part._covers(caps(500, 30.0, seed=1))
