"""Features over a domain against the Gaussian they stand for."""

from itertools import pairwise

import numpy as np
import pytest

from nearfield.features import domain
from nearfield.features.domain import DomainFeatures, Interval

VARIANCE = 2.5
# Widths of the box, and length scales, column by column.
BOXES = {
    "one column": ([20.0], [1.0]),
    "one short scale": ([9.0], [0.2]),
    "plane": ([10.0, 10.0], [2.0, 2.0]),
    "plane, a scale per column": ([6.0, 40.0], [1.0, 8.0]),
    "space": ([6.0, 6.0, 6.0], [3.0, 4.0, 5.0]),
    "five columns": ([4.0] * 5, [6.0, 8.0, 10.0, 12.0, 7.0]),
}


def gaussian(X, Y, length_scales, variance=VARIANCE):
    return variance * np.exp(-0.5 * np.sum(((X[:, None] - Y) / length_scales) ** 2, axis=2))


def box(name):
    width, length_scales = (np.array(each) for each in BOXES[name])
    low = np.linspace(-3.0, 1.0, len(width))
    return low, low + width, length_scales


def covering(name, lack, most=2000, variance=VARIANCE):
    low, high, length_scales = box(name)
    return DomainFeatures.covering(low, high, length_scales, variance, lack, most)


def inside(name, n=700, seed=0):
    low, high, _ = box(name)
    return np.random.RandomState(seed).uniform(low, high, (n, len(low)))


@pytest.mark.parametrize("lack", [1e-2, 1e-5, 1e-9, 1e-12])
@pytest.mark.parametrize("name", BOXES)
def test_features_lack_of_the_kernel_what_they_were_allowed_to(name, lack):
    features, X = covering(name, lack), inside(name)
    rows = features(X)
    error = (gaussian(X, X, box(name)[2]) - rows @ rows.T) / VARIANCE
    missing = np.diagonal(error)
    # Less than 20 % more than allowed, since the mean over the box is taken from few places.
    assert missing.mean() <= 1.2 * lack
    assert np.max(missing) <= 40 * lack  # at the corners
    assert np.min(missing) >= -1e-13  # features never hold more variance than there is
    # What is left out is orthogonal over the box: its mean square is at most the square of what is missing.
    assert np.sqrt(np.mean(error**2)) <= lack
    assert np.abs(error).max() <= 1.001 * missing.max() + 1e-13


@pytest.mark.parametrize("name", BOXES)
def test_they_are_as_few_as_that_takes(name):
    features, X = covering(name, 1e-5), inside(name, 3000)
    fewer = features(X)[:, :-3]
    assert 1 - np.mean(np.sum(fewer**2, axis=1)) / VARIANCE > 1e-5
    # No other functions do it with fewer than the principal ones of the kernel itself.
    values = np.linalg.eigvalsh(gaussian(X[:900], X[:900], box(name)[2]) / (900 * VARIANCE))[::-1]
    least = int(np.searchsorted(np.cumsum(values), 1 - 1e-5)) + 1
    assert features.n_components <= 1.25 * least + 2


def test_the_largest_come_first_and_are_orthogonal_over_the_box():
    features = covering("plane, a scale per column", 1e-5)
    low, high, _ = box("plane, a scale per column")
    axes = (np.linspace(a, b, 160) for a, b in zip(low, high, strict=True))
    rows = features(np.stack(np.meshgrid(*axes), axis=-1).reshape(-1, 2))
    gram = rows.T @ rows / len(rows) / VARIANCE
    squares = np.diagonal(gram)
    assert np.all(np.diff(squares) <= 0.02 * squares[:-1])
    off = gram - np.diag(squares)
    assert np.abs(off).max() < 0.02


def test_columns_share_what_there_is():
    interval = Interval.of(0.0, 12.0, 1.5)
    assert interval.shares.sum() == pytest.approx(1.0, abs=1e-12)
    assert np.all(interval.shares >= 0)
    assert np.all(np.diff(interval.shares) <= 0)
    x = np.linspace(0, 12, 50)
    rows = interval(x).T
    np.testing.assert_allclose(rows @ rows.T, gaussian(x[:, None], x[:, None], 1.5, 1.0), atol=1e-12)


def test_features_fade_away_outside_of_the_box():
    low, high, length_scales = box("plane")
    features = covering("plane", 1e-6)
    middle = 0.5 * (low + high)
    for steps, most in [(0.0, 1.0), (4.0, 0.1), (8.0, 1e-9), (40.0, 1e-100), (1e6, 0.0)]:
        place = np.array([[high[0] + steps * length_scales[0], middle[1]]])
        held = float(np.sum(features(place) ** 2)) / VARIANCE
        assert held <= most
        assert np.isfinite(held)
    # Just beyond the edge they still hold nearly all.
    near = np.array([[high[0] + 0.5 * length_scales[0], middle[1]]])
    assert float(np.sum(features(near) ** 2)) / VARIANCE > 0.9


