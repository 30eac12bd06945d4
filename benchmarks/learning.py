"""Learning hyperparameters: against scikit-learn's restarts, on draws with known answers, and at scale.

    python benchmarks/learning.py [sklearn] [recovery] [flats] [scales]

without names runs all. Real data come from the folder that NEARFIELD_DATA names; without it they are left out.
"""

from __future__ import annotations

import os
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from threadpoolctl import threadpool_limits

import nearfield as nf
from nearfield.hyperparameters.blocks import LearningData
from nearfield.hyperparameters.composite import maximise_composite_likelihood
from nearfield.hyperparameters.learning import Learned, LearningRequest
from nearfield.hyperparameters.likelihood import Stack, squared_differences
from nearfield.kernels import Kernel


def data_folder() -> Path | None:
    folder = os.environ.get("NEARFIELD_DATA")
    return Path(folder) if folder and Path(folder).is_dir() else None


def table(header: str, rows: list[tuple[object, ...]]) -> None:
    names = header.split()
    print("| " + " | ".join(names) + " |")
    print("|" + "---|" * len(names))
    for row in rows:
        print("| " + " | ".join(f"{v:.4g}" if isinstance(v, float) else str(v) for v in row) + " |")
    print(flush=True)


def learn(X: np.ndarray, y: np.ndarray, n_scales: int, seed: int) -> Learned:
    """Kernel of `n_scales` Gaussians and noise from data."""
    centered, rng = (y - y.mean())[:, None], np.random.RandomState(seed)
    return maximise_composite_likelihood(LearningData(X, centered), LearningRequest(), rng, n_scales=n_scales)


def standardised(X: np.ndarray) -> np.ndarray:
    return (X - X.mean(axis=0)) / X.std(axis=0)


def draw(n: int, d: int, length_scale: float, variance: float, noise: float, seed: int, extent: float = 1.0):
    """Exact draw of a Gaussian process on uniform points of a cube."""
    rng = np.random.RandomState(seed)
    X = rng.uniform(0, extent, (n, d))
    K = Kernel.gaussian(length_scale, variance)(X, X)
    K.flat[:: n + 1] += 1e-9 * variance
    y = np.linalg.cholesky(K) @ rng.standard_normal(n) + noise**0.5 * rng.standard_normal(n)
    return X, y


