"""What every public name of a regressor promises, held against the same by hand: one function per row of the table.

A new method is one more function with `@promise`. A function names the attributes that it is about, and is given a
`Case`; where the case refuses, the error is let through, and `refusals.py` must list it.
"""

from __future__ import annotations

import copy
import pickle
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
import sklearn
from scipy.stats import norm
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.metrics import r2_score

import nearfield as nf
from nearfield.reporting.numbers import typeset

from .by_hand import gaussian
from .cases import CHOOSING, NOISE, RADIUS, SIGNAL, SPACING, Case, N, case, fitted

PROMISES: dict[str, Callable[[Case], None]] = {}
COVERED: dict[str, str] = {}  # public name: the promise about it
CONFIDENCE = 5.0  # standard errors that a statistic may be off: once in two million


def promise(*names: str) -> Callable[[Callable[[Case], None]], Callable[[Case], None]]:
    """Enter a function into the table, as what holds these public names to their word."""

    def entered(function: Callable[[Case], None]) -> Callable[[Case], None]:
        PROMISES[function.__name__] = function
        COVERED.update(dict.fromkeys(names, function.__name__))
        return function

    return entered


def near(c: Case, answer: Any, expected: Any, unit: float = 1.0) -> None:
    """Agreement to the limit of the kind of model, `unit` being the size of what is compared."""
    assert np.shape(answer) == np.shape(expected)
    np.testing.assert_allclose(answer, expected, rtol=c.limit, atol=c.limit * unit)


def moments(c: Case, rows: Any, include_noise: bool) -> tuple[Any, Any]:
    """Means and standard deviations as `predict` has them."""
    mean, variance = c.shaped(c.mean(rows)), np.diag(c.covariance(rows))
    return in_units(c, mean, variance, np.full(len(rows), NOISE), include_noise)


def in_units(c: Case, mean: Any, variance: Any, noise: Any, include_noise: bool) -> tuple[Any, Any]:
    stated = variance + noise if include_noise else variance
    if not c.is_log:
        return mean, c.spread(np.sqrt(stated))
    # The mean is that of an observation; the spread is that of what was asked for.
    spread = np.exp(mean + stated / 2) * np.sqrt(np.expm1(stated))
    return c.unit * np.exp(mean + (variance + noise) / 2), c.unit * spread


def quantile(c: Case, rows: Any, q: float, include_noise: bool) -> Any:
    mean, variance = c.shaped(c.mean(rows)), np.diag(c.covariance(rows)) + (NOISE if include_noise else 0.0)
    value = mean + norm.ppf(q) * c.spread(np.sqrt(variance))
    return c.unit * np.exp(value) if c.is_log else value


# ---- fitting ---------------------------------------------------------------------------------------------------------


@promise("fit")
def fit(c: Case) -> None:
    model = c.make()
    assert c.fit(model) is model
    first = model.predict(c.X_new, return_std=True)
    np.testing.assert_array_equal(first, c.model.predict(c.X_new, return_std=True))
    order = np.random.default_rng(0).permutation(N)
    if not c.setup.has("mean"):  # whose folds are drawn by number
        shuffled = c.fit(c.make(), order).predict(c.X_new)
        np.testing.assert_allclose(shuffled, first[0], atol=max(c.limit, 1e-6))  # variances of groups are searched for
    plain = case(c.kind, "plain")
    model.set_params(**clone(plain.model).get_params(deep=False))
    plain.fit(model)  # nothing of the earlier fit is left
    np.testing.assert_array_equal(
        model.predict(plain.X_new, return_std=True), plain.model.predict(plain.X_new, return_std=True)
    )
    assert vars(model).keys() == vars(plain.model).keys() | {"_left_out"}


@promise()
def types_of_numbers(c: Case) -> None:
    """Whole numbers as targets and weights, and single precision, are the numbers that they are."""
    setup, rows = c.setup, c.setup.rows.astype(np.float32).astype(np.float64)
    X, y = setup.X(rows), np.ceil(10 * setup.y)
    numbers = X.select_dtypes("float").columns if setup.as_frame else None
    narrow = np.asfortranarray(X, dtype=np.float32) if numbers is None else X.astype(dict.fromkeys(numbers, np.float32))
    weights = None if setup.weights is None else [int(weight) for weight in setup.weights]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        one, other = c.make().fit(X, y, setup.weights), c.make().fit(narrow, y.astype(np.int32), weights)
    np.testing.assert_array_equal(*(model.predict(c.X_new, return_std=True) for model in (one, other)))


