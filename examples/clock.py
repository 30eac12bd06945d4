"""A clock is a circle: inputs that wrap around, put where their neighbours are.

Hourly temperatures of a mean year in San Francisco, from the package `vega_datasets`. 23:00 and 0:00 are neighbours,
and so are the 31st of December and the 1st of January, but not as numbers. As points of circles they are. A model of
two plain columns and one of two circles see the same 150 hours and predict the other 8609.
"""

import argparse
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from vega_datasets import local_data

import nearfield as nf


def main():
    """Fit both, compare and draw the year as a map."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("demo/clock.png"), help="picture to write")
    path = parser.parse_args().out

    table = local_data.sf_temps()
    date, warmth = table["date"], (table["temp"].to_numpy() - 32) / 1.8
    hour, day = date.dt.hour.to_numpy(), date.dt.day_of_year.to_numpy()
    train = np.random.default_rng(0).choice(len(warmth), 150, replace=False)
    test = np.setdiff1d(np.arange(len(warmth)), train)

    columns = {
        "plain numbers": np.column_stack([hour / 24, day / 365]),
        "circles": np.column_stack([circle(hour / 24), circle(day / 365)]),
    }
    maps = {}
    for name, X in columns.items():
        model = nf.LocalGPRegressor(n_scales=1, ard=True, random_state=0).fit(X[train], warmth[train])
        mean, std = model.predict(X, return_std=True, include_noise=True)
        rmse = nf.metrics.rmse(warmth[test], mean[test])
        inside = nf.metrics.coverage(warmth[test], mean[test], std=std[test])
        print(f"{name:14} RMSE {rmse:.3f} K, 95 % intervals cover {100 * inside:.1f} %")
        maps[f"{name}: RMSE {rmse:.3f} K"] = abs(mean - warmth)

    path.parent.mkdir(parents=True, exist_ok=True)
    draw(path, hour, day, {"temperature, °C": warmth} | maps)


def circle(turns):
    """Points (n, 2) of a circle, after so many turns."""
    return np.column_stack([np.cos(2 * np.pi * turns), np.sin(2 * np.pi * turns)])


def draw(path, hour, day, maps):
    """Draw each as hours by days."""
    figure, axes = plt.subplots(1, len(maps), figsize=(10.5, 3.6), sharey=True, layout="constrained")
    for ax, (name, values) in zip(axes, maps.items(), strict=True):
        table = np.full((24, 365), np.nan)
        table[hour, day - 1] = values
        errors = "RMSE" in name
        image = ax.imshow(table, aspect="auto", origin="lower", cmap="magma" if errors else "cividis")
        if errors:
            image.set_clim(0, 0.8)
        figure.colorbar(image, ax=ax, orientation="horizontal", label="absolute error, K" if errors else "measured")
        ax.set(title=name, xlabel="day of the year")
    axes[0].set_ylabel("hour")
    figure.savefig(path, dpi=100)
    print(f"Wrote {path}.")


if __name__ == "__main__":
    main()
