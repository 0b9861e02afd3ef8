"""Registries: names, duplicates, entry points."""

from __future__ import annotations

import importlib.metadata
from dataclasses import dataclass
from types import SimpleNamespace

import pytest

from roofline.errors import UnknownNameError
from roofline.registry import Registry


@dataclass(frozen=True)
class Thing:
    """What is registered here."""

    name: str


def test_order_lookup_and_nearest_name() -> None:
    """Items keep their order; an unknown name lists them and names the nearest."""
    things = Registry("thing", [Thing("zeta"), Thing("alpha")])
    assert list(things) == ["zeta", "alpha"]
    assert things["alpha"] == Thing("alpha")
    assert len(things) == 2
    with pytest.raises(UnknownNameError, match="alpha"):
        things["alhpa"]
    assert things.get("beta") is None
    assert things.get("alpha") == Thing("alpha")
    assert "beta" not in things


def test_two_of_one_name_are_refused() -> None:
    """The same item twice is harmless, another of its name is not."""
    one = Thing("one")
    things = Registry("thing", [one])
    assert things.register(one) is one
    with pytest.raises(TypeError, match="two things are called 'one'"):
        things.register(Thing("one"))


def test_register_decorates() -> None:
    """`register` returns what it was given, so that it can stand above a class."""
    classes = Registry[type]("class", key=lambda item: item.__name__)

    @classes.register
    class Mine:
        """A class of its own."""

    assert classes["Mine"] is Mine


def test_entry_points_are_loaded_at_the_first_lookup(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not before; one that loads to another type is an error that names the entry point."""
    asked = []

    def points(group: str) -> list[SimpleNamespace]:
        asked.append(group)
        return [SimpleNamespace(name="guest", load=lambda: Thing("guest"))]

    monkeypatch.setattr(importlib.metadata, "entry_points", points)
    things = Registry("thing", [Thing("own")], group="roofline.things", accepts=Thing)
    assert asked == []
    assert list(things) == ["own", "guest"]
    assert list(things) == ["own", "guest"]
    assert asked == ["roofline.things"]

    wrong: Registry[int] = Registry("number", group="roofline.numbers", accepts=int)
    with pytest.raises(TypeError, match=r"'guest' of roofline\.numbers"):
        len(wrong)


def test_references_are_imported_when_they_are_looked_up() -> None:
    """A reference that is never looked up may lead nowhere; one that leads to another name is an error."""
    fractions = Registry[type](
        "class",
        {"Fraction": "fractions:Fraction", "Decimal": "fractions:Fraction", "Lost": "no.such.module:Lost"},
        key=lambda item: item.__name__,
    )
    assert list(fractions) == ["Fraction", "Decimal", "Lost"]
    assert len(fractions) == 3
    assert fractions["Fraction"].__module__ == "fractions"
    with pytest.raises(TypeError, match="fractions:Fraction is class 'Fraction', not 'Decimal'"):
        fractions["Decimal"]
    with pytest.raises(ModuleNotFoundError):
        fractions["Lost"]
    with pytest.raises(UnknownNameError, match="Known: Fraction, Decimal, Lost"):
        fractions["Float"]


def test_what_ships_is_found_without_a_search_of_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Packages are searched for a name that does not ship, once; one that adds a shipped name is refused then."""
    searches = []

    def points(group: str) -> list[SimpleNamespace]:
        searches.append(group)
        return [SimpleNamespace(name="own", load=lambda: Thing("own"))]

    monkeypatch.setattr(importlib.metadata, "entry_points", points)
    own = Thing("own")
    things = Registry("thing", [own], group="roofline.things", accepts=Thing)
    assert things["own"] is own
    assert "own" in things
    assert searches == []
    with pytest.raises(TypeError, match="two things are called 'own'"):
        things.get("guest")
    assert searches == ["roofline.things"]
