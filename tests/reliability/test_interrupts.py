"""Ctrl-C at any moment: the estimator, its file and the process are as they were, or the work is done.

A trace counts the lines of this package that a piece of work passes, and then raises at one of them. That is stricter
than Python, which looks for interrupts only where functions begin and loops turn; so in the module that must undo a
setting of the whole process come what may, the beginnings of functions count instead.
"""

import os
import sys
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone
from threadpoolctl import threadpool_info

import nearfield as nf
from nearfield.local.neighbourhoods import TrainingSet

from ..warned import few_features

pytestmark = few_features

POINTS = 2000 if os.environ.get("HYPOTHESIS_PROFILE") == "fuzz" else 25
HOME = str(Path(nf.__file__).parent)
GIVEN = {"length_scale": 0.3, "signal_variance": 1.0, "noise_variance": 0.01}


def data(seed, n=60):
    X = np.random.default_rng(seed).uniform(size=(n, 2))
    return X, np.sin(9 * X[:, 0])


def traced(work, stop_at):
    """Do the work, with an interrupt at the line of that number; the answer is how many lines were passed."""
    n = 0

    def count():
        nonlocal n
        n += 1
        if n == stop_at:
            raise KeyboardInterrupt

    def on_line(frame, event, argument):
        if event == "line":
            count()
        return on_line

    def on_call(frame, event, argument):
        if not frame.f_code.co_filename.startswith(HOME):
            return None
        if not frame.f_code.co_filename.endswith("threads.py"):
            return on_line
        if frame.f_lasti <= 2:  # a beginning, and not a generator that goes on
            count()
        return None

    before = sys.gettrace()
    sys.settrace(on_call)
    try:
        work()
    except KeyboardInterrupt:
        pass
    finally:
        sys.settrace(before)
    return n


def moments(work):
    """Numbers of lines to stop at: some of all, and the last ones, where work takes effect."""
    n = traced(work, None)
    some = np.random.default_rng(0).integers(1, n + 1, POINTS)
    return sorted({*some.tolist(), *range(max(n - 12, 1), n + 1)})


def surroundings():
    """What a fit has no business with."""
    return (
        [(library["filepath"], library["num_threads"]) for library in threadpool_info()],
        np.random.get_state()[1].tolist(),  # noqa: NPY002
        list(warnings.filters),
        threading.active_count(),
    )


def by_hand(n_jobs=None):
    return nf.LocalGPRegressor(
        **GIVEN,
        n_scales=1,
        features=nf.TaylorFeatures(degree=3),
        radius=1.5,
        spacing=1.0,
        random_state=0,
        n_jobs=n_jobs,
    )


ESTIMATORS = {
    "exact": lambda: nf.ExactGPRegressor(**GIVEN),
    "exact, learnt": lambda: nf.ExactGPRegressor(noise_variance=0.01, n_restarts=0, random_state=0),
    "features": lambda: nf.FeatureGPRegressor(nf.FourierFeatures(20, random_state=0), **GIVEN, random_state=0),
    "local": lambda: nf.LocalGPRegressor(**GIVEN, n_scales=1, random_state=0, n_jobs=2),
    "local, one thread": lambda: nf.LocalGPRegressor(**GIVEN, n_scales=1, random_state=0, n_jobs=1),
    "local by hand": lambda: by_hand(n_jobs=2),
}
TEST = data(9)[0]


@pytest.mark.parametrize("name", ESTIMATORS)
def test_fit(name):
    gp = ESTIMATORS[name]().fit(*data(0))
    finished = clone(gp).fit(*data(1, 80)).predict(TEST)
    before, answers, outside = dict(vars(gp)), gp.predict(TEST), surroundings()
    undone, points = 0, moments(lambda: clone(gp).fit(*data(1, 80)))
    for stop_at in points:
        trial = clone(gp)
        vars(trial).update(before)
        traced(lambda trial=trial: trial.fit(*data(1, 80)), stop_at)
        if "y_mean_" in vars(trial) and vars(trial)["y_mean_"] is before["y_mean_"]:
            assert vars(trial).keys() == before.keys()
            assert all(vars(trial)[key] is before[key] for key in before)
            np.testing.assert_array_equal(trial.predict(TEST), answers)
            undone += 1
        else:  # it came at the very end, or after it: what is kept for a second is not asked for again
            np.testing.assert_array_equal(trial.predict(TEST), finished)
        assert surroundings() == outside
    assert undone > len(points) / 2


def test_first_fit():
    """An estimator that was not fitted is not fitted."""
    finished = vars(by_hand().fit(*data(0))).keys()
    for stop_at in moments(lambda: by_hand().fit(*data(0))):
        gp = by_hand()
        traced(lambda gp=gp: gp.fit(*data(0)), stop_at)
        assert vars(gp).keys() in (vars(by_hand()).keys(), finished)


@pytest.mark.parametrize("name", ["features", "local by hand"])
def test_partial_fit(name):
    start = ESTIMATORS[name]().fit(*data(0))
    before = dict(vars(start))
    answers = start.predict(TEST)
    finished = clone(start).fit(*data(0)).partial_fit(*data(1)).predict(TEST)

    def continued():
        gp = clone(start)
        vars(gp).update(before)
        return gp

    for stop_at in moments(lambda: continued().partial_fit(*data(1))):
        gp = continued()
        traced(lambda gp=gp: gp.partial_fit(*data(1)), stop_at)
        unchanged = gp.y_mean_ is before["y_mean_"]
        np.testing.assert_array_equal(gp.predict(TEST), answers if unchanged else finished)
    np.testing.assert_array_equal(start.predict(TEST), answers)  # nothing was changed in place


def test_feature_map():
    X, wider = data(0)[0], np.column_stack([data(0)[0]] * 2)
    feature_map = nf.FourierFeatures(n_components=8, random_state=0).fit(X)
    before = dict(vars(feature_map))
    for stop_at in moments(lambda: clone(feature_map).fit(wider)):
        trial = clone(feature_map)
        vars(trial).update(before)
        traced(lambda trial=trial: trial.fit(wider), stop_at)
        assert trial.transform(wider if trial.n_features_in_ == 4 else X).shape == (60, 8)


def test_file(tmp_path):
    """The file is the old one or the new one, and nothing else is left beside it."""
    old, new, path = by_hand().fit(*data(0)), by_hand().fit(*data(1)), tmp_path / "model.nf"
    answers = [old.predict(TEST).tolist(), new.predict(TEST).tolist()]
    nf.save(old, path)
    for stop_at in moments(lambda: nf.save(new, tmp_path / "other.nf")):
        (tmp_path / "other.nf").unlink(missing_ok=True)
        nf.save(old, path)
        traced(lambda: nf.save(new, path), stop_at)
        assert nf.load(path).predict(TEST).tolist() in answers
        assert os.listdir(tmp_path) == ["model.nf"]


def test_a_lock_that_an_interrupt_left_locked_stops_nobody():
    """An index of points that is there is given without asking for its lock, and others have locks of their own."""
    points = np.random.RandomState(0).uniform(size=(50, 2))
    training = TrainingSet.of(points, points[:, :1], np.ones(50))
    tree = training.tree
    (lock,) = (value for key, value in training.indices.items() if key.startswith(b"lock"))
    lock.acquire()  # by this thread, and for good

    def ask():
        other = TrainingSet.of(points, points[:, :1], np.ones(50))
        return training.tree is tree and training.cells is not None and other.tree is not None

    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(ask).result(timeout=20)
