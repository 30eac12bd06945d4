from itertools import combinations, pairwise
from math import factorial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearfield.features import sketch, taylor
from nearfield.features.allocation import (
    DegreeErrors,
    degree_errors,
    monomials_alone,
    optimal,
    optimal_counts,
    random_counts,
)

SAMPLINGS = ["gaussian", "rademacher", "tensor_srht"]


def points(m, d, scale=0.6, seed=0):
    return scale * np.random.RandomState(seed).standard_normal((m, d))


def distinct_pairs(z):
    i, j = np.triu_indices(len(z), 1)
    return z[i], z[j]


def exact_variance(z, degree, n_components, sampling):
    """Mean over pairs of the variance of one sketched degree of the kernel, straight from Table 1."""
    x, y = distinct_pairs(z)
    squared_prefactor = np.exp(-(x * x).sum(1) - (y * y).sum(1)) / factorial(degree) ** 2
    return float(np.mean(squared_prefactor * sketch.kernel_variance(x, y, degree, n_components, sampling)))


def exact_bias(z, degree):
    """Mean over pairs of the squared error of the series after `degree`."""
    x, y = distinct_pairs(z)
    product = (x * y).sum(1)
    prefactor = np.exp(-0.5 * ((x * x).sum(1) + (y * y).sum(1)))
    series = sum(product**n / factorial(n) for n in range(degree + 1))
    return float(np.mean((prefactor * (np.exp(product) - series)) ** 2))


def splits(total, parts):
    """All ways to write `total` as a sum of `parts` positive integers."""
    for cuts in combinations(range(1, total), parts - 1):
        edges = (0, *cuts, total)
        yield tuple(b - a for a, b in pairwise(edges))


def exhaustive(variance, bias, budget, first, max_degree):
    """Least variance plus bias over every last degree and every split of the budget.

    `variance` has the degree and the number of features as its key, `bias` the last degree as its index.
    """
    best = bias[first - 1], {}
    for last in range(first, min(max_degree, first + budget - 1) + 1):
        degrees = range(first, last + 1)
        for split in splits(budget, len(degrees)):
            counts = dict(zip(degrees, split, strict=True))
            error = bias[last] + sum(variance[item] for item in counts.items())
            if error < best[0]:
                best = error, counts
    return best


@pytest.mark.parametrize(("m", "scale"), [(30, 0.1), (30, 0.6), (30, 1.2), (2, 0.6)])
@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_errors_agree_with_closed_forms(sampling, m, scale):
    z = points(m, 3, scale)
    errors = degree_errors(z, 6, sampling)
    assert errors.variance.shape == errors.covariance.shape == (6,)
    assert errors.bias.shape == (7,)
    for p in range(7):
        np.testing.assert_allclose(errors.bias[p], exact_bias(z, p), rtol=1e-6, atol=1e-30)
    # TensorSRHT's curve is that of the closed form at whole blocks, and within the first where that is convex.
    for n in range(1, 7):
        within_first = [1, 2, 3] if errors.covariance[n - 1] <= 0 else []
        for D in [*range(1, 15)] if sampling != "tensor_srht" else [*within_first, 4, 8, 40]:
            expected = exact_variance(z, n, D, sampling)
            np.testing.assert_allclose(errors.sketched(n, np.array([D]))[0], expected, rtol=1e-9, atol=1e-17)


@settings(max_examples=100)
@given(
    d=st.integers(1, 12),
    scale=st.floats(1e-3, 1e3),
    degree=st.integers(1, 15),
    sampling=st.sampled_from(SAMPLINGS),
    seed=st.integers(0, 2**32 - 1),
)
def test_variance_is_convex_and_falls_with_the_number_of_features(d, scale, degree, sampling, seed):
    errors = degree_errors(points(20, d, scale, seed), 15, sampling)
    curve = errors.sketched(degree, np.arange(1, 60))
    rounding = 1e-12 * curve[0]
    assert np.all(np.isfinite(curve))
    assert np.all(curve >= 0)
    assert np.all(np.diff(curve) <= rounding)
    assert np.all(np.diff(curve, 2) >= -rounding)


