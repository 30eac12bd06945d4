"""House prices with covariates: where a house stands, and what it is like.

Coordinates alone say what a street costs; size and age say what a house is. With all of them, a length scale for each
column tells which matter, and the page has a map of the coordinates beside slices of the others. Better still, what
is known of a house enters as a drift: then coefficients are learnt from all houses, with standard errors, and the
process is left with the streets. The houses are made here; `nearfield fit sales.csv --target price --features
east,north --drift size,age,floor` does the same for a table.
"""

import argparse
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.preprocessing import FunctionTransformer, SplineTransformer

import nearfield as nf


def main():
    """Fit with coordinates alone, all columns and a drift, print scores and what was learnt, and draw it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("demo/prices.png"), help="picture to write")
    path = parser.parse_args().out

    houses, price = sales(1400, np.random.default_rng(0))
    train = np.arange(len(houses)) < 1000
    for columns in (["east", "north"], list(houses)):
        model = nf.LocalGPRegressor(ard=len(columns) > 2, n_scales=1, random_state=0)
        model.fit(houses.loc[train, columns], price[train])
        mean, std = model.predict(houses.loc[~train, columns], return_std=True, include_noise=True)
        rmse, inside = nf.metrics.rmse(price[~train], mean), nf.metrics.coverage(price[~train], mean, std=std)
        print(f"{len(columns)} columns: RMSE {rmse:.3f} of the log price, 95 % intervals cover {100 * inside:.1f} %")
    print(model.report_)  # the columns that matter come first

    logarithm = FunctionTransformer(np.log, feature_names_out="one-to-one")
    columns = (logarithm, ["size"]), ("passthrough", ["floor"]), (SplineTransformer(4), ["age"])
    drift = make_column_transformer(*columns, verbose_feature_names_out=False)
    linear = nf.LocalGPRegressor(coordinates=["east", "north"], drift=drift, n_scales=1, random_state=0)
    linear.fit(houses[train], price[train])
    mean, std = linear.predict(houses[~train], return_std=True, include_noise=True)
    rmse, inside = nf.metrics.rmse(price[~train], mean), nf.metrics.coverage(price[~train], mean, std=std)
    print(f"as a drift: RMSE {rmse:.3f} of the log price, 95 % intervals cover {100 * inside:.1f} %")
    print(linear.drift_coef_)  # 0.9 of the logarithm of the size, and nothing of the floor, is the truth
    path.parent.mkdir(parents=True, exist_ok=True)
    draw(path, model, houses)


def sales(n, rng):
    """Houses of a town, and the logarithms of their prices."""
    houses = pd.DataFrame(
        {
            "east": rng.uniform(0, 12, n),
            "north": rng.uniform(0, 9, n),
            "size": rng.gamma(9, 13, n),
            "age": rng.uniform(0, 110, n),
            "floor": rng.integers(0, 6, n).astype(float),
        }
    )
    centre = np.exp(-((houses["east"] - 5) ** 2 + (houses["north"] - 4) ** 2) / 12)
    street = 0.15 * np.sin(houses["east"] * 1.7) * np.cos(houses["north"] * 1.3)
    age = 0.25 * np.cos(houses["age"] / 110 * 2 * np.pi)  # old houses have their lovers
    logarithm = 7.5 + 0.8 * centre + street + 0.9 * np.log(houses["size"]) + age + 0.08 * rng.standard_normal(n)
    return houses, logarithm.to_numpy()


def draw(path, model, houses):
    """Draw the map of a usual house, and slices along its size and age."""
    usual = houses.median()
    figure, axes = plt.subplots(1, 3, figsize=(13, 3.9), layout="constrained", width_ratios=[1.25, 1, 1])
    held = {name: float(usual[name]) for name in ("size", "age", "floor")}
    grid = model.predict_grid({**held, "east": (0, 12), "north": (0, 9)}, size=80)
    drawn = axes[0].pcolormesh(grid.east, grid.north, grid["mean"].T, shading="gouraud", cmap="viridis")
    axes[0].set(title="log price of a usual house", xlabel="east (km)", ylabel="north (km)", aspect="equal")
    figure.colorbar(drawn, ax=axes[0])
    for ax, name in zip(axes[1:], ("size", "age"), strict=True):
        others = {other: float(usual[other]) for other in houses if other != name}
        low, high = houses[name].quantile([0.01, 0.99])
        line = model.predict_grid({**others, name: (float(low), float(high))}, size=120)
        ax.fill_between(line[name], line["mean"] - 2 * line["std"], line["mean"] + 2 * line["std"], alpha=0.25)
        ax.plot(line[name], line["mean"])
        ax.set(title=f"along its {name}", xlabel={"size": "m²", "age": "years"}[name])
        ax.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=100)
    print(f"Wrote {path}.")


if __name__ == "__main__":
    main()
