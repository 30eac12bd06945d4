"""Hyperparameters of one regressor go straight into another."""

import numpy as np
import pytest

import nearfield as nf
from nearfield.kernels import Kernel

from ..warned import few_features, on_bounds

REGRESSORS = {
    "exact": nf.ExactGPRegressor,
    "local": lambda **given: nf.LocalGPRegressor(**given, random_state=0),
    "features": lambda **given: nf.FeatureGPRegressor(nf.FourierFeatures(30, random_state=0), **given, random_state=0),
}


def problem(d):
    rng = np.random.default_rng(d)
    X = rng.uniform(0, 5, (50, d))
    return X, np.sin(X[:, 0]) + 0.1 * rng.standard_normal(50)


def of_attributes(model):
    return {
        "length_scale": model.length_scale_,
        "signal_variance": model.signal_variance_,
        "noise_variance": model.noise_variance_,
    }


def of_kernel(model):
    return {**model.kernel_.parameters(), "noise_variance": model.noise_variance_}


@few_features
@pytest.mark.parametrize("take", [of_attributes, of_kernel])
@pytest.mark.parametrize("target", REGRESSORS)
@pytest.mark.parametrize("ard", [False, True])
@pytest.mark.parametrize("J", [1, 3])
@pytest.mark.parametrize("d", [1, 2, 3])  # with three columns, three numbers may be one per column or one per scale
def test_hyperparameters_go_from_any_regressor_into_any_other(d, J, ard, target, take):
    X, y = problem(d)
    rng = np.random.default_rng(0)
    kernel = Kernel(1.0 + rng.uniform(0, 1, (J, d if ard else 1)), rng.uniform(1, 2, J))
    for make in REGRESSORS.values():
        source = make(**kernel.parameters(), noise_variance=0.05).fit(X, y)
        model = REGRESSORS[target](**take(source)).fit(X, y)
        np.testing.assert_array_equal(model.kernel_.length_scales, kernel.length_scales)
        np.testing.assert_array_equal(model.kernel_.variances, kernel.variances)
        assert model.noise_variance_ == 0.05
        assert model.learned_.n_evaluations == 0


@pytest.mark.parametrize("target", REGRESSORS)
def test_as_many_numbers_as_columns_are_scales_where_there_are_as_many_variances(target):
    X, y = problem(3)
    given = {"length_scale": [1.0, 2.0, 3.0], "noise_variance": 0.1}
    per_column = REGRESSORS[target](**given, signal_variance=2.0).fit(X, y)
    assert per_column.kernel_.length_scales.shape == (1, 3)
    per_scale = REGRESSORS[target](**given, signal_variance=[2.0, 1.0, 1.0]).fit(X, y)
    assert per_scale.kernel_.length_scales.shape == (3, 1)


@on_bounds
def test_rows_of_length_scales_are_scales_though_their_variances_are_learnt():
    X, y = problem(2)
    model = nf.ExactGPRegressor(length_scale=[[1.0, 1.0], [5.0, 5.0]], noise_variance=0.1, random_state=0).fit(X, y)
    assert model.signal_variance_.shape == (2,)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"length_scale": 1.0, "signal_variance": [1.0, 1.0]}, "'length_scale' .* 2 positive numbers"),
        ({"length_scale": [1.0, 2.0, 3.0]}, "'length_scale' .* signal variances or n_scales"),
        ({"length_scale": [1.0, 2.0], "signal_variance": [1.0] * 3, "n_scales": 2}, "'signal_variance' .* 2 expected"),
        ({"length_scale": [[1.0, 2.0]] * 2, "signal_variance": 1.0}, "'length_scale' .* positive number"),
    ],
)
def test_numbers_that_do_not_match_are_refused(given, words):
    X, y = problem(2)
    with pytest.raises(ValueError, match=words):
        nf.ExactGPRegressor(**given).fit(X, y)


def test_features_that_learn_by_their_own_likelihood_have_one_scale_by_whatever_name():
    X, y = problem(2)
    model = nf.FeatureGPRegressor(nf.TaylorFeatures(3), signal_variance=[1.0, 1.0], likelihood="features")
    with pytest.raises(ValueError, match="must be 'kernel' where n_scales is not 1"):
        model.fit(X, y)
