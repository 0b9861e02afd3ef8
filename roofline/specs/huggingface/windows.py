"""Sliding windows: how wide they are, on which layers, and when one that is set does nothing."""

from __future__ import annotations

from typing import Any

from roofline.specs.huggingface.config import REQUIRED, Config
from roofline.specs.huggingface.draft import Section

SLIDING, FULL = "sliding_attention", "full_attention"


def window(config: Config, longest: int, *, default: Any = REQUIRED) -> int | None:
    """Tokens that a query sees; none where the key is null, or where the window holds the `longest` context."""
    name = "sliding_window"
    if name in config.data and config.data[name] is None:
        config.harmless(name)
        return None
    width = config.whole(name, default=default)
    if width is None or width < longest:
        return None if width is None else int(width)
    config.note(name, width, f"a window over the longest context ({longest}) cuts nothing: read as full attention")
    return None


def kinds(config: Config, layers: int, every: int | None, why: str) -> list[str]:
    """SLIDING or FULL for each layer: `layer_types`, or where there is none the last of `every` so many layers is full.

    `every` none: the list has to be there. `why` says whose rule that is.
    """
    default: Any = REQUIRED if every is None else None
    found = config.words("layer_types", layers, (SLIDING, FULL), default=default)
    if found is not None:
        return list(found)
    assert every is not None  # noqa: S101 - narrows the type: without it the list was required
    config.note("layer_types", f"full every {every} layers", why)
    return [FULL if (index + 1) % every == 0 else SLIDING for index in range(layers)]


def named(kind: str) -> str:
    """What a layer's type is called."""
    return "sliding" if kind == SLIDING else "full"


def of(kind: str, width: int | None) -> Section:
    """The key of a mixer for a layer of a kind."""
    return {"sliding_window": width} if kind == SLIDING and width is not None else {}
