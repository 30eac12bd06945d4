"""Figure 4, top: KL against the threshold theta of the clustering."""

from __future__ import annotations

from typing import Any

import numpy as np

from .cells import Laboratory
from .comparing import Compared, Described, Sweep, run_sweeps
from .drawing import COLOURS, SAMPLING_NAMES, bars, legend_below, panels
from .report import Row, Section
from .settings import DATA as ALL_DATA
from .settings import TITLES
from .sweeps import SKETCHES, Curve, cluster_curves

NAME, TITLE, DATA = "clusters", "Figure 4, top: KL against the number of centroids", ALL_DATA


def run(laboratory: Laboratory) -> tuple[Section, list[Row]]:
    """Compute, draw and describe."""
    return run_sweeps(laboratory, NAME, TITLE, cluster_curves, _describe)


def _describe(sweep: Sweep) -> Described:
    caption = (
        f"KL per test point against theta (centroids below), hyperparameters {sweep.protocol}: Rademacher (circles), "
        "TensorSRHT (squares), the paper's values (pale, where published), ours (dotted: its own centres)"
    )
    return _draw(sweep), caption, _shapes(sweep), []


def _shapes(sweep: Sweep) -> list[str]:
    """Whether KL falls with more centroids, or grows."""
    lines = []
    for data, curves in sweep.by_data.items():
        local = [c for c in curves if c.sampling == "rademacher" and c.spacing is not None]
        D = max((c.D for c in local), default=0)
        points = [(c.spacing, sweep.compared[c]["kl"].mean) for c in local if c.D == D]
        if len(points) > 1:
            (far, first), (near, last), (best, _) = points[0], points[-1], min(points, key=lambda pair: pair[1])
            lines.append(
                f"{TITLES[data]}, {sweep.protocol}, D = {D}, Rademacher: KL per point {first:.2g} at theta = {far:g} "
                f"l, {last:.2g} at {near:g} l, least at {best:g} l."
            )
    return lines


def _draw(sweep: Sweep) -> Any:
    figure, axes = panels(1, len(sweep.by_data), 15, 4.6)
    shades = (COLOURS["fourier"], COLOURS["maclaurin"], COLOURS["local"])
    colours = dict(zip(sweep.settings.cluster_sizes, shades, strict=False))
    for axis, (data, curves) in zip(axes[0], sweep.by_data.items(), strict=True):
        spacings = sweep.settings.spacings
        for D, colour in colours.items():
            _draw_size(axis, [c for c in curves if c.D == D], spacings, sweep.compared, colour)
        counts = {c.spacing: np.mean([r.n_centers for r in sweep.records(c)]) for c in curves}
        labels = [f"{_theta(s)}\n{counts[s]:.0f}" if s in counts else _theta(s) for s in spacings]
        axis.set_xticks(range(len(spacings)), labels)
        axis.set(yscale="log", title=TITLES[data], xlabel="theta, centroids")
    axes[0, 0].set_ylabel("KL per test point")
    legend_below(figure, axes)
    return figure


def _draw_size(axis: Any, curves: list[Curve], spacings: tuple[float, ...], compared: Compared, colour: str) -> None:
    for sampling, marker in zip(SKETCHES, "os", strict=True):
        line = [c for c in curves if c.sampling == sampling and c.spacing is not None]
        if not line:
            continue
        places = [spacings.index(c.spacing) for c in line if c.spacing is not None]
        measured = [compared[c]["kl"] for c in line]
        label = f"{SAMPLING_NAMES[sampling]}, D = {line[0].D}"
        means, spread = [f.mean for f in measured], bars(measured)
        axis.errorbar(places, means, spread, fmt=f"-{marker}", ms=4, lw=1, color=colour, label=label)
        theirs = [np.nan if f.published is None else f.published for f in measured]
        axis.plot(places, theirs, color=colour, alpha=0.25, lw=5, zorder=0)
    for own in (compared[c]["kl"].mean for c in curves if c.method == "ours"):
        if own > 1e-12:
            axis.axhline(own, color=colour, ls=":", lw=1.5)


def _theta(spacing: float) -> str:
    return f"{spacing:g} l" if spacing >= 1 else f"l/{1 / spacing:g}"
