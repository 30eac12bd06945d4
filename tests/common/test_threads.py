"""How many threads `n_jobs` asks for."""

import joblib
import pytest

from nearfield.common import threads
from nearfield.common.threads import n_threads


@pytest.fixture
def many_cores(monkeypatch):
    threads._n_cores.cache_clear()
    monkeypatch.setattr(joblib, "cpu_count", lambda: 8)
    yield
    threads._n_cores.cache_clear()


@pytest.mark.usefixtures("many_cores")
@pytest.mark.parametrize(("n_jobs", "expected"), [(None, 8), (3, 3), (-1, 8), (-3, 6), (-20, 1)])
def test_none_is_every_core_and_negative_numbers_count_back(n_jobs, expected):
    assert n_threads(n_jobs) == expected


@pytest.mark.usefixtures("many_cores")
def test_none_is_one_in_a_worker_of_joblib():
    within = joblib.Parallel(2, backend="threading")(joblib.delayed(n_threads)(n) for n in (None, None, 3))
    assert within == [1, 1, 3]
    assert n_threads(None) == 8


def test_a_number_that_joblib_was_told_holds():
    with joblib.parallel_config(n_jobs=3):
        assert n_threads(None) == 3


@pytest.mark.parametrize("n_jobs", [0, True, 1.5])
def test_what_is_no_number_of_threads_is_refused(n_jobs):
    with pytest.raises(ValueError, match="n_jobs"):
        n_threads(n_jobs)
