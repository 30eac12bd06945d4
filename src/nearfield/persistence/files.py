"""Model files: one file, checked, versioned, and safe to open whoever made it.

There is no pickle inside: a file holds numbers and words, and the names of a closed set of this package's own classes
(see `container` for the bytes). What follows from the data, such as the local models, is made again on loading, so
that a file is about as large as the training data it holds.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from .. import __version__
from ..common import memory
from ..common.arrays import as_doubles, is_tensor
from ..common.files import atomic
from ..common.fitting import note_fitted
from ..common.sphere import Sphere
from ..common.targets import Target
from ..common.types import Floats
from ..estimators import ExactGPRegressor, FeatureGPRegressor, LocalGPRegressor
from ..estimators.base import GPRegressor
from ..estimators.by_target import own_regressors
from ..estimators.columns import Roles
from ..estimators.rotated import MOST_COLUMNS
from ..features.design import TransformedDesign
from ..hyperparameters.learning import Learned
from ..hyperparameters.noise import NoiseModel
from ..kernels import Kernel
from ..local.centers import Placement
from ..local.depth import Depth
from ..local.fit import FittedLocal
from ..local.frame import Frame
from ..local.global_part import GlobalPart
from ..local.iteration import N_SIGNS, ExactMean
from ..local.landmark_variances import StoredLandmarks
from ..local.moments import MomentSums
from ..local.neighbourhoods import TrainingSet
from ..local.plan import Plan
from ..local.predictor import LocalPredictor
from ..reporting.report import Report
from ..solvers.drift import Coefficients, UniversalKriging
from ..solvers.factors import Cholesky
from ..solvers.feature_space import FeatureSpace
from ..solvers.kernel_space import KernelSpace
from ..solvers.statistics import Statistics
from . import codec, container
from .checks import Number, are_positive, conform, conform_fields, conform_parameter, require

FORMAT = "nearfield model"

_CLASSES: dict[str, type[GPRegressor]] = {
    cls.__name__: cls for cls in (ExactGPRegressor, FeatureGPRegressor, LocalGPRegressor)
}
Names = NDArray[np.object_]

_SHARED: dict[str, Any] = {
    "kernel_": Kernel,
    "noise_variance_": float,
    "length_scale_": Number | None,
    "signal_variance_": Number,
    "y_mean_": Floats,
    "_single_target": bool,
    "n_features_in_": int,
}
_OPTIONAL: dict[str, Any] = {
    "report_": Report,
    "learned_": Learned,
    "feature_names_in_": Names,
    "_weight": float,
    "_amplitude": float,
    "_sphere": Sphere | None,
    "_rotation": Floats | None,
    "_box": Floats | None,
    "crs_": str | None,
    "noise_model_": NoiseModel,
    "_stated_noise": Floats | None,
    "_is_weighted": bool,
    "target_": Target,
    "_roles": Roles | None,
    "_points": Floats | None,
    "_trend": Floats | None,
    "_drift_prior": Floats | None,
    "mean_": BaseEstimator,
    "_mean_rows": Floats | None,
}
_LOCAL: dict[str, Any] = {
    "_offset": Floats,
    "_unit": Floats,
    "spacing_": float | None,
    "radius_": float | None,
    "report_": Report,
}
_FEATURES: dict[str, Any] = {
    "_offset": Floats,
    "feature_map_": codec.AnyMap | list[codec.AnyMap],
    "statistics_": Statistics,
    "_width": int,
}
_STATE: dict[str, dict[str, Any]] = {
    "ExactGPRegressor": _SHARED,
    "FeatureGPRegressor": _SHARED | _FEATURES,
    "LocalGPRegressor": _SHARED | _LOCAL,
}
_PARTS: dict[str, dict[str, Any]] = {
    "ExactGPRegressor": {"X": Floats, "noise": Floats, "coefficients": Floats, "quadratic": Floats},
    "FeatureGPRegressor": {},
    "LocalGPRegressor": {
        "plan": Plan,
        "data": TrainingSet,
        "placement": Placement,
        "models": list[FeatureSpace | MomentSums | None] | None,
        "open_centers": bool,
    },
}
_OPTIONAL_PARTS: dict[str, Any] = {
    "depth": Depth | None,
    "global_part": GlobalPart | None,
    "exact_weights": Floats | None,
    "solved_signs": Floats | None,
    "landmarks": StoredLandmarks | None,
    "coefficients": Floats | None,
    "drift": Coefficients | None,
    "drift_columns": Floats | None,
    "drift_mean": Floats | None,
    "drift_prior": Floats | None,
}
_OF_SEVERAL: dict[str, Any] = _SHARED | {"noise_variance_": Floats}  # where each target has a regressor in the file
_TOLD_OF_SEVERAL = (*_OF_SEVERAL, "learned_", "report_", "feature_names_in_", "_sphere", "_rotation")
_OF_SKLEARN = ("drift", "mean", "mean_")  # attributes that may be transformers and regressors of scikit-learn
_MOST_THREADS = 4096
_WRONG = (ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError, RecursionError)


@dataclass(frozen=True, eq=False)
class ModelFile:
    """A model file that was read and checked; `model` makes the model.

    Attributes
    ----------
    path : str
    class_name : str
    library_version : str
        Of the nearfield that wrote it.
    format_version : int
    metadata : dict
        What `save` was given.
    digest : str
        SHA-256 of the content.
    n_bytes : int
    """

    path: str
    class_name: str
    library_version: str
    format_version: int
    metadata: dict[str, Any]
    digest: str
    n_bytes: int
    _content: container.Content

    def parameters(self) -> dict[str, Any]:
        """Parameters of the estimator."""
        return self._decoded("parameters")

    def state(self) -> dict[str, Any]:
        """Fitted attributes that are stored as they are, such as `kernel_` and `report_`."""
        return self._decoded("state")

    def model(self) -> Any:
        """The fitted model."""
        try:
            ones = self._of_targets()
            if ones:
                model = self._of_several(ones)
            else:
                model, parts = self._checked()
                _complete(model, parts)
                _check_coefficients(model)
            note_fitted(model, set(model.get_params(deep=False)))
        except MemoryError as error:
            raise MemoryError(
                f"{self.path}: {' '.join(str(error).split()) or 'it needs more memory than is free.'}"
            ) from None
        except _WRONG as error:
            raise self._invalid() from error
        return model

    def _of_targets(self) -> tuple[Any, ...]:
        """The regressors of the targets, where the file has one for each."""
        headers = self._content.header.get("targets", [])
        files = [_model_file(self.path, replace(self._content, header=header)) for header in headers]
        require(all(file.class_name == self.class_name and "targets" not in file._content.header for file in files))
        return tuple(file.model() for file in files)

    def _of_several(self, ones: tuple[Any, ...]) -> Any:
        """A regressor of these targets, which it has all from; what the file says besides is for people to read."""
        model, first = _CLASSES[self.class_name](**self.parameters()), ones[0]
        require(len(ones) > 1 and all(len(one.y_mean_) == 1 for one in ones))
        for one in ones[1:]:
            require(one.n_features_in_ == first.n_features_in_ and one._n_inner == first._n_inner)
            require(one.kernel_.length_scales.shape == first.kernel_.length_scales.shape)
        learned = self.state().get("learned_")
        if learned is not None:
            model.learned_ = learned
        model._take_each(ones)
        return model

    def _checked(self, **known: Any) -> tuple[Any, dict[str, Any]]:
        """A model that lacks what is made anew, and parts that this can be made of; `known` ones are not decoded."""
        model = _CLASSES[self.class_name](**self.parameters())
        state, parts = self.state(), self._decoded("parts", **known)
        if isinstance(model, LocalGPRegressor):
            parts |= {name: state.pop(f"_{name}", None) for name in ("offset", "unit", "weight")}
        for name, value in state.items():
            setattr(model, name, value)
        _check(model, parts)
        return model, parts

    def _decoded(self, part: str, **known: Any) -> dict[str, Any]:
        try:
            fields = {name: value for name, value in self._content.header[part].items() if name not in known}
            values = codec.decode_fields(fields, self._content.arrays) | known
            if part == "parameters":
                for value in values.values():
                    conform_parameter(value)
            else:
                expected = (_STATE if part == "state" else _PARTS)[self.class_name]
                if "targets" in self._content.header:
                    expected = _OF_SEVERAL if part == "state" else {}
                require(set(expected) <= set(values))
                conform_fields(values, expected | (_OPTIONAL_PARTS if part == "parts" else _OPTIONAL))
        except _WRONG as error:
            raise self._invalid() from error
        return values

    def _invalid(self) -> ValueError:
        return ValueError(
            f"{self.path} is intact, but this nearfield can make no model of it; nearfield {self.library_version} "
            "wrote it."
        )


def save(model: Any, path: str | os.PathLike[str], metadata: dict[str, Any] | None = None) -> None:
    """Write a fitted model to a file, whole or not at all.

    Parameters
    ----------
    model : LocalGPRegressor, FeatureGPRegressor or ExactGPRegressor
        Fitted. `FeatureGPRegressor` must have a feature map of this package.
    path : path
        Replaced if it exists.
    metadata : dict or None, default=None
        Anything that JSON can hold, to be given back by `load_with_metadata`.

    Notes
    -----
    A parameter that belongs to the process is stored as None: `progress`, and a generator given as `random_state`.
    A model fitted on tensors is stored, and loaded, as one of NumPy arrays in double precision.
    The training data is in the file of a local or an exact model, since they predict from it.
    """
    class_name = type(model).__name__
    if type(model) is not _CLASSES.get(class_name):
        raise ValueError(f"Only {', '.join(_CLASSES)} can be saved. Got {class_name}.")
    if not hasattr(model, "kernel_"):
        raise ValueError(f"This {class_name} is not fitted yet: call fit before save.")
    arrays: list[Any] = []
    header = _header(model, arrays) | {"metadata": _checked(metadata)}
    with atomic(path) as temporary, temporary.open("wb") as handle:
        container.write(handle, header, arrays)


def load(path: str | os.PathLike[str]) -> Any:
    """Read a model that `save` wrote; its predictions are those of the model saved.

    Opening a file runs no code of its maker's, whoever made it. Reading it takes its length and 64 times that of its
    header in memory; a model that needs more than is free is refused before it is made.

    Raises
    ------
    ValueError
        In one sentence, where the file is no model, of a newer format, truncated, altered, or holds what no model
        can be made of.
    MemoryError
        Where file or model need more than is free.
    """
    return inspect(path).model()


def load_with_metadata(path: str | os.PathLike[str]) -> tuple[Any, dict[str, Any]]:
    """The model, and the metadata it was saved with (an empty dict where there was none)."""
    file = inspect(path)
    return file.model(), file.metadata


def inspect(path: str | os.PathLike[str]) -> ModelFile:
    """Read and check a model file without making the model, which may take longer."""
    return _model_file(os.fspath(path), container.read(path))


def _model_file(path: str, content: container.Content) -> ModelFile:
    header = content.header
    try:
        if header["format"] != FORMAT or header["class"] not in _CLASSES or not isinstance(header["metadata"], dict):
            raise KeyError("format")
        library = header["library"]
        if not (isinstance(library, str) and len(library) < 100 and library.isprintable()):
            raise KeyError("library")
    except (KeyError, TypeError):
        raise ValueError(f"{path} is a nearfield file, but holds no model that can be read here.") from None
    version, metadata = container.VERSION, header["metadata"]
    return ModelFile(path, header["class"], library, version, metadata, content.digest, content.n_bytes, content)


def _header(model: Any, arrays: list[Any]) -> dict[str, Any]:
    """What a file says of a model, whose arrays are added to those before; of several targets, of each in turn."""
    ones = own_regressors(model)
    parts = {} if ones else _parts(model)
    header = {
        "format": FORMAT,
        "library": __version__,
        "class": type(model).__name__,
        "metadata": {},
        "parameters": _encoded(model, codec.storable_parameters(model), arrays),
        "state": _encoded(model, _state(model), arrays),
        "parts": _encoded(model, parts, arrays),
    }
    if ones:
        return header | {"targets": [_header(one, arrays) for one in ones]}
    _require_loadable(header, arrays, {name: parts[name] for name in ("data",) if name in parts})
    return header


# ---- what each model consists of ----------------------------------------------------------------------------------


def _state(model: Any) -> dict[str, Any]:
    """Fitted attributes that are stored as they are."""
    values = vars(model)
    if own_regressors(model):
        return {name: values[name] for name in _TOLD_OF_SEVERAL if name in values}
    if isinstance(model, LocalGPRegressor):
        fitted = model._fitted
        values = {**values, "_offset": fitted.frame.offset, "_unit": fitted.frame.unit, "_weight": fitted.weight}
    if isinstance(model, FeatureGPRegressor):  # a file of a few features does not hold all data
        values = {**values, "_stated_noise": None}
        if model._points is not None:
            values["_points"] = None
        if model._mean_rows is not None:
            values["_mean_rows"] = model._mean_rows[:0]
    return {name: values[name] for name in (*_STATE[type(model).__name__], *_OPTIONAL) if name in values}


def _parts(model: Any) -> dict[str, Any]:
    """What the rest of the model is made of."""
    if isinstance(model, LocalGPRegressor):
        p = model._predictor
        if type(p) is not LocalPredictor:
            raise ValueError(f"A local model kept as {type(p).__name__} cannot be saved: use pickle or skops for it.")
        data, models, part = p.data, p.stored(), model._fitted.global_part
        if is_tensor(data.X):
            data = TrainingSet.of(*(as_doubles(a) for a in (data.X, data.y[:, :-1], data.noise)))
            models = None
        if part is not None:  # further targets are made again
            data = replace(data, y=data.y[:, part.n_further :])
        exact = model._fitted.exact_mean
        learnt = {"plan": p.plan, "data": data, "placement": p.placement, "models": models}
        return {
            **learnt,
            "open_centers": p.open_centers,
            "depth": p.depth,
            "global_part": part,
            "exact_weights": None if exact is None else exact.weights,
            "solved_signs": None if exact is None else exact.solved_signs,
            "landmarks": None if exact is None or exact.variances is None else exact.variances.stored(),
            "coefficients": None if is_tensor(p.data.X) else p.exact_coefficients(),
            "drift": model._fitted.drift,
        }
    if isinstance(model, ExactGPRegressor):
        q, whole = model._process, model._posterior
        parts: dict[str, Any] = {"X": q.X, "noise": q.noise, "coefficients": q.coefficients, "quadratic": q.quadratic}
        if isinstance(whole, UniversalKriging):
            parts |= {"drift_columns": whole.F, "drift_mean": whole.drift.mean, "drift_prior": whole.drift.prior}
        return parts
    return {}


def _require_loadable(header: dict[str, Any], arrays: list[Any], known: dict[str, Any]) -> None:
    """Refuse to write what `load` would refuse; `known` parts are checked as they are, and not made anew."""
    file = _model_file("", container.Content(header, arrays, "", 0))
    try:
        for part in known.values():
            codec.check(part)
        file._checked(**known)
    except _WRONG as error:
        raise ValueError(
            f"This {file.class_name} cannot be saved, since one of its numbers is beyond what a model file may hold: "
            "fit it to X and y in other units, or use pickle or skops for it."
        ) from error


def _complete(model: Any, parts: dict[str, Any]) -> None:
    """Make what was not stored, of parts that fit together."""
    if isinstance(model, LocalGPRegressor):
        offset, unit, weight = (parts.pop(name) for name in ("offset", "unit", "weight"))
        models, features = parts.pop("models"), parts["plan"].features
        if models and features is not None:
            models = [
                replace(stored, precision=features.precision) if isinstance(stored, FeatureSpace) else stored
                for stored in models
            ]
        part, weights, signs = (parts.pop(name, None) for name in ("global_part", "exact_weights", "solved_signs"))
        drift, landmarks = parts.pop("drift", None), parts.pop("landmarks", None)
        data, kernel = parts["data"], parts["plan"].kernel
        if part is not None:
            parts["data"] = replace(data, y=part.restored(data.X, data.y[:, :-1]))
        predictor = LocalPredictor.restore(**parts, models=models, n_jobs=model.n_jobs)
        whole = kernel if part is None else part.whole_kernel
        frame = replace(Frame.of(model.kernel_, model.noise_variance_, offset), unit=unit, kernel=whole)
        exact = None if weights is None else ExactMean.of(kernel, part, data.X, weights, model.n_jobs, signs)
        if exact is not None and landmarks is not None:
            exact = replace(exact, variances=landmarks.restored(kernel, data.X, data.noise, model.n_jobs))
        learned = getattr(model, "learned_", None) or Learned(model.kernel_, model.noise_variance_)
        weight = float(predictor.n_samples) if weight is None else weight
        y_mean = model.y_mean_ if drift is None else np.zeros(len(model.y_mean_) + drift.size)
        fitted = FittedLocal(
            learned, frame, y_mean, weight, model.spacing_, predictor, model.report_, part, exact, drift
        )
        model._store(fitted)
        for name, plain in (("noise_model_", NoiseModel()), ("_stated_noise", None), ("target_", Target())):
            if name not in vars(model):  # earlier files do not tell
                setattr(model, name, plain)
    elif isinstance(model, ExactGPRegressor):
        X, noise, coefficients = parts["X"], parts["noise"], parts["coefficients"]
        model._left_out, F = None, parts.get("drift_columns")
        if F is not None:
            memory.require(8.0 * len(X) ** 2 * 2.2, "The exact Gaussian process", "Load it on a machine with more.")
            factor = KernelSpace.factorise(model.kernel_, X, noise)
            assert isinstance(factor, Cholesky)
            squares = np.sum((np.tril(factor.lower).T @ coefficients) ** 2, axis=0)
            process, solved = KernelSpace(model.kernel_, X, noise, factor, coefficients, squares), factor.solve(F)
            gram, mean, prior = F.T @ solved, parts["drift_mean"], parts.get("drift_prior")
            cross = gram @ mean if prior is None else gram @ mean + prior[:, None] * mean
            if prior is not None:
                process = replace(process, quadratic=squares + prior @ mean**2)
            model._posterior = UniversalKriging(process, F, solved, Coefficients(gram, cross, prior))
            return
        model._posterior = KernelSpace(model.kernel_, X, noise, None, coefficients, parts["quadratic"])
    else:
        model._condition(model.statistics_)


def _check(model: Any, parts: dict[str, Any]) -> None:
    """Refuse a model whose parts do not fit together."""
    _check_shared(model)
    if isinstance(model, LocalGPRegressor):
        _check_local(model, parts)
    elif isinstance(model, ExactGPRegressor):
        _check_exact(model, parts)
    else:
        _check_features(model)


def _check_shared(model: Any) -> None:
    """What every model relies on."""
    d, k, kernel = model.n_features_in_, len(model.y_mean_), model.kernel_
    require(d >= 1 and k >= 1 and model.y_mean_.shape == (k,) and (k == 1 or not model._single_target))
    sphere, inner = model._sphere, model._n_inner
    require(sphere is None or (min(sphere.longitude, sphere.latitude) >= 0 and sphere.longitude != sphere.latitude))
    require(sphere is None or (max(sphere.longitude, sphere.latitude) < d and abs(sphere.meridian) <= 400))
    _check_rotation(model._rotation, inner, sphere is None)
    require(model._box is None or (model._box.shape == (2, inner) and np.all(model._box[0] <= model._box[1])))
    require(kernel.length_scales.shape[1] in (1, inner) and 0 <= model.noise_variance_ < np.inf)
    require(not hasattr(model, "learned_") or model.learned_.kernel.length_scales.shape[1] in (1, inner))
    require(len(getattr(model, "feature_names_in_", range(d))) == d)
    _check_roles(model)
    conform(model.n_jobs, int | None)
    require(model.n_jobs != 0 and abs(model.n_jobs or 1) <= _MOST_THREADS)
    require(isinstance(model.ard, bool) or model.ard == "auto")
    for name in ("blend", "correction", "open_centers"):
        conform(getattr(model, name, False), bool)


def _check_rotation(rotation: Floats | None, d: int, is_flat: bool) -> None:
    if rotation is not None:
        require(is_flat and rotation.shape == (d, d) and 2 <= d <= MOST_COLUMNS)
        require(np.allclose(rotation @ rotation.T, np.eye(d), rtol=0, atol=1e-9))


def _n_drift(model: Any) -> int:
    """Number of drift columns."""
    roles = model._roles
    return 0 if roles is None else roles.n_columns


def _check_roles(model: Any) -> None:
    roles, points, trend, p = model._roles, model._points, model._trend, _n_drift(model)
    require((points is None or roles is not None) and (trend is None) == (p == 0))
    require(points is not None or roles is None or isinstance(model, FeatureGPRegressor))
    require(trend is None or trend.shape == (p, len(model.y_mean_)))
    if roles is not None:
        require(roles.encoding.n_columns == model.n_features_in_)
    if points is not None:
        require(points.ndim == 2 and points.shape[1] == model.n_features_in_)
        lacking = np.flatnonzero(np.isnan(points).any(axis=0))
        require(not np.isinf(points).any() and set(lacking.tolist()) <= set(roles.encoding.may_lack))
        for j, levels in roles.encoding.levels.items():
            most = len(levels) + (int(j) in roles.encoding.groups)
            require(np.all((points[:, int(j)] >= 0) & (points[:, int(j)] < most)))
    if p and roles.design is not None:
        require(np.isfinite(roles.design.to_given).all())
    _check_foreign(model)
    if roles is not None:
        n_columns = sum(len(roles.encoding.levels[str(j)]) + 1 for j in roles.encoding.groups)
        require(n_columns == (0 if roles.groups is None else len(roles.groups.names)))


def _check_foreign(model: Any) -> None:
    """Try what scikit-learn's transformers and regressors make of a row."""
    roles, k, means = model._roles, len(model.y_mean_), model._mean_rows
    require((means is None) == (not hasattr(model, "mean_")) and (means is None or roles is not None))
    if roles is not None and (means is not None or isinstance(roles.design, TransformedDesign)):
        row = np.zeros((1, model.n_features_in_)) if model._points is None else model._points[:1]
        columns, known = model._drift_columns(row), model._known_mean(row)
        require((0 if columns is None else columns.shape[1]) == _n_drift(model))
        require(known is not None and known.shape == (1, k) and np.isfinite(known).all())
        require(means is None or (means.ndim == 2 and means.shape[1] == k))


