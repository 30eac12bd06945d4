"""Where the time of a million points goes, and how near each stage is to what the machine can do.

    python benchmarks/roofline.py [--size 1e6]

Stages are timed on one thread, where they can be told apart, beside a matrix product and a copy on one thread in the
same run; then the whole is run again with all threads. Operations and bytes are counted, not measured: two per moment
and feature of a point, D^3 for a factorisation and an inverse, two for each coefficient of a polynomial. Compiled loops
are used where Numba is installed; `--without-loops` takes NumPy.
"""

import resource
import time
from collections import defaultdict
from contextlib import contextmanager

import numpy as np
from threadpoolctl import threadpool_limits

import _common as common
import nearfield as nf
from nearfield.local import centers, fast
from nearfield.local.features import LocalFeatures
from nearfield.local.moments import MomentMap, Monomials
from nearfield.local.neighbourhoods import TrainingSet
from nearfield.solvers import linalg

KERNEL = {"length_scale": 1.0, "signal_variance": 1.0, "noise_variance": 0.1, "n_scales": 1}


class Stopwatch:
    """Seconds spent inside functions, less those spent inside others that are watched too."""

    def __init__(self):
        self.seconds = defaultdict(float)
        self.work = defaultdict(float)
        self._stack = []

    @contextmanager
    def watching(self, *places):
        """Wrap (owner, name, stage, work of a call) for a while."""
        kept = [(owner, name, owner.__dict__[name]) for owner, name, _, _ in places]
        for owner, name, stage, work in places:
            setattr(owner, name, self._wrapped(getattr(owner, name), stage, work))
        try:
            yield
        finally:
            for owner, name, function in kept:
                setattr(owner, name, function)

    def _wrapped(self, function, stage, work):
        def call(*arguments, **options):
            began = time.perf_counter()
            self._stack.append(0.0)
            try:
                result = function(*arguments, **options)
            finally:
                took = time.perf_counter() - began
                inner = self._stack.pop()
                self.seconds[stage] += took - inner
                if self._stack:
                    self._stack[-1] += took
            self.work[stage] += work(result, *arguments)
            return result

        return call


class Loops:
    """The compiled loops, as functions that can be watched; filled in where there are any."""

    count = fit = predict = staticmethod(lambda *_: None)


def fit_work(_, centers, counts, *rest):
    """Of `compiled.fit`: the last arguments are what it fills in."""
    moments, cross = rest[-7], rest[-6]
    n_moments, D, k = moments.shape[1] * moments.shape[2] / 2, cross.shape[1], cross.shape[2]
    return 2.0 * counts.sum() * (n_moments + k * D) + len(centers) * D**3


def rates():
    """Operations a second of a product and bytes a second of a copy, on one thread."""
    A = np.random.default_rng(0).standard_normal((1500, 1500))
    a, b = np.empty(1 << 26), np.ones(1 << 26)
    product = min(common.timed(lambda: A @ A)[1] for _ in range(5))
    copy = min(common.timed(lambda: np.copyto(a, b))[1] for _ in range(5))
    return 2 * 1500**3 / product, 2 * a.nbytes / copy


