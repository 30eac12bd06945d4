"""The demo, and two questions about it. `make demo` or `nearfield demo` runs the demo itself.

`--transforms` compares transformations of the target by held-out NLL. `--exact` fits the exact process, too: some
5 GiB and several minutes. Data, model and pictures are those of `nearfield.cli.airports`.
"""

import argparse
import sys
import time

import numpy as np
from threadpoolctl import threadpool_limits

import nearfield as nf
from nearfield import cli
from nearfield.cli import airports

# name -> (transform of an elevation in metres, logarithm of its derivative)
TRANSFORMS = {
    "none": (lambda e: e, np.zeros_like),
    "asinh(e / 100 m)": (lambda e: np.arcsinh(e / 100), lambda e: -0.5 * np.log(1e4 + e**2)),
    "signed square root": (lambda e: np.sign(e) * np.sqrt(abs(e)), lambda e: -np.log(2) - 0.5 * np.log(abs(e))),
    "cube root": (np.cbrt, lambda e: -np.log(3) - 2 / 3 * np.log(abs(e))),
}


def main():
    """Run the demo, or answer one of the questions."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", default="demo", help="folder for the pictures (default: demo)")
    parser.add_argument("--transforms", action="store_true", help="compare transformations of the target, then stop")
    parser.add_argument(
        "--exact", action="store_true", help="compare with the exact GP, then stop: some 5 GiB and minutes"
    )
    arguments = parser.parse_args()
    if arguments.transforms:
        compare_transforms()
    elif arguments.exact:
        compare_with_exact()
    else:
        sys.exit(cli.main(["demo", "--out", arguments.out]))


def compare_transforms():
    """Print the held-out NLL of each transformation of the target."""
    data = airports.load()
    X, elevation, train, test = data.places, data.elevation, data.train, data.test
    for name, (transform, log_derivative) in TRANSFORMS.items():
        model = nf.LocalGPRegressor(metric="sphere", n_scales=1, tolerance=1e-2, random_state=0).fit(
            X[train], transform(elevation[train])
        )
        distribution = model.predict_distribution(X[test])
        truth = transform(elevation[test])
        nll = -np.mean(distribution.logpdf(truth) + log_derivative(elevation[test]))
        low, high = distribution.interval(0.95)
        covered = np.mean((truth >= low) & (truth <= high))
        print(f"{name:20} NLL {nll:.3f}, 95 % coverage {100 * covered:.1f} %", flush=True)


def compare_with_exact():
    """Print the true distance at the test points."""
    data = airports.load()
    X, train, test = data.places, data.train, data.test
    roots = np.cbrt(data.elevation[train])
    model = nf.LocalGPRegressor(
        metric="sphere", n_scales=1, tolerance=1e-2, noise="constant", likelihood="gaussian", random_state=0
    ).fit(X[train], roots)
    print("Fitting the exact GP at the same hyperparameters", end=" ... ", flush=True)
    start = time.perf_counter()
    exact = nf.ExactGPRegressor(
        metric="sphere",
        length_scale=model.length_scale_,
        signal_variance=model.signal_variance_,
        noise_variance=model.noise_variance_,
        n_scales=np.size(model.length_scale_),
    )
    with threadpool_limits(1):  # some versions of OpenBLAS crash when they factorise so large a matrix in threads
        exact.fit(X[train], roots)
        mean_ref, std_ref = exact.predict(X[test], return_std=True, include_noise=True)
    mean, std = model.predict(X[test], return_std=True, include_noise=True)
    kl = nf.metrics.kl_divergence(mean, std**2, mean_ref, std_ref**2)
    print(f"{time.perf_counter() - start:.0f} s")
    print(f"True distance at the {len(test)} test points: {kl.mean():.1e} nats of KL per point.")


if __name__ == "__main__":
    main()
