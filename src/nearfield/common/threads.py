"""Threads over independent pieces of work, with the threads of BLAS pinned while they run."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from contextvars import copy_context
from functools import cache
from numbers import Integral
from threading import Lock
from typing import Any, TypeVar

import joblib
from joblib.parallel import get_active_backend
from threadpoolctl import ThreadpoolController

from .telling import tell

FEW = 4
Item = TypeVar("Item")
Result = TypeVar("Result")


def n_threads(n_jobs: int | None) -> int:
    """Count the threads that `n_jobs` asks for: None is every core, and negative numbers count back from that.

    Where joblib shares out the cores, in its workers and under its `parallel_config`, None is what it says: one thread
    in a worker.
    """
    if n_jobs is None:
        backend, asked = get_active_backend()
        is_shared = asked is not None or bool(backend.nesting_level)
        return int(joblib.effective_n_jobs(None)) if is_shared else _n_cores(os.environ.get("LOKY_MAX_CPU_COUNT"))
    if not isinstance(n_jobs, Integral) or isinstance(n_jobs, bool) or n_jobs == 0:
        raise ValueError(f"The 'n_jobs' parameter must be None or an integer other than 0. Got {n_jobs!r}.")
    return int(n_jobs) if n_jobs > 0 else max(int(joblib.cpu_count()) + 1 + n_jobs, 1)


@cache
def _n_cores(limit: str | None) -> int:  # noqa: ARG001
    """Cores that joblib counts under a `limit` of its own; to count them takes as long as a small prediction."""
    return int(joblib.cpu_count())


def few_threads(n_jobs: int | None) -> int:
    """The same for work of which much is Python's: more than a few threads would but wait for each other's turn."""
    return min(n_threads(n_jobs), FEW)


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()  # finding the libraries takes milliseconds, limiting them microseconds


class _BlasLimit:
    """Limit on the threads of BLAS for as long as anyone wants one.

    The setting is the whole process's. Whoever saves and restores it alone would, beside another thread that does the
    same, restore what the other had set: so the first one in saves it, the last one out restores it, and in between
    the strictest wish holds. It is never raised above what the caller's process has.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._wishes: dict[object, int] = {}
        self._before: list[tuple[Any, int]] = []

    @contextmanager
    def at_most(self, n: int) -> Iterator[None]:
        wish = object()
        try:
            self._set(wish, n)
            yield
        finally:
            try:
                self._set(wish, None)
            finally:  # once more, should an interrupt have come amid the first time
                self._set(wish, None)

    def _set(self, wish: object, n: int | None) -> None:
        with self._lock:
            if not self._wishes:
                libraries = _controller().select(user_api="blas").lib_controllers
                self._before = [(library, library.num_threads) for library in libraries]
            if n is not None:
                self._wishes[wish] = n
            else:  # an interrupt may have come before the wish was noted
                self._wishes.pop(wish, None)
            for library, before in self._before:
                library.set_num_threads(min([before, *self._wishes.values()]))

    def forget(self) -> None:
        """In a child process made by `fork`: the threads that had wishes are not there."""
        for library, before in self._before if self._wishes else []:
            library.set_num_threads(before)
        self._lock, self._wishes = Lock(), {}


_limit = _BlasLimit()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_limit.forget)


def blas_threads(n: int) -> AbstractContextManager[None]:
    """Let BLAS use at most `n` threads."""
    return _limit.at_most(n)


def single_threaded_blas() -> AbstractContextManager[None]:
    """Let BLAS use one thread: for the many small problems our own threads work on."""
    return blas_threads(1)


def _here(function: Callable[..., Result]) -> Callable[..., Result]:
    """The function with the context variables of this thread, for others to call."""
    context = copy_context()
    return lambda *items: context.copy().run(function, *items)


@contextmanager
def worker_threads(n_workers: int) -> Iterator[Callable[..., Iterator[Any]]]:
    """Answer with a `map` over that many threads, for work that comes in many small rounds."""
    with single_threaded_blas():
        if n_workers <= 1:
            yield map
        else:
            with ThreadPoolExecutor(n_workers) as pool:
                yield lambda function, *items: pool.map(_here(function), *items)


def thread_map(
    function: Callable[[Item], Result], items: Iterable[Item], n_jobs: int | None, stage: str | None = None
) -> list[Result]:
    """`[function(item) for item in items]`, in order, over threads. The first exception raised reaches the caller.

    With a `stage`, those who want to know are told how much of it is done.
    """
    items = list(items)

    def done(i: int, result: Result) -> Result:
        if stage is not None:
            tell(stage, (i + 1) / len(items))
        return result

    threads = n_threads(n_jobs)
    if len(items) == 1:  # nothing to share out: BLAS may have the threads
        with blas_threads(threads):
            return [function(items[0])]
    workers = min(threads, len(items))
    with single_threaded_blas():
        if workers <= 1:
            return [done(i, function(item)) for i, item in enumerate(items)]
        with ThreadPoolExecutor(workers) as pool:
            function = _here(function)
            futures = [pool.submit(function, item) for item in items]
            try:
                return [done(i, future.result()) for i, future in enumerate(futures)]
            except BaseException:
                for future in futures:
                    future.cancel()
                raise
