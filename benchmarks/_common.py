"""Data and tables shared by the benchmarks."""

import argparse
import os
import time
from pathlib import Path

import numpy as np

# file, inputs (None: all but the last column), standardise
FILES = {
    "UK flats": ("uk_flats_2020-12.csv.gz", ["lon", "lat"], False),
    "Lucas County": ("lucas_county_house_sales.csv.gz", ["x_coord", "y_coord"], False),
    "US elevation": ("us_elevation_100k.csv.gz", ["lon", "lat"], False),
    "California": ("california_housing.csv.gz", ["longitude", "latitude"], False),
    "power plant": ("power_plant.csv.gz", None, True),
    "kin8nm": ("kin8nm.csv.gz", None, True),
    "yacht": ("yacht.csv.gz", None, False),
}


def parser(description):
    result = argparse.ArgumentParser(description=description)
    result.add_argument("--data-dir", default=os.environ.get("NEARFIELD_DATA"), help="folder with the data sets")
    result.add_argument("--seed", type=int, default=0)
    return result


def load(name, data_dir):
    """Inputs and targets of a real data set, or None where there is no folder."""
    file, columns, standardise = FILES[name]
    if not data_dir or not (Path(data_dir) / file).exists():
        print(f"(no {file}: name its folder by --data-dir or NEARFIELD_DATA)")
        return None
    import pandas as pd  # which benchmarks on data made on the spot do without

    table = pd.read_csv(Path(data_dir) / file)
    X = table[columns].to_numpy(float) if columns else table.iloc[:, :-1].to_numpy(float)
    y = table.iloc[:, -1].to_numpy(float)
    if name == "California":
        y = np.log(y)
    if standardise:
        X = (X - X.mean(axis=0)) / X.std(axis=0)
    return X, y


def split(X, y, n_train, seed, n_test=None):
    """Seeded shuffle, then the first `n_train` for training and the next for testing."""
    order = np.random.RandomState(seed).permutation(len(X))
    train, test = order[:n_train], order[n_train : None if n_test is None else n_train + n_test]
    return X[train], y[train], X[test], y[test]


def plane(n, seed, density=15.0, noise=0.1, d=2, n_waves=400, length_scales=(1.0,)):
    """Uniform points at a density per unit volume, and about a draw from a Gaussian process, unit variance a scale."""
    rng = np.random.RandomState(seed)
    X = rng.uniform(0, (n / density) ** (1 / d), (n, d))
    n_waves *= len(length_scales)
    frequencies, phases = rng.standard_normal((n_waves, d)), rng.uniform(0, 2 * np.pi, n_waves)
    frequencies /= np.repeat(length_scales, n_waves // len(length_scales))[:, None]
    y = np.empty(n)
    for chunk in np.array_split(np.arange(n), max(n // 20_000, 1)):
        y[chunk] = np.cos(X[chunk] @ frequencies.T + phases).sum(axis=1)
    return X, y * (2 * len(length_scales) / n_waves) ** 0.5 + noise**0.5 * rng.standard_normal(n)


def timed(function):
    """Result of a call, and its seconds."""
    start = time.perf_counter()
    result = function()
    return result, time.perf_counter() - start


def table(header, rows):
    """Print a Markdown table."""
    cells = [[str(c) for c in row] for row in [header, *rows]]
    widths = [max(len(row[i]) for row in cells) for i in range(len(header))]
    for number, row in enumerate(cells):
        print("| " + " | ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)) + " |")
        if number == 0:
            print("|" + "|".join("-" * (w + 2) for w in widths) + "|")
    print(flush=True)
