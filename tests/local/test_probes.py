from dataclasses import replace
from math import gamma, pi

import numpy as np
import pytest

from nearfield import metrics
from nearfield.features import taylor
from nearfield.kernels import Kernel
from nearfield.local import blending, probes, references, thinning
from nearfield.local.choices import Candidate
from nearfield.local.features import LocalFeatures
from nearfield.local.model import fit_one, mean_and_variance
from nearfield.local.neighbourhoods import TrainingSet
from nearfield.local.one_center import make_subsets
from nearfield.local.plan import Plan, kernel_cost
from nearfield.local.probes import cell_radius, make_neighbourhoods, uniform_in_cell
from nearfield.local.thinning import NeighbourhoodSample
from nearfield.solvers.kernel_space import KernelSpace

KERNEL = Kernel.gaussian(1.0, 1.3)
NOISE = 0.05


@pytest.fixture
def not_averaged(monkeypatch):
    """Neighbourhoods of all points."""
    monkeypatch.setattr(probes, "thinned", lambda sample, *_: sample)


def training(n=600, d=2, width=8.0, seed=0):
    """Points whose first target is their number, by which they can be told."""
    rng = np.random.RandomState(seed)
    X = rng.uniform(0, width, (n, d))
    y = np.stack([np.arange(n), np.sin(X.sum(axis=1)) + 0.2 * rng.standard_normal(n)], axis=1)
    return TrainingSet.of(X, y, NOISE * rng.uniform(0.5, 2.0, n))


def neighbourhoods_of(data, radius=3.0, n=12, n_jobs=1, seed=0, rows=None):
    rows = np.arange(len(data.X)) if rows is None else rows
    return make_neighbourhoods(KERNEL, data, rows, radius, n, n_jobs, np.random.RandomState(seed))


def rows_of(neighbourhood):
    """Which of the training points are present."""
    return neighbourhood.sample.y[:, 0].astype(int)


# ---- neighbourhoods ----------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("not_averaged")
@pytest.mark.parametrize("d", [1, 2, 3])
def test_a_neighbourhood_is_what_lies_around_a_training_point_set_aside(d):
    data = training(d=d)
    for neighbourhood in neighbourhoods_of(data):
        sample, present = neighbourhood.sample, rows_of(neighbourhood)
        origin = data.X[present[0]] - sample.X[0]
        np.testing.assert_allclose(data.X[present] - origin, sample.X, atol=1e-12)
        np.testing.assert_array_equal(data.noise[present], sample.noise)
        inside = set(np.flatnonzero(np.linalg.norm(data.X - origin, axis=1) <= 3.0).tolist())
        set_aside = inside - set(present.tolist())
        assert len(set_aside) == neighbourhood.n_probes
        # The probes are those set aside: as training points lie, and out of the candidate's sight.
        expected = data.X[sorted(set_aside)] - origin
        order = np.lexsort(neighbourhood.probes.T)
        np.testing.assert_allclose(neighbourhood.probes[order], expected[np.lexsort(expected.T)], atol=1e-12)
        np.testing.assert_array_equal(neighbourhood.probes[0], 0.0)
        assert np.all(np.linalg.norm(neighbourhood.probes, axis=1) <= probes.AROUND)
        np.testing.assert_array_equal(sample.counts, 1.0)
        assert sample.n_points == len(present)


@pytest.mark.usefixtures("not_averaged")
def test_probes_are_among_the_rows_given():
    data = training(n=2000)
    rows = np.arange(0, 2000, 4)
    set_aside = []
    for neighbourhood in neighbourhoods_of(data, rows=rows):
        origin = data.X[rows_of(neighbourhood)[0]] - neighbourhood.sample.X[0]
        gaps = np.linalg.norm(data.X[:, None] - origin - neighbourhood.probes, axis=2)
        set_aside.append(np.argmin(gaps, axis=0))
        assert np.all(gaps.min(axis=0) < 1e-9)
    assert max(map(len, set_aside)) > 1
    assert np.isin(np.concatenate(set_aside), rows).all()


