"""A million training and a million test points in the plane, beside gradient boosting in the same run.

    python benchmarks/million.py [--size 1e6] [--draws 5]

Fixed hyperparameters, everything else chosen for the default tolerance, on several draws of data, since what is chosen
varies with the probes. Both fit and predict; nearfield with standard deviations. Loops are compiled before the first.
"""

import resource

import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor

import _common as common
import nearfield as nf

KERNEL = {"length_scale": 1.0, "signal_variance": 1.0, "noise_variance": 0.1, "n_scales": 1}


def main():
    parser = common.parser(__doc__.splitlines()[0])
    parser.add_argument("--size", type=float, default=1e6)
    parser.add_argument("--draws", type=int, default=5)
    arguments = parser.parse_args()
    n, rows = int(arguments.size), []
    for seed in range(arguments.seed, arguments.seed + arguments.draws):
        X, y = common.plane(2 * n, seed, density=30.0, n_waves=60)
        X, y, X_test, y_test = X[:n], y[:n], X[n:], y[n:]
        model = nf.LocalGPRegressor(**KERNEL, random_state=seed)
        if not rows:
            nf.LocalGPRegressor(**KERNEL, random_state=seed).fit(X, y).predict(X_test[:10], return_std=True)
        _, fit = common.timed(lambda: model.fit(X, y))  # noqa: B023
        (mean, _), predict = common.timed(lambda: model.predict(X_test, return_std=True))  # noqa: B023
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        boosting = HistGradientBoostingRegressor()
        guess, theirs = common.timed(lambda: boosting.fit(X, y).predict(X_test))  # noqa: B023
        errors = (f"{np.sqrt(np.mean((y_test - answer) ** 2)):.3f}" for answer in (mean, guess))
        seconds = [f"{model.report_.seconds[stage]:.2f}" for stage in ("tuning", "fitting")]
        times = [f"{fit + predict:.2f}", *seconds, f"{predict:.2f}", f"{theirs:.2f}"]
        rows.append([seed, *times, *errors, f"{peak:.2f}", model.report_.method])
    stages = ["nearfield s", "tuning", "fitting", "predicting"]
    header = ["draw", *stages, "boosting s", "RMSE", "boosting's", "peak GiB", "chosen"]
    common.table(header, rows)


if __name__ == "__main__":
    main()
