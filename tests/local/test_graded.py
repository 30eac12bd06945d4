"""Cells that cover a box, and the weights of those around a place."""

import warnings

import numpy as np
import pytest
from scipy.spatial import cKDTree

from nearfield.local import graded
from nearfield.local.centers import Placement

COUNT, NEAR = 20, 0.4
SETS = {
    "uniform": lambda rng: rng.uniform(0, 10, (1500, 2)),
    "a hole": lambda rng: (X := rng.uniform(0, 10, (1500, 2)))[np.linalg.norm(X - 5, axis=1) > 2.5],
    "dense and sparse": lambda rng: rng.uniform(0, 10, (1500, 2)) * rng.uniform(0, 1, (1500, 1)) ** 3,
    "two clusters": lambda rng: np.concatenate([rng.normal(0, 0.1, (400, 2)), rng.normal(8, 1, (400, 2))]),
    "long and thin": lambda rng: rng.uniform(0, 1, (800, 2)) * [200.0, 0.5],
    "a line": lambda rng: np.outer(rng.uniform(0, 10, 500), [1.0, 0.0]),
    "an oblique line": lambda rng: np.outer(rng.uniform(0, 10, 500), [1.0, 2.0]),
    "one column": lambda rng: rng.uniform(0, 10, (300, 1)) ** 2,
    "space": lambda rng: rng.uniform(0, 4, (1500, 3)),
    "one place": lambda _: np.full((500, 2), 3.0),
    "few places": lambda rng: np.repeat(rng.uniform(0, 10, (5, 2)), 100, axis=0),
    "duplicates": lambda rng: np.repeat(rng.uniform(0, 10, (300, 2)), 3, axis=0),
    "fewer points than neighbours": lambda rng: rng.uniform(0, 10, (7, 2)),
    "one point": lambda _: np.array([[3.0, 4.0]]),
}


def points(name):
    return SETS[name](np.random.RandomState(0))


def box_of(X, longest=3.0):
    return graded.covering_box(X, np.array([[1.0], [longest]]))


def all_cells(X, count=COUNT, near=NEAR):
    low, high = box_of(X)
    return graded.cells(low, high, cKDTree(X), count, near, 1)


def shapes_of(low, high, smallest):
    """Widths (L, d) of cells of all sizes: of each there is one shape only, half of the one before."""
    width, shapes = high - low, []
    while not shapes or 0.5 * np.linalg.norm(shapes[-1]) > smallest * (1 + 1e-9):
        shapes.append(width.copy())
        width[np.argmax(width)] *= 0.5
    return np.array(shapes)


def levels_of(halves, shapes):
    """Which of the shapes cells with these half diagonals have."""
    sizes = 0.5 * np.linalg.norm(shapes, axis=1)
    levels = np.argmin(np.abs(sizes - halves[:, None]), axis=1)
    np.testing.assert_allclose(sizes[levels], halves, rtol=1e-12)
    return levels


def widths_of(halves, low, high):
    """Widths (C, d) of cells with these half diagonals."""
    shapes = shapes_of(low, high, halves.min())
    return shapes[levels_of(halves, shapes)]


def random_places(X, n=300, seed=1):
    low, high = box_of(X)
    return np.random.RandomState(seed).uniform(low, high, (n, X.shape[1]))


# ---- cells ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SETS)
def test_cells_cover_the_box_without_overlap(name):
    X = points(name)
    low, high = box_of(X)
    middles, halves = all_cells(X)
    widths = widths_of(halves, low, high)
    assert np.prod(widths, axis=1).sum() == pytest.approx(np.prod(high - low), rel=1e-9)
    places = random_places(X)
    inside = np.all(np.abs(places[:, None] - middles) <= 0.5 * widths, axis=2)
    np.testing.assert_array_equal(inside.sum(axis=1), 1)


@pytest.mark.parametrize("name", SETS)
def test_places_are_told_the_cell_they_are_in(name):
    X = points(name)
    low, high = box_of(X)
    middles, halves = all_cells(X)
    places = np.concatenate([random_places(X), X[:50], [low, high]])
    own, own_halves = graded.cells_of(low, high, cKDTree(X), COUNT, NEAR, places)
    assert own.shape == places.shape
    widths = widths_of(own_halves, low, high)
    assert np.all(np.abs(places - own) <= 0.5 * widths * (1 + 1e-9) + 1e-12)
    # They are among all cells.
    distances, number = cKDTree(middles).query(own)
    np.testing.assert_allclose(distances, 0.0, atol=1e-12)
    np.testing.assert_allclose(halves[number], own_halves, rtol=1e-12)


@pytest.mark.parametrize("count", [5, 20, 60])
@pytest.mark.parametrize("name", ["uniform", "a hole", "two clusters", "duplicates", "one column", "space"])
def test_cells_are_as_large_as_the_rule_allows(name, count):
    X = points(name)
    low, high = box_of(X)
    middles, halves = all_cells(X, count)
    tree, k = cKDTree(X), min(count, len(X))

    def allowed(middles):
        first, last = tree.query(middles, [1, k])[0].T
        return NEAR * (last - first) + graded.IN_GAPS * first

    assert np.all((halves <= graded.SMALLEST) | (halves <= allowed(middles) * (1 + 1e-9)))
    # The cell that each is half of would have been too large.
    shapes = shapes_of(low, high, halves.min())
    levels = levels_of(halves, shapes)
    assert levels.min() > 0
    parents = shapes[levels - 1]
    their_middles = low + (np.floor((middles - low) / parents) + 0.5) * parents
    their_halves = 0.5 * np.linalg.norm(parents, axis=1)
    assert np.all(their_halves > graded.SMALLEST)
    assert np.all(their_halves > allowed(their_middles) * (1 - 1e-9))


