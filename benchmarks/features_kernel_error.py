"""How far feature maps are from the Gaussian kernel: relative Frobenius error of the kernel matrix against D.

On the inputs of kin8nm (standardised, length scale 2.15), or on uniform points of the same shape where no data
folder is given.
"""

import argparse
import os
from pathlib import Path

import numpy as np
from scipy.spatial.distance import cdist

from nearfield import FourierFeatures, MaclaurinFeatures

LENGTH_SCALE = 2.15
MAPS = {
    "Maclaurin, exact low degrees": (MaclaurinFeatures, {}),
    "Maclaurin, TensorSRHT": (MaclaurinFeatures, {"exact_degrees": 0, "sampling": "tensor_srht"}),
    "Maclaurin, Rademacher": (MaclaurinFeatures, {"exact_degrees": 0, "sampling": "rademacher"}),
    "Fourier, Gaussian": (FourierFeatures, {"sampling": "gaussian"}),
    "Fourier, orthogonal": (FourierFeatures, {"sampling": "orthogonal"}),
    "Fourier, structured": (FourierFeatures, {"sampling": "structured"}),
}


def inputs(data_dir):
    path = Path(data_dir or "") / "kin8nm.csv.gz"
    if data_dir and path.exists():
        X, name = np.loadtxt(path, delimiter=",", skiprows=1)[:, :-1], "kin8nm"
    else:
        X, name = np.random.RandomState(0).uniform(size=(8192, 8)), "uniform points"
    return (X - X.mean(axis=0)) / X.std(axis=0), name


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-dir", default=os.environ.get("NEARFIELD_DATA"), help="folder with kin8nm.csv.gz")
    parser.add_argument("--points", type=int, default=3000, help="size of the kernel matrix")
    parser.add_argument("--seeds", type=int, default=5)
    arguments = parser.parse_args()

    X, name = inputs(arguments.data_dir)
    X_kernel = X[: arguments.points]
    kernel = np.exp(cdist(X_kernel, X_kernel, "sqeuclidean") / (-2 * LENGTH_SCALE**2))
    norm = np.linalg.norm(kernel)

    def mean_error(cls, parameters, n_components):
        errors = []
        for seed in range(arguments.seeds):
            features = cls(n_components, length_scale=LENGTH_SCALE, random_state=seed, **parameters).fit(X)
            phi = features.transform(X_kernel)
            errors.append(np.linalg.norm(phi @ phi.T - kernel) / norm)
        return np.mean(errors)

    sizes = [32, 64, 128, 256, 512, 1024]
    print(f"{name}, {len(X_kernel)} points, l = {LENGTH_SCALE}, mean of {arguments.seeds} seeds\n")
    print(f"| {'D':28} |" + "".join(f" {D:6} |" for D in sizes))
    print(f"|{'-' * 30}|" + "-------:|" * len(sizes))
    for label, (cls, parameters) in MAPS.items():
        errors = [mean_error(cls, parameters, D) for D in sizes]
        print(f"| {label:28} |" + "".join(f" {error:.4f} |" for error in errors), flush=True)


if __name__ == "__main__":
    main()