@pytest.mark.parametrize("radius", [4.0, 6.0])
@pytest.mark.parametrize("d", [1, 2, 4])
def test_the_reference_is_the_exact_process_in_the_neighbourhood(d, radius):
    for neighbourhood in neighbourhoods_of(training(d=d), radius, n=6):
        sample = neighbourhood.sample
        exact = KernelSpace.from_points(KERNEL, sample.X, sample.y[:, 1:], sample.noise)
        mean, variance = exact.mean_and_variance(neighbourhood.probes)
        reference = neighbourhood.reference.mean[:, 1], neighbourhood.reference.variance + NOISE
        assert metrics.kl_divergence(*reference, mean[:, 0], variance + NOISE).max() < 10.0 ** (-2 - radius)


def test_neighbourhoods_depend_on_the_seed_alone():
    data = training()
    first, again, other = (neighbourhoods_of(data, seed=s, n_jobs=j) for s, j in ((1, 1), (1, 2), (2, 1)))
    for a, b in zip(first, again, strict=True):
        np.testing.assert_array_equal(a.sample.X, b.sample.X)
        np.testing.assert_array_equal(a.probes, b.probes)
        np.testing.assert_array_equal(a.reference.mean, b.reference.mean)
        np.testing.assert_array_equal(a.directions, b.directions)
    assert not np.array_equal(first[0].directions, other[0].directions)


def test_there_are_no_more_neighbourhoods_than_points():
    assert len(neighbourhoods_of(training(n=5), n=20)) == 5


def test_lonely_points_have_empty_neighbourhoods():
    data = training(n=20, width=1e6)
    candidate = Candidate(1.0, Plan(KERNEL, 2.0, None), "")
    for neighbourhood in neighbourhoods_of(data):
        assert neighbourhood.sample.X.shape == (0, 2)
        np.testing.assert_array_equal(neighbourhood.reference.mean, 0.0)
        np.testing.assert_allclose(neighbourhood.reference.variance, 1.3)
        np.testing.assert_array_equal(neighbourhood.divergence(candidate), 0.0)


def believed(neighbourhood):
    """The same, as if there were no data beyond it."""
    reference = neighbourhood.reference
    return replace(neighbourhood, reference=replace(reference, excess=np.zeros_like(reference.excess)))


# ---- candidates --------------------------------------------------------------------------------------------------


def cell_of(neighbourhood, spacing):
    (cell,) = neighbourhood.cells(Candidate(spacing, Plan(KERNEL, 2.0, None), ""))
    return cell


def in_cube(points, neighbourhood, spacing):
    middle, d = neighbourhood.middle_of_cell(spacing), points.shape[1]
    return np.abs(points - middle).max(axis=1) <= spacing / d**0.5


@pytest.mark.parametrize("d", [1, 2, 3])
def test_centres_are_in_the_middle_of_what_is_in_the_cell(d):
    neighbourhoods = neighbourhoods_of(training(n=2000, d=d), radius=2.0, n=100)
    for neighbourhood in neighbourhoods:
        inside = neighbourhood.sample.X[in_cube(neighbourhood.sample.X, neighbourhood, 0.7)]
        middle = 0.5 * (inside.min(axis=0) + inside.max(axis=0)) if len(inside) else neighbourhood.middle_of_cell(0.7)
        np.testing.assert_allclose(cell_of(neighbourhood, 0.7).center, middle)
        assert in_cube(neighbourhood.probes[:1], neighbourhood, 0.7)


def test_probes_are_anywhere_in_the_cell():
    for d in (1, 2, 3):
        offsets = uniform_in_cell(4000, d, np.random.RandomState(0))
        assert np.abs(offsets).max() <= d**-0.5
        np.testing.assert_allclose(np.mean(offsets**2, axis=0), 1 / (3 * d), rtol=0.1)
    wide = uniform_in_cell(4000, 5, np.random.RandomState(0))
    distances = np.linalg.norm(wide, axis=1) / cell_radius(5)
    assert distances.max() <= 1.0
    # Uniform in a ball: the d-th power of the distance is uniform between 0 and 1.
    np.testing.assert_allclose(np.mean(distances**5), 0.5, atol=5 * (1 / 12 / 4000) ** 0.5)


def test_a_single_cell_is_centred_on_the_probe_and_holds_all():
    (neighbourhood,) = neighbourhoods_of(training(), n=1)
    cell = cell_of(neighbourhood, np.inf)
    np.testing.assert_array_equal(cell.center, 0.0)
    np.testing.assert_array_equal(cell.probes, np.arange(neighbourhood.n_probes))
    assert cell.n_points == len(neighbourhood.sample.X)


