import pickle
import warnings

import numpy as np
import pytest
import sklearn
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import nearfield as nf
from nearfield import metrics
from nearfield.common import memory
from nearfield.common.threads import n_threads
from nearfield.kernels import Kernel
from nearfield.solvers.factors import Cholesky
from nearfield.solvers.kernel_space import KernelSpace
from nearfield.sources import ArraySource

from ..warned import discrete_targets, far_points, unlike_columns

FIXED = {"length_scale": 0.4, "signal_variance": 1.5, "noise_variance": 0.05}


def problem(n=60, m=25, k=None, seed=0):
    rng = np.random.RandomState(seed)
    X = rng.rand(n, 2)
    y = np.sin(5 * X[:, 0]) * X[:, 1] + 0.2 * rng.randn(n) + 7
    if k is not None:
        y = np.column_stack([y + t * X[:, 1] for t in range(k)])
    return X, y, rng.rand(m, 2) * 1.5


def fixed(**changes):
    return nf.ExactGPRegressor(**{**FIXED, **changes})


def draw(n, d, length_scale, variance, noise, seed):
    rng = np.random.RandomState(seed)
    X = rng.rand(n, d)
    K = Kernel.gaussian(length_scale, variance)(X, X) + 1e-10 * variance * np.eye(n)
    return X, np.linalg.cholesky(K) @ rng.randn(n) + noise**0.5 * rng.randn(n)


# ---- equal to other libraries ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("length_scale", [0.4, [0.4, 0.9]])
def test_equals_scikit_learn(length_scale, weighted):
    X, y, X_test = problem()
    weights = np.linspace(0.2, 3, len(X)) if weighted else None
    ours = fixed(length_scale=length_scale).fit(X, y, weights)
    alpha = 0.05 / weights if weighted else 0.05
    kernel = ConstantKernel(1.5) * RBF(length_scale)
    theirs = GaussianProcessRegressor(kernel, alpha=alpha, optimizer=None).fit(X, y - np.average(y, weights=weights))
    mean, std = theirs.predict(X_test, return_std=True)
    _, cov = theirs.predict(X_test, return_cov=True)
    mean = mean + np.average(y, weights=weights)

    assert_allclose(ours.predict(X_test), mean, atol=1e-8)
    assert_allclose(ours.predict(X_test, return_std=True)[0], mean, atol=1e-8)
    assert_allclose(ours.predict(X_test, return_std=True)[1], std, atol=1e-8)
    assert_allclose(ours.predict(X_test, return_cov=True)[0], mean, atol=1e-8)
    assert_allclose(ours.predict(X_test, return_cov=True)[1], cov, atol=1e-8)
    assert_allclose(ours.log_marginal_likelihood(), theirs.log_marginal_likelihood_value_, atol=1e-8)


def test_equals_scikit_learn_on_yacht(data_dir):
    table = np.loadtxt(data_dir / "yacht.csv.gz", delimiter=",", skiprows=1)
    X, y = table[:, :-1], table[:, -1]
    ours = nf.ExactGPRegressor(length_scale=0.317, signal_variance=1635.0, noise_variance=7.389).fit(X[:200], y[:200])
    kernel = ConstantKernel(1635.0, "fixed") * RBF(0.317)
    theirs = GaussianProcessRegressor(kernel, alpha=7.389, optimizer=None).fit(X[:200], y[:200] - y[:200].mean())
    mean, std = theirs.predict(X[200:], return_std=True)
    assert_allclose(ours.predict(X[200:], return_std=True), (mean + y[:200].mean(), std), atol=1e-8)
    assert_allclose(ours.log_marginal_likelihood(), theirs.log_marginal_likelihood_value_, atol=1e-8)