def wide_draw(n: int, length_scale: float, variance: float, noise: float, density: float, seed: int):
    """Large draw in the plane with `density` points per squared length scale, from 4000 Fourier features."""
    rng = np.random.RandomState(seed)
    X = rng.uniform(0, length_scale * (n / density) ** 0.5, (n, 2))
    features = nf.FourierFeatures(
        8000, length_scale=length_scale, variance=variance, sampling="orthogonal", random_state=seed
    ).fit(X)
    weights = rng.standard_normal(8000)
    f = np.concatenate([features.transform(part) @ weights for part in np.array_split(X, max(n // 2000, 1))])
    return X, f + noise**0.5 * rng.standard_normal(n)


def flats(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    frame = pd.read_csv(folder / "uk_flats_2020-12.csv.gz")
    order = np.random.default_rng(0).permutation(len(frame))
    return frame[["lon", "lat"]].to_numpy()[order], frame["log_price"].to_numpy()[order]


def small_sets(folder: Path | None) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    sets = {
        "synthetic, 1-D smooth": draw(400, 1, 0.2, 1.0, 1e-3, 1),
        "synthetic, 2-D short": draw(800, 2, 0.06, 2.0, 0.1, 2),
        "synthetic, 4-D noisy": draw(600, 4, 0.7, 1.0, 1.0, 3),
    }
    if folder is not None:
        rng = np.random.RandomState(0)
        yacht = pd.read_csv(folder / "yacht.csv.gz").to_numpy()
        sets["yacht"] = standardised(yacht[:, :-1]), yacht[:, -1]
        kin8nm = pd.read_csv(folder / "kin8nm.csv.gz").to_numpy()
        kin8nm = kin8nm[rng.choice(len(kin8nm), 1000, replace=False)]
        sets["kin8nm, 1000 rows"] = standardised(kin8nm[:, :-1]), kin8nm[:, -1]
        X, y = flats(folder)
        sets["UK flats, 1000 rows"] = X[:1000], y[:1000]
    return sets


def sklearn_likelihood(X: np.ndarray, y: np.ndarray, ard: bool) -> float:
    scales = np.ones(X.shape[1]) if ard else 1.0
    kernel = ConstantKernel(1.0) * RBF(scales) + WhiteKernel(1.0)
    gp = GaussianProcessRegressor(kernel, n_restarts_optimizer=10, random_state=0).fit(X, y - y.mean())
    return gp.log_marginal_likelihood_value_


def against_sklearn(folder: Path | None) -> None:
    print("Log marginal likelihood per point reached, and seconds; scikit-learn with 10 restarts\n")
    rows = []
    for name, (X, y) in small_sets(folder).items():
        for ard in (False, True) if name.startswith(("yacht", "kin8nm")) else (False,):
            began = time.perf_counter()
            ours = nf.ExactGPRegressor(ard=ard, random_state=0).fit(X, y)
            ours_time = time.perf_counter() - began
            began = time.perf_counter()
            theirs = sklearn_likelihood(X, y, ard) / len(X)
            theirs_time = time.perf_counter() - began
            value = ours.log_marginal_likelihood() / len(X)
            label = name + (", ARD" if ard else "")
            rows.append((label, f"{value:.5f}", f"{theirs:.5f}", f"{value - theirs:+.5f}", ours_time, theirs_time))
            print("  done:", *rows[-1], file=sys.stderr)
    table("data nearfield scikit-learn difference nearfield_s scikit-learn_s", rows)


def recovery() -> None:
    print("Composite learning on draws in the plane, N = 20 000: estimate over truth\n")
    rows = []
    cases = [
        # length scale, variance, noise, points per squared length scale
        (0.1, 1.0, 0.1, 15.0),
        (1.0, 4.0, 0.04, 15.0),
        (25.0, 0.5, 0.5, 15.0),
        (0.1, 1.0, 0.01, 15.0),
        (0.1, 1.0, 0.1, 60.0),
        (0.1, 1.0, 0.1, 4.0),
    ]
    for i, (length_scale, variance, noise, density) in enumerate(cases):
        for seed in range(3):
            X, y = wide_draw(20_000, length_scale, variance, noise, density, 10 * i + seed)
            began = time.perf_counter()
            learned = learn(X, y, 1, seed)
            seconds = time.perf_counter() - began
            ratios = (
                learned.kernel.length_scales[0, 0] / length_scale,
                learned.kernel.variances[0] / variance,
                learned.noise_variance / noise,
            )
            truth = f"l={length_scale:g} v={variance:g} s={noise:g} density={density:g} seed={seed}"
            rows.append((truth, *(f"{r:.3f}" for r in ratios), seconds, learned.n_evaluations))
            print("  done:", *rows[-1], file=sys.stderr)
    table("truth l_ratio v_ratio s_ratio seconds evaluations", rows)


def scores(X, y, X_test, y_test, length_scale: float, variance: float, noise: float) -> tuple[float, float]:
    gp = nf.ExactGPRegressor(length_scale=length_scale, signal_variance=variance, noise_variance=noise).fit(X, y)
    mean, std = gp.predict(X_test, return_std=True, include_noise=True)
    return nf.metrics.rmse(y_test, mean), nf.metrics.mean_nll(y_test, mean, std=std)


def uk_flats(folder: Path) -> None:
    print("UK flats, 10 000 training points: the exact GP at learnt and at published hyperparameters\n")
    X, y = flats(folder)
    X, X_test, y, y_test = X[:10_000], X[10_000:], y[:10_000], y[10_000:]
    rows = []
    for seed in range(3):
        learned = learn(X, y, 1, seed)
        values = learned.kernel.length_scales[0, 0], learned.kernel.variances[0], learned.noise_variance
        rows.append(
            (f"learnt, seed {seed}", *map(float, values), learned.seconds, *scores(X, y, X_test, y_test, *values))
        )
    rows.append(("published", 0.248, 0.507, 0.202, "", *scores(X, y, X_test, y_test, 0.248, 0.507, 0.202)))
    table("hyperparameters l v s seconds test_RMSE mean_NLL", rows)

    centered = (y - y.mean())[:5000, None]
    for threads in (None, 1):
        with threadpool_limits(limits=threads, user_api="blas"):
            began = time.perf_counter()
            Stack(squared_differences(X[None, :5000], False), centered[None])(Kernel.gaussian(0.248, 0.507), 0.202)
            seconds = time.perf_counter() - began
        print(f"One exact likelihood with gradient at N = 5000, {threads or 'all'} BLAS threads: {seconds:.1f} s")
    print()


def scales(folder: Path | None) -> None:
    print("Learning one, two and three length scales on the same rows: seconds, and the ratio to one\n")
    X, y = draw(3000, 2, 0.1, 1.0, 0.1, 0)
    sets = {"synthetic, 3000 rows": (X, y), "synthetic, 20 000 rows": wide_draw(20_000, 0.1, 1.0, 0.1, 15.0, 0)}
    if folder is not None:
        sets["UK flats, 10 000 rows"] = tuple(part[:10_000] for part in flats(folder))
    rows = []
    for name, (X, y) in sets.items():
        times = []
        for n_scales in (1, 2, 3):
            laps = []
            for seed in range(3):
                began = time.perf_counter()
                learn(X, y, n_scales, seed)
                laps.append(time.perf_counter() - began)
            times.append(float(np.median(laps)))
        rows.append((name, *times, times[1] / times[0], times[2] / times[0]))
    table("data one_s two_s three_s two/one three/one", rows)


def main() -> None:
    warnings.simplefilter("ignore", ConvergenceWarning)
    folder = data_folder()
    wanted = sys.argv[1:] or ["sklearn", "recovery", "flats", "scales"]
    if "sklearn" in wanted:
        against_sklearn(folder)
    if "recovery" in wanted:
        recovery()
    if "scales" in wanted:
        scales(folder)
    if "flats" in wanted and folder is not None:
        uk_flats(folder)


if __name__ == "__main__":
    main()
