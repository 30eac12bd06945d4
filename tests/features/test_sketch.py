from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearfield import PolynomialSketch
from nearfield.features import sketch
from nearfield.features.hadamard import next_power_of_two

DRAWS = 4000
SAMPLINGS = ["gaussian", "rademacher", "tensor_srht"]
DEGREES = [1, 2, 3, 4, 5]
DIMENSIONS = [2, 3, 8, 17]
# Factors of a product are drawn alike: high degrees, which need many features, are tried with one dimension each.
DEGREES_AND_DIMENSIONS = [*product(DEGREES[:3], DIMENSIONS), (4, 3), (5, 8)]

# All draws come from fixed seeds. An estimate must lie within this many standard errors of its true value: a right
# implementation misses that with probability 6e-7 where the central limit theorem holds.
Z_LIMIT = 5.0


def unit_vectors(d):
    """Return `x`, and two others at correlations 0.9 and 0.2 with it."""
    rng = np.random.RandomState(d)
    x, other = np.linalg.qr(rng.standard_normal((d, 2)))[0].T
    return x, 0.9 * x + (1 - 0.9**2) ** 0.5 * other, 0.2 * x + (1 - 0.2**2) ** 0.5 * other


def number_of_features(d, degree, sampling):
    """Enough features that the variance of the variance stays in bounds, and TensorSRHT's last block half used."""
    if sampling == "gaussian":
        return [8, 8, 64, 256, 256][degree - 1]
    width = next_power_of_two(d)
    return (1 if degree <= 3 else 7) * width + width // 2


def joined(maps):
    """One sketch with the features of all `maps`, side by side."""
    if isinstance(maps[0], sketch.DenseSketch):
        return sketch.DenseSketch(np.concatenate([m.weights for m in maps], axis=1))
    outputs = maps[0].signs[0].size
    picks = np.concatenate([m.picks + i * outputs for i, m in enumerate(maps)], axis=1)
    return sketch.TensorSRHT(np.concatenate([m.signs for m in maps], axis=1), picks)


