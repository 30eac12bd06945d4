"""Local models whose noise is learnt from left-out residuals."""

from copy import copy
from dataclasses import replace

import numpy as np
import pytest

import nearfield as nf
from nearfield.hyperparameters.learned import OnBoundWarning
from nearfield.hyperparameters.noise import NoiseModel
from nearfield.hyperparameters.noise_field import FieldSum, Inputs
from nearfield.local import noise
from nearfield.local.in_memory import InMemory
from nearfield.local.noise import _State, sample_rows
from nearfield.solvers.kernel_space import KernelSpace
from nearfield.sources import ArraySource

N = 700
GIVEN = {"length_scale": 1.0, "signal_variance": 1.0, "random_state": 0, "n_jobs": 1, "n_restarts": 0}
PLAIN = {"noise": "constant", "likelihood": "gaussian"}


def truth(X):
    return np.sin(1.2 * X[:, 0]) + np.cos(X[:, 1])


def points(seed, n=N):
    return np.random.RandomState(seed).uniform(0, 10, (n, 2))


def variance(X):
    return 0.1 * np.exp(1.15 * np.sin(0.6 * X[:, 0]))


X, TEST = points(0), points(1, 1000)
NOISE = np.random.RandomState(2).standard_normal(N)


@pytest.fixture(scope="module")
def local():
    return nf.LocalGPRegressor(**GIVEN).fit(X, truth(X) + np.sqrt(variance(X)) * NOISE)


def test_plain_draws_are_left_alone():
    y = truth(X) + 0.3 * NOISE
    model = nf.LocalGPRegressor(**GIVEN).fit(X, y)
    as_is = nf.LocalGPRegressor(**GIVEN, **PLAIN).fit(X, y)
    assert model.noise_model_.is_plain
    for answer, expected in zip(
        model.predict(TEST, return_std=True), as_is.predict(TEST, return_std=True), strict=True
    ):
        np.testing.assert_array_equal(answer, expected)
    assert model.report_.left_out["coverage"] == pytest.approx(0.95, abs=0.02)
    assert "noise of one size, normal" in str(model.report_)
    assert "left out" in str(model.report_)
    assert not as_is.report_.left_out


def test_field_of_noise(local):
    assert local.noise_model_.field is not None
    ratio = local.predict_noise(TEST) / variance(TEST)
    assert np.sqrt(np.mean((ratio - 1) ** 2)) < 0.4  # from 700 samples
    assert local.predict_noise(X).mean() == pytest.approx(local.noise_variance_, rel=0.2)
    y = truth(TEST) + np.sqrt(variance(TEST)) * np.random.RandomState(3).standard_normal(len(TEST))
    distribution = local.predict_distribution(TEST)
    oracle = nf.LocalGPRegressor(**GIVEN, noise_variance=1.0).fit(
        X, truth(X) + np.sqrt(variance(X)) * NOISE, 1 / variance(X)
    )
    mean, std = oracle.predict(TEST, return_std=True)
    best = nf.metrics.mean_nll(y, mean, var=std**2 + variance(TEST))
    assert -np.mean(distribution.logpdf(y)) < best + 0.03
    low, high = local.predict_interval(TEST)
    quiet = variance(TEST) < 0.05
    assert np.mean((y >= low) & (y <= high)) == pytest.approx(0.95, abs=0.025)
    assert np.mean(((y >= low) & (y <= high))[quiet]) == pytest.approx(0.95, abs=0.04)
    # What is predicted is what the distribution says.
    mean, std = local.predict(TEST, return_std=True, include_noise=True)
    np.testing.assert_allclose(std, distribution.std)
    np.testing.assert_allclose(mean, distribution.mean)
    assert np.all(local.predict(TEST, return_std=True)[1] < std)


