"""Places where predictions are asked for."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from nearfield.local import neighbourhoods
from nearfield.local.gaps import FAR, Places
from nearfield.local.neighbourhoods import TrainingSet

HOLE = 2.5


def places_of(X, *rest):
    return Places(TrainingSet.of(X, X[:, :1], np.ones(len(X))), *rest)


def with_a_hole(n=2500, d=2, seed=0):
    X = np.random.RandomState(seed).uniform(0, 10, (n, d))
    return X[np.linalg.norm(X - 5, axis=1) > HOLE]


def lattice(n=40, d=2):
    return np.stack(np.meshgrid(*[np.arange(float(n))] * d), axis=-1).reshape(-1, d)


def rng():
    return np.random.RandomState(1)


def test_usual_distance_is_that_of_nearly_all_neighbours():
    X = with_a_hole()
    distances = cdist(X, X)
    np.fill_diagonal(distances, np.inf)
    expected = np.quantile(distances.min(axis=1), 0.95)
    assert places_of(X).usual_distance == pytest.approx(expected, rel=0.05)
    assert places_of(lattice()).usual_distance == pytest.approx(1.0)


def test_usual_distance_of_many_points_is_from_a_sample_of_them():
    assert places_of(lattice(130)).usual_distance == pytest.approx(1.0)


@pytest.mark.parametrize("d", [1, 2, 3])
def test_distances_without_a_tree(d, monkeypatch):
    monkeypatch.setattr(neighbourhoods, "MANY", 0)
    X = np.concatenate([with_a_hole(d=d), np.full((5, d), 3.0)])
    places = np.concatenate([rng().uniform(-5, 15, (300, d)), X[:50], X[-2:], np.full((1, d), 1e3)])
    data = TrainingSet.of(X, X[:, :1], np.ones(len(X)))
    for k in (1, 2, 7):
        np.testing.assert_allclose(data.distances(places, k), np.sort(cdist(places, X))[:, k - 1], rtol=1e-12)
    alone = TrainingSet.of(X[:1], X[:1, :1], np.ones(1))
    np.testing.assert_allclose(alone.distances(places), cdist(places, X[:1])[:, 0])


def test_gaps_are_what_is_far_from_all_data():
    X = with_a_hole()
    places = rng().uniform(0, 10, (800, 2))
    found = places_of(X)
    expected = cdist(places, X).min(axis=1) > FAR * found.usual_distance
    np.testing.assert_array_equal(found.are_gaps(places), expected)
    assert not found.are_gaps(X).any()
    assert found.are_gaps(np.array([[5.0, 5.0], [100.0, 5.0]])).all()


@pytest.mark.parametrize("d", [1, 2, 3])
def test_places_in_gaps_lie_in_gaps_amid_the_data(d):
    X = with_a_hole(d=d, n=4000)
    found = places_of(X)
    places = found.in_gaps(100, rng())
    assert places.shape == (100, d)
    assert found.are_gaps(places).all()
    # On lines between points, and so never beyond them.
    assert np.all((places >= X.min(axis=0)) & (places <= X.max(axis=0)))
    # Most of what is empty is the hole; the rest are places between points of chance.
    in_hole = np.linalg.norm(places - 5, axis=1) < HOLE
    assert in_hole.mean() > 0.5


def test_data_without_gaps_have_no_places_in_them():
    assert places_of(lattice()).in_gaps(50, rng()).shape == (0, 2)


def test_repeated_measurements_make_no_gaps():
    assert places_of(np.repeat(lattice(), 2, axis=0)).in_gaps(50, rng()).shape == (0, 2)


def test_in_many_columns_gaps_are_not_known_unless_places_are_named():
    X = with_a_hole(d=4)
    assert places_of(X).in_gaps(50, rng()).shape == (0, 4)
    named = np.full((3, 4), 40.0)
    np.testing.assert_array_equal(places_of(X, named).in_gaps(50, rng()), named)


def test_places_that_are_named_are_the_only_ones():
    X, named = with_a_hole(), np.random.RandomState(2).uniform(0, 10, (300, 2))
    found = places_of(X, named)
    gaps, near = found.in_gaps(20, rng()), found.near_data(20, rng())
    assert len(gaps) == len(near) == 20
    assert found.are_gaps(gaps).all()
    assert not found.are_gaps(near).any()
    for each in (gaps, near):
        np.testing.assert_array_equal(cdist(each, named).min(axis=1), 0.0)
        assert len(np.unique(each, axis=0)) == len(each)
    # All of them, where they are asked for.
    together = np.concatenate([found.in_gaps(300, rng()), found.near_data(300, rng())])
    np.testing.assert_array_equal(np.unique(together, axis=0), np.unique(named, axis=0))


def test_places_named_may_all_be_near_the_data_or_all_in_gaps_or_none():
    X = with_a_hole()
    assert len(places_of(X, X[:50]).in_gaps(20, rng())) == 0
    assert len(places_of(X, X[:50]).near_data(20, rng())) == 20
    assert len(places_of(X, np.full((50, 2), 5.0)).near_data(20, rng())) == 0
    assert len(places_of(X, X[:0]).in_gaps(20, rng())) == 0
    assert len(places_of(X, X[:0]).near_data(20, rng())) == 0


def test_without_places_named_none_near_the_data_are():
    assert places_of(with_a_hole()).near_data(20, rng()).shape == (0, 2)


def test_the_seed_decides():
    X = with_a_hole()
    first, again, other = (places_of(X).in_gaps(20, np.random.RandomState(seed)) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


@pytest.mark.parametrize("X", [np.zeros((50, 2)), np.array([[0.0, 0.0], [1.0, 0.0]])])
def test_few_places_do_no_harm(X):
    places = places_of(X).in_gaps(10, rng())
    assert places.shape[1] == 2
    assert np.isfinite(places).all()


def test_a_raster_is_not_flat_whatever_the_order_of_its_rows():
    X = 0.4 * np.stack(np.meshgrid(np.arange(40.0), np.arange(100.0)), axis=-1).reshape(-1, 2)
    X = X[np.argsort(X[:, 1], kind="stable")]  # every fourth is in one of ten columns, all of them are in forty
    wide = np.stack(np.meshgrid(np.arange(4.0), np.arange(1000.0)), axis=-1).reshape(-1, 2)
    for each in (X, wide):
        assert len(places_of(each)._flat_directions()) == 0
