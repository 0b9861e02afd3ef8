"""Inputs made wrong: bytes, lines, values, structure, or numbers alone, which leaves most of them readable."""

from __future__ import annotations

import copy
import io
import json
import random
import re
from collections.abc import Callable, Sequence
from typing import Any

from ruamel.yaml import YAML

_NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")
_WORD = re.compile(r"[^\s:,\[\]{}\"'=]+")
_FIXED = ("schema_version: ", '"schema_version": ')
_EXTREME = (
    "0", "-1", "-0.0", "0.1", "1e999", "-1e999", "nan", ".nan", "inf", ".inf", "9" * 30, "9" * 5000, "1e-320", "1e308",
    "2147483648", "9007199254740993", "٣", "½", "0x10", "1_000", "1,000", "10.000", "", " ", "null", "true", "[]", "{}", "~",
    "1 GB", "5 m", "10 min", "3 parsecs", "2 TFLOP/s", "8k", "1M", "50%", "2024-02-30", "a" * 300, "../..", "é", "\u202egnp",
    "\x1b[31mred", "\x07", "🚀", "-",
)  # fmt: skip
_BYTES = (
    b"\x00", b"\xff", b"\xfe\xff", b"\xef\xbb\xbf", b"\r", b"\x1b[2J", b"\t", b"'", b'"', b"\\", b":", b"&a", b"*a", b"!!int ",
    b"%", b"<b>",
)  # fmt: skip
_VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2, 2**31, 2**53 + 1, 10**30, -0.0, 0.5, 1e308, 5e-324, "", "many", "1 GB", "50 ms", "8k",
    "\x1b[31m", "\u202e", [], {}, [[]], [1], [1, 2, 3], {"value": 1}, "a" * 300,
)  # fmt: skip


def numbers(rng: random.Random, text: str) -> str:
    """One to three numbers replaced by others, most of them of a similar size."""
    places = [match for match in _NUMBER.finditer(text) if not text[: match.start()].endswith(_FIXED)]
    for match in sorted(rng.sample(places, min(len(places), rng.randint(1, 3))), key=lambda one: -one.start()):
        text = text[: match.start()] + _another(rng, match[0]) + text[match.end() :]
    return text


def _another(rng: random.Random, old: str) -> str:
    value = float(old)
    if not abs(value) < 2**60:
        return "1"
    if rng.random() < 0.15:
        return rng.choice(("0", "1", "2", "3", "1000000", "123456789012", "1e-9", "1e15", "0.5"))
    factor = rng.choice((0.1, 0.5, 0.9, 1.1, 2, 3, 10, 1000))
    return f"{value * factor:g}" if "." in old else str(max(round(value * factor), rng.randint(0, 3)))


def values(rng: random.Random, text: str) -> str:
    """A word or a number replaced by something else, or by another one of the same text."""
    places = list((_NUMBER if rng.random() < 0.5 else _WORD).finditer(text))
    if not places:
        return rng.choice(_EXTREME)
    match = rng.choice(places)
    new = rng.choice(_EXTREME) if rng.random() < 0.8 else rng.choice(places)[0]
    if rng.random() < 0.2:
        new = match[0] + new
    return text[: match.start()] + new + text[match.end() :]


def lines(rng: random.Random, text: str) -> str:
    """A line deleted, repeated, moved, cut, indented or joined to the next."""
    found = text.splitlines(keepends=True) or [""]
    at = rng.randrange(len(found))
    line = found.pop(at)
    match rng.randrange(7):
        case 0:
            pass
        case 1:
            found[at:at] = [line, line]
        case 2:
            found.insert(rng.randint(0, len(found)), line)
        case 3:
            found.insert(at, line[: rng.randint(0, len(line))] + "\n")
        case 4:
            found.insert(at, rng.choice((" ", "  ", "\t", "- ")) + line)
        case 5:
            found.insert(at, line.rstrip("\n"))
        case _:
            found = [*found[:at], line]
    return "".join(found)


def garbled(rng: random.Random, text: str) -> bytes:
    """Bytes flipped, inserted, deleted, repeated or cut off."""
    data = bytearray(text.encode("utf-8", "surrogateescape"))
    for _ in range(rng.choice((1, 1, 2, 5))):
        at = rng.randint(0, len(data))
        upto = min(at + rng.choice((1, 1, 2, 10, 100)), len(data))
        match rng.randrange(5):
            case 0 if at < len(data):
                data[at] ^= 1 << rng.randrange(8)
            case 1:
                data[at:at] = rng.choice(_BYTES)
            case 2:
                del data[at:upto]
            case 3:
                data[at:at] = data[at:upto] * rng.choice((1, 2, 50))
            case _:
                if rng.random() < 0.3:
                    del data[at:]
    return bytes(data)


