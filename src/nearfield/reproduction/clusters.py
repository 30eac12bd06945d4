"""Figure 4, top: KL against the threshold theta of the clustering."""

from __future__ import annotations

from typing import Any

import numpy as np

from .cells import Laboratory, Results
from .comparing import Compared, agreement_findings, compare_all, compute, rows_of, table_of
from .drawing import COLOURS, SAMPLING_NAMES, bars, legend_below, panels
from .report import Row, Section, save_picture
from .settings import DATA as ALL_DATA
from .settings import TITLES, Settings
from .sweeps import SKETCHES, Curve, cluster_curves

NAME, TITLE, DATA = "clusters", "Figure 4, top: KL against the number of centroids", ALL_DATA


def run(laboratory: Laboratory) -> tuple[Section, list[Row]]:
    """Compute, draw and describe."""
    settings = laboratory.settings
    rows: list[Row] = []
    pictures, findings, tables = [], [], []
    for protocol in settings.protocols:
        by_data, results = compute(laboratory, cluster_curves, NAME, protocol)
        every = [curve for curves in by_data.values() for curve in curves]
        compared = compare_all(every, results, settings)
        rows += rows_of(every, results, compared, settings)
        figure = _draw(by_data, results, compared, settings)
        caption = (
            f"KL per test point against theta (centroids below), hyperparameters {protocol}: Rademacher (circles), "
            "TensorSRHT (squares), the paper's values (pale, where published), ours (dotted: its own centres)"
        )
        pictures.append((save_picture(figure, settings.out, f"{NAME}-{protocol}"), caption))
        findings += [*agreement_findings(compared, DATA), *_shapes(by_data, compared, protocol)]
        tables += [
            table_of(f"{TITLES[data]}, {protocol}", curves, compared, results, settings)
            for data, curves in by_data.items()
        ]
    return Section(NAME, TITLE, pictures, findings, tables), rows


def _shapes(by_data: dict[str, list[Curve]], compared: Compared, protocol: str) -> list[str]:
    """Whether KL falls with more centroids, or grows."""
    lines = []
    for data, curves in by_data.items():
        known = [c for c in curves if c.sampling == "rademacher" and c.spacing is not None]
        D = max((c.D for c in known), default=0)
        found = [(c.spacing, compared[c]["kl"].mean) for c in known if c.D == D]
        if len(found) > 1:
            (far, first), (near, last), (best, _) = found[0], found[-1], min(found, key=lambda pair: pair[1])
            lines.append(
                f"{TITLES[data]}, {protocol}, D = {D}, Rademacher: KL per point {first:.2g} at theta = {far:g} l, "
                f"{last:.2g} at {near:g} l, least at {best:g} l."
            )
    return lines


def _draw(by_data: dict[str, list[Curve]], results: Results, compared: Compared, settings: Settings) -> Any:
    figure, axes = panels(1, len(by_data), 15, 4.6)
    shades = (COLOURS["fourier"], COLOURS["maclaurin"], COLOURS["local"])
    colours = dict(zip(settings.cluster_sizes, shades, strict=False))
    for axis, (data, curves) in zip(axes[0], by_data.items(), strict=True):
        spacings = settings.spacings(data)
        for D, colour in colours.items():
            _draw_size(axis, [c for c in curves if c.D == D], spacings, compared, colour)
        counts = {c.spacing: np.mean([r.n_centers for r in c.records(results, settings)]) for c in curves}
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
        found = [compared[c]["kl"] for c in line]
        label = f"{SAMPLING_NAMES[sampling]}, D = {line[0].D}"
        means, spread = [f.mean for f in found], bars(found)
        axis.errorbar(places, means, spread, fmt=f"-{marker}", ms=4, lw=1, color=colour, label=label)
        known = [np.nan if f.published is None else f.published for f in found]
        axis.plot(places, known, color=colour, alpha=0.25, lw=5, zorder=0)
    for own in (compared[c]["kl"].mean for c in curves if c.method == "ours"):
        if own > 1e-12:
            axis.axhline(own, color=colour, ls=":", lw=1.5)


def _theta(spacing: float) -> str:
    return f"{spacing:g} l" if spacing >= 1 else f"l/{1 / spacing:g}"
