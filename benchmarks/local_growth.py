"""Time and memory against N at constant density, beside gradient boosting on the same data.

Each size runs in a process of its own, so that the peak memory is its own.
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


def one(n, kind, seed):
    X, y = common.plane(2 * n, seed, density=30.0)  # half of them for testing: 15 training points a squared length
    X, y, X_test, y_test = X[:n], y[:n], X[n:], y[n:]
    if kind == "boosting":
        start = time.perf_counter()
        mean = HistGradientBoostingRegressor(random_state=0).fit(X, y).predict(X_test)
        return {"seconds": time.perf_counter() - start, "rmse": nf.metrics.rmse(y_test, mean)}
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.perf_counter()
    model = nf.LocalGPRegressor(length_scale=1.0, signal_variance=1.0, noise_variance=0.1, random_state=0)
    mean, std = model.fit(X, y).predict(X_test, return_std=True, include_noise=True)
    return {
        "seconds": time.perf_counter() - start,
        "rmse": nf.metrics.rmse(y_test, mean),
        "coverage": nf.metrics.coverage(y_test, mean, std**2),
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
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(one(int(float(arguments.one[0])), arguments.one[1], arguments.seed)))
        return
    rows, times, peaks = [], [], []
    for size in arguments.sizes:
        results = {
            kind: json.loads(
                subprocess.run(
                    [sys.executable, __file__, "--one", str(size), kind], check=True, capture_output=True, text=True
                ).stdout
            )
            for kind in ("local", "boosting")
        }
        ours, boosting = results["local"], results["boosting"]
        times.append(ours["seconds"])
        peaks.append(ours["peak"])
        rows.append(
            [
                f"{size:.0e}",
                f"{ours['seconds']:.2f}",
                ", ".join(f"{k} {v:.2f}" for k, v in ours["stages"].items()),
                f"{ours['peak']:.2f} ({ours['data']:.2f})",
                ours["centres"],
                ours["method"],
                f"{ours['kl']:.1e}",
                f"{ours['rmse']:.4f}",
                f"{ours['coverage']:.3f}",
                f"{boosting['seconds']:.2f}",
                f"{boosting['rmse']:.4f}",
            ]
        )
    header = ["N", "s", "of which", "peak GiB (data)", "centres", "method", "KL", "RMSE", "95 %", "boosting s", "RMSE"]
    common.table(header, rows)
    if len(times) > 1:
        steps = np.diff(np.log(arguments.sizes))
        print("exponents of time:", np.round(np.diff(np.log(times)) / steps, 3))


if __name__ == "__main__":
    main()
