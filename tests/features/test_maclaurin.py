from math import factorial

import numpy as np
import pytest

from nearfield import FourierFeatures, MaclaurinFeatures, TaylorFeatures
from nearfield.features import allocation, maclaurin, sketch, taylor

SAMPLINGS = ["gaussian", "rademacher", "tensor_srht"]
Z_LIMIT = 5.0  # standard errors, fixed seeds


def points(shape, seed=0):
    return np.random.RandomState(seed).standard_normal(shape)


def correlated_points(shape, seed=0):
    """Points near a diagonal, where single monomials say little and sketches pay."""
    rng = np.random.RandomState(seed)
    return (rng.standard_normal((shape[0], 1)) + 0.1 * rng.standard_normal(shape)) / shape[1] ** 0.5


def gaussian_kernel(X, length_scale=1.0):
    z = X / length_scale
    squares = (z * z).sum(axis=1)
    return np.exp(np.minimum(z @ z.T - 0.5 * (squares[:, None] + squares), 0.0))


def truncated_series(z, degree):
    squares = (z * z).sum(axis=1)
    series = sum((z @ z.T) ** n / factorial(n) for n in range(degree + 1))
    return np.exp(-0.5 * (squares[:, None] + squares)) * series


def relative_error(features, X, kernel):
    phi = features.transform(X)
    return np.linalg.norm(phi @ phi.T - kernel) / np.linalg.norm(kernel)


def mean_errors(X, evaluated, length_scale, n_components, seeds):
    """Errors of exact low degrees, of the paper's TensorSRHT map and of orthogonal Fourier features."""
    kernel = gaussian_kernel(evaluated, length_scale)

    def mean_error(cls, **parameters):
        maps = [cls(n_components, length_scale=length_scale, random_state=s, **parameters).fit(X) for s in range(seeds)]
        return np.mean([relative_error(m, evaluated, kernel) for m in maps])

    return (
        mean_error(MaclaurinFeatures),
        mean_error(MaclaurinFeatures, sampling="tensor_srht", exact_degrees=0),
        mean_error(FourierFeatures, sampling="orthogonal"),
    )


def redrawn(drawn, sampling, rng):
    """The same allocation with fresh sketches."""
    d = drawn.monomials.exponents.shape[1]
    fresh = ((weight, sketch.sample(d, s.degree, s.n_components, sampling, rng)) for weight, s in drawn.sketches)
    return maclaurin.MaclaurinMap(drawn.monomials, tuple(fresh))


def kernels_of(maps, z):
    return np.array([phi @ phi.T for phi in (maclaurin.apply(m, z) for m in maps)])


def test_exact_low_degrees_beat_sketches_and_fourier_features_sixfold_on_kin8nm(kin8nm):
    X, _ = kin8nm
    exact, srht, fourier = mean_errors(X, X[:3000], length_scale=2.15, n_components=512, seeds=2)
    assert exact < 0.012
    assert 6 * exact <= srht
    assert 6 * exact <= fourier


def test_exact_low_degrees_beat_sketches_and_fourier_features_on_normal_points():
    X = points((3000, 8), 1)
    exact, srht, fourier = mean_errors(X, X[:1000], length_scale=2.5, n_components=512, seeds=2)
    assert 6 * exact <= srht
    assert 6 * exact <= fourier


@pytest.mark.parametrize(
    ("sampling", "exact_degrees"),
    [("gaussian", None), ("rademacher", 0), ("rademacher", 1), ("tensor_srht", None), ("tensor_srht", 1)],
)
def test_optimal_allocation_is_unbiased_and_has_the_error_it_promises(sampling, exact_degrees):
    z = correlated_points((20, 12), 3)
    promised = allocation.optimal(z, 60, sampling, 6, exact_degrees)
    rng = np.random.RandomState(0)
    drawn = maclaurin.sample(z, 60, sampling, rng, exact_degrees=exact_degrees, max_degree=6)
    assert {s.degree: s.n_components for _, s in drawn.sketches} == promised.counts != {}

    kernels = kernels_of((redrawn(drawn, sampling, rng) for _ in range(3000)), z)
    bias = kernels.mean(axis=0) - truncated_series(z, drawn.degree)
    assert np.all(np.abs(bias) <= Z_LIMIT * kernels.std(axis=0) / len(kernels) ** 0.5 + 1e-12)
    pairs = np.triu_indices(len(z), 1)
    errors = ((kernels - gaussian_kernel(z))[:, *pairs] ** 2).mean(axis=1)
    # The variance of TensorSRHT that the allocation works with is that of whole blocks.
    slack = 0.1 * promised.error if sampling == "tensor_srht" else 0.0
    assert abs(errors.mean() - promised.error) <= Z_LIMIT * errors.std() / len(errors) ** 0.5 + slack


@pytest.mark.parametrize(("sampling", "exact_degrees"), [("gaussian", None), ("rademacher", 2), ("tensor_srht", None)])
def test_random_allocation_is_unbiased(sampling, exact_degrees):
    z = 0.6 * points((6, 3), 4)
    rng = np.random.RandomState(0)
    maps = (
        maclaurin.sample(z, 40, sampling, rng, method="random", exact_degrees=exact_degrees, max_degree=7)
        for _ in range(2000)
    )
    kernels = kernels_of(maps, z)
    standard_error = kernels.std(axis=0) / len(kernels) ** 0.5
    assert np.all(np.abs(kernels.mean(axis=0) - truncated_series(z, 7)) <= Z_LIMIT * standard_error + 1e-12)


