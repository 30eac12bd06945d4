"""What the clusters and the features figures share: sweeps over curves, tables, and the agreement with the paper."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy.stats import spearmanr

from . import published
from .cells import Laboratory, Record, Results
from .drawing import method_name
from .report import Row, Section, Table, number, save_picture
from .settings import DATA, TITLES, Settings
from .sweeps import Curve, cells_of, compare_curve
from .verdicts import AGREES, DIFFERS, Comparison

Compared = dict[Curve, dict[str, Comparison]]


@dataclass(frozen=True, eq=False)
class Sweep:
    """The curves of a figure under one protocol, by data set, those with any result; and how they compare."""

    protocol: str
    settings: Settings
    by_data: dict[str, list[Curve]]
    results: Results
    compared: Compared

    def records(self, curve: Curve) -> list[Record]:
        """Results of a curve, one per seed."""
        return curve.records(self.results, self.settings)


Described = tuple[Any, str, list[str], list[Table]]
"""A figure, its caption, what it shows in words, and tables."""


def run_sweeps(
    laboratory: Laboratory,
    name: str,
    title: str,
    curves_of: Callable[..., Iterable[Curve]],
    describe: Callable[[Sweep], Described],
) -> tuple[Section, list[Row]]:
    """Compute the curves under each protocol, hold them against the paper, draw and describe."""
    rows: list[Row] = []
    pictures, findings, tables = [], [], []
    for protocol in laboratory.settings.protocols:
        sweep = compute(laboratory, curves_of, name, protocol)
        rows += rows_of(sweep)
        figure, caption, shown, further = describe(sweep)
        pictures.append((save_picture(figure, laboratory.settings.out, f"{name}-{protocol}"), caption))
        findings += [*agreement_findings(sweep.compared, DATA), *shown]
        tables += [*further, *(table_of(sweep, data) for data in sweep.by_data)]
    return Section(name, title, pictures, findings, tables), rows


def compute(laboratory: Laboratory, curves_of: Callable[..., Iterable[Curve]], name: str, protocol: str) -> Sweep:
    """Run all cells of the curves; without `compute` in the settings, those of earlier runs count."""
    settings = laboratory.settings
    by_data: dict[str, list[Curve]] = {}
    results: Results = {}
    for data in DATA:
        curves = list(curves_of(settings, data, protocol))
        results |= laboratory.run(cells_of(curves, settings), f"{name}, {TITLES[data]}, {protocol}")
        computed = [curve for curve in curves if curve.records(results, settings)]
        if computed:
            by_data[data] = computed
    if not by_data:
        raise ValueError(
            f"Nothing of {name} has been computed yet under the {protocol} protocol: run it without --so-far."
        )
    compared = {
        curve: compare_curve(curve, curve.records(results, settings), settings)
        for curves in by_data.values()
        for curve in curves
    }
    return Sweep(protocol, settings, by_data, results, compared)


def rows_of(sweep: Sweep) -> list[Row]:
    """Every number: one row per cell and seed, with the published mean beside it."""
    rows: list[Row] = []
    for curve, both in sweep.compared.items():
        published_values = {
            "published_kl_per_point": both["kl"].published,
            "published_rmse": both["rmse"].published,
            "kl_standard_errors": both["kl"].z,
            "rmse_standard_errors": both["rmse"].z,
        }
        for seed, record in enumerate(sweep.records(curve)):
            row = {**asdict(curve), "seed": seed, **asdict(record), "kl_per_point": record.kl_mean, **published_values}
            rows.append({name: "" if value is None else value for name, value in row.items()})
    return rows


def table_of(sweep: Sweep, data: str) -> Table:
    """One row per curve: centroids, KL and RMSE with the published values, differences and verdicts."""
    header = ["method", "D", "theta / l", "seeds", "centroids", "KL per point", "published", "s.e.", "verdict"]
    header += ["RMSE", "published", "s.e.", "verdict"]
    rows = []
    for curve in sweep.by_data[data]:
        records = sweep.records(curve)
        row = [
            method_name(curve.method, curve.sampling, curve.spacing),
            str(curve.D),
            "" if curve.spacing is None else f"{curve.spacing:g}",
            str(len(records)),
            f"{np.mean([r.n_centers for r in records]):.4g}",
        ]
        for measure in ("kl", "rmse"):
            found = sweep.compared[curve][measure]
            z = "" if found.z is None else f"{found.z:+.1f}"
            row += [f"{number(found.mean)} ± {number(found.std, 2)}", number(found.published), z, found.verdict]
        rows.append(row)
    return Table(f"{TITLES[data]}, {sweep.protocol}", header, rows)


def agreement(compared: Compared, data: str) -> tuple[int, int, list[str]]:
    """How many measured values of a data set agree with the published ones, of how many, and which do not."""
    agreeing = total = 0
    outside = []
    for curve, both in compared.items():
        for measure, found in both.items():
            if curve.data != data or found.verdict not in (AGREES, DIFFERS):
                continue
            total += 1
            agreeing += found.verdict == AGREES
            if found.verdict == DIFFERS:
                label = method_name(curve.method, curve.sampling, curve.spacing)
                theta = "" if curve.spacing is None else f", theta = {curve.spacing:g} l"
                outside.append(
                    f"{label}, D = {curve.D}{theta}: {measure.upper()} {found.mean:.3g} against {found.published:.3g} "
                    f"({found.z:+.1f} s.e.)"
                )
    return agreeing, total, outside


def agreement_findings(compared: Compared, data: Sequence[str]) -> list[str]:
    """Sentences: the share of values within three standard errors, and those outside."""
    lines = []
    for name in data:
        agreeing, total, outside = agreement(compared, name)
        if total:
            share = f"{agreeing} of {total} values ({agreeing / total:.0%})"
            line = f"{TITLES[name]}, as published: {share} within 3 standard errors."
            lines.append(line + (" Outside: " + "; ".join(outside) + "." if outside else ""))
    order = order_of_flats(compared)
    if order is not None:
        rank, size, median = order
        lines.append(
            f"UK flats (another month, fewer rows): rank correlation of our KL per point with the published over "
            f"{size} cells is {rank:.2f}; ours is {median:.2g} times the published one in the median."
        )
    return lines


def order_of_flats(compared: Compared) -> tuple[float, int, float] | None:
    """Rank correlation with the paper over the cells of UK flats, their number, and the median ratio of KL."""
    pairs = [
        (both["kl"].mean, both["kl"].published)
        for curve, both in compared.items()
        if curve.data == "uk_flats" and both["kl"].published is not None
    ]
    if len(pairs) < 3:
        return None
    ours, theirs = np.array(pairs, dtype=float).T
    return float(spearmanr(ours, theirs).statistic), len(pairs), float(np.median(ours / theirs))


def factors(compared: Compared, settings: Settings) -> Table | None:
    """By what factor our own method beats the best published figure of each data set and D."""
    header = ["data", "D", "best published KL per point", "whose", "ours", "factor"]
    header += ["best published RMSE", "ours", "factor"]
    rows: list[list[str]] = []
    for curve, both in compared.items():
        if curve.method != "ours" or curve.protocol != "published" or not settings.is_full(curve.data):
            continue
        kl, whose = published.best(curve.data, curve.D, "kl_sum")
        rmse, _ = published.best(curve.data, curve.D, "rmse")
        ours = both["kl"].mean
        ratio = "exact" if ours < 1e-12 else number(kl / ours)
        row: list[Any] = [TITLES[curve.data], str(curve.D), number(kl), whose, number(ours), ratio]
        rows.append([*row, number(rmse), number(both["rmse"].mean), number(rmse / both["rmse"].mean)])
    title = "Ours against the best published figure, at the published hyperparameters"
    return Table(title, header, rows) if rows else None


def hyperparameter_table(laboratory: Laboratory, protocol: str, data: Sequence[str]) -> Table:
    """What the hyperparameters are, and the exact process's RMSE."""
    rows = []
    for name in data:
        for problem in laboratory.known_problems(name, protocol):
            fixed = problem.hyperparameters
            rmse = float(np.sqrt(np.mean((problem.mean - problem.y_test) ** 2)))
            values = [fixed.length_scale, fixed.signal_variance, fixed.noise_variance, rmse]
            rows.append([TITLES[name], str(problem.seed), *(number(v, 4) for v in values)])
    header = ["data", "seed", "length scale", "signal variance", "noise variance", "RMSE of the exact process"]
    return Table(f"Hyperparameters, {protocol}", header, rows)
