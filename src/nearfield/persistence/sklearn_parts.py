"""Transformers and regressors of scikit-learn in model files, by skops, which makes nothing but what it is told to.

What skops trusts by itself is scikit-learn's own classes, and a few more are told below. Those with compiled state, as
trees are, are refused, though some versions of skops trust them: numbers that someone altered would make compiled code
read where it must not.
"""

from __future__ import annotations

import io
import json
import zipfile
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from ..common import memory
from .checks import require

Bytes = NDArray[np.uint8]

TRUSTED = (  # what splines are made of
    "scipy._lib.array_api_compat.numpy._aliases.asarray",
    "scipy.interpolate._bsplines.BSpline",
    "sklearn.compose._column_transformer._RemainderColsList",  # a list, in scikit-learn 1.6
)
WITH_COMPILED_STATE = ("sklearn.tree", "sklearn.ensemble", "sklearn.neighbors", "sklearn.svm")


class NoSkopsError(ImportError):
    """The library that reads and writes such parts is not there."""


def packed(estimator: BaseEstimator) -> Bytes | str:
    """Bytes of an estimator, or in words why there are none."""
    try:
        skops = _skops()
    except NoSkopsError:
        return "without skops, which is not installed (pip install skops)"
    data = skops.dumps(estimator)
    strange = _refused(data) + [name for name in skops.get_untrusted_types(data=data) if name not in TRUSTED]
    return f"since it has a {strange[0]}" if strange else np.frombuffer(data, dtype=np.uint8)


def unpacked(data: Bytes) -> BaseEstimator:
    """The estimator of some bytes; ValueError where they are none, or one that is not trusted."""
    skops = _skops()
    content = data.tobytes()
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            memory.require(float(sum(entry.file_size for entry in archive.infolist())), "A part of a model file", "")
        require(not _refused(content))
        estimator = skops.loads(content, trusted=[t for t in skops.get_untrusted_types(data=content) if t in TRUSTED])
    except MemoryError:
        raise
    except Exception as error:
        raise ValueError("No estimator that could be trusted is in these bytes.") from error
    require(isinstance(estimator, BaseEstimator))
    return estimator


def _refused(content: bytes) -> list[str]:
    """Names of classes with compiled state in what skops wrote."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        waiting, names = [json.loads(archive.read("schema.json"))], set()
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict) and str(node.get("__module__")).startswith(WITH_COMPILED_STATE):
            names.add(f"{node['__module__']}.{node.get('__class__')}")
        waiting += node.values() if isinstance(node, dict) else node if isinstance(node, list) else []
    return sorted(names, reverse=True)


def _skops() -> Any:
    try:
        return import_module("skops.io")
    except (
        ImportError,
        RuntimeError,
    ) as error:  # old versions of scikit-learn raise the latter without SCIPY_ARRAY_API
        raise NoSkopsError(
            "This model file holds a transformer or a regressor of scikit-learn, which skops reads: pip install skops."
        ) from error
