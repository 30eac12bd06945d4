"""Threads over independent pieces of work, with the threads of BLAS pinned while they run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from typing import Any, TypeVar

import joblib
from threadpoolctl import ThreadpoolController

Item = TypeVar("Item")
Result = TypeVar("Result")


def n_threads(n_jobs: int | None) -> int:
    """Count the threads that `n_jobs` asks for: None is every core, and negative numbers count back from that."""
    if n_jobs is None:
        return int(joblib.cpu_count())
    if isinstance(n_jobs, bool) or n_jobs == 0:
        raise ValueError(f"The 'n_jobs' parameter must be None or an integer other than 0. Got {n_jobs!r}.")
    return n_jobs if n_jobs > 0 else max(int(joblib.cpu_count()) + 1 + n_jobs, 1)


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()  # finding the libraries takes milliseconds, limiting them microseconds


@contextmanager
def single_threaded_blas() -> Iterator[None]:
    """Let BLAS use one thread: for the many small problems our own threads work on."""
    with _controller().limit(limits=1, user_api="blas"):
        yield


@contextmanager
def worker_threads(n_workers: int) -> Iterator[Callable[..., Iterator[Any]]]:
    """Answer with a `map` over that many threads, for work that comes in many small rounds."""
    with single_threaded_blas():
        if n_workers <= 1:
            yield map
        else:
            with ThreadPoolExecutor(n_workers) as pool:
                yield pool.map


def thread_map(function: Callable[[Item], Result], items: Iterable[Item], n_jobs: int | None) -> list[Result]:
    """`[function(item) for item in items]`, in order, over threads. The first exception raised reaches the caller."""
    items = list(items)
    threads = n_threads(n_jobs)
    if len(items) == 1:  # nothing to share out: BLAS may have the threads
        with _controller().limit(limits=threads, user_api="blas"):
            return [function(items[0])]
    workers = min(threads, len(items))
    with single_threaded_blas():
        if workers <= 1:
            return [function(item) for item in items]
        with ThreadPoolExecutor(workers) as pool:
            futures = [pool.submit(function, item) for item in items]
            try:
                return [future.result() for future in futures]
            except BaseException:
                for future in futures:
                    future.cancel()
                raise
