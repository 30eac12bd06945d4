"""Folds by chance and folds by region: why held-out scores can flatter a map.

Elevations of the airports of western Europe, from the package `airportsdata`. A row held out by chance has neighbours
among the rest, and they give it away. A region held out as a whole does not. Which score is honest depends on the
question: to fill in a map between airports, or to say something of a country without any.
"""

import argparse
from pathlib import Path

import airportsdata
import matplotlib.pyplot as plt
import numpy as np
from sklearn.base import clone

import nearfield as nf


def main():
    """Cross-validate in both ways and draw the folds."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("demo/regions.png"), help="picture to write")
    path = parser.parse_args().out

    rows = np.array([(a["lon"], a["lat"], 0.3048 * a["elevation"]) for a in airportsdata.load("ICAO").values()])
    lon, lat, _ = rows.T
    rows = rows[(lon > -6) & (lon < 20) & (lat > 42) & (lat < 55)]
    X = np.column_stack([rows[:, 0] * np.cos(np.deg2rad(48)), rows[:, 1]]) * 111.2  # about km
    y = np.cbrt(rows[:, 2])

    squares = np.floor(X / 300).astype(int)  # 300 km wide
    region = np.unique(squares, axis=0, return_inverse=True)[1]
    rng = np.random.default_rng(0)
    folds = {"by chance": rng.integers(0, 3, len(X)), "by region": rng.integers(0, 3, region.max() + 1)[region]}
    model = nf.LocalGPRegressor(n_scales=1, tolerance=1e-2, n_restarts=0, random_state=0)
    titles = {}
    for name, fold in folds.items():
        rmse, nll, inside = np.mean([scores(model, X, y, fold == k) for k in range(3)], axis=0)
        print(f"{name:10} RMSE {rmse:.2f}, NLL {nll:.2f}, 95 % intervals cover {100 * inside:.1f} %")
        titles[name] = f"held out {name}: RMSE {rmse:.2f}"

    path.parent.mkdir(parents=True, exist_ok=True)
    draw(path, rows, {titles[name]: fold for name, fold in folds.items()})


def scores(model, X, y, out):
    """RMSE, NLL and coverage (cube root of metres) on rows held out, after a fit to the others."""
    mean, std = clone(model).fit(X[~out], y[~out]).predict(X[out], return_std=True, include_noise=True)
    metrics = (nf.metrics.mean_nll, nf.metrics.coverage)
    return nf.metrics.rmse(y[out], mean), *(metric(y[out], mean, std=std) for metric in metrics)


def draw(path, rows, folds):
    """Draw the airports, coloured by fold."""
    figure, axes = plt.subplots(1, 2, figsize=(10.5, 4.6), sharey=True, layout="constrained")
    for ax, (title, fold) in zip(axes, folds.items(), strict=True):
        ax.scatter(rows[:, 0], rows[:, 1], c=fold, s=5, cmap="Set1", vmax=8)
        ax.set(title=title, aspect=1 / np.cos(np.deg2rad(48)), xlabel="longitude")
        ax.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("latitude")
    figure.savefig(path, dpi=100)
    print(f"Wrote {path}.")


if __name__ == "__main__":
    main()