def _check_coefficients(model: Any) -> None:
    """Refuse sums that tell no coefficients of a drift."""
    sums = model._drift_sums()
    require(sums is None or (np.isfinite(sums.mean).all() and np.isfinite(sums.root).all()))


def _check_prior(prior: Any, p: int) -> None:
    require(prior is None or (prior.shape == (p,) and np.all(prior >= 0)))


def _check_noise(model: Any, n: int) -> None:
    """What is said of the noise of `n` samples."""
    stated, field = model._stated_noise, model.noise_model_.field
    require(stated is None or (stated.shape == (n,) and are_positive(stated)))
    require(field is None or field.takes(model._n_inner))


def _check_exact(model: Any, parts: dict[str, Any]) -> None:
    X, noise = parts["X"], parts["noise"]
    require(X.ndim == 2 and len(X) and X.shape[1] == model._n_inner and noise.shape == (len(X),))
    require(parts["coefficients"].shape == (len(X), len(model.y_mean_)) and np.all(noise >= 0))
    require(parts["quadratic"].shape == (len(model.y_mean_),))
    require(not np.isnan(model.kernel_.length_scales).any())
    p, F, mean = _n_drift(model), parts.get("drift_columns"), parts.get("drift_mean")
    require((F is None) == (mean is None) == (p == 0))
    if F is not None and mean is not None:
        require(F.shape == (len(X), p) and mean.shape == (p, len(model.y_mean_)))
        _check_prior(parts.get("drift_prior"), p)
    require(model._points is None or len(model._points) == len(X))
    _check_noise(model, len(X))