def test_a_positive_covariance_is_spread_over_the_blocks():
    # Two features of one block that err together gain little from each other: a curve that is right within the first
    # block too would be steeper after it, and handing out one by one would stop short.
    V, C, block = 2.0, 0.5, 4
    D = np.arange(1, 4 * block + 1)
    curve = DegreeErrors(np.array([V]), np.array([C]), np.zeros(2), 3).sketched(1, D)
    assert np.all(np.diff(curve, 2) > 0)
    whole = D[block - 1 :: block]
    exact = V / whole + sketch.block_pairs(whole, 3) / whole**2 * C
    np.testing.assert_allclose(curve[block - 1 :: block], exact, rtol=1e-14)


@pytest.mark.parametrize("d", [1, 3, 7])
@pytest.mark.parametrize("distance", [1e3, 1e6, 1e9])
def test_clusters_far_from_the_centre_have_a_kernel_too(distance, d):
    # No monomial says anything out there, and the error is the kernel itself, which only near points of a cluster have.
    z = np.repeat(distance * np.random.RandomState(0).choice([-1.0, 1.0], (4, d)), 3, axis=0)
    z[1::3] += 0.5
    x, y = distinct_pairs(z)
    expected = np.mean(np.exp(-((x - y) ** 2).sum(1)))
    np.testing.assert_allclose(degree_errors(z, 3, "rademacher").bias, expected, rtol=1e-12)
    np.testing.assert_allclose(monomials_alone(z, 5, 0, 3).error, expected, rtol=1e-12)


@pytest.mark.parametrize("first", [1, 3])
@pytest.mark.parametrize("budget", range(1, 11))
@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_optimal_counts_equal_exhaustive_search(sampling, budget, first):
    for scale in (0.3, 0.8, 1.5):
        errors = degree_errors(points(25, 2, scale), 5, sampling)
        curves = {n: errors.sketched(n, np.arange(1, budget + 1)) for n in range(first, 6)}
        variances = {(n, c + 1): v for n, curve in curves.items() for c, v in enumerate(curve)}
        error, counts = exhaustive(variances, errors.bias, budget, first, 5)
        found, found_error = optimal_counts(errors, budget, first)
        assert found == counts
        np.testing.assert_allclose(found_error, error, rtol=1e-12)


@settings(max_examples=60)
@given(
    variance=st.lists(st.floats(0.1, 10), min_size=4, max_size=4),
    bias=st.lists(st.floats(0, 2), min_size=5, max_size=5),
    budget=st.integers(1, 9),
)
def test_optimal_counts_equal_exhaustive_search_for_any_errors(variance, bias, budget):
    errors = DegreeErrors(np.array(variance), np.zeros(4), np.array(bias), 3)
    variances = {(n, c): variance[n - 1] / c for n in range(1, 5) for c in range(1, budget + 1)}
    counts, error = optimal_counts(errors, budget)
    np.testing.assert_allclose(error, exhaustive(variances, bias, budget, 1, 4)[0], rtol=1e-12)
    again = bias[max(counts, default=0)] + sum(variances[item] for item in counts.items())
    np.testing.assert_allclose(error, again, rtol=1e-12)


@pytest.mark.parametrize(("n_degrees", "spare"), [(4, 3), (6, 150)])
def test_each_feature_goes_where_it_gains_most(n_degrees, spare):
    bias = np.append(np.full(n_degrees, 1e3), 0.0)  # no degree may be left out
    for seed in range(20):
        V = np.random.RandomState(seed).uniform(0.1, 10, n_degrees)
        errors = DegreeErrors(V, np.zeros(n_degrees), bias, 3)
        gains = sorted((v / c - v / (c + 1) for v in V for c in range(1, spare + 1)), reverse=True)
        _, error = optimal_counts(errors, n_degrees + spare)
        np.testing.assert_allclose(error, V.sum() - sum(gains[:spare]), rtol=1e-12)


def test_nothing_is_sketched_where_the_constant_says_it_all():
    errors = degree_errors(np.zeros((5, 2)), 4, "rademacher")
    assert optimal_counts(errors, 10) == ({}, 0.0)


