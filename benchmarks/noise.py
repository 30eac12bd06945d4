"""Intervals that cover what they say: normal noise of one size (as is) beside what left-out residuals call for (auto).

Real data: held-out NLL, coverage of intervals, and the least and largest coverage of 95 % intervals in ten regions of
the map. Made data: draws from the plain model, which auto must leave alone; noise that varies tenfold, beside
the model that knows it; and one gross outlier in a hundred.

    python benchmarks/noise.py --data kin8nm --seed 3 --seeds 1 --rows 4000    # one set, one seed, quickly
"""

import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.cluster import KMeans

import _common as common
import nearfield as nf
import scales

REAL = (*scales.DATA, "California, 8 columns")
MADE = ("plain", "tenfold", "outliers")
LEVELS = (0.5, 0.8, 0.95, 0.99)
AS_IS = {"noise": "constant", "likelihood": "gaussian"}
MOST_ROWS = 40_000


def load(name, data_dir):
    if name != "California, 8 columns":
        return scales.load(name, data_dir)
    path = Path(data_dir or "") / "california_housing.csv.gz"
    if not path.exists():
        return None
    values = pd.read_csv(path).to_numpy(float)
    X = values[:, :-1]
    return (X - X.mean(axis=0)) / X.std(axis=0), np.log(values[:, -1])


def covered(distribution, y):
    """Whether each value is in its interval, for each level."""
    bounds = [distribution.interval(level) for level in LEVELS]
    return np.array([(y >= low) & (y <= high) for low, high in bounds])


def real(name, data_dir, seeds, most_rows):
    loaded = load(name, data_dir)
    if loaded is None:
        print(f"({name} is not at hand)")
        return []
    X, y = loaded
    rows = []
    scores = {"as is": [], "auto": []}
    words = ""
    for seed in seeds:
        order = np.random.RandomState(1000 + seed).permutation(len(X))[:most_rows]
        train_X, train_y, test_X, test_y = common.split(X[order], y[order], int(0.75 * len(order)), seed)
        regions = KMeans(10, n_init=1, random_state=0).fit_predict(test_X / test_X.std(axis=0))
        for label, options in (("as is", AS_IS), ("auto", {})):
            model = nf.LocalGPRegressor(random_state=seed, ard="8 columns" in name, **options)
            _, seconds = common.timed(lambda: model.fit(train_X, train_y))  # noqa: B023
            distribution = model.predict_distribution(test_X)
            inside = covered(distribution, test_y)
            by_region = [inside[2, regions == region].mean() for region in range(10)]
            rmse, nll = nf.metrics.rmse(test_y, distribution.mean), -np.mean(distribution.logpdf(test_y))
            scores[label].append([rmse, nll, *inside.mean(axis=1), min(by_region), max(by_region), seconds])
        words = model.report_.noise
    for label, values in scores.items():
        rmse, nll, *shares, least, largest, seconds = np.mean(values, axis=0)
        coverage = [f"{100 * share:.1f}" for share in shares]
        regions = f"{100 * least:.1f} to {100 * largest:.1f}"
        last = words if label == "auto" else ""
        rows.append([name, label, f"{rmse:.4g}", f"{nll:.4f}", *coverage, regions, f"{seconds:.1f}", last])
        print(" | ".join(map(str, rows[-1])), flush=True)
    return rows


def plain(seeds):
    kept, times = 0, []
    for seed in seeds:
        X, y = common.plane(8000, seed)
        pair = []
        for options in (AS_IS, {}):
            model = nf.LocalGPRegressor(n_scales=1, random_state=seed, **options)
            pair.append(common.timed(lambda: model.fit(X, y))[1])  # noqa: B023
        kept += model.noise_model_.is_plain
        times.append(pair)
    before, after = np.sum(times, axis=0)
    print(f"plain draws: normal noise of one size kept in {kept} of {len(seeds)}; {after / before - 1:+.0%} time\n")


def tenfold(seeds):
    rows = []
    for seed in seeds:
        X, f = common.plane(8000, seed, noise=0.0)
        side = X.max()
        noise = 0.2 * 10 ** (0.5 * np.sin(2 * np.pi * X[:, 0] / side) * np.cos(np.pi * X[:, 1] / side))
        y = f + np.sqrt(noise) * np.random.RandomState(100 + seed).standard_normal(len(f))
        train, test = slice(6000), slice(6000, None)
        as_is, auto = (
            nf.LocalGPRegressor(n_scales=1, random_state=seed, **options).fit(X[train], y[train])
            for options in (AS_IS, {})
        )
        given = {"length_scale": 1.0, "signal_variance": 1.0, "noise_variance": 1.0, "random_state": seed}
        oracle = nf.LocalGPRegressor(**given).fit(X[train], y[train], 1 / noise[train])
        mean, std = oracle.predict(X[test], return_std=True)
        best = nf.metrics.mean_nll(y[test], mean, std**2 + noise[test])
        nlls = [-np.mean(model.predict_distribution(X[test]).logpdf(y[test])) for model in (as_is, auto)]
        error = np.sqrt(np.mean((auto.predict_noise(X[test]) / noise[test] - 1) ** 2))
        rows.append([seed, *(f"{nll:.4f}" for nll in (*nlls, best)), f"{error:.0%}", auto.report_.noise])
    common.table(["tenfold noise, seed", "NLL as is", "auto", "oracle", "error of the field (rms)", "auto found"], rows)


def outliers(seeds):
    rows = []
    for seed in seeds:
        rng = np.random.RandomState(200 + seed)
        X, f = common.plane(8000, seed, noise=0.0)
        clean = f + 0.1**0.5 * rng.standard_normal(len(f))
        wild = rng.choice([-1, 1], len(f)) * rng.uniform(5, 20, len(f)) * (rng.uniform(size=len(f)) < 0.01)
        train, test = slice(6000), slice(6000, None)
        errors = []
        for y, options in ((clean, {}), (clean + wild, {}), (clean + wild, AS_IS)):
            model = nf.LocalGPRegressor(n_scales=1, random_state=seed, **options).fit(X[train], y[train])
            errors.append(f"{nf.metrics.rmse(f[test], model.predict(X[test])):.4f}")
        rows.append([seed, *errors])
    common.table(["outliers, seed", "RMSE to the truth without", "auto, 1 % outliers", "as is, 1 % outliers"], rows)


def main():
    parser = common.parser(__doc__)
    parser.add_argument("--data", nargs="*", default=(*REAL, *MADE), choices=(*REAL, *MADE))
    parser.add_argument("--seeds", type=int, default=5, help="how many")
    parser.add_argument("--rows", type=int, default=MOST_ROWS, help="of real data, at most")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    first, seeds = arguments.seed, range(arguments.seed, arguments.seed + arguments.seeds)
    if "plain" in arguments.data:
        plain(range(4 * first, 4 * (first + arguments.seeds)))
    for name, run in (("tenfold", tenfold), ("outliers", outliers)):
        if name in arguments.data:
            run(seeds)
    names = [name for name in arguments.data if name in REAL]
    rows = [row for name in names for row in real(name, arguments.data_dir, seeds, arguments.rows)]
    if rows:
        print()
        levels = [f"in {level:.0%}" for level in LEVELS]
        common.table(["data", "noise", "RMSE", "NLL", *levels, "95 % by region", "s", "found"], rows)


if __name__ == "__main__":
    main()
