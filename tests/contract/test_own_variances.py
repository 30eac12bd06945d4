"""Several targets whose variances are learnt: each has the answers of a regressor of its own.

A new method of the regressors is one more entry of `ANSWERS`, or of `SHARED` where targets do not differ in it.
"""

import pickle
import re
from functools import cache

import numpy as np
import pytest

from .cases import KINDS, OPTIONS, PLAIN, N, Setup, fitted
from .checks import outcome, through_a_file
from .refusals import refusal_of

UNITS = np.array([1.0, 1e3])  # of the two targets
CONFIDENCE = 5.0  # standard errors that a statistic may be off: once in two million
S = 200  # draws


def areas(model, X, **options):
    found = model.predict_areas(X, [0, 1, 0, 1, 0, 1, 1], n_samples=S, **options)
    return found.mean, found.std


def parts(model, X):
    found = model.predict_parts(X)
    return tuple(values for part in (found.drift, found.process, found.total) for values in (part.mean, part.std))


def frame(model, X):
    found = model.predict_frame(X, include_noise=True)
    ends = ["_0", "_1"] if "mean_0" in found else [""]
    return tuple(found[[name + end for end in ends]].to_numpy() for name in ("mean", "std", "lower", "upper"))


def grid(model, X):
    pytest.importorskip("xarray", reason="xarray is not installed")
    found = model.predict_grid(size=3)
    return tuple(found[name].to_numpy() for name in ("mean", "std"))


def left_out(found):
    return found.y, found.mean, found.std, found.residuals, found.probabilities


def distribution(model, X):
    found = model.predict_distribution(X, include_noise=True)
    zeros = np.zeros_like(found.mean)
    return found.mean, found.std, found.cdf(zeros), found.logpdf(zeros), found.crps(zeros), *found.interval(0.8)


# By name: what a model says of places, arrays whose axis 1 or last one has the targets.
ANSWERS = {
    "predict": lambda model, X: (
        *model.predict(X, return_std=True),
        *model.predict(X, return_std=True, include_noise=True),
    ),
    "covariance": lambda model, X: model.predict(X, return_cov=True, include_noise=True),
    "predict_distribution": distribution,
    "predict_interval": lambda model, X: model.predict_interval(X, 0.9, include_noise=True),
    "predict_quantiles": lambda model, X: (model.predict_quantiles(X, 0.3, include_noise=True),),
    "predict_above": lambda model, X: (model.predict_above(X, 1.0, include_noise=True),),
    "predict_noise": lambda model, X: (model.predict_noise(X),),
    "predict_parts": parts,
    "predict_gradient": lambda model, X: model.predict_gradient(X, return_std=True),
    "predict_areas": areas,
    "predict_frame": frame,
    "predict_grid": grid,
    "loo_": lambda model, _: left_out(model.loo_),
    "cross_validate": lambda model, _: left_out(model.cross_validate(np.arange(N) % 4)),
    "certify": lambda model, X: (
        (model.certify(X, random_state=0).mean, model.certify(X, random_state=0).std)
        if hasattr(model, "certify")
        else ()
    ),
    "drift_coef_": lambda model, _: (model.drift_coef_.values, model.drift_coef_.std_errors),
    "group_effects_": lambda model, _: (model.group_effects_.values, model.group_effects_.std_errors),
    "group_variance_": lambda model, _: (np.array(list(model.group_variance_.values())),),
    "noise_variance_": lambda model, _: (np.atleast_1d(model.noise_variance_)[None],),
    "signal_variance_": lambda model, _: (np.atleast_1d(model.signal_variance_)[None],),
    "y_mean_": lambda model, _: (model.y_mean_[None],),
    "pickled": lambda model, X: pickle.loads(pickle.dumps(model)).predict(X, return_std=True),
    "saved_and_loaded": lambda model, X: through_a_file(model).predict(X, return_std=True, include_noise=True),
}

REFUSED_AS = {  # rows of `refusals.py`
    "covariance": "predict_with_covariance",
    "drift_coef_": "drift_coef",
    "group_effects_": "group_effects",
    "group_variance_": "group_effects",
    "loo_": "loo",
    "predict_grid": "predict_grid_where_the_data_are",
}
SHARED = {
    *("ard_", "kernel_", "length_scale_", "coordinates_", "crs_", "feature_names_in_", "metric_", "n_features_in_"),
    *("rotation_", "target_", "learned_", "report_", "estimators_"),
}
OF_ONE_TARGET = {  # asked of `estimators_[i]`
    *("noise_model_", "mean_", "feature_map_", "statistics_", "centers_", "spacing_", "radius_", "profile_likelihood"),
}
TESTED_BELOW = {"sample_y", "sampler", "partial_fit", "score", "log_marginal_likelihood", "to_html"}


