"""scikit-learn's own checks, with hyperparameters learnt and fixed."""

import pytest
from sklearn.linear_model import Ridge
from sklearn.utils.estimator_checks import parametrize_with_checks

import nearfield as nf

from ..warned import discrete_targets, far_points, few_features

# The checks fit to toys.
pytestmark = [
    discrete_targets,
    far_points,
    few_features,
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]

FIXED = {"length_scale": 4.0, "signal_variance": 1.0, "noise_variance": 0.1, "random_state": 0}
FOURIER = nf.FourierFeatures(32, random_state=0)
MACLAURIN = nf.MaclaurinFeatures(32, random_state=0)
LOCAL = {"spacing": 1.0, "radius": 2.0, "features": nf.TaylorFeatures(2)}
ESTIMATORS = [
    nf.ExactGPRegressor(random_state=0),
    nf.ExactGPRegressor(**FIXED),
    nf.FeatureGPRegressor(nf.TaylorFeatures(2, center=None), **FIXED),
    nf.FeatureGPRegressor(FOURIER, **FIXED),
    nf.FeatureGPRegressor(MACLAURIN, random_state=0),
    nf.FeatureGPRegressor(MACLAURIN, **FIXED),
    nf.LocalGPRegressor(random_state=0),
    nf.LocalGPRegressor(**FIXED),
    nf.LocalGPRegressor(**FIXED, **LOCAL),
    nf.LocalGPRegressor(**FIXED, **LOCAL, centers="net", blend=True),
    nf.LocalGPRegressor.from_paper(16, **FIXED),
    nf.ExactGPRegressor(**FIXED, drift=[]),
    nf.LocalGPRegressor(**FIXED, drift=[]),
    nf.FeatureGPRegressor(FOURIER, **FIXED, drift=[]),
    nf.ExactGPRegressor(**FIXED, coordinates=[0]),
    nf.LocalGPRegressor(**FIXED, coordinates=[0]),
    nf.FeatureGPRegressor(FOURIER, **FIXED, coordinates=[0]),
    nf.LocalGPRegressor(**FIXED, drift="linear"),
    nf.ExactGPRegressor(**FIXED, mean=Ridge()),
    nf.FeatureGPRegressor(FOURIER, **FIXED, mean=Ridge()),
    nf.LocalGPRegressor(**FIXED, target="yeojohnson"),
]
WEIGHTS, TARGETS, TRAIN = (
    "check_sample_weight_equivalence_on_dense_data",
    "check_regressor_multioutput",
    "check_regressors_train",
)


def expected_failures(estimator):
    if estimator.coordinates is not None:
        return {TRAIN: "the target depends on columns that are no coordinates"}
    if isinstance(estimator.drift, str) and estimator.drift == "linear":
        dependent = {"check_array_api_input": "some columns of the check's data are sums of others"}
        return dependent | dict.fromkeys((WEIGHTS, TARGETS), "a drift takes more samples than columns")
    if estimator.mean is not None:
        return {WEIGHTS: "a mean model takes ten samples"}
    if getattr(estimator, "target", "identity") != "identity":
        return {WEIGHTS: "powers are learnt from samples, whatever their weights", TARGETS: "targets are one by one"}
    if estimator.length_scale is None:
        reason = "weights are precisions: learning tells a sample of twice the precision from two samples"
    elif isinstance(getattr(estimator, "feature_map", None), nf.MaclaurinFeatures):
        reason = "the map adapts to the samples, whatever their weights"
    elif getattr(estimator, "centers", None) == "farthest":
        reason = "centres and features are chosen by the samples, whatever their weights"
    else:
        return {}
    return {WEIGHTS: reason}


@parametrize_with_checks(ESTIMATORS, expected_failed_checks=expected_failures)
def test_scikit_learn(estimator, check):
    check(estimator)
