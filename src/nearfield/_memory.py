"""Memory: what there is, and how much work fits into one piece."""

from __future__ import annotations

import os
from pathlib import Path

import sklearn

try:
    import resource
except ImportError:  # Windows has no limits of this kind
    resource = None  # type: ignore[assignment]


def available() -> int:
    """Bytes this process may still take: the machine's free memory, or the process's own limit if that is less."""
    free = _free_on_machine()
    if resource is None:
        return free
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit != resource.RLIM_INFINITY:
        used = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
        free = min(free, max(limit - used, 0))
    return free


def _free_on_machine() -> int:
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2


def require(n_bytes: float, what: str, advice: str) -> None:
    """Refuse work that cannot fit, before anything is allocated.

    Raises
    ------
    MemoryError
        With the size needed, the size there is, and advice.
    """
    free = available()
    if n_bytes > 0.9 * free:
        raise MemoryError(f"{what} needs {_readable(n_bytes)}, but only {_readable(free)} are free. {advice}")


def rows_per_chunk(bytes_per_row: float) -> int:
    """Rows that fit into scikit-learn's `working_memory` (`sklearn.set_config`), at least one."""
    return max(int(sklearn.get_config()["working_memory"] * 2**20 / max(bytes_per_row, 1)), 1)


def _readable(n_bytes: float) -> str:
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if n_bytes < 1024:
            return f"{n_bytes:.3g} {unit}"
        n_bytes /= 1024
    return f"{n_bytes:.3g} TiB"