@pytest.mark.parametrize("d", [1, 2, 3, 8])
def test_a_cell_is_as_large_as_its_ball(d):
    cube = (2 / d**0.5) ** d  # corners 1 from the middle
    ball = pi ** (d / 2) / gamma(d / 2 + 1) * cell_radius(d) ** d
    np.testing.assert_allclose(ball, cube)


def test_the_points_near_a_centre():
    for neighbourhood in neighbourhoods_of(training()):
        X, center = neighbourhood.sample.X, cell_of(neighbourhood, 1.5).center
        distances = np.linalg.norm(X - center, axis=1)
        within = np.flatnonzero(distances <= 2.0)
        nearest = np.sort(np.argsort(distances)[: len(within) + 5])
        for radius, count, expected in (
            (2.0, None, within),
            (2.0, len(within) - 1, within),
            (2.0, len(within) + 5, nearest),
            (None, len(within) + 5, nearest),
            (None, None, np.arange(len(X))),
        ):
            near = neighbourhood.near(Plan(KERNEL, radius, None, count=count), center)
            np.testing.assert_array_equal(np.sort(near), expected)


@pytest.mark.usefixtures("not_averaged")
@pytest.mark.parametrize("radius", [1.5, 2.5])
@pytest.mark.parametrize("degree", [None, 4])
def test_the_divergence_of_a_candidate_is_that_of_its_model_at_the_probes_of_the_cell(radius, degree):
    features = None if degree is None else LocalFeatures.of(KERNEL, (taylor.sample(2, degree),))
    candidate = Candidate(1.2, Plan(KERNEL, radius, features, either_side=False), "")
    several = 0
    for neighbourhood in neighbourhoods_of(training(n=1000), n=8):
        sample, probes = neighbourhood.sample, neighbourhood.probes
        own = sample.X[in_cube(sample.X, neighbourhood, 1.2)]
        center = 0.5 * (own.min(axis=0) + own.max(axis=0))
        near = np.linalg.norm(sample.X - center, axis=1) <= radius
        inside = in_cube(probes, neighbourhood, 1.2)
        several += inside.sum() > 1
        Z, test = sample.X[near] - center, probes[inside] - center
        y, noise = sample.y[near], sample.noise[near]
        if features is None:
            K, k, prior = KERNEL(Z, Z), KERNEL(test, Z), 1.3
        else:
            phi, phi_test = (1.3**0.5 * taylor.apply(features.maps[0], z) for z in (Z, test))
            K, k, prior = phi @ phi.T, phi_test @ phi.T, 1.3
            noise = noise + 1.3 - (phi**2).sum(axis=1)
        inverse = np.linalg.inv(K + np.diag(noise))
        mean, variance = k @ inverse @ y, prior - np.einsum("ij,jk,ik->i", k, inverse, k)
        noise = neighbourhood.probe_noise[inside]
        reference = neighbourhood.reference.mean[inside], neighbourhood.reference.variance[inside] + noise
        expected = np.mean(
            [metrics.kl_divergence(mean[:, j], variance + noise, reference[0][:, j], reference[1]) for j in range(2)]
        )
        np.testing.assert_allclose(believed(neighbourhood).divergence(candidate)[0], expected, rtol=1e-6)
    assert several > 1


@pytest.mark.usefixtures("not_averaged")
def test_cells_beside_their_own_share_the_probes_where_predictions_are_blended():
    features = LocalFeatures.of(KERNEL, (taylor.sample(2, 5),))
    candidate = Candidate(0.8, Plan(KERNEL, 2.0, features), "")
    made = [believed(each) for each in neighbourhoods_of(training(n=1000), n=6)]
    several = 0
    for neighbourhood, value in zip(made, probes.divergences(made, candidate, True)[0], strict=True):
        sample, side = neighbourhood.sample, 2 * 0.8 / 2**0.5
        asked = neighbourhood.asked(candidate, True)
        steps = side * np.array([(i, j) for i in (-1, 0, 1) for j in (-1, 0, 1)])
        middles = neighbourhood.middle_of_cell(0.8) + steps
        boxes = [sample.X[(np.abs(sample.X - middle) <= side / 2).all(axis=1)] for middle in middles]
        centers = np.array([0.5 * (own.min(axis=0) + own.max(axis=0)) for own in boxes if len(own)])
        places = neighbourhood.probes[asked.probes]
        weights = blending.weights_by_distance(np.linalg.norm(places[:, None] - centers, axis=2))
        several += (weights > 0).sum() > len(places)
        mean, variance = 0.0, 0.0
        for center, weight in zip(centers, weights.T, strict=True):
            near = np.linalg.norm(sample.X - center, axis=1) <= 2.0
            model = fit_one(candidate.plan, sample.X[near] - center, sample.y[near], sample.noise[near])
            its_mean, its_variance = mean_and_variance(candidate.plan, model, places - center)
            mean, variance = mean + weight[:, None] * its_mean, variance + weight * its_variance
        noise = neighbourhood.probe_noise[asked.probes]
        reference = neighbourhood.reference.mean[asked.probes], neighbourhood.reference.variance[asked.probes] + noise
        kl = [metrics.kl_divergence(mean[:, j], variance + noise, reference[0][:, j], reference[1]) for j in (0, 1)]
        np.testing.assert_allclose(value, np.mean(kl), rtol=1e-6)
    assert several > 3