@pytest.mark.parametrize("weighted", [False, True])
def test_equals_gpytorch(weighted):
    torch = pytest.importorskip("torch")
    gpytorch = pytest.importorskip("gpytorch")
    X, y, X_test = problem()
    weights = np.linspace(0.2, 3, len(X)) if weighted else np.ones(len(X))
    offset = float(np.average(y, weights=weights))

    class Model(gpytorch.models.ExactGP):
        def __init__(self, points, targets, likelihood):
            super().__init__(points, targets, likelihood)
            self.mean_module = gpytorch.means.ZeroMean()
            self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())

        def forward(self, points):
            return gpytorch.distributions.MultivariateNormal(self.mean_module(points), self.covar_module(points))

    tensors = [torch.asarray(a, dtype=torch.float64) for a in (X, y - offset, 0.05 / weights)]
    likelihood = gpytorch.likelihoods.FixedNoiseGaussianLikelihood(tensors[2])
    model = Model(*tensors[:2], likelihood).double()
    model.covar_module.outputscale = 1.5
    model.covar_module.base_kernel.lengthscale = 0.4
    settings_ = gpytorch.settings
    with torch.no_grad(), settings_.fast_computations(False, False, False), settings_.cholesky_max_tries(1):
        likelihood_value = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)(model(tensors[0]), tensors[1])
        model.eval()
        posterior = model(torch.asarray(X_test, dtype=torch.float64))

    ours = fixed().fit(X, y, weights)
    mean, cov = ours.predict(X_test, return_cov=True)
    assert_allclose(mean, posterior.mean.numpy() + offset, atol=1e-8)
    assert_allclose(cov, posterior.covariance_matrix.numpy(), atol=1e-8)
    assert_allclose(ours.log_marginal_likelihood(), float(likelihood_value) * len(X), atol=1e-8)


# ---- answers ---------------------------------------------------------------------------------------------------------


def test_observations_have_the_noise_added():
    X, y, X_test = problem()
    gp = fixed().fit(X, y)
    latent, observed = (gp.predict(X_test, return_std=True, include_noise=flag)[1] for flag in (False, True))
    assert_allclose(observed**2, latent**2 + 0.05)
    latent, observed = (gp.predict(X_test, return_cov=True, include_noise=flag)[1] for flag in (False, True))
    assert_allclose(observed, latent + 0.05 * np.eye(len(X_test)))


def test_several_targets_are_the_single_ones_side_by_side():
    X, y, X_test = problem(k=3)
    together = fixed().fit(X, y)
    mean, std = together.predict(X_test, return_std=True)
    _, cov = together.predict(X_test, return_cov=True)
    assert mean.shape == std.shape == (25, 3)
    assert cov.shape == (25, 25, 3)
    alone = [fixed().fit(X, y[:, t]) for t in range(3)]
    for t, gp in enumerate(alone):
        mean_t, std_t = gp.predict(X_test, return_std=True)
        assert_allclose(mean[:, t], mean_t, atol=1e-10)
        assert_allclose(std[:, t], std_t, atol=1e-10)
        assert_allclose(cov[:, :, t], gp.predict(X_test, return_cov=True)[1], atol=1e-10)
    assert_allclose(together.log_marginal_likelihood(), sum(gp.log_marginal_likelihood() for gp in alone))


def test_a_column_of_targets_stays_a_column():
    X, y, X_test = problem()
    assert fixed().fit(X, y[:, None]).predict(X_test).shape == (25, 1)
    assert_allclose(fixed().fit(X, y[:, None]).predict(X_test)[:, 0], fixed().fit(X, y).predict(X_test))


@far_points
def test_the_mean_of_the_targets_is_put_back():
    X, y, X_test = problem()
    plain, shifted = fixed().fit(X, y), fixed().fit(X, y + 1e6)
    assert_allclose(shifted.predict(X_test) - 1e6, plain.predict(X_test), atol=1e-8)
    assert_allclose(plain.predict([[1e3, 1e3]]), y.mean())