@cache
def models(kind, option):
    """A regressor of both targets, and one of each."""
    if option == "geometry":
        pytest.importorskip("geopandas", reason="geopandas is not installed")
    setup = Setup(frozenset({option, "two targets"}))
    setup.__dict__["y"] = setup.y * UNITS
    given = {name: value for name, value in setup.parameters.items() if not name.endswith("_variance")}
    both = fitted(KINDS[kind](**given).fit, setup)
    alone = []
    for j in range(2):
        one = Setup(frozenset({option}))
        one.__dict__["y"] = setup.y[:, j]
        alone.append(fitted(KINDS[kind](**given).fit, one))
    return setup, both, alone


CASES = [
    (kind, option, name)
    for kind in PLAIN
    for option in OPTIONS
    if option not in ("rotated", "target", "two targets")  # axes are of all targets, transformations of one
    for name in (ANSWERS if kind != "cells" else ("predict", "loo_", "saved_and_loaded"))
]


@pytest.mark.filterwarnings("ignore")  # so few rows are outside of each other, and tell little of the noise
@pytest.mark.parametrize(("kind", "option", "name"), CASES)
def test_each_target_has_the_answers_of_a_regressor_of_its_own(kind, option, name):
    setup, both, alone = models(kind, option)
    X = setup.X(setup.new)
    answer, *each = (outcome(lambda model: ANSWERS[name](model, X), model) for model in (both, *alone))
    if isinstance(each[0], str):
        refusal = refusal_of(kind, frozenset({option}), REFUSED_AS.get(name, name))
        assert answer == each[0]
        assert refusal is not None
        assert re.search(refusal.words, answer)
        return
    assert not isinstance(answer, str), answer
    for together, *own in zip(answer, *each, strict=True):
        expected = np.stack([values.reshape(-1) for values in own], axis=-1)
        size = np.abs(expected).max(axis=0) + 1e-300
        np.testing.assert_allclose(together.reshape(expected.shape) / size, expected / size, atol=1e-7)


@pytest.mark.parametrize("kind", ["exact", "feature", "local"])
def test_draws_are_those_of_each_target(kind):
    setup, both, alone = models(kind, "plain")
    X = setup.X(setup.new)
    for draws in (both.sample_y(X, S, random_state=1), both.sampler(S, random_state=1)(X)):
        for j, one in enumerate(alone):
            mean, std = one.predict(X, return_std=True)
            z = (draws[:, j] - mean[:, None]) / std[:, None]
            assert np.abs(z.mean(axis=1)).max() < CONFIDENCE / S**0.5
            assert np.abs(np.mean(z**2, axis=1) - 1).max() < CONFIDENCE * (2 / S) ** 0.5
        z = (draws - draws.mean(axis=2, keepdims=True)) / draws.std(axis=2, keepdims=True)
        between = np.mean(z[:, 0] * z[:, 1], axis=1)  # targets are independent
        assert np.abs(between).max() < CONFIDENCE / S**0.5


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["feature", "local"])
def test_further_rows_reach_each_target(kind):
    setup, both, alone = models(kind, "plain")
    X, new = setup.X(setup.new), setup.y[: len(setup.new)]
    both, alone = pickle.loads(pickle.dumps((both, alone)))
    answer = both.partial_fit(X, new).predict(X, return_std=True)
    each = [one.partial_fit(X, new[:, j]).predict(X, return_std=True) for j, one in enumerate(alone)]
    for together, own in zip(answer, (np.column_stack(part) for part in zip(*each, strict=True)), strict=True):
        np.testing.assert_allclose(together / UNITS, own / UNITS, atol=1e-7)


@pytest.mark.parametrize("kind", ["exact", "feature", "local"])
def test_likelihoods_are_added_and_scores_averaged(kind):
    setup, both, alone = models(kind, "plain")
    X = setup.X(setup.rows)
    likelihoods = [one.log_marginal_likelihood() for one in alone]
    assert both.log_marginal_likelihood() == pytest.approx(sum(likelihoods), rel=1e-9)
    scores = [one.score(X, setup.y[:, j]) for j, one in enumerate(alone)]
    assert both.score(X, setup.y) == pytest.approx(np.mean(scores))
    with pytest.raises(ValueError, match=r"ask the regressor of a target, `estimators_\[i\]"):
        both.profile_likelihood("noise_variance")


@pytest.mark.parametrize("kind", ["exact", "feature", "local"])
def test_a_page_is_about_the_first_target(kind):
    setup, both, _ = models(kind, "plain")
    assert "It is one of 2 targets; this page is about the first." in both.to_html(X=setup.X(setup.rows), y=setup.y)


@pytest.mark.parametrize("kind", ["exact", "feature", "local"])
def test_every_public_name_is_in_the_table(kind):
    both = models(kind, "plain")[1]
    names = {name for name in {*dir(type(both)), *vars(both)} if not name.startswith("_")}
    names -= set(both.get_params(deep=False)) | {
        "fit",
        "get_params",
        "set_params",
        "get_metadata_routing",
        "from_paper",
    }
    names = {name for name in names if not name.endswith("_request")}
    assert names <= ANSWERS.keys() | SHARED | OF_ONE_TARGET | TESTED_BELOW
    assert not OF_ONE_TARGET - {"profile_likelihood"} & vars(both).keys()
