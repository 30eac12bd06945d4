"""Noise models from residuals whose distribution is known."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from nearfield.hyperparameters.noise import NoiseModel, Residuals, _is_better, calibrated, choose, learn, learn_anew
from nearfield.hyperparameters.noise_field import Cells, Inputs, Term, cell_values, choose_kernel, fit_field
from nearfield.hyperparameters.outliers import neighbours_of, precisions_without_outliers
from nearfield.hyperparameters.tails import fit_tails, log_densities

N = 4000


def draw(seed=0, dof=np.inf, log_noise=None, of_all=False):
    """Residuals with noise of local size, of which the model knows the mean size alone."""
    rng = np.random.RandomState(seed)
    X = rng.uniform(0, 10, (N, 2))
    field = np.zeros(N) if log_noise is None else log_noise(X)
    variance, noise = rng.uniform(0.05, 0.3, N), np.full(N, 0.5)
    scale = (variance + noise) * np.exp(field) if of_all else variance + noise * np.exp(field)
    z = rng.standard_normal(N) if np.isinf(dof) else rng.standard_t(dof, N)
    return Residuals(X, np.sqrt(scale) * z, variance, noise), field


def found(residuals, noise, likelihood):
    kind = choose(residuals, noise, likelihood, np.random.RandomState(0))
    return learn(residuals, kind, np.arange(len(residuals.values)))[0]


def waves(X):
    return 1.15 * np.sin(0.7 * X[:, 0])  # tenfold


def test_tails_are_those_of_the_draw():
    residuals, _ = draw(dof=4.0)
    factor, dof = fit_tails(residuals.values, residuals.variance, residuals.noise, True)
    assert factor == pytest.approx(1.0, abs=0.12)
    assert dof == pytest.approx(4.0, abs=0.8)
    gaussian, infinite = fit_tails(residuals.values, residuals.variance, residuals.noise, False)
    assert np.isinf(infinite)
    # The best factor of a normal distribution makes its mean squared standardised residual about 1.
    squares = residuals.values**2 / (residuals.variance + gaussian * residuals.noise)
    assert np.mean(squares) == pytest.approx(1.0, abs=0.05)


def test_densities_are_those_of_scipy():
    e, v = np.array([0.3, -2.0]), np.array([1.0, 0.25])
    np.testing.assert_allclose(log_densities(e, v, np.inf), stats.norm.logpdf(e, 0, np.sqrt(v)))
    np.testing.assert_allclose(log_densities(e, v, 3.0), stats.t.logpdf(e, 3.0, 0, np.sqrt(v)))


@pytest.mark.parametrize("dof", [np.inf, 4.0])
def test_field_is_that_of_the_draw(dof):
    residuals, field = draw(dof=dof, log_noise=waves)
    cells, rows = Cells.of(residuals.X), np.arange(N)
    known = residuals.values, residuals.variance, residuals.noise
    values, variances = cell_values(np.zeros(N), *known, cells, rows)
    kernel = choose_kernel(cells, values, variances)
    smooth, found = fit_field(residuals.X, *known, Term.of(Inputs(), residuals.X, cells, kernel), rows)
    np.testing.assert_allclose(smooth(residuals.X), found, rtol=1e-9)
    error = found - found.mean() - (field - field.mean())
    assert np.sqrt(np.mean(error**2)) < 0.25  # where the field itself has 0.8
    assert np.std(field) > 0.75


def test_no_field_where_there_is_none():
    kinds = []
    for seed in range(10):
        residuals, _ = draw(seed)
        kinds.append(found(residuals, "auto", "auto").is_plain)
    assert all(kinds)


@pytest.mark.parametrize(
    ("dof", "log_noise", "of_all"),
    [(np.inf, waves, False), (4.0, None, False), (4.0, waves, False), (np.inf, lambda X: 2 * waves(X), True)],
)
def test_choice_is_the_kind_of_the_draw(dof, log_noise, of_all):
    residuals, field = draw(1, dof, log_noise, of_all)
    model = found(residuals, "auto", "auto")
    assert np.isinf(model.dof) == np.isinf(dof)
    assert (model.field is None) == (log_noise is None)
    if of_all:
        assert model.of_all
    # On new draws it is as good as the truth, nearly.
    fresh, field = draw(2, dof, log_noise, of_all)
    scale = fresh.variance * np.exp(field * of_all) + fresh.noise * np.exp(field)
    best = log_densities(fresh.values, scale, dof)
    plain = fresh.log_densities(NoiseModel())
    gained = fresh.log_densities(model)
    assert np.mean(gained) > np.mean(best) - 0.02
    assert np.mean(gained) > np.mean(plain) + 0.02
    again, _ = learn_anew(fresh, choose(residuals, "auto", "auto", np.random.RandomState(0)))
    assert (again.field is None) == (model.field is None)
    assert again.of_all == model.of_all


@pytest.mark.parametrize(
    ("noise", "likelihood"), [("local", "gaussian"), ("constant", "student"), ("local", "student")]
)
def test_what_is_asked_for_is_taken(noise, likelihood):
    residuals, _ = draw(3, 5.0, waves)
    model = found(residuals, noise, likelihood)
    assert np.isinf(model.dof) == (likelihood == "gaussian")
    assert (model.field is None) == (noise == "constant")
    # and where there is nothing to see, it still answers
    plain, _ = draw(4)
    model = found(plain, noise, likelihood)
    assert np.isfinite(plain.log_densities(model)).all()


def test_intervals_are_corrected_only_where_they_are_off():
    residuals, _ = draw(5)
    stated = residuals.variance + residuals.noise
    assert calibrated(NoiseModel(), residuals.values, stated).calibration is None
    skewed = Residuals(residuals.X, np.exp(residuals.values) - 1, residuals.variance, residuals.noise)
    model = calibrated(NoiseModel(), skewed.values, stated)
    assert model.calibration is not None
    assert "corrected" in model.in_words()
    distribution = model.distribution(skewed.X, np.zeros(N), skewed.variance, skewed.noise)
    for level in (0.5, 0.8, 0.95, 0.99):
        low, high = distribution.interval(level)
        assert np.mean((skewed.values >= low) & (skewed.values <= high)) == pytest.approx(level, abs=0.01)


def test_distribution_of_variances_of_local_size():
    residuals, _ = draw(6, np.inf, lambda X: 2 * waves(X), True)
    model = found(residuals, "local", "gaussian")
    factors = model.factors(residuals.X)
    function = model.distribution(residuals.X, np.zeros(N), residuals.variance, None)
    np.testing.assert_allclose(function.std**2, residuals.variance * factors)
    both = model.distribution(residuals.X, np.zeros((N, 2)), residuals.variance, residuals.noise)
    np.testing.assert_allclose(both.std[:, 1] ** 2, (residuals.variance + residuals.noise) * factors)
    np.testing.assert_allclose(model.noise_variance(residuals.X, residuals.noise), residuals.noise * factors)


def test_variance_of_heavy_tails():
    model = NoiseModel(2.0, 4.0)
    X, half = np.zeros((3, 1)), np.full(3, 0.5)
    distribution = model.distribution(X, np.zeros(3), half, half)
    np.testing.assert_allclose(distribution.scale**2, 1.5)
    np.testing.assert_allclose(distribution.std**2, 3.0)
    np.testing.assert_allclose(model.noise_variance(X, half), 2.0)


def test_outliers():
    rng = np.random.RandomState(0)
    for clean in (rng.standard_normal(2000), rng.standard_t(3, 2000)):
        assert precisions_without_outliers(clean) is None
    wild = rng.standard_normal(2000)
    wild[:20] += 30
    precisions = precisions_without_outliers(wild)
    assert np.all(precisions[:20] < 0.15)
    assert np.all(precisions[20:] == 1)
    assert precisions_without_outliers(np.zeros(2000)) is None
    many = rng.standard_normal(2000)
    many[:200] = 30.0
    assert precisions_without_outliers(many) is None  # a tenth is what the data are like
    single = rng.standard_normal(1000)
    single[500] = 15.0
    assert np.flatnonzero(precisions_without_outliers(single) < 1).tolist() == [500]


def test_neighbours_of_outliers():
    line = np.arange(100.0)[:, None]
    near = neighbours_of(line, np.isin(np.arange(100), [50]))
    assert near.tolist() == [*range(50 - len(near) // 2, 50), *range(51, 51 + len(near) - len(near) // 2)]


@pytest.mark.parametrize("dof", [np.inf, 4.0])
def test_sizes_of_cells_are_as_near_to_the_truth_as_they_say(dof):
    rng = np.random.RandomState(0)
    X = rng.uniform(0, 10, (12_000, 1))
    truth = 1.2 * np.sin(X[:, 0])
    latent = rng.uniform(0.0, 1.0, len(X))
    unit = rng.standard_normal(len(X)) if np.isinf(dof) else rng.standard_t(dof, len(X))
    residuals = unit * np.sqrt(latent + np.exp(truth))
    cells, rows = Cells.of(X), np.arange(len(X))
    values, variances = cell_values(np.zeros(len(X)), residuals, latent, np.ones(len(X)), cells, rows)
    errors = values - 1.2 * np.sin(cells.middles[:, 0])
    errors -= np.average(errors, weights=1 / variances)  # only differences count
    z = errors / np.sqrt(variances)
    assert len(z) > 200
    assert 0.8 < z.std() < 1.25
    assert np.abs(z).max() < 5


def of_columns(seed, d, log_noise, X=None):
    """Residuals at points of several columns, whose noise has a size that depends on them."""
    rng = np.random.RandomState(seed)
    X = rng.uniform(0, 1, (3000, d)) if X is None else X
    variance, noise = np.full(len(X), 0.1), np.full(len(X), 0.5)
    values = np.sqrt(variance + noise * np.exp(log_noise(X))) * rng.standard_normal(len(X))
    return Residuals(X, values, variance, noise)


def test_noise_that_depends_on_single_columns_among_many():
    def log_noise(X):
        return 3 * (X[:, 2] - 0.5) + np.cos(5 * X[:, 6])

    model = found(of_columns(0, 8, log_noise), "auto", "gaussian")
    fresh = of_columns(1, 8, log_noise)
    error = np.log(model.factors(fresh.X)) - log_noise(fresh.X)
    assert np.sqrt(np.mean(error**2)) < 0.25  # where the field itself has 1.1
    assert {term.inputs.column for term in model.field.terms} >= {2, 6}
    assert model.field.takes(8)
    assert not model.field.takes(6)


def test_noise_that_changes_within_a_town():
    rng = np.random.RandomState(0)
    town = rng.uniform(size=3000) < 0.5
    X = np.where(town[:, None], rng.uniform(0, 0.02, (3000, 2)), rng.uniform(-1, 1, (3000, 2)))

    def log_noise(X):
        inside = (np.abs(X - 0.01) < 0.01).all(axis=1)
        return np.where(inside, np.sin(300 * X[:, 0]), 0.0)

    residuals = of_columns(2, 2, log_noise, X)
    model = found(residuals, "auto", "gaussian")
    ranked = [term for term in model.field.terms if term.inputs.marks is not None]
    error = np.log(model.factors(X)) - log_noise(X)
    assert len(ranked) == 1
    assert np.std(error[town]) < 0.5 * np.std(log_noise(X)[town])


def test_ranks_of_few_values():
    X = np.column_stack([np.repeat([0.0, 1.0, 5.0], 100), np.arange(300.0)])
    inputs = Inputs.ranks(X)
    ranks = inputs(np.array([[0.0, 0.0], [5.0, 299.0], [9.0, -4.0], [3.0, 149.5]]))
    assert np.all((ranks >= 0) & (ranks <= 1))
    np.testing.assert_allclose(ranks[:, 1], [0.0, 1.0, 0.0, 0.5], atol=1e-6)
    assert ranks[0, 0] <= ranks[3, 0] <= ranks[1, 0] <= ranks[2, 0] == 1


def test_a_few_wild_residuals_are_evidence_enough():
    # A gain that comes from few residuals has a large standard error, and is beyond doubt all the same.
    residuals, _ = draw(7)
    values = residuals.values.copy()
    values[:3] = 15.0
    model = found(replace(residuals, values=values), "auto", "auto")
    assert np.isfinite(model.dof)


def test_evidence():
    halves = [np.arange(500), np.arange(500, 1000)]
    assert not _is_better(np.full(1000, 0.01), halves)  # 5 nats of each half, less than a thousand to one
    assert _is_better(np.full(1000, 0.02), halves)
    assert not _is_better(np.repeat(0.002, 10_000), [np.arange(5000), np.arange(5000, 10_000)])  # not worth having


def test_scales_are_stated_without_the_residual():
    # A field follows the residuals that it was learnt from; what is stated for calibration must not.
    rng = np.random.RandomState(3)
    residuals, _ = draw(8, log_noise=lambda X: 1.5 * np.sin(4 * X[:, 0]) * np.sin(4 * X[:, 1]))
    kind = choose(residuals, "local", "gaussian", rng)
    model, scales = learn_anew(residuals, kind)
    fitted = model.squared_scale(residuals.X, residuals.variance, residuals.noise)
    likelier = np.mean(log_densities(residuals.values, fitted, np.inf))
    honest = np.mean(log_densities(residuals.values, scales, np.inf))
    fresh, _ = draw(9, log_noise=lambda X: 1.5 * np.sin(4 * X[:, 0]) * np.sin(4 * X[:, 1]))
    new = np.mean(fresh.log_densities(model))
    assert honest < likelier
    assert abs(honest - new) < 3 * np.std(log_densities(residuals.values, scales, np.inf)) * np.sqrt(2 / N)
