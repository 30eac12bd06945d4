"""Time of local models with several length scales, at given hyperparameters, beside another checkout.

    python benchmarks/local_times.py DATA [--against SRC] [--repeats 3]

DATA holds the data sets; SRC is the `src` folder of another checkout. Hyperparameters of UK flats (three scales) and
California (8 standardised columns, ARD) are learnt once, by this checkout, and kept in a file beside the figures. Then
each case runs in a process of its own, one checkout after the other, and the fastest of the repeats counts. Prints
seconds to fit and to predict with standard deviations, by the clock and of CPU, and the KL per test point to the exact
process, which for the cloudy field is in DATA, and is solved once for the others.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np

import _common as common

NAMES = ("cloudy field", "UK flats", "California")
TRAINING = 10_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--against", type=Path, default=None)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--tolerance", type=float, default=1e-3)
    parser.add_argument("--names", nargs="+", default=NAMES, choices=NAMES)
    parser.add_argument("--kept", type=Path, default=Path(tempfile.gettempdir()) / "nearfield_local_times")
    parser.add_argument("--case", default=None, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.case is not None:
        print(json.dumps(measure(arguments.kept / f"{arguments.case}.npz", arguments.tolerance)))
        return
    arguments.kept.mkdir(exist_ok=True)
    here = Path(__file__).resolve().parent.parent / "src"
    sources = {"new": here} | ({"old": arguments.against} if arguments.against else {})
    rows = []
    for name in arguments.names:
        file = arguments.kept / f"{name}.npz"
        if not file.exists():
            np.savez(file, **prepared(name, arguments.data))
        measured = {label: [] for label in sources}
        for _ in range(arguments.repeats):
            for label, source in sources.items():
                command = [sys.executable, __file__, str(arguments.data), "--case", name]
                command += ["--tolerance", str(arguments.tolerance), "--kept", str(arguments.kept)]
                environment = {**os.environ, "PYTHONPATH": str(source)}
                output = subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout
                measured[label].append(json.loads(output.splitlines()[-1]))
        best = {label: np.min([run[:4] for run in runs], axis=0) for label, runs in measured.items()}
        for label, seconds in best.items():
            divergence, says, method = measured[label][0][4:]
            rows.append([name, label, *columns(*seconds), f"{divergence:.1e}", f"{says:.1e}", method])
        if "old" in best:
            ratios = np.array(columns(*best["old"]), float) / np.array(columns(*best["new"]), float)
            rows.append([name, "ratio", *(f"{ratio:.1f}" for ratio in ratios), "", "", ""])
    header = ["data", "source", "fit", "predict", "both", "CPU: fit", "predict", "both", "KL", "says", "method"]
    common.table(header, rows)


def columns(fit: float, predict: float, cpu_fit: float, cpu_predict: float) -> list[str]:
    """Seconds to fit, to predict, and of both, by the clock and of CPU."""
    return [f"{x:.2f}" for x in (fit, predict, fit + predict, cpu_fit, cpu_predict, cpu_fit + cpu_predict)]


def prepared(name: str, folder: Path) -> dict[str, np.ndarray]:
    """Training and test points, hyperparameters, and what the exact process says at some of the test points."""
    import nearfield as nf

    if name == "cloudy field":
        table = np.genfromtxt(folder / "cloudy_field.csv.gz", delimiter=",", names=True)
        exact = np.load(folder / "exact" / "cloudy_field.npz")
        target = next(c for c in reversed(table.dtype.names) if c != "is_test")
        X, is_test = np.column_stack([table[c] for c in table.dtype.names[:2]]), table["is_test"] == 1
        keys = ("length_scale", "signal_variance", "noise_variance", "mean", "std")
        data = {"X": X[~is_test], "y": table[target][~is_test], "places": X[is_test], "rows": exact["test_rows"]}
        return data | {key: exact[key] for key in keys}
    X, y = common.load(name, folder)
    if name == "California":
        table = np.genfromtxt(folder / "california_housing.csv.gz", delimiter=",", skip_header=1)
        X = (table[:, :-1] - table[:, :-1].mean(axis=0)) / table[:, :-1].std(axis=0)
    X, y, places, _ = common.split(X, y, TRAINING, 0, 10_000)
    options = {"ard": True} if name == "California" else {"n_scales": 3}
    learnt = nf.LocalGPRegressor(random_state=0, noise="constant", **options).fit(X, y)
    given = {
        "length_scale": learnt.length_scale_,
        "signal_variance": learnt.signal_variance_,
        "noise_variance": learnt.noise_variance_,
    }
    rows = np.arange(2500)
    exact = nf.ExactGPRegressor(**given, n_scales=np.size(given["signal_variance"])).fit(X, y)
    mean, std = exact.predict(places[rows], return_std=True, include_noise=True)
    return {"X": X, "y": y, "places": places, "rows": rows, **given, "mean": mean, "std": std}


def measure(file: Path, tolerance: float) -> list[float | str]:
    """Seconds to fit and predict, the same of CPU, KL to the exact process, what the report says, and the method."""
    from nearfield import LocalGPRegressor, metrics

    case = np.load(file)
    model = LocalGPRegressor(
        length_scale=case["length_scale"].tolist(),
        signal_variance=case["signal_variance"].tolist(),
        noise_variance=float(case["noise_variance"]),
        n_scales=case["signal_variance"].size,
        tolerance=tolerance,
        random_state=0,
    )
    LocalGPRegressor(length_scale=1.0, signal_variance=1.0, noise_variance=0.1).fit(case["X"][:50], case["y"][:50])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        times = [(time.perf_counter(), time.process_time())]
        model.fit(case["X"], case["y"])
        times.append((time.perf_counter(), time.process_time()))
        mean, std = model.predict(case["places"], return_std=True, include_noise=True)
        times.append((time.perf_counter(), time.process_time()))
    clock, cpu = np.diff(times, axis=0).T.tolist()
    rows = case["rows"]
    divergence = metrics.kl_divergence(mean[rows], std[rows] ** 2, case["mean"], case["std"] ** 2).mean()
    says = model.report_.divergence
    return [
        *clock,
        *cpu,
        float(divergence),
        float("nan") if says is None else says,
        model.report_.method,
    ]


if __name__ == "__main__":
    main()
