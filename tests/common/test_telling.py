"""Who is told of work deep inside a fit."""

import numpy as np
import pytest

import nearfield as nf
from nearfield.common.telling import tell, telling
from nearfield.common.threads import thread_map
from nearfield.solvers import linalg


def test_those_who_asked_are_told_and_nobody_else():
    told = []
    tell("before", 0.5)
    with telling(lambda *each: told.append(each)):
        tell("stage", 0.5, 3.0)
        thread_map(lambda i: tell(f"thread {i}", 1.0), range(2), 2)
        with telling(None):
            tell("nobody", 0.5)
    tell("after", 0.5)
    assert sorted(told) == [("stage", 0.5, 3.0), ("thread 0", 1.0, 0.0), ("thread 1", 1.0, 0.0)]


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_shared_out_work_tells_how_much_is_done(n_jobs):
    told = []
    with telling(lambda stage, done, _: told.append((stage, done))):
        assert thread_map(abs, [-1, -2, -3, -4], n_jobs, "stage") == [1, 2, 3, 4]
    assert told == [("stage", 0.25), ("stage", 0.5), ("stage", 0.75), ("stage", 1.0)]


def test_long_factorisations_and_the_noise_of_a_fit_are_told(monkeypatch):
    monkeypatch.setattr(linalg, "PANEL", 32)
    rng = np.random.RandomState(0)
    X = rng.uniform(0, 5, (100, 5))
    shares = {}

    def progress(stage, done, _):
        shares.setdefault(stage, []).append(done)

    nf.LocalGPRegressor(length_scale=1.0, random_state=0, progress=progress).fit(X, X[:, 0] + rng.normal(size=100))
    assert shares["noise"] == [0.0, 1.0]
    assert len(shares["factorising"]) % 4 == 0
    assert shares["factorising"][:4] == sorted(shares["factorising"][:4])
    assert shares["factorising"][3] == 1.0
