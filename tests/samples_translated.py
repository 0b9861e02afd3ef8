"""Functions without arguments, one a construct: what they answer in Python they have to answer in JavaScript."""

# ruff: noqa: B033, C416, D101, D102, PIE804, PLR0133, SIM222, SIM223, SIM905 - what they would have is another construct

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from functools import cache, cached_property
from math import expm1, inf, log1p

_CALLS: list[str] = []
_UNITS = {"k": 1e3, "M": 1e6}
_NOTHING: object = ...


# Comprehensions


def comprehensions_with_equal_names() -> object:
    x = [[1, 2], [3]]
    return [[x + 1 for x in x] for x in x], [x for x in [x * 2 for x in x[0]]], [x for x in x for x in x]


def comprehensions_leave_names_alone() -> object:
    x = 5
    found = [x * y for x in range(3) for y in range(x) if (x + y) % 2]
    return x, found, {x: -x for x in (1, 2)}[2], sorted({x % 2 for x in range(9)})


def walrus_in_comprehensions() -> object:
    found = [(half, last := half) for value in range(8) if (half := value // 2) > 1]
    return found, last, half


def walrus_in_conditions() -> object:
    left, taken = [3, 2, 1], []
    while (size := len(left)) > 1:
        taken.append((size, left.pop()))
    return taken, size, (first if (first := taken[0][1]) else None)


def nothing_is_kept_of_underscores() -> object:
    return [b for _, (_, b) in [(1, (2, 3)), (4, (5, 6))]], [0 for _ in range(2)]


# Functions


def default_arguments() -> object:
    def shown(a: int, b: int = 2, *, c: int | None = None, d: str = "d") -> object:
        return [a, b, c, d]

    return shown(1), shown(1, 3), shown(1, d="x"), shown(b=5, a=4, c=0), _scaled(2), _scaled(2, unit="M"), _scaled(2, plus=1)


def _scaled(value: float, plus: float = 0, unit: str = "k") -> float:
    return value * _UNITS[unit] + plus


def default_values_are_of_the_definition() -> object:
    size, found = 1, []
    for size in (1, 2, 3):

        def kept(x: int, size: int = size) -> int:
            return x * size

        found.append(kept)
    found += [lambda x, size=size: x + size]
    size = 100
    return [one(10) for one in found], size


def closures_in_loops() -> object:
    found = []
    for size in (1, 2, 3):
        found.append(lambda: size)  # noqa: B023, PERF401 - that all see the last is the point
    size = 7
    return [one() for one in found]


def closures_count() -> object:
    def counting(step: int) -> Callable[[], int]:
        seen = [0]

        def count() -> int:
            seen[0] += step
            return seen[0]

        return count

    ones, twos = counting(1), counting(2)
    return [ones(), ones(), twos(), ones(), twos()]


def functions_call_each_other() -> object:
    def even(n: int) -> bool:
        return n == 0 or odd(n - 1)

    def odd(n: int) -> bool:
        return n != 0 and even(n - 1)

    return even(10), odd(10)


def the_rest_of_arguments() -> object:
    def several(first: int, *others: int) -> object:
        return [first, list(others)]

    def named(first: int, *others: int, sign: int = 1, **words: int) -> object:
        return [first * sign, list(others), sorted(words.items())]

    values = [4, 5]
    return several(1), several(1, 2, *values), named(1), named(1, 2, 3, sign=-1, b=2, a=1), named(1, **{"z": 3})


def unpacking() -> object:
    first, *rest = [1, 2, 3]
    (a, b), c = ((4, 5), 6)
    a, b = b, a
    items = [0, 0]
    items[0], d = 7, 8
    e = items[1] = 9
    return first, rest, a, b, c, items, d, e, [*rest, *(10, 11)], {**_UNITS, "G": 1e9}["G"]


# Generators


def _halves(n: int) -> Iterator[int]:
    while n:
        n //= 2
        if n == 5:
            continue
        yield n


def generator_functions() -> object:
    def both(n: int) -> Iterator[int]:
        yield -1
        yield from _halves(n)
        if n > 10:
            return
        yield -2

    values = both(20)
    first = next(values)
    return first, list(values), list(both(3)), next(_halves(0), "none"), sum(x for x in _halves(9)), list(Box(3).inside())


# Conditions


def chained_comparisons() -> object:
    low, value, high = 1, 3, 3
    return low < value <= high, 0 < abs(-value) < 3, low < value < high, 1 == 1.0 == True, low < high > value


def none_or_not() -> object:
    a, b, c = None, 0, ""
    return (
        a is None and b is not None and c is not None,
        a is None is not b,
        None if a is None else 1,
        [x is None for x in (a, b, c)],
        _UNITS.get("x") is None,
        a == None,  # noqa: E711 - compared, not asked
    )


def truth_of_values() -> object:
    return 0 or [] or "x", 1 and [] and "y", None or 0, not [], bool({}), [bool(x) for x in ((), (0,), "", "0", 0.0, {0})]


def order_of_tuples() -> object:
    rows = [(2, "b"), (10, "a"), (2, "a")]
    return (2, 3) < (10, 1), sorted(rows), max(rows, key=lambda row: (row[1], -row[0])), min([], default=None), min(3, 1, 2)


def kinds_of_values() -> object:
    values = (1, 1.5, "a", None, (1,), {1: 2}, {1}, Box(1), True)
    return [
        [isinstance(x, str), isinstance(x, int | None), isinstance(x, (list, tuple)), isinstance(x, Sized), isinstance(x, dict)]
        for x in values
    ]


# Containers


def assignments_in_place() -> object:
    items, numbers, known = [1], {"a": 1}, {1}
    same = items
    items += [2]
    numbers["a"] += 5
    numbers |= {"b": 2}
    numbers.update([("c", 3)])
    items[-1] *= 4
    known |= {2, 3}
    known -= {1}
    flag = False
    flag |= True
    text = "a"
    text += "b"
    bits = 4
    bits |= 1
    del numbers["b"]
    return items, same, sorted(numbers.items()), sorted(known), flag, text, bits


def keys_by_equality() -> object:
    found: dict[object, int] = {(1, "a"): 1, Box(2): 2, frozenset({1, 2}): 3}
    found[1, "a"] += 10
    return found[1, "a"], found[Box(2)], found[frozenset({2, 1})], (1, "b") in found, Box(2) == Box(2), len({1, 1.0, True})


def keys_are_sets() -> object:
    numbers = {"b": 1, "a": 2}
    return numbers.keys() == {"a", "b"}, sorted(numbers.keys() - {"a"}), list(numbers.keys()), {"a"} == set(numbers)


def order_of_keys() -> object:
    return list(_NUMBERED), list(_NUMBERED.items())


_NUMBERED = {"b": 1, "10": 2, "9": 3}


def methods_of_containers() -> object:
    items, known = [3, 1], {"a": [1]}
    items.insert(0, 2)
    items.extend(x for x in (4, 5))
    known.setdefault("b", []).append(2)
    copied = {1, 2}.copy()
    copied.add(3)
    return items, items.pop(0), items.index(1), items.count(4), known, known.pop("z", 0), sorted(copied), sorted({1}.union({2}))


def sets_of_everything() -> object:
    return sorted(_NAMES), len(_NESTED), sorted(kind.limit() for kind in _KINDS), sorted(way() for way in _WAYS)


def slices() -> object:
    items = [0, 1, 2, 3]
    return items[1:], items[:-1], items[-2:], items[5:], "abcd"[1:3], items[-1], "abc"[-1]


# Arithmetic and texts


def arithmetic() -> object:
    return -7 // 2, -7 % 3, 7 / 2, 2**10, round(2.5), round(-3.5), round(2.675, 2), 525 // 75, [0] * 3, "ab" * 2, -True, inf > 1


def texts() -> object:
    name, value = "x", 1234.5
    return (
        f"{name!r} {value:,.1f} {0.125:.1%} {name:>3}|{name:<3}|{value:{'.2e'}} {True} {None} {[1, 'a']} {value!s:>8}",
        "aXbXc".replace("X", "-", 1),
        "a b  c".split(),
        "a/b/c".split("/", 1),
        "k=v=w".rpartition("="),
        "-".join(str(x) for x in (1, 2)),
        "xxa".strip("x"),
        "prefix".removeprefix("pre").upper(),
    )


# Errors


class OwnError(Exception):
    """An error of ours."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


def errors() -> object:
    found: list[object] = []
    for number in range(4):
        try:
            found.append(_fails(number))
        except OwnError as error:
            found.append([str(error), error.code])
        except (ValueError, KeyError):
            found.append("theirs")
        except Exception:  # noqa: BLE001 - that it takes what is left is the point
            found.append("any")
    return found


def _fails(number: int) -> object:
    if number == 0:
        raise OwnError("own", 5)
    if number == 1:
        raise ValueError
    return {2: "fine"}[number]


# Classes


class Sized:
    """A base class with a property, which a field of a class below is instead."""

    LIMIT = 10

    @property
    def size(self) -> int:
        return 1

    @property
    def doubled(self) -> int:
        return 2 * self.size

    @classmethod
    def limit(cls) -> int:
        return cls.LIMIT

    @staticmethod
    def half(value: float) -> float:
        return value / 2

    def named(self, name: str, *, upper: bool = False) -> str:
        return name.upper() if upper else name


@dataclass(frozen=True)
class Box(Sized):
    size: int = 0
    tags: tuple[str, ...] = ()

    LIMIT = 20

    @classmethod
    def of(cls, size: int) -> Box:
        return cls(size + 1)

    @cached_property
    def weighed(self) -> int:
        _CALLS.append("weighed")
        return self.size * 10

    def inside(self) -> Iterator[int]:
        yield from range(self.size)

    def named(self, name: str, *, upper: bool = False) -> str:
        return f"{super().named(name, upper=upper)}/{self.size}"

    def __add__(self, other: Box) -> Box:
        return Box(self.size + other.size)


@dataclass(frozen=True, kw_only=True)
class Note:
    title: str = ""


@dataclass(frozen=True)
class Notes(Note):
    lines: list[str] = field(default_factory=list)


def fields_instead_of_properties() -> object:
    return Sized().size, Box(3).size, Box(3).doubled, replace(Box(3, ("a",)), size=5).doubled, (Box(1) + Box(2)).size


def class_methods_through_objects() -> object:
    box = Box(1)
    answers = [box.limit(), Box.limit(), Sized().limit(), box.of(4).size, Box.of(5).size, box.half(3), Box.half(5)]
    return answers, Box.LIMIT, box.LIMIT


def methods_of_base_classes() -> object:
    asked = Box(2).named
    return Box(2).named("a"), Sized().named("b", upper=True), asked("c"), [one.size for one in (Box(1), Sized())]


def fields_made_anew() -> object:
    one, other = Notes(), Notes(title="x")
    one.lines.append("a")
    return one.lines, other.lines, other.title, one == Notes(["a"], title=""), repr(Note(title="a"))


def cached_properties() -> object:
    start, box = len(_CALLS), Box(2)
    return box.weighed, box.weighed, replace(box, size=3).weighed, _CALLS[start:]


# Caches


@cache
def _counted(a: int, b: int | None = 1, c: int = 0) -> object:
    _CALLS.append(f"{a} {b} {c}")
    return [a, b, c]


def cached_functions() -> object:
    @cache
    def twice(x: int) -> int:
        _CALLS.append("twice")
        return 2 * x

    start = len(_CALLS)
    answers = [_counted(1), _counted(1), _counted(1, None, 2), _counted(1, c=2), twice(2), twice(2)]
    return answers, _CALLS[start:]


# Sets, which Python has in an order of hashes


def _one() -> int:
    return 1


def _two() -> int:
    return 2


_NAMES = frozenset("translated")
_NESTED = {frozenset({"a", "b"}), frozenset("cde"), frozenset({("f", 1)})}
_KINDS = {Box, Sized}
_WAYS = {_one, _two}


@dataclass(frozen=True)
class Measured:
    """Equal ones differ in nothing but how they were made."""

    size: int
    made: str = field(default="", compare=False)
    parts: tuple[Note, ...] = ()


def fields_that_are_not_compared() -> object:
    return Measured(1, "a") == Measured(1, "b"), Measured(1) == Measured(2), len({Measured(1, "a"), Measured(1, "b")})


def data_as_dictionaries() -> object:
    made = asdict(Measured(1, "a", (Note(title="n"), Notes(title="m", lines=["x"]))))
    return made, list(made), asdict(Note())["title"]


def identity_of_objects() -> object:
    one, other = [1], [1]
    by_id = {id(one): "one", id(other): "other"}
    return by_id[id(one)], by_id.get(id([1])), len(by_id)


def functions_of_numbers() -> object:
    return divmod(7, 2), divmod(-7, 2), divmod(7.5, 2), expm1(1e-9), log1p(1e-9)


def arguments_that_are_not_used() -> object:
    def first(a: int, b: int) -> int:
        del b
        return a

    return first(1, 2)


def no_value_of_its_own() -> object:
    def given(value: object = _NOTHING) -> bool:
        return value is _NOTHING

    return given(), given(None), given(0)