@pytest.mark.parametrize("blended", [False, True])
def test_places_in_gaps_are_served_by_the_centres_that_the_data_get_or_by_a_cell_that_is_opened(blended):
    data = training(n=300)
    data = TrainingSet.of(data.X[data.X[:, 0] > 2.5], data.y[data.X[:, 0] > 2.5, :-1], data.noise[data.X[:, 0] > 2.5])
    candidate, near, far = Candidate(0.9, Plan(KERNEL, 2.0, None), ""), [3.1, 4.2], [1.0, 4.0]
    placement = data.grid(0.9)
    made = probes.gap_neighbourhoods(
        KERNEL, data, np.array([near, far]), 4.0, 1, np.random.RandomState(0), tolerance=0.0, n_drawn=0
    )
    served, alone = (each.asked(candidate, blended) for each in made)
    distances = np.linalg.norm(placement.centers - near, axis=1)
    expected = blending.weights_by_distance(distances[None])[0] if blended else distances == distances.min()
    for center, weight in zip(placement.centers - near, expected, strict=True):
        own = np.all(np.abs(served.centers - center) < 1e-9, axis=1)
        assert own.any() or weight == 0
        np.testing.assert_allclose(served.weights[0, own].sum(), weight)
    middle = placement.lattice.middles(placement.lattice.cells(np.array([far])))
    np.testing.assert_allclose(alone.centers, middle - far)
    assert alone.weights.tolist() == [[1.0]]


# ---- draws of the process ----------------------------------------------------------------------------------------


def test_draws_have_the_covariance_of_the_process():
    """From the columns of a unit matrix come those of a root of the covariance."""
    data = training(n=400, d=1, width=3.0)
    sample, places = NeighbourhoodSample.of(data.X - 1.5, data.y[:, 1:2], data.noise), np.array([[0.1], [-0.4]])
    reference, drawn = references.exactly(KERNEL, sample, places, np.eye, tolerance=0.0)
    K = KERNEL(sample.X, sample.X) + np.diag(sample.noise)
    np.testing.assert_allclose(drawn @ drawn.T, K, atol=1e-6)
    weights = np.linalg.solve(K, KERNEL(sample.X, places))
    np.testing.assert_allclose(reference.mean, weights.T @ np.concatenate([sample.y, drawn], axis=1), atol=1e-5)


def test_half_of_a_divergence_is_that_of_draws():
    data = training(n=800)
    rows, candidate = np.arange(800), Candidate(1.0, Plan(KERNEL, 1.5, None), "")
    (with_draws,) = make_neighbourhoods(KERNEL, data, rows, 3.0, 1, 1, np.random.RandomState(0), n_drawn=3)
    (without,) = make_neighbourhoods(KERNEL, data, rows, 3.0, 1, 1, np.random.RandomState(0))
    y = with_draws.sample.y
    assert y.shape[1] == with_draws.reference.mean.shape[1] == 5
    reference = replace(with_draws.reference, mean=with_draws.reference.mean[:, 2:])
    drawn = replace(with_draws, sample=replace(with_draws.sample, y=y[:, 2:]), reference=reference, n_drawn=0)
    expected = 0.5 * (without.divergence(candidate) + drawn.divergence(candidate))
    np.testing.assert_allclose(with_draws.divergence(candidate), expected)