def test_other_rows_take_over_all_but_the_noise(local, monkeypatch):
    def learns(*_):
        raise AssertionError("learnt again")

    monkeypatch.setattr("nearfield.local.in_memory.InMemory.learn", learns)
    same = local._of_other_rows(X, truth(X) + np.sqrt(variance(X)) * NOISE)
    np.testing.assert_allclose(same.predict(TEST), local.predict(TEST), atol=0.03)
    np.testing.assert_allclose(same.predict_noise(TEST), local.predict_noise(TEST), rtol=0.1)
    before, rows = local.predict(TEST), points(5)
    other = local._of_other_rows(rows, truth(rows) + 0.3 * NOISE)
    assert other.noise_model_.field is None
    assert other.kernel_ is local.kernel_
    np.testing.assert_array_equal(local.predict(TEST), before)
    given = {**GIVEN, "noise_variance": local.noise_variance_, "n_scales": 1}
    exact = nf.ExactGPRegressor(**{k: v for k, v in given.items() if k != "n_jobs"})
    exact.fit(rows, truth(rows) + 0.3 * NOISE)
    assert np.sqrt(np.mean((other.predict(TEST) - exact.predict(TEST)) ** 2)) < 0.02


def test_left_out_predictions_have_the_noise(local):
    assert local.loo_.coverage() == pytest.approx(0.95, abs=0.02)
    assert local.loo_.nll == pytest.approx(local.report_.left_out["nll"], abs=1e-6)
    assert local.cross_validate(5).coverage() > 0.93


def test_files(local, tmp_path):
    nf.save(local, tmp_path / "model.nf")
    loaded = nf.load(tmp_path / "model.nf")
    np.testing.assert_allclose(loaded.predict_interval(TEST), local.predict_interval(TEST), rtol=1e-9)
    np.testing.assert_allclose(loaded.loo_.std, local.loo_.std, rtol=1e-9)
    assert str(loaded.report_) == str(local.report_)


def test_more_data(local):
    import copy

    more = points(4, 200)
    model = copy.deepcopy(local).partial_fit(more, truth(more) + np.sqrt(variance(more)) * NOISE[:200])
    assert len(model.loo_) == N + 200
    assert model.loo_.coverage() == pytest.approx(0.95, abs=0.02)
    alone = copy.deepcopy(local).partial_fit(more, truth(more), forget=True)
    assert len(alone.loo_) == 200


def test_outliers_do_not_move_the_map():
    y = truth(X) + 0.3 * NOISE
    wild = y.copy()
    wild[::100] += 15.0
    clean = nf.LocalGPRegressor(**GIVEN).fit(X, y)
    robust = nf.LocalGPRegressor(**GIVEN).fit(X, wild)
    moved = nf.LocalGPRegressor(**GIVEN, **PLAIN).fit(X, wild)
    errors = [nf.metrics.rmse(truth(TEST), model.predict(TEST)) for model in (clean, robust, moved)]
    assert errors[1] < 1.05 * errors[0]
    assert errors[2] > 2 * errors[0]
    # An outlier has a large residual, and not a small one by a weight of its own.
    assert np.all(np.abs(robust.loo_.standardised[::100]) > 8)


def test_peaks_are_no_outliers():
    # Close together and of one mind, though far from all else.
    y = truth(X) + 0.1 * NOISE + 25.0 * np.exp(-0.5 * ((X - 5) ** 2).sum(axis=1) / 0.3**2)
    model = nf.LocalGPRegressor(**GIVEN).fit(X, y)
    assert model._stated_noise is None
    as_is = nf.LocalGPRegressor(**GIVEN, **PLAIN).fit(X, y)
    np.testing.assert_array_equal(model.predict(TEST), as_is.predict(TEST))


def test_few_samples():
    y = truth(X) + 0.3 * np.random.RandomState(6).standard_t(3, N)
    few = nf.LocalGPRegressor(**GIVEN, likelihood="student").fit(X[:200], y[:200])
    assert few.noise_model_.dof < 20
    assert few.noise_model_.field is None
    with pytest.raises(ValueError, match="need at least 50 samples"):
        nf.LocalGPRegressor(**GIVEN, noise="local").fit(X[:30], y[:30])
    assert nf.LocalGPRegressor(**GIVEN).fit(X[:10], y[:10]).noise_model_.is_plain


