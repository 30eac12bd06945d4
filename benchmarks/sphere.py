"""What the globe costs: the same places in a plane of km and with metric="sphere".

Places of a region of 20 by 15 degrees around 42.5 degrees north, which a plane distorts little, with one and with three
given length scales. Processor time of `fit` and `predict` with standard deviations, and how far the answers are apart.

    python benchmarks/sphere.py [--points 10000]
"""

import argparse
import time

import numpy as np

import nearfield as nf

KM_PER_DEGREE = 111.195
SCALES = {
    "one scale": {"length_scale": 60.0, "signal_variance": 1.0},
    "three scales": {"length_scale": [15.0, 60.0, 400.0], "signal_variance": [0.1, 1.0, 2.0]},
}


def main():
    """Fit and predict both, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--points", type=int, default=10_000)
    n = parser.parse_args().points
    rng = np.random.default_rng(0)
    degrees = np.column_stack([rng.uniform(-10, 10, 2 * n), rng.uniform(35, 50, 2 * n)])
    plane = degrees * KM_PER_DEGREE * [np.cos(np.radians(42.5)), 1.0]
    lon, lat = degrees.T
    y = np.sin(lon) + np.cos(3 * lat) + 0.3 * np.sin(12 * lon) * np.cos(11 * lat) + 0.1 * rng.standard_normal(2 * n)
    print(f"{n} training and {n} test points            fit, s   predict, s      KL   difference of means")
    for name, given in SCALES.items():
        means = []
        for kind, X, metric in (("plane", plane, "euclidean"), ("sphere", degrees, "sphere")):
            model = nf.LocalGPRegressor(**given, noise_variance=0.01, metric=metric, n_jobs=1, random_state=0)
            start = time.process_time()
            model.fit(X[:n], y[:n])
            fitted = time.process_time()
            means.append(model.predict(X[n:], return_std=True)[0])
            seconds = fitted - start, time.process_time() - fitted
            apart = f"{np.sqrt(np.mean((means[-1] - means[0]) ** 2)):.3f}" if len(means) > 1 else ""
            told = f"{model.report_.divergence:.1e}"
            print(f"{name:14} {kind:24} {seconds[0]:10.1f} {seconds[1]:10.1f} {told:>12} {apart:>12}", flush=True)


if __name__ == "__main__":
    main()
