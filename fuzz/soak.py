"""Random fits and predictions for as long as one likes: no failure, and no growth in memory.

    python -m fuzz.soak --minutes 60 --random-state 0

Every round draws data and an estimator, fits, predicts, and now and then updates, saves and loads, copies, or gives bad
input, which must be refused. Answers must be finite, standard deviations not above the prior's. Memory is read once a
minute. It has grown if the median of the last third of the run is above that of the third before by more than 3 %.
"""

from __future__ import annotations

import argparse
import copy
import ctypes
import gc
import os
import pickle
import tempfile
import time
import warnings
from collections import Counter
from contextlib import suppress
from pathlib import Path

import numpy as np

import nearfield as nf

GROWTH = 0.03


def resident() -> float:
    """MiB of memory that this process has now, without what it has given up but the C library keeps for later."""
    gc.collect()
    with suppress(OSError, AttributeError):  # no glibc
        ctypes.CDLL("libc.so.6").malloc_trim(0)
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def data(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    n, d = int(10 ** rng.uniform(0.5, 4.0)), int(rng.choice([1, 2, 2, 3, 8]))
    X = rng.uniform(size=(n, d))
    if rng.random() < 0.3:
        X = rng.uniform(size=(5, d))[rng.integers(5, size=n)] + 0.05 * X
    if rng.random() < 0.2:
        X = np.round(X, 1)
    X, y = X * 10 ** rng.uniform(-3, 3), np.sin(9 * X @ rng.standard_normal(d)) + 0.3 * rng.standard_normal(n)
    if rng.random() < 0.2:
        y = np.column_stack([y, rng.standard_normal(n)])
    return X, y * 10 ** rng.uniform(-3, 3), rng.uniform(0.1, 2.0, n) if rng.random() < 0.3 else None


def estimator(rng: np.random.Generator, X: np.ndarray, y: np.ndarray) -> nf.LocalGPRegressor:
    options = {"random_state": int(rng.integers(2**31)), "n_jobs": int(rng.integers(1, 4)), "time_budget": 5.0}
    if rng.random() < 0.7:
        variance = float(np.var(y)) or 1.0
        options |= {
            "length_scale": float(np.ptp(X) * rng.uniform(0.02, 1.0)) or 1.0,
            "signal_variance": variance,
            "noise_variance": variance * 10 ** rng.uniform(-4, 0),
        }
    kind = rng.choice(["local", "local", "by hand", "paper", "feature", "exact"])
    if kind == "exact" and len(X) <= 2000:
        return nf.ExactGPRegressor(**options)
    if kind == "feature":
        return nf.FeatureGPRegressor(
            nf.FourierFeatures(n_components=int(rng.integers(2, 200)), random_state=0), **options
        )
    if kind == "by hand" and X.shape[1] <= 3:
        features = nf.TaylorFeatures(degree=int(rng.integers(1, 7)))
        return nf.LocalGPRegressor(
            spacing=1.0, radius=2.5, features=features, n_scales=1, blend=bool(rng.random() < 0.3), **options
        )
    if kind == "paper":
        return nf.LocalGPRegressor.from_paper(int(rng.integers(8, 64)), centers=int(rng.integers(1, 5)), **options)
    return nf.LocalGPRegressor(**options)


def check(gp: nf.LocalGPRegressor, X: np.ndarray) -> None:
    mean, std = gp.predict(X, return_std=True)
    assert np.all(np.isfinite(mean)), "means that are not finite"
    assert np.all((std >= 0) & (std < np.inf)), "standard deviations that are not finite or negative"
    if getattr(gp, "correction", True) and type(gp) is not nf.FeatureGPRegressor:
        assert np.all(std**2 <= gp.kernel_.variance * (1 + 1e-6)), "variances above the prior's"


def one_round(rng: np.random.Generator, folder: Path) -> str:
    X, y, weights = data(rng)
    gp = estimator(rng, X, y)
    gp.fit(X, y, weights)
    test = np.concatenate([X[: int(10 ** rng.uniform(0, 4))], X[:3] + 10 * np.ptp(X)])
    check(gp, test)
    what = rng.choice(["nothing", "update", "file", "copy", "refusal"])
    if what == "update" and hasattr(gp, "partial_fit"):
        check(gp.partial_fit(X[:50], y[:50]), test)
    elif what == "file":
        path = folder / "model.nf"
        nf.save(gp, path)
        np.testing.assert_array_equal(nf.load(path).predict(test[:100]), gp.predict(test[:100]))
    elif what == "copy":
        np.testing.assert_array_equal(
            pickle.loads(pickle.dumps(copy.deepcopy(gp))).predict(test[:9]), gp.predict(test[:9])
        )
    elif what == "refusal":
        try:
            gp.fit(np.where(X[0] == X, np.nan, X), y)
        except ValueError:
            check(gp, test[:10])
        else:
            raise AssertionError("NaN was taken")
    return type(gp).__name__


def soak(minutes: float, seed: int) -> bool:
    """Whether memory did not grow; a failure of a round raises."""
    began, rounds, read = time.monotonic(), Counter(), []
    with tempfile.TemporaryDirectory() as folder:
        while time.monotonic() - began < 60 * minutes:
            number = sum(rounds.values())
            try:
                rounds[one_round(np.random.default_rng([seed, number]), Path(folder))] += 1
            except Exception:
                print(f"round {number} of --random-state {seed} failed", flush=True)
                raise
            if time.monotonic() - began > 60 * (len(read) + 1):
                read.append(resident())
                print(f"{len(read)} min: {sum(rounds.values())} rounds, {read[-1]:.0f} MiB", flush=True)
    third = len(read) // 3
    before, after = (np.median(read[third : 2 * third]), np.median(read[2 * third :])) if third else (0.0, 0.0)
    print(f"{sum(rounds.values())} rounds {dict(rounds)}, no failure; memory {before:.0f} then {after:.0f} MiB")
    return bool(after <= before * (1 + GROWTH))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--random-state", type=int, default=0)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    raise SystemExit(0 if soak(given.minutes, given.random_state) else "memory has grown")
