"""Intervals that cover what they say: what left-out residuals call for, beside an earlier version of the library.

Real data: held-out NLL, coverage of intervals, and the least and largest coverage of 95 % intervals in ten blocks of
equal numbers of held-out rows, all seeds together. Each fit is a process of its own; with `--beside` naming a checkout
of an earlier commit, every split is fitted by both, one after the other. Without it, normal noise of one size ("as is")
takes its place. Each fit adds a line to `--log`, and what is in there already is not fitted again.
Made data: draws from the plain model, which auto must leave alone; noise that varies tenfold, beside
the model that knows it; and one gross outlier in a hundred.

    python benchmarks/noise.py --data kin8nm --seed 3 --seeds 1 --rows 4000    # one set, one seed, quickly
    python benchmarks/noise.py --beside ../earlier --log fits.jsonl            # the table of the documentation
"""

import json
import os
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import norm

import _common as common
import nearfield as nf
import scales

REAL = (*scales.DATA, "California, 8 columns")
MADE = ("plain", "tenfold", "outliers")
LEVELS = (0.5, 0.8, 0.95, 0.99)
AS_IS = {"noise": "constant", "likelihood": "gaussian"}
MOST_TRAINING, MOST_TEST = 2000, 5000
BUDGET = 900.0  # seconds of learning, so that a busy machine does not cut it short
N_BLOCKS = (2, 5)  # along the widest direction, and in each of these along its own


def load(name, data_dir):
    if name != "California, 8 columns":
        return scales.load(name, data_dir)
    path = Path(data_dir or "") / "california_housing.csv.gz"
    if not path.exists():
        return None
    values = pd.read_csv(path).to_numpy(float)
    X = values[:, :-1]
    return (X - X.mean(axis=0)) / X.std(axis=0), np.log(values[:, -1])


def blocks(X):
    """Tenth (n,) of the map that each point (n, d) is in: slices of equal numbers, and slices of those."""
    result = np.zeros(len(X), dtype=int)

    def cut(rows, first, widths):
        if not widths:
            result[rows] = first
            return
        column = int(np.argmax(np.ptp(X[rows], axis=0)))
        slices = np.array_split(rows[np.argsort(X[rows, column], kind="stable")], widths[0])
        for number, some in enumerate(slices):
            cut(some, first + number * int(np.prod(widths[1:])), widths[1:])

    cut(np.arange(len(X)), 0, N_BLOCKS)
    return result


def one_fit(name, data_dir, seed, most_rows, options):
    """Scores of one fit on one split: RMSE, NLL, seconds, and per block rows (10,) and how many covered (4, 10)."""
    X, y = load(name, data_dir)
    n_training = min(int(0.75 * len(X)), most_rows)
    place = blocks(X)
    order = np.random.RandomState(seed).permutation(len(X))
    train, test = order[:n_training], order[n_training : n_training + MOST_TEST]
    options = {"random_state": seed, "n_jobs": 1, "ard": "8 columns" in name, "time_budget": BUDGET, **options}
    model = nf.LocalGPRegressor(**options)
    _, seconds = common.timed(lambda: model.fit(X[train], y[train]))
    if hasattr(model, "predict_distribution"):
        distribution = model.predict_distribution(X[test])
        mean, nll, found = distribution.mean, -np.mean(distribution.logpdf(y[test])), model.report_.noise
        bounds = [distribution.interval(level) for level in LEVELS]
    else:
        mean, std = model.predict(X[test], return_std=True, include_noise=True)
        nll, found = nf.metrics.mean_nll(y[test], mean, std=std), ""
        bounds = [(mean - width * std, mean + width * std) for width in norm.ppf(0.5 + 0.5 * np.array(LEVELS))]
    inside = [np.bincount(place[test][(y[test] >= low) & (y[test] <= high)], minlength=10) for low, high in bounds]
    return {
        "rmse": float(nf.metrics.rmse(y[test], mean)), "nll": float(nll), "seconds": seconds, "found": found,
        "rows": np.bincount(place[test], minlength=10).tolist(), "inside": np.array(inside).tolist(),
    }  # fmt: skip


