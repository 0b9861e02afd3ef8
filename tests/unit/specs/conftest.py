"""Files to break: a shipped spec's text with one thing changed, and the place where that stands."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from roofline.blocks.model_files import load_model
from roofline.errors import SpecError
from roofline.specs.library import load_hardware, shipped


@dataclass(frozen=True)
class Edited:
    """A copy of a shipped file in which `old` became `new`; `line` is that of the change, counted from 1."""

    path: Path
    line: int

    def refused(self, load: Callable[[str], object]) -> SpecError:
        """The error with which the file is refused."""
        with pytest.raises(SpecError) as caught:
            load(str(self.path))
        return caught.value


@pytest.fixture
def edit(tmp_path: Path) -> Callable[[str, str, str], Edited]:
    """`edit("models/gpt2", old, new)`: the first `old` of a shipped file replaced."""

    def change(name: str, old: str, new: str) -> Edited:
        kind, _, stem = name.partition("/")
        text = (shipped(kind) / f"{stem}.yaml").read_text(encoding="utf-8")  # type: ignore[arg-type]
        assert old in text, f"{old!r} is not in {name} any more"
        path = tmp_path / f"{stem}.yaml"
        path.write_text(text.replace(old, new, 1), encoding="utf-8")
        return Edited(path, text[: text.index(old)].count("\n") + 1)

    return change


@pytest.fixture
def model_error(edit: Callable[[str, str, str], Edited]) -> Callable[..., tuple[str, Edited]]:
    """The message with which a changed model is refused, and the change."""

    def refuse(old: str, new: str, name: str = "llama-3.1-8b") -> tuple[str, Edited]:
        edited = edit(f"models/{name}", old, new)
        return str(edited.refused(load_model)), edited

    return refuse


@pytest.fixture
def hardware_error(edit: Callable[[str, str, str], Edited]) -> Callable[..., tuple[str, Edited]]:
    """The message with which a changed hardware file is refused, and the change."""

    def refuse(old: str, new: str, name: str = "h100-sxm") -> tuple[str, Edited]:
        edited = edit(f"hardware/{name}", old, new)
        return str(edited.refused(load_hardware)), edited

    return refuse
