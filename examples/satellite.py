"""A satellite image with clouds: one line of xarray fills the gaps, and says how sure it is.

The image is made here, so that the truth under the clouds is known: a smooth temperature of the sea with eddies, on a
grid of longitude and latitude, and clouds that hide a third of it.
"""

import argparse
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import xarray as xr
from scipy.ndimage import gaussian_filter

import nearfield as nf
import nearfield.raster


def main():
    """Hide, fill, compare, and draw."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("demo/satellite.png"), help="picture to write")
    path = parser.parse_args().out

    truth, clouds = scene()
    image = truth.where(~clouds)
    filled = image.nearfield.fill(return_std=True, tolerance=1e-2, include_noise=True)  # this is all

    hidden = clouds.values
    mean, std, sea = (array.values[hidden] for array in (filled["mean"], filled["std"], truth))
    print(f"{hidden.sum()} of {hidden.size} cells hidden")
    print(f"RMSE {nf.metrics.rmse(sea, mean):.3f} K under clouds; the sea varies by {float(truth.std()):.2f} K")
    print(f"95 % intervals cover {100 * nf.metrics.coverage(sea, mean, std=std):.1f} %")
    path.parent.mkdir(parents=True, exist_ok=True)
    draw(path, image, filled, truth)


def scene():
    """Temperatures on a grid of degrees, and which cells are under clouds."""
    rng = np.random.default_rng(2)
    lat, lon = np.linspace(42, 30, 90), np.linspace(-75, -57, 120)
    waves = [gaussian_filter(rng.standard_normal((90, 120)), width, mode="wrap") for width in (4, 12)]
    eddies, currents = (wave / wave.std() for wave in waves)
    values = 20 - 0.5 * (lat[:, None] - 36) + 0.6 * eddies + 1.5 * currents + 0.1 * rng.standard_normal((90, 120))
    truth = xr.DataArray(values, {"lat": lat, "lon": lon}, name="temperature", attrs={"units": "degrees Celsius"})
    cover = gaussian_filter(rng.standard_normal((90, 120)), 5)
    return truth, xr.DataArray(cover > np.quantile(cover, 0.65), truth.coords)


def draw(path, image, filled, truth):
    """Draw what was seen, what was filled, how sure that is, and the truth."""
    figure, axes = plt.subplots(2, 2, figsize=(11, 8.2), sharex=True, sharey=True, layout="constrained")
    low, high = (float(v) for v in truth.quantile([0.01, 0.99]))
    warmth = {"vmin": low, "vmax": high, "cmap": "viridis"}
    pictures = {
        "what the satellite saw": (image, warmth),
        "filled": (filled["mean"], warmth),
        "standard deviation of a cell (K)": (filled["std"].where(filled["std"] > 0), {"cmap": "inferno", "vmin": 0}),
        "the truth": (truth, warmth),
    }
    for ax, (title, (array, options)) in zip(axes.flat, pictures.items(), strict=True):
        drawn = ax.pcolormesh(array.lon, array.lat, array, shading="nearest", rasterized=True, **options)
        ax.set(title=title, aspect=1 / np.cos(np.radians(36)), facecolor="#d9dde0")
        figure.colorbar(drawn, ax=ax, shrink=0.8)
    for ax in axes[1]:
        ax.set_xlabel("longitude")
    for ax in axes[:, 0]:
        ax.set_ylabel("latitude")
    figure.savefig(path, dpi=100)
    print(f"Wrote {path}.")


if __name__ == "__main__":
    main()
