"""In a process that may not take more memory: work that fits is done, and what does not is refused with the number."""

import json
import subprocess
import sys
import textwrap

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits of address space are Linux's")

HEAD = """
import json, resource, sys, threading, warnings
import numpy as np
import nearfield as nf
from scipy.linalg.blas import dgemm
warnings.simplefilter("ignore")
rng = np.random.default_rng(0)
def data(n, d=2):
    X = rng.uniform(size=(n, d))
    return X, np.sin(9 * X[:, 0])
given = dict(length_scale=0.1, signal_variance=1.0, noise_variance=0.1, n_jobs=2)  # each thread has a stack
# Everything is imported and every thread pool made before the limit is set.
for gp, n in ((nf.LocalGPRegressor(**given), 3000), (nf.ExactGPRegressor(**given), 500),
              (nf.FeatureGPRegressor(nf.FourierFeatures(n_components=10), **given), 500)):
    gp.fit(*data(n)).predict(data(10)[0], return_std=True)
def used():
    return int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
# BLAS keeps a buffer for every thread that is in it at once, as large as the processor asks for, and ends the process
# or waits for ever where it gets none; NumPy and SciPy have one each. So all of them are taken now.
square = np.asfortranarray(np.ones((600, 600)))
def multiply(start):
    start.wait()
    square @ square
    dgemm(1.0, square, square)
quiet = 0
while quiet < 3:
    before, start = used(), threading.Barrier(4)
    threads = [threading.Thread(target=multiply, args=(start,)) for _ in range(4)]  # two of n_jobs, and some to spare
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    quiet = quiet + 1 if used() == before else 0
resource.setrlimit(resource.RLIMIT_AS, (used() + MEBIBYTES * 2**20,) * 2)
def outcome(work):
    try:
        work()
    except MemoryError as error:
        return str(error)
    return "done"
"""


def run(limit, body):
    code = HEAD.replace("MEBIBYTES", str(limit)) + textwrap.dedent(body) + "\nprint(json.dumps(result))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_what_does_not_fit_is_refused_before_it_is_allocated():
    """With the size it would take; NumPy's own failure to allocate names a shape instead."""
    result = run(
        400,
        """
        X, y = data(12_000)
        kernel = nf.LocalGPRegressor(**given, features="kernel", radius=1e3, spacing=1e3, n_scales=1)
        features = nf.TaylorFeatures(degree=150)
        taylor = nf.LocalGPRegressor(**given, features=features, radius=3.0, spacing=1.0, n_scales=1)
        many = nf.FeatureGPRegressor(nf.FourierFeatures(n_components=8000), **given)
        local = nf.LocalGPRegressor(**given).fit(X[:3000], y[:3000])
        exact = nf.ExactGPRegressor(**given).fit(X[:500], y[:500])
        result = {
            "exact": outcome(lambda: nf.ExactGPRegressor(**given).fit(X, y)),
            "several scales": outcome(lambda: nf.ExactGPRegressor().set_params(length_scale=[0.1, 1.0], n_scales=2,
                                      signal_variance=[1.0, 1.0], noise_variance=0.1).fit(X[:7000], y[:7000])),
            "kernel space": outcome(lambda: kernel.fit(X, y)),
            "degree": outcome(lambda: taylor.fit(X, y)),
            "features": outcome(lambda: many.fit(X, y)),
            "covariance": outcome(lambda: exact.predict(X, return_cov=True)),
            "draws": outcome(lambda: exact.sample_y(X, 10_000)),
            "local draws": outcome(lambda: local.sample_y(X, 10_000)),
            "local covariance": outcome(lambda: local.predict(X, return_cov=True)),
            "wide": outcome(lambda: nf.LocalGPRegressor(**given).fit(np.broadcast_to(X[:1, :1], (12_000, 1000)), y)),
        }
        """,
    )
    for what, message in result.items():
        assert " needs " in message, what
        assert " are free. " in message, what


def test_what_fits_is_done_in_chunks():
    """Answers that would not fit at once: 20 000 points beside 800 samples, and 300 features of them."""
    result = run(
        100,
        """
        X, y = data(20_000)
        exact = nf.ExactGPRegressor(**given).fit(X[:800], y[:800])
        local = nf.LocalGPRegressor(**given)
        features = nf.FeatureGPRegressor(nf.FourierFeatures(n_components=300, random_state=0), **given)
        result = {
            "exact": outcome(lambda: exact.predict(X, return_std=True)),
            "features": outcome(lambda: features.fit(X, y).predict(X, return_std=True)),
            "local": outcome(lambda: local.fit(X, y).predict(X, return_std=True)),
            "draws": outcome(lambda: exact.sample_y(X, 20)),
            "local draws": outcome(lambda: local.sample_y(X, 20)),
        }
        """,
    )
    assert set(result.values()) == {"done"}, result
