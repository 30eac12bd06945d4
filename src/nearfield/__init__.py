"""Gaussian-process regression from local features: near the exact GP, at scale, and it tells you how near."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import datasets, io, metrics, mixtures, plotting, sources, webpage
    from .estimators import ExactGPRegressor, FeatureGPRegressor, LocalGPRegressor
    from .features import FourierFeatures, MaclaurinFeatures, PolynomialSketch, TaylorFeatures
    from .io import load, load_with_metadata, save

__version__ = "0.1.0.dev0"

__all__ = [
    "ExactGPRegressor",
    "FeatureGPRegressor",
    "FourierFeatures",
    "LocalGPRegressor",
    "MaclaurinFeatures",
    "PolynomialSketch",
    "TaylorFeatures",
    "datasets",
    "io",
    "load",
    "load_with_metadata",
    "metrics",
    "mixtures",
    "plotting",
    "save",
    "sources",
    "webpage",
]

_MODULES = ("datasets", "io", "metrics", "mixtures", "plotting", "sources", "webpage")
_HOMES = {"load": "io", "load_with_metadata": "io", "save": "io"}


def __getattr__(name: str) -> Any:
    """Import what is asked for when it is: `nearfield --help` needs none of it."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name in _MODULES:
        return import_module(f".{name}", __name__)
    home = _HOMES.get(name, "estimators" if name.endswith("Regressor") else "features")
    value = getattr(import_module(f".{home}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