def test_exact_degrees_alone_are_taylor_features():
    X = points((30, 3), 5)
    exact = MaclaurinFeatures(taylor.n_monomials(3, 4), exact_degrees=4, max_degree=4, length_scale=1.4, variance=2.0)
    expected = TaylorFeatures(4, length_scale=1.4, variance=2.0).fit_transform(X)
    phi = exact.fit_transform(X)
    np.testing.assert_allclose(phi @ phi.T, expected @ expected.T, atol=1e-13)


@pytest.mark.parametrize("n_components", [1, 2, 9, 45, 46, 200])
@pytest.mark.parametrize("allocation", ["optimal", "random"])
@pytest.mark.parametrize("exact_degrees", ["auto", 0])
def test_every_column_is_used(allocation, exact_degrees, n_components):
    X = points((100, 8), 6)
    features = MaclaurinFeatures(
        n_components, length_scale=3.0, allocation=allocation, exact_degrees=exact_degrees, random_state=0
    )
    assert features.fit_transform(X).shape == (100, n_components)


def test_the_map_of_the_paper_sketches_all_but_the_constant():
    features = MaclaurinFeatures(100, exact_degrees=0, random_state=0).fit(points((50, 4), 7))
    assert features.map_.monomials.n_components == 1
    assert [s.degree for _, s in features.map_.sketches] == list(range(1, 1 + len(features.map_.sketches)))


def test_columns_that_hardly_matter_get_hardly_any_monomials():
    X = points((300, 8), 8)
    length_scale = np.r_[np.full(4, 2.0), np.full(4, 200.0)]
    features = MaclaurinFeatures(128, length_scale=length_scale, random_state=0).fit(X)
    exponents = features.map_.monomials.exponents
    assert not features.map_.sketches
    assert (exponents[:, 4:] > 0).any(axis=1).sum() <= 0.05 * 128
    # What the idle columns save goes to the others: the error is that of a problem with those alone.
    alone = MaclaurinFeatures(128, length_scale=2.0, random_state=0).fit(X[:, :4])
    error = relative_error(features, X, gaussian_kernel(X, length_scale))
    assert error <= 1.1 * relative_error(alone, X[:, :4], gaussian_kernel(X[:, :4], 2.0))


@pytest.mark.parametrize("d", [1, 2, 8])
@pytest.mark.parametrize("ratio", [1e-3, 1e-2, 0.1, 1.0, 10.0, 1e2, 1e3])
@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_finite_and_sensible_for_any_length_scale(sampling, ratio, d):
    X = 40 + 5 * points((200, d), 9)
    kernel = gaussian_kernel(X, 5 * ratio)
    for allocation_method, exact_degrees in (("optimal", "auto"), ("optimal", 0), ("random", 0)):
        features = MaclaurinFeatures(
            60,
            length_scale=5 * ratio,
            sampling=sampling,
            allocation=allocation_method,
            exact_degrees=exact_degrees,
            random_state=0,
        ).fit(X)
        assert np.all(np.isfinite(features.transform(X)))
        error = relative_error(features, X, kernel)
        if exact_degrees == "auto":
            assert error <= 1.0
        if ratio >= 10:
            assert error < 0.03


def test_one_column_needs_no_more_than_one_monomial_a_degree():
    X = points((100, 1), 10)
    features = MaclaurinFeatures(256, random_state=0).fit(X)
    assert features.map_.n_components <= 16
    assert relative_error(features, X, gaussian_kernel(X)) < 1e-4


@pytest.mark.parametrize("n_samples", [1, 2, 3])
def test_few_training_points_are_enough(n_samples):
    X = points((n_samples, 3), 11)
    assert np.all(np.isfinite(MaclaurinFeatures(50, random_state=0).fit_transform(X)))


def drawn_map(sampling):
    z = correlated_points((60, 12), 12)
    drawn = maclaurin.sample(z, 60, sampling, np.random.RandomState(0), exact_degrees=1, max_degree=5)
    assert drawn.sketches
    return drawn


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_batches_equal_a_loop(sampling):
    drawn = drawn_map(sampling)
    z = points((2, 3, 4, 12), 13)
    batched = maclaurin.apply(drawn, z)
    assert batched.shape == (2, 3, 4, drawn.n_components)
    for index in np.ndindex(2, 3):
        np.testing.assert_allclose(batched[index], maclaurin.apply(drawn, z[index]), atol=1e-12)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_tensors_answer_in_kind(sampling, dtype):
    torch = pytest.importorskip("torch")
    drawn = drawn_map(sampling)
    z = points((2, 4, 12), 14).astype(dtype)
    result = maclaurin.apply(drawn, torch.asarray(z))
    assert isinstance(result, torch.Tensor)
    assert result.dtype == getattr(torch, dtype)
    tolerance = 1e-5 if dtype == "float32" else 1e-13
    np.testing.assert_allclose(result.numpy(), maclaurin.apply(drawn, z), rtol=0, atol=tolerance)