@far_points
@settings(max_examples=25)
@given(st.floats(-6, 1), st.floats(-2, 2), st.integers(0, 100))
def test_variances_are_never_negative_nor_above_the_prior(log_noise, log_length, seed):
    X, y, _ = problem(40, seed=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of a little added to the diagonal
        gp = fixed(noise_variance=10**log_noise, length_scale=10**log_length).fit(X, y)
    points = np.concatenate([X, X + 1e-7, X + 2])
    std = gp.predict(points, return_std=True)[1]
    assert np.all(std >= 0)
    assert np.all(std <= np.sqrt(1.5) + 1e-9)
    assert np.all(np.diagonal(gp.predict(points, return_cov=True)[1]) >= 0)


def test_the_diagonal_of_a_covariance_is_not_negative_where_rounding_would_make_it_so():
    X, X_test = np.linspace(0, 1, 200)[:, None], np.linspace(0, 1, 999)[:, None]
    gp = nf.ExactGPRegressor(length_scale=0.3, signal_variance=1e6, noise_variance=1e-8).fit(X, np.sin(X[:, 0]))
    assert np.diagonal(gp._posterior.covariance(X_test)).min() < 0
    assert np.diagonal(gp.predict(X_test, return_cov=True)[1]).min() >= 0


@far_points
def test_far_from_the_data_the_prior_returns():
    X, y, _ = problem()
    mean, std = fixed().fit(X, y).predict([[50.0, 50.0], [-1e6, 0.0]], return_std=True)
    assert_allclose(std, np.sqrt(1.5))
    assert_allclose(mean, y.mean())


def test_intervals_cover_what_they_promise():
    covered = []
    for seed in range(6):
        X, y = draw(700, 2, 0.15, 1.0, 0.1, seed)
        gp = nf.ExactGPRegressor(length_scale=0.15, signal_variance=1.0, noise_variance=0.1).fit(X[:300], y[:300])
        mean, std = gp.predict(X[300:], return_std=True, include_noise=True)
        covered.append(metrics.coverage(y[300:], mean, std=std))
    assert 0.93 < np.mean(covered) < 0.97


def test_intervals_cover_what_they_promise_with_learnt_hyperparameters():
    covered = []
    for seed in range(4):
        X, y = draw(700, 2, 0.15, 1.0, 0.1, seed)
        gp = nf.ExactGPRegressor(random_state=0).fit(X[:300], y[:300])
        mean, std = gp.predict(X[300:], return_std=True, include_noise=True)
        covered.append(metrics.coverage(y[300:], mean, std=std))
    assert 0.93 < np.mean(covered) < 0.97


@pytest.mark.parametrize("k", [None, 2])
def test_samples_have_the_moments_of_the_posterior(k):
    X, y, X_test = problem(k=k)
    gp = fixed().fit(X, y)
    mean, cov = gp.predict(X_test[:4], return_cov=True)
    samples = gp.sample_y(X_test[:4], 20_000)
    assert samples.shape == (*mean.shape, 20_000)
    assert_allclose(samples.mean(axis=-1), mean, atol=0.04)
    one = samples if k is None else samples[:, 1]
    assert_allclose(np.cov(one), cov if k is None else cov[:, :, 1], atol=0.05)
    assert np.array_equal(samples, gp.sample_y(X_test[:4], 20_000))
    assert not np.array_equal(samples, gp.sample_y(X_test[:4], 20_000, random_state=1))
    noisy = gp.sample_y(X_test[:4], 20_000, include_noise=True)
    assert_allclose(noisy.var(axis=-1), samples.var(axis=-1) + 0.05, atol=0.06)


def test_weights_are_precisions():
    X, y, X_test = problem()
    twice = fixed().fit(np.repeat(X, 2, axis=0), np.repeat(y, 2)).predict(X_test, return_std=True)
    weighted = fixed().fit(X, y, np.full(len(X), 2.0)).predict(X_test, return_std=True)
    assert_allclose(weighted, twice, atol=1e-8)
    without = fixed().fit(X[10:], y[10:]).predict(X_test)
    weights = np.r_[np.zeros(10), np.ones(len(X) - 10)]
    assert_allclose(fixed().fit(X, y, weights).predict(X_test), without, atol=1e-12)


def test_known_noise_of_each_sample():
    X, y, X_test = problem()
    noise = np.linspace(0.01, 0.5, len(X))
    ours = fixed(noise_variance=1.0).fit(X, y, 1 / noise)
    K = 1.5 * RBF(0.4)(X) + np.diag(noise)
    offset = np.average(y, weights=1 / noise)
    expected = 1.5 * RBF(0.4)(X_test, X) @ np.linalg.solve(K, y - offset) + offset
    assert_allclose(ours.predict(X_test), expected, atol=1e-9)


def test_score_is_r2():
    X, y, _ = problem()
    gp = fixed().fit(X, y)
    assert_allclose(gp.score(X, y), 1 - np.sum((y - gp.predict(X)) ** 2) / np.sum((y - y.mean()) ** 2))


def test_several_scales_are_a_sum_of_kernels():
    X, y, X_test = problem()
    gp = nf.ExactGPRegressor(n_scales=2, length_scale=[0.2, 1.0], signal_variance=[0.5, 1.0], noise_variance=0.05).fit(
        X, y
    )
    kernel = ConstantKernel(0.5) * RBF(0.2) + ConstantKernel(1.0) * RBF(1.0)
    theirs = GaussianProcessRegressor(kernel, alpha=0.05, optimizer=None).fit(X, y - y.mean())
    mean, std = theirs.predict(X_test, return_std=True)
    assert_allclose(gp.predict(X_test, return_std=True), (mean + y.mean(), std), atol=1e-8)
    assert_allclose(gp.length_scale_, [0.2, 1.0])
    assert_allclose(gp.signal_variance_, [0.5, 1.0])


# ---- cost ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("working_memory", [1e-3, 1, 1024])
def test_chunks_do_not_change_the_answer(working_memory):
    X, y, _ = problem()
    X_test = np.random.RandomState(1).rand(500, 2)
    gp = fixed().fit(X, y)
    expected = gp.predict(X_test, return_std=True)
    with sklearn.config_context(working_memory=working_memory):
        assert_allclose(gp.predict(X_test, return_std=True), expected, rtol=1e-9)
        assert_allclose(gp.predict(X_test), expected[0], rtol=1e-9)


def test_memory_is_bounded_by_chunks(monkeypatch):
    X, y, _ = problem()
    gp = fixed().fit(X, y)
    sizes = []
    original = KernelSpace.mean_and_variance
    monkeypatch.setattr(
        KernelSpace, "mean_and_variance", lambda self, points: sizes.append(len(points)) or original(self, points)
    )
    with sklearn.config_context(working_memory=0.1):
        gp.predict(np.zeros((1000, 2)), return_std=True)
    assert sum(sizes) == 1000
    assert max(sizes) * len(X) * 16 <= 0.1 * 2**20


def test_the_mean_alone_computes_no_variance(monkeypatch):
    X, y, X_test = problem()
    gp = fixed().fit(X, y)
    expected = gp.predict(X_test, return_std=True)[0]

    def forbidden(*_):
        raise AssertionError("a variance was computed")

    monkeypatch.setattr(KernelSpace, "mean_and_variance", forbidden)
    monkeypatch.setattr(KernelSpace, "covariance", forbidden)
    monkeypatch.setattr(Cholesky, "whiten", forbidden)
    assert_allclose(gp.predict(X_test), expected)


def test_too_many_samples_are_refused_before_anything_is_allocated(monkeypatch):
    X, y, _ = problem(200)
    monkeypatch.setattr(memory, "available", lambda: 2**18)
    monkeypatch.setattr(KernelSpace, "from_points", None)  # whoever gets that far fails otherwise
    with pytest.raises(MemoryError, match=r"exact Gaussian process of 200 samples needs 37\d KiB.*LocalGPRegressor"):
        fixed().fit(X, y)


def test_samples_beyond_any_machine_are_refused():
    X = np.zeros((3_000_000, 1))
    with pytest.raises(MemoryError, match=r"3000000 samples needs .* TiB.*LocalGPRegressor"):
        fixed().fit(X, X[:, 0])


def test_a_covariance_that_does_not_fit_is_refused(monkeypatch):
    X, y, X_test = problem()
    gp = fixed().fit(X, y)
    monkeypatch.setattr(memory, "available", lambda: 1000)
    with pytest.raises(MemoryError, match=r"covariance matrix of 25 points .* return_std"):
        gp.predict(X_test, return_cov=True)


# ---- learning through the estimator ----------------------------------------------------------------------------------


def test_random_state_makes_fits_repeatable_and_leaves_the_global_one_alone():
    X, y, X_test = problem(1001)  # enough that learning draws blocks
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    first, second, third = (nf.ExactGPRegressor(random_state=seed).fit(X, y) for seed in (3, 3, 4))
    assert np.array_equal(first.predict(X_test), second.predict(X_test))
    assert np.any(first.length_scale_ != third.length_scale_)
    first.sample_y(X_test)
    assert np.array_equal(np.random.get_state()[1], before)  # noqa: NPY002


def test_inputs_and_parameters_are_not_modified():
    X, y, X_test = problem()
    scales, weights = np.array([0.3, 0.4]), np.linspace(0, 1, len(X))
    arrays = X, y, X_test, scales, weights
    before = [a.copy() for a in arrays]
    fixed(length_scale=scales).fit(X, y, weights).predict(X_test, return_cov=True, include_noise=True)
    nf.ExactGPRegressor(ard=True, random_state=0).fit(X, y, weights + 0.1).predict(X_test, return_std=True)
    for array, copy in zip(arrays, before, strict=True):
        assert np.array_equal(array, copy)


def test_the_progress_callback_is_called():
    X, y, _ = problem()
    calls = []
    nf.ExactGPRegressor(progress=lambda *call: calls.append(call), random_state=0).fit(X, y)
    assert calls
    assert all(isinstance(stage, str) and 0 <= done <= 1 for stage, done, _ in calls)


def test_warnings_of_learning_point_at_the_line_that_called_fit():
    X, y, _ = problem(300)
    with pytest.warns(ConvergenceWarning, match="time_budget") as record:
        nf.ExactGPRegressor(time_budget=1e-9, random_state=0).fit(X, y)
    assert record[0].filename == __file__
    with pytest.warns(ConvergenceWarning, match="sit on a bound") as record:
        nf.ExactGPRegressor(random_state=0).fit(X, X[:, 0] * 3)
    assert record[0].filename == __file__


def test_yacht_converged_predicts_far_better_than_published(data_dir):
    table = np.loadtxt(data_dir / "yacht.csv.gz", delimiter=",", skiprows=1)
    table = table[np.random.RandomState(0).permutation(len(table))]
    X, y, X_test, y_test = table[:200, :-1], table[:200, -1], table[200:, :-1], table[200:, -1]
    published = nf.ExactGPRegressor(length_scale=0.317, signal_variance=1635.0, noise_variance=7.389).fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        learnt = nf.ExactGPRegressor(random_state=0).fit(X, y)
    errors = [metrics.rmse(y_test, gp.predict(X_test)) for gp in (learnt, published)]
    assert errors[0] < 0.5 * errors[1]


# ---- scikit-learn ----------------------------------------------------------------------------------------------------


@far_points
def test_pipeline_search_clone_and_pickle():
    X, y, X_test = problem()
    pipeline = make_pipeline(StandardScaler(), fixed(length_scale=1.0))
    assert_allclose(
        pipeline.fit(X, y).predict(X_test),
        fixed(length_scale=1.0).fit(StandardScaler().fit_transform(X), y).predict(pipeline[0].transform(X_test)),
    )
    search = GridSearchCV(fixed(), {"length_scale": [0.01, 0.4], "noise_variance": [0.05, 5.0]}, cv=3).fit(X, y)
    assert search.best_params_ == {"length_scale": 0.4, "noise_variance": 0.05}
    assert cross_val_score(fixed(), X, y, cv=3).mean() > 0.5
    gp = fixed().fit(X, y)
    assert clone(gp).get_params() == gp.get_params()
    restored = pickle.loads(pickle.dumps(gp))
    assert np.array_equal(restored.predict(X_test, return_std=True), gp.predict(X_test, return_std=True))


def test_names_of_columns_are_kept_and_checked():
    pd = pytest.importorskip("pandas")
    X, y, X_test = problem()
    frame = pd.DataFrame(X, columns=["east", "north"])
    gp = fixed().fit(frame, pd.Series(y))
    assert list(gp.feature_names_in_) == ["east", "north"]
    assert_allclose(gp.predict(pd.DataFrame(X_test, columns=["east", "north"])), fixed().fit(X, y).predict(X_test))
    with pytest.raises(ValueError, match="feature names"):
        gp.predict(pd.DataFrame(X_test, columns=["north", "east"]))


def test_no_points_to_predict():
    X, y, _ = problem()
    mean, std = fixed().fit(X, y).predict(np.empty((0, 2)), return_std=True)
    assert mean.shape == std.shape == (0,)


# ---- bad input -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        (name, value, f"'{name}' parameter of ExactGPRegressor must be None")
        for name in ("length_scale", "signal_variance")
        for value in (0, -1.0, np.nan, np.inf, "0.5", "word", True, [0.3, -1.0], [], [[]], object())
    ]
    + [
        ("noise_variance", value, "'noise_variance' parameter of ExactGPRegressor must be None")
        for value in (-1.0, np.nan, np.inf, "0.5", True, [0.1, 0.2])
    ]
    + [
        ("length_scale", [1.0, 2.0, 3.0], "length_scale.* 2 of them"),
        ("signal_variance", [1.0, 2.0], "one per scale"),
        ("signal_variance", [[1.0]], "one per scale"),
        ("n_scales", 0, "at least 1"),
        ("n_scales", 1.5, "at least 1"),
        ("ard", "yes", "'ard' .* must be True, False or 'auto'"),
        ("n_restarts", -1, "at least 0"),
        ("time_budget", 0, "positive"),
        ("time_budget", "long", "positive"),
        ("progress", 3, "callable"),
    ],
)
def test_bad_parameters_are_named(name, value, message):
    X, y, _ = problem()
    with pytest.raises(ValueError, match=message):
        fixed(**{name: value}).fit(X, y)