def _check_features(model: Any) -> None:
    d, k, sums = model._n_inner, len(model.y_mean_), model.statistics_
    require(sums.gram.shape == (model._width, model._width) and sums.cross.shape == (model._width, k + 1))
    maps = model.feature_map_ if isinstance(model.feature_map_, list) else [model.feature_map_]
    _check_noise(model, 0)
    prior = model._drift_prior
    require((prior is None) == (model._roles is None or model._roles.groups is None))
    _check_prior(prior, _n_drift(model))
    require(model._offset.shape == (k,) and all(m.n_features_in_ == d for m in maps))
    require(model._rows(np.zeros((1, d + _n_drift(model)))).shape == (model._width, 1))


def _check_local(model: Any, parts: dict[str, Any]) -> None:
    """What a local model relies on besides; features are tried at one point, which shows whether their parts fit."""
    d, k = model._n_inner, len(model.y_mean_)
    plan, data, placement, drift = parts["plan"], parts["data"], parts["placement"], parts.get("drift")
    require((0 if drift is None else drift.size) == _n_drift(model) and (drift is None or drift.cross.shape[1] == k))
    require(drift is None or np.isfinite(drift.root).all())
    _check_prior(None if drift is None else drift.prior, 0 if drift is None else drift.size)
    require(model._points is None or len(model._points) == len(data.X))
    k += 0 if drift is None else drift.size  # drift columns are further targets
    require(data.X.shape[1] == d == placement.centers.shape[1] and data.y.shape[1] == k + 1)
    require(parts["offset"].shape == (k,) and parts["unit"].shape in ((1,), (d,)) and are_positive(parts["unit"]))
    require(plan.kernel.length_scales.shape[1] in (1, d) and not np.isnan(plan.kernel.length_scales).any())
    require((placement.reach is None and placement.sizes is None) or plan.count is not None)
    part, weights = parts.get("global_part"), parts.get("exact_weights")
    require(part is None or (part.cross.shape[1] == k + 1 and all(len(f.low) == d for f in part.features)))
    require(part is None or part.rows(np.zeros((1, d))).shape == (1, part.n_components))
    require(weights is None or weights.shape == (len(data.X), k + 1))
    signs = parts.get("solved_signs")
    require(signs is None or (weights is not None and signs.shape == (len(data.X), N_SIGNS)))
    landmarks = parts.get("landmarks")
    require(landmarks is None or (weights is not None and part is None and landmarks.count <= len(data.X)))
    require(landmarks is None or landmarks.places.shape == (len(landmarks.precision), d))
    require(landmarks is None or len(landmarks.counts) == plan.kernel.n_scales)
    coefficients = parts.get("coefficients")
    require(coefficients is None or (plan.is_exact and coefficients.shape == data.y.shape))
    require(model.spacing_ is None or placement.spacing is not None)
    _check_noise(model, len(data.X))
    n_further = 0 if part is None else part.n_further
    if plan.features is not None:
        D = plan.features.n_components
        require(plan.features.rows(np.zeros((1, d))).shape == (D, 1))
        for stored in parts["models"] or ():
            require(stored is None or stored.cross.shape == (D, n_further + k + 1))
            if isinstance(stored, MomentSums):
                moments = plan.features.moments
                require(moments is not None and stored.moments.shape == (moments.n_moments,))
    else:
        require(not any(parts["models"] or ()))


# ---- help ----------------------------------------------------------------------------------------------------------


def _encoded(model: Any, values: dict[str, Any], arrays: list[Any]) -> dict[str, Any]:
    result = {}
    for name, value in values.items():
        try:
            if name not in _OF_SKLEARN and isinstance(value, BaseEstimator):
                codec.require_own(value)
            result[name] = codec.encode(value, arrays)
        except codec.NotStorableError as error:
            raise ValueError(
                f"{error}, and {name!r} of this {type(model).__name__} has one: use pickle or skops for it."
            ) from None
    return result


def _checked(metadata: dict[str, Any] | None) -> dict[str, Any]:
    if metadata is None:
        return {}
    try:
        copy = json.loads(json.dumps(metadata, allow_nan=False)) if isinstance(metadata, dict) else None
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"The 'metadata' argument must be a dict that JSON can hold: {error}.") from None
    if copy != metadata:
        raise ValueError(
            "The 'metadata' argument must be a dict of strings, numbers, None, lists and dicts with string keys, "
            "which JSON gives back as they were."
        )
    return copy  # type: ignore[no-any-return]
