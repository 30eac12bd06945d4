"""Memory: what there is, and how much work fits into one piece."""

from __future__ import annotations

import math
import os
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
import sklearn

from .types import Floats

try:
    import resource
except ImportError:  # Windows has no limits of this kind
    resource = None  # type: ignore[assignment]

CHUNK_SHARE = 0.125  # of what is free, that one chunk may take: there may be several threads
BATCH_SHARE = 0.04  # of what is free on a device, that the largest array of one batch may take
BUDGET_SHARE = 0.25  # of memory, that a fit may take
MOST_BYTES = 4 * 2.0**30  # that a fit may take on any machine, which others may want to use, too
SMALL = 1 << 24  # bytes for which nobody asks how many there are
CGROUP = Path("/sys/fs/cgroup")

Value = TypeVar("Value")
_given: ContextVar[float | None] = ContextVar("given", default=None)


def available() -> int:
    """Bytes this process may still take: free memory, or what limits of the process or its container leave of it."""
    return min(_free_on_machine(), _free_in_container(), _free_in_process())


def total() -> int:
    """Bytes of the machine, or what limits of the process or its container allow of them: the same at any moment."""
    return min(_on_machine(), _limit_of_container(), _limit_of_process())


@contextmanager
def limited_to(n_bytes: float | None) -> Iterator[None]:
    """Make `n_bytes` the budget, also in threads of `common.threads` that are started here; None changes nothing."""
    token = _given.set(_given.get() if n_bytes is None else n_bytes)
    try:
        yield
    finally:
        _given.reset(token)


def budget() -> float:
    """Bytes that the arrays of a method may take together: those of `limited_to`, or the usual number.

    That is a quarter of the machine's memory, and at most `MOST_BYTES`. It does not depend on what is free at the
    moment, since the same data should always be given the same method.
    """
    given = _given.get()
    return min(BUDGET_SHARE * total(), MOST_BYTES) if given is None else given


def room() -> float:
    """Bytes that values kept for later may take: the budget, or less where little is free. It changes no answer."""
    return min(budget(), BUDGET_SHARE * available())


def available_on(device: Any) -> int:
    """Bytes free on a device; those that PyTorch holds in reserve on a GPU are."""
    if not str(device).startswith("cuda"):
        return available()
    from torch import cuda

    # What PyTorch says at length takes it a millisecond, so it is asked once.
    held = cuda.memory_stats_as_nested_dict(device)
    reserved, allocated = (
        held.get(name, {}).get("all", {}).get("current", 0) for name in ("reserved_bytes", "allocated_bytes")
    )
    return int(cuda.mem_get_info(device)[0] + reserved - allocated)


def _free_on_machine() -> int:
    with suppress(OSError):
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return _on_machine() // 2


def _on_machine() -> int:
    with suppress(AttributeError, ValueError, OSError):
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return sys.maxsize  # unknown: let the allocation itself decide


def _limit_of_container() -> int:
    with suppress(OSError, ValueError):  # no such limit, or the word "max"
        return int((CGROUP / "memory.max").read_text())
    return sys.maxsize


def _free_in_container() -> int:
    limit = _limit_of_container()
    if limit == sys.maxsize:
        return limit
    with suppress(OSError, ValueError):
        counts = dict(line.split() for line in (CGROUP / "memory.stat").read_text().splitlines())
        # Files that are only cached give way.
        used = int((CGROUP / "memory.current").read_text()) - int(counts.get("inactive_file", 0))
        return max(limit - used, 0)
    return sys.maxsize


def _limit_of_process() -> int:
    if resource is not None:
        limit, _ = resource.getrlimit(resource.RLIMIT_AS)
        if limit != resource.RLIM_INFINITY:
            return int(limit)
    return sys.maxsize


def _free_in_process() -> int:
    limit = _limit_of_process()
    if limit == sys.maxsize:
        return limit
    with suppress(OSError):
        used = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
        return max(limit - used, 0)
    return sys.maxsize


def require(n_bytes: float, what: str, advice: str, device: Any = "cpu") -> None:
    """Refuse work that cannot fit, before anything is allocated.

    Raises
    ------
    MemoryError
        With the size needed, the size there is, and advice.
    """
    free, given = available_on(device), _given.get()
    if n_bytes > 0.9 * free:
        where = "" if str(device) == "cpu" else f" on {device}"
        raise MemoryError(f"{what} needs {readable(n_bytes)}, but only {readable(free)} are free{where}. {advice}")
    if given is not None and str(device) == "cpu" and n_bytes > given:
        raise MemoryError(f"{what} needs {readable(n_bytes)}, more than memory_budget={readable(given)}. {advice}")


def batch_bytes(device: Any) -> float:
    """Bytes that the largest array of one batch on a device may take."""
    return max(BATCH_SHARE * available_on(device), SMALL)


def rows_per_chunk(bytes_per_row: float, n_rows: int, device: Any = "cpu") -> int:
    """Rows of `n_rows` that fit into what is free, and on the host into scikit-learn's `working_memory`."""
    room, given = sklearn.get_config()["working_memory"] * 2**20, _given.get()
    if given is not None:
        room = min(room, CHUNK_SHARE * given)
    if str(device) != "cpu":
        room = batch_bytes(device)
    elif min(n_rows * bytes_per_row, room) > SMALL:  # to find out takes longer than small work
        room = min(room, max(CHUNK_SHARE * available(), SMALL))
    return max(int(room / max(bytes_per_row, 1)), 1)


def readable(n_bytes: float) -> str:
    """A number of bytes in the unit that suits it."""
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if n_bytes < 1024:
            return f"{n_bytes:.3g} {unit}"
        n_bytes /= 1024
    return f"{n_bytes:.3g} TiB"


def batches(n: int, size: int = 64) -> list[slice]:
    """Slices of at most `size` that cover `range(n)`."""
    return [slice(start, min(start + size, n)) for start in range(0, n, size)]


class Recent(Generic[Value]):
    """Values made before, the most recent ones that take at most so many bytes together. Threads may share it."""

    def __init__(self, most_bytes: float) -> None:
        self.most_bytes, self.n_bytes = most_bytes, 0
        self._values: OrderedDict[Hashable, tuple[Value, int]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Hashable, make: Callable[[], Value], bytes_of: Callable[[Value], int]) -> Value:
        """The value of a key, made where it is not there."""
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
                return self._values[key][0]
        value = make()
        with self._lock:
            if key not in self._values:
                self._values[key] = value, bytes_of(value)
                self.n_bytes += self._values[key][1]
            while self.n_bytes > self.most_bytes:
                self.n_bytes -= self._values.popitem(last=False)[1][1]
        return value


class Scratch(threading.local):
    """Arrays to write intermediate results into, the same ones again and again, for each thread its own.

    New ones, of more than some hundred kilobytes, are new pages of memory each time, which takes longer than to fill
    them.
    """

    def __init__(self) -> None:
        self._arrays: dict[str, Floats] = {}

    def __call__(self, name: str, shape: tuple[int, ...]) -> Floats:
        """Array of a shape, with anything in it; the one of the same name before is no longer to be used."""
        size = math.prod(shape)
        if name not in self._arrays or len(self._arrays[name]) < size:
            self._arrays[name] = np.empty(size)
        return self._arrays[name][:size].reshape(shape)