def test_cells_are_small_where_data_are_dense_and_large_in_gaps():
    X = points("a hole")
    middles, halves = all_cells(X)
    r = np.linalg.norm(middles - 5, axis=1)
    inside = np.all(np.abs(middles - 5) < 4, axis=1)
    assert halves[r < 1].min() > halves[inside & (r > 3.2)].max()


@pytest.mark.parametrize("name", ["one place", "few places", "duplicates"])
@pytest.mark.parametrize("count", [3, 20, 1000])
def test_points_at_the_same_place_end_the_halving(name, count):
    middles, halves = all_cells(points(name), count)
    assert np.all(halves > 0.4 * graded.SMALLEST)
    assert len(middles) <= 400 * len(np.unique(points(name), axis=0))


@pytest.mark.parametrize("name", SETS)
def test_the_box_holds_the_data_and_what_they_say_much_about(name):
    X = points(name)
    low, high = box_of(X, longest=3.0)
    assert np.all(low < X.min(axis=0))
    assert np.all(high > X.max(axis=0))
    assert np.all(high - X.max(axis=0) <= graded.MARGIN * 3.0 + 1e-12)
    wide = np.ptp(X, axis=0) >= graded.MARGIN * 3.0
    np.testing.assert_allclose((high - X.max(axis=0))[wide], graded.MARGIN * 3.0)


# ---- weights -------------------------------------------------------------------------------------------------------


def placement_of(X):
    middles, halves = all_cells(X)
    return Placement(middles, None, None, sizes=halves)


def dense_weights(placement, places, blend=True):
    """Weights (m, C)."""
    counts, owner, values = graded.weights(placement, places, blend, 1)
    result = np.zeros((len(places), len(placement.centers)))
    np.add.at(result, (np.repeat(np.arange(len(places)), counts), owner), values)
    return result


@pytest.mark.parametrize("blend", [True, False])
@pytest.mark.parametrize("name", SETS)
def test_weights_sum_to_one(name, blend):
    X = points(name)
    places = np.concatenate([random_places(X), X[:50], random_places(X, 20) * 50])
    counts, owner, values = graded.weights(placement_of(X), places, blend, 1)
    assert counts.shape == (len(places),)
    assert counts.min() >= 1
    assert counts.sum() == len(owner) == len(values)
    assert values.min() > 0
    sums = np.add.reduceat(values, np.cumsum(counts) - counts)
    np.testing.assert_allclose(sums, 1.0, rtol=1e-12)
    if not blend:
        assert counts.max() == 1


@pytest.mark.parametrize("blend", [True, False])
def test_no_places_have_no_weights(blend):
    counts, owner, values = graded.weights(placement_of(points("uniform")), np.empty((0, 2)), blend, 1)
    assert len(counts) == len(owner) == len(values) == 0


@pytest.mark.parametrize(
    "blend",
    [
        pytest.param(True),
        False,
    ],
)
@pytest.mark.parametrize("name", ["uniform", "one column", "one point"])
def test_a_centre_answers_for_its_own_place(name, blend):
    placement = placement_of(points(name))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        counts, owner, _ = graded.weights(placement, placement.centers, blend, 1)
    np.testing.assert_array_equal(counts, 1)
    np.testing.assert_array_equal(owner, np.arange(len(owner)))


@pytest.mark.parametrize("name", SETS)
def test_without_blending_the_nearest_centre_in_half_diagonals_answers(name):
    placement, places = placement_of(points(name)), random_places(points(name))
    _, owner, _ = graded.weights(placement, places, False, 1)
    distances = np.sqrt(np.sum((places[:, None] - placement.centers) ** 2, axis=2)) / placement.sizes
    chosen = distances[np.arange(len(places)), owner]
    # Few places have a larger cell a little nearer, behind a row of small ones.
    assert np.mean(chosen <= distances.min(axis=1) * (1 + 1e-9)) > 0.95


@pytest.mark.parametrize("name", SETS)
def test_weights_are_continuous_along_a_walk(name):
    """On ever finer walks, the largest change goes to zero with the step."""
    X = points(name)
    low, high = box_of(X)
    placement, rng = placement_of(X), np.random.RandomState(3)
    for _ in range(3 if X.shape[1] < 3 else 1):
        start, end = rng.uniform(low, high, (2, X.shape[1]))
        places = start + np.linspace(0, 1, 2000)[:, None] * (end - start)
        W = dense_weights(placement, places)
        i = int(np.argmax(np.abs(np.diff(W, axis=0)).sum(axis=1)))
        for _ in range(3):  # look closer where the change is largest
            a, b = places[i], places[i + 1]
            places = a + np.linspace(0, 1, 200)[:, None] * (b - a)
            change = np.abs(np.diff(dense_weights(placement, places), axis=0)).sum(axis=1)
            i = int(np.argmax(change))
        assert change[i] < 1e-3
