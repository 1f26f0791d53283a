"""Small logs with faults in them, all drawn from one random generator.

Faults are of a value, before it is written down, and of bytes, after. A log without faults is one that its reader must
read whole. It reads nothing and judges nothing (fuzz_readers.py does).
"""

import copy
import gzip
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from log_forms import FORMS

# What no stamp, id or text should be.
# fmt: off
STRANGE: tuple[Any, ...] = (
    None, True, False, -1, 0, 10**30, -(10**400), 1e308, float("nan"), float("inf"), -0.0,
    "", " ", "\n", "\u200b", "\0", "\ud800", "\ufffd", "../../x", "31 June 2023", "99/99/9999", "<|endoftext|>",
    [], {}, [[]], [None], {"": ""}, {"text": {"text": []}}, ["a", 1, {"type": "text", "text": "b"}], "x" * 3000,
)
# fmt: on


@dataclass(frozen=True, slots=True)
class BrokenLog:
    """A log and what is wrong with it; `num_turns` is what it held before."""

    form: str
    name: str
    data: bytes
    faults: tuple[str, ...]
    num_turns: int


def broken_log(rng: random.Random, form: str | None = None) -> BrokenLog:
    """Draws a log.

    Args:
        form: the reader it is meant for; None for any.
    """
    form = form or rng.choice(list(FORMS))
    ending, make = FORMS[form]
    log = make(rng)
    faults: list[str] = []
    value = log.value
    for _ in range(rng.choice((0, 1, 1, 2, 3))):
        if value is not None and rng.random() < 0.5:
            fault = rng.choice(list(_VALUE_FAULTS))
            value = _VALUE_FAULTS[fault](value, rng)
            faults.append(fault)
        else:
            faults.append(rng.choice(list(_BYTE_FAULTS)))
    data = log.write(value)
    for fault in faults:
        if fault in _BYTE_FAULTS:
            data = _BYTE_FAULTS[fault](data, rng)
    return BrokenLog(form, f"log{ending}", data, tuple(faults), log.num_turns)


def _places(value: Any) -> list[tuple[Any, Any]]:
    """Every member of a value, as its container and its key or index."""
    found: list[tuple[Any, Any]] = []
    waiting = [value]
    while waiting:
        inner = waiting.pop()
        keys: Sequence[Any] = list(inner) if isinstance(inner, dict) else range(len(inner))
        found += [(inner, key) for key in keys]
        waiting += [inner[key] for key in keys if isinstance(inner[key], dict | list)]
    return found


def _at_random(change: Callable[[Any, Any, random.Random], None]) -> Callable[[Any, random.Random], Any]:
    def applied(value: Any, rng: random.Random) -> Any:
        places = _places(value)
        if places:
            change(*rng.choice(places), rng)
        return value

    return applied


def _set_strange(inner: Any, key: Any, rng: random.Random) -> None:
    inner[key] = copy.deepcopy(rng.choice(STRANGE))


def _set_null(inner: Any, key: Any, _: random.Random) -> None:
    inner[key] = None


def _delete(inner: Any, key: Any, _: random.Random) -> None:
    del inner[key]


def _set_deep(inner: Any, key: Any, rng: random.Random) -> None:
    deep: Any = "x"
    for _ in range(rng.choice((20, 90))):
        deep = [deep] if rng.random() < 0.5 else {"text": deep}
    inner[key] = deep


def _swap(inner: Any, key: Any, rng: random.Random) -> None:
    other = rng.choice(list(inner) if isinstance(inner, dict) else range(len(inner)))
    inner[key], inner[other] = inner[other], inner[key]


def _repeat(inner: Any, key: Any, _: random.Random) -> None:
    if isinstance(inner, list):
        inner.insert(key, copy.deepcopy(inner[key]))
    else:
        inner[f"{key}_2"] = copy.deepcopy(inner[key])


def _set_other(inner: Any, key: Any, rng: random.Random) -> None:
    value = inner[key]
    inner[key] = [value] if rng.random() < 0.5 else {"value": value} if rng.random() < 0.5 else str(value)


_VALUE_FAULTS: dict[str, Callable[[Any, random.Random], Any]] = {
    "value: strange": _at_random(_set_strange),
    "value: null": _at_random(_set_null),
    "value: missing": _at_random(_delete),
    "value: nested deep": _at_random(_set_deep),
    "value: two changed places": _at_random(_swap),
    "value: there twice": _at_random(_repeat),
    "value: of another type": _at_random(_set_other),
    "value: wrapped in another": lambda value, rng: rng.choice(([value], {"data": value}, {"messages": value})),
}


def _cut(data: bytes, rng: random.Random) -> bytes:
    return data[: rng.randint(0, len(data))]


def _cut_front(data: bytes, rng: random.Random) -> bytes:
    return data[rng.randint(0, len(data)) :]


def _flip(data: bytes, rng: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.randint(1, 4) if changed else 0):
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def _insert(*pieces: bytes) -> Callable[[bytes, random.Random], bytes]:
    def applied(data: bytes, rng: random.Random) -> bytes:
        at = rng.randint(0, len(data))
        return data[:at] + rng.choice(pieces) + data[at:]

    return applied


def _mix_lines(data: bytes, rng: random.Random) -> bytes:
    lines = data.split(b"\n")
    at, other = rng.randrange(len(lines)), rng.randrange(len(lines))
    how = rng.randrange(3)
    if how == 0:
        lines[at], lines[other] = lines[other], lines[at]
    elif how == 1:
        lines.insert(other, lines[at])
    else:
        lines[at] = _cut(lines[at], rng)
    return b"\n".join(lines)


def _recode(data: bytes, rng: random.Random) -> bytes:
    text = data.decode("utf-8", "replace")
    return text.encode(rng.choice(("utf-16", "utf-32", "latin-1", "utf-16-le")), "replace")


def _other_log(data: bytes, rng: random.Random) -> bytes:
    other = FORMS[rng.choice(list(FORMS))][1](rng)
    return data + other.write(other.value) if rng.random() < 0.5 else other.write(other.value)


_BYTE_FAULTS: dict[str, Callable[[bytes, random.Random], bytes]] = {
    "bytes: end missing": _cut,
    "bytes: beginning missing": _cut_front,
    "bytes: flipped bits": _flip,
    "bytes: no UTF-8": _insert(b"\xff", b"\xc3\x28", b"\xed\xa0\x80", b"\x80" * 9),
    "bytes: NUL and control characters": _insert(b"\0", b"\0" * 40, b"\x1b[2J", b"\x1a", b"\x08\x07"),
    "bytes: stray marks": _insert(b"\xef\xbb\xbf", "\u200e".encode(), "\u202f".encode(), b"\r", b'"', b"}", b"[", b","),
    "bytes: lines of something else": _insert(
        b"\nhello\n", b"\n\n\n", b"\n{}\n", b"\n[]\n", b"\n5\n", b"\nnull\n", b"\n{\n"
    ),
    "bytes: lines mixed": _mix_lines,
    "bytes: another encoding": _recode,
    "bytes: CRLF": lambda data, _: data.replace(b"\n", b"\r\n"),
    "bytes: compressed and cut": lambda data, rng: _cut(gzip.compress(data, mtime=0), rng),
    "bytes: another form": _other_log,
    "bytes: deep brackets": _insert(b"[" * 50_000, b'{"a":' * 20_000),
    "bytes: nothing": lambda _, rng: rng.choice((b"", b"\n", b" ", b"\xef\xbb\xbf", b"\0")),
}