def test_weights_divide_the_noise():
    weights = np.random.RandomState(5).uniform(0.2, 5.0, N)
    y = truth(X) + np.sqrt(variance(X) / weights) * NOISE
    model = nf.LocalGPRegressor(**GIVEN).fit(X, y, weights)
    ratio = model.predict_noise(TEST) / variance(TEST)
    assert np.median(np.abs(ratio - 1)) < 0.3
    # Left-out observations have the noise of their weights.
    assert np.corrcoef(np.log(model.loo_.std), -np.log(weights))[0, 1] > 0.3


def test_what_is_given_is_taken():
    y = truth(X) + np.sqrt(variance(X)) * NOISE
    assert nf.LocalGPRegressor(**GIVEN, noise_variance=0.1).fit(X, y).noise_model_.is_plain
    local = nf.LocalGPRegressor(**GIVEN, noise_variance=0.1, noise="local").fit(X, y)
    assert local.noise_model_.field is not None
    assert nf.LocalGPRegressor(**GIVEN).fit(X[:40], y[:40]).noise_model_.is_plain
    assert nf.LocalGPRegressor.from_paper(20, random_state=0).noise == "constant"


@pytest.mark.parametrize("options", [{"noise": "loud"}, {"likelihood": "cauchy"}, {"noise": None}])
def test_other_words_are_refused(options):
    (name,) = options
    with pytest.raises(ValueError, match=f"'{name}' parameter of LocalGPRegressor must be one of 'auto'"):
        nf.LocalGPRegressor(**GIVEN, **options).fit(X, truth(X))


def test_where_it_is_not_supported():
    y = truth(X)
    with pytest.raises(ValueError, match="must be 'auto' or 'constant' for several targets"):
        nf.LocalGPRegressor(**GIVEN, noise_variance=0.1, noise="local").fit(X, np.column_stack([y, y]))
    source = ArraySource(X, y, sample_size=100)
    fixed = {"spacing": 1.0, "radius": 3.0, "features": nf.TaylorFeatures(8)}
    with pytest.raises(ValueError, match="must be 'auto' or 'gaussian' for rows of a source"):
        nf.LocalGPRegressor(**GIVEN, **fixed, likelihood="student").fit(source)
    assert nf.LocalGPRegressor(**GIVEN, noise_variance=0.1, **fixed).fit(source).noise_model_.is_plain


def test_without_noise():
    # A simulator: residuals are tiny, and nothing divides by them.
    with pytest.warns(OnBoundWarning, match="noise variance .* free of noise"):
        smooth = nf.LocalGPRegressor(**GIVEN).fit(X, truth(X))
    assert np.all(np.isfinite(smooth.predict_interval(TEST)))
    assert np.max(np.abs(smooth.predict(TEST) - truth(TEST))) < 1e-2
    constant = nf.LocalGPRegressor(random_state=0).fit(X, np.full(N, 3.0))
    np.testing.assert_allclose(constant.predict_quantiles(TEST, 0.5), 3.0)


def test_rows_are_sampled_in_groups():
    rng = np.random.RandomState(0)
    places = rng.uniform(0, 1, (20_000, 2))
    rows = sample_rows(places, 3000, rng)
    assert 2500 < len(rows) < 3500
    assert len(np.unique(rows)) == len(rows)
    np.testing.assert_array_equal(sample_rows(places, 30_000, rng), np.arange(20_000))


def test_plain_model_is_plain():
    assert NoiseModel().is_plain
    assert not NoiseModel(dof=5.0).is_plain
    assert NoiseModel().in_words() == "noise of one size, normal"


