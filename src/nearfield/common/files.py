"""Files that are written whole or not at all."""

from __future__ import annotations

import errno
import os
import secrets
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


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
    temporary = target.with_name(f".{target.stem[:40]}-{secrets.token_hex(8)}{target.suffix}")
    mode = _mode_of(target)
    try:
        os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666 if mode is None else mode))
        yield temporary
        if mode is not None:
            temporary.chmod(mode)
        temporary.replace(target)
    except BaseException as error:
        with suppress(OSError):
            temporary.unlink()
        if isinstance(error, OSError) and _is_about(temporary, error):
            raise type(error)(error.errno, error.strerror, str(path)) from None
        raise


def _is_about(temporary: Path, error: OSError) -> bool:
    """Whether an error is one of writing the file, whose temporary name says nothing to anyone."""
    return error.filename == str(temporary) or (error.filename is None and error.errno in _FULL)


def is_special(path: Path) -> bool:
    """Whether something exists there that is neither a file nor a folder."""
    return path.exists() and not path.is_file() and not path.is_dir()


def make_folder(path: Path) -> None:
    """Make a folder, where there is none, and refuse one that cannot be written into."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path):
            pass
    except OSError as error:
        raise OSError(error.errno, f"cannot be written: {error.strerror}", str(path)) from None


def _mode_of(target: Path) -> int | None:
    """The permissions of the file that is replaced; a new one gets those that the system gives to any."""
    with suppress(OSError):
        return target.stat().st_mode & 0o777
    return None
