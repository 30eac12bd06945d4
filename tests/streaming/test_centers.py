import numpy as np
import pytest

from nearfield.common import memory
from nearfield.local.blending import SLACK, weights_of_cells
from nearfield.local.centers import Lattice, place
from nearfield.sources import Batch
from nearfield.streaming.centers import Cells, FurtherCenters, grid, model_bytes, opened_cells

UNIT = np.array([2.0])


def make_points(n=600, d=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(0, 24, (n, d))
    return X[np.linalg.norm(X - 12, axis=1) > 5]


def as_batch(X):
    return Batch(X, np.zeros((len(X), 1)), None, np.arange(len(X)))


def cells_of(X, lattice, cuts=(0,)):
    cells = Cells(lattice, UNIT)
    state = cells.start()
    for part in np.array_split(X, 1 + len(cuts)):
        state = cells.update(state, as_batch(part))
    return state


@pytest.mark.parametrize("d", [1, 2, 3])
def test_cells_and_centres_are_those_of_all_points_at_once(d):
    X = make_points(400, d)
    expected = place("grid", X / UNIT, 1.5, None, np.random.RandomState(0))
    occupied = cells_of(X, expected.lattice, (0, 0, 0))
    found = grid(occupied, expected.lattice, 1.5)
    np.testing.assert_array_equal(found.cells, expected.cells)
    np.testing.assert_array_equal(found.centers, expected.centers)
    assert occupied.counts.sum() == len(X)


def test_lattices_from_extents_are_those_from_points():
    for X in (make_points(), np.concatenate([make_points(), [[1e13, 0.0]]])):
        whole = Lattice.covering(X, 1.0)
        part = Lattice.covering_box(X.min(axis=0), X.max(axis=0), lambda X=X: np.median(X, axis=0), 1.0)
        np.testing.assert_array_equal(part.origin, whole.origin)


@pytest.mark.parametrize("radius", [0.8, 2.0, 5.0])
def test_neighbours_are_bounded_on_both_sides(radius):
    X = make_points()
    lattice = Lattice.covering(X / UNIT, 1.5)
    where = np.random.default_rng(1).uniform(-3, 15, (200, 2))
    least, most = cells_of(X, lattice).neighbours(lattice, where, radius)
    counts = np.sum(np.linalg.norm(where[:, None] - X / UNIT, axis=2) <= radius, axis=1)
    assert np.all((least <= counts) & (counts <= most))
    assert np.any(most < len(X))
    if radius > 4:
        assert np.any(least > 0)


@pytest.mark.parametrize("blended", [False, True])
@pytest.mark.parametrize("d", [1, 2, 3])
def test_every_place_that_may_be_asked_for_is_opened(d, blended):
    X = make_points(300, d) / UNIT
    placement = place("grid", X, 1.5, None, np.random.RandomState(0))
    lattice, radius = placement.lattice, 2.5
    opened = set(map(tuple, opened_cells(placement, cells_of(X * UNIT, lattice), radius, blended).tolist()))
    test = np.random.default_rng(1).uniform(-5, 17, (5000, d))
    far = np.linalg.norm(test[:, None] - placement.centers, axis=2).min(axis=1) > SLACK * 1.5
    middles = lattice.middles(lattice.cells(test[far]))
    if blended:
        middles = np.concatenate([each for _, each, _ in weights_of_cells(lattice, test[far])])
    in_reach = np.linalg.norm(middles[:, None] - X, axis=2).min(axis=1) <= radius
    needed = set(map(tuple, lattice.cells(middles[in_reach]).tolist()))
    assert needed
    assert needed <= opened


def test_cells_that_centres_cover_are_not_opened():
    X = np.stack(np.meshgrid(*2 * [np.linspace(0.0, 7.99 * 1.5 * 2**0.5, 300)]), axis=-1).reshape(-1, 2)
    placement = place("grid", X, 1.5, None, np.random.RandomState(0))
    occupied = cells_of(X * UNIT, placement.lattice)
    inner = {(i, j) for i in range(1, 7) for j in range(1, 7)}
    border = {(i, j) for i in range(8) for j in range(8)} - inner
    beyond = {(i, j) for i in range(-1, 9) for j in range(-1, 9)} - inner - border
    assert set(map(tuple, occupied.cells.tolist())) == inner | border
    for blended, expected in ((False, beyond), (True, beyond | border)):
        opened = opened_cells(placement, occupied, 2.5, blended)
        assert set(map(tuple, opened.tolist())) == expected


def test_a_net_covers_what_comes():
    X = make_points(1500, 4) / UNIT
    start = X[:3]
    net = FurtherCenters(start, 3.0, UNIT)
    halves = [net.update(net.start(), as_batch(part * UNIT)) for part in np.array_split(X, 2)]
    centers = np.concatenate([start, net.merge(*halves)])
    assert np.linalg.norm(X[:, None] - centers, axis=2).min(axis=1).max() <= 3.0
    one = net.start()
    for part in np.array_split(X, 5):
        one = net.update(one, as_batch(part * UNIT))
    both = np.concatenate([start, one])
    assert np.linalg.norm(X[:, None] - both, axis=2).min(axis=1).max() <= 3.0
    # No two of the centres opened in one run are close.
    distances = np.linalg.norm(one[:, None] - one, axis=2) + 9 * np.eye(len(one))
    assert distances.min() > 3.0


def test_memory_of_models():
    few, many = np.array([10.0]), np.array([1e6])
    assert model_bytes(many, many, 50, 900, 4) == 8 * 30 * 38
    assert model_bytes(few, few, 50, 900, 4) == 8 * 10 * 18
    # Where it may be either, the larger.
    assert model_bytes(few, many, 50, 900, 4) == 8 * 50 * 58


def test_too_many_cells_are_refused(monkeypatch):
    X = make_points()
    monkeypatch.setattr(memory, "available", lambda: 10_000)
    with pytest.raises(MemoryError, match=r"A lattice with \d+ occupied cells so far needs .*longer length scale"):
        cells_of(X, Lattice.covering(X / UNIT, 0.1))


def test_places_beyond_the_centres_are_refused_where_they_are_too_many(monkeypatch):
    X = make_points() / UNIT
    placement = place("grid", X, 1.5, None, np.random.RandomState(0))
    occupied = cells_of(X * UNIT, placement.lattice)
    monkeypatch.setattr(memory, "available", lambda: 10_000)
    with pytest.raises(MemoryError, match="open_centers=False leaves them out"):
        opened_cells(placement, occupied, 5.0, blended=False)
