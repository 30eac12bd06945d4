"""The exact mean by iteration: time, iterations and residual by number of points, beside products in blocks.

    python benchmarks/exact_mean.py [--sizes 1e5 3e5 1e6] [--blocks 1e5]

Points are uniform in a plane, 15 per squared length scale, with signal variance 1 and noise variance 0.1; the relative
residual asked for is 1e-8. "set-up" is what comes before the first iteration: the tiles of the grid, or the lists of
near points, and the preconditioner. "CPU s" is the time of processors, for machines that are shared. The same systems
are solved with products in blocks up to the size given by `--blocks`. First, 10 000 points beside a dense solution.
"""

import time

import numpy as np
from scipy.linalg import cho_factor, cho_solve

import _common as common
from nearfield.kernels import Kernel
from nearfield.local import iteration
from nearfield.local.iteration import System
from nearfield.solvers.kernel_products import KernelProduct

KERNEL, NOISE, RESIDUAL = Kernel.gaussian(1.0), 0.1, 1e-8


def of_blocks(kernel, X, *, cutoff, n_jobs, max_pairs, **_):
    """The product as it was before grids."""
    return KernelProduct(kernel, X, cutoff=cutoff, n_jobs=n_jobs, max_pairs=max_pairs)


def solved(X, y, product=None):
    """Solution, name of the product, and seconds.

    Of setting up, of one product, of one application of the preconditioner, of solving, of all, and of processors.
    """
    chosen = iteration.kernel_product
    iteration.kernel_product = product or chosen
    try:
        start, start_cpu = time.perf_counter(), time.process_time()
        system = System.of(KERNEL, (), X, np.full(len(X), NOISE), np.random.RandomState(0), None)
        set_up, cpu = time.perf_counter() - start, time.process_time() - start_cpu
    finally:
        iteration.kernel_product = chosen
    y = y[:, None]
    _, of_product = common.timed(lambda: system.product(y))
    _, of_inverse = common.timed(lambda: system.precondition(y))
    start_cpu = time.process_time()
    solution, seconds = common.timed(lambda: system.solve(y, RESIDUAL))
    cpu += time.process_time() - start_cpu
    return solution, (set_up, of_product, of_inverse, seconds, set_up + seconds, cpu), type(system.kernel).__name__


def beside_dense(n, seed):
    X, y = common.plane(n, seed)
    K = KERNEL(X, X)
    expected = cho_solve(cho_factor(K + NOISE * np.eye(n), overwrite_a=True), y)
    mean = K @ expected
    for name, product in (("grid", None), ("blocks", of_blocks)):
        solution, _, _ = solved(X, y, product)
        weights = abs(solution.x[:, 0] - expected).max() / abs(expected).max()
        of_mean = abs(K @ solution.x[:, 0] - mean).max()
        print(f"{n} points, {name}: weights {weights:.1e} (relative) and means {of_mean:.1e} from a dense solution")
    print(flush=True)


def main():
    parser = common.parser(__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=float, nargs="*", default=[1e5, 3e5, 1e6])
    parser.add_argument("--blocks", type=float, default=1e5, help="largest size that is also solved with blocks")
    parser.add_argument("--dense", type=float, default=1e4, help="points beside a dense solution")
    arguments = parser.parse_args()
    if arguments.dense:
        beside_dense(int(arguments.dense), arguments.seed)
    rows, totals = [], []
    for n in map(int, arguments.sizes):
        X, y = common.plane(n, arguments.seed)
        for product in (None, of_blocks) if n <= arguments.blocks else (None,):
            solution, seconds, name = solved(X, y, product)
            if product is None:
                totals.append((n, *seconds[-2:]))
            laps, residual = [f"{lap:.2f}" for lap in seconds], f"{solution.relative_residuals[0]:.1e}"
            rows.append([f"{n:.0e}", name, *laps, solution.n_iterations, residual])
            print(rows[-1], flush=True)
    header = ["N", "product", "set-up s", "one product", "one inverse", "solve s", "total s", "CPU s"]
    common.table([*header, "iterations", "residual"], rows)
    if len(totals) > 1:
        sizes, *times = np.log(np.array(totals)).T
        exponents = [np.polyfit(sizes, lap, 1)[0] for lap in times]
        print(f"time grows like N^{exponents[0]:.2f}, that of processors like N^{exponents[1]:.2f}")


if __name__ == "__main__":
    main()