def test_bad_n_jobs():
    X, y, _ = problem()
    with pytest.raises(ValueError, match="n_jobs"):
        nf.ExactGPRegressor(n_jobs=0, random_state=0).fit(X, y)


@pytest.mark.parametrize("n_jobs", ["2", 2.0, True])
def test_n_jobs_must_be_an_integer(n_jobs):
    with pytest.raises(ValueError, match="'n_jobs' parameter must be None or an integer other than 0"):
        n_threads(n_jobs)
    assert n_threads(np.int64(2)) == 2


def test_sources_are_refused():
    X, y, _ = problem()
    source = ArraySource(X, y)
    words = "ExactGPRegressor needs all of X in memory and takes no source: LocalGPRegressor and FeatureGPRegressor do"
    for call in (lambda: fixed().fit(source), lambda: fixed().fit(X, y).predict(source)):
        with pytest.raises(TypeError, match=words):
            call()


def test_one_sample_is_enough_where_nothing_is_learnt():
    """The target's mean is the sample; the variance is the textbook's."""
    X, y, X_test = problem()
    gp = fixed()
    mean, std = gp.fit(X[:1], y[:1]).predict(X_test, return_std=True)
    assert np.all(mean == y[0])
    v, noise = gp.signal_variance, gp.noise_variance
    k = v * np.exp(-0.5 * np.sum((X_test - X[0]) ** 2, axis=1) / gp.length_scale**2)
    np.testing.assert_allclose(std**2, v - k**2 / (v + noise), rtol=1e-12)
    assert np.array_equal(fixed().fit(X, y, np.eye(len(X))[0]).predict(X_test), mean)


