"""A trend outside of the data: what a linear drift says there, beside a constant mean.

A Gaussian process returns to its mean where there are no data. With a drift, the mean is a line that is learnt along
with the process: predictions follow it, and their intervals widen with what is not known of its slope.
"""

import argparse
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import nearfield as nf


def main():
    """Fit with and without a drift, print the coefficients, and draw both."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("demo/trend.png"), help="picture to write")
    path = parser.parse_args().out

    rng = np.random.default_rng(3)
    years = np.sort(np.concatenate([rng.uniform(1950, 1988, 90), rng.uniform(1998, 2015, 45)]))[:, None]
    level = 0.06 * (years[:, 0] - 1980) + 0.5 * np.sin(years[:, 0] / 2.1) + 0.2 * rng.standard_normal(len(years))
    models = {
        'drift="linear"': nf.ExactGPRegressor(drift="linear", random_state=0).fit(years, level),
        "the default: a constant mean": nf.ExactGPRegressor(random_state=0).fit(years, level),
    }
    print(models['drift="linear"'].drift_coef_)
    path.parent.mkdir(parents=True, exist_ok=True)
    draw(path, years, level, models)


def draw(path, years, level, models):
    """Draw means and 95 % intervals of the function, and of the drift alone."""
    figure, axes = plt.subplots(1, 2, figsize=(12, 4), sharey=True, layout="constrained")
    time = np.linspace(1935, 2035, 500)[:, None]
    for ax, (name, model) in zip(axes, models.items(), strict=True):
        parts = model.predict_parts(time)
        mean, std = parts.total
        ax.fill_between(time[:, 0], mean - 1.96 * std, mean + 1.96 * std, color="#0072b2", alpha=0.2, lw=0)
        ax.plot(time, mean, color="#0072b2", label="prediction, 95 % interval")
        ax.plot(time, parts.drift.mean, color="#d55e00", ls="--", label="drift alone")
        ax.plot(years, level, ".", color="#22303a", ms=3, label="data")
        ax.set(title=name, xlabel="year")
        ax.spines[["top", "right"]].set_visible(False)
    axes[0].legend(frameon=False, loc="upper left")
    figure.savefig(path, dpi=100)
    print(f"Wrote {path}.")


if __name__ == "__main__":
    main()
