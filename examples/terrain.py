"""Slopes and chances: what a survey of hills says beyond the mean and standard deviation of single places.

The hills are made here, so that their slopes are known. Where is it steep, and how sure is that? How well is the mean
height of a square known? And what is the chance that somewhere in it the land is higher than a limit, which chances of
single places do not tell?
"""

import argparse
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import nearfield as nf

SIDE, LIMIT, SQUARES = 20.0, 820.0, 5  # km, m, squares along a side
CELLS = 100  # of the grid, along a side


def main():
    """Survey, ask for slopes, areas and chances, compare with the truth, and draw."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("demo/terrain.png"), help="picture to write")
    path = parser.parse_args().out

    rng = np.random.default_rng(3)
    X = rng.uniform(0, SIDE, (260, 2))
    y = height(X) + 5 * rng.standard_normal(len(X))
    model = nf.LocalGPRegressor(random_state=0).fit(X, y)

    axis = (np.arange(CELLS) + 0.5) * SIDE / CELLS
    grid = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    square = (grid // (SIDE / SQUARES)).astype(int) @ [1, SQUARES]

    slope, slope_std = model.predict_gradient(grid, return_std=True)
    truth = slope_of(grid)
    error = nf.metrics.rmse(truth.ravel(), slope.ravel())
    covered = nf.metrics.coverage(truth.ravel(), slope.ravel(), std=slope_std.ravel())
    print(f"slopes: RMSE {error:.0f} m/km, they are {truth.std():.0f} m/km; 95 % intervals cover {100 * covered:.1f} %")

    areas = model.predict_areas(grid, square)
    mean, std = model.predict(grid, return_std=True)
    alone = np.sqrt(np.bincount(square, std**2)) / areas.n_places
    heights = height(grid)
    z = (np.bincount(square, heights) / areas.n_places - areas.mean) / areas.std
    print(
        f"means of squares: standard deviation {np.median(areas.std):.1f} m, errors {np.sqrt(np.mean(z**2)):.2f} of it"
    )
    print(f"                  places taken as independent would say {np.median(alone):.1f} m")

    sampler = model.sampler(500, random_state=0)
    chance = sampler.above(grid, LIMIT, square)
    single = model.predict_above(grid, LIMIT, include_noise=False)
    highest = np.array([single[square == i].max() for i in range(SQUARES**2)])
    n_above = sum(heights[square == i].max() > LIMIT for i in range(SQUARES**2))
    print(f"squares above {LIMIT:.0f} m somewhere: {n_above}; expected {chance.sum():.1f} by functions,")
    print(f"                  {highest.sum():.1f} by the likeliest place of each")
    path.parent.mkdir(parents=True, exist_ok=True)
    draw(path, X, axis, mean, slope, slope_std, sampler(grid)[:, 0], single, chance)


def waves():
    """Directions, phases and heights of the waves that the hills are made of: many small ones, few large ones."""
    rng = np.random.default_rng(1)
    directions = rng.standard_normal((300, 2)) / rng.choice([0.8, 1.6, 5.0], (300, 1), p=[0.4, 0.4, 0.2])
    heights = 11.0 / np.linalg.norm(directions, axis=1) ** 0.6
    return directions, rng.uniform(0, 2 * np.pi, 300), heights


def height(X):
    """Metres above the sea."""
    directions, phases, heights = waves()
    return 650 + np.cos(X @ directions.T + phases) @ heights


def slope_of(X):
    """Metres per km, to the east and to the north."""
    directions, phases, heights = waves()
    return -(np.sin(X @ directions.T + phases) * heights) @ directions


def draw(path, X, axis, mean, slope, slope_std, sample, single, chance):
    """Draw six maps."""
    figure, axes = plt.subplots(2, 3, figsize=(13, 7.8), sharex=True, sharey=True, layout="constrained")
    steepness = np.linalg.norm(slope, axis=1)
    low, high = mean.min(), mean.max()
    terrain = {"cmap": "viridis", "vmin": low, "vmax": high}
    chances = {"cmap": "magma_r", "vmin": 0, "vmax": 1}
    pictures = {
        "mean height (m), and the survey": (mean, terrain),
        "steepness of the mean (m/km)": (steepness, {"cmap": "cividis"}),
        "standard deviation of the slope to the east": (slope_std[:, 0], {"cmap": "inferno"}),
        "one of 500 functions (m)": (sample, terrain),
        f"chance of more than {LIMIT:.0f} m, place by place": (single, chances),
        "chance of it somewhere in a square": (None, chances),
    }
    edges = np.linspace(0, SIDE, SQUARES + 1)
    middles = (edges[1:] + edges[:-1]) / 2
    for ax, (title, (values, style)) in zip(axes.flat, pictures.items(), strict=True):
        if values is None:
            picture = ax.pcolormesh(edges, edges, chance.reshape(SQUARES, SQUARES), **style)
            for i, p in enumerate(chance):
                place, colour = (middles[i % SQUARES], middles[i // SQUARES]), "white" if p > 0.5 else "black"
                ax.text(*place, f"{p:.2f}", ha="center", va="center", color=colour, fontsize=10)
        else:
            values = values.reshape(len(axis), -1)
            picture = ax.pcolormesh(axis, axis, values, shading="nearest", rasterized=True, **style)
        ax.set_title(title, fontsize=11)
        ax.set_aspect("equal")
        figure.colorbar(picture, ax=ax, shrink=0.8).outline.set_visible(False)
    axes[0, 0].plot(*X.T, ".", color="white", markersize=2, alpha=0.7)
    for ax in axes[1]:
        ax.set_xlabel("km")
    for ax in axes[:, 0]:
        ax.set_ylabel("km")
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    main()