def real(names, arguments, seeds):
    """Fits of all data sets by seeds, each a process, and the table of what they gave."""
    before = "before" if arguments.beside else "as is"
    log = Path(arguments.log) if arguments.log else None
    fits = {}
    if log is not None and log.exists():
        fits = {tuple(key): scores for key, scores in map(json.loads, log.read_text().splitlines())}
    for seed in seeds:
        for name in names:
            if load(name, arguments.data_dir) is None:
                print(f"({name} is not at hand)")
                continue
            for label in (before, "auto"):
                key = (name, label, seed, arguments.rows)
                if key not in fits:
                    fits[key] = scores = in_process(key, arguments)
                    print(*key, *scores.items(), flush=True)
                    if log is not None:
                        with log.open("a") as file:
                            file.write(json.dumps([key, scores]) + "\n")
    rows = []
    for name in names:
        for label in (before, "auto"):
            scores = [fits[name, label, s, arguments.rows] for s in seeds if (name, label, s, arguments.rows) in fits]
            if scores:
                rows.append([name if label == before else "", label, *summary(scores)])
    levels = [f"in {level:.0%}" for level in LEVELS]
    common.table(["data", "noise", "RMSE", "NLL", *levels, "95 % by block", "s", "found last"], rows)


def in_process(key, arguments):
    """Scores of one fit by a new process, of the version of the library that its label asks for."""
    name, label, seed, rows = key
    environment = dict(os.environ)
    if label == "before":
        environment["PYTHONPATH"] = str(Path(arguments.beside).resolve() / "src")
    command = [sys.executable, __file__, "--fit", name, "--label", label, "--seed", str(seed), "--rows", str(rows)]
    if arguments.data_dir:
        command += ["--data-dir", arguments.data_dir]
    answer = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(answer.stdout.splitlines()[-1])


def summary(fits):
    """Cells of the table, from the fits of one data set."""
    means = {name: np.mean([fit[name] for fit in fits]) for name in ("rmse", "nll", "seconds")}
    rows, inside = (np.sum([fit[name] for fit in fits], axis=0) for name in ("rows", "inside"))
    coverage = [f"{100 * share:.1f}" for share in inside.sum(axis=1) / rows.sum()]
    by_block = 100 * inside[LEVELS.index(0.95)] / rows
    return [
        f"{means['rmse']:.4g}", f"{means['nll']:.4f}", *coverage,
        f"{by_block.min():.1f} to {by_block.max():.1f}", f"{means['seconds']:.1f}", fits[-1]["found"],
    ]  # fmt: skip


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
        best = nf.metrics.mean_nll(y[test], mean, var=std**2 + noise[test])
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
    parser.add_argument("--rows", type=int, default=MOST_TRAINING, help="of real data to train on, at most")
    parser.add_argument("--beside", help="checkout of an earlier commit")
    parser.add_argument("--log", help="file of fits, one per line")
    parser.add_argument("--fit", choices=REAL, help="a single fit, by the library as it is imported")
    parser.add_argument("--label", default="auto")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    first, seeds = arguments.seed, range(arguments.seed, arguments.seed + arguments.seeds)
    if arguments.fit:
        options = AS_IS if arguments.label == "as is" else {}
        print(json.dumps(one_fit(arguments.fit, arguments.data_dir, first, arguments.rows, options)))
        return
    if "plain" in arguments.data:
        plain(range(4 * first, 4 * (first + arguments.seeds)))
    for name, run in (("tenfold", tenfold), ("outliers", outliers)):
        if name in arguments.data:
            run(seeds)
    names = [name for name in arguments.data if name in REAL]
    if names:
        real(names, arguments, seeds)


if __name__ == "__main__":
    main()