def test_bad_data():
    X, y, X_test = problem()
    with pytest.raises(ValueError, match=r"1 sample.*minimum of 2"):
        fixed(noise_variance=None).fit(X[:1], y[:1])
    with pytest.raises(ValueError, match="NaN"):
        fixed().fit(np.where(X > 0.9, np.nan, X), y)
    with pytest.raises(ValueError, match=r"NaN|infinity"):
        fixed().fit(X, np.where(y > 7, np.inf, y))
    with pytest.raises(ValueError, match="inconsistent"):
        fixed().fit(X, y[:-1])
    with pytest.raises(ValueError, match=r"[Nn]egative"):
        fixed().fit(X, y, -np.ones(len(X)))
    with pytest.raises(ValueError, match="at least 2"):
        fixed(noise_variance=None).fit(X, y, np.eye(len(X))[0])
    with pytest.raises(ValueError, match="At most one"):
        fixed().fit(X, y).predict(X_test, return_std=True, return_cov=True)
    with pytest.raises(NotFittedError):
        fixed().predict(X_test)
    with pytest.raises(NotFittedError):
        fixed().log_marginal_likelihood()


@pytest.mark.parametrize("value", [0.0, 0.1, -1e9, 1e-12])
@pytest.mark.parametrize("options", [{}, {"ard": True}, FIXED], ids=["learnt", "ard", "fixed"])
def test_constant_targets(value, options):
    X, _, X_test = problem(43)
    gp = nf.ExactGPRegressor(**options, random_state=0).fit(X, np.full(43, value))
    assert gp.learned_.n_evaluations == 0  # nothing is learnt from what rounding leaves
    mean, std = gp.predict(X_test, return_std=True)
    assert_allclose(mean, value, rtol=1e-12)
    assert np.all(np.isfinite(std))
    assert np.all(std >= 0)


