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


def main():
    parser = common.parser(__doc__)
    parser.add_argument("--data", nargs="*", default=DATA, choices=DATA)
    parser.add_argument("--scales", type=int, default=1, help="length scales of the kernel (default: 1)")
    arguments = parser.parse_args()
    rows = []
    for name in arguments.data:
        loaded = load(name, arguments)
        if loaded is None:
            continue
        n = min(10_000, int(0.75 * len(loaded[0])))
        X, y, X_test, _ = common.split(*loaded, n, arguments.seed, 2500)
        exact = nf.ExactGPRegressor(n_scales=arguments.scales, random_state=arguments.seed).fit(X, y)
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
            _, seconds = common.timed(lambda: model.fit(X, y))  # noqa: B023
            mean, std = model.predict(X_test, return_std=True, include_noise=True)
            true = nf.metrics.kl_divergence(mean, std**2, mean_ref, std_ref**2).mean()
            report = model.report_
            ratio = "" if report.divergence == 0 else f"{report.divergence / true:.2f}"
            rows.append(
                [
                    f"{name} ({n}), {exact.kernel_.n_scales} scales",
                    f"{tolerance:g}",
                    f"{true:.1e}",
                    f"{report.divergence:.1e}",
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