def test_outside_they_never_hold_more_than_the_prior():
    for name in BOXES:
        low, high, length_scales = box(name)
        rng = np.random.RandomState(1)
        X = rng.uniform(low - 6 * length_scales, high + 6 * length_scales, (2000, len(low)))
        assert np.max(np.sum(covering(name, 1e-6)(X) ** 2, axis=1)) <= VARIANCE * (1 + 1e-9)


@pytest.mark.parametrize("name", BOXES)
def test_too_many_are_refused(name):
    n = covering(name, 1e-5).n_components
    assert covering(name, 1e-5, most=n).n_components == n
    assert covering(name, 1e-5, most=n - 1) is None


def test_a_domain_that_is_far_too_wide_is_refused_before_anything_is_made(monkeypatch):
    monkeypatch.setattr(Interval, "of", None)
    assert DomainFeatures.covering(np.zeros(2), np.full(2, 1e9), np.ones(2), 1.0, 1e-4, 1000) is None
    assert DomainFeatures.covering(np.zeros(1), np.full(1, 1e300), np.ones(1), 1.0, 1e-4, 1000) is None


@pytest.mark.parametrize("width", [[180.0], [350.0, 0.1], [1400.0, 0.1, 0.1, 0.1]])
def test_no_lattice_has_many_more_points_than_features_are_allowed(monkeypatch, width):
    """A matrix of the lattice is factorised: where one column alone asks for too many features, that is in vain."""
    most, original = 50, Interval.of.__func__

    def of(cls, low, high, length_scale):
        assert (high - low) / (domain.STEP * length_scale) <= 6 * most
        return original(cls, low, high, length_scale)

    monkeypatch.setattr(Interval, "of", classmethod(of))
    assert DomainFeatures.covering(np.zeros(len(width)), np.array(width), np.ones(len(width)), 1.0, 1e-3, most) is None


def test_their_number_grows_with_the_domain_and_falls_with_the_length_scale():
    def number(width, length_scale, lack=1e-4):
        found = DomainFeatures.covering(np.zeros(2), np.full(2, width), np.full(2, length_scale), 1.0, lack, 5000)
        return found.n_components

    by_width = [number(width, 1.0) for width in (0.1, 1.0, 3.0, 6.0, 12.0)]
    assert all(a < b for a, b in pairwise(by_width))
    by_scale = [number(6.0, length_scale) for length_scale in (0.5, 1.0, 2.0, 6.0, 60.0)]
    assert all(a > b for a, b in pairwise(by_scale))
    by_lack = [number(6.0, 1.0, lack) for lack in (1e-1, 1e-2, 1e-4, 1e-8)]
    assert all(a < b for a, b in pairwise(by_lack))
    # Nothing but the ratio matters.
    assert number(6.0, 1.0) == number(6e5, 1e5)


def test_a_place_is_a_domain_too():
    """All data at one place, or constant in a column."""
    features = DomainFeatures.covering(np.array([2.0]), np.array([2.0]), np.array([1.0]), VARIANCE, 1e-6, 100)
    assert features.n_components == 1
    np.testing.assert_allclose(np.sum(features(np.array([[2.0]])) ** 2), VARIANCE, rtol=1e-5)
    flat = DomainFeatures.covering(np.zeros(2), np.array([10.0, 0.0]), np.array([1.0, 1.0]), VARIANCE, 1e-6, 100)
    line = DomainFeatures.covering(np.zeros(1), np.array([10.0]), np.array([1.0]), VARIANCE, 1e-6, 100)
    assert flat.n_components == line.n_components


def test_one_length_scale_serves_all_columns():
    low, high = np.zeros(3), np.full(3, 4.0)
    shared = DomainFeatures.covering(low, high, np.array([5.0]), VARIANCE, 1e-6, 500)
    each = DomainFeatures.covering(low, high, np.full(3, 5.0), VARIANCE, 1e-6, 500)
    X = np.random.RandomState(0).uniform(0, 4, (20, 3))
    np.testing.assert_array_equal(shared(X), each(X))


def test_variance_scales_them():
    X = inside("plane", 50)
    one, four = (covering("plane", 1e-4, variance=variance)(X) for variance in (1.0, 4.0))
    np.testing.assert_allclose(four, 2.0 * one, rtol=1e-12)


def test_no_points_give_no_rows():
    features = covering("plane", 1e-4)
    assert features(np.empty((0, 2))).shape == (0, features.n_components)


@pytest.mark.parametrize("name", ["one column", "plane, a scale per column", "five columns"])
def test_tensors_give_what_arrays_give(name):
    torch = pytest.importorskip("torch")
    features, X = covering(name, 1e-6), inside(name, 200)
    expected = features(X)
    found = features(torch.as_tensor(X))
    assert isinstance(found, torch.Tensor)
    assert found.dtype == torch.float64
    np.testing.assert_allclose(found.numpy(), expected, atol=1e-12)
    single = features(torch.as_tensor(X, dtype=torch.float32))
    assert single.dtype == torch.float32
    rows = single.numpy().astype(np.float64)
    np.testing.assert_allclose(rows @ rows.T, expected @ expected.T, atol=1e-5 * VARIANCE)
