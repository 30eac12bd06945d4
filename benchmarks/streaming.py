"""Files larger than memory: fit and predict from a Parquet folder, time and peak memory against the number of rows.

    python benchmarks/streaming.py                      # 2, 5 and 20 million rows
    python benchmarks/streaming.py --rows 200000 1000000 --learn

The folder is made in a temporary place, on a square of a fixed number of length scales, and removed afterwards. Fit and
predict each run in a process of their own, whose largest memory is what is printed. CPU time is that of all threads: on
a machine that others use too it tells more than the clock.
"""

import argparse
import json
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import nearfield as nf
from nearfield.sources import ParquetSource, predict_to

FILE_ROWS = 1_000_000
LIMIT = 2 * 2**30
FIGURES = (lambda step: step["seconds"], lambda step: step["cpu"], lambda step: step["peak"] / 2**20)


def make_folder(folder, n, width, seed=0, file_rows=FILE_ROWS):
    """A wavy function of points of a square and noise of variance 0.1, in files of so many rows."""
    folder.mkdir()
    rng = np.random.default_rng(seed)
    waves, phases = rng.standard_normal((16, 2)), rng.uniform(0, 2 * np.pi, 16)
    for i, start in enumerate(range(0, n, file_rows)):
        X = rng.uniform(0, width, (min(file_rows, n - start), 2))
        y = 0.1**0.5 * rng.standard_normal(len(X))
        for wave, phase in zip(waves, phases, strict=True):
            y += np.cos(X @ wave + phase) / 8**0.5
        pq.write_table(pa.table({"u": X[:, 0], "v": X[:, 1], "y": y}), folder / f"part-{i:03}.parquet")


def model_of(learn):
    if learn:
        return nf.LocalGPRegressor(random_state=0)
    return nf.LocalGPRegressor(
        length_scale=1.0,
        signal_variance=1.0,
        noise_variance=0.1,
        spacing=2.0,
        radius=3.5,
        features=nf.TaylorFeatures(12),
        random_state=0,
    )


def run(step, folder, learn):
    """One step in this process; prints a line of JSON."""
    import joblib

    source, kept = ParquetSource(folder / "data", target="y"), folder / "model.joblib"
    model = model_of(learn) if step == "fit" else joblib.load(kept)
    start, start_cpu = time.perf_counter(), time.process_time()
    if step == "fit":
        model.fit(source)
    else:
        predict_to(model, source, folder / "predictions.parquet")
    facts = {
        "seconds": time.perf_counter() - start,
        "cpu": time.process_time() - start_cpu,
        "peak": 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
        "centres": len(model.centers_),
        "stages": model.report_.seconds,
        "report": str(model.report_),
    }
    if step == "fit":
        joblib.dump(model, kept)
    print(json.dumps(facts))


def in_process(step, folder, learn):
    command = [sys.executable, __file__, "--step", step, "--folder", str(folder), *(["--learn"] if learn else [])]
    shown = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(shown.stdout.splitlines()[-1])


def compare(sizes, width, learn):
    columns = "fit s", "CPU s", "MiB", "predict s", "CPU s", "MiB", "centres"
    print(f"{'rows':>12}" + "".join(f"{column:>10}" for column in columns) + "  stages of the fit")
    cpu, peak, report = [], 0, ""
    for n in sizes:
        folder = Path(tempfile.mkdtemp(prefix="nearfield-streaming-"))
        try:
            make_folder(folder / "data", n, width)
            fit, predict = (in_process(step, folder, learn) for step in ("fit", "predict"))
            assert pq.read_metadata(folder / "predictions.parquet").num_rows == n
        finally:
            shutil.rmtree(folder)
        figures = [f"{f(step):10.1f}" for step in (fit, predict) for f in FIGURES]
        stages = ", ".join(f"{name} {value:.1f}" for name, value in fit["stages"].items())
        print(f"{n:12,}" + "".join(figures) + f"{fit['centres']:10}  {stages}", flush=True)
        cpu.append((fit["cpu"], predict["cpu"]))
        peak, report = max(peak, fit["peak"], predict["peak"]), fit["report"]
    if len(sizes) > 1:
        slopes = [np.polyfit(np.log(sizes), np.log(column), 1)[0] for column in zip(*cpu, strict=True)]
        print(f"CPU time grows as N to the power of {slopes[0]:.2f} (fit) and {slopes[1]:.2f} (predict).")
    print(f"Peak memory {peak / 2**20:.0f} MiB: {'within' if peak <= LIMIT else 'ABOVE'} {LIMIT / 2**30:g} GiB.")
    print(report)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[2_000_000, 5_000_000, 20_000_000])
    parser.add_argument("--width", type=float, default=100.0, help="side of the square, in length scales")
    parser.add_argument("--learn", action="store_true", help="learn the hyperparameters and choose the plan")
    parser.add_argument("--step", choices=["fit", "predict"], help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.step:
        run(options.step, options.folder, options.learn)
    else:
        compare(options.rows, options.width, options.learn)


if __name__ == "__main__":
    main()
