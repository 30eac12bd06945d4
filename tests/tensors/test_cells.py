import numpy as np
import pytest

torch = pytest.importorskip("torch")

from types import SimpleNamespace

from scipy.spatial import cKDTree

from nearfield.local.centers import Lattice, place
from nearfield.tensors import cells
from nearfield.tensors.models import _extended


def points(n, d, seed=0, side=8.0):
    return np.random.RandomState(seed).uniform(-1, side, (n, d))


def lists(found):
    return [found.points[s : s + c].tolist() for s, c in zip(found.starts, found.counts, strict=True)]


@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize("side", [0.4, 1.0, 2.7])
def test_neighbourhoods_are_those_of_a_tree(d, side):
    X, centers = points(400, d), points(60, d, 1, 12.0)
    index = cells.CellIndex(torch.as_tensor(X), side)
    found = index.within(torch.as_tensor(centers), 1.3, index.strips(torch.as_tensor(centers), 1.3))
    for own, wanted in zip(lists(found), cKDTree(X).query_ball_point(centers, 1.3), strict=True):
        assert sorted(index.order[own].tolist()) == sorted(wanted)


def test_brute_force_finds_the_same():
    X, centers = points(200, 5), points(30, 5, 1)
    found = cells.brute_force(torch.as_tensor(X), torch.as_tensor(centers), 3.0)
    for own, wanted in zip(lists(found), cKDTree(X).query_ball_point(centers, 3.0), strict=True):
        assert sorted(own) == sorted(wanted)
    nearest = cells.nearest_points(torch.as_tensor(X), torch.as_tensor(centers), 7).numpy()
    np.testing.assert_array_equal(np.sort(nearest), np.sort(cKDTree(X).query(centers, 7)[1]))


@pytest.mark.parametrize("d", [1, 2, 3])
def test_centres_on_a_lattice_are_those_of_numpy(d):
    X = points(500, d)
    expected, found = place("grid", X, 1.2, None, None), cells.place(torch.as_tensor(X), 1.2)
    np.testing.assert_allclose(found.centers.numpy(), expected.centers, rtol=1e-15)
    assert found.lattice.side == expected.lattice.side
    np.testing.assert_array_equal(found.lattice.origin, expected.lattice.origin)


@pytest.mark.parametrize("d", [1, 2, 3])
def test_the_nearest_centre_is_found_by_its_cell(d):
    X, queries = points(300, d), torch.as_tensor(points(400, d, 1, 12.0))
    placement = cells.place(torch.as_tensor(X), 1.2)
    distance, owner = cells.CellLookup(placement.lattice, placement.centers).nearest(queries)
    wanted_distance, wanted = cKDTree(placement.centers.numpy()).query(queries.numpy())
    near = wanted_distance <= 1.2
    assert 0 < near.sum() < len(near)
    np.testing.assert_array_equal(owner.numpy()[near], wanted[near])
    np.testing.assert_allclose(distance.numpy()[near], wanted_distance[near])
    assert np.all(distance.numpy()[~near] > 1.2)
    brute = cells.nearest_center(placement.centers, queries)
    np.testing.assert_array_equal(brute[1].numpy(), wanted)


def test_an_outlier_takes_the_median_as_origin():
    X = np.concatenate([points(100, 2), [[1e14, 0.0]]])
    expected, found = Lattice.covering(X, 1.0), cells.covering(torch.as_tensor(X), 1.0)
    assert found.side == expected.side
    np.testing.assert_allclose(found.origin, expected.origin)


def test_chunks_cover_everything_and_stay_below_the_limit():
    sizes = np.array([5, 1, 9, 30, 2, 2, 2])
    parts = cells.chunks_by_total(sizes, 10)
    assert [i for part in parts for i in range(part.start, part.stop)] == list(range(7))
    assert all(sizes[part].sum() <= 10 or part.stop - part.start == 1 for part in parts)


@pytest.mark.parametrize("count", [1, 9, 500])
def test_where_the_radius_holds_too_few_the_nearest_are_taken(count):
    X, centers, radius = points(120, 2), points(40, 2, 1, 12.0), 1.2
    tree = cKDTree(X)
    within = tree.query_ball_point(centers, radius)
    counts = torch.tensor([len(own) for own in within])
    assert 0 < (counts < 9).sum() < len(counts)
    found = cells.Neighbourhoods.of(torch.tensor([i for own in within for i in own]), counts)
    plan, data = SimpleNamespace(count=count), SimpleNamespace(X=torch.as_tensor(X))
    extended = lists(_extended(plan, data, torch.as_tensor(centers), found))
    for own, near, center in zip(extended, within, centers, strict=True):
        enough = len(near) >= min(count, len(X))
        assert sorted(own) == sorted(near if enough else tree.query(center, range(1, min(count, len(X)) + 1))[1])
