"""What the exact process costs: matrix, factorisation, left-out residuals and predictions, by number of rows.

    python benchmarks/exact.py [--sizes 1500 5000 10000 14000]

Rows have eight columns and given hyperparameters. "operations / s" is what `nearfield.local.exact_budget` divides the
time budget by: a third of n³ multiplications, over the seconds of the factorisation. The local approximation of 1500
rows in two columns stands beside it: choosing one costs as much as the exact process does there.
"""

import resource

import numpy as np

import _common as common
from nearfield import LocalGPRegressor
from nearfield.kernels import Kernel
from nearfield.solvers import left_out, linalg
from nearfield.solvers.factors import Cholesky, with_diagonal
from nearfield.solvers.kernel_space import KernelSpace, covariance_matrix


def costs(n, seed):
    rng = np.random.default_rng(seed)
    X, kernel, noise = rng.standard_normal((n, 8)), Kernel.gaussian(3.0), np.full(n, 0.1)
    K, of_matrix = common.timed(lambda: np.asfortranarray(covariance_matrix(kernel, X)))
    _, of_factor = common.timed(lambda: linalg.cholesky_in_place(with_diagonal(K, noise)))
    factor, y = Cholesky(K), rng.standard_normal((n, 1))
    model = KernelSpace(kernel, X, noise, factor, factor.solve(y), np.zeros(1))
    rows, places = rng.choice(n, min(n, 2000), replace=False), rng.standard_normal((1000, 8))
    _, of_left_out = common.timed(lambda: left_out.of_kernel_space(model, rows))
    _, of_places = common.timed(lambda: model.mean_and_variance(places))
    return of_matrix, of_factor, of_left_out, of_places


def main():
    parser = common.parser(__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=[1500, 5000, 10_000, 14_000])
    options = parser.parse_args()
    print("  rows   matrix s   factor s   2000 left out s   1000 std s   operations / s   peak GiB")
    for n in options.sizes:
        of_matrix, of_factor, of_left_out, of_places = costs(n, options.seed)
        speed = n**3 / 3 / of_factor
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        print(
            f"{n:>6} {of_matrix:>10.2f} {of_factor:>10.2f} {of_left_out:>17.2f} {of_places:>12.2f} {speed:>16.1e} "
            f"{peak:>10.1f}"
        )
    X, y = common.plane(1600, options.seed)
    given = {"length_scale": 1.0, "signal_variance": 1.0, "noise_variance": 0.1, "random_state": 0}
    LocalGPRegressor(**given).fit(X, y)  # the first call loads compiled loops
    _, seconds = common.timed(lambda: LocalGPRegressor(**given).fit(X, y))
    print(f"A local approximation of 1600 rows in two columns: {seconds:.2f} s")


if __name__ == "__main__":
    main()