@promise()
def the_same_said_otherwise(c: Case) -> None:
    """Options that another call stands for, by the library itself."""
    setup, X, y = c.setup, c.X, c.setup.y
    expected = c.model.predict(c.X_new, return_std=True)
    new = c.X_new
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if setup.has("two targets"):
            alone = [c.make().fit(X, y[:, j]).predict(new, return_std=True) for j in range(2)]
            answer = [np.stack(parts, axis=1) for parts in zip(*alone, strict=True)]
        elif setup.has("weights"):
            again = np.repeat(np.arange(N), setup.weights.astype(int))
            answer = c.make().fit(X[again], y[again]).predict(new, return_std=True)
        elif setup.has("target"):
            of_logarithms = c.make(target="identity").fit(X, np.log(y / c.unit))
            quantiles = [model.predict_quantiles(new, [0.2, 0.8]) for model in (c.model, of_logarithms)]
            expected, answer = quantiles[0], c.unit * np.exp(quantiles[1])
        elif setup.options == {"coordinates"}:
            plain = case(c.kind, "plain")
            answer = plain.make().fit(setup.rows[:, :2], y).predict(setup.new[:, :2], return_std=True)
        elif setup.options == {"geometry"}:
            places = c.make(metric="sphere").fit(setup.rows[:, :3], y)
            answer = places.predict(setup.new[:, :3], return_std=True)
        else:
            return
    for one, other in zip(answer, expected, strict=True):
        near(c, one, other)


@promise("partial_fit")
def partial_fit(c: Case) -> None:
    if not hasattr(c.model, "partial_fit"):
        return
    half = np.arange(N) < N // 2
    setup, weights = c.setup, c.setup.weights
    first = c.fit(c.make(), half)
    joined = copy.deepcopy(first)
    second = (setup.X(setup.rows[~half]), setup.y[~half], None if weights is None else weights[~half])
    assert joined.partial_fit(*second) is joined
    start = fitted(c.make().partial_fit, setup, ~half)
    near(c, start.predict(c.X_new), c.fit(c.make(), ~half).predict(c.X_new))
    anew = copy.deepcopy(first).partial_fit(*second, forget=True)
    if setup.has("mean", "groups", "rotated") or c.kind == "feature":
        # What the first half has told stays: the mean model, variances of groups, axes, the map.
        both = copy.deepcopy(anew).partial_fit(
            setup.X(setup.rows[half]), setup.y[half], weights if weights is None else weights[half]
        )
        near(c, both.predict_parts(c.X_new).total.std, joined.predict_parts(c.X_new).total.std)
        return
    if not c.is_log:  # whose unit is that of the first rows
        np.testing.assert_allclose(joined.y_mean_, c.model.y_mean_, rtol=1e-12, atol=1e-12)
    for answer, expected in zip(joined.predict(c.X_new, return_std=True), moments(c, setup.new, False), strict=True):
        near(c, answer, expected)
    others = c.fit(c.make(), ~half)
    for answer, expected in zip(*(g.predict(c.X_new, return_std=True) for g in (anew, others)), strict=True):
        near(c, answer, expected)
    assert len(joined.loo_) == N
    if c.kind not in (*CHOOSING, "taylor"):  # whose centres and neighbours were chosen for half of the rows
        near(c, joined.loo_.mean, c.model.loo_.mean)


@promise("get_params", "set_params", "groups")
def parameters(c: Case) -> None:
    other = clone(c.model)
    assert not hasattr(other, "kernel_")
    assert repr(other) == repr(clone(c.make()))
    with pytest.raises(NotFittedError):
        other.predict(c.X_new)
    assert other.set_params(noise_variance=0.5) is other
    near(c, c.fit(other).predict(c.X_new), c.fit(c.make(noise_variance=0.5)).predict(c.X_new))
    with pytest.raises(ValueError, match="Invalid parameter 'nonesuch'"):
        other.set_params(nonesuch=1)


@promise()
def set_params_waits_for_the_next_fit(c: Case) -> None:
    other = copy.deepcopy(c.model)
    defaults = {"coordinates": None, "drift": "constant", "mean": None, "groups": None, "metric": "auto"}
    defaults |= {"anisotropy": "axes", "length_scale": 77.0, "signal_variance": 5.0, "noise_variance": 3.0}
    other.set_params(**defaults, **({"target": "identity"} if "target" in other.get_params() else {}))
    questions = {
        "mean": lambda model: model.predict(c.X_new, return_std=True),
        "covariance": lambda model: model.predict(c.X_new, return_cov=True),
        "noise": lambda model: model.predict_noise(c.X_new),
        "quantiles": lambda model: model.predict_quantiles(c.X_new, 0.3),
        "gradient": lambda model: model.predict_gradient(c.X_new),
        "parts": lambda model: model.predict_parts(c.X_new).drift,
        "draws": lambda model: model.sample_y(c.X_new, random_state=0),
        "left out": lambda model: model.cross_validate(np.arange(N) % 2).std,
        "likelihood": lambda model: model.log_marginal_likelihood(),
        "drift": lambda model: model.drift_coef_.values,
        "report": lambda model: len(str(getattr(model, "report_", ""))),
        "places": lambda model: (*model.coordinates_, model.metric_ == "sphere"),
    }
    for name, ask in questions.items():
        assert_same(*(outcome(ask, model) for model in (c.model, other)), name)


