"""What values from a model file must be like to be used: of the types that are written down, of sizes that fit.

This is the one place that doubts a file. `conform` takes the types from the annotations of this package's own classes
and functions; `_RULES` says what those cannot: sizes, signs and ranges. Behind it, values are relied on.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from functools import cache
from types import SimpleNamespace
from typing import Any, Union, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from ..common.arrays import FARTHEST
from ..common.targets import KINDS
from ..estimators.columns import DTYPES
from ..features.design import Design
from ..kernels.families import FAMILIES
from ..reporting.summary import FEATURES

Array = NDArray[Any]
Number = float | NDArray[np.float64]

_LARGEST_INTEGER = 2**63
_SMALLEST, _LARGEST = 1e-100, 1e100  # of what is squared and divided by: lengths
_LEAST_VARIANCE, _MOST_VARIANCE = 1e-304, 1e304  # squares of all targets that can be fitted
_DEEPEST = 4
_MOST_FACTORS = 2  # columns whose product is a column of a drift
_MOST_LATTICE = 5000  # length scales along a side of a domain, beyond any number of features
_FARTHEST = 10 * FARTHEST  # of points in units of the length scale, whose squared distances must not overflow

# Where a number that is not finite says something: that it was not measured, or that a map brings its own length scale.
_MAY_BE_ODD = frozenset(
    {
        *(("Kernel", "length_scales"), ("Learned", "log_likelihood"), ("Learned", "standard_errors")),
        *(
            ("Report", "divergence_error"),
            ("Report", "trials"),
            ("Report", "hyperparameters"),
            ("Report", "standard_errors"),
        ),
        ("NoiseModel", "dof"),
        ("", "_points"),
    }
)

_DISTANCES = ("divergence_upper", "divergence_of_function", "divergence_of_function_upper")  # in a report
_LEFT_OUT = {"samples", "rmse", "nll", "crps", "coverage"}  # scores in a report


def require(condition: Any) -> None:
    """Refuse; whoever opens the file says which it is."""
    if not condition:
        raise ValueError("The parts of the model do not fit together.")


# ---- types -----------------------------------------------------------------------------------------------------------


@cache
def hints(made_by: Callable[..., Any]) -> Mapping[str, Any]:
    """Types of the fields of a dataclass, or of the arguments of a function."""
    types_by_name = get_type_hints(made_by)
    types_by_name.pop("return", None)
    return types_by_name


def conform_fields(values: Mapping[str, Any], expected: Mapping[str, Any], owner: str = "") -> dict[str, Any]:
    """The same values, each of the type expected of it; there must be no others, but some may be left out."""
    require(set(values) <= set(expected))
    for name, value in values.items():
        conform(value, expected[name], odd=(owner, name) in _MAY_BE_ODD)
    return dict(values)


def conform(value: Any, expected: Any, odd: bool = False) -> None:
    """Refuse a value that is not of a type, or not finite unless it may be `odd`."""
    origin, arguments = get_origin(expected), get_args(expected)
    if hasattr(origin, "__value__"):  # NDArray is a lazy alias from NumPy 2.5 on
        expanded = origin.__value__[arguments]
        origin, arguments = get_origin(expanded), get_args(expanded)
    if origin in (Union, types.UnionType):
        require(any(_conforms(value, option, odd) for option in arguments))
    elif origin is np.ndarray:
        _conform_array(value, get_args(arguments[1])[0], odd)
    elif origin is tuple:
        require(type(value) is tuple)
        each = arguments[:1] * len(value) if arguments[1:] == (...,) else arguments
        require(len(each) == len(value))
        for item, kind in zip(value, each, strict=True):
            conform(item, kind, odd)
    elif origin in (list, dict):
        require(type(value) is origin)
        for item in value.values() if origin is dict else value:
            conform(item, arguments[-1], odd)
    elif expected is float:
        require(_is_integer(value) or (type(value) is float and (odd or np.isfinite(value))))
    elif expected is int:
        require(_is_integer(value))
    elif expected is BaseEstimator:
        require(isinstance(value, BaseEstimator))
    else:
        require(type(value) is expected)


def _conforms(value: Any, expected: Any, odd: bool) -> bool:
    try:
        conform(value, expected, odd)
    except ValueError:
        return False
    return True


def _is_integer(value: Any) -> bool:
    return type(value) is int and abs(value) < _LARGEST_INTEGER


def _conform_array(value: Any, kind: Any, odd: bool) -> None:
    """Arrays hold float64, unless the annotation names another type."""
    require(type(value) is np.ndarray and value.ndim >= 1 and value.dtype == (np.float64 if kind is Any else kind))
    if value.dtype == object:
        require(value.ndim == 1 and all(type(name) is str for name in value))
    elif value.dtype.kind == "f":
        require(odd or np.isfinite(value).all())


def conform_parameter(value: Any, depth: int = 0) -> None:
    """Refuse what no one gives as a parameter: numbers, words, and lists and arrays of numbers are taken."""
    require(depth < _DEEPEST)
    if isinstance(value, list | tuple):
        for item in value:
            conform_parameter(item, depth + 1)
    elif isinstance(value, dict):
        require(False)
    elif type(value) is int:
        require(abs(value) < _LARGEST_INTEGER)


# ---- sizes and ranges ------------------------------------------------------------------------------------------------


def check(name: str, fields: Mapping[str, Any]) -> None:
    """Refuse fields of a class that do not fit together; their types are known to be right."""
    rule = _RULES.get(name)
    if rule is not None:
        require(rule(SimpleNamespace(**fields)))


def are_positive(values: Any) -> bool:
    """Whether lengths can be divided by and squared."""
    return bool(np.all((np.asarray(values) >= _SMALLEST) & (np.asarray(values) <= _LARGEST)))


def _are_near(points: Array) -> bool:
    return bool(np.all(np.abs(points) <= _FARTHEST))


def _is_kernel(f: Any) -> bool:
    lengths, variances = f.length_scales, f.variances
    if not (lengths.ndim == 2 and lengths.shape[1] and variances.shape == (len(lengths),) and len(variances)):
        return False
    if getattr(f, "family", "gaussian") not in FAMILIES:
        return False
    has_lengths = are_positive(lengths) and lengths.max() / lengths.min() <= _LARGEST
    sizes = bool(np.all((variances >= _LEAST_VARIANCE) & (variances <= _MOST_VARIANCE)))
    return sizes and (has_lengths or (np.isnan(lengths).all() and lengths.shape == (1, 1)))


def _is_learned(f: Any) -> bool:
    J, q = f.kernel.length_scales.shape
    errors = getattr(f, "standard_errors", None)
    if errors is not None and errors.shape != (J * q + J + 1,):
        return False
    return f.noise_variance >= 0 and all(
        (estimate.component or 0) < J and (estimate.column or 0) < q for estimate in getattr(f, "on_bounds", ())
    )


def _is_on_bound(f: Any) -> bool:
    is_kind = f.kind in ("length_scale", "signal_variance", "noise_variance")
    return is_kind and (f.component or 0) >= 0 and (f.column or 0) >= 0


def _is_report(f: Any) -> bool:
    measured = f.divergence is not None
    shares = getattr(f, "variance_shares", (1.0,))
    lengths = f.hyperparameters.get("length_scale")
    return (
        (not measured or (f.divergence >= 0 and f.divergence_error is not None))
        and (not measured or (f.tolerance or 0) > 0 or (f.tolerance is None and getattr(f, "kind", "") == FEATURES))
        and (f.divergence_error is None or not f.divergence_error < 0)
        and all(not (getattr(f, name, None) or 0) < 0 for name in _DISTANCES)
        and len(shares) >= 1
        and (len(shares) == 1 or (isinstance(lengths, np.ndarray) and len(np.atleast_1d(lengths)) == len(shares)))
        and all(np.ndim(value) <= 2 for value in f.hyperparameters.values())
        and set(getattr(f, "left_out", ())) in (set(), _LEFT_OUT)
    )


def _are_sums(f: Any) -> bool:
    D, k = len(np.atleast_1d(f.gram)), len(np.atleast_1d(f.targets))
    fits = f.gram.shape == (D, D) and f.cross.shape == (D, k) and f.targets.shape == (k, k)
    return bool(fits and D and k >= 2 and f.n >= 0 and (f.targets[-1, -1] > 0 or f.n == 0))


def _are_moments(f: Any) -> bool:
    fits = f.moments.ndim == 1 and f.cross.ndim == 2 and f.targets.shape == f.cross.shape[1:] * 2
    return bool(fits and f.n >= 0)


def _is_placement(f: Any) -> bool:
    if f.centers.ndim != 2 or not _are_near(f.centers):
        return False
    cells, reach, lattice = getattr(f, "cells", None), getattr(f, "reach", None), f.lattice
    sizes = getattr(f, "sizes", None)
    return (
        (f.spacing is None or are_positive(f.spacing))
        and (lattice is None or len(lattice.origin) == f.centers.shape[1])
        and (cells is None or cells.shape == f.centers.shape)
        and (reach is None or reach.shape == f.centers.shape[:1])
        and (sizes is None or (sizes.shape == f.centers.shape[:1] and are_positive(sizes)))
    )


def _is_training_set(f: Any) -> bool:
    if f.X.ndim != 2 or f.y.ndim != 2 or not _are_near(f.X):
        return False
    n = len(f.X)
    return bool(f.X.shape[1] and f.y.shape[1] and len(f.y) == n and f.noise.shape == (n,) and (f.noise >= 0).all())


def _is_local_model(f: Any) -> bool:
    D = len(np.atleast_1d(f.factor))
    fits = (
        f.factor.shape == (D, D) and f.cross.ndim == 2 and len(f.cross) == D and f.coefficients.shape == f.cross.shape
    )
    targets = getattr(f, "targets", None)
    summed = targets is None or (targets.shape == f.cross.shape[1:] * 2 and getattr(f, "n", 0) >= 0)
    return bool(fits and summed and f.factor.flags.f_contiguous)


def _is_srht(f: Any) -> bool:
    if f.signs.ndim != 3 or f.picks.ndim != 2 or 0 in (*f.signs.shape, *f.picks.shape):
        return False
    degree, blocks, width = f.signs.shape
    inside = f.picks.min() >= 0 and f.picks.max() < blocks * width
    return bool(inside and len(f.picks) == degree and width & (width - 1) == 0)


def _are_monomials(f: Any) -> bool:
    # Every monomial but the constant has a parent, so no degree is larger than their number; see `from_exponents`.
    e = f.exponents
    return bool(e.ndim == 2 and e.size and e.min() >= 0 and e.max() < len(e) and (e == 0).all(axis=1).any())


def _is_domain(f: Any) -> bool:
    d = len(np.atleast_1d(f.low))
    if f.low.shape != (d,) or f.high.shape != (d,) or f.length_scales.shape != (d,) or f.picks.shape[1:] != (d,):
        return False
    sides = (f.high - f.low) / f.length_scales
    small = are_positive(f.length_scales) and (sides >= 0).all() and (sides < _MOST_LATTICE).all()
    return bool(small and f.variance >= _LEAST_VARIANCE and len(f.picks) and f.picks.min() >= 0)


def _is_global_part(f: Any) -> bool:
    D = sum(len(features.picks) for features in f.features)
    return bool(
        D
        and f.gram.shape == (D, D)
        and f.cross.ndim == 2
        and len(f.cross) == D
        and f.spread.ndim == 2
        and len(f.spread) == D
        and (getattr(f, "squares", None) is None or f.squares.shape == f.cross.shape[1:] * 2)
    )


def _is_design(f: Any) -> bool:
    n = len(np.atleast_1d(f.middle))
    inside = all(len(t.columns) <= _MOST_FACTORS and all(0 <= j < n for j in t.columns) for t in f.terms)
    fits = f.middle.shape == f.unit.shape == (n,) and len(f.names) == len(f.terms) == len(set(f.terms)) > 0
    return bool(fits and inside and are_positive(f.unit) and all(len(t.columns) == 1 or t.level < 0 for t in f.terms))


def _is_transformed(f: Any) -> bool:
    p = len(f.names)
    fits = f.middle.shape == f.unit.shape == (p,) and len(f.columns) == len(set(f.columns)) == p > 0
    return bool(fits and are_positive(f.unit) and min(f.columns) >= -1)


def _is_encoding(f: Any) -> bool:
    names = f.names is None or (len(f.names) == f.n_columns == len(set(f.names)))
    columns = {str(j) for j in f.used}
    return bool(
        names
        and f.n_columns >= 1
        and all(0 <= j < f.n_columns for j in f.used)
        and set(f.levels) <= columns
        and all(len(set(levels)) == len(levels) >= 1 for levels in f.levels.values())
        and set(getattr(f, "dtypes", {}).values()) <= set(DTYPES)
    )


def _are_roles(f: Any) -> bool:
    return bool(
        f.coordinates
        and len(set(f.coordinates)) == len(f.coordinates)
        and {*f.coordinates, *f.drift_columns} <= set(f.encoding.used)
        and (not isinstance(f.design, Design) or len(f.design.middle) == f.encoding.n_columns)
    )


def _are_coefficients(f: Any) -> bool:
    p = f.gram.shape[0]
    return bool(f.gram.shape == (p, p) and f.cross.ndim == 2 and len(f.cross) == p and (np.diagonal(f.gram) >= 0).all())


def _is_noise_model(f: Any) -> bool:
    is_dof = f.dof > 2 if np.isfinite(f.dof) else f.dof == np.inf
    return bool(is_dof and _SMALLEST <= f.factor <= _LARGEST)


def _is_noise_field(f: Any) -> bool:
    M = len(np.atleast_1d(f.X))
    fits = f.X.ndim == 2 and M and f.X.shape[1] and f.coefficients.shape == (M,) and _are_near(f.X)
    return bool(fits and f.kernel.length_scales.shape[1] in (1, f.X.shape[1]))


def _are_inputs(f: Any) -> bool:
    if f.marks is None:
        return True
    fits = f.marks.ndim == 2 and len(f.marks) >= 2 and f.marks.shape[1] and f.column is None
    return bool(fits and (np.diff(f.marks, axis=0) > 0).all())


def _is_calibration(f: Any) -> bool:
    J = len(np.atleast_1d(f.stated))
    fits = f.stated.shape == f.held.shape == (J,) and J >= 2
    return bool(fits and (np.diff(f.stated) > 0).all() and (np.diff(f.held) > 0).all())


_RULES: dict[str, Callable[[Any], bool]] = {
    "Kernel": _is_kernel,
    "Learned": _is_learned,
    "OnBound": _is_on_bound,
    "Report": _is_report,
    "Statistics": _are_sums,
    "MomentSums": _are_moments,
    "Lattice": lambda f: f.origin.ndim == 1 and _are_near(f.origin) and are_positive(f.side),
    "Placement": _is_placement,
    "TrainingSet": _is_training_set,
    "FeatureSpace": _is_local_model,
    "Plan": lambda f: (f.radius is None or are_positive(f.radius)) and (getattr(f, "count", None) or 1) >= 1,
    "StoredLandmarks": lambda f: (
        f.count >= 0
        and f.precision.shape == (len(f.places), len(f.places))
        and int(f.counts.sum()) == len(f.places)
        and bool((np.diagonal(f.precision) > 0).all())
    ),
    "Depth": lambda f: f.excess >= 0 and f.most >= 1 and f.noise >= 0,
    "DomainFeatures": _is_domain,
    "Design": _is_design,
    "TransformedDesign": _is_transformed,
    "Encoding": _is_encoding,
    "Roles": _are_roles,
    "Coefficients": _are_coefficients,
    "GlobalPart": _is_global_part,
    "Target": lambda f: f.kind in KINDS[:-1] and are_positive(f.unit) and 0 <= f.power <= 2,
    "NoiseModel": _is_noise_model,
    "NoiseField": _is_noise_field,
    "Inputs": _are_inputs,
    "FieldSum": lambda f: len(f.terms) >= 2,
    "Calibration": _is_calibration,
    "TaylorMap": _are_monomials,
    "MaclaurinMap": lambda f: all(weight >= 0 for weight, _ in f.sketches),
    "DenseSketch": lambda f: f.weights.ndim == 3 and f.weights.size > 0,
    "TensorSRHT": _is_srht,
    "DenseFrequencies": lambda f: (
        f.frequencies.ndim == 2
        and f.frequencies.size > 0
        and f.n_components in (2 * len(f.frequencies) - i for i in (0, 1))
    ),
    "StructuredFrequencies": lambda f: (
        f.signs.ndim == 3 and len(f.signs) == 3 and 1 <= f.n_components <= 2 * f.signs[0].size
    ),
}
