"""Real data with the defaults, end to end: each line in a fresh process, everything learnt.

    python benchmarks/real.py [--only uk_sales kin8nm] [--time-budget 20] [--seed 0] [--fits 1] [--out figures.jsonl]

"fit" and "predict" are seconds on the clock (prediction of all test rows with standard deviations), "CPU" is the time
of processors of both, "GiB" the largest memory of the process. RMSE, NLL and CRPS are those of observations, "in 95 %"
the share of test rows inside their intervals, "distance" what the report says, in nats per point.
"""

import json
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd

import _common as common

# file, inputs (None: all but the last column), whether to take the logarithm of the target
REAL = {
    "uk_sales": ("uk_sales_2020-12", ["easting_km", "northing_km"], False),
    "us_elevation_gaps": ("us_elevation_gaps", ["lon", "lat"], False),
    "water_vapour": ("water_vapour", ["x", "y"], True),
    "cloudy_field": ("cloudy_field", ["x", "y"], False),
    "kaust_rough": ("kaust_matern_rough", ["x", "y"], False),
    "kaust_smooth": ("kaust_matern_smooth", ["x", "y"], False),
    "uk_flats": ("uk_flats_2020-12", ["lon", "lat"], False),
    "lucas": ("lucas_county_house_sales", ["x_coord", "y_coord"], False),
    "california_2": ("california_housing", ["longitude", "latitude"], True),
    "kin8nm": ("kin8nm", None, False),
    "power_plant": ("power_plant", None, False),
    "california_8": ("california_housing", None, True),
    "parkinsons": ("tables/parkinsons", None, False),
    "sml": ("tables/sml", None, False),
    "keggdirected": ("tables/keggdirected", None, False),
}


def load(name, data_dir, seed):
    """Rows to learn from and rows to predict: those marked in the file, or a fifth at random."""
    file, columns, logarithm = REAL[name]
    table = pd.read_csv(Path(data_dir) / f"{file}.csv.gz")
    if "is_test" in table:
        is_test = table.pop("is_test").to_numpy() == 1
    else:
        is_test = np.random.RandomState(seed).permutation(len(table)) < len(table) // 5
    X = (table[columns] if columns else table.iloc[:, :-1]).to_numpy(float)
    y = table.iloc[:, -1].to_numpy(float)
    y = np.log(y) if logarithm else y
    return X[~is_test], y[~is_test], X[is_test], y[is_test]


def measure(name, data_dir, seed, fits, options):
    """Figures of one data set, of the last of some fits."""
    import nearfield as nf

    X, y, X_test, y_test = load(name, data_dir, seed)
    start_cpu = time.process_time()
    for _ in range(fits):
        model, fit = common.timed(lambda: nf.LocalGPRegressor(random_state=seed, **options).fit(X, y))
    (mean, _), predict = common.timed(lambda: model.predict(X_test, return_std=True))
    cpu = (time.process_time() - start_cpu) / fits
    distribution, (low, high) = model.predict_distribution(X_test), model.predict_interval(X_test, 0.95)
    return {
        "data": name,
        "rows x columns": f"{len(X)} x {X.shape[1]}",
        "fit": round(fit, 1),
        "predict": round(predict, 1),
        "CPU": round(cpu, 1),
        "GiB": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2),
        "RMSE": f"{nf.metrics.rmse(y_test, mean):.5g}",
        "NLL": f"{-np.mean(distribution.logpdf(y_test)):.4f}",
        "CRPS": f"{nf.metrics.crps(y_test, distribution):.4g}",
        "in 95 %": f"{100 * np.mean((low <= y_test) & (y_test <= high)):.1f}",
        "distance": f"{model.report_.divergence:.1e}",
        "method": model.report_.method,
        "seconds": {stage: round(seconds, 1) for stage, seconds in model.report_.seconds.items()},
    }


def main():
    parser = common.parser(__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=REAL, default=list(REAL))
    parser.add_argument("--time-budget", type=float, help="seconds; the default of the library otherwise")
    parser.add_argument("--fits", type=int, default=1, help="the first compiles loops; seconds are those of the last")
    parser.add_argument("--out", type=Path, help="file to which a line of JSON per data set is added")
    parser.add_argument("--here", action="store_true", help="in this process, as JSON")
    arguments = parser.parse_args()
    if not arguments.data_dir:
        parser.error("name the folder of the data sets by --data-dir or NEARFIELD_DATA")
    options = {} if arguments.time_budget is None else {"time_budget": arguments.time_budget}
    if arguments.here:
        [name] = arguments.only
        print(json.dumps(measure(name, arguments.data_dir, arguments.seed, arguments.fits, options)))
        return
    rows = []
    for name in arguments.only:
        command = [sys.executable, __file__, *sys.argv[1:], "--here", "--only", name]
        child = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        line = child.stdout.splitlines()[-1]
        rows.append(json.loads(line))
        print(
            f"{name}: {rows[-1]['fit']} + {rows[-1]['predict']} s, {rows[-1]['seconds']}", file=sys.stderr, flush=True
        )
        if arguments.out:
            with arguments.out.open("a") as file:
                file.write(line + "\n")
    shown = [key for key in rows[0] if key != "seconds"]
    common.table(shown, [[row[key] for key in shown] for row in rows])


if __name__ == "__main__":
    main()
