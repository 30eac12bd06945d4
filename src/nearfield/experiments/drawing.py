"""What the pictures share."""

from __future__ import annotations

from typing import Any

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
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
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
