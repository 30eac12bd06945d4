"""The paper's sinc example, and yacht at converged and at published hyperparameters.

    python benchmarks/sinc_yacht.py

Yacht comes from the folder that NEARFIELD_DATA names; without it that part is left out.
"""

from __future__ import annotations

import os
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.exceptions import ConvergenceWarning

import nearfield as nf


def table(header: tuple[str, ...], rows: list[tuple[object, ...]]) -> None:
    print("| " + " | ".join(header) + " |")
    print("|" + "---|" * len(header))
    for row in rows:
        print("| " + " | ".join(f"{v:.4g}" if isinstance(v, float) else str(v) for v in row) + " |")
    print(flush=True)


def sinc(n_seeds: int = 10) -> None:
    print("sinc(5x), 50 points in [-1.5, 1.5], noise 0.01; the paper finds l = 0.11\n")
    rows = []
    for seed in range(n_seeds):
        rng = np.random.RandomState(seed)
        X = rng.uniform(-1.5, 1.5, (50, 1))
        y = np.sinc(5 * X[:, 0]) + 0.1 * rng.standard_normal(50)
        known = nf.ExactGPRegressor(noise_variance=0.01, random_state=0).fit(X, y)
        learnt = nf.ExactGPRegressor(random_state=0).fit(X, y)
        rows.append((seed, known.length_scale_, known.signal_variance_, learnt.length_scale_, learnt.noise_variance_))
    rows.append(("median", *(float(np.median(column)) for column in list(zip(*rows, strict=True))[1:])))
    table(("seed", "l (noise fixed at 0.01)", "v", "l (noise learnt)", "noise learnt"), rows)


def yacht(folder: Path, n_splits: int = 5) -> None:
    print("yacht, unstandardised, 200 training and 108 test points\n")
    data = pd.read_csv(folder / "yacht.csv.gz").to_numpy()
    models = {
        "published": {"length_scale": 0.317, "signal_variance": 1635.0, "noise_variance": 7.389},
        "converged": {"random_state": 0, "ard": False},
        "converged, ARD": {"random_state": 0, "ard": True},
    }
    rows = []
    for split in range(n_splits):
        shuffled = data[np.random.RandomState(split).permutation(len(data))]
        X, y, X_test, y_test = shuffled[:200, :-1], shuffled[:200, -1], shuffled[200:, :-1], shuffled[200:, -1]
        for name, options in models.items():
            gp = nf.ExactGPRegressor(**options).fit(X, y)
            mean, std = gp.predict(X_test, return_std=True, include_noise=True)
            scales = np.array2string(np.atleast_1d(gp.length_scale_), precision=3)
            rows.append(
                (
                    split,
                    name,
                    scales,
                    float(gp.signal_variance_),
                    float(gp.noise_variance_),
                    nf.metrics.rmse(y_test, mean),
                    nf.metrics.mean_nll(y_test, mean, std=std),
                    nf.metrics.coverage(y_test, mean, std=std),
                )
            )
    table(("split", "hyperparameters", "l", "v", "s", "test RMSE", "mean NLL", "95 % coverage"), rows)
    for name in models:
        chosen = [row for row in rows if row[1] == name]
        print(f"mean over splits, {name}: RMSE {np.mean([r[5] for r in chosen]):.3f}, "
              f"mean NLL {np.mean([r[6] for r in chosen]):.3f}")  # fmt: skip
    print(flush=True)


def main() -> None:
    warnings.simplefilter("ignore", ConvergenceWarning)
    sinc()
    folder = os.environ.get("NEARFIELD_DATA")
    if folder and Path(folder).is_dir():
        yacht(Path(folder))


if __name__ == "__main__":
    main()
