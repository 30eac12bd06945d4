"""What no file may make the library do: run code, start programs, write elsewhere, or take memory out of proportion."""

from __future__ import annotations

import inspect
import os
import sys
import typing
from pathlib import Path
from typing import Any

_FORBIDDEN = (
    *("exec", "compile", "code.__new__", "pickle.find_class", "marshal.loads", "ctypes.dlopen", "subprocess.Popen"),
    *("os.system", "os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "pty.spawn", "socket.connect"),
    *("socket.bind", "urllib.Request", "webbrowser.open", "shutil.rmtree", "os.link", "os.symlink"),
)
_CHANGES = ("os.chmod", "os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.truncate")
_OWN = ("<frozen importlib._bootstrap>", inspect.__file__, typing.__file__)
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


class Watch:
    """An audit hook, which cannot be taken away again: it notes what is forbidden while `armed`.

    Imports are no code of a file's maker, nor are the annotations that the command line reads of its own functions: the
    `exec` and `compile` that come with them are allowed.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = str(folder.resolve())
        self.armed = False
        self.seen: list[str] = []
        sys.addaudithook(self._hook)

    def _hook(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.armed:
            return
        if event in ("exec", "compile", "marshal.loads", "code.__new__", "ctypes.dlopen") and _is_own():
            return
        if event in _FORBIDDEN:
            self.seen.append(f"{event} {str(arguments)[:200]}")
        elif (event == "open" and isinstance(arguments[2], int) and arguments[2] & _WRITES) or event in _CHANGES:
            self._require_inside(event, arguments[0])

    def _require_inside(self, event: str, path: Any) -> None:
        if isinstance(path, int) or path is None:
            return
        place = os.path.abspath(os.fsdecode(path))
        if not place.startswith(self.folder + os.sep) and place != os.devnull:
            self.seen.append(f"{event} {place}")


def _is_own() -> bool:
    """Whether Python's import system, or its reading of annotations, is at work further up."""
    frame: Any = sys._getframe(2)
    while frame is not None:
        if frame.f_code.co_filename in _OWN:
            return True
        frame = frame.f_back
    return False


class Memory:
    """Peak of the memory in use, from one `start` to the next (Linux; elsewhere always 0)."""

    def __init__(self) -> None:
        self._works = Path("/proc/self/clear_refs").exists()
        self._before = 0

    def start(self) -> None:
        """Count from here."""
        if self._works:
            Path("/proc/self/clear_refs").write_text("5")
            self._before = _status("VmRSS:")

    def peak(self) -> int:
        """Bytes taken beyond those at the start, at the most."""
        return max(_status("VmHWM:") - self._before, 0) if self._works else 0


def _status(name: str) -> int:
    with open("/proc/self/status") as lines:
        return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(name)), 0)
