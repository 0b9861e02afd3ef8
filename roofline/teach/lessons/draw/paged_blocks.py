"""A paged KV cache: logical blocks of sequences, the block table, and the physical blocks in memory."""

from __future__ import annotations

from collections.abc import Sequence

from roofline import formatting
from roofline.errors import InputError
from roofline.formatting import plural
from roofline.numeric import ceil_div
from roofline.predict.explain import explain
from roofline.teach.lessons.draw.canvas import Canvas, Drawing, Hue

_SIDE, _PITCH, _TALL = 21.0, 32.0, 27.0
_HUES: tuple[Hue, ...] = ("pink", "purple")
_FREE = (5, 1, 3, 6, 0, 7, 2, 4)
"""Physical blocks in the order in which they are taken: any is as good as another."""
_MOST = 16
"""Tokens of a sequence that are drawn."""
_LEFT, _TABLE, _RIGHT, _TOP = 34.0, 262.0, 560.0, 78.0


def draw(
    tokens: Sequence[int] = (10, 7), block: int = 4, *, shared: bool = False, model: str = "llama-3.1-8b"
) -> Drawing:  # fmt: skip
    """Draw two sequences in blocks.

    Args:
        tokens: of each sequence.
        block: tokens of a block.
        shared: whether both begin with the same whole block.
        model: whose cache is counted in the note.

    Raises:
        InputError: not two sequences, more tokens or blocks than are drawn, or no whole block to share.
    """
    counts = [ceil_div(length, block) for length in tokens]
    if len(tokens) != len(_HUES) or sum(counts) > len(_FREE) or max(tokens) > _MOST or (shared and min(tokens) < block):
        raise InputError(f"drawn are two sequences of at most {_MOST} tokens each, in at most {len(_FREE)} blocks")
    tables = _tables(counts, shared=shared)
    taken = {physical: (sequence, index) for sequence in (1, 0) for index, physical in enumerate(tables[sequence])}
    starts = [_TOP, _TOP + counts[0] * _PITCH + 54]
    canvas = Canvas(height=max(starts[1] + counts[1] * _PITCH, _TOP + len(_FREE) * _PITCH - 30) + 40)
    for words, x in (("logical blocks", 16.0), ("block tables", _TABLE), ("physical blocks in memory", _RIGHT - 20)):
        canvas.label(words, x, 16, size=14)

    def slots(x: float, y: float, sequence: int, index: int) -> Hue:
        """Draw a block with the tokens that it holds."""
        hue: Hue = "gold" if shared and index == 0 else _HUES[sequence]
        canvas.box(x, y, block * _SIDE + 6, _TALL, hue=hue)
        for slot in range(block):
            token = index * block + slot
            there = token < tokens[sequence]
            canvas.box(x + 4 + slot * _SIDE, y + 4, _SIDE - 2, _TALL - 8, f"{token}" if there else "", hue=hue, filled=there,
                       empty=not there, round_=2, size=11)  # fmt: skip
        return hue

    def height(physical: int) -> float:
        return _TOP - 30 + physical * _PITCH

    for physical in range(len(_FREE)):
        canvas.label(f"{physical}", _RIGHT - 8, height(physical) + _TALL / 2, anchor="end", size=12, hue="grey")
        if physical in taken:
            slots(_RIGHT, height(physical), *taken[physical])
        else:
            canvas.box(_RIGHT, height(physical), block * _SIDE + 6, _TALL, "free", empty=True, dashed=True, size=12)
    for sequence, physicals in enumerate(tables):
        top = starts[sequence]
        canvas.label(f"sequence {'AB'[sequence]}, {plural(tokens[sequence], 'token')}", 16, top - 20, hue=_HUES[sequence])
        canvas.label("logical", _TABLE + 30, top - 12, anchor="middle", size=12, hue="grey")
        canvas.label("physical", _TABLE + 90, top - 12, anchor="middle", size=12, hue="grey")
        for index, physical in enumerate(physicals):
            y = top + index * _PITCH
            hue = slots(_LEFT, y, sequence, index)
            canvas.label(f"{index}", _LEFT - 8, y + _TALL / 2, anchor="end", size=12, hue="grey")
            canvas.box(_TABLE, y, 60, _TALL, f"{index}", hue=hue, size=12)
            canvas.box(_TABLE + 60, y, 60, _TALL, f"{physical}", hue=hue, size=12)
            canvas.arrow((_LEFT + block * _SIDE + 10, y + _TALL / 2), (_TABLE - 2, y + _TALL / 2))
            canvas.arrow((_TABLE + 122, y + _TALL / 2), (_RIGHT - 28, height(physical) + _TALL / 2), hue=hue)
    slots_used = len(taken) * block
    empty = slots_used - sum(tokens) + (block if shared else 0)
    each = 16 * float(explain(model, "kv_bytes_per_token").value or 0)
    canvas.label(
        f"{len(taken)} blocks are used; {empty} of their {slots_used} slots are empty, in the last block of each sequence",
        16,
        canvas.height - 14,
    )
    again = f" Block {tables[0][0]} holds the common prefix, once." if shared else ""
    return canvas.drawing(
        "paged-blocks" + ("-shared" if shared else ""),
        "A shared prefix: one physical block in two tables"
        if shared
        else "Block tables: the cache of a sequence lies anywhere",
        f"Sequences of {tokens[0]} and {tokens[1]} tokens in blocks of {block}. Tables give each logical block a physical one: "
        f"A has {', '.join(map(str, tables[0]))}; B has {', '.join(map(str, tables[1]))}. {len(taken)} blocks are used, "
        f"and {empty} of their {slots_used} slots are empty.{again}",
        f"Drawn with {block} tokens per block; vLLM takes 16. A block of 16 of {model} is {formatting.quantity(each, 'B', 3)}.",
    )


def _tables(counts: Sequence[int], *, shared: bool) -> list[list[int]]:
    """The physical blocks of each sequence; with `shared` all have the first one in common."""
    free = iter(_FREE)
    tables: list[list[int]] = []
    for number, count in enumerate(counts):
        common = [tables[0][0]] if shared and number else []
        tables.append(common + [next(free) for _ in range(count - len(common))])
    return tables
