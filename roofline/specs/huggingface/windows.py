"""Sliding windows: how wide they are, on which layers, and when one that is set does nothing."""

from __future__ import annotations

from typing import Any

from roofline.specs.huggingface.config import REQUIRED, Config
from roofline.specs.huggingface.draft import Section
from roofline.specs.huggingface.kinds import FULL, SLIDING, attention_kinds


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


def last_of_each(config: Config, layers: int, every: int, why: str) -> list[str]:
    """SLIDING or FULL for each layer: `layer_types`, or where there is none the last of `every` so many layers is full.

    `why` says whose rule that is.
    """
    if not config.has("layer_types"):
        config.note("layer_types", f"full every {every} layers", why)
    return attention_kinds(config, layers, (FULL, SLIDING), lambda index: SLIDING if (index + 1) % every else FULL)


def of(kind: str, width: int | None) -> Section:
    """The key of a mixer for a layer of a kind."""
    return {"sliding_window": width} if kind == SLIDING and width is not None else {}