@pytest.mark.parametrize("budget", range(1, 10))
@pytest.mark.parametrize("sampling", ["gaussian", "rademacher"])
def test_paper_allocation_equals_exhaustive_search_with_exact_formulas(sampling, budget):
    z = points(20, 3, 0.9)
    max_degree = 5
    variances = {(n, c): exact_variance(z, n, c, sampling) for n in range(1, 6) for c in range(1, budget + 1)}
    biases = [np.inf, *(exact_bias(z, p) for p in range(1, 6))]  # degree 1 is always there
    error, counts = exhaustive(variances, biases, budget, 1, max_degree)
    allocation = optimal(z, budget + 1, sampling, max_degree, 0)
    assert allocation.counts == counts
    np.testing.assert_allclose(allocation.error, error, rtol=1e-9)
    np.testing.assert_array_equal(allocation.exponents, np.zeros((1, 3)))
    assert allocation.exponents.dtype == np.int64


def along_the_diagonal(m, d, length, spread, seed=0):
    """Points near a line that is no axis, which takes many monomials to follow and few sketches."""
    rng = np.random.RandomState(seed)
    along = length * rng.uniform(0.5, 1.5, (m, 1)) * np.ones(d)
    return (along + spread * rng.standard_normal((m, d))) / d**0.5


@pytest.mark.parametrize("sampling", ["gaussian", "rademacher"])
@pytest.mark.parametrize(
    ("d", "length", "n_components", "exact_degrees", "max_degree"),
    [
        (8, 1.0, 16, 1, 3),  # sketches of the next degree
        (6, 2.0, 14, 1, 3),  # of the next two, though fewer exact degrees would be better
        (3, 0.2, 15, 1, 4),  # monomials of the next degree, fewer than there are columns
        (8, 1.0, 16, None, 2),  # all degrees exact but the last
        (8, 2.0, 16, None, 3),  # none but the constant
        (3, 0.2, 10, None, 4),  # monomials
    ],
)
def test_optimal_equals_exhaustive_search_with_exact_formulas(
    d, length, n_components, exact_degrees, max_degree, sampling
):
    z = along_the_diagonal(20, d, length, 0.1)
    biases = [exact_bias(z, p) for p in range(max_degree + 1)]
    candidates = [e for e in range(max_degree + 1) if taylor.n_monomials(d, e) <= n_components]
    best = np.inf, {}, 0
    for e in candidates if exact_degrees is None else [exact_degrees]:
        left = n_components - taylor.n_monomials(d, e)
        degrees, numbers = range(e + 1, max_degree + 1), range(1, left + 1)
        variances = {(n, c): exact_variance(z, n, c, sampling) for n in degrees for c in numbers}
        best = min(best, (*exhaustive(variances, biases, left, e + 1, max_degree), e), key=lambda found: found[0])
    error, counts, e = best
    found = optimal(z, n_components, sampling, max_degree, exact_degrees)
    if length > 0.5:
        assert found.counts == counts != {}
        np.testing.assert_array_equal(found.exponents, taylor.sample(d, e).exponents)
        np.testing.assert_allclose(found.error, error, rtol=1e-9)
    else:
        assert found.counts == {}
        assert found.error <= error * (1 + 1e-9)
        largest = max_degree if exact_degrees is None else exact_degrees + 1
        assert np.all(found.exponents.sum(axis=1) <= largest)
        assert len(found.exponents) == min(n_components, taylor.n_monomials(d, largest))


def test_columns_that_hold_a_complete_degree_do_at_least_that_well():
    for seed in range(20):
        z = 0.1 * np.random.RandomState(seed).standard_t(1.5, (30, 2))
        for degree in (1, 2, 3):
            allocation = optimal(z, taylor.n_monomials(2, degree), "gaussian", 5, None)
            assert allocation.error <= exact_bias(z, degree) * (1 + 1e-6)


