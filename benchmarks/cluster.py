"""Dask: fit and predict over one and more worker processes on this machine, from a Parquet folder.

    python benchmarks/cluster.py --rows 2000000 --workers 1 2

Each worker has one thread. CPU time is that of workers and client together, once the workers are there: on a machine
that others use too it tells more than the clock. The last column is how far the answers at some test points are from
those of a model fitted in memory.
"""

import argparse
import shutil
import tempfile
import time
from pathlib import Path

import dask.dataframe as dd
import numpy as np
import pandas as pd
from distributed import Client, LocalCluster

from nearfield.sources import DaskSource
from streaming import make_folder, model_of


def run(folder, n_workers, test, expected):
    with (
        LocalCluster(n_workers=n_workers, threads_per_worker=1, dashboard_address=None, memory_limit=None) as cluster,
        Client(cluster) as client,
    ):

        def now():
            """Seconds by the clock, and of CPU."""
            cpu = sum(client.run(time.process_time).values()) + time.process_time()
            return np.array([time.perf_counter(), cpu])

        frame = dd.read_parquet(folder)
        start = now()
        model = model_of(False).fit(DaskSource(frame[["u", "v"]], frame["y"]))
        fitted = now()
        mean, std = model.predict(frame[["u", "v"]], return_std=True)
        (mean + std).sum().compute()
        done = now()
    answers = model.predict(pd.DataFrame(test, columns=["u", "v"]), return_std=True)
    difference = max(np.abs(a - e).max() for a, e in zip(answers, expected, strict=True))
    return *(fitted - start), *(done - fitted), frame.npartitions, difference


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--width", type=float, default=100.0, help="side of the square, in length scales")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="nearfield-cluster-"))
    try:
        make_folder(folder / "data", options.rows, options.width, file_rows=-(-options.rows // 16))
        table = pd.read_parquet(folder / "data")
        test = np.random.default_rng(1).uniform(0, options.width, (2000, 2))
        start = time.perf_counter()
        whole = model_of(False).fit(table[["u", "v"]].to_numpy(), table["y"].to_numpy())
        print(f"{options.rows:,} rows; in memory, without Dask: fit {time.perf_counter() - start:.1f} s")
        expected = whole.predict(test, return_std=True)
        names = "workers", "partitions", "fit s", "CPU s", "predict s", "CPU s", "difference"
        print("".join(f"{name:>11}" for name in names))
        for n_workers in options.workers:
            *seconds, partitions, difference = run(folder / "data", n_workers, test, expected)
            figures = "".join(f"{value:11.1f}" for value in seconds)
            print(f"{n_workers:11}{partitions:11}{figures}{difference:11.1e}", flush=True)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
