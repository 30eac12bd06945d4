from nearfield.common import compiling
from nearfield.common.telling import telling


def test_who_waits_for_loops_is_told_once(monkeypatch):
    compiling.loops.cache_clear()
    told = []
    with telling(lambda *stage: told.append(stage)):
        for _ in range(2):
            compiling.loops("json")  # any module
    compiling.loops("html")
    assert told == [(compiling.STAGE, 0.0, 0.0)]


def test_without_numba_there_are_none(monkeypatch):
    compiling.loops.cache_clear()
    monkeypatch.setattr(compiling, "find_spec", lambda _: None)
    assert compiling.loops("json") is None
    compiling.loops.cache_clear()
