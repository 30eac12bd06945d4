"""Rain with elevation: gauges in the valleys, a map of the mountains.

Rain falls more on high ground, and gauges stand low. With longitude and latitude alone a map smooths over the ridges;
with the elevation of each gauge it follows them: as a third column of the process, or as a drift, whose coefficient
says how much more rain falls per km of height. The country is made here: the truth is known.
"""

import argparse
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from scipy.ndimage import gaussian_filter

import nearfield as nf


def main():
    """Fit without and with elevation, print the errors on high ground, and draw the maps."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("demo/rain.png"), help="picture to write")
    path = parser.parse_args().out

    rng = np.random.default_rng(0)
    places, height, rain = country(rng)
    low = rng.choice(len(places), 4000, replace=False)
    gauges = low[np.argsort(height[low] + rng.standard_normal(4000))][:600]  # mostly in valleys
    measured = rain[gauges] + 0.05 * rng.standard_normal(600)

    raised = np.column_stack([places, height])
    columns = {
        "lon, lat": (places, {}),
        "lon, lat, elevation": (raised, {}),
        "drift of elevation": (raised, {"coordinates": [0, 1], "drift": [2]}),
    }
    maps, models = {}, {}
    for name, (X, roles) in columns.items():
        model = nf.LocalGPRegressor(metric="sphere", n_scales=1, random_state=0, **roles).fit(X[gauges], measured)
        maps[name], models[name] = model.predict(X), model
        errors = [nf.metrics.rmse(rain[rows], maps[name][rows]) for rows in (height > 1.2, height <= 1.2)]
        print(f"{name:20} RMSE {errors[0]:.3f} above 1200 m, {errors[1]:.3f} below")
    along, upwards = models["lon, lat, elevation"].length_scale_
    print(f"length scales: {along:.0f} km along the ground, {1000 * upwards:.0f} m upwards")
    print(models["drift of elevation"].drift_coef_)  # x2: the truth is 0.5 m of rain per km
    path.parent.mkdir(parents=True, exist_ok=True)
    draw(path, places, gauges, maps | {"truth": rain})


def country(rng):
    """Longitude and latitude (10 000, 2), elevation in km and rain in m per year of a mountainous country."""
    lon, lat = np.meshgrid(np.linspace(6, 11, 100), np.linspace(45, 48.5, 100))
    ridges = gaussian_filter(rng.standard_normal((100, 100)), 3)
    height = np.clip(0.9 + 0.6 * ridges / ridges.std(), 0.1, None)
    weather = gaussian_filter(rng.standard_normal((100, 100)), 18)
    rain = 0.7 + 0.15 * weather / weather.std() + 0.5 * height
    return np.column_stack([lon.ravel(), lat.ravel()]), height.ravel(), rain.ravel()


def draw(path, places, gauges, maps):
    """Draw the maps side by side, with the gauges on the first."""
    figure, axes = plt.subplots(1, 4, figsize=(15, 3.6), sharey=True, layout="constrained")
    for ax, (title, values) in zip(axes, maps.items(), strict=True):
        shape, extent = (100, 100), (6, 11, 45, 48.5)
        drawn = ax.imshow(values.reshape(shape), origin="lower", extent=extent, cmap="YlGnBu", vmin=0.6, vmax=2.0)
        ax.set(title=title, xlabel="longitude", aspect=1 / np.cos(np.radians(47)))
    axes[0].plot(*places[gauges].T, ".", color="black", markersize=2)
    axes[0].set_ylabel("latitude")
    figure.colorbar(drawn, ax=axes, label="rain (m per year)", shrink=0.8)
    figure.savefig(path, dpi=100)
    print(f"Wrote {path}.")


if __name__ == "__main__":
    main()
