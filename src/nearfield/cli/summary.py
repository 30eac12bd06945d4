"""What a model file says, for people and for machines."""

from __future__ import annotations

from typing import Any


def summary(file: Any) -> dict[str, Any]:
    """What a model file says, for machines."""
    state = file.state()
    return {
        "class": file.class_name,
        "library": file.library_version,
        "format": file.format_version,
        "checksum": file.digest,
        "bytes": file.n_bytes,
        "hyperparameters": {name: state[f"{name}_"] for name in ("length_scale", "signal_variance", "noise_variance")},
        "features": feature_names(state),
        "targets": len(state["y_mean_"]),
        "report": state.get("report_"),
        "metadata": file.metadata,
    }


def feature_names(state: dict[str, Any]) -> list[str]:
    """Names of the features, or x0, x1, ... where the model knows none."""
    names = state.get("feature_names_in_")
    return [f"x{i}" for i in range(state["n_features_in_"])] if names is None else list(names)


def account(model: Any) -> str:
    """What a model, or the state of one, says of itself, in lines."""
    state = model if isinstance(model, dict) else vars(model)
    if "report_" in state:
        return str(state["report_"])
    from ..reporting.report import _number

    lines = [
        f"  {name.replace('_', ' ').ljust(15)} {_number(state[f'{name}_'])}"
        for name in ("length_scale", "signal_variance", "noise_variance")
    ]
    if "statistics_" in state:
        lines.append(f"  features        {state['_width']}, of {state['statistics_'].n} samples")
    return "\n".join(lines)