def main():
    parser = common.parser(__doc__.splitlines()[0])
    parser.add_argument("--size", type=float, default=1e6)
    parser.add_argument("--tolerance", type=float, default=1e-3)
    parser.add_argument("--without-loops", action="store_true", help="NumPy, though Numba may be installed")
    arguments = parser.parse_args()
    n = int(arguments.size)
    X, y = common.plane(2 * n, arguments.seed, density=30.0)
    X, y, X_test = X[:n], y[:n], X[n:]
    watch = Stopwatch()
    operations = {"moments and solutions", "Cholesky", "inverses"}
    places = [
        (TrainingSet, "neighbourhoods", "neighbourhoods", lambda r, *_: sum(map(len, r)) * 8.0),
        (Monomials, "rows", "powers", lambda r, *_: 16.0 * (r[0].size + r[1].size)),
        (LocalFeatures, "missing_variance", "what features lack", lambda r, *_: 16.0 * r.size),
        (MomentMap, "sums", "sums", lambda *_: 0.0),
        (MomentMap, "expanded", "matrices from moments", lambda r, *_: 32.0 * r.gram.size),
        (MomentMap, "polynomial", "polynomials", lambda *_: 0.0),
        (MomentMap, "variance", "variances", lambda *_: 0.0),
        (MomentMap, "mean", "means", lambda *_: 0.0),
        (linalg, "cholesky_in_place", "Cholesky", lambda _, A: len(A) ** 3 / 3),
        (linalg, "inverse_in_place", "inverses", lambda _, A: 2 * len(A) ** 3 / 3),
        (centers, "place", "centres", lambda *_: 16.0 * n),
        (Loops, "count", "counting neighbours", lambda *_: 0.0),
        (Loops, "fit", "moments and solutions", fit_work),
        (Loops, "predict", "predictions", lambda *_: 0.0),
        (fast, "keys_of", "cells of points", lambda *_: 24.0 * n),
    ]
    if arguments.without_loops:
        fast.MIN_CENTERS = np.inf
    elif fast._loops() is not None:
        loops = fast._loops()
        Loops.count, Loops.fit, Loops.predict = map(staticmethod, (loops.count, loops.fit, loops.predict))
        fast._loops = lambda: Loops
    with threadpool_limits(1):
        product, copy = rates()
        model = nf.LocalGPRegressor(**KERNEL, tolerance=arguments.tolerance, n_jobs=1, random_state=0)
        tuned = nf.LocalGPRegressor(**KERNEL, tolerance=arguments.tolerance, n_jobs=1, random_state=0).fit(X, y)
        model.set_params(spacing=tuned.spacing_, radius=tuned.radius_)
        model.set_params(features=nf.TaylorFeatures(tuned.feature_map_.degrees[0]))
        with watch.watching(*places):
            _, fit = common.timed(lambda: model.fit(X, y))
            _, predict = common.timed(lambda: model.predict(X_test, return_std=True))
    watch.seconds["index of points"] = model.report_.seconds["tuning"]
    watch.seconds["the rest"] = fit + predict - sum(watch.seconds.values())
    print(
        f"{n} training and test points, {model.report_.n_centers} centres, {tuned.report_.method}; one thread: ", end=""
    )
    print(f"product {product / 1e9:.1f} GFLOP/s, copy {copy / 1e9:.1f} GB/s\n")
    rows = []
    for stage, seconds in sorted(watch.seconds.items(), key=lambda item: -item[1]):
        rate, unit, best = "", "", ""
        if watch.work[stage]:
            value = watch.work[stage] / seconds / 1e9
            rate, unit = f"{value:.1f}", "GFLOP/s" if stage in operations else "GB/s"
            best = f"{value * 1e9 / (product if stage in operations else copy):.0%}"
        rows.append([stage, f"{seconds:.2f}", f"{seconds / (fit + predict):.0%}", rate, unit, best])
    common.table(["stage, one thread", "s", "share", "rate", "", "of the machine's"], rows)

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    model = nf.LocalGPRegressor(**KERNEL, tolerance=arguments.tolerance, random_state=0)
    _, fit = common.timed(lambda: model.fit(X, y))
    _, predict = common.timed(lambda: model.predict(X_test, return_std=True))
    stages = ", ".join(f"{stage} {seconds:.2f}" for stage, seconds in model.report_.seconds.items())
    print(f"all threads: {fit + predict:.2f} s ({stages}, prediction {predict:.2f})")
    learnt = nf.LocalGPRegressor(n_scales=1, tolerance=arguments.tolerance, random_state=0).fit(X, y)
    print(f"learning the hyperparameters as well: {learnt.report_.seconds['learning']:.2f} s more")
    print(
        f"peak memory {max(before, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss) / 2**20:.2f} GiB, data included"
    )


if __name__ == "__main__":
    main()