def test_single_precision_does_for_the_tolerance():
    (single,), (double,) = (
        make_neighbourhoods(KERNEL, training(), np.arange(600), 5.0, 1, 1, np.random.RandomState(0), tolerance, 2)
        for tolerance in (1e-4, 1e-12)
    )
    np.testing.assert_allclose(single.sample.y, double.sample.y, atol=1e-4)
    np.testing.assert_allclose(single.reference.mean[:, 2:], double.reference.mean[:, 2:], atol=1e-4)
    assert not np.array_equal(single.reference.mean, double.reference.mean)
    noise, ours, exact = single.probe_noise, single.reference, double.reference
    kl = metrics.kl_divergence(ours.mean[:, 1], ours.variance + noise, exact.mean[:, 1], exact.variance + noise)
    assert kl.max() < 1e-8


def test_a_candidate_with_the_whole_neighbourhood_has_no_divergence():
    for neighbourhood in neighbourhoods_of(training(n=300)):
        candidate = Candidate(1.0, Plan(KERNEL, None, None), "")
        assert believed(neighbourhood).divergence(candidate).max() < 1e-8 * neighbourhood.sample.y[:, 0].max() ** 2


# ---- dense places ------------------------------------------------------------------------------------------------


def thinned(data):
    return thinning.thinned(NeighbourhoodSample.of(data.X, data.y, data.noise), np.random.RandomState(0))


@pytest.mark.parametrize("d", [1, 2, 3])
def test_averaged_points_keep_the_weight_of_the_data(monkeypatch, d):
    monkeypatch.setattr(thinning, "MAX_ROWS", 150)
    data = training(n=2000, d=d, width=3.0)
    sample = thinned(data)
    assert 40 < len(sample.X) <= 150
    assert sample.counts.sum() == sample.n_points == 2000
    weights, total = 1 / sample.noise, 1 / data.noise
    np.testing.assert_allclose(weights.sum(), total.sum())
    np.testing.assert_allclose(weights @ sample.y, total @ data.y)
    np.testing.assert_allclose(weights @ sample.X, total @ data.X)
    np.testing.assert_allclose(sample.y[:, -1], 1.0)


def test_averaging_hardly_changes_the_exact_process(monkeypatch):
    monkeypatch.setattr(thinning, "MAX_ROWS", 400)
    data = training(n=1500, width=4.0)
    sample = thinned(data)
    test = np.random.RandomState(1).uniform(0.5, 3.5, (50, 2))
    (mean, variance), (mean_ref, variance_ref) = (
        KernelSpace.from_points(KERNEL, s.X, s.y[:, 1:2], s.noise).mean_and_variance(test) for s in (sample, data)
    )
    kl = metrics.kl_divergence(mean[:, 0], variance + NOISE, mean_ref[:, 0], variance_ref + NOISE)
    assert kl.mean() < 1e-3


def test_equal_points_are_averaged_to_one(monkeypatch):
    monkeypatch.setattr(thinning, "MAX_ROWS", 100)
    y = np.arange(500.0)
    sample = thinned(TrainingSet.of(np.ones((500, 2)), y[:, None], np.full(500, 0.5)))
    assert sample.X.shape == (1, 2)
    np.testing.assert_allclose(sample.y[0], [y.mean(), 1.0])
    np.testing.assert_allclose(sample.noise, 0.5 / 500)
    assert sample.counts.tolist() == [500]


def test_few_points_are_left_alone():
    data = training(n=50)
    sample = thinned(data)
    assert sample.X is data.X
    assert sample.y is data.y
    assert sample.noise is data.noise
    np.testing.assert_array_equal(sample.counts, 1.0)


def test_a_random_subset_knows_how_many_points_there_are_but_is_no_average(monkeypatch):
    monkeypatch.setattr(thinning, "MAX_ROWS", 150)
    data = training(n=2000, d=5)
    sample = thinned(data)
    kept = sample.y[:, 0].astype(int)
    assert len(set(kept.tolist())) == 150
    np.testing.assert_array_equal(sample.noise, data.noise[kept])
    np.testing.assert_array_equal(sample.counts, 1.0)
    assert sample.n_points == 2000
    np.testing.assert_allclose(sample.points_at(np.arange(30)), 400)