def outcome(ask: Callable[[Any], Any], model: Any) -> Any:
    """An answer, or what a refusal says."""
    try:
        return ask(model)
    except (ValueError, AttributeError) as error:
        return str(error)


def assert_same(one: Any, other: Any, name: str) -> None:
    assert isinstance(one, str) == isinstance(other, str), name
    if not isinstance(one, str):
        for first, second in zip(one, other, strict=True) if isinstance(one, tuple) else [(one, other)]:
            np.testing.assert_array_equal(first, second, err_msg=name)


@promise(
    "get_metadata_routing", "set_fit_request", "set_score_request", "set_partial_fit_request", "set_predict_request"
)
def metadata(c: Case) -> None:
    with sklearn.config_context(enable_metadata_routing=True):
        model = c.make().set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
        model.set_predict_request(return_std=True)
        if hasattr(model, "set_partial_fit_request"):
            model.set_partial_fit_request(sample_weight=True)
        assert model.get_metadata_routing().fit.requests == {"sample_weight": True} or c.is_local


@promise("from_paper")
def from_paper(c: Case) -> None:
    if not hasattr(c.model, "from_paper"):
        return
    model = type(c.model).from_paper(16, **c.setup.parameters)
    spelt_out = type(c.model)(**model.get_params(deep=False))
    np.testing.assert_array_equal(*(c.fit(each).predict(c.X_new) for each in (model, spelt_out)))


# ---- predictions -----------------------------------------------------------------------------------------------------


@promise("predict")
def predict(c: Case) -> None:
    for include_noise in (False, True):
        mean, std = moments(c, c.setup.new, include_noise)
        near(c, c.model.predict(c.X_new, include_noise=include_noise), mean)
        answer = c.model.predict(c.X_new, return_std=True, include_noise=include_noise)
        near(c, answer[0], mean)
        near(c, answer[1], std)
    with pytest.raises(ValueError, match="return_std"):
        c.model.predict(c.X_new, return_std=True, return_cov=True)


@promise()
def predict_with_covariance(c: Case) -> None:
    for include_noise in (False, True):
        mean, covariance = c.model.predict(c.X_new, return_cov=True, include_noise=include_noise)
        near(c, mean, c.model.predict(c.X_new))
        expected = c.covariance(c.setup.new) + (NOISE * np.eye(len(c.setup.new)) if include_noise else 0.0)
        near(c, covariance, np.repeat(expected[:, :, None], 2, axis=2) if mean.ndim == 2 else expected)


@promise()
def predict_in_chunks(c: Case) -> None:
    whole = c.model.predict(c.X_new, return_std=True)
    for i in range(3):
        one = c.model.predict(c.setup.X(c.setup.new[i : i + 1]), return_std=True)
        near(c, one[0][0], whole[0][i])
        near(c, one[1][0], whole[1][i])
    nothing = c.model.predict(c.setup.X(c.setup.new[:0]), return_std=True)
    assert nothing[0].shape == (0, *whole[0].shape[1:]) == nothing[1].shape


@promise("predict_distribution")
def predict_distribution(c: Case) -> None:
    for include_noise in (False, True):
        stated = c.model.predict_distribution(c.X_new, include_noise=include_noise)
        mean, std = c.model.predict(c.X_new, return_std=True, include_noise=include_noise)
        near(c, stated.std, std)
        if include_noise or not c.is_log:
            near(c, stated.mean, mean)
        median = quantile(c, c.setup.new, 0.5, include_noise)
        np.testing.assert_allclose(stated.cdf(median), np.full(mean.shape, 0.5), atol=1e-3)


@promise("predict_quantiles", "predict_interval", "predict_above")
def quantiles(c: Case) -> None:
    for noise in (False, True):
        answer = c.model.predict_quantiles(c.X_new, [0.05, 0.5, 0.95], include_noise=noise)
        for j, q in enumerate((0.05, 0.5, 0.95)):
            near(c, answer[..., j], quantile(c, c.setup.new, q, noise))
            above = c.model.predict_above(c.X_new, answer[..., j], include_noise=noise)
            np.testing.assert_allclose(above, np.full(above.shape, 1 - q), atol=1e-6)
        interval = c.model.predict_interval(c.X_new, 0.9, include_noise=noise)
        near(c, interval[0], answer[..., 0])
        near(c, interval[1], answer[..., 2])


