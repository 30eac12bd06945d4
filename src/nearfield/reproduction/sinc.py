"""Figure 2: sinc(5 x) from 50 noisy points, ten features, four ways."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import metrics
from ..common.types import Floats
from ..estimators import ExactGPRegressor, FeatureGPRegressor, LocalGPRegressor
from ..features import FourierFeatures, TaylorFeatures
from .cells import Laboratory
from .drawing import COLOURS, panels
from .report import Row, Section, Table, number, save_picture

NAME, TITLE, DATA = "sinc", "Figure 2: the sinc function", ()
N, NOISE, D = 50, 0.01, 10
PUBLISHED_LENGTH, PUBLISHED_MEDIAN = 0.11, 0.92
N_SEEDS = 10


@dataclass(frozen=True, eq=False)
class Run:
    """One draw of the data, and each method's latent mean and standard deviation on a grid."""

    X: Floats
    y: Floats
    grid: Floats
    length_scale: float
    signal_variance: float
    curves: dict[str, tuple[Floats, Floats]]
    divergences: dict[str, float]


def methods(fixed: dict[str, Any], seed: int) -> dict[str, Any]:
    """Ten features each: Fourier, Taylor around zero, Taylor around every test point, and ours."""
    return {
        "Fourier": FeatureGPRegressor(FourierFeatures(D, random_state=seed), n_jobs=1, random_state=seed, **fixed),
        "Maclaurin around zero": FeatureGPRegressor(
            TaylorFeatures(D - 1, center=None), n_jobs=1, random_state=seed, **fixed
        ),
        "Maclaurin around the test points": LocalGPRegressor.from_paper(
            D, centers="test", n_jobs=1, random_state=seed, **fixed
        ),
        "ours": LocalGPRegressor(
            n_scales=1, features=TaylorFeatures(D - 1), spacing=1.0, radius=3.0, n_jobs=1, random_state=seed, **fixed
        ),
    }


def experiment(seed: int) -> Run:
    """Draw the data, learn length scale and variance at the known noise, and predict."""
    rng = np.random.RandomState(seed)
    X = rng.uniform(-1.5, 1.5, (N, 1))
    y = np.sinc(5 * X[:, 0]) + NOISE**0.5 * rng.standard_normal(N)
    exact = ExactGPRegressor(noise_variance=NOISE, random_state=seed, n_jobs=1).fit(X, y)
    fixed = {"length_scale": exact.length_scale_, "signal_variance": exact.signal_variance_, "noise_variance": NOISE}
    grid = np.linspace(-2.5, 2.5, 401)[:, None]
    curves: dict[str, tuple[Floats, Floats]] = {"exact": exact.predict(grid, return_std=True)}
    mean, std = curves["exact"]
    divergences = {}
    for name, model in methods(fixed, seed).items():
        curves[name] = model.fit(X, y).predict(grid, return_std=True)
        ours, spread = curves[name]
        kl = metrics.kl_divergence(ours, spread**2 + NOISE, mean, std**2 + NOISE)
        divergences[name] = float(np.mean(kl))
    return Run(X, y, grid[:, 0], float(exact.length_scale_), float(exact.signal_variance_), curves, divergences)


def run(laboratory: Laboratory) -> tuple[Section, list[Row]]:
    """Compute, draw and describe."""
    n_seeds = laboratory.settings.seeds or (3 if laboratory.settings.quick else N_SEEDS)
    runs = []
    for seed in range(n_seeds):
        laboratory.show(NAME, seed / n_seeds)
        runs.append(experiment(seed))
    laboratory.show(NAME, 1.0)
    first = runs[0]
    picture = save_picture(_draw(first), laboratory.settings.out, NAME)
    rows: list[Row] = [
        {"x": float(x), "method": name, "mean": float(m), "std": float(s)}
        for name, (mean, std) in first.curves.items()
        for x, m, s in zip(first.grid, mean, std, strict=True)
    ]
    far = np.abs(first.grid) > 1.0
    inside = far & (np.abs(first.grid) <= 1.5)
    prior = first.signal_variance**0.5
    table = []
    for name, (_, std) in first.curves.items():
        divergence = [r.divergences[name] for r in runs] if name != "exact" else [0.0]
        values = np.mean(divergence), np.std(divergence), np.mean(std[inside]), std[-1] / prior
        table.append([name, *(number(float(value)) for value in values)])
    lengths = [r.length_scale for r in runs]
    medians = [float(np.median(np.abs(r.X - r.X.T)[np.triu_indices(N, 1)])) for r in runs]
    checks = [
        ["length scale learnt, median of the draws", number(PUBLISHED_LENGTH), number(float(np.median(lengths)))],
        ["its range over the draws", "", f"{min(lengths):.3g} to {max(lengths):.3g}"],
        ["median distance of the training points", number(PUBLISHED_MEDIAN), number(float(np.median(medians)))],
    ]
    zero, around = first.curves["Maclaurin around zero"], first.curves["Maclaurin around the test points"]
    collapsed = float(np.max(np.abs(zero[0][far] - np.mean(first.y)))), float(np.max(zero[1][far]))
    findings = [
        f"The series around zero collapses: beyond |x| = 1 its mean is within {collapsed[0]:.1g} of a constant and its "
        f"standard deviation below {collapsed[1]:.1g}.",
        f"Around the test points it does not: at x = 2.5, far from the data, its standard deviation is "
        f"{around[1][-1] / prior:.3f} of the prior's, as the exact process's is.",
        f"KL per grid point, mean of {n_seeds} draws: "
        + ", ".join(f"{name} {np.mean([r.divergences[name] for r in runs]):.2g}" for name in first.divergences)
        + ".",
    ]
    header = [
        "method",
        "KL per grid point",
        "spread over draws",
        "latent std, 1 < |x| < 1.5",
        "std at x = 2.5 / prior's",
    ]
    tables = [
        Table("Distance from the exact process", header, table),
        Table("Hyperparameters", ["what", "published", "ours"], checks),
    ]
    caption = f"sinc(5x): exact process (grey) and four approximations with D = {D}; bands are two standard deviations"
    return Section(NAME, TITLE, [(picture, caption)], findings, tables), rows


def _draw(result: Run) -> Any:
    figure, axes = panels(1, len(result.divergences), 14, 3.6, sharey=True)
    reference, spread = result.curves["exact"]
    colours = [COLOURS["fourier"], COLOURS["maclaurin"], COLOURS["local"], COLOURS["ours"]]
    for axis, (name, kl), colour in zip(axes[0], result.divergences.items(), colours, strict=True):
        mean, std = result.curves[name]
        x = result.grid
        axis.fill_between(x, reference - 2 * spread, reference + 2 * spread, color="0.75", alpha=0.6, lw=0)
        axis.plot(x, reference, color=COLOURS["exact"], lw=1, label="exact")
        axis.fill_between(x, mean - 2 * std, mean + 2 * std, color=colour, alpha=0.3, lw=0)
        axis.plot(x, mean, "--", color=colour, label=name)
        axis.plot(result.X[:, 0], result.y, ".", color="k", ms=3)
        axis.set(title=f"{name}\nKL per point {kl:.2g}", xlabel="x")
    axes[0, 0].set_ylabel("y")
    return figure