def structure(rng: random.Random, data: Any) -> Any:
    """Nested lists and mappings of which one part is deleted, repeated, moved, renamed, or of another type or length."""
    data = copy.deepcopy(data)
    places = list(_places(data))
    if not places:
        return rng.choice(_VALUES)
    inside, key = rng.choice(places)
    value = inside[key]
    match rng.randrange(8):
        case 0:
            del inside[key]
        case 1 if isinstance(value, list):
            inside[key] = value[: rng.randint(0, max(len(value) - 1, 0))]
        case 2 if isinstance(value, list) and value:
            inside[key] = [*value, *([rng.choice(value)] * rng.choice((1, 2, 40)))]
        case 3 if isinstance(inside, dict):
            del inside[key]
            inside[_misspelt(rng, str(key))] = value
        case 4:
            other, there = rng.choice(places)
            other[there] = copy.deepcopy(value)
        case 5:
            inside[key] = rng.choice(([value], {"value": value}, {str(key): value}, str(value), [[value]], [value, value]))
        case 6 if isinstance(inside, list):
            inside.insert(key, copy.deepcopy(value))
        case _:
            inside[key] = rng.choice(_VALUES)
    return data


def _places(data: Any) -> Any:
    """Every container with each of its keys or positions."""
    if isinstance(data, dict | list):
        for key in list(data) if isinstance(data, dict) else range(len(data)):
            yield data, key
            yield from _places(data[key])


def _misspelt(rng: random.Random, name: str) -> str:
    at = rng.randint(0, len(name))
    return rng.choice(
        (name[:at] + name[at + 1 :], name[:at] + "_" + name[at:], name.upper(), name + "s", "", "\x1b" + name, "é")
    )


def _parsed(text: str, form: str) -> Any:
    if form == "yaml":
        return list(YAML(typ="safe", pure=True).load_all(io.StringIO(text)))
    return json.loads(text)


def _written(data: Any, form: str) -> str:
    """NB: JSON is YAML, but for documents."""
    if form == "yaml" and isinstance(data, list):
        return "\n---\n".join(json.dumps(part, ensure_ascii=False, default=str) for part in data) + "\n"
    return json.dumps(data, ensure_ascii=False, default=str)


def of_file(rng: random.Random, text: str, form: str) -> bytes:
    """A file of a form (`yaml`, `json`, `jsonl`, or `text`) with something wrong."""
    way = rng.random()
    if way < 0.5:
        found: str | bytes = numbers(rng, text)
    elif way < 0.7 and form in ("yaml", "json"):
        found = _written(structure(rng, _parsed(text, form)), form)
    elif way < 0.7 and form == "jsonl":
        rows = text.splitlines()
        at = rng.randrange(len(rows))
        rows[at] = _written(structure(rng, json.loads(rows[at])), "json")
        found = "\n".join(rows) + "\n"
    else:
        found = rng.choice((values, values, lines, garbled))(rng, text)  # type: ignore[operator]
    return found if isinstance(found, bytes) else found.encode("utf-8", "surrogateescape")


def of_text(rng: random.Random, text: str) -> str:
    """An argument with something wrong. No argument of a process holds a zero byte."""
    ways: tuple[Callable[[random.Random, str], str | bytes], ...] = (numbers, numbers, numbers, values, values, garbled)
    found = rng.choice(ways)(rng, text)
    if text.startswith("{") and rng.random() < 0.3:
        found = _written(structure(rng, json.loads(text)), "json")
    return (found.decode("utf-8", "surrogateescape") if isinstance(found, bytes) else found).replace("\0", "")


def of_arguments(rng: random.Random, arguments: Sequence[str], others: Sequence[str]) -> list[str]:
    """A command line with something wrong: a value, or an argument that is deleted, repeated, moved, or one of `others`."""
    found = list(arguments)
    at = rng.randrange(1, len(found))
    match rng.randrange(8):
        case 0:
            del found[at]
        case 1:
            found.insert(rng.randint(1, len(found)), found[at])
        case 2:
            found.append(rng.choice(others))
            found.append(rng.choice(_EXTREME))
        case 3:
            found += rng.choice(others).split(maxsplit=1)
        case _:
            valued = [index for index in range(1, len(found)) if not found[index].startswith("-")]
            at = rng.choice(valued)
            found[at] = of_text(rng, found[at])
    return found
