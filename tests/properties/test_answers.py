"""Whatever the data, answers are numbers: finite means, and variances between zero and the prior's."""

import warnings

import numpy as np
import pytest
from hypothesis import given

import nearfield as nf

from ..small import exact_up_to
from ..warned import far_points
from .problems import MOST, problems

pytestmark = far_points

ROUNDING = 1e-6


def check_answers(gp, problem):
    mean, std = gp.predict(problem.test, return_std=True)
    assert np.all(np.isfinite(mean))
    assert np.all(np.isfinite(std))
    assert np.all(std >= 0)
    assert np.all(std**2 <= gp.kernel_.variance * (1 + ROUNDING))
    _, observed = gp.predict(problem.test, return_std=True, include_noise=True)
    if gp.noise_model_.is_plain:
        np.testing.assert_allclose(observed**2, std**2 + gp.noise_variance_, rtol=1e-12)
    assert np.all(observed >= std)  # noise of local size or with outliers, where that was learnt


def fitted(gp, problem):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of tolerances that cannot be met, and of estimates on bounds
        return gp.fit(problem.X, problem.y, problem.weights)


@given(problem=problems())
def test_exact(problem):
    check_answers(fitted(nf.ExactGPRegressor(**problem.hyperparameters), problem), problem)


@pytest.mark.parametrize(
    "feature_map", [nf.TaylorFeatures(degree=2), nf.FourierFeatures(n_components=50, random_state=0)]
)
@given(problem=problems(noise=(1e-6, 100.0), length=(0.3, 5.0)))
def test_features(feature_map, problem):
    gp = nf.FeatureGPRegressor(feature_map, **problem.hyperparameters, random_state=0)
    check_answers(fitted(gp, problem), problem)


@given(problem=problems(max_samples=max(MOST, 1000)))
def test_local(problem):
    with exact_up_to(400):
        check_answers(fitted(nf.LocalGPRegressor(**problem.hyperparameters, random_state=0), problem), problem)


@given(problem=problems(min_samples=2, max_samples=100))
def test_local_learnt(problem):
    """Nothing given: hyperparameters and the number of scales are learnt."""
    gp = nf.LocalGPRegressor(n_restarts=0, random_state=0)
    check_answers(fitted(gp, problem), problem)
