"""Learning from tensors."""

import subprocess
import sys
import threading

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from nearfield.hyperparameters.request import LearningRequest
from nearfield.tensors import learning


def test_neighbours_on_the_earth_are_those_in_space(monkeypatch):
    """x, y and z have one length scale, whatever their spreads: near the pole that of z is small."""
    seen, nearest = [], learning.cells.nearest_points

    def noted(X, *rest):
        seen.append(X.numpy())
        return nearest(X, *rest)

    monkeypatch.setattr(learning.cells, "nearest_points", noted)
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.uniform(-1, 1, (3000, 2)), rng.uniform(0, 0.01, 3000), rng.uniform(0, 30, 3000)])
    given = (torch.as_tensor(X), torch.as_tensor(X[:, :1]), None, 1, True, np.random.RandomState(0))
    learning.summary(*given, tied=3)
    spreads = X.std(axis=0)
    for scaled in seen:
        np.testing.assert_allclose(scaled, X / np.append(np.full(3, np.linalg.norm(spreads[:3])), spreads[3]))


def test_linear_algebra_is_set_up_before_there_are_threads(monkeypatch):
    """PyTorch sets it up when it is first used, and not safely among threads."""
    callers, factorise = [], torch.linalg.cholesky_ex

    def noted(*args, **options):
        callers.append("main" if threading.current_thread() is threading.main_thread() else "other")
        return factorise(*args, **options)

    monkeypatch.setattr(torch.linalg, "cholesky_ex", noted)
    monkeypatch.setattr("nearfield.tensors.learning.summary", lambda *_: callers.append("summary") or _stop())
    X = torch.as_tensor(np.random.RandomState(0).uniform(size=(50, 2)))
    with pytest.raises(StopIteration):
        learning.learn(X, X[:, :1], None, LearningRequest(), np.random.RandomState(0))
    assert callers == ["main", "summary"]  # before anything is prepared that threads will work on


def _stop():
    raise StopIteration


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_the_first_fit_of_a_process_learns_on_a_gpu():
    code = (
        "import numpy as np, torch, nearfield as nf\n"
        "X = torch.as_tensor(np.random.RandomState(0).uniform(0, 9, (3000, 2)), device='cuda')\n"
        "nf.LocalGPRegressor(random_state=0, n_jobs=8).fit(X, torch.sin(X[:, 0]) + 0.1 * torch.randn_like(X[:, 0]))"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300)