def test_two_samples_are_enough():
    gp = nf.ExactGPRegressor(random_state=0)
    with pytest.warns(UserWarning, match="2 samples do not determine the 3 hyperparameters"):
        mean, std = gp.fit([[0.0], [1.0]], [1.0, 2.0]).predict([[0.0], [0.5], [1.0]], return_std=True)
    assert np.all(np.isfinite([*mean, *std]))
    assert np.all((mean > 0.9) & (mean < 2.1))


def test_words_are_refused_with_the_argument_and_the_column():
    pd = pytest.importorskip("pandas")
    X, y, _ = problem()
    colours = np.resize(["red", "blue"], len(X))
    frame = pd.DataFrame({"a": X[:, 0], "colour": colours})
    named = r"^Input X of ExactGPRegressor must hold numbers only\. Got column 'colour': 'red'; encode such values"
    plain = r"^Input X of ExactGPRegressor must hold numbers only\. Got 'red'; encode such values as numbers first\.$"
    for table, words in ((frame, named), (frame.astype({"colour": "category"}), named), (frame.to_numpy(), plain)):
        with pytest.raises(ValueError, match=words):
            fixed().fit(table, y)
    with pytest.raises(ValueError, match=named):
        fixed().fit(pd.DataFrame({"a": X[:, 0], "colour": X[:, 1]}), y).predict(frame)
    for targets in (colours, colours.tolist(), colours.astype(object), pd.Series(colours)):
        with pytest.raises(
            ValueError, match=r"^Input y of ExactGPRegressor must hold numbers only\. Got 'red'; encode"
        ):
            fixed().fit(X, targets)


