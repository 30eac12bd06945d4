"""A raster with clouds, filled by one line of xarray, beside the regressor on its cells.

    python benchmarks/raster_fill.py DATA

DATA holds `cloudy_field.csv.gz`: 360 x 260 cells, 30 % of them hidden. Prints one table: seconds, and the RMSE of the
cells that were hidden.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
import xarray as xr

import nearfield as nf
import nearfield.raster


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    table = np.genfromtxt(parser.parse_args().data / "cloudy_field.csv.gz", delimiter=",", names=True)
    hidden = table["is_test"] == 1
    x, y = np.unique(table["x"]), np.unique(table["y"])
    row, column = np.searchsorted(y, table["y"]), np.searchsorted(x, table["x"])
    values = np.full((len(y), len(x)), np.nan)
    values[row[~hidden], column[~hidden]] = table["z"][~hidden]
    image = xr.DataArray(values, {"y": y, "x": x}, name="z")
    truth = table["z"][hidden]
    print(f"{'':34} {'seconds':>8} {'RMSE':>8}")

    start = time.perf_counter()
    filled = image.nearfield.fill(return_std=True)
    seconds = time.perf_counter() - start
    mean = filled["mean"].values[row[hidden], column[hidden]]
    print(f"{'image.nearfield.fill(True)':34} {seconds:8.1f} {nf.metrics.rmse(truth, mean):8.4f}", flush=True)

    X = np.column_stack([table["y"], table["x"]])
    start = time.perf_counter()
    model = nf.LocalGPRegressor(random_state=0).fit(X[~hidden], table["z"][~hidden], X_test=X[hidden])
    mean, _ = model.predict(X[hidden], return_std=True)
    seconds = time.perf_counter() - start
    print(f"{'LocalGPRegressor, fit and predict':34} {seconds:8.1f} {nf.metrics.rmse(truth, mean):8.4f}")
    print(f"distance from exact: {filled['mean'].attrs['kl_from_exact_in_nats_per_point']:.1e} nats per point")


if __name__ == "__main__":
    main()
