"""The little Markdown that texts of problems are written in, taken apart.

Blocks are parted by an empty line: paragraphs, lists (`* `), quotations (`> `). In them `**strong**`, `` `code` `` and
`$n_kv$`, a symbol of the nomenclature by its name in code.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from roofline.symbols import BY_NAME

_PART = re.compile(r"\*\*(?P<strong>[^*]+)\*\*|`(?P<code>[^`]+)`|\$(?P<symbol>\w+)\$")


@dataclass(frozen=True, slots=True)
class Span:
    """A piece of a line."""

    kind: Literal["text", "strong", "code", "symbol"]
    text: str


@dataclass(frozen=True, slots=True)
class Block:
    """A paragraph or a quotation of one line, or a list of several."""

    kind: Literal["paragraph", "quote", "list"]
    lines: tuple[tuple[Span, ...], ...]


def blocks(text: str) -> list[Block]:
    """The blocks of a text.

    >>> [(span.kind, span.text) for span in blocks("A **b** of $n_kv$")[0].lines[0]]
    [('text', 'A '), ('strong', 'b'), ('text', ' of '), ('symbol', 'n_kv')]
    """
    return [_block(part) for part in re.split(r"\n\s*\n", text.strip()) if part]


def _block(part: str) -> Block:
    lines = [line.strip() for line in part.splitlines()]
    if all(line.startswith("* ") for line in lines):
        return Block("list", tuple(spans(line.removeprefix("* ")) for line in lines))
    if all(line.startswith("> ") for line in lines):
        return Block("quote", (spans(" ".join(line.removeprefix("> ") for line in lines)),))
    return Block("paragraph", (spans(" ".join(lines)),))


def spans(line: str) -> tuple[Span, ...]:
    """A line's pieces.

    Raises:
        KeyError: a symbol that is not in the nomenclature.
    """
    found: list[Span] = []
    end = 0
    for match in _PART.finditer(line):
        if match.start() > end:
            found.append(Span("text", line[end : match.start()]))
        if match["symbol"]:
            found.append(Span("symbol", BY_NAME[match["symbol"]].name))
        else:
            found.append(Span("strong", match["strong"]) if match["strong"] else Span("code", match["code"]))
        end = match.end()
    if end < len(line):
        found.append(Span("text", line[end:]))
    return tuple(found)


def markdown(text: str) -> str:
    r"""A text in Markdown proper, its symbols in LaTeX.

    >>> markdown("of $n_kv$ heads")
    'of $n_{kv}$ heads'
    """
    return _PART.sub(lambda match: f"${BY_NAME[match['symbol']].latex}$" if match["symbol"] else match[0], text)


def plain(text: str) -> str:
    """A text without marks, for comments and messages.

    >>> plain("**Which** of `a` and $n_kv$?")
    'Which of a and n_kv?'
    """
    return _PART.sub(lambda match: match["strong"] or match["code"] or match["symbol"], text)
