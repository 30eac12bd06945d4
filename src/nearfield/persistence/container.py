r"""One file for a tree of plain values and some arrays, that says when it is damaged and runs nothing when opened.

All numbers are little-endian::

    16 bytes   \x89nearfield\r\n\x1a\n\0\0, which a transfer in text mode would break
     4 bytes   version of the format
     4 bytes   zero
     8 bytes   length of the whole file
     8 bytes   length of the header
               the header: JSON in UTF-8; "arrays" lists type, shape and order of each array
               the arrays, uncompressed, each at a multiple of 64 bytes
    32 bytes   SHA-256 of everything before

Nothing is compressed, so that a file never takes more memory than its own length and some multiple of its header's.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from ..common import memory

VERSION = 1
MAGIC = b"\x89nearfield\r\n\x1a\n\0\0"
DTYPES = ("<f8", "<f4", "<i8", "<i4", "|b1", "|u1")

_PREAMBLE = struct.Struct("<16sIIQQ")
_ALIGN = 64
_DIGEST = 32
_CHUNK = 1 << 20
_PARSED = 64  # bytes that a byte of JSON may take as Python's values

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Content:
    """What a file holds."""

    header: dict[str, Any]  # as it was given to `write`
    arrays: list[Array]
    digest: str  # the SHA-256, in hexadecimal digits
    n_bytes: int  # length of the file


def write(handle: BinaryIO, header: dict[str, Any], arrays: Sequence[Array]) -> None:
    """Write header and arrays; equal content makes equal files."""
    plain = [_little_endian(array) for array in arrays]
    entries = [_entry(array) for array in plain]
    try:
        text = json.dumps(
            {**header, "arrays": entries}, allow_nan=False, separators=(",", ":"), ensure_ascii=False
        ).encode()
    except UnicodeEncodeError:
        raise ValueError("A word to be stored is not valid Unicode: it has half of a surrogate pair.") from None
    spans = list(_spans(len(text), entries))
    end = spans[-1][1] if spans else _PREAMBLE.size + len(text)
    digest = hashlib.sha256()
    position = 0

    def put(data: Any) -> None:
        nonlocal position
        handle.write(data)
        digest.update(data)
        position += len(data)

    put(_PREAMBLE.pack(MAGIC, VERSION, 0, end + _DIGEST, len(text)))
    put(text)
    for array, (start, _) in zip(plain, spans, strict=True):
        put(bytes(start - position))
        raw = np.ascontiguousarray(array if _order(array) == "C" else array.T).reshape(-1).view(np.uint8).data
        for first in range(0, len(raw), _CHUNK):
            put(raw[first : first + _CHUNK])
    handle.write(digest.digest())


def read(path: str | os.PathLike[str]) -> Content:
    """Read and check a whole file.

    Raises
    ------
    ValueError
        In one sentence, where the file is of another kind, of a newer version, truncated or altered.
    """
    name = os.fspath(path)
    with Path(path).open("rb") as handle:
        status = os.fstat(handle.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise ValueError(f"{name} is not a regular file, so it cannot be read as a model.")
        size, length = status.st_size, _check_preamble(name, handle.read(_PREAMBLE.size), status.st_size)
        memory.require(size + _PARSED * length, f"The model in {name}", "Load it on a machine with more.")
        data = np.empty(size, dtype=np.uint8)
        handle.seek(0)
        if handle.readinto(data.data) != size:
            raise ValueError(f"{name} changed while it was read.")
    digest = hashlib.sha256(data[:-_DIGEST].data).digest()
    if digest != data[-_DIGEST:].tobytes():
        raise ValueError(f"{name} was altered or damaged after it was written: its checksum does not match.")
    try:
        header = _parsed(data[_PREAMBLE.size : _PREAMBLE.size + length].tobytes())
        entries = header["arrays"]
        arrays = [_view(data, e, span) for e, span in zip(entries, _spans(length, entries), strict=True)]
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError):
        raise ValueError(f"{name} is not a valid nearfield file: its parts do not fit together.") from None
    return Content(header, arrays, digest.hex(), size)


def _parsed(text: bytes) -> Any:
    """Tree of a header: proper JSON in proper Unicode, which Python's own reader does not insist on."""

    def refuse(word: str) -> None:
        raise ValueError(word)

    tree = json.loads(text.decode(), parse_constant=refuse)
    if b"\\u" in text:  # an escape may be half of a surrogate pair, which nothing could print
        json.dumps(tree, ensure_ascii=False).encode()
    return tree


