"""Files that are written whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def atomic(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A temporary file beside `path`, to be written in the body, that takes its place when the body ends well.

    Where the body raises, Ctrl-C included, the temporary file is removed and `path` is as it was. The temporary name
    ends as `path` does, for writers that go by the suffix. A link is followed; what is no regular file, such as
    /dev/null or a pipe, is written in place.
    """
    target = Path(path)
    if is_special(target):
        yield target
        return
    target = target.resolve()
    handle, name = tempfile.mkstemp(prefix=f".{target.stem[:40]}-", suffix=target.suffix, dir=target.parent)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        temporary.chmod(_mode_of(target))
        temporary.replace(target)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise


def is_special(path: Path) -> bool:
    """Whether something exists there that is neither a file nor a folder."""
    return path.exists() and not path.is_file() and not path.is_dir()


def _mode_of(target: Path) -> int:
    """The permissions of the file that is replaced, or those any new file would have."""
    with suppress(OSError):
        return target.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