def test_fields_of_several_terms_are_stored(local, tmp_path):
    field = local.noise_model_.field
    smooth = field.terms[0] if isinstance(field, FieldSum) else field
    marks = Inputs.ranks(smooth.X)
    ranked = replace(smooth, X=marks(smooth.X), inputs=marks)
    column = replace(smooth, X=smooth.X[:, 1:], inputs=Inputs(1))
    model = copy(local)
    model.noise_model_ = replace(local.noise_model_, field=FieldSum((column, smooth, ranked)))
    nf.save(model, tmp_path / "model.nf")
    loaded = nf.load(tmp_path / "model.nf")
    np.testing.assert_array_equal(loaded.predict_noise(TEST), model.predict_noise(TEST))
    assert not np.allclose(loaded.predict_noise(TEST), local.predict_noise(TEST))
    # A column that there is none of: what could not be read is not written.
    wrong = replace(column, inputs=Inputs(2))
    model.noise_model_ = replace(local.noise_model_, field=FieldSum((wrong, smooth)))
    with pytest.raises(ValueError, match="cannot be saved"):
        nf.save(model, tmp_path / "wrong.nf")


def test_noise_is_told_from_residuals_that_are_as_far_off_as_answers_are():
    """Answers that are known to be 0.02 nats from the exact process have 4 % more variance than it."""
    model = nf.LocalGPRegressor(**GIVEN, **PLAIN, noise_variance=0.1).fit(X, truth(X))
    far = replace(model._fitted, report=replace(model._fitted.report, divergence=0.02))
    ones = np.ones(N)
    state = _State(far, InMemory(X, truth(X)[:, None], None), ones, ones, lambda _: far)
    told, exact = state.residuals(np.arange(N)), state.left_out(np.arange(N))
    added = np.mean((told.values - exact.values) ** 2 / (exact.variance + exact.noise))
    assert added == pytest.approx(0.04, abs=4 * 0.04 * np.sqrt(2 / N))


def test_small_tables_have_noise_of_their_own_kind_too():
    """Twenty times as much noise in one half as in the other, which 150 samples show beyond doubt."""
    rng = np.random.RandomState(0)

    def observed(X):
        return truth(X) + np.where(X[:, 0] < 5, 0.02, 0.4) * rng.standard_normal(len(X))

    X, T = points(5, 150), points(6, 500)
    y, z = observed(X), observed(T)
    model, plain = (nf.LocalGPRegressor(**GIVEN, **options).fit(X, y) for options in ({}, PLAIN))
    assert not model.noise_model_.is_plain
    nll, plain_nll = (-each.predict_distribution(T).logpdf(z).mean() for each in (model, plain))
    assert nll < plain_nll - 0.1


def test_the_exact_process_is_fitted_again_as_often_as_counted_operations_allow(monkeypatch):
    """Each further fit factorises the matrix of all samples once, and where there is no time for it, none is made."""
    sizes = []
    original = KernelSpace.factorise
    monkeypatch.setattr(
        KernelSpace, "factorise", staticmethod(lambda *args: sizes.append(len(args[1])) or original(*args))
    )
    y = truth(X) + np.sqrt(variance(X)) * NOISE
    again = nf.LocalGPRegressor(**GIVEN, noise="local", likelihood="gaussian").fit(X, y)
    assert again.report_.method == "the exact Gaussian process"
    assert 2 <= sizes.count(N) <= 3
    once = []
    monkeypatch.setattr(KernelSpace, "factorise", staticmethod(lambda *args: once.append(args) or original(*args)))
    monkeypatch.setattr(noise, "TIME_SHARE", 1e-9)
    model = nf.LocalGPRegressor(**GIVEN, noise="local", likelihood="gaussian").fit(X, y)
    assert sum(len(args[1]) == N for args in once) == 1
    assert model.noise_model_.field is not None
    np.testing.assert_allclose(model.predict_noise(TEST), again.predict_noise(TEST), rtol=0.5)
