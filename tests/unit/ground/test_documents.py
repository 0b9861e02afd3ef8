"""Saved documents of other versions."""

from __future__ import annotations

from typing import Any

import pytest

from roofline import documents
from roofline.documents import SCHEMA_VERSION, migrated
from roofline.errors import SpecError


def test_every_version_has_a_step() -> None:
    """From each version before to the next."""
    assert sorted(documents._MIGRATIONS) == list(range(1, SCHEMA_VERSION))


def test_steps_follow_one_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a document of version 2, where 4 is written, the steps of 2 and 3, and no other."""
    steps = {n: lambda content, n=n: content["steps"].append(n) for n in (1, 2, 3)}
    monkeypatch.setattr(documents, "SCHEMA_VERSION", 4)
    monkeypatch.setattr(documents, "_MIGRATIONS", steps)
    content: dict[str, Any] = {"schema_version": 2, "steps": []}
    assert migrated(content, "saved.json") == {"schema_version": 4, "steps": [2, 3]}


@pytest.mark.parametrize("content", [None, [1], {"view": {}}, {"schema_version": SCHEMA_VERSION, "server": {"balancer": 1}}])
def test_what_stays_as_it_is(content: Any) -> None:
    """JSON of another kind, and a document of this version."""
    before = repr(content)
    assert repr(migrated(content, "saved.json")) == before


@pytest.mark.parametrize("version", ["1", 0, 1.5, True, None])
def test_what_is_no_version(version: object) -> None:
    """With the name of the file."""
    with pytest.raises(SpecError, match=r"^saved\.json: schema_version must be a whole number from 1, not "):
        migrated({"schema_version": version}, "saved.json")
