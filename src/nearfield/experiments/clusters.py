"""Figure 4, top: KL against the threshold theta of the clustering."""

from __future__ import annotations

from typing import Any

import numpy as np

from .cells import Laboratory, Results
from .comparing import Compared, agreement_findings, compare_all, rows_of, table_of
from .drawing import COLOURS, SAMPLING_NAMES, panels
from .report import Row, Section, save_picture
from .settings import DATA as ALL_DATA
from .settings import TITLES, Settings
from .sweeps import SKETCHES, Curve, cells_of, cluster_curves

NAME, TITLE, DATA = "clusters", "Figure 4, top: KL against the number of centroids", ALL_DATA


def run(laboratory: Laboratory) -> tuple[Section, list[Row]]:
    """Compute, draw and describe."""
    settings = laboratory.settings
    rows: list[Row] = []
    pictures, findings, tables = [], [], []
    for protocol in settings.protocols:
        by_data = {data: list(cluster_curves(settings, data, protocol)) for data in DATA}
        results: Results = {}
        for data, curves in by_data.items():
            results |= laboratory.run(cells_of(curves, settings), f"{NAME}, {TITLES[data]}, {protocol}")
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
        D = max(curve.D for curve in curves)
        found = [(c.spacing, compared[c]["kl"].mean) for c in curves if c.D == D and c.sampling == "rademacher"]
        known = [(s, v) for s, v in found if s is not None]
        best = min(known, key=lambda pair: pair[1])
        lines.append(
            f"{TITLES[data]}, {protocol}, D = {D}, Rademacher: KL per point {known[0][1]:.2g} at theta = "
            f"{known[0][0]:g} l, {known[-1][1]:.2g} at {known[-1][0]:g} l, least at {best[0]:g} l."
        )
    return lines


def _draw(by_data: dict[str, list[Curve]], results: Results, compared: Compared, settings: Settings) -> Any:
    figure, axes = panels(1, len(by_data), 15, 4.6)
    colours = dict(
        zip(settings.cluster_sizes, (COLOURS["fourier"], COLOURS["maclaurin"], COLOURS["local"]), strict=False)
    )
    for axis, (data, curves) in zip(axes[0], by_data.items(), strict=True):
        spacings = settings.spacings(data)
        places = np.arange(len(spacings))
        for D, colour in colours.items():
            for sampling, marker in zip(SKETCHES, "os", strict=True):
                line = [c for c in curves if c.D == D and c.sampling == sampling]
                found = [compared[c]["kl"] for c in line]
                label = f"{SAMPLING_NAMES[sampling]}, D = {D}"
                means, spread = (
                    [f.mean for f in found],
                    [[min(f.std, 0.8 * f.mean) for f in found], [f.std for f in found]],
                )
                axis.errorbar(places, means, spread, fmt=f"-{marker}", ms=4, lw=1, color=colour, label=label)
                known = [np.nan if f.published is None else f.published for f in found]
                axis.plot(places, known, color=colour, alpha=0.25, lw=5, zorder=0)
            own = next(compared[c]["kl"].mean for c in curves if c.method == "ours" and c.D == D)
            if own > 1e-12:
                axis.axhline(own, color=colour, ls=":", lw=1.5)
        first = [c for c in curves if settings.cluster_sizes[0] == c.D and c.sampling == SKETCHES[0]]
        counts = [np.mean([r.n_centers for r in c.records(results, settings)]) for c in first]
        axis.set_xticks(places, [f"{_theta(s)}\n{count:.0f}" for s, count in zip(spacings, counts, strict=True)])
        axis.set(yscale="log", title=TITLES[data], xlabel="theta, centroids")
    axes[0, 0].set_ylabel("KL per test point")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False)
    return figure


def _theta(spacing: float) -> str:
    return f"{spacing:g} l" if spacing >= 1 else f"l/{1 / spacing:g}"