@promise("predict_noise")
def predict_noise(c: Case) -> None:
    near(c, c.model.predict_noise(c.X_new), np.full(len(c.setup.new), NOISE))


@promise("predict_frame")
def predict_frame(c: Case) -> None:
    for noise in (False, True):
        frame = c.model.predict_frame(c.X_new, level=0.9, include_noise=noise)
        stated = c.model.predict_distribution(c.X_new, include_noise=noise)
        parts = {
            "mean": stated.mean,
            "std": stated.std,
            "lower": stated.interval(0.9)[0],
            "upper": stated.interval(0.9)[1],
        }
        for name, values in parts.items():
            columns = [name] if values.ndim == 1 else [f"{name}_0", f"{name}_1"]
            np.testing.assert_array_equal(frame[columns].to_numpy().reshape(values.shape), values)
    if c.setup.as_frame:
        assert list(frame.index) == list(c.X_new.index)
    if c.setup.has("geometry"):
        assert frame.crs == c.X_new.crs


def check_grid(c: Case, grid: Any, include_noise: bool) -> None:
    """Every cell is what `predict` says there; columns that are no coordinates are held."""
    setup, names = c.setup, column_names(c)
    held = np.median(setup.rows, axis=0)
    if setup.has("groups", "categories"):
        held[3] = 0  # each zone is as common, and this the first
    axes = [
        np.asarray(grid[name]) if name in grid.dims else held[[j]] for j, name in zip(setup.columns, names, strict=True)
    ]
    cells = np.stack([side.ravel() for side in np.meshgrid(*axes, indexing="ij")], axis=-1)
    rows = np.tile(held, (len(cells), 1))
    rows[:, list(setup.columns)] = cells
    order = [name for name in names if name in grid.dims]
    assert len(order) == (2 if setup.roles else len(names))
    for name, expected in zip(("mean", "std"), moments(c, rows, include_noise), strict=True):
        near(c, grid[name].transpose(*order, ...).to_numpy().reshape(expected.shape), expected)


def column_names(c: Case) -> list[str]:
    return c.setup.names if c.setup.as_frame else [f"x{j}" for j in range(len(c.setup.columns))]


def given_axes(c: Case) -> dict[str, Any]:
    """A range for each coordinate, and numbers for what is none."""
    axes: dict[str, Any] = {}
    for j, name in zip(c.setup.columns, column_names(c), strict=True):
        low, high = c.setup.rows[:, j].min(), c.setup.rows[:, j].max()
        is_held = c.setup.roles and j > 1
        axes[name] = float(np.median(c.setup.rows[:, j])) if is_held and j == 2 else (low, high)
        if is_held and j == 3:
            axes[name] = "barn" if c.setup.has("categories") else 10
    return axes


@promise("predict_grid")
def predict_grid(c: Case) -> None:
    pytest.importorskip("xarray", reason="xarray is not installed")
    for noise in (False, True):
        check_grid(c, c.model.predict_grid(given_axes(c), size=3, include_noise=noise), noise)


@promise()
def predict_grid_where_the_data_are(c: Case) -> None:
    pytest.importorskip("xarray", reason="xarray is not installed")
    check_grid(c, c.model.predict_grid(size=3), False)


@promise("predict_parts")
def predict_parts(c: Case) -> None:
    parts, rows, hand = c.model.predict_parts(c.X_new), c.setup.new, c.hand
    z, f = c.points(rows), c.setup.drift_columns(rows)
    near(c, parts.drift.mean, c.shaped(c.known(rows) + f @ hand.coefficients))
    near(c, parts.drift.std, c.spread(np.sqrt(np.diag(f @ hand.covariance_of_coefficients @ f.T))), 10.0)
    near(c, parts.process.mean, c.shaped(hand.process_mean(z)))
    near(c, parts.process.std, c.spread(np.sqrt(np.diag(hand.covariance(z, np.zeros_like(f))))))
    near(c, parts.total.mean, c.shaped(c.mean(rows)))
    near(c, parts.total.std, c.spread(np.sqrt(np.diag(c.covariance(rows)))))
    assert len(parts.to_frame()) == len(rows)


