"""Time and memory against N at constant density, with one and two length scales, beside gradient boosting.

    python benchmarks/local_growth.py [--sizes 1e4 1e5 1e6] [--kinds towns]

Each size runs in a process of its own, so that the peak memory is its own. "towns" are uneven data: four rows of five
lie in towns of many sizes, everything is learnt, and there is no limit of time.
"""

import argparse
import json
import resource
import subprocess
import sys
import time

import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor

import _common as common
import nearfield as nf

KINDS = ("one scale", "two scales", "boosting", "towns")


def towns(n, seed, density=15.0, rows_per_town=500, n_waves=400):
    """Rows in towns of many sizes and some between them, and a function of two length scales there, with noise."""
    rng = np.random.RandomState(seed)
    side, n_towns = np.sqrt(n / density), max(n // rows_per_town, 5)
    X, middles = rng.uniform(0, side, (n, 2)), rng.uniform(0, side, (n_towns, 2))
    sizes = rng.pareto(1.2, n_towns) + 0.05  # inhabitants, whose density is that of a small town or more
    town = rng.choice(n_towns, n, p=sizes / sizes.sum())
    spread = 0.3 * np.sqrt(sizes[town] / sizes.mean()) ** 0.8
    inside = rng.uniform(size=n) < 0.8
    X[inside] = (middles[town] + spread[:, None] * rng.standard_normal((n, 2)))[inside]
    y = np.sqrt(0.1) * rng.standard_normal(n)
    for length_scale in (1.0, 8.0):
        frequencies, phases = rng.standard_normal((n_waves, 2)) / length_scale, rng.uniform(0, 2 * np.pi, n_waves)
        for rows in np.array_split(np.arange(n), max(n // 10_000, 1)):
            y[rows] += np.sqrt(2 / n_waves) * np.cos(X[rows] @ frequencies.T + phases).sum(axis=1)
    return X, y


def one(n, kind, seed):
    if kind == "towns":
        X, y = towns(2 * n, seed)
        order = np.random.RandomState(seed).permutation(2 * n)
        X, y = X[order], y[order]
    else:
        # Half of them for testing: 15 training points a squared length.
        scales = (1.0, 4.0) if kind == "two scales" else (1.0,)
        X, y = common.plane(2 * n, seed, density=30.0, length_scales=scales)
    X, y, X_test, y_test = X[:n], y[:n], X[n:], y[n:]
    if kind == "boosting":
        start = time.perf_counter()
        mean = HistGradientBoostingRegressor(random_state=0).fit(X, y).predict(X_test)
        return {"seconds": time.perf_counter() - start, "rmse": nf.metrics.rmse(y_test, mean)}
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.perf_counter()
    if kind == "towns":
        model = nf.LocalGPRegressor(time_budget=np.inf, random_state=0)
    else:
        kernel = {"length_scale": scales, "signal_variance": np.ones(len(scales)), "n_scales": len(scales)}
        model = nf.LocalGPRegressor(**kernel, noise_variance=0.1, random_state=0)
    mean, std = model.fit(X, y).predict(X_test, return_std=True, include_noise=True)
    return {
        "seconds": time.perf_counter() - start,
        "rmse": nf.metrics.rmse(y_test, mean),
        "coverage": nf.metrics.coverage(y_test, mean, std=std),
        "stages": model.report_.seconds,
        "centres": model.report_.n_centers,
        "method": model.report_.method,
        "kl": model.report_.divergence,
        "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
        "data": before / 2**20,
    }


def main():
    parser = common.parser(__doc__)
    parser.add_argument("--sizes", type=float, nargs="*", default=[1e4, 1e5, 1e6])
    parser.add_argument("--kinds", nargs="*", choices=KINDS, default=list(KINDS))
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(one(int(float(arguments.one[0])), arguments.one[1], arguments.seed)))
        return
    rows, times = [], {kind: [] for kind in arguments.kinds}
    for size in arguments.sizes:
        results = {
            kind: json.loads(
                subprocess.run(
                    [sys.executable, __file__, "--seed", str(arguments.seed), "--one", str(size), kind],
                    check=True, stdout=subprocess.PIPE, text=True,
                ).stdout
            )
            for kind in arguments.kinds
        }  # fmt: skip
        for kind, found in results.items():
            times[kind].append(sum(found["stages"].values()) if "stages" in found else found["seconds"])
            row = [f"{size:.0e}", kind, f"{found['seconds']:.2f}", f"{found['rmse']:.4f}"]
            if kind == "boosting":
                row += [""] * 6
            else:
                row += [
                    ", ".join(f"{k} {v:.2f}" for k, v in found["stages"].items()),
                    f"{found['peak']:.2f} ({found['data']:.2f})",
                    found["centres"],
                    found["method"],
                    f"{found['kl']:.1e}",
                    f"{found['coverage']:.3f}",
                ]
            rows.append(row)
    header = ["N", "model", "s", "RMSE", "of which", "peak GiB (data)", "centres", "method", "KL", "95 %"]
    common.table(header, rows)
    for kind, seconds in times.items():
        if len(seconds) > 1 and kind != "boosting":
            steps = np.diff(np.log(arguments.sizes))
            print(f"exponents of the time of a fit, {kind}:", np.round(np.diff(np.log(seconds)) / steps, 3))


if __name__ == "__main__":
    main()
