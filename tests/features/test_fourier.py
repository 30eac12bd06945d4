import warnings

import numpy as np
import pytest
from scipy.linalg import hadamard

from nearfield import FourierFeatures
from nearfield.features import fourier

SAMPLINGS = ["gaussian", "orthogonal", "structured"]
Z_LIMIT = 5.0  # standard errors, fixed seeds


def gaussian_kernel(X, Y, length_scale=1.0):
    difference = (X[:, None] - Y) / length_scale
    return np.exp(-0.5 * (difference**2).sum(-1))


def points(shape, seed=0):
    return np.random.RandomState(seed).standard_normal(shape)


def kernel_draws(z, n_components, sampling, draws):
    """Estimated kernel matrices of `draws` independent maps."""
    rng = np.random.RandomState(0)
    features = (fourier.apply(fourier.sample(z.shape[1], n_components, sampling, rng), z) for _ in range(draws))
    return np.array([phi @ phi.T for phi in features])


@pytest.mark.parametrize("n_components", [1, 6, 7, 40])
@pytest.mark.parametrize("d", [1, 2, 3, 8])
@pytest.mark.parametrize("sampling", ["gaussian", "orthogonal"])
def test_kernel_estimate_is_unbiased(sampling, d, n_components):
    z = points((5, d), d)
    draws = kernel_draws(z, n_components, sampling, 2000)
    standard_error = draws.std(axis=0) / len(draws) ** 0.5
    assert np.all(np.abs(draws.mean(axis=0) - gaussian_kernel(z, z)) <= Z_LIMIT * standard_error + 1e-12)


@pytest.mark.parametrize(("d", "n_components"), [(2, 16), (3, 12), (8, 16), (8, 64), (17, 40)])
def test_orthogonal_frequencies_have_less_error_than_gaussian_ones(d, n_components):
    z = points((30, d), d) / d**0.5
    kernel = gaussian_kernel(z, z)
    gaussian, orthogonal = (
        ((kernel_draws(z, n_components, sampling, 1000) - kernel) ** 2).mean(axis=(1, 2))
        for sampling in ("gaussian", "orthogonal")
    )
    standard_error = ((gaussian.var() + orthogonal.var()) / len(gaussian)) ** 0.5
    assert gaussian.mean() - orthogonal.mean() > Z_LIMIT * standard_error


def test_orthogonal_frequencies_are_orthogonal_within_blocks_with_chi_norms():
    d, blocks = 5, 2000
    frequencies = fourier.sample(d, 2 * d * blocks, "orthogonal", np.random.RandomState(0)).frequencies
    block = frequencies.reshape(blocks, d, d)
    gram = block @ block.swapaxes(1, 2)
    squared_norms = np.einsum("bii->bi", gram)
    np.testing.assert_allclose(gram * (1 - np.eye(d)), 0, atol=1e-12)
    # The mean and variance of chi-squared are d and 2d; every coordinate is standard normal.
    n = squared_norms.size
    assert abs(squared_norms.mean() - d) < Z_LIMIT * (2 * d / n) ** 0.5
    np.testing.assert_allclose(squared_norms.var(), 2 * d, rtol=0.1)
    np.testing.assert_allclose(frequencies.T @ frequencies / n, np.eye(d), atol=0.06)


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_norm_is_constant_for_an_even_number(sampling):
    z = points((20, 6), 1)
    phi = fourier.apply(fourier.sample(6, 30, sampling, np.random.RandomState(0)), z)
    np.testing.assert_allclose((phi * phi).sum(1), 1, rtol=1e-12)


@pytest.mark.parametrize("n_components", [2, 16, 21, 100])
def test_structured_frequencies_are_products_of_signs_and_hadamard_matrices(n_components):
    drawn = fourier.sample(6, n_components, "structured", np.random.RandomState(2))
    H = hadamard(8) / 8**0.5
    blocks = [8**0.5 * H @ np.diag(s3) @ H @ np.diag(s2) @ H @ np.diag(s1) for s1, s2, s3 in drawn.signs.swapaxes(0, 1)]
    count = -(-n_components // 2)
    frequencies = np.concatenate(blocks)[:count, :6]
    dense = fourier.DenseFrequencies(frequencies, n_components, drawn.phase)
    z = points((10, 6), 3)
    phi = fourier.apply(drawn, z)
    assert phi.shape == (10, n_components)
    np.testing.assert_allclose(phi, fourier.apply(dense, z), atol=1e-12)


def test_structured_features_approximate_the_kernel_in_many_dimensions():
    z = points((60, 128), 4) / 128**0.5
    kernel = gaussian_kernel(z, z)
    phi = fourier.apply(fourier.sample(128, 2048, "structured", np.random.RandomState(0)), z)
    assert np.linalg.norm(phi @ phi.T - kernel) < 0.06 * np.linalg.norm(kernel)


@pytest.mark.parametrize(("d", "distinct"), [(1, 2), (2, 4), (3, 15), (4, 24)])
def test_structured_warns_with_the_reason_where_columns_are_few(d, distinct):
    X = points((10, d), 5)
    with pytest.warns(
        UserWarning, match=f"only {distinct} distinct frequencies .* Use sampling='orthogonal'"
    ) as caught:
        features = FourierFeatures(20_000, sampling="structured", random_state=0).fit(X)
    assert caught[0].filename == __file__
    phi = fourier.apply(features.map_, np.eye(d))
    angles = np.round(np.arctan2(phi[:, 10_000:], phi[:, :10_000]), 6)
    assert len(np.unique(angles, axis=1).T) == distinct


@pytest.mark.parametrize(("sampling", "d"), [("structured", 5), ("structured", 8), ("orthogonal", 2), ("gaussian", 1)])
def test_no_warning_where_there_is_no_reason(sampling, d):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        FourierFeatures(32, sampling=sampling, random_state=0).fit(points((10, d), 6))


@pytest.mark.parametrize("n_components", [24, 25])
@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_batches_equal_a_loop(sampling, n_components):
    z = points((2, 3, 4, 6), 7)
    drawn = fourier.sample(6, n_components, sampling, np.random.RandomState(0))
    batched = fourier.apply(drawn, z)
    assert batched.shape == (2, 3, 4, n_components)
    for index in np.ndindex(2, 3):
        np.testing.assert_allclose(batched[index], fourier.apply(drawn, z[index]), atol=1e-12)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_tensors_answer_in_kind(sampling, dtype):
    torch = pytest.importorskip("torch")
    z = points((2, 4, 6), 8).astype(dtype)
    drawn = fourier.sample(6, 25, sampling, np.random.RandomState(0))
    result = fourier.apply(drawn, torch.asarray(z))
    assert isinstance(result, torch.Tensor)
    assert result.dtype == getattr(torch, dtype)
    tolerance = 1e-5 if dtype == "float32" else 1e-13
    np.testing.assert_allclose(result.numpy(), fourier.apply(drawn, z), rtol=0, atol=tolerance)


@pytest.mark.parametrize("length_scale", [0.7, [0.5, 2.0, 1.0]])
@pytest.mark.parametrize("sampling", ["gaussian", "orthogonal"])
def test_transformer_approximates_the_scaled_kernel(sampling, length_scale):
    X = points((40, 3), 9)
    phi = FourierFeatures(
        20_000, length_scale=length_scale, variance=2.5, sampling=sampling, random_state=0
    ).fit_transform(X)
    np.testing.assert_allclose(phi @ phi.T, 2.5 * gaussian_kernel(X, X, length_scale), atol=0.1)
