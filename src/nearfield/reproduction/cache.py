"""Results that outlive an interruption: one small file per result, written whole or not at all."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import __version__
from ..common.files import atomic

FORMAT = 1  # raise it where the same parameters would give other numbers


class Cache:
    """A folder of results, each under a digest of the parameters that it came from."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def get(self, key: Mapping[str, Any]) -> dict[str, Any] | None:
        """The result stored under `key`, or None; a file that cannot be read counts as none."""
        try:
            stored = json.loads(self._path(key, "json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        return dict(stored["result"]) if isinstance(stored, dict) and "result" in stored else None

    def put(self, key: Mapping[str, Any], result: Mapping[str, Any]) -> None:
        """Store a result made of numbers, strings, lists and dictionaries."""
        path = self._path(key, "json")
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic(path) as temporary:
            temporary.write_text(json.dumps({"key": dict(key), "result": dict(result)}), encoding="utf-8")

    def get_arrays(self, key: Mapping[str, Any]) -> dict[str, NDArray[Any]] | None:
        """The arrays stored under `key`, or None."""
        try:
            with np.load(self._path(key, "npz"), allow_pickle=False) as stored:
                return {name: stored[name] for name in stored.files}
        except (OSError, ValueError, EOFError):
            return None

    def put_arrays(self, key: Mapping[str, Any], **arrays: NDArray[Any]) -> None:
        """Store arrays."""
        path = self._path(key, "npz")
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic(path) as temporary:
            np.savez(temporary, allow_pickle=False, **arrays)

    def _path(self, key: Mapping[str, Any], suffix: str) -> Path:
        text = json.dumps({"format": FORMAT, "version": __version__, **key}, sort_keys=True)
        digest = hashlib.sha256(text.encode()).hexdigest()
        return self.folder / digest[:2] / f"{digest[2:26]}.{suffix}"
