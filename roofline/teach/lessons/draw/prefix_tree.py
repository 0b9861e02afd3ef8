"""Prefix caching: prompts that begin alike as a radix tree of cached blocks, what an arriving one reuses, which leaves go."""

from __future__ import annotations

from typing import Literal

import roofline
from roofline import formatting
from roofline.errors import InputError
from roofline.serving.simulation.prefix_cache import Content, PrefixCache
from roofline.teach.lessons.draw.canvas import Canvas, Drawing, Hue

_BLOCK = 16
_SYSTEM, _DOCUMENTS, _QUESTION = 512, (2048, 1024), 384
"""Tokens of the system prompt, of two documents, and of a question with its response."""
_ARRIVES = 128
"""Tokens of the question that arrives."""
_BLOCKS_NEEDED = 40


def _content(document: int, question: int, length: int) -> tuple[Content, int]:
    """The pieces of a sequence, and its tokens."""
    end = _SYSTEM + _DOCUMENTS[document]
    return ((1, _SYSTEM), (10 + document, end), (100 + question, end + length)), end + length


def _store(cache: PrefixCache, content: Content, tokens: int) -> None:
    """Compute a sequence, and release its blocks into the cache."""
    matched, _ = cache.match(content, tokens // _BLOCK)
    node, _ = cache.acquire(content, matched)
    new = tokens // _BLOCK - matched
    cache.settle(cache.num_queued - new)
    cache.release(content, node, tokens // _BLOCK, tokens // _BLOCK)


def draw(view: Literal["reuse", "evict"] = "reuse", model: str = "llama-3.1-8b", hardware: str = "h100-sxm") -> Drawing:
    """Draw the tree after three requests.

    Args:
        view: what a fourth request reuses, or what is evicted when blocks are needed.
        model: of the time that is saved.
        hardware: of the same.

    Raises:
        InputError: the model does not fit.
    """
    cache = PrefixCache(10_000, _BLOCK)
    cached = [_content(0, 0, _QUESTION), _content(0, 1, _QUESTION), _content(1, 2, _QUESTION)]
    for content, tokens in cached:
        _store(cache, content, tokens)
    arriving, length = _content(0, 3, _ARRIVES)
    reused = cache.match(arriving, length // _BLOCK)[0]
    held = sum((tokens - _SYSTEM) // _BLOCK for _, tokens in cached) + _SYSTEM // _BLOCK - _DOCUMENTS[0] // _BLOCK
    left = [tokens // _BLOCK for _, tokens in cached]
    if view == "evict":
        cache.settle(cache.num_queued - (10_000 - held) - _BLOCKS_NEEDED)
        left = [cache.match(content, tokens // _BLOCK)[0] for content, tokens in cached]
    gone = [tokens // _BLOCK - blocks for (_, tokens), blocks in zip(cached, left, strict=True)]
    canvas = Canvas(height=346)
    columns, wide, high = (4.0, 222.0, 440.0), 180.0, 50.0
    for words, x in (("system prompt", columns[0]), ("document", columns[1]), ("question and response", columns[2])):
        canvas.label(words, x + wide / 2, 14, anchor="middle", size=12, hue="grey")
    rows = (34.0, 94.0, 154.0, 224.0) if view == "reuse" else (34.0, 104.0, 0.0, 204.0)
    heights = {"system": 124.0, "one": (rows[0] + (rows[2] if view == "reuse" else rows[1])) / 2, "two": rows[3]}
    path: Hue = "gold" if view == "reuse" else "pink"

    def node(x: float, y: float, words: str, tokens: int, hue: Hue, *, dashed: bool = False) -> None:
        canvas.box(
            x,
            y,
            wide,
            high,
            f"{words}\n{tokens:,} tokens, {tokens // _BLOCK} blocks",
            hue=hue,
            strong=hue == "gold",
            dashed=dashed,
            empty=dashed,
            size=12,
        )

    def edge(start: tuple[float, float], end: tuple[float, float], hue: Hue) -> None:
        canvas.line(
            (start[0] + wide, start[1] + high / 2), (end[0], end[1] + high / 2), hue=hue, wide=2.6 if hue == "gold" else 1.4
        )

    edge((columns[0], heights["system"]), (columns[1], heights["one"]), path)
    edge((columns[0], heights["system"]), (columns[1], heights["two"]), "pink")
    node(columns[0], heights["system"], "system", _SYSTEM, path)
    node(columns[1], heights["one"], "document 1", _DOCUMENTS[0], path)
    node(columns[1], heights["two"], "document 2", _DOCUMENTS[1], "pink")
    for number, (document, y) in enumerate((("one", rows[0]), ("one", rows[1]), ("two", rows[3]))):
        lost = gone[number] > 0
        edge((columns[1], heights[document]), (columns[2], y), "grey" if lost else "pink")
        node(columns[2], y, f"{'ABC'[number]}: question", _QUESTION, "red" if lost else "pink", dashed=lost)
        if lost:
            canvas.label(f"{gone[number]} blocks evicted", columns[2] + wide + 10, y + high / 2, size=12, hue="red")
    if view == "reuse":
        edge((columns[1], heights["one"]), (columns[2], rows[2]), "gold")
        canvas.box(columns[2], rows[2], wide, high, f"D arrives\n{_ARRIVES} new tokens", hue="blue", strong=True, size=12)
        whole, rest = (_ttft(model, hardware, length, prefix) for prefix in (0, reused * _BLOCK))
        canvas.label("computes only\nthese", columns[2] + wide + 10, rows[2] + high / 2, size=12, hue="blue", at="middle")
        canvas.label(
            f"Request D finds {reused} of {length // _BLOCK} blocks cached, {reused * _BLOCK:,} of {length:,} tokens "
            f"({formatting.percent(reused * _BLOCK / length, digits=2)})",
            16,
            302,
            strong=True,
        )
        canvas.label(
            f"Its prefill takes {formatting.about(rest)} instead of {formatting.about(whole)}: {model} on {hardware}", 16, 328
        )
        title, words = (
            "What a request finds in the prefix cache",
            (
                f"A fourth request on document 1 follows the tree through both, and finds {reused} of its "
                f"{length // _BLOCK} blocks: prefill "
                f"takes {formatting.about(rest)} instead of {formatting.about(whole)}."
            ),
        )
    else:
        canvas.label(
            f"{_BLOCKS_NEEDED} blocks are needed: they are taken from leaves, least recently used first, each from its end",
            16,
            302,
            strong=True,
        )
        canvas.label("What others share is an inner node, and stays as long as one of its leaves does", 16, 328)
        title, words = (
            f"Which blocks go when {_BLOCKS_NEEDED} are needed",
            (
                f"When {_BLOCKS_NEEDED} blocks are needed, leaves lose them, least recently used first: "
                f"{', '.join(f'{blocks} of {name}' for name, blocks in zip('ABC', gone, strict=True) if blocks)}. "
                "Shared nodes stay."
            ),
        )
    return canvas.drawing(
        f"prefix-tree-{view}",
        title,
        f"Three requests as a tree: a system prompt of {_SYSTEM} tokens, two documents below it, questions as "
        "leaves, in blocks of "
        f"{_BLOCK} tokens: {held} blocks in all. {words}",
        "Lengths are an example; matches and evictions are those of the simulator's prefix cache.",
    )


def _ttft(model: str, hardware: str, length: int, prefix: int) -> float:
    options = {"cached_prefix": prefix} if prefix else {}
    step = roofline.analyze(model, hardware, batch=1, input_len=length, phase="prefill", **options).prefill  # type: ignore[arg-type]
    if step is None or step.time.best is None:
        raise InputError(f"{model} does not fit on {hardware}")
    return step.time.best
