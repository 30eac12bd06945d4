import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import cdist

from nearfield.local.centers import Lattice, farthest_points, greedy_net, group_rows, kmeans, middles_of_groups, place


def points(n, d, seed=0):
    return np.random.RandomState(seed).uniform(-3, 5, (n, d))


def clustered(n, d, seed=0):
    """Clumps of very different density."""
    rng = np.random.RandomState(seed)
    middles = rng.uniform(-10, 10, (8, d))
    return middles[rng.randint(8, size=n)] + rng.standard_normal((n, d)) * 10.0 ** rng.uniform(-3, 0, (n, 1))


def reach(X, centers):
    """Largest distance of a point from its nearest centre."""
    return cdist(X, centers).min(axis=1).max()


def algorithm_1(X, threshold, n_centers=np.inf):
    """Lines of the paper's Algorithm 1 that find the centroids, with all distances computed each time."""
    C = [X.mean(axis=0)]
    while len(C) < n_centers:
        delta = cdist(X, np.array(C), "sqeuclidean").min(axis=1)
        if delta.max() < threshold**2:
            break
        C.append(X[np.argmax(delta)])
    return np.array(C)


# ---- farthest points ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sample", [points, clustered])
@pytest.mark.parametrize(("d", "threshold"), [(1, 0.05), (2, 0.8), (3, 1.5), (6, 4.0)])
def test_farthest_points_are_those_of_algorithm_1(sample, d, threshold):
    X = sample(600, d)
    expected = algorithm_1(X, threshold)
    found = farthest_points(X, threshold)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(found[0], X.mean(axis=0))
    assert reach(X, found) < threshold


def test_farthest_points_beyond_the_first_few_are_found_in_balls_only():
    X = points(2000, 2)
    found = farthest_points(X, 0.3)
    assert len(found) > 200  # so that the ball queries had their share
    np.testing.assert_array_equal(found, algorithm_1(X, 0.3))


def test_a_number_of_farthest_points_is_the_beginning_of_the_whole_sequence():
    X = points(500, 2)
    np.testing.assert_array_equal(farthest_points(X, None, 60), algorithm_1(X, 0.0, 60))
    np.testing.assert_array_equal(farthest_points(X, 0.5, 5), farthest_points(X, 0.5)[:5])


def test_the_threshold_is_strict():
    X = np.array([[-1.0], [1.0]])
    assert len(farthest_points(X, 1.0)) == 3  # "until every point is closer than theta"
    assert len(farthest_points(X, 1.0 + 1e-9)) == 1


def test_farthest_points_of_repeated_points_end():
    X = np.repeat(points(5, 2), 40, axis=0)
    assert len(farthest_points(X, None, 100)) == 6  # the mean and each place once
    assert len(farthest_points(np.ones((50, 3)), 1e-12)) == 1


# ---- nets, k-means ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sample", [points, clustered])
@pytest.mark.parametrize(("d", "threshold"), [(1, 0.1), (2, 0.7), (5, 3.0)])
def test_a_net_covers_the_points_and_its_centres_keep_apart(sample, d, threshold):
    X = sample(800, d)
    net = greedy_net(X, threshold, np.random.RandomState(0))
    assert reach(X, net) <= threshold
    apart = cdist(net, net)[~np.eye(len(net), dtype=bool)]
    assert apart.min() > threshold
    assert np.all(cdist(net, X).min(axis=1) == 0)  # they are points of the data


def test_a_net_depends_on_the_seed_alone():
    X = points(400, 3)
    nets = [greedy_net(X, 1.0, np.random.RandomState(seed)) for seed in (3, 3, 4)]
    np.testing.assert_array_equal(nets[0], nets[1])
    assert not np.array_equal(nets[0][:5], nets[2][:5])


def test_kmeans_finds_clumps():
    middles = np.array([[0.0, 0.0], [10.0, 0.0], [0.0, 10.0]])
    X = np.concatenate([m + 0.1 * points(100, 2, seed) for seed, m in enumerate(middles)])
    found = kmeans(X, 3, np.random.RandomState(0))
    means = np.array([X[i : i + 100].mean(axis=0) for i in (0, 100, 200)])
    assert cdist(means, found).min(axis=1).max() < 0.05


