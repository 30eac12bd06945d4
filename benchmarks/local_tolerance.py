"""Is the tolerance kept, and is the report's estimate right? Against the exact Gaussian process, on many data sets."""

import numpy as np

import _common as common
import nearfield as nf

DATA = ("sinc", *(name for name in common.FILES if name != "yacht"))


def load(name, arguments):
    if name == "sinc":
        rng = np.random.RandomState(arguments.seed)
        X = rng.uniform(-1.5, 1.5, (8000, 1))
        return X, np.sinc(5 * X[:, 0]) + 0.1 * rng.standard_normal(len(X))
    loaded = common.load(name, arguments.data_dir)
    if loaded is not None and name == "US elevation":
        X, y, _, _ = common.split(*loaded, 15_000, 1)
        return X, y
    return loaded


def hold_out_blocks(X, y, n_train, seed, n_test):
    """Test points of whole blocks of the map, none of whose points are in training."""
    rng = np.random.RandomState(seed)
    sides = np.ptp(X, axis=0) / 12
    cells = np.floor((X - X.min(axis=0)) / sides).astype(int) @ [1000, 1]
    chosen = rng.permutation(np.unique(cells))
    sizes = np.cumsum([np.sum(cells == cell) for cell in chosen])
    held_out = np.isin(cells, chosen[: np.searchsorted(sizes, 0.2 * len(X)) + 1])
    train, test = (rng.permutation(np.flatnonzero(rows)) for rows in (~held_out, held_out))
    return X[train[:n_train]], y[train[:n_train]], X[test[:n_test]], y[test[:n_test]]


def main():
    parser = common.parser(__doc__)
    parser.add_argument("--blocked", action="store_true", help="test points are whole blocks of the map")
    parser.add_argument("--data", nargs="*", default=DATA, choices=DATA)
    parser.add_argument("--scales", type=int, default=1, help="length scales of the kernel (default: 1)")
    arguments = parser.parse_args()
    rows = []
    for name in arguments.data:
        loaded = load(name, arguments)
        if loaded is None or (arguments.blocked and loaded[0].shape[1] != 2):  # blocks are those of a map
            continue
        n = min(10_000, int(0.75 * len(loaded[0])))
        split = hold_out_blocks if arguments.blocked else common.split
        X, y, X_test, _ = split(*loaded, n, arguments.seed, 2500)
        exact = nf.ExactGPRegressor(n_scales=arguments.scales, ard=False, random_state=arguments.seed).fit(X, y)
        (mean_ref, std_ref), _ = common.timed(lambda: exact.predict(X_test, return_std=True, include_noise=True))  # noqa: B023
        for tolerance in (1e-2, 1e-3, 1e-4):
            model = nf.LocalGPRegressor(
                length_scale=exact.length_scale_,
                signal_variance=exact.signal_variance_,
                noise_variance=exact.noise_variance_,
                n_scales=exact.kernel_.n_scales,
                tolerance=tolerance,
                random_state=arguments.seed,
            )
            known = {"X_test": X_test} if arguments.blocked else {}
            _, seconds = common.timed(lambda: model.fit(X, y, **known))  # noqa: B023
            mean, std = model.predict(X_test, return_std=True, include_noise=True)
            true = nf.metrics.kl_divergence(mean, std**2, mean_ref, std_ref**2).mean()
            report = model.report_
            estimate = report.divergence if arguments.blocked else report.divergence_near_data
            ratio = "" if estimate == 0 else f"{estimate / true:.2f}"
            rows.append(
                [
                    f"{name} ({n}), {exact.kernel_.n_scales} scales",
                    f"{tolerance:g}",
                    f"{true:.1e}",
                    f"{estimate:.1e}",
                    ratio,
                    "yes" if true <= tolerance else "NO",
                    f"{seconds:.2f}",
                    f"{sum(t[2] for t in report.trials[-1:]):.1e}",
                    report.method,
                    report.n_centers,
                ]
            )
    header = ["data", "tolerance", "true KL", "estimate", "ratio", "kept", "fit s", "operations", "method", "centres"]
    common.table(header, rows)


if __name__ == "__main__":
    main()
