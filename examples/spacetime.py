"""A field in space and time: a day under clouds, filled from the days around it.

Six days of an image, made here; the fourth is hidden entirely, the others in part. Slice by slice that day has nothing
to go by. With time as a third coordinate it is filled from the days before and after, and is less sure of itself.
Then stations, where what is fine lasts and what is wide passes: two components, each with scales of its own in time and
space, tell them apart, which no product of a kernel of time and a kernel of space can.
"""

import argparse
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import xarray as xr

import nearfield as nf
import nearfield.raster

HIDDEN = 3


def main():
    """Hide, fill with time as a dimension, compare, and draw."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("demo/spacetime.png"), help="picture to write")
    path = parser.parse_args().out

    truth = film()
    rng = np.random.default_rng(0)
    stack = truth + 0.05 * rng.standard_normal(truth.shape)
    stack = stack.where(rng.uniform(size=truth.shape) > 0.4)
    stack[HIDDEN] = np.nan
    filled = stack.nearfield.fill(return_std=True, dims=("time", "y", "x"), n_scales=1, tolerance=1e-2)

    day, before = (filled["mean"][HIDDEN].values, filled["mean"][HIDDEN - 1].values)
    unseen = truth[HIDDEN].values
    errors = [nf.metrics.rmse(unseen, values) for values in (day, before)]
    print(f"the hidden day: RMSE {errors[0]:.3f}; the day before in its place: {errors[1]:.3f}")
    inside = nf.metrics.coverage(unseen.ravel(), day.ravel(), std=filled["std"][HIDDEN].values.ravel())
    print(f"95 % intervals cover {100 * inside:.1f} % of it")
    path.parent.mkdir(parents=True, exist_ok=True)
    draw(path, stack, filled, truth)

    X, y = stations(3000)
    for n_scales in (1, 2):
        model = nf.LocalGPRegressor(ard=True, n_scales=n_scales, n_restarts=0, random_state=0).fit(X[:1500], y[:1500])
        error = nf.metrics.rmse(y[1500:], model.predict(X[1500:]))
        print(f"stations, {n_scales} component(s): RMSE {error:.2f}; length scales of day, x and y:")
        print(np.round(model.length_scale_, 1))


def film():
    """Six days of waves that move to the east."""
    time = np.arange("2024-06-01", "2024-06-07", dtype="datetime64[D]").astype("datetime64[ns]")
    y, x = np.linspace(0, 9, 28), np.linspace(0, 12, 36)
    t, b, a = np.meshgrid(np.arange(6), y, x, indexing="ij")
    values = np.sin(a - 0.5 * t) * np.cos(0.7 * b) + 0.6 * np.sin(0.5 * a + 0.8 * b + 0.4 * t)
    return xr.DataArray(values, {"time": time, "y": y, "x": x}, name="wave")


def stations(n):
    """Values at n places (day, x, y): fine patterns that last for weeks, wide ones that pass in a day, and noise."""
    rng = np.random.default_rng(1)
    X = rng.uniform(0, [30, 12, 9], (n, 3))
    y = 0.1 * rng.standard_normal(n)
    for lengths in ([12, 1, 1], [1, 5, 5]):
        waves, phases = rng.standard_normal((200, 3)) / lengths, rng.uniform(0, 2 * np.pi, 200)
        y += 0.1 * np.cos(X @ waves.T + phases).sum(axis=1)
    return X, y


def draw(path, stack, filled, truth):
    """Draw three days: seen, filled, how sure, and the truth."""
    days = range(HIDDEN - 1, HIDDEN + 2)
    rows = {"seen": stack, "filled": filled["mean"], "standard deviation": filled["std"], "truth": truth}
    figure, axes = plt.subplots(4, 3, figsize=(9.5, 9.2), sharex=True, sharey=True, layout="constrained")
    for row, (title, array) in zip(axes, rows.items(), strict=True):
        is_std = title == "standard deviation"
        options = (
            {"cmap": "inferno", "vmin": 0, "vmax": 0.06} if is_std else {"cmap": "viridis", "vmin": -1.6, "vmax": 1.6}
        )
        for ax, day in zip(row, days, strict=True):
            drawn = ax.pcolormesh(stack.x, stack.y, array[day], shading="nearest", rasterized=True, **options)
            ax.set(facecolor="#d9dde0", aspect="equal")
        row[0].set_ylabel(title)
        figure.colorbar(drawn, ax=row)
    for ax, day in zip(axes[0], days, strict=True):
        ax.set_title(str(stack.time.values[day])[:10])
    figure.savefig(path, dpi=90)
    print(f"Wrote {path}.")


if __name__ == "__main__":
    main()