def test_numbers_written_as_text_are_numbers():
    X, y, X_test = problem()
    expected = fixed().fit(X, y).predict(X_test)
    for text in (str, object):
        written = fixed().fit(X.astype(str).astype(text), y.astype(str).astype(text))
        assert_allclose(written.predict(X_test.astype(str)), expected)
    with pytest.raises(ValueError, match="Input y contains NaN"):
        fixed().fit(X, ["nan", *y[1:].astype(str)])
    with pytest.raises(ValueError, match="Input y contains NaN"):
        fixed().fit(X, [None, *y[1:]])


@pytest.mark.parametrize("n_targets", [None, 1, 2])
def test_samples_at_no_points(n_targets):
    X, y, X_test = problem(k=n_targets)
    shape, gp = y.shape[1:], fixed().fit(X, y)
    assert gp.sample_y(X_test[:0], 3).shape == (0, *shape, 3)
    assert gp.sample_y(X_test[:4], 0).shape == (4, *shape, 0)


@pytest.mark.parametrize("n_samples", [2.5, -1, "2", True])
def test_bad_numbers_of_samples_are_refused(n_samples):
    X, y, X_test = problem()
    with pytest.raises(ValueError, match="'n_samples' argument must be an integer of at least 0"):
        fixed().fit(X, y).sample_y(X_test, n_samples)


