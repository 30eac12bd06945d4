"""Prices of flats in England and Wales: one length scale is a compromise, three are not.

The file `uk_flats_2020-12.csv.gz` has longitude, latitude and the logarithm of the price of every flat sold in a month.
It is made of HM Land Registry's Price Paid Data and OS Code-Point Open (both free, Open Government Licence) and has
columns `lon`, `lat`, `log_price`, and `rec_status`, where D marks a deletion. Name its folder by NEARFIELD_DATA.
"""

import argparse
import csv
import gzip
import os
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import nearfield as nf

FILE = "uk_flats_2020-12.csv.gz"


def main():
    """Fit with one length scale and with as many as it takes, compare and draw."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("demo/flats.png"), help="picture to write")
    path = parser.parse_args().out
    places, price = load(Path(os.environ.get("NEARFIELD_DATA", ".")) / FILE)

    X = np.column_stack([places[:, 0] * np.cos(np.deg2rad(52)), places[:, 1]]) * 111.2  # about km
    train = np.random.default_rng(0).random(len(X)) < 0.75
    for n_scales in (1, 3):
        model = nf.LocalGPRegressor(n_scales=n_scales, tolerance=1e-2, n_restarts=0, random_state=0)
        model.fit(X[train], price[train])
        mean, std = model.predict(X[~train], return_std=True, include_noise=True)
        rmse, nll = nf.metrics.rmse(price[~train], mean), nf.metrics.mean_nll(price[~train], mean, std=std)
        inside = nf.metrics.coverage(price[~train], mean, std=std)
        scales = ", ".join(f"{scale:.2g} km" for scale in np.sort(np.atleast_1d(model.length_scale_)))
        print(f"{scales:30} RMSE {rmse:.3f}, NLL {nll:.3f}, 95 % intervals cover {100 * inside:.1f} %")

    path.parent.mkdir(parents=True, exist_ok=True)
    draw(path, model, X[train])


def load(path):
    """Longitude and latitude (n, 2) and logarithm of the price (n,), without deletions and duplicates."""
    if not path.exists():
        sys.exit(f"There is no {path}. {' '.join(__doc__.splitlines()[2:5])}")
    with gzip.open(path, "rt", newline="") as lines:
        rows = {(r["lon"], r["lat"], r["log_price"]) for r in csv.DictReader(lines) if r["rec_status"] != "D"}
    table = np.array(sorted(rows), dtype=float)
    return table[:, :2], table[:, 2]


def draw(path, model, X):
    """Draw the mean and its uncertainty around London."""
    east, north = np.linspace(-30, 18, 161), np.linspace(5706, 5746, 135)
    grid = np.stack(np.meshgrid(east, north), axis=-1).reshape(-1, 2)
    mean, std = model.predict(grid, return_std=True)
    figure, axes = plt.subplots(1, 2, figsize=(10.5, 4.2), sharey=True, layout="constrained")
    pictures = {"price, thousand pounds": (np.exp(mean) / 1000, "magma"), "uncertainty, %": (100 * std, "cividis")}
    for ax, (name, (values, colours)) in zip(axes, pictures.items(), strict=True):
        low, high = np.quantile(values, [0.01, 0.995])
        image = ax.pcolormesh(east, north, values.reshape(len(north), -1), cmap=colours, vmin=low, vmax=high)
        ax.set(title=name, xlim=east[[0, -1]], ylim=north[[0, -1]], aspect="equal", xlabel="km east of Greenwich")
        figure.colorbar(image, ax=ax, shrink=0.8)
    axes[1].plot(*X.T, ".", color="white", ms=1)
    axes[0].set_ylabel("km north of the equator")
    figure.savefig(path, dpi=100)
    print(f"Wrote {path}.")


if __name__ == "__main__":
    main()