@promise("predict_gradient")
def predict_gradient(c: Case) -> None:
    gradient, std = c.model.predict_gradient(c.X_new, return_std=True)
    np.testing.assert_array_equal(c.model.predict_gradient(c.X_new), gradient)
    k = c.targets.shape[1]
    assert gradient.shape == std.shape == (len(c.setup.new), len(c.setup.columns), *([2] if k == 2 else []))
    for place, j in enumerate(c.setup.columns):
        step = np.zeros(4)
        step[j] = 1e-3
        if j == 3:  # zones are no numbers, and where the process does not look there is no slope
            np.testing.assert_array_equal(gradient[:, place], np.zeros_like(gradient[:, place]))
            continue
        there, back = c.setup.new + step, c.setup.new - step
        slope = (c.mean(there) - c.mean(back)) / 2e-3
        np.testing.assert_allclose(gradient[:, place].reshape(slope.shape), slope, rtol=1e-3, atol=1e-4)
        pairs = c.covariance(there) + c.covariance(back) - c.covariance(there, back) - c.covariance(back, there)
        expected = c.spread(np.sqrt(np.maximum(np.diag(pairs), 0)) / 2e-3)
        np.testing.assert_allclose(std[:, place], expected, rtol=1e-2, atol=1e-3)


@promise("predict_areas")
def predict_areas(c: Case) -> None:
    labels, weights = np.array(["a", "b", "a", "b", "a", None, "b"], dtype=object), np.arange(1.0, 8.0)
    W = np.stack([(labels == name) * weights for name in ("a", "b")])
    for total in (False, True):
        A = W if total else W / W.sum(axis=1, keepdims=True)
        for noise in (False, True):
            mean, covariance = c.mean(c.setup.new), c.covariance(c.setup.new) + NOISE * noise * np.eye(len(labels))
            if c.is_log:
                mean = c.unit * np.exp(mean[:, 0] + np.diag(covariance) / 2)
                covariance, mean = np.outer(mean, mean) * np.expm1(covariance), mean[:, None]
            sums, std = c.shaped(A @ mean), c.spread(np.sqrt(np.diag(A @ covariance @ A.T)))
            areas = c.model.predict_areas(c.X_new, labels, weights, total=total, include_noise=noise, n_samples=200)
            off = np.abs(areas.mean - sums), np.abs(areas.std - std)
            # A lognormal's standard deviation has larger errors than the normal's that are stated.
            assert np.all(off[0] <= CONFIDENCE * areas.mean_error + c.limit * W.sum())
            assert np.all(off[1] <= 2 * CONFIDENCE * areas.std_error + c.limit * W.sum())
            if not c.is_log:
                assert not areas.std_error.any()
    assert list(areas.labels) == ["a", "b"]
    drawn = c.model.predict_areas(
        c.X_new, labels, weights, total=True, include_noise=True, method="samples", n_samples=200
    )
    assert np.all(np.abs(drawn.std - std) <= 2 * CONFIDENCE * drawn.std_error)
    assert list(drawn.to_frame().index) == ["a", "b"]


# ---- draws -----------------------------------------------------------------------------------------------------------


def check_draws(c: Case, draws: Any, include_noise: bool) -> None:
    """Means, standard deviations and correlations of draws (m, S) or (m, k, S), within their confidence limits."""
    S = draws.shape[-1]
    draws = np.log(draws / c.unit) if c.is_log else draws
    covariance = c.covariance(c.setup.new) + (NOISE * np.eye(len(c.setup.new)) if include_noise else 0.0)
    std = np.sqrt(np.diag(covariance))
    for j, expected in enumerate(c.mean(c.setup.new).T):
        z = ((draws[:, j] if draws.ndim == 3 else draws) - expected[:, None]) / std[:, None]
        assert np.abs(z.mean(axis=1)).max() < CONFIDENCE / S**0.5
        assert np.abs(z @ z.T / S - covariance / np.outer(std, std)).max() < CONFIDENCE * (2 / S) ** 0.5


@promise("sample_y")
def sample_y(c: Case) -> None:
    for noise in (False, True):
        draws = c.model.sample_y(c.X_new, 200, random_state=5, include_noise=noise)
        check_draws(c, draws, noise)
    np.testing.assert_array_equal(c.model.sample_y(c.X_new, 200, random_state=5, include_noise=True), draws)
    assert c.model.sample_y(c.X_new).shape[-1] == 1


