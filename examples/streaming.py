"""Data that arrive in pieces, and files larger than memory.

Features sum over data points, so a model that took its data in ten pieces equals one that saw everything at once. The
first piece, or a random sample, settles the hyperparameters, the centres and the approximation.
"""

import tempfile
import time
from pathlib import Path

import numpy as np

import nearfield as nf
from nearfield.sources import ParquetSource, predict_to


def main():
    """Three ways to give a model more data than fit into memory at once."""
    pieces_by_partial_fit()
    print()
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        print("A folder of Parquet files needs pyarrow: pip install 'nearfield[parquet]'.")
        return
    with tempfile.TemporaryDirectory() as folder:
        a_folder_of_files(Path(folder))


def pieces_by_partial_fit():
    """Take the data in piece by piece, then compare with all at once."""
    X, y = make_data(50_000)
    X_test, y_test = make_data(5000, seed=1)
    pieces = np.array_split(np.arange(len(X)), 10)

    model = nf.LocalGPRegressor(n_scales=1, random_state=0)
    print("  points   RMSE to the truth   mean std   seconds")
    for i, piece in enumerate(pieces):
        start = time.perf_counter()
        model.partial_fit(X[piece], y[piece])  # the first call is `fit`
        seconds = time.perf_counter() - start
        mean, std = model.predict(X_test, return_std=True)
        rmse = nf.metrics.rmse(y_test, mean)
        print(f"{(i + 1) * len(piece):8}   {rmse:17.4f}   {std.mean():8.4f}   {seconds:7.2f}")

    whole = nf.LocalGPRegressor(
        length_scale=model.length_scale_,
        signal_variance=model.signal_variance_,
        noise_variance=model.noise_variance_,
        spacing=model.spacing_,
        radius=model.radius_,
        features=nf.TaylorFeatures(model.feature_map_.maps[0].degree),
        centers=model.centers_,
    ).fit(X, y)
    difference = np.abs(whole.predict(X_test) - mean).max()
    print(f"Largest difference from a model that saw all {len(X)} points at once: {difference:.1e}")

    model.partial_fit(X[pieces[-1]], y[pieces[-1]], forget=True)
    print(f"Having forgotten all but the last piece it knows {model.report_.n_samples} points.")


def a_folder_of_files(folder):
    """Fit from a folder of Parquet files, and write predictions beside it; neither is ever whole in memory."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    (folder / "data").mkdir()
    for i in range(4):
        X, y = make_data(60_000, seed=10 + i, noise=0.3)
        pq.write_table(pa.table({"east": X[:, 0], "north": X[:, 1], "height": y}), folder / "data" / f"{i}.parquet")

    source = ParquetSource(folder / "data", target="height")
    model = nf.LocalGPRegressor(random_state=0).fit(source)
    print(model.report_)
    n = predict_to(model, source, folder / "predictions.parquet")
    first = pq.read_table(folder / "predictions.parquet").slice(0, 1).to_pylist()[0]
    print(f"{n} predictions, in the order of the rows; the first: mean {first['mean']:.3f}, std {first['std']:.3f}")


def make_data(n, seed=0, noise=None):
    """Points of a square and a wavy function of them; noise only on the data to learn from."""
    rng = np.random.default_rng(seed)
    noise = (0.3 if seed == 0 else 0.0) if noise is None else noise
    X = rng.uniform(0, 20, (n, 2))
    truth = np.sin(X[:, 0]) * np.cos(0.7 * X[:, 1]) + 0.5 * np.sin(0.3 * X[:, 0] * X[:, 1] / 10)
    return X, truth + noise * rng.standard_normal(n)


if __name__ == "__main__":
    main()
