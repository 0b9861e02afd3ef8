"""The cache of translations: what is read from it is what would be translated, and it never gets in the way."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from roofline.formulas.javascript import Program, cache, translated
from roofline.formulas.javascript.program import Translator
from roofline.report.figure import Cell, Mark

CALLS: list[str] = []


@dataclass(frozen=True)
class Elsewhere:
    """Of no package that may be translated."""

    value: float


def program() -> Program:
    """With cells alone as data."""
    CALLS.append("made")
    made = Program({})
    made.refer(Cell)
    return made


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder of the test's own, and nothing in memory."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(cache, "_LOADED", {})
    CALLS.clear()
    return tmp_path / "roofline" / "javascript"


def forget(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a new process."""
    monkeypatch.setattr(cache, "_LOADED", {})
    CALLS.clear()


def test_a_second_process_translates_nothing(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the script nor the data differ."""
    first = translated(program, lambda into: into.encode(Cell(text="a", value=1.0)))
    assert first[0] == program().source()
    forget(monkeypatch)
    monkeypatch.setattr(Translator, "inside", None)
    assert translated(program, lambda into: into.encode(Cell(text="a", value=1.0))) == first
    assert CALLS == []
    assert len(list(home.iterdir())) == 1


def test_a_class_that_the_script_lacks_is_translated(monkeypatch: pytest.MonkeyPatch) -> None:
    """The page that needs it has it, and the names of all else stay."""
    before, _ = translated(program, lambda into: into.encode(Cell(text="a")))
    script, data = translated(program, lambda into: into.encode([Cell(text="a"), Mark(text="b")]))
    assert data == [{"$": "Cell", "text": "a"}, {"$": "Mark", "text": "b"}]
    assert "$.classes.Mark" in script
    assert "$.classes.Mark" not in before
    forget(monkeypatch)
    assert translated(program, lambda into: into.encode(Cell(text="a")))[0] == before


def test_what_cannot_be_translated_is_refused_as_ever() -> None:
    """A miss in the cache is not the error that a reader sees."""
    with pytest.raises(TypeError, match="Elsewhere"):
        translated(program, lambda into: into.encode(Elsewhere(1.0)))


@pytest.mark.parametrize("content", [b"", b"x" * 100, None])
def test_a_broken_entry_is_replaced(home: Path, monkeypatch: pytest.MonkeyPatch, content: bytes | None) -> None:
    """Cut short, overwritten, or with a byte changed."""
    script, _ = translated(program, lambda _: None)
    (entry,) = home.iterdir()
    whole = entry.read_bytes()
    entry.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]) if content is None else content)
    forget(monkeypatch)
    assert translated(program, lambda _: None)[0] == script
    assert CALLS == ["made"]
    assert entry.read_bytes() == whole


def test_a_folder_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is translated every time, and nobody is told."""
    (tmp_path / "roofline").write_text("a file where the folder would be")
    assert translated(program, lambda _: None)[0].endswith("})();\n")
    forget(monkeypatch)
    translated(program, lambda _: None)
    assert CALLS == ["made"]


def test_a_changed_source_has_another_entry(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The name of an entry is a hash of every source; a comment counts."""
    source = tmp_path / "package"
    source.mkdir()
    (source / "one.py").write_text("# one\n")
    monkeypatch.setattr(cache, "_HOME", source)
    names = []
    for text in ("# one\n", "# two\n"):
        (source / "one.py").write_text(text)
        cache._sources.cache_clear()
        names.append(cache._path("x"))
    cache._sources.cache_clear()
    assert names[0] != names[1]
    assert names[0] is not None
    assert names[0].parent == home


def test_packages_that_add_kinds_turn_it_off(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their sources are not in the hash."""
    monkeypatch.setattr(cache, "_extended", lambda: True)
    translated(program, lambda _: None)
    assert not home.exists()


def test_old_entries_go(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Edits and releases leave some behind."""
    monkeypatch.setattr(cache, "_MAX_ENTRIES", 3)
    home.mkdir(parents=True)
    for number in range(5):
        (home / f"old-{number}").write_bytes(b"")
    translated(program, lambda _: None)
    names = sorted(path.name.split("-")[0] for path in home.iterdir())
    assert len(names) == 3
    assert "old" in names
    assert any(name.endswith("program") for name in names)
