"""Four years of weather with a gap: intervals that widen where nothing was measured.

Daily maxima of temperature in Seattle, 2012 to 2015, from the package `vega_datasets`. Days follow the weather of the
week and the season of the year, so the kernel gets two length scales to learn. Spring 2014 is kept aside.
"""

import argparse
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from vega_datasets import local_data

import nearfield as nf


def main():
    """Fit all but the gap, score the gap and draw."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("demo/seattle.png"), help="picture to write")
    path = parser.parse_args().out

    table = local_data.seattle_weather()
    date, warmth = table["date"].to_numpy(), table["temp_max"].to_numpy()
    days = (date - date[0]) / np.timedelta64(1, "D")
    gap = (date >= np.datetime64("2014-02-15")) & (date < np.datetime64("2014-06-01"))

    model = nf.LocalGPRegressor(n_scales=2, n_restarts=0, random_state=0).fit(days[~gap, None], warmth[~gap])
    mean, std = model.predict(days[:, None], return_std=True, include_noise=True)
    print(model.report_)
    print(f"Length scales: {', '.join(f'{scale:.1f} days' for scale in np.sort(np.atleast_1d(model.length_scale_)))}")
    inside = nf.metrics.coverage(warmth[gap], mean[gap], std=std[gap])
    print(
        f"In the gap: RMSE {nf.metrics.rmse(warmth[gap], mean[gap]):.1f} K, 95 % intervals cover {100 * inside:.1f} %"
    )
    print(f"Mean std {std[gap].mean():.1f} K in the gap, {std[~gap].mean():.1f} K elsewhere")

    path.parent.mkdir(parents=True, exist_ok=True)
    draw(path, date, warmth, gap, mean, std)


def draw(path, date, warmth, gap, mean, std):
    """Draw the two years around the gap."""
    figure, ax = plt.subplots(figsize=(10.5, 4), layout="constrained")
    ax.fill_between(date, mean - 1.96 * std, mean + 1.96 * std, color="#0072b2", alpha=0.2, lw=0, label="95 % interval")
    ax.plot(date, mean, color="#0072b2", label="mean")
    ax.plot(date[~gap], warmth[~gap], ".", color="black", ms=3, label="used")
    ax.plot(date[gap], warmth[gap], ".", color="#d55e00", ms=4, label="kept aside")
    ax.set(xlim=(np.datetime64("2013-07-01"), np.datetime64("2015-01-01")), ylabel="daily maximum, °C")
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(ncols=4, frameon=False, loc="upper left")
    figure.savefig(path, dpi=100)
    print(f"Wrote {path}.")


if __name__ == "__main__":
    main()
