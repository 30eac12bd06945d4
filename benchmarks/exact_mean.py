"""The exact mean by iteration: time, iterations and residual by number of points, beside products in blocks.

    python benchmarks/exact_mean.py [--sizes 1e5 3e5 1e6] [--blocks 1e5]

Points are uniform in a plane, 15 per squared length scale, with signal variance 1 and noise variance 0.1; the relative
residual asked for is 1e-8. "set-up" is what comes before the first iteration: the tiles of the grid, or the lists of
near points, and the preconditioner. The same systems are solved with products in blocks up to the size given by
`--blocks`. First, ten thousand points beside a dense solution.
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
    """Solution, and seconds of setting up, of one product, of one application of the preconditioner, and of solving."""
    chosen = iteration.kernel_product
    iteration.kernel_product = product or chosen
    try:
        start = time.perf_counter()
        system = System.of(KERNEL, (), X, np.full(len(X), NOISE), np.random.RandomState(0), None)
        set_up = time.perf_counter() - start
    finally:
        iteration.kernel_product = chosen
    y = y[:, None]
    _, of_product = common.timed(lambda: system.product(y))
    _, of_inverse = common.timed(lambda: system.precondition(y))
    solution, seconds = common.timed(lambda: system.solve(y, RESIDUAL))
    return solution, (set_up, of_product, of_inverse, seconds), type(system.kernel).__name__


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
            total = seconds[0] + seconds[-1]
            if product is None:
                totals.append((n, total))
            laps, residual = [f"{lap:.2f}" for lap in seconds], f"{solution.relative_residuals[0]:.1e}"
            rows.append([f"{n:.0e}", name, *laps, f"{total:.1f}", solution.n_iterations, residual])
            print(rows[-1], flush=True)
    header = ["N", "product", "set-up s", "one product", "one inverse", "solve s", "total s", "iterations", "residual"]
    common.table(header, rows)
    if len(totals) > 1:
        exponent = np.polyfit(*np.log(np.array(totals)).T, 1)[0]
        print(f"time grows like N^{exponent:.2f}")


if __name__ == "__main__":
    main()
