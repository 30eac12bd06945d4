"""Fitted models as plain values and arrays, and back: a closed set of types, so that nothing else can come to life.

Numbers, words, truth values, None and lists stand for themselves. All else is an object of JSON with one of the keys
"float", "tuple", "dict", "array", "names", "object", "estimator" or "sklearn", which say what to make of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from ..common.arrays import is_tensor, on_host
from ..common.distribution import Calibration
from ..common.sphere import Sphere
from ..common.targets import Target
from ..common.types import Floats
from ..estimators.columns import Encoding, Roles
from ..features import FourierFeatures, MaclaurinFeatures, PolynomialSketch, TaylorFeatures
from ..features.design import Design, Term, TransformedDesign
from ..features.domain import DomainFeatures
from ..features.fourier import DenseFrequencies, StructuredFrequencies
from ..features.maclaurin import MaclaurinMap
from ..features.sketch import DenseSketch, TensorSRHT
from ..features.taylor import TaylorMap, from_exponents
from ..hyperparameters.learned import Learned, OnBound
from ..hyperparameters.noise import NoiseModel
from ..hyperparameters.noise_field import FieldSum, Inputs, NoiseField
from ..kernels import Kernel
from ..local.centers import Lattice, Placement
from ..local.depth import Depth
from ..local.features import LocalFeatures
from ..local.global_part import GlobalPart
from ..local.landmark_variances import StoredLandmarks
from ..local.moments import MomentSums
from ..local.neighbourhoods import TrainingSet
from ..local.plan import Plan
from ..reporting.report import Report
from ..solvers.drift import Coefficients
from ..solvers.factors import Cholesky
from ..solvers.feature_space import FeatureSpace
from ..solvers.statistics import Statistics
from . import checks, sklearn_parts

Array = NDArray[Any]


class NotStorableError(ValueError):
    """A value of a type that has no place in a file."""


@dataclass(frozen=True)
class _Kind:
    """How values of a class are taken apart and made again."""

    cls: type
    take_apart: Callable[[Any], dict[str, Any]]
    make: Callable[..., Any]


def _plain(cls: type) -> _Kind:
    names = [f.name for f in fields(cls)]
    return _Kind(cls, lambda value: {name: getattr(value, name) for name in names}, cls)


def _fields_of_model(model: FeatureSpace) -> dict[str, Any]:
    """A local model as a file has it: the prior follows from the features, and what is not known is left out."""
    assert isinstance(model.factor, Cholesky)
    names = ("coefficients", "cross", *(("targets", "log_weight", "n") if np.isfinite(model.log_weight) else ()))
    return {"factor": model.factor.lower, **{name: getattr(model, name) for name in names}}


def _model(
    factor: Floats,
    coefficients: Floats,
    cross: Floats,
    targets: Floats | None = None,
    log_weight: float = np.nan,
    n: int = 0,
) -> FeatureSpace:
    """A local model that lacks its prior; earlier files do not tell the sums that only its likelihood needs."""
    k = cross.shape[1]
    if targets is None:  # then the rest of the sums is of no use either
        targets, log_weight = np.full((k, k), np.nan), np.nan
    return FeatureSpace(Cholesky(factor), coefficients, np.full(len(factor), np.nan), cross, targets, log_weight, n)


def _fields_of_target(target: Target) -> dict[str, Any]:
    if target.transformer is not None:
        raise NotStorableError("A transformer of the target cannot be stored")
    return {"kind": target.kind, "power": target.power, "unit": target.unit}


def _fields_of_transformed(design: TransformedDesign) -> dict[str, Any]:
    return {name: getattr(design, name) for name in ("transformer", "names", "columns", "middle", "unit")}


def _transformed(
    transformer: BaseEstimator, names: tuple[str, ...], columns: tuple[int, ...], middle: Floats, unit: Floats
) -> TransformedDesign:
    """A design that lacks how rows of numbers become what the transformer takes, which `_roles` knows."""
    return TransformedDesign(transformer, lambda points: points, names, columns, middle, unit)


def _roles(
    encoding: Encoding,
    coordinates: tuple[int, ...],
    drift_columns: tuple[int, ...] = (),
    design: Design | TransformedDesign | None = None,
    groups: Design | None = None,
) -> Roles:
    if isinstance(design, TransformedDesign):
        design = replace(design, as_given=encoding.decode)
    return Roles(encoding, coordinates, drift_columns, design, groups)


_KINDS = {
    kind.cls.__name__: kind
    for kind in (
        *map(
            _plain, (Kernel, OnBound, Learned, Plan, Report, Statistics, Lattice, Placement, Depth, MomentSums, Sphere)
        ),
        *map(_plain, (DomainFeatures, GlobalPart, NoiseModel, NoiseField, FieldSum, Inputs, Calibration)),
        *map(_plain, (Term, Design, Encoding, Coefficients, StoredLandmarks)),
        _Kind(Roles, lambda v: {f.name: getattr(v, f.name) for f in fields(Roles)}, _roles),
        _Kind(TransformedDesign, _fields_of_transformed, _transformed),
        *map(_plain, (MaclaurinMap, DenseSketch, TensorSRHT, DenseFrequencies, StructuredFrequencies)),
        _Kind(Target, _fields_of_target, Target),
        # What follows from the rest is left out, and made again.
        _Kind(TaylorMap, lambda v: {"exponents": v.exponents}, from_exponents),
        _Kind(LocalFeatures, lambda v: {"kernel": v.kernel, "maps": v.maps}, LocalFeatures.of),
        _Kind(TrainingSet, lambda v: {"X": v.X, "y": v.y[:, :-1], "noise": v.noise}, TrainingSet.of),
        _Kind(FeatureSpace, _fields_of_model, _model),
    )
}
_KINDS["FeatureModel"] = _KINDS["FeatureSpace"]  # its name in earlier files
_MAPS = {cls.__name__: cls for cls in (FourierFeatures, MaclaurinFeatures, PolynomialSketch, TaylorFeatures)}
AnyMap = FourierFeatures | MaclaurinFeatures | PolynomialSketch | TaylorFeatures
_MAP_STATE: dict[str, Any] = {
    "map_": DenseFrequencies | StructuredFrequencies | MaclaurinMap | TaylorMap | DenseSketch | TensorSRHT,
    "_scale": NDArray[np.float64],
    "_amplitude": float,
    "center_": NDArray[np.float64],
    "n_features_in_": int,
    "feature_names_in_": NDArray[np.object_],
}
_ODD_FLOATS = {"nan": float("nan"), "inf": float("inf"), "-inf": float("-inf")}


def encode(value: Any, arrays: list[Array]) -> Any:
    """Value as plain ones; its arrays are appended to `arrays`.

    Raises
    ------
    NotStorableError
        Where some part has a type that no file can hold.
    """
    if is_tensor(value):  # a file belongs to no device
        value = on_host(value)
        value = value.item() if value.ndim == 0 else value.astype(np.float64 if value.dtype.kind == "f" else np.int64)
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if np.isfinite(value) else {"float": repr(value)}
    if isinstance(value, np.ndarray):
        return _encode_array(value, arrays)
    if isinstance(value, list):
        return [encode(item, arrays) for item in value]
    if isinstance(value, tuple):
        return {"tuple": [encode(item, arrays) for item in value]}
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {"dict": encode_fields(value, arrays)}
    name = type(value).__name__
    if name in _KINDS and type(value) is _KINDS[name].cls:
        return {"object": name, "fields": encode_fields(_KINDS[name].take_apart(value), arrays)}
    if name in _MAPS and type(value) is _MAPS[name]:
        return {
            "estimator": name,
            "parameters": encode_fields(storable_parameters(value), arrays),
            "state": encode_fields({key: vars(value)[key] for key in _MAP_STATE if key in vars(value)}, arrays),
        }
    if isinstance(value, BaseEstimator):
        content = sklearn_parts.packed(value)
        if isinstance(content, str):
            raise NotStorableError(f"A {name} cannot be stored {content}")
        return {"sklearn": _encode_array(content, arrays)}
    raise NotStorableError(f"A value of type {type(value).__module__}.{type(value).__qualname__} cannot be stored")


def require_own(estimator: BaseEstimator) -> None:
    """Refuse an estimator that is no feature map of this package."""
    if type(estimator) not in _MAPS.values():
        raise NotStorableError(
            f"A value of type {type(estimator).__module__}.{type(estimator).__qualname__} cannot be stored"
        )


def encode_fields(values: Mapping[str, Any], arrays: list[Array]) -> dict[str, Any]:
    """The same for each value of a dictionary."""
    return {key: encode(value, arrays) for key, value in values.items()}


def _encode_array(value: Array, arrays: list[Array]) -> Any:
    if value.dtype.kind in "OU":
        names = value.tolist()
        if value.ndim == 1 and all(isinstance(name, str) for name in names):
            return {"names": names}
        raise NotStorableError("An array of objects cannot be stored")
    if value.dtype.kind not in "fiub":
        raise NotStorableError(f"An array of type {value.dtype} cannot be stored")
    arrays.append(value)
    return {"array": len(arrays) - 1}


def storable_parameters(estimator: Any) -> dict[str, Any]:
    """Parameters, with None for what belongs to the process: a generator of random numbers, a function to call."""
    return {
        name: None if callable(value) or isinstance(value, np.random.RandomState | np.random.Generator) else value
        for name, value in estimator.get_params(deep=False).items()
    }


def decode(value: Any, arrays: Sequence[Array]) -> Any:
    """The value that `encode` was given.

    Raises
    ------
    ArithmeticError, AttributeError, LookupError, TypeError, ValueError or RecursionError
        Where there is none. An array belongs to one place, so that a small file cannot ask for the work of a large one.
    """
    return _decode(value, dict(enumerate(arrays)))


def decode_fields(values: Mapping[str, Any], arrays: Sequence[Array]) -> dict[str, Any]:
    """The dictionary that `encode_fields` was given."""
    return _decode_fields(values, dict(enumerate(arrays)))


def _decode_fields(values: Mapping[str, Any], left: dict[int, Array]) -> dict[str, Any]:
    return {key: _decode(value, left) for key, value in values.items()}


def _decode(value: Any, left: dict[int, Array]) -> Any:
    if isinstance(value, list):
        return [_decode(item, left) for item in value]
    if not isinstance(value, dict):
        return value
    if "float" in value:
        return _ODD_FLOATS[value["float"]]
    if "tuple" in value:
        checks.conform(value["tuple"], list)
        return tuple(_decode(item, left) for item in value["tuple"])
    if "dict" in value:
        return _decode_fields(value["dict"], left)
    if "array" in value:
        checks.conform(value["array"], int)
        return left.pop(value["array"])
    if "names" in value:
        checks.conform(value["names"], list[str])
        return np.array(value["names"], dtype=object)
    if "sklearn" in value:
        content = _decode(value["sklearn"], left)
        checks.conform(content, NDArray[np.uint8])
        return sklearn_parts.unpacked(content)
    if "object" in value:
        return _made(value["object"], _decode_fields(value["fields"], left))
    estimator = _MAPS[value["estimator"]](**_decode_fields(value["parameters"], left))
    for parameter in estimator.get_params(deep=False).values():
        checks.conform_parameter(parameter)
    state = checks.conform_fields(_decode_fields(value["state"], left), _MAP_STATE)
    for name, part in state.items():
        setattr(estimator, name, part)
    return estimator


def check(value: Any) -> None:
    """Refuse an object of one of our classes whose fields no file may have."""
    name = type(value).__name__
    kind = _KINDS[name]
    fields = kind.take_apart(value)
    checks.conform_fields(fields, checks.hints(kind.make), name)
    checks.check(name, fields)


def _made(name: str, values: dict[str, Any]) -> Any:
    """An object of one of our classes, from fields that it can be made of."""
    kind = _KINDS[name]
    if name == "Learned" and _are_sentences(values.get("on_bounds")):
        # Earlier versions wrote sentences, with values in units that may not be those of the data.
        values = values | {"on_bounds": ()}
    checks.conform_fields(values, checks.hints(kind.make), name)
    checks.check(kind.cls.__name__, values)
    return kind.make(**values)


def _are_sentences(value: Any) -> bool:
    return isinstance(value, tuple) and all(isinstance(item, str) for item in value)