@pytest.mark.parametrize("d", [2, 5])
def test_thinned_neighbourhoods_are_solved_on_the_side_that_their_points_will_be(monkeypatch, d):
    """What is left of a dense neighbourhood is fewer than the features, and kernel space would flatter them."""
    monkeypatch.setattr(thinning, "MAX_ROWS", 100)
    data = training(n=1500, d=d, width=1.5)
    features = LocalFeatures.of(KERNEL, (taylor.sample(d, 12 if d == 2 else 3),))
    either, features_only, kernel_only = (
        Candidate(1.0, plan, "")
        for plan in (
            Plan(KERNEL, 1.0, features),
            Plan(KERNEL, 1.0, features, either_side=False),
            Plan(KERNEL, 1.0, None),
        )
    )
    for neighbourhood in neighbourhoods_of(data, n=5):
        cell = cell_of(neighbourhood, 1.0)
        near = neighbourhood.near(either.plan, cell.center)
        n = neighbourhood.sample.points_at(near)
        assert either.plan.takes_kernel_space(len(near))
        assert not either.plan.takes_kernel_space(int(n))
        value = neighbourhood.divergence(either)
        np.testing.assert_allclose(value, neighbourhood.divergence(features_only), rtol=1e-12)
        assert np.abs(value / neighbourhood.divergence(kernel_only) - 1).min() > 1e-10
        cost = either.plan.features_cost(n) / cell.n_points + either.plan.prediction_cost()
        np.testing.assert_allclose(neighbourhood.cost(either), cost)
        np.testing.assert_allclose(neighbourhood.cost(kernel_only), kernel_cost(n) / cell.n_points + 2 * n**2)


# ---- subsets -----------------------------------------------------------------------------------------------------


def test_subsets_are_nested_and_share_their_probes(monkeypatch):
    monkeypatch.setattr("nearfield.local.one_center.SUBSET", 200)
    monkeypatch.setattr("nearfield.local.one_center.SUBSET_PROBES", 30)
    data = training(n=500, d=5)
    small, large = make_subsets(KERNEL, data, np.arange(0, 500, 2), np.random.RandomState(0))
    np.testing.assert_array_equal(small.probes, large.probes)
    np.testing.assert_array_equal(small.sample.X, large.sample.X[:100])
    assert len(large.sample.X) == 200
    origin = data.X.mean(axis=0)
    for subset in (small, large):
        sample = subset.sample
        np.testing.assert_allclose(sample.X, data.X[rows_of(subset)] - origin)
        exact = KernelSpace.from_points(KERNEL, sample.X, sample.y, sample.noise)
        mean, variance = exact.mean_and_variance(subset.probes)
        np.testing.assert_allclose(subset.reference.mean, mean, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(subset.reference.variance, variance, atol=1e-9)
        set_aside = {tuple(row) for row in np.round(subset.probes, 9).tolist()}
        assert not set_aside & {tuple(row) for row in np.round(sample.X, 9).tolist()}
        assert set_aside <= {tuple(row) for row in np.round(data.X[::2] - origin, 9).tolist()}
        assert len(set_aside) == 30


@pytest.mark.parametrize("d", [2, 3])
def test_averages_of_points_on_a_sheet_are_many_enough(d):
    rng = np.random.RandomState(0)
    X = np.column_stack([rng.uniform(-5, 5, (20_000, d - 1)), np.zeros(20_000)])
    sample = thinned(TrainingSet.of(X, np.ones((20_000, 1)), np.full(20_000, 0.1)))
    assert thinning.ENOUGH_AVERAGES <= len(sample.X) <= thinning.MAX_AVERAGES
    assert sample.counts.sum() == 20_000


def test_averages_are_over_cells_that_are_small_beside_the_length_scale():
    X = np.random.RandomState(0).uniform(-4, 4, (20_000, 2))
    sample = NeighbourhoodSample.of(X, np.arange(20_000.0)[:, None], np.full(20_000, 0.1))
    for length_scale in (0.8, 1.0):
        averages = thinning.thinned(sample, np.random.RandomState(0), length_scale)
        n_cells = np.ceil(8.0 / (thinning.SIDE * length_scale)) ** 2
        assert len(averages.X) == n_cells
        np.testing.assert_allclose(averages.counts @ averages.X / 20_000, X.mean(axis=0), atol=1e-12)


def test_fewer_points_than_neighbours_asked_for_are_all_taken():
    probed = neighbourhoods_of(training())[0]
    n = len(probed.sample.X)
    for count in (n, n + 1):
        plan = Plan(KERNEL, None, None, count=count)
        np.testing.assert_array_equal(np.sort(probed.near(plan, probed.probes[0])), np.arange(n))