@pytest.mark.parametrize("options", [{}, {"length_scale": 0.4, "signal_variance": 1.5}], ids=["learnt", "fixed"])
def test_duplicates_without_noise(options):
    x = np.linspace(0, 3, 12)[:, None]
    twice, targets = np.concatenate([x, x]), np.sin(np.concatenate([x, x]))[:, 0]
    gp = nf.ExactGPRegressor(noise_variance=0, random_state=0, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mean, std = gp.fit(twice, targets).predict(x, return_std=True)
    assert_allclose(mean, np.sin(x[:, 0]), atol=1e-4)
    assert np.all(std < 0.01)
    assert np.all(np.isfinite(gp.predict(x + 0.1)))
    with pytest.raises(ValueError, match=r"Samples 3 and 15 .* different targets.*noise_variance"):
        gp.fit(twice, targets + np.eye(24)[15])
    with pytest.raises(ValueError, match=r"Samples 3 and 15 "):  # as the user counts them
        gp.fit(twice, targets + np.eye(24)[15], 1.0 - np.eye(24)[1])


@discrete_targets
def test_duplicates_with_different_targets_are_averaged_where_there_is_noise():
    X = np.repeat([[0.0], [5.0]], 50, axis=0)
    y = np.tile([1.0, 3.0], 50)
    gp = nf.ExactGPRegressor(length_scale=0.1, signal_variance=4.0, noise_variance=1.0).fit(X, y)
    gp = nf.ExactGPRegressor(length_scale=0.1, signal_variance=4.0, noise_variance=1.0).fit(X, y)
    assert_allclose(gp.predict([[0.0], [5.0]]), 2.0, atol=1e-9)


def test_nearly_singular_without_noise_warns_and_answers():
    x = np.linspace(0, 1, 60)[:, None]
    with pytest.warns(RuntimeWarning, match="singular to working precision"):
        gp = nf.ExactGPRegressor(length_scale=1.0, signal_variance=1.0, noise_variance=0).fit(x, np.sin(3 * x[:, 0]))
    mean, std = gp.predict(x, return_std=True)
    assert_allclose(mean, np.sin(3 * x[:, 0]), atol=1e-4)
    assert np.all(std >= 0)


@pytest.mark.parametrize("ard", [False, True])
def test_one_constant_column(ard):
    X, y, _ = problem()
    padded = np.column_stack([X, np.full(len(X), 3.0)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        gp = nf.ExactGPRegressor(ard=ard, random_state=0).fit(padded, y)
        plain = nf.ExactGPRegressor(ard=ard, random_state=0).fit(X, y)
    assert np.all(np.isfinite(gp.length_scale_))
    assert_allclose(gp.predict(padded), plain.predict(X), atol=1e-2)


@unlike_columns
@pytest.mark.parametrize("ard", [False, True])
@pytest.mark.parametrize("n", [150, 1500])
def test_columns_of_very_different_scales(ard, n):
    rng = np.random.RandomState(0)
    Z = rng.rand(n + 100, 2)
    y = np.sin(5 * Z[:, 0]) + np.cos(4 * Z[:, 1]) + 0.1 * rng.randn(n + 100)
    X = Z * np.array([1e-3, 1e6])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        gp = nf.ExactGPRegressor(ard=ard, random_state=0).fit(X[:n], y[:n])
    mean, std = gp.predict(X[n:], return_std=True)
    assert np.all(np.isfinite(mean))
    assert np.all(np.isfinite(std))
    # one length scale sees the large column only; one per column sees both
    assert gp.score(X[n:], y[n:]) > (0.95 if ard else 0.2)