@pytest.mark.parametrize("scale", [0.1, 0.2, 0.4])
def test_monomials_win_a_draw(scale):
    # In one column the square of a sign is 1, and a sketch as exact as the monomial. Both errors are rounding only.
    allocation = optimal(points(20, 1, scale), 16, "rademacher", 15, None)
    assert allocation.counts == {}
    assert allocation.exponents.ravel().tolist() == list(range(16))
    assert allocation.error < 1e-30


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_optimal_counts_equal_the_plain_greedy(sampling):
    errors = degree_errors(points(100, 4, 0.8), 8, sampling)
    budget = 150
    best = np.inf
    for last in range(1, 9):
        counts = dict.fromkeys(range(1, last + 1), 1)

        def total(counts):
            return sum(float(errors.sketched(n, np.array([c]))[0]) for n, c in counts.items())

        while sum(counts.values()) < budget:
            n = min(counts, key=lambda n: total({**counts, n: counts[n] + 1}))
            counts[n] += 1
        best = min(best, errors.bias[last] + total(counts))
    assert sum(optimal_counts(errors, budget)[0].values()) == budget
    np.testing.assert_allclose(optimal_counts(errors, budget)[1], min(best, errors.bias[0]), rtol=1e-12)


def test_leaving_all_degrees_out_may_be_best_unless_one_is_wanted():
    errors = DegreeErrors(np.array([100.0, 100.0]), np.zeros(2), np.array([1.0, 0.5, 0.1]), 3)
    assert optimal_counts(errors, 10) == ({}, 1.0)
    assert optimal_counts(errors, 10, at_least_one=True) == ({1: 10}, 10.5)
    assert optimal_counts(errors, 0, at_least_one=True) == ({}, 1.0)


@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("n_components", [2, 30, 130])
def test_auto_is_at_least_as_good_as_every_number_of_exact_degrees(sampling, n_components):
    z = points(80, 4)
    auto = optimal(z, n_components, sampling, 10, None)
    for e in range(10):
        if taylor.n_monomials(4, e) <= n_components:
            assert auto.error <= optimal(z, n_components, sampling, 10, e).error * (1 + 1e-9)
    assert len(auto.exponents) + sum(auto.counts.values()) == n_components


@settings(max_examples=100)
@given(
    d=st.integers(1, 6),
    n_components=st.integers(1, 70),
    exact_degrees=st.sampled_from([None, 1]),
    sampling=st.sampled_from(SAMPLINGS),
    seed=st.integers(0, 2**32 - 1),
)
def test_no_column_is_wasted(d, n_components, exact_degrees, sampling, seed):
    z = np.random.RandomState(seed).standard_t(1.5, (12, d))  # outliers make estimates of errors rough
    allocation = optimal(z, n_components + d, sampling, 8, exact_degrees)
    monomials = taylor.n_monomials(d, 8 if exact_degrees is None else 2)
    used = len(allocation.exponents) + sum(allocation.counts.values())
    assert min(n_components + d, monomials) <= used <= n_components + d


@pytest.mark.parametrize("complete", [0, 1, 2, 3])
def test_columns_left_over_go_to_the_monomials_of_the_next_degree_with_the_most_energy(complete):
    z = points(60, 3, np.array([1.0, 0.7, 0.4]))
    everything = taylor.sample(3, complete + 1)
    n_exact = taylor.n_monomials(3, complete)
    energy = (taylor.apply(everything, z) ** 2).mean(axis=0)[n_exact:]
    best_first = everything.exponents[n_exact:][np.argsort(-energy)].tolist()
    for extra in range(1, len(best_first) + 1):
        chosen = monomials_alone(z, n_exact + extra, complete, complete + 1).exponents.tolist()
        assert chosen[:n_exact] == everything.exponents[:n_exact].tolist()
        assert sorted(chosen[n_exact:]) == sorted(best_first[:extra])


def test_a_draw_of_energies_goes_to_the_first_variables():
    z = np.tile([0.5, 0.0], 30)[None]
    chosen = monomials_alone(z, 21, 0, 1).exponents
    assert [np.flatnonzero(row).tolist() for row in chosen] == [[], *([2 * i] for i in range(20))]


@pytest.mark.parametrize("m", [2, 40])
def test_error_of_monomials_alone_is_measured_on_the_sample(m):
    z = points(m, 2, 1.0)
    chosen = monomials_alone(z, 12, 0, 8)
    phi = taylor.apply(taylor.from_exponents(chosen.exponents), z)
    kernel = np.exp(-0.5 * ((z[:, None] - z) ** 2).sum(-1))
    i, j = np.triu_indices(m, 1)
    np.testing.assert_allclose(chosen.error, np.mean((kernel - phi @ phi.T)[i, j] ** 2), rtol=1e-9)