def test_kmeans_of_repeated_points_has_no_more_centres_than_places():
    X = np.repeat(points(4, 2), 30, axis=0)
    assert len(kmeans(X, 20, np.random.RandomState(0))) == 4


# ---- lattice ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sample", [points, clustered])
@pytest.mark.parametrize("d", [1, 2, 3])
def test_cells_reach_no_farther_than_the_threshold(sample, d):
    X = sample(1000, d)
    lattice = Lattice.covering(X, 0.9)
    cells = lattice.cells(X)
    assert np.linalg.norm(X - lattice.middles(cells), axis=1).max() <= 0.9 * (1 + 1e-12)
    corner = lattice.middles(cells) + 0.5 * lattice.side
    np.testing.assert_allclose(np.linalg.norm(corner - lattice.middles(cells), axis=1), 0.9)


def test_the_cell_of_a_point_does_not_depend_on_the_others():
    X = points(300, 3)
    lattice = Lattice.covering(X, 0.8)
    everywhere = np.random.RandomState(1).uniform(-50, 50, (400, 3))
    together = lattice.cells(everywhere)
    np.testing.assert_array_equal(together, np.concatenate([lattice.cells(x[None]) for x in everywhere]))
    # Nor on where they stand: the middle of a cell belongs to it.
    np.testing.assert_array_equal(lattice.cells(lattice.middles(together)), together)


def test_the_data_lie_evenly_in_whole_cells():
    X = np.array([[0.0, 0.0], [10.0, 3.0]])
    lattice = Lattice.covering(X, 2.0)
    number = lattice.cells(X[1:])[0] - lattice.cells(X[:1])[0] + 1
    before = X[0] - lattice.origin
    after = lattice.origin + number * lattice.side - X[1]
    np.testing.assert_allclose(before, after)
    assert np.all(before > 0)


def test_occupied_cells_are_those_of_the_points():
    X = clustered(500, 2)
    lattice = Lattice.covering(X, 0.5)
    cells, owner = lattice.occupied(X)
    np.testing.assert_array_equal(cells[owner], lattice.cells(X))
    assert len(cells) == len({tuple(cell) for cell in lattice.cells(X).tolist()})


def test_cells_of_far_points_do_not_overflow():
    lattice = Lattice.covering(points(50, 2), 1e-3)
    cells = lattice.cells(np.array([[1e300, -1e300], [0.0, 0.0]]))
    assert cells[0, 0] > 0 > cells[0, 1]
    assert cells[1].max() < 2**40


@pytest.mark.parametrize("outlier", [1e12, -1e12, 1e20, -1e38, 1e100])
def test_an_outlier_does_not_cost_the_others_their_cells(outlier):
    X = points(300, 2)
    with_outlier = np.vstack([X, [[outlier, 0.0]]])
    lattice = Lattice.covering(with_outlier, 0.5)
    cells = lattice.cells(X)
    assert np.linalg.norm(X - lattice.middles(cells), axis=1).max() < 0.501
    placement = place("grid", with_outlier, 0.5, None, np.random.RandomState(0))
    assert reach(with_outlier, placement.centers) < 0.501


def test_one_place_is_one_cell():
    cells, owner = Lattice.covering(np.ones((20, 2)), 0.3).occupied(np.ones((20, 2)))
    assert len(cells) == 1
    assert np.all(owner == 0)


def test_middles_of_groups_are_those_of_their_bounding_boxes():
    X = clustered(300, 2)
    owner = np.random.RandomState(2).randint(7, size=300)
    expected = [(X[owner == g].min(axis=0) + X[owner == g].max(axis=0)) / 2 for g in range(7)]
    np.testing.assert_allclose(middles_of_groups(X, owner, 7), expected, rtol=1e-15)


@given(
    st.integers(1, 5).flatmap(
        lambda d: st.lists(st.tuples(*[st.integers(-(2**40), 2**40) | st.integers(-2, 2)] * d), min_size=1, max_size=30)
    )
)
def test_grouping_rows_equals_numpy_unique(rows):
    rows = np.array(rows, dtype=np.int64)
    distinct, owner = group_rows(rows)
    expected, inverse = np.unique(rows, axis=0, return_inverse=True)
    np.testing.assert_array_equal(distinct, expected)
    np.testing.assert_array_equal(owner, inverse.reshape(-1))


