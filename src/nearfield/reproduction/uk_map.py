"""Figure 3: the price of flats over England and Wales, by the exact process and four approximations with D = 100."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .. import metrics
from ..common.threads import n_threads, worker_threads
from ..common.types import Floats
from ..estimators import ExactGPRegressor, FeatureGPRegressor, LocalGPRegressor
from ..features import FourierFeatures
from .cells import Laboratory
from .drawing import panels
from .methods import our_parameters
from .problems import Hyperparameters, Problem
from .report import Row, Section, Table, number, save_picture
from .shifting import AroundTestPoints

NAME, TITLE, DATA = "uk-map", "Figure 3: a map of prices", ("uk_flats",)
D = 100
LONGITUDES, LATITUDES = (-6.0, 2.0), (50.0, 55.0)
PUBLISHED_LENGTH = 0.25
CHUNK = 250  # grid points that are remembered together


def models(fixed: Hyperparameters, X: Floats, seed: int) -> dict[str, Any]:
    """The approximations of the figure, and ours."""
    given = {**fixed.as_parameters(), "n_jobs": 1}
    return {
        "Fourier": FeatureGPRegressor(FourierFeatures(D, random_state=seed), random_state=seed, **given),
        "Maclaurin around the mean": LocalGPRegressor.from_paper(D, centers="mean", random_state=seed, **given),
        "Maclaurin around the test points": AroundTestPoints(D, random_state=seed, **given),
        "ours": LocalGPRegressor(n_scales=1, random_state=seed, **our_parameters(X / fixed.length_scale, D), **given),
    }


def run(laboratory: Laboratory) -> tuple[Section, list[Row]]:
    """Compute, draw and describe."""
    settings = laboratory.settings
    side = 30 if settings.quick else 100
    protocol = settings.protocols[0]
    problem = laboratory.problem("uk_flats", protocol, 0)
    lon, lat = np.linspace(*LONGITUDES, side), np.linspace(*LATITUDES, side)
    grid = np.stack(np.meshgrid(lon, lat), axis=-1).reshape(-1, 2)
    answers = _predict_all(laboratory, problem, grid, side)
    mean, std = answers["exact"]
    rows: list[Row] = [
        {"method": name, "lon": float(p[0]), "lat": float(p[1]), "mean": float(a), "std": float(b)}
        for name, (m, s) in answers.items()
        for p, a, b in zip(grid, m, s, strict=True)
    ]
    divergences = {
        name: metrics.kl_divergence(m, s**2, mean, std**2) for name, (m, s) in answers.items() if name != "exact"
    }
    picture = save_picture(_draw(problem, lon, lat, answers, divergences), settings.out, NAME)
    fixed = problem.hyperparameters
    far = std > (0.98 * fixed.signal_variance + fixed.noise_variance) ** 0.5
    latent = {name: float(np.mean(answers[name][1][far] ** 2 - fixed.noise_variance)) for name in divergences}
    shares = {name: variance / fixed.signal_variance for name, variance in latent.items()}
    table = [
        [name, *(number(float(value)) for value in (kl.sum(), kl.mean(), kl[~far].mean(), shares[name]))]
        for name, kl in divergences.items()
    ]
    order = sorted(divergences, key=lambda name: float(divergences[name].sum()))
    paper_order = [name for name in order if name != "ours"]
    findings = [
        "From the nearest to the exact process to the farthest: " + ", ".join(order) + ".",
        "The paper's order, around the test points best of its three: "
        + ("the same here." if paper_order[0] == "Maclaurin around the test points" else "NOT the same here."),
        "Where there are no data the variance should be the prior's. Its share of that: "
        + ", ".join(f"{name} {share:.2g}" for name, share in shares.items())
        + ". Around the training mean the kernel vanishes before the coast is reached.",
        f"Length scale {fixed.length_scale:.3g} degrees (published {PUBLISHED_LENGTH}), {len(problem.X)} flats of "
        "another month than the paper's.",
    ]
    header = ["method", "KL, sum", "KL per grid point", "the same near data", "variance far from data / prior's"]
    caption = (
        f"Mean log price on a grid of {side} by {side}, exact and with D = {D}; titles give the KL summed over the grid"
    )
    return Section(
        NAME, TITLE, [(picture, caption)], findings, [Table("Distance from the exact process", header, table)]
    ), rows


def _predict_all(laboratory: Laboratory, problem: Problem, grid: Floats, side: int) -> dict[str, tuple[Floats, Floats]]:
    fixed = problem.hyperparameters
    exact = ExactGPRegressor(**fixed.as_parameters())
    makers: dict[str, Any] = {"exact": exact, **models(fixed, problem.X, problem.seed)}
    answers = {}
    for number_, (name, model) in enumerate(makers.items()):
        start = number_ / len(makers)
        laboratory.show(NAME, start)

        def show(done: float, start: float = start) -> None:
            laboratory.show(NAME, start + done / len(makers))

        key = {"kind": "map", "method": name, "side": side, "D": D, **problem.key}
        answers[name] = _predict(laboratory, model, problem, grid, key, show)
    laboratory.show(NAME, 1.0)
    return answers


def _predict(
    laboratory: Laboratory,
    model: Any,
    problem: Problem,
    grid: Floats,
    key: dict[str, Any],
    show: Callable[[float], None],
) -> tuple[Floats, Floats]:
    """Predictions of observations, in chunks that are each remembered."""
    starts = range(0, len(grid), CHUNK)
    fitted: list[Any] = []

    def chunk(start: int) -> tuple[Floats, Floats]:
        own = {**key, "start": start}
        stored = laboratory.cache.get_arrays(own)
        if stored is None:
            mean, std = fitted[0].predict(grid[start : start + CHUNK], return_std=True, include_noise=True)
            stored = {"mean": mean, "std": std}
            laboratory.cache.put_arrays(own, **stored)
        return stored["mean"], stored["std"]

    if any(laboratory.cache.get_arrays({**key, "start": start}) is None for start in starts):
        fitted.append(model.fit(problem.X, problem.y))
    answers = []
    with worker_threads(n_threads(None)) as over:
        for answer in over(chunk, starts):
            answers.append(answer)
            show(len(answers) / len(starts))
    return np.concatenate([m for m, _ in answers]), np.concatenate([s for _, s in answers])


def _draw(
    problem: Problem,
    lon: Floats,
    lat: Floats,
    answers: dict[str, tuple[Floats, Floats]],
    divergences: dict[str, Floats],
) -> Any:
    figure, axes = panels(1, len(answers), 17, 3.9, sharey=True)
    reference = answers["exact"][0]
    levels = np.linspace(reference.min(), reference.max(), 21)
    drawn = None
    for axis, (name, (mean, _)) in zip(axes[0], answers.items(), strict=True):
        drawn = axis.contourf(lon, lat, mean.reshape(len(lat), len(lon)), levels=levels, cmap="viridis", extend="both")
        axis.plot(*problem.X[:: max(len(problem.X) // 1500, 1)].T, ",", color="w", alpha=0.5)
        title = name if name == "exact" else f"{name}\nKL {divergences[name].sum():.3g}"
        axis.set(title=title, xlabel="longitude", xlim=LONGITUDES, ylim=LATITUDES, aspect=1.6)
    axes[0, 0].set_ylabel("latitude")
    figure.colorbar(drawn, ax=axes[0, -1], label="log price", shrink=0.85)
    return figure
