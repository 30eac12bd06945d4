import sys

import pytest
import sklearn

from nearfield.common import memory


def test_there_is_some():
    assert 0 < memory.available() <= sys.maxsize


def test_what_does_not_fit_is_refused_with_sizes_and_advice(monkeypatch):
    monkeypatch.setattr(memory, "available", lambda: 2**30)
    memory.require(2**29, "Something", "Do less.")
    with pytest.raises(MemoryError, match=r"^Something needs 5 GiB, but only 1 GiB are free. Do less.$"):
        memory.require(5 * 2**30, "Something", "Do less.")


def test_nothing_is_allocated_to_find_out():
    with pytest.raises(MemoryError, match=r"1e\+03 TiB"):
        memory.require(1000 * 2**40, "Something", "")


def test_the_limit_of_a_container_counts(monkeypatch, tmp_path):
    monkeypatch.setattr(memory, "CGROUP", tmp_path)
    before = memory._free_in_container()
    assert before == sys.maxsize  # no such files: no such limit
    (tmp_path / "memory.max").write_text("3000\n")
    (tmp_path / "memory.current").write_text("1500\n")
    (tmp_path / "memory.stat").write_text("anon 900\ninactive_file 500\n")
    assert memory._free_in_container() == 2000
    assert memory.available() == 2000
    (tmp_path / "memory.max").write_text("max\n")
    assert memory._free_in_container() == sys.maxsize


@pytest.mark.skipif(sys.platform != "linux", reason="what a process uses is read from /proc")
def test_the_limit_of_the_process_counts(monkeypatch):
    assert memory._free_in_process() > 0
    monkeypatch.setattr(memory.resource, "getrlimit", lambda _: (1, 1))  # less than what is in use
    assert memory.available() == 0


def test_chunks_follow_the_working_memory(monkeypatch):
    with sklearn.config_context(working_memory=1):
        assert memory.rows_per_chunk(2**10, 10**6) == 2**10
        assert memory.rows_per_chunk(2**30, 10**6) == 1
    with sklearn.config_context(working_memory=8):
        assert memory.rows_per_chunk(2**10, 10**6) == 2**13
    with sklearn.config_context(working_memory=1024):
        monkeypatch.setattr(memory, "available", lambda: 2**31)
        assert memory.rows_per_chunk(2**10, 10**6) == 2**18  # an eighth of what is free
        monkeypatch.setattr(memory, "available", lambda: 0)
        assert memory.rows_per_chunk(2**10, 10**6) == 2**14  # small work is tried in any case


def test_recent_values_take_at_most_so_many_bytes():
    recent, made = memory.Recent(100), []

    def get(key, n_bytes=40):
        return recent.get(key, lambda: made.append(key) or key, lambda _: n_bytes)

    assert [get(key) for key in "abacad"] == list("abacad")
    assert made == list("abcd")  # "a" stayed, as the one asked for again and again
    assert get("b") == "b"
    assert made == list("abcdb")
    assert get("large", 101) == "large"
    assert recent.n_bytes == 0  # nothing but what is too large was left
    assert get("a") == "a"
    assert recent.n_bytes == 40
