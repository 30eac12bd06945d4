"""Every combination of regressor and option keeps every promise, or refuses in one sentence that names the option."""

import inspect
import re
import warnings
from itertools import combinations

import pytest

import nearfield as nf
from nearfield.estimators.samples import Sampler

from .cases import CHOOSING, GIVEN, KINDS, NUMERICAL, OPTIONS, PLAIN, case, engine_of
from .checks import COVERED, PROMISES
from .refusals import ALL, REFUSALS, refusal_of

REGRESSORS = (nf.ExactGPRegressor, nf.FeatureGPRegressor, nf.LocalGPRegressor)
ERRORS = (ValueError, TypeError, NotImplementedError, AttributeError)


def keep(kind, options, promise):
    """Hold one combination to one promise."""
    refusal = refusal_of(kind, frozenset(options), promise)
    with warnings.catch_warnings(), engine_of(kind):
        warnings.filterwarnings("ignore", message=".*(points lie|point lies).*outside of the data")
        if refusal is None:
            PROMISES[promise](case(kind, *options))
            return
        with pytest.raises(ERRORS, match=refusal.words) as raised:
            PROMISES[promise](case(kind, *options))
    message = str(raised.value)
    assert "\n" not in message
    assert len(re.split(r"[.!?]\s+(?=[A-Z])", message)) == 1, f"more than one sentence: {message}"


# Promises whose answers local models give themselves; all others see no more than these answers.
OF_ENGINES = (
    *("partial_fit", "predict", "predict_parts", "loo", "cross_validate", "certify", "report", "saved_and_loaded"),
)
OF_CELLS = (
    *OF_ENGINES,
    *("predict_with_covariance", "predict_in_chunks", "predict_gradient", "predict_areas", "sampler", "pickled"),
    "threads",
)
ENGINES = {
    "cells": OF_CELLS,
    **dict.fromkeys(CHOOSING, OF_ENGINES),
    "taylor": ("partial_fit", "predict", "predict_parts", "loo"),
}
IN_SPACE = ("sphere", "geometry")


def is_offered(kind, promise, option):
    """In three columns and more, Taylor features are too many, and half of the rows too few to choose by."""
    return option not in IN_SPACE or not (kind == "taylor" or (kind in CHOOSING and promise == "partial_fit"))


TABLE = [
    (kind, promise, option)
    for kind in KINDS
    for promise in ENGINES.get(kind, PROMISES)
    for option in OPTIONS
    if is_offered(kind, promise, option)
]


@pytest.mark.parametrize(("kind", "promise", "option"), TABLE)
def test_one_option(kind, promise, option):
    keep(kind, (option,), promise)


# What two options may break that each alone does not: columns, rows, units and shapes.
OF_PAIRS = ("predict", "predict_parts", "loo", "pickled")
PAIRS = [pair for pair in combinations(list(OPTIONS)[1:], 2) if set(pair) != {"sphere", "geometry"}]


# What engines see of options are targets, columns beside them, and weights; all else is done before.
SEEN_BY_ENGINES = {"drift", "groups", "mean", "weights", "two targets"}
TABLE_OF_PAIRS = [
    (kind, pair)
    for kind in KINDS
    for pair in PAIRS
    if kind not in ENGINES or (kind != "taylor" and SEEN_BY_ENGINES.issuperset(pair))
]


@pytest.mark.parametrize(
    ("kind", "pair"), TABLE_OF_PAIRS, ids=lambda each: each if isinstance(each, str) else " and ".join(each)
)
def test_two_options(kind, pair):
    for promise in OF_PAIRS:
        keep(kind, pair, promise)


# ---- nothing is left out of the table --------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", PLAIN)
def test_every_public_name_has_a_promise(kind):
    names = set()
    for option in OPTIONS:
        if refusal_of(kind, frozenset({option}), ALL) is None and is_offered(kind, ALL, option):
            model = case(kind, option).model
            names |= {name for name in {*dir(type(model)), *vars(model)} if not name.startswith("_")}
    names -= set(model.get_params(deep=False)) - {"groups"}
    assert names <= COVERED.keys(), "a public name has no promise in checks.py"


def test_no_promise_is_about_what_is_not_there():
    names = {
        name
        for kind in PLAIN
        for option in OPTIONS
        if refusal_of(kind, frozenset({option}), ALL) is None and is_offered(kind, ALL, option)
        for name in {*dir(case(kind, option).model)}
    }
    assert COVERED.keys() <= names
    assert {
        name
        for row in REFUSALS
        if row.promises != ALL
        for name in ([row.promises] if isinstance(row.promises, str) else row.promises)
    } <= PROMISES.keys()


@pytest.mark.parametrize("regressor", REGRESSORS)
def test_every_parameter_is_an_option_or_said_to_be_none(regressor):
    known = {*GIVEN, *NUMERICAL, *(name for names in OPTIONS.values() for name in names)}
    assert set(inspect.signature(regressor).parameters) <= known, "a parameter is missing in cases.py"


def test_a_sampler_has_no_further_names():
    public = {name for name in dir(Sampler) if not name.startswith("_")}
    assert public == {"above", "areas", "maxima", "on_grid"}
