"""Figure 4, bottom: RMSE, and KL, against the number of features."""

from __future__ import annotations

from typing import Any

import numpy as np

from .cells import Laboratory
from .comparing import Described, Sweep, factors, hyperparameter_table, run_sweeps
from .drawing import COLOURS, bars, legend_below, method_name, panels
from .report import Row, Section
from .settings import DATA as ALL_DATA
from .settings import TITLES
from .sweeps import feature_curves

NAME, TITLE, DATA = "features", "Figure 4, bottom: RMSE and KL against the number of features", ALL_DATA
_STYLES = {
    ("fourier", "gaussian"): "-o",
    ("fourier", "structured"): "--s",
    ("fourier", "orthogonal"): ":^",
    ("maclaurin", "rademacher"): "-o",
    ("maclaurin", "tensor_srht"): "--s",
    ("ours", ""): "-D",
}


def run(laboratory: Laboratory) -> tuple[Section, list[Row]]:
    """Compute, draw and describe."""

    def describe(sweep: Sweep) -> Described:
        exact = {data: _exact_rmse(laboratory, data, sweep.protocol) for data in DATA}
        caption = (
            f"RMSE (top) and KL per test point (bottom) against D, hyperparameters {sweep.protocol}; the black line is "
            "the exact process, error bars are one standard deviation over seeds, pale lines the published values"
        )
        best = factors(sweep.compared, sweep.settings) if sweep.protocol == "published" else None
        tables = [*([] if best is None else [best]), hyperparameter_table(laboratory, sweep.protocol, DATA)]
        return _draw(sweep, exact), caption, _winners(sweep), tables

    return run_sweeps(laboratory, NAME, TITLE, feature_curves, describe)


def _exact_rmse(laboratory: Laboratory, data: str, protocol: str) -> float:
    problems = laboratory.known_problems(data, protocol)
    values = [np.sqrt(np.mean((p.mean - p.y_test) ** 2)) for p in problems]
    return float(np.mean(values)) if values else float("nan")


def _winners(sweep: Sweep) -> list[str]:
    lines, compared = [], sweep.compared
    for data, curves in sweep.by_data.items():
        wins = []
        for D in sorted({c.D for c in curves}):
            others = [c for c in curves if c.D == D and c.method != "ours"]
            own = [compared[c]["kl"].mean for c in curves if c.D == D and c.method == "ours"]
            if not others or not own:
                continue
            best, ours = min(others, key=lambda c: compared[c]["kl"].mean), own[0]
            ratio = "exact" if ours < 1e-12 else f"{compared[best]['kl'].mean / ours:.2g}"
            wins.append(f"D = {D}: {ratio}")
        lines.append(
            f"{TITLES[data]}, {sweep.protocol}: KL of the best other method here, over ours: " + ", ".join(wins) + "."
        )
    return lines


def _draw(sweep: Sweep, exact: dict[str, float]) -> Any:
    figure, axes = panels(2, len(sweep.by_data), 15, 8.4)
    for column, (data, curves) in enumerate(sweep.by_data.items()):
        kinds = dict.fromkeys((c.method, c.sampling, c.spacing) for c in curves)
        for method, sampling, spacing in kinds:
            line = [c for c in curves if (c.method, c.sampling, c.spacing) == (method, sampling, spacing)]
            colour = COLOURS["local" if spacing is not None else method]
            for axis, measure in zip(axes[:, column], ("rmse", "kl"), strict=True):
                measured = [sweep.compared[c][measure] for c in line]
                # What rounding leaves of zero has no place on a logarithmic axis.
                means = [np.nan if measure == "kl" and f.mean < 1e-12 else f.mean for f in measured]
                sizes, label = [c.D for c in line], method_name(method, sampling, spacing)
                style = _STYLES[method, sampling]
                axis.errorbar(sizes, means, bars(measured), fmt=style, ms=4, lw=1.2, color=colour, label=label)
                theirs = [np.nan if f.published is None else f.published for f in measured]
                axis.plot(sizes, theirs, color=colour, alpha=0.2, lw=5, zorder=0)
        axes[0, column].axhline(exact[data], color="k", lw=0.8)
        sizes = sorted({c.D for c in curves})
        for axis in axes[:, column]:
            axis.set_xscale("log", base=2)
            axis.set_xticks(sizes, [str(D) for D in sizes])
            axis.set_xlabel("D")
        axes[0, column].set_title(TITLES[data])
        axes[0, column].set_yscale("log" if data == "yacht" else "linear")
        axes[1, column].set_yscale("log")
    axes[0, 0].set_ylabel("RMSE")
    axes[1, 0].set_ylabel("KL per test point")
    legend_below(figure, axes)
    return figure
