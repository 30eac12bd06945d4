"""Local models in the gaps of data, against the exact process of 64 000 to 90 000 points that was computed once.

    python benchmarks/local_gaps.py DATA [--against SRC] [--tolerance 1e-3 1e-4]

DATA holds `NAME.csv.gz` and `exact/NAME.npz`; SRC is the `src` folder of another checkout, which is run beside this
one, each case in a process of its own. Prints one table: seconds, KL per test point to the exact process near the data
and in gaps, what the report says of both, and the largest jump of the mean on a fine walk, in standard deviations.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
import warnings
from pathlib import Path

NAMES = ("cloudy_field", "us_elevation_gaps", "kaust_matern_smooth", "kaust_matern_rough")
HEADER = ("data", "tolerance", "source", "fit", "predict", "KL", "near", "in gaps", "says near", "in gaps", "jump")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--against", type=Path, default=None)
    parser.add_argument("--tolerance", type=float, nargs="+", default=[1e-3, 1e-4])
    parser.add_argument("--names", nargs="+", default=NAMES)
    parser.add_argument("--case", nargs=2, default=None, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.case is not None:
        name, tolerance = arguments.case
        print(json.dumps(measure(arguments.data, name, float(tolerance))))
        return
    here = Path(__file__).resolve().parent.parent / "src"
    sources = [("new", here), *([("old", arguments.against)] if arguments.against else [])]
    print("  ".join(f"{word:>10}" for word in HEADER))
    for name in arguments.names:
        for tolerance in arguments.tolerance:
            for label, source in sources:
                row = run(arguments.data, name, tolerance, source)
                cells = [name[-10:], f"{tolerance:g}", label, *(f"{value:.2g}" for value in row)]
                print("  ".join(f"{cell:>10}" for cell in cells), flush=True)


def run(data: Path, name: str, tolerance: float, source: Path) -> list[float]:
    """One case, in a process that imports the library from `source`."""
    command = [sys.executable, __file__, str(data), "--case", name, str(tolerance)]
    environment = {**os.environ, "PYTHONPATH": str(source)}
    output = subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout
    result: list[float] = json.loads(output.splitlines()[-1])
    return result


def measure(folder: Path, name: str, tolerance: float) -> list[float]:
    """Seconds to fit and predict; KL of all, near and in gaps; what the report says; the largest jump."""
    import numpy as np
    from scipy.spatial import cKDTree

    from nearfield import LocalGPRegressor, metrics

    table = np.genfromtxt(folder / f"{name}.csv.gz", delimiter=",", names=True)
    exact = np.load(folder / "exact" / f"{name}.npz")
    columns = table.dtype.names
    target = next(c for c in reversed(columns) if c != "is_test")
    X = np.column_stack([table[c] for c in columns[:2]])
    is_test = table["is_test"] == 1
    train, places = X[~is_test], X[is_test]
    model = LocalGPRegressor(
        length_scale=exact["length_scale"],
        signal_variance=exact["signal_variance"],
        noise_variance=float(exact["noise_variance"]),
        n_scales=len(exact["length_scale"]),
        tolerance=tolerance,
        random_state=0,
    )
    known = {"X_test": places} if "X_test" in (model.fit.__kwdefaults__ or {}) else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        start = time.perf_counter()
        model.fit(train, table[target][~is_test], **known)
        fitted = time.perf_counter()
        mean, std = model.predict(places, return_std=True, include_noise=True)
        done = time.perf_counter()
    rows = exact["test_rows"]
    kl = metrics.kl_divergence(mean[rows], std[rows] ** 2, exact["mean"], exact["std"] ** 2)
    tree = cKDTree(train)
    usual = np.quantile(tree.query(train[::37], 2)[0][:, 1], 0.95)
    in_gap = tree.query(places[rows])[0] > 0.95 * usual
    report = model.report_
    return [
        fitted - start,
        done - fitted,
        float(kl.mean()),
        float(kl[~in_gap].mean()) if (~in_gap).any() else float("nan"),
        float(kl[in_gap].mean()) if in_gap.any() else float("nan"),
        report.divergence_near_data if report.divergence_near_data is not None else float("nan"),
        getattr(report, "divergence_in_gaps", None) or float("nan"),
        largest_jump(model, train),
    ]


def largest_jump(model, X) -> float:
    """Largest change of the mean between neighbours on a walk of 20 000 steps across the data, in standard deviations.

    A tenth of the steps are taken again, ten times finer, where the change was largest: what is left there is a jump,
    and not a slope.
    """
    import numpy as np

    low, high = X.min(axis=0), X.max(axis=0)
    middle = 0.5 * (low + high)
    walks = [np.linspace([low[0], middle[1]], [high[0], middle[1]], 10_001), np.linspace(low, high, 10_001)]
    largest = 0.0
    for walk in walks:
        mean, std = model.predict(walk, return_std=True, include_noise=True)
        step = np.abs(np.diff(mean)) / std[1:]
        for i in np.argsort(-step)[:20]:
            fine = walk[i] + np.linspace(0, 1, 101)[:, None] * (walk[i + 1] - walk[i])
            mean, std = model.predict(fine, return_std=True, include_noise=True)
            largest = max(largest, float(np.max(np.abs(np.diff(mean)) / std[1:])))
    return largest


if __name__ == "__main__":
    main()
