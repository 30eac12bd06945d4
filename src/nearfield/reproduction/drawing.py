"""What the pictures share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..reporting.plots import detached_figure
from .verdicts import Comparison

COLOURS = {
    "exact": "#1b1f24",
    "ours": "#d1242f",
    "maclaurin": "#0969da",
    "local": "#1a7f37",
    "fourier": "#9a6700",
}
SAMPLING_NAMES = {
    "gaussian": "Gaussian",
    "orthogonal": "orthogonal",
    "structured": "structured",
    "rademacher": "Rademacher",
    "tensor_srht": "TensorSRHT",
}


def require_matplotlib() -> None:
    """Refuse in one sentence where there is no matplotlib."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise ImportError("The pictures need matplotlib: pip install 'nearfield[plot]'") from None


def panels(n_rows: int, n_columns: int, width: float, height: float, **options: Any) -> tuple[Any, Any]:
    """A figure without the global state of pyplot, and its axes as an array of two dimensions."""
    figure = detached_figure(width, height)
    axes = figure.subplots(n_rows, n_columns, squeeze=False, **options)
    for axis in axes.flat:
        axis.spines[["top", "right"]].set_visible(False)
    return figure, axes


def method_name(method: str, sampling: str, spacing: float | None) -> str:
    """A method in words."""
    if method == "ours":
        return "ours"
    kind = SAMPLING_NAMES[sampling]
    if method == "fourier":
        return f"Fourier, {kind}"
    return f"Maclaurin, {kind}" + ("" if spacing is None else ", local")


def bars(found: Sequence[Comparison]) -> list[list[float]]:
    """Lengths of error bars of one standard deviation, below and above; on a logarithmic axis none may reach zero."""
    return [[min(f.std, 0.8 * f.mean) for f in found], [f.std for f in found]]


def legend_below(figure: Any, axes: Any) -> None:
    """One legend for all panels, in two rows below them."""
    handles: dict[str, Any] = {}
    for axis in axes.flat:
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    n_columns = -(-len(handles) // 2)
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=n_columns, frameon=False)