@promise("sampler")
def sampler(c: Case) -> None:
    drawn = c.model.sampler(200, random_state=4)
    check_draws(c, drawn(c.X_new), False)
    check_draws(c, drawn(c.X_new, include_noise=True), True)
    few = c.model.sampler(5, random_state=4)
    values = few(c.X_new)
    np.testing.assert_allclose(values, drawn(c.X_new)[..., :5], rtol=1e-5, atol=1e-5)  # waves in single precision
    np.testing.assert_allclose(few(c.setup.X(c.setup.new[2:4])), values[2:4], rtol=1e-5, atol=1e-5)
    labels = np.array([0, 1, 0, 1, 0, 1, 1])
    means = np.stack([values[labels == g].mean(axis=0) for g in (0, 1)])
    near(c, few.areas(c.X_new, labels), means)
    near(c, few.maxima(c.X_new, labels), np.stack([values[labels == g].max(axis=0) for g in (0, 1)]))
    near(c, few.above(c.X_new, 1.0)[0], (values.max(axis=0) > 1.0).mean(axis=-1))
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(few))(c.X_new), values)
    if c.is_local:
        check_draws(c, c.model.sampler(200, random_state=4, exact=True)(c.X_new), False)
    pytest.importorskip("xarray", reason="xarray is not installed")
    grid = few.on_grid(given_axes(c), size=2)
    assert grid.sizes["sample"] == 5
    assert np.isfinite(grid).all()


# ---- left out, scores, certificates ----------------------------------------------------------------------------------


def left_out_by_hand(c: Case, labels: Any) -> tuple[Any, Any]:
    """Means and variances (n,) of rows left out by their labels; NaN of those with none, which is -1."""
    rows, mean, variance = c.setup.rows, np.full(c.targets.shape, np.nan), np.full(N, np.nan)
    known = c.known_of_training + c.constant
    for label in np.unique(labels[labels >= 0]):
        out = labels == label
        hand = c.hand.without(out)
        z, f = c.points(rows[out]), c.setup.drift_columns(rows[out])
        mean[out], variance[out] = known[out] + hand.mean(z, f), np.diag(hand.covariance(z, f))
    return c.shaped(mean), variance


def check_left_out(c: Case, answer: Any, labels: Any) -> None:
    mean, variance = left_out_by_hand(c, labels)
    np.testing.assert_allclose(answer.y, c.setup.y, rtol=1e-9)
    mean, std = in_units(c, mean, variance, c.hand.noise, True)
    near(c, answer.mean[labels >= 0], mean[labels >= 0])
    near(c, answer.std[labels >= 0], std[labels >= 0])
    assert np.isfinite([answer.rmse, answer.nll, answer.crps, answer.coverage()]).all()


@promise("loo_")
def loo(c: Case) -> None:
    some = np.where(np.arange(N) % 5 == 0, np.arange(N), -1)  # to leave out all of them by hand takes long
    check_left_out(c, c.model.loo_, some)


@promise("cross_validate")
def cross_validate(c: Case) -> None:
    labels = np.arange(N) % 4
    check_left_out(c, c.model.cross_validate(labels), labels)


@promise()
def cross_validate_by_region(c: Case) -> None:
    again = c.model.cross_validate(3, random_state=0)
    np.testing.assert_allclose(again.y, c.setup.y, rtol=1e-9)
    assert np.isfinite(again.std).all()


@promise("score")
def score(c: Case) -> None:
    truth, weights = c.setup.y, np.arange(1.0, N + 1)
    mean = moments(c, c.setup.rows, False)[0]
    assert c.model.score(c.X, truth) == pytest.approx(r2_score(truth, mean), abs=c.limit)
    weighted = c.model.score(c.X, truth, sample_weight=weights)
    assert weighted == pytest.approx(r2_score(truth, mean, sample_weight=weights), abs=c.limit)


@promise("log_marginal_likelihood")
def log_marginal_likelihood(c: Case) -> None:
    assert c.model.log_marginal_likelihood() == pytest.approx(c.hand.log_likelihood(), rel=c.limit, abs=1e-6)


@promise()
def gradient_of_the_likelihood(c: Case) -> None:
    value, gradient = c.model.log_marginal_likelihood(eval_gradient=True)
    assert value == pytest.approx(c.model.log_marginal_likelihood())
    scales, step = np.atleast_1d(c.setup.parameters["length_scale"]), 1e-4
    assert len(gradient) == len(scales) + 2

    def moved(entry: int, by: float) -> float:
        logs = np.log([*scales, SIGNAL, NOISE])
        logs[entry] += by
        *new, signal, noise = np.exp(logs)
        given = {"length_scale": new if len(new) > 1 else new[0], "signal_variance": signal, "noise_variance": noise}
        return c.by_hand(**given).log_likelihood()

    expected = [(moved(i, step) - moved(i, -step)) / (2 * step) for i in range(len(gradient))]
    np.testing.assert_allclose(gradient, expected, rtol=1e-4, atol=1e-3)


@promise("profile_likelihood")
def profile_likelihood(c: Case) -> None:
    profile = c.model.profile_likelihood("noise_variance", n_values=3)
    of_kernel = {"kernel": gaussian(c.scales(), SIGNAL)}
    heights = np.array([replace(c.by_hand(noise_variance=v), **of_kernel).log_likelihood() for v in profile.values])
    np.testing.assert_allclose(profile.log_likelihood, heights - heights.max(), rtol=1e-3, atol=1e-4)