def kernel_draws(vectors, degree, n_components, sampling, seed=0, draws=DRAWS):
    """Estimates of `(x'y)^degree` for `x` the first of `vectors` and `y` each other one, shape (draws, others)."""
    rng = np.random.RandomState(seed)
    points = np.array(vectors)
    estimates = []
    for _ in range(draws // 100):
        maps = [sketch.sample(points.shape[1], degree, n_components, sampling, rng) for _ in range(100)]
        features = sketch.apply(joined(maps), points).reshape(len(points), 100, n_components)
        estimates.append(100 * np.einsum("bf,ybf->by", features[0], features[1:]))
    return np.concatenate(estimates)


def factor_moments(x, y, sampling):
    """First four moments of `(w'x)(w'y)` for unit vectors, by formula or over all signs (the first one cancels)."""
    if sampling == "gaussian":
        rho = x @ y
        return rho, 1 + 2 * rho**2, 9 * rho + 6 * rho**3, 9 + 72 * rho**2 + 24 * rho**4
    signs = np.array(list(product([1, -1], repeat=len(x) - 1)))
    values = (x[0] + signs @ x[1:]) * (y[0] + signs @ y[1:])
    return tuple(np.mean(values**k) for k in (1, 2, 3, 4))


def spread_of_squares(x, y, degree, n_components, sampling):
    """Exact standard deviation of the squared error of a sketch with independent features.

    The tails of high degrees are so heavy that some thousand draws would underestimate it.
    """
    m1, m2, m3, m4 = (moment**degree for moment in factor_moments(x, y, sampling))
    variance = (m2 - m1**2) / n_components
    fourth_of_one = m4 - 4 * m3 * m1 + 6 * m2 * m1**2 - 3 * m1**4
    fourth = fourth_of_one / n_components**3 + 3 * (1 - 1 / n_components) * variance**2
    return (fourth - variance**2) ** 0.5


def test_joined_maps_are_separate_maps():
    x = np.random.RandomState(0).standard_normal((4, 5))
    for sampling in SAMPLINGS:
        rng = np.random.RandomState(1)
        maps = [sketch.sample(5, 3, 11, sampling, rng) for _ in range(3)]
        separate = np.concatenate([sketch.apply(m, x) for m in maps], axis=-1) / 3**0.5
        np.testing.assert_allclose(sketch.apply(joined(maps), x), separate, atol=1e-12)


@pytest.mark.parametrize(("degree", "d"), DEGREES_AND_DIMENSIONS)
@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_mean_and_variance_of_the_kernel_estimate(sampling, degree, d):
    x, *others = unit_vectors(d)
    D = number_of_features(d, degree, sampling)
    for y, estimates in zip(others, kernel_draws((x, *others), degree, D, sampling).T, strict=True):
        deviations = estimates - (x @ y) ** degree
        variance = sketch.kernel_variance(x, y, degree, D, sampling)
        assert abs(deviations.mean()) <= Z_LIMIT * (variance / DRAWS) ** 0.5 + 1e-12

        squares = deviations**2
        # A single feature of TensorSRHT is one of Rademacher, and single features make the tails.
        light_tails = sampling == "tensor_srht" and degree <= 3
        spread = squares.std() if light_tails else spread_of_squares(x, y, degree, D, sampling)
        assert abs(squares.mean() - variance) <= Z_LIMIT * spread / DRAWS**0.5 + 1e-12


@pytest.mark.parametrize("d", DIMENSIONS)
@pytest.mark.parametrize("degree", [4, 5])
def test_gaussian_variance_from_its_independent_factors(degree, d):
    # Where the tails are too heavy to see much in products, the factors show more: they are uncorrelated, their squares
    # too, and the second moment is the product of theirs.
    n_components = 50_000
    x, y, _ = unit_vectors(d)
    drawn = sketch.sample(d, degree, n_components, "gaussian", np.random.RandomState(1))
    factors = (drawn.weights @ x) * (drawn.weights @ y)
    squares = factors**2
    for values in (factors, squares):
        correlations = np.corrcoef(values)[np.triu_indices(degree, 1)]
        assert np.all(np.abs(correlations) <= Z_LIMIT / n_components**0.5)

    relative_variances = squares.var(axis=1) / squares.mean(axis=1) ** 2 / n_components
    variance = sketch.kernel_variance(x, y, degree, 1, "gaussian")
    second_moment = variance + (x @ y) ** (2 * degree)
    relative_error = np.prod(squares.mean(axis=1)) / second_moment - 1
    assert relative_variances.sum() ** 0.5 < 0.05
    assert abs(relative_error) <= Z_LIMIT * relative_variances.sum() ** 0.5


@pytest.mark.parametrize("degree", [1, 3, 5])
@pytest.mark.parametrize("d", [2, 3, 8])
def test_tensor_srht_varies_less_than_rademacher_for_odd_degrees(d, degree):
    # One large coordinate: the tails are light and the gap is wide, so that some thousand draws show it.
    x = np.r_[0.9, np.full(d - 1, 0.1 / (d - 1))] ** 0.5
    D = next_power_of_two(d)
    squares = [
        (kernel_draws((x, x), degree, D, sampling, draws=8000)[:, 0] - 1) ** 2
        for sampling in ("rademacher", "tensor_srht")
    ]
    difference = squares[0].mean() - squares[1].mean()
    standard_error = (squares[0].var() / 8000 + squares[1].var() / 8000) ** 0.5
    assert difference > Z_LIMIT * standard_error


@settings(max_examples=200)
@given(
    d=st.integers(2, 20),
    degree=st.sampled_from([1, 3, 5, 7]),
    D=st.integers(2, 100),
    seed=st.integers(0, 2**32 - 1),
)
def test_closed_forms_are_ordered(d, degree, D, seed):
    x, y = np.random.RandomState(seed).standard_normal((2, d))
    gaussian, rademacher, srht = (sketch.kernel_variance(x, y, degree, D, sampling) for sampling in SAMPLINGS)
    assert -1e-9 * rademacher <= srht <= rademacher * (1 + 1e-9)
    assert rademacher <= gaussian * (1 + 1e-9)


def test_tensor_srht_of_degree_one_is_exact_in_whole_blocks():
    x = np.random.RandomState(2).standard_normal((10, 13))
    features = sketch.apply(sketch.sample(13, 1, 48, "tensor_srht", np.random.RandomState(3)), x)
    np.testing.assert_allclose(features @ features.T, x @ x.T, atol=1e-12)


@pytest.mark.parametrize("D", [1, 5, 8, 9, 24, 29])
def test_tensor_srht_is_made_of_distinct_rows_of_signed_hadamard_matrices(D):
    drawn = sketch.sample(6, 1, D, "tensor_srht", np.random.RandomState(4))
    weights = sketch.apply(drawn, np.eye(6)).T * D**0.5
    np.testing.assert_allclose(np.abs(weights), np.ones((D, 6)))
    assert len(np.unique(drawn.picks)) == D
    np.testing.assert_array_equal(drawn.picks[0] // 8, np.arange(D) // 8)


def test_number_of_pairs_within_blocks_is_counted_right():
    for d, width in ((3, 4), (8, 8)):
        for D in range(1, 30):
            block = np.arange(D) // width
            pairs = (block[:, None] == block).sum() - D
            assert sketch.block_pairs(D, d) == pairs


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_batches_equal_a_loop(sampling):
    x = np.random.RandomState(6).standard_normal((2, 3, 4, 5))
    drawn = sketch.sample(5, 3, 21, sampling, np.random.RandomState(7))
    batched = sketch.apply(drawn, x)
    assert batched.shape == (2, 3, 4, 21)
    for index in np.ndindex(2, 3):
        np.testing.assert_allclose(batched[index], sketch.apply(drawn, x[index]), atol=1e-12)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_tensors_answer_in_kind(sampling, dtype):
    torch = pytest.importorskip("torch")
    x = np.random.RandomState(8).standard_normal((2, 4, 5)).astype(dtype)
    drawn = sketch.sample(5, 3, 21, sampling, np.random.RandomState(9))
    result = sketch.apply(drawn, torch.asarray(x))
    assert isinstance(result, torch.Tensor)
    assert result.dtype == getattr(torch, dtype)
    tolerance = 1e-4 if dtype == "float32" else 1e-12
    np.testing.assert_allclose(result.numpy(), sketch.apply(drawn, x), rtol=0, atol=tolerance)


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_transformer_approximates_the_polynomial_kernel(sampling):
    X = np.random.RandomState(10).standard_normal((50, 6))
    features = PolynomialSketch(20_000, degree=2, sampling=sampling, random_state=0).fit_transform(X)
    kernel = (X @ X.T) ** 2
    assert np.linalg.norm(features @ features.T - kernel) < 0.1 * np.linalg.norm(kernel)