@pytest.mark.parametrize("exact_degrees", [None, 0, 1, 3])
def test_no_degree_above_the_largest(exact_degrees):
    allocation = optimal(points(50, 2), 40, "rademacher", 3, exact_degrees)
    assert allocation.exponents.sum(axis=1).max() <= 3
    assert max(allocation.counts, default=0) <= 3


def test_many_variables_cost_little():
    allocation = optimal(points(20, 400, 0.05), 300, "rademacher", 15, None)
    assert len(allocation.exponents) + sum(allocation.counts.values()) == 300


@pytest.mark.parametrize("d", [1, 2, 8])
@pytest.mark.parametrize("scale", [1e-3, 1e-1, 1.0, 1e1, 1e3])
@pytest.mark.parametrize("exact_degrees", [None, 0, 1])
@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_allocation_is_finite_and_sensible_at_any_scale(sampling, exact_degrees, scale, d):
    z = points(60, d, scale)
    allocation = optimal(z, 40, sampling, 15, exact_degrees)
    assert np.isfinite(allocation.error)
    assert allocation.error >= 0
    assert all(count >= 1 for count in allocation.counts.values())
    assert len(allocation.exponents) + sum(allocation.counts.values()) <= 40
    if exact_degrees is None:  # never worse than the constant, whose error the first bias is
        assert allocation.error <= degree_errors(z, 1, sampling).bias[0] * (1 + 1e-9)
        if scale == 1e-3:
            assert allocation.error < 1e-11


@pytest.mark.parametrize("scale", [1e-3, 1.0, 10.0, 1e3])
@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_high_degrees_do_not_overflow(sampling, scale):
    errors = degree_errors(points(40, 3, scale), 200, sampling)
    for values in (errors.variance, errors.covariance, errors.bias):
        assert np.all(np.isfinite(values))


@pytest.mark.parametrize("m", [1, 2])
@pytest.mark.parametrize("exact_degrees", [None, 0, 2])
def test_one_or_two_sample_points_are_enough(m, exact_degrees):
    allocation = optimal(points(m, 3), 20, "tensor_srht", 15, exact_degrees)
    assert np.isfinite(allocation.error)
    assert 1 <= len(allocation.exponents) + sum(allocation.counts.values()) <= 20


def test_without_a_pair_of_points_there_is_no_error():
    z = points(1, 3)
    errors = degree_errors(z, 5, "gaussian")
    assert errors.variance.shape == errors.covariance.shape == (5,)
    np.testing.assert_array_equal(errors.bias, np.zeros(6))
    assert monomials_alone(z, 8, 0, 5).error == 0


def test_random_counts_spend_the_budget_with_unbiased_weights():
    rng = np.random.RandomState(0)
    draws = [random_counts(50, 6, 1, rng) for _ in range(2000)]
    weights = np.array([[weight.get(n, 0.0) for n in range(2, 7)] for _, weight in draws])
    assert all(sum(counts.values()) == 50 and set(counts) <= set(range(2, 7)) for counts, _ in draws)
    standard_error = weights.std(axis=0) / len(draws) ** 0.5
    assert np.all(np.abs(weights.mean(axis=0) - 1) <= 5 * standard_error)
    shares = np.array([[counts.get(n, 0) for n in range(2, 7)] for counts, _ in draws]).mean(axis=0)
    np.testing.assert_allclose(shares[:-1] / shares[1:], 2, rtol=0.1)


def test_random_counts_of_one_degree_or_one_feature():
    assert random_counts(7, 3, 2, np.random.RandomState(0)) == ({3: 7}, {3: 1.0})
    counts, weights = random_counts(1, 4, 0, np.random.RandomState(0))
    ((degree, count),) = counts.items()
    assert count == 1
    assert weights == {degree: pytest.approx(2**degree * (1 - 2**-4))}


@pytest.mark.parametrize(("n_components", "max_degree"), [(0, 5), (10, 1)])
def test_random_counts_without_room_or_degrees_are_empty(n_components, max_degree):
    assert random_counts(n_components, max_degree, 1, np.random.RandomState(0)) == ({}, {})