def test_grouping_no_rows():
    distinct, owner = group_rows(np.empty((0, 3), dtype=np.int64))
    assert distinct.shape == (0, 3)
    assert owner.shape == (0,)


# ---- every kind ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["grid", "net", "farthest", "auto"])
@pytest.mark.parametrize("d", [1, 2, 4])
def test_kinds_that_promise_a_covering_keep_it(kind, d):
    X = clustered(700, d)
    placement = place(kind, X, 0.7, None, np.random.RandomState(0))
    assert reach(X, placement.centers) <= 0.7 * (1 + 1e-12)
    assert placement.spacing == 0.7
    assert placement.lattice is not None


def test_grid_has_one_centre_a_cell_and_auto_takes_it_up_to_three_columns():
    for d in (1, 2, 3):
        X = clustered(400, d)
        placement = place("auto", X, 0.6, None, np.random.RandomState(0))
        assert placement.cells is not None
        assert len(placement.cells) == len(placement.centers)
        np.testing.assert_array_equal(placement.centers, place("grid", X, 0.6, None, np.random.RandomState(0)).centers)
    X = clustered(400, 4)
    net = place("auto", X, 0.6, None, np.random.RandomState(0))
    np.testing.assert_array_equal(net.centers, greedy_net(X, 0.6, np.random.RandomState(0)))
    assert net.cells is None


def test_centres_of_a_grid_are_no_farther_from_their_points_than_the_middles_of_cells():
    X = clustered(500, 2)
    placement = place("grid", X, 1.0, None, np.random.RandomState(0))
    cells, owner = placement.lattice.occupied(X)
    np.testing.assert_array_equal(cells, placement.cells)
    ours = np.linalg.norm(X - placement.centers[owner], axis=1)
    for g in range(len(cells)):
        middle = placement.lattice.middles(cells[g : g + 1])
        assert ours[owner == g].max() <= np.linalg.norm(X[owner == g] - middle, axis=1).max() + 1e-12


def test_kinds_with_a_number():
    X = points(300, 2)
    random = place("random", X, None, 12, np.random.RandomState(0)).centers
    assert len(np.unique(random, axis=0)) == 12
    assert cdist(random, X).min(axis=1).max() == 0
    assert place("kmeans", X, None, 12, np.random.RandomState(0)).centers.shape == (12, 2)
    np.testing.assert_array_equal(
        place("farthest", X, None, 12, np.random.RandomState(0)).centers, algorithm_1(X, 0.0, 12)
    )
    np.testing.assert_array_equal(place(12, X, None, None, np.random.RandomState(0)).centers, algorithm_1(X, 0.0, 12))
    assert len(place("random", X, None, 1000, np.random.RandomState(0)).centers) == 300


def test_centres_given_are_taken():
    given_centers = points(4, 2, seed=9)
    placement = place(given_centers, points(100, 2), 1.0, None, np.random.RandomState(0))
    np.testing.assert_array_equal(placement.centers, given_centers)


def test_one_centre_is_the_mean():
    X = points(100, 3)
    for kind, spacing in (("mean", 1.0), ("mean", None), ("auto", None), ("grid", None), ("net", None)):
        placement = place(kind, X, spacing, None, np.random.RandomState(0))
        np.testing.assert_array_equal(placement.centers, X.mean(axis=0)[None])


def test_centres_at_the_test_points_are_not_known_before():
    placement = place("test", points(100, 3), 1.0, None, np.random.RandomState(0))
    assert placement.centers.shape == (0, 3)


@pytest.mark.parametrize("kind", ["grid", "net", "farthest", "kmeans", "random"])
def test_the_same_seed_gives_the_same_centres(kind):
    X = clustered(400, 2)
    twice = [place(kind, X, 0.8, 15, np.random.RandomState(5)).centers for _ in range(2)]
    np.testing.assert_array_equal(*twice)


@pytest.mark.parametrize("kind", ["grid", "net", "farthest", "kmeans", "random", 7])
def test_points_are_left_as_they_are(kind):
    X = clustered(200, 2)
    before = X.copy()
    X.setflags(write=False)
    place(kind, X, 0.8, 10, np.random.RandomState(0))
    np.testing.assert_array_equal(X, before)
