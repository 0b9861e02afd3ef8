"""Choices of which an input is made: a tape of bytes that Hypothesis draws, and makes smaller when it shrinks."""

from __future__ import annotations

import copy
import json
import shlex
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from fuzz.kinds import Case

Data = dict[str, Any]
Alternatives = tuple[Any, ...] | Callable[["Choices"], Any]
"""Values of which one is taken, or what draws one."""
POWERS = (1, 2, 4, 8, 16)
WIDTHS = (16, 32, 64, 128, 256)
CARDS = ("h100-sxm", "a100-sxm-80gb", "mi300x", "l40s", "rtx-4090", "t4")


class Choices:
    """What is chosen of an input, from the bytes of a tape, of which 0 is the simplest choice; behind its end all are.

    Hypothesis draws one tape for an input, and makes its bytes smaller when it shrinks: a draw for each choice takes it longer
    than most of the commands.
    """

    def __init__(self, tape: bytes) -> None:
        self._left = iter(tape)

    def upto(self, most: int) -> int:
        """A number from 0."""
        size = max((most.bit_length() + 7) // 8, 1)
        number = 0
        for _ in range(size if most < 256 else size + 1):
            number = number * 256 + next(self._left, 0)
        return number % (most + 1)

    def one(self, *values: Any) -> Any:
        """One of some values; the first is the simplest."""
        return values[self.upto(len(values) - 1)] if len(values) > 1 else values[0]

    def of(self, alternatives: Alternatives) -> Any:
        """One of alternatives."""
        return alternatives(self) if callable(alternatives) else self.one(*alternatives)

    def rarely(self, times: int) -> bool:
        """Once in so many times."""
        return self.upto(times - 1) == times - 1

    def either(self, times: int, rare: Any, *values: Any) -> Any:
        """One of some values, or another once in so many times."""
        return rare if self.rarely(times) else self.one(*values)

    def whole(self, low: int, high: int) -> int:
        """A whole number, every other time a power of two."""
        powers = [2**n for n in range(60) if low <= 2**n <= high] or [low]
        at = self.upto(2 * len(powers) - 1)
        return powers[at] if at < len(powers) else low + self.upto(high - low)

    def several(self, values: Iterable[Any], most: int, least: int = 0) -> list[Any]:
        """A few of some values, none of them twice."""
        left = list(values)
        return [left.pop(self.upto(len(left) - 1)) for _ in range(min(least + self.upto(most - least), len(left)))]

    def listed(self, values: Alternatives, most: int, least: int = 1) -> list[Any]:
        """A list of values."""
        return [self.of(values) for _ in range(least + self.upto(most - least))]

    def some(self, fields: Mapping[str, Alternatives], most: int = 3) -> Data:
        """A few of some keys, each with its value."""
        return {name: self.of(fields[name]) for name in self.several(fields, most)}

    def bent(self, value: Any) -> Any:
        """Nested data of which one thing is another: a value, a key left out, an entry twice."""
        value = copy.deepcopy(value)
        inside: Any = value
        while True:
            key = self.one(*(inside if isinstance(inside, dict) else range(len(inside))))
            if not isinstance(inside[key], dict | list) or not inside[key] or self.rarely(4):
                break
            inside = inside[key]
        old = inside[key]
        match self.upto(3):
            case 0 if not isinstance(old, bool) and isinstance(old, int | float):
                inside[key] = self.one(old + 1, old * 2, old * 3, old / 2, old * 1000, 0, 1, -old)
            case 1:
                del inside[key]
            case 2 if isinstance(inside, list):
                inside.append(copy.deepcopy(old))
            case _:
                inside[key] = self.one(*_NEAR)
        return value

    def sometimes_bent(self, value: Any) -> Any:
        """One in six bent."""
        return self.bent(value) if value and self.rarely(6) else value


_NEAR: tuple[Any, ...] = (
    0, 1, 2, -1, 0.5, 3, 7, 1000, 10**9, 2**53 + 1, 1e308, None, True, "", "many", "8k", "1 GB", "50 ms", [], {}
)  # fmt: skip


def within(low: int, high: int) -> Callable[[Choices], int]:
    """Whole numbers."""
    return lambda choices: choices.whole(low, high)


def written(value: Data) -> bytes:
    """A mapping as a file: JSON is YAML too."""
    return json.dumps(value, indent=1, ensure_ascii=False).encode()


def command(line: str, **files: bytes) -> Case:
    """A command line, and files whose names have `__` for a folder and `_` before the suffix."""
    return Case(tuple(shlex.split(line)), {name.replace("__", "/").replace("_", "."): data for name, data in files.items()})