@promise("certify")
def certify(c: Case) -> None:
    if not hasattr(c.model, "certify"):
        return
    certificate = c.model.certify(c.X_new, random_state=0)
    near(c, certificate.mean.reshape(len(c.setup.new), -1), c.mean(c.setup.new))
    near(c, certificate.std, np.sqrt(np.diag(c.covariance(c.setup.new)) + NOISE))
    assert certificate.divergence < c.limit
    assert "nats" in str(certificate)


# ---- what a fitted model says of itself ------------------------------------------------------------------------------


@promise("kernel_", "length_scale_", "signal_variance_", "noise_variance_", "noise_model_", "ard_")
def hyperparameters(c: Case) -> None:
    np.testing.assert_allclose(c.model.length_scale_, c.setup.parameters["length_scale"])
    assert c.model.ard_ == (np.size(c.setup.parameters["length_scale"]) > 1)
    assert (c.model.signal_variance_, c.model.noise_variance_) == (SIGNAL, NOISE)
    assert c.model.noise_model_.is_plain
    if c.kind != "feature":
        places = c.points(c.setup.new)
        np.testing.assert_allclose(c.model.kernel_(places, places), c.kernel()(places, places))


@promise("learned_")
def learned(c: Case) -> None:
    assert c.model.learned_.n_evaluations == 0
    assert c.model.learned_.noise_variance == NOISE
    assert c.model.learned_.kernel is c.model.kernel_


@promise("y_mean_", "n_features_in_", "feature_names_in_", "coordinates_", "metric_", "crs_")
def what_was_seen(c: Case) -> None:
    setup, model = c.setup, c.model
    near(c, model.y_mean_, c.constant)
    assert model.n_features_in_ == len(setup.columns)
    assert list(getattr(model, "feature_names_in_", setup.names)) == setup.names
    assert hasattr(model, "feature_names_in_") == setup.as_frame
    expected = [setup.columns.index(j) for j in (0, 1)] if setup.roles else range(len(setup.columns))
    assert list(model.coordinates_) == list(expected)
    assert model.metric_ == ("sphere" if setup.on_earth else "euclidean")
    assert getattr(model, "crs_", None) == ("EPSG:4326" if setup.has("geometry") else None)


@promise("rotation_")
def rotation(c: Case) -> None:
    np.testing.assert_allclose(c.model.rotation_ @ c.model.rotation_.T, np.eye(2), atol=1e-12)


@promise("drift_coef_")
def drift_coef(c: Case) -> None:
    told, p = c.model.drift_coef_, c.setup.drift_columns(c.setup.rows).shape[1] - (4 if c.setup.has("groups") else 0)
    assert told.names[0] == "intercept"
    assert len(told.names) == p
    values = c.hand.coefficients[:p]
    near(c, told.values, c.shaped(values))
    near(c, told.std_errors, np.sqrt(np.diag(c.hand.covariance_of_coefficients))[:p])


@promise("group_effects_", "group_variance_")
def group_effects(c: Case) -> None:
    effects, (variance,) = c.model.group_effects_, c.model.group_variance_.values()
    assert 0 < variance < 10
    near(c, effects.values, c.shaped(c.hand.coefficients[-4:-1]))
    near(c, effects.std_errors, np.sqrt(np.diag(c.hand.covariance_of_coefficients))[-4:-1])
    assert [name.partition("=")[2] for name in effects.names] == (
        ["barn", "flat", "house"] if c.setup.has("categories") else ["10", "20", "30"]
    )


@promise("mean_")
def mean_model(c: Case) -> None:
    expected = clone(c.setup.parameters["mean"]) if c.setup.has("mean") else None
    if expected is None:
        assert not hasattr(c.model, "mean_")
        return
    weights = {} if c.setup.weights is None else {"sample_weight": c.setup.weights}
    targets = c.targets[:, 0] if c.targets.shape[1] == 1 else c.targets
    table = c.setup.table(c.setup.rows)
    np.testing.assert_allclose(c.model.mean_.predict(table), expected.fit(table, targets, **weights).predict(table))


@promise("target_")
def target(c: Case) -> None:
    if c.is_local:
        forward = c.model.target_.forward(c.setup.y.reshape(N, -1))
        np.testing.assert_allclose(forward, c.targets)
        np.testing.assert_allclose(c.model.target_.inverse(forward), c.setup.y.reshape(N, -1))


