"""What tolerance buys: the distance asked for, the one the model reports, and the true one.

Airports of the United States, from the package `airportsdata`, few enough for the exact process as a referee. Every
model gets the hyperparameters that were learnt once, so that only the approximation differs.
"""

import argparse
import time
from pathlib import Path

import airportsdata
import matplotlib.pyplot as plt
import numpy as np

import nearfield as nf

TOLERANCES = (1e-1, 1e-2, 1e-3)


def main():
    """Fit with one tolerance after the other, hold each against the exact process and draw."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("demo/tolerance.png"), help="picture to write")
    path = parser.parse_args().out

    airports = airportsdata.load("ICAO").values()
    rows = np.array([(a["lon"], a["lat"], 0.3048 * a["elevation"]) for a in airports if a["country"] == "US"])
    rows = rows[(rows[:, 1] > 24) & (rows[:, 0] > -126)]
    X = np.column_stack([rows[:, 0] * np.cos(np.deg2rad(38)), rows[:, 1]]) * 111.2  # about km
    order = np.random.default_rng(0).permutation(len(X))
    train, test = order[:2000], order[2000:3000]
    y = np.cbrt(rows[:, 2])

    first = nf.LocalGPRegressor(n_scales=1, ard=False, tolerance=0.1, n_restarts=0, random_state=0)
    first.fit(X[train], y[train])
    learnt = {name: getattr(first, f"{name}_") for name in ("length_scale", "signal_variance", "noise_variance")}
    exact = nf.ExactGPRegressor(**learnt)
    truth, seconds = predict(exact, X[train], y[train], X[test])
    print(f"Length scale {first.length_scale_:.0f} km. The exact process takes {seconds:.1f} s.")
    print("tolerance   reported       true   fitting   centres")
    table = []
    for tolerance in TOLERANCES:
        model = nf.LocalGPRegressor(tolerance=tolerance, random_state=0, **learnt)
        answer, _ = predict(model, X[train], y[train], X[test])
        kl = nf.metrics.kl_divergence(*answer, *truth).mean()
        report = model.report_
        work = report.seconds["fitting"]
        print(f"{tolerance:9.0e} {report.divergence:10.1e} {kl:10.1e} {work:7.2f} s {report.n_centers:9d}")
        table.append((tolerance, report.divergence, kl))

    path.parent.mkdir(parents=True, exist_ok=True)
    draw(path, np.array(table))


def predict(model, X, y, X_test):
    """Mean and variance of observations, and the seconds it took to fit and predict."""
    start = time.perf_counter()
    mean, std = model.fit(X, y).predict(X_test, return_std=True, include_noise=True)
    return (mean, std**2), time.perf_counter() - start


def draw(path, table):
    """Draw both distances over the tolerance."""
    asked, reported, true = table.T
    figure, ax = plt.subplots(figsize=(7, 4.2), layout="constrained")
    ax.plot(asked, asked, "--", color="grey", label="asked for")
    ax.plot(asked, reported, "o-", color="#0072b2", label="reported, from probes")
    ax.plot(asked, true, "s-", color="#d55e00", label="true, at 1000 test points")
    ax.set(xscale="log", yscale="log", xlabel="tolerance", ylabel="KL from the exact process, nats a point")
    ax.invert_xaxis()
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False)
    figure.savefig(path, dpi=100)
    print(f"Wrote {path}.")


if __name__ == "__main__":
    main()
