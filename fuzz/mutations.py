"""Alterations of bytes and of trees of JSON; every one is drawn from the generator it is given."""

from __future__ import annotations

import copy
import random
import struct
from collections.abc import Callable, Sequence
from typing import Any

NUMBERS = (
    0,
    1,
    2,
    3,
    7,
    64,
    127,
    128,
    255,
    256,
    2**15,
    2**16,
    2**31 - 1,
    2**31,
    2**32,
    2**53,
    2**62,
    2**63 - 1,
    2**64 - 1,
)


def bytes_altered(data: bytes, rng: random.Random, others: Sequence[bytes] = ()) -> bytes:
    """One to four alterations of some bytes."""
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        data = rng.choice(_BYTES)(data, rng, others)
    return data


def _flip(data: bytes, rng: random.Random, _: Sequence[bytes]) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 8, 40))):
        if changed:
            changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def _cut(data: bytes, rng: random.Random, _: Sequence[bytes]) -> bytes:
    return data[: rng.randrange(len(data) + 1)]


def _drop(data: bytes, rng: random.Random, _: Sequence[bytes]) -> bytes:
    start = rng.randrange(len(data) + 1)
    return data[:start] + data[start + rng.choice((1, 2, 8, 64, 1000)) :]


def _repeat(data: bytes, rng: random.Random, _: Sequence[bytes]) -> bytes:
    start = rng.randrange(len(data) + 1)
    part = data[start : start + rng.choice((1, 4, 30, 500))]
    return data[:start] + part * rng.choice((2, 3, 20)) + data[start:]


def _insert(data: bytes, rng: random.Random, _: Sequence[bytes]) -> bytes:
    start = rng.randrange(len(data) + 1)
    part = rng.choice(
        (b"\0", b"\xff", b"\r\n", b"\n", b'"', b",", b"[", b"{", b"\x80", rng.randbytes(rng.randrange(1, 40)))
    )
    return data[:start] + part + data[start:]


def _splice(data: bytes, rng: random.Random, others: Sequence[bytes]) -> bytes:
    other = rng.choice(others) if others else data
    start, end = rng.randrange(len(data) + 1), rng.randrange(len(other) + 1)
    return data[:start] + other[end:]


def _number(data: bytes, rng: random.Random, _: Sequence[bytes]) -> bytes:
    """A number of 1 to 8 bytes overwritten, most often near the start or the end, where lengths are."""
    width, code = rng.choice(((1, "B"), (2, "<H"), (4, "<I"), (4, ">I"), (8, "<Q"), (8, "<d")))
    if len(data) < width:
        return data
    last = len(data) - width
    start = rng.choice(
        (rng.randrange(min(64, last + 1)), last - rng.randrange(min(64, last + 1)), rng.randrange(last + 1))
    )
    if code == "<d":
        raw = struct.pack(code, rng.choice((float("nan"), float("inf"), -1.0, 1e308, 5e-324)))
    else:
        raw = struct.pack(code, rng.choice(NUMBERS) % (1 << 8 * width))
    return data[:start] + raw + data[start + width :]


def _swap(data: bytes, rng: random.Random, _: Sequence[bytes]) -> bytes:
    if len(data) < 4:
        return data
    a, b, c, d = sorted(rng.randrange(len(data) + 1) for _ in range(4))
    return data[:a] + data[c:d] + data[b:c] + data[a:b] + data[d:]


_BYTES: tuple[Callable[[bytes, random.Random, Sequence[bytes]], bytes], ...] = (
    *(_flip, _flip, _flip, _number, _number, _cut, _drop, _repeat, _insert, _splice, _swap),
)


# ---- trees of JSON ---------------------------------------------------------------------------------------------------


def nested(depth: int, kind: str = "list") -> Any:
    """Lists in lists, or dictionaries in dictionaries."""
    value: Any = 0
    for _ in range(depth):
        value = [value] if kind == "list" else {kind: value}
    return value


def odd_value(rng: random.Random) -> Any:
    """A value that is likely to be wrong wherever it is put."""
    return rng.choice(
        (
            *(None, True, False, 0, 1, -1, 2, 3, 17, 2**31, 2**63, -(2**63), 10**30, 10**400, 0.5, -0.0, -1.5, 1e-320),
            *(1e300, -1e300, 1.7e308, float("nan"), float("inf"), float("-inf")),
            *(
                "",
                "x",
                "auto",
                "nan",
                "1",
                "mean",
                "C",
                "\u202e\0\x1b[31m",
                "é" * 50,
                "<script>",
                "a" * 20_000,
                "\ud800",
            ),
            *([], {}, [[]], [0], [None], ["a", 1], [1.0, 2.0], [[1.0], [2.0, 3.0]], {"a": 1}, {"": {}}),
            *(nested(30), nested(120), nested(30, "tuple"), [0] * 3000, {"x": nested(200)}),
        )
    )


def places(tree: Any) -> list[tuple[Any, Any]]:
    """Every place in a tree, as (container, key)."""
    found: list[tuple[Any, Any]] = []
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        keys: Any = node.keys() if isinstance(node, dict) else range(len(node)) if isinstance(node, list) else ()
        for key in keys:
            found.append((node, key))
            waiting.append(node[key])
    return found


def tree_altered(
    tree: Any, rng: random.Random, values: Callable[[random.Random], Any] = odd_value, others: Sequence[Any] = ()
) -> Any:
    """A copy of a tree with a few alterations; `values` draws what is put in, `others` are trees to borrow from."""
    tree = copy.deepcopy(tree)
    for _ in range(rng.choice((1, 1, 1, 1, 2, 3))):
        found = places(tree)
        if not found:
            return values(rng)
        node, key = rng.choice(found)
        kind = rng.randrange(10)
        if kind < 5:
            node[key] = values(rng)
        elif kind == 5:
            del node[key]
        elif kind == 6:
            other, place = rng.choice(places(rng.choice(others)) if others and rng.random() < 0.5 else found)
            node[key] = copy.deepcopy(other[place])
        elif kind == 7:
            node[key] = _nudged(node[key], rng)
        elif isinstance(node, dict):
            node[rng.choice(("", "x", "object", "array", "tuple", "float", key + "_"))] = values(rng)
            if kind == 9:
                node[rng.choice(("A", key.upper()))] = node.pop(key)
        else:
            node.insert(key, copy.deepcopy(node[key]) if kind == 8 else values(rng))
    return tree


def _nudged(value: Any, rng: random.Random) -> Any:
    """A value of the same kind."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + rng.choice((-1, 1, -2, 10, 1000, -value, 2**40))
    if isinstance(value, float):
        return rng.choice((-value, 0.0, value * 1e9, value * 1e-9, 1e200, 1e-200, value + 1))
    if isinstance(value, str):
        return rng.choice((value + "x", value[:-1], value.upper(), value * 3))
    if isinstance(value, list):
        return rng.choice((value[::-1], value[:-1], value * 2))
    return list(value.items()) if isinstance(value, dict) else value
