"""The date line and the poles: the same data in a plane of degrees and on the sphere.

A smooth field on the whole globe, seen at 400 random places with noise, so that the truth is known everywhere. In a
plane of degrees the date line is a wall: what is known on one side says nothing about the other, and near the poles
neighbours are far apart. `metric="sphere"` takes the same columns and measures in km.
"""

import argparse
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import nearfield as nf


def main():
    """Fit both, print the errors where they matter, and draw a map around the date line and one of the pole."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("demo/globe.png"), help="picture to write")
    path = parser.parse_args().out

    rng = np.random.default_rng(0)
    X, places = random_places(400, rng), random_places(20_000, rng)
    y = field(X) + 0.05 * rng.standard_normal(len(X))
    models = {
        "degrees in a plane": nf.LocalGPRegressor(n_scales=1, random_state=0).fit(X, y),
        "metric='sphere'": nf.LocalGPRegressor(n_scales=1, random_state=0, metric="sphere").fit(X, y),
    }
    near = (np.abs(places[:, 0]) > 175) | (np.abs(places[:, 1]) > 80)
    for name, model in models.items():
        errors = [nf.metrics.rmse(field(places[rows]), model.predict(places[rows])) for rows in (near, ~near)]
        print(f"{name:20} RMSE {errors[0]:.3f} near the date line and the poles, {errors[1]:.3f} elsewhere")
    print(f"length scale {models[name].length_scale_:.0f} km")

    path.parent.mkdir(parents=True, exist_ok=True)
    draw(path, models, X)


def random_places(n, rng):
    """Longitude and latitude (n, 2), as many per area everywhere."""
    return np.column_stack([rng.uniform(-180, 180, n), np.degrees(np.arcsin(rng.uniform(-1, 1, n)))])


def field(places):
    """Waves on the sphere, smooth everywhere."""
    lon, lat = np.radians(places).T
    x, y, z = np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)
    return np.sin(6 * x + 3 * z) + np.cos(7 * y - 4 * z) + np.sin(9 * x * y)


def draw(path, models, X):
    """Draw the band around the date line above, the northern cap below, and the truth on the right."""
    lon, lat = np.linspace(120, 240, 241), np.linspace(-60, 60, 121)
    band = np.stack(np.meshgrid(lon, lat), axis=-1).reshape(-1, 2)
    band[:, 0] = np.where(band[:, 0] > 180, band[:, 0] - 360, band[:, 0])  # as the data have it
    side = np.linspace(-1, 1, 201)
    across, up = np.meshgrid(side, side)
    cap = np.column_stack([np.degrees(np.arctan2(across, -up)).ravel(), 90 - 30 * np.hypot(across, up).ravel()])
    inside = np.hypot(across, up).ravel() <= 1

    predictors = {name: model.predict for name, model in models.items()} | {"truth": field}
    figure, axes = plt.subplots(2, 3, figsize=(12, 7.2), layout="constrained", height_ratios=[1, 1.25])
    for (top, bottom), (name, predict) in zip(axes.T, predictors.items(), strict=True):
        options = {"cmap": "viridis", "vmin": -2.6, "vmax": 2.6, "origin": "lower"}
        top.imshow(predict(band).reshape(121, 241), extent=(120, 240, -60, 60), **options)
        top.plot(X[:, 0] % 360, X[:, 1], ".", color="black", markersize=1.5, alpha=0.4)
        top.set(title=name, xlim=(120, 240), ylim=(-60, 60), xlabel="longitude", xticks=[120, 150, 180, 210, 240])
        top.set_xticklabels(["120° E", "150° E", "180°", "150° W", "120° W"])
        values = np.full(len(cap), np.nan)
        values[inside] = predict(cap[inside])
        bottom.imshow(values.reshape(201, 201), extent=(-1, 1, -1, 1), **options)
        bottom.set_title("north of 60° N", fontsize=10)
        bottom.axis("off")
    axes[0, 0].set_ylabel("latitude")
    figure.savefig(path, dpi=100)
    print(f"Wrote {path}.")


if __name__ == "__main__":
    main()