@promise("feature_map_", "statistics_", "centers_", "spacing_", "radius_", "report_")
def report(c: Case) -> None:
    model = c.model
    if c.kind == "feature":
        assert model.feature_map_.transform(model._inner(model._validate_test(c.X_new))).shape == (len(c.setup.new), 40)
        assert model.statistics_.n == N
    elif c.kind != "exact":
        assert model.centers_.shape[1] == (2 if c.setup.roles else len(c.setup.columns))
        if c.kind in ("local", "cells"):
            assert (model.spacing_, model.radius_) == ((SPACING, RADIUS) if c.kind == "cells" else (None, None))
        assert model.report_.is_exact == (c.kind == "local")
        assert (model.feature_map_ is not None) == (c.kind == "taylor")
        assert model.report_.exact_mean == (c.kind == "mixture")
        assert model.report_.n_global > 0 or c.kind != "long scale"
    if hasattr(model, "report_"):
        said = model.report_
        assert (said.n_samples, said.n_features) == (N, len(c.setup.columns))
        np.testing.assert_allclose(said.hyperparameters["length_scale"], c.make().length_scale)
        assert ("degrees" in said.rotation or "°" in said.rotation) == c.setup.has("rotated")
        assert bool(said.target) == c.is_log
        if c.setup.has("drift", "categories"):
            np.testing.assert_allclose(
                [value for _, value, _ in said.drift], np.atleast_2d(model.drift_coef_.values.T)[0]
            )
        assert "noise" in str(said)
    assert type(model).__name__ in repr(model)
    assert "<table" in model._repr_mimebundle_()["text/html"]


@promise("to_html")
def page(c: Case) -> None:
    written = c.model.to_html(X=c.X, y=c.setup.y)
    mean = moments(c, c.setup.rows, False)[0]
    first = (..., 0) if mean.ndim == 2 else ...
    error = float(np.sqrt(np.mean((c.setup.y - mean)[first] ** 2)))
    assert type(c.model).__name__ in written
    assert typeset(error) in written


# ---- copies and threads ----------------------------------------------------------------------------------------------


@cache
def answers(c: Case) -> tuple[Any, ...]:
    """Of the model that copies are compared with."""
    return all_answers(c, c.model)


def all_answers(c: Case, model: Any) -> tuple[Any, ...]:
    numbers = (
        *model.predict(c.X_new, return_std=True),
        *model.predict_interval(c.X_new),
        model.sample_y(c.X_new, 2, random_state=1),
    )
    likelihood = outcome(lambda model: model.log_marginal_likelihood(), model)
    return numbers, likelihood, str(getattr(model, "report_", "")), repr(model)


def same_answers(c: Case, other: Any, limit: float = 0.0) -> None:
    (numbers, likelihood, *words), (other_numbers, other_likelihood, *other_words) = answers(c), all_answers(c, other)
    for number, expected in zip(other_numbers, numbers, strict=True):
        np.testing.assert_allclose(number, expected, rtol=limit, atol=limit)
    assert likelihood == other_likelihood or other_likelihood == pytest.approx(likelihood, rel=limit)
    assert other_words == words


@promise()
def copied(c: Case) -> None:
    for other in (copy.copy(c.model), copy.deepcopy(c.model)):
        same_answers(c, other)
        np.testing.assert_array_equal(other.loo_.mean, c.model.loo_.mean)


@promise()
def pickled(c: Case) -> None:
    other = pickle.loads(pickle.dumps(c.model))
    same_answers(c, other)
    np.testing.assert_array_equal(other.loo_.mean, c.model.loo_.mean)


@promise()
def saved_and_loaded(c: Case) -> None:
    same_answers(c, through_a_file(c.model), 1e-9)


@promise()
def left_out_of_a_file(c: Case) -> None:
    other = through_a_file(c.model)
    near(c, other.loo_.mean, c.model.loo_.mean)
    near(c, other.cross_validate(np.arange(N) % 2).std, c.model.cross_validate(np.arange(N) % 2).std)


def through_a_file(model: Any) -> Any:
    with TemporaryDirectory() as folder:
        nf.save(model, f"{folder}/model.nf")
        return nf.load(f"{folder}/model.nf")


@promise()
def threads(c: Case) -> None:
    model, X = copy.deepcopy(c.model), c.X_new

    def ask(model: Any) -> Any:
        draws = model.sample_y(X, 2, random_state=0)
        return model.predict(X, return_std=True), model.predict_quantiles(X, [0.1, 0.9]), model.loo_.mean, draws

    expected = ask(c.model)
    with ThreadPoolExecutor(4) as pool:
        futures = [pool.submit(ask, model) for _ in range(4)]
        answers = [future.result() for future in futures]
    for answer in answers:
        for one, other in zip(answer, expected, strict=True):
            np.testing.assert_array_equal(one, other)
