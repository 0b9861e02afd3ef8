"""What of Python's own functions the runtime has, and in which order it takes their keyword arguments."""

from __future__ import annotations

import collections
import copy
import functools
import itertools
import math
from collections.abc import Mapping
from typing import TypeVar

Entry = TypeVar("Entry")

_ONE, _TWO, _THREE = ("x",), ("x", "y"), ("x", "y", "z")
_ANY = None

# Object -> the runtime's function and its parameters: as many as the runtime takes, with the names that Python knows them by.
FUNCTIONS: dict[object, tuple[str, tuple[str, ...] | None]] = {
    abs: ("abs", _ONE),
    all: ("all", _ONE),
    any: ("any", _ONE),
    bool: ("bool", _ONE),
    dict.fromkeys: ("fromkeys", _TWO),
    enumerate: ("enumerate", ("iterable", "start")),
    filter: ("filter", _TWO),
    float: ("float", _ONE),
    frozenset: ("set", _ONE),
    getattr: ("getattr", _THREE),
    int: ("int", _ONE),
    len: ("len", _ONE),
    list: ("list", _ONE),
    map: ("map", _ANY),
    range: ("range", _THREE),
    repr: ("repr", _ONE),
    reversed: ("reversed", _ONE),
    round: ("round", ("number", "ndigits")),
    set: ("set", _ONE),
    sorted: ("sorted", ("iterable", "key", "reverse")),
    str: ("str", _ONE),
    sum: ("sum", ("iterable", "start")),
    tuple: ("list", _ONE),
    type: ("type", _ONE),
    collections.Counter: ("counter", _ONE),
    copy.copy: ("copied", _ONE),
    functools.reduce: ("reduce", _THREE),
    itertools.chain: ("chain", _ANY),
    itertools.pairwise: ("pairwise", _ONE),
    itertools.product: ("product", _ANY),
    math.log: ("log", _TWO),
    math.log2: ("log2", _ONE),
    math.log10: ("log10", _ONE),
}

# Expressions rather than functions of the runtime.
PLAIN: dict[object, str] = {
    math.ceil: "Math.ceil",
    math.exp: "Math.exp",
    math.floor: "Math.floor",
    math.isfinite: "Number.isFinite",
    math.isinf: "((x) => Math.abs(x) === Infinity)",
    math.sqrt: "Math.sqrt",
    ord: "((letter) => letter.codePointAt(0))",
}

TYPES: dict[object, str] = {
    bool: "$.bool",
    dict: "$.dict",
    float: "$.float",
    frozenset: "$.set",
    int: "$.int",
    list: "$.list",
    set: "$.set",
    str: "$.str",
    tuple: "$.list",
    type(None): "null",
}

# Methods of Python's own types that the runtime has (`$.method`), with their parameters as above.
METHODS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("copy", "items", "keys", "values", "lower", "upper", "capitalize"), ()),
    **dict.fromkeys(("isalnum", "isdigit", "is_integer"), ()),
    **dict.fromkeys(("append", "extend", "index", "count", "update", "add", "discard", "union", "model_validate"), _ONE),
    **dict.fromkeys(("join", "startswith", "endswith", "partition", "rpartition", "strip", "lstrip", "rstrip"), _ONE),
    **dict.fromkeys(("removeprefix", "removesuffix", "ljust", "rjust"), _ONE),
    **dict.fromkeys(("get", "insert", "pop", "setdefault"), _TWO),
    "model_copy": ("update",),
    "replace": _THREE,
    "split": ("sep", "maxsplit"),
}

OTHERS = frozenset({"reverse", "sort"})
"""Methods of arrays that Python has under the same name; those of JavaScript do something else."""


def looked_up(table: Mapping[object, Entry], key: object) -> Entry | None:
    """The entry of a table; None of what is not in it, and of what cannot be a key."""
    try:
        return table.get(key)
    except TypeError:  # not hashable
        return None


def expression(value: object) -> str | None:
    """What stands for one of Python's own types or functions; None of everything else."""
    if (text := looked_up(TYPES, value) or looked_up(PLAIN, value)) is not None:
        return text
    entry = looked_up(FUNCTIONS, value)
    return None if entry is None else f"$.{entry[0]}"
