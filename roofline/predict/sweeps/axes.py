"""What a grid ranges over: names of axes, and how their values are written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import PurePath
from typing import Any

from roofline.blocks.model import Model
from roofline.errors import InputError, UnitError, UnknownNameError
from roofline.predict import options
from roofline.predict.compiled import PHASES
from roofline.predict.options import ALIASES, PREFIX
from roofline.specs.hardware import Hardware
from roofline.units import parse_count

LENGTHS = ("input_len", "context")
WORKLOAD = ("batch", *LENGTHS)
PARALLEL = ("tp", "pp", "dp", "ep", "cp")
_SHORT = {ALIASES[short]: short for short in PARALLEL}
DEPLOYMENT = tuple(_SHORT.get(entry.name, entry.name) for entry in options.of_groups(options.DEPLOYMENT) if entry.axis)
AXES = ("model", "hardware", "phase", *DEPLOYMENT, *PREFIX, *WORKLOAD)
_LEAST = {_SHORT.get(entry.name, entry.name): int(entry.minimum) for entry in options.OPTIONS.values() if entry.kind == "count"}
COUNTS = tuple(name for name in AXES if name in _LEAST)
"""Axes of whole numbers: `8k` is 8192, and ranges may be written."""
MOST = 10_000_000
"""Values of one axis."""

RANGES = "1:64 (each), 1:64:8 (steps of 8), 1:4096:x2 (times 2), 1:100k:log200 (200 values, evenly by their logarithms)"


def read(grid: Mapping[str, Any]) -> dict[str, tuple[Any, ...]]:
    """The axes of a grid, in the order of its rows: model, hardware, phase, deployment as given, batch, lengths.

    Values are single ones, lists, or text: values separated by commas, each of which may be a range of whole numbers.

    >>> read({"model": "gpt2", "hardware": ["l4", "t4"], "batch": "1:4:x2"})
    {'model': ('gpt2',), 'hardware': ('l4', 't4'), 'phase': ('decode',), 'batch': (1, 2, 4)}

    Raises:
        InputError: an unknown axis, a value that is none, no values, the same twice.
    """
    axes: dict[str, tuple[Any, ...]] = {}
    for given, values in grid.items():
        name = str(given).replace("-", "_")
        name = ALIASES.get(name, name)
        name = _SHORT.get(name, name)
        if name not in AXES:
            raise UnknownNameError("axis", str(given), AXES, list_all=True)
        if name in axes:
            raise InputError(f"{given} and {name} are the same axis: give one of them")
        axes[name] = values_of(name, values)
    for name in ("model", "hardware"):
        if name not in axes:
            raise InputError(f"a grid needs the axis {name!r}")
    if all(name in axes for name in PREFIX):
        raise InputError(f"{PREFIX[0]} and {PREFIX[1]} say the same, as a share and in tokens: give one of them")
    for value in axes.get("prefix_hit", ()):
        options.OPTIONS["prefix_hit"].read(value)
    axes.setdefault("phase", ("decode",))
    first = ("model", "hardware", "phase")
    inner = [name for name in axes if name not in (*first, *WORKLOAD)]
    return {name: axes[name] for name in (*first, *inner, *(name for name in WORKLOAD if name in axes))}


def values_of(name: str, given: Any) -> tuple[Any, ...]:
    """Return the values of an axis as a tuple.

    Args:
        name: of the axis, in its short form.
        given: a value, an iterable of values, or text with commas and ranges.

    Raises:
        InputError: a value that is none, no values, too many, or one twice.
    """
    parts: list[Any] = []
    for value in [given] if isinstance(given, str | Model | Hardware | PurePath) or not isinstance(given, Iterable) else given:
        parts += [part.strip() for part in value.split(",")] if isinstance(value, str) else [value]
    values = [value for part in parts for value in _values(name, part)]
    if not values:
        raise InputError(f"axis {name!r} has no values: the grid is empty")
    if len(values) > MOST:
        raise InputError(f"axis {name!r} has {len(values):,} values; an axis has at most {MOST:,}")
    seen = set()
    for value in values:
        if (key := value if isinstance(value, str | int | float | None) else id(value)) in seen:
            raise InputError(f"axis {name!r} has {value} twice")
        seen.add(key)
    return tuple(values)


def _values(name: str, part: Any) -> Iterable[Any]:
    if part is None or part == "":
        if part is None and name in DEPLOYMENT:
            return (None,)  # the default
        raise InputError(f"axis {name!r} has an empty value")
    if name == "phase":
        if part == "both":
            return PHASES
        if part not in PHASES:
            raise UnknownNameError("phase", str(part), (*PHASES, "both"), list_all=True)
    if name not in COUNTS:
        return (str(part) if isinstance(part, PurePath) else part,)
    return _counts(name, part, _LEAST[name])


def numbers(name: str, given: Any, least: int) -> list[int]:
    """Return whole numbers as a list, in the order given.

    Args:
        name: of what they are values of, for messages.
        given: a number, an iterable of them, or text with commas and ranges such as "1:8192:x2".
        least: the smallest value allowed.

    Raises:
        InputError: a value that is none.

    >>> numbers("m", "1:8:x2,100", 1)
    [1, 2, 4, 8, 100]
    """
    values = [given] if isinstance(given, str) or not isinstance(given, Iterable) else given
    parts = [part for value in values for part in (value.split(",") if isinstance(value, str) else [value])]
    return [number for part in parts for number in _counts(name, part.strip() if isinstance(part, str) else part, least)]


def _counts(name: str, part: Any, low: int) -> Iterable[int]:
    """A whole number, or a range of them."""
    try:
        if isinstance(part, str) and ":" in part:
            return _range(name, part, low)
        return (parse_count(part, name, low),)
    except UnitError as error:
        raise InputError(f"axis {name!r}: {error}") from None


def _range(name: str, text: str, low: int) -> Iterable[int]:
    start, stop, *rest = text.split(":")
    how = rest[0] if rest else "1"
    first, last = parse_count(start, "the start of a range", low), parse_count(stop, "the end of a range", low)
    if len(rest) > 1 or first > last:
        raise InputError(f"axis {name!r}: {text!r} is no range; such are {RANGES}")
    if how.startswith("x"):
        factor = _factor(name, text, how[1:])
        return _products(max(first, 1), last, factor)
    if how.startswith("log"):
        return _logarithmic(max(first, 1), last, parse_count(how[3:], "how many values", 1))
    step = parse_count(how, "the step of a range", 1)
    if (last - first) // step >= MOST:
        raise InputError(f"axis {name!r}: {text!r} has more than {MOST:,} values")
    return range(first, last + 1, step)


def _factor(name: str, text: str, factor: str) -> float:
    try:
        value = float(factor)
    except ValueError:
        value = 0.0
    if not 1 < value <= 1e6:
        raise InputError(f"axis {name!r}: the factor of {text!r} must be more than 1, such as x2 or x1.5")
    return value


def _products(first: int, last: int, factor: float) -> list[int]:
    """First, first x factor, ... rounded to whole numbers, each once."""
    products, value = [first], float(first)
    while (value := value * factor) <= last * (1 + 1e-12):
        if (whole := round(value)) > products[-1]:
            products.append(whole)
    return products


def _logarithmic(first: int, last: int, count: int) -> list[int]:
    if count > MOST:
        raise InputError(f"an axis has at most {MOST:,} values")
    ratio = last / first
    return sorted({round(first * ratio ** (index / max(count - 1, 1))) for index in range(count)})
