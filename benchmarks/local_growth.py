"""Time and memory against N at constant density, with one and two length scales, beside gradient boosting.

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
    scales = (1.0, 4.0) if kind == "two scales" else (1.0,)
    # Half of them for testing: 15 training points a squared length.
    X, y = common.plane(2 * n, seed, density=30.0, length_scales=scales)
    X, y, X_test, y_test = X[:n], y[:n], X[n:], y[n:]
    if kind == "boosting":
        start = time.perf_counter()
        mean = HistGradientBoostingRegressor(random_state=0).fit(X, y).predict(X_test)
        return {"seconds": time.perf_counter() - start, "rmse": nf.metrics.rmse(y_test, mean)}
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.perf_counter()
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
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(one(int(float(arguments.one[0])), arguments.one[1], arguments.seed)))
        return
    rows, times = [], []
    for size in arguments.sizes:
        results = {
            kind: json.loads(
                subprocess.run(
                    [sys.executable, __file__, "--one", str(size), kind], check=True, capture_output=True, text=True
                ).stdout
            )
            for kind in ("one scale", "two scales", "boosting")
        }
        times.append(results["one scale"]["seconds"])
        for kind, found in results.items():
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
        print(
            f"N = {size:.0e}: two scales take {results['two scales']['seconds'] / times[-1]:.1f} times as long as one"
        )
    header = ["N", "model", "s", "RMSE", "of which", "peak GiB (data)", "centres", "method", "KL", "95 %"]
    common.table(header, rows)
    if len(times) > 1:
        steps = np.diff(np.log(arguments.sizes))
        print("exponents of time:", np.round(np.diff(np.log(times)) / steps, 3))


if __name__ == "__main__":
    main()
