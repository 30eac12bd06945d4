"""What a model file says, for people and for machines."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any


def summary(file: Any) -> dict[str, Any]:
    """What a model file says, for machines."""
    from ..reporting.summary import HYPERPARAMETERS

    state = file.state()
    return {
        "class": file.class_name,
        "library": file.library_version,
        "format": file.format_version,
        "checksum": file.digest,
        "bytes": file.n_bytes,
        "hyperparameters": {name: state[f"{name}_"] for name in HYPERPARAMETERS},
        "features": feature_names(state),
        "targets": len(state["y_mean_"]),
        "report": state.get("report_"),
        "metadata": file.metadata,
    }


def feature_names(state: dict[str, Any]) -> list[str]:
    """Names of the features, or x0, x1, ... where the model knows none."""
    from ..reporting.inputs import column_names

    return column_names(SimpleNamespace(**state))


def account(model: Any) -> str:
    """What a model, or the state of one, says of itself, in lines."""
    from ..reporting.summary import summarise

    return str(summarise(SimpleNamespace(**model) if isinstance(model, dict) else model))
