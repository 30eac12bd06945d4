"""Data that arrive in pieces: `partial_fit` at fixed hyperparameters and centres.

Features sum over data points, so a model that took its data in ten pieces equals one that saw everything at once. The
first piece settles the hyperparameters, the centres and the approximation.
"""

import time

import numpy as np

import nearfield as nf


def main():
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


def make_data(n, seed=0):
    """Points of a square and a wavy function of them; noise only on the data to learn from (seed 0)."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(0, 20, (n, 2))
    truth = np.sin(X[:, 0]) * np.cos(0.7 * X[:, 1]) + 0.5 * np.sin(0.3 * X[:, 0] * X[:, 1] / 10)
    return X, truth + (0.3 * rng.standard_normal(n) if seed == 0 else 0)


if __name__ == "__main__":
    main()