def _check_preamble(name: str, start: bytes, size: int) -> int:
    """Length of the header, where the first bytes are those of a whole file that this version can read."""
    if not start:
        raise ValueError(f"{name} is empty, so it is no nearfield model.")
    if not start.startswith(MAGIC[: len(start)]):
        raise ValueError(f"{name} is not a nearfield model{_guess(start)}.")
    if len(start) < _PREAMBLE.size:
        raise ValueError(f"{name} is truncated: it ends within its first {_PREAMBLE.size} bytes.")
    _, version, _, total, length = _PREAMBLE.unpack(start)
    if version > VERSION:
        raise ValueError(
            f"{name} has version {version} of the model format and this nearfield reads up to version {VERSION}: "
            "update nearfield."
        )
    if size < total:
        raise ValueError(f"{name} is truncated: it has {size} of {total} bytes.")
    if size > total or version < 1 or length > total - _PREAMBLE.size - _DIGEST:
        raise ValueError(f"{name} was altered or damaged after it was written: its length is not what it says.")
    return int(length)


def _guess(start: bytes) -> str:
    if start.startswith(MAGIC[:10]):
        return " any more: its line ends were altered, as a transfer in text mode does"
    if start.startswith(b"\x80"):
        return ", but perhaps a pickle, which can run code when opened and is not opened here"
    if start.startswith(b"PK"):
        return ", but a zip file"
    return ""


# ---- arrays ----------------------------------------------------------------------------------------------------------


def _little_endian(array: Array) -> Array:
    kind = array.dtype.newbyteorder("<")
    if kind.str not in DTYPES:
        raise ValueError(f"Arrays of type {array.dtype} cannot be stored.")
    return array.astype(kind, copy=False)


def _order(array: Array) -> str:
    """Fortran order is kept, since what is computed from an array may depend on it in the last digit."""
    return "F" if array.flags.f_contiguous and not array.flags.c_contiguous else "C"


def _entry(array: Array) -> dict[str, Any]:
    return {"dtype": array.dtype.str, "shape": list(array.shape), "order": _order(array)}


def _n_bytes(entry: dict[str, Any]) -> int:
    if (
        entry["dtype"] not in DTYPES
        or entry["order"] not in ("C", "F")
        or not all(type(n) is int and n >= 0 for n in entry["shape"])
    ):
        raise ValueError("no array of ours")
    return int(prod(entry["shape"])) * int(entry["dtype"][2:])


def _spans(header_length: int, entries: Sequence[dict[str, Any]]) -> Iterator[tuple[int, int]]:
    """First and last byte, exclusive, of each array."""
    end = _PREAMBLE.size + header_length
    for entry in entries:
        start = -(-end // _ALIGN) * _ALIGN
        end = start + _n_bytes(entry)
        yield start, end


def _view(data: Array, entry: dict[str, Any], span: tuple[int, int]) -> Array:
    """The array of an entry, in the memory of the file: a shape larger than that is refused, not allocated."""
    start, end = span
    if end > len(data) - _DIGEST:
        raise ValueError("beyond the end")
    shape = entry["shape"]
    flat = data[start:end].view(entry["dtype"])
    array: Array = flat.reshape(shape) if entry["order"] == "C" else flat.reshape(shape[::-1]).T
    return array
