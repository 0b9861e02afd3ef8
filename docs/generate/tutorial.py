"""The tutorial as a notebook: its examples are cells, with the outputs that the page shows."""

from __future__ import annotations

import doctest
import re
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from hashlib import sha256
from io import StringIO
from typing import Any

from generate import DOCS
from roofline.documents import __version__, code_cell, markdown_cell, notebook_json

PAGE = DOCS / "tutorial.md"
_BLOCK = re.compile(r"^```python\n(.*?)^```\n", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[([^\]]+)\]\((?!https?:)[^)]*\)")
"""A link to another page, which a notebook elsewhere cannot follow."""


def pages() -> dict[str, str]:
    """The notebook."""
    return {"tutorial.ipynb": notebook_json(list(_cells(PAGE.read_text(encoding="utf-8"))), roofline={"version": __version__})}


def _cells(page: str) -> Iterator[dict[str, Any]]:
    """Texts, and the examples of each block: a cell ends where there is an output."""
    count = 0
    for at, part in enumerate(_BLOCK.split(page)):
        if at % 2 == 0:
            if text := _LINK.sub(r"\1", part).strip():
                yield markdown_cell(_id(text), text)
            continue
        source = ""
        examples = doctest.DocTestParser().get_examples(part)
        for example in examples:
            source += example.source
            if example.want or example is examples[-1]:
                count += 1
                outputs = _outputs(example, count) if example.want else []
                yield code_cell(_id(f"{count} {source}"), source.rstrip("\n"), count=count, outputs=outputs)
                source = ""


def _id(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:12]


def _outputs(example: doctest.Example, count: int) -> list[dict[str, Any]]:
    """What an example prints, or its value."""
    lines = example.want.replace("<BLANKLINE>", "").splitlines(keepends=True)
    if example.source.startswith("print("):
        return [{"output_type": "stream", "name": "stdout", "text": lines}]
    lines[-1] = lines[-1].rstrip("\n")
    return [{"output_type": "execute_result", "execution_count": count, "metadata": {}, "data": {"text/plain": lines}}]


def refreshed(page: str) -> str:
    """The page with the outputs that its examples have now."""
    names: dict[str, Any] = {}
    return _BLOCK.sub(lambda block: f"```python\n{_run(block[1], names)}```\n", page)


def _run(block: str, names: dict[str, Any]) -> str:
    lines: list[str] = []
    execute: Callable[..., None] = exec
    for example in doctest.DocTestParser().get_examples(block):
        first, *more = example.source.rstrip("\n").split("\n")
        printed = StringIO()
        with redirect_stdout(printed):
            execute(compile(example.source, str(PAGE), "single"), names)
        wanted = [line or "<BLANKLINE>" for line in printed.getvalue().splitlines()]
        lines += [f">>> {first}", *(f"... {line}" for line in more), *wanted]
    return "".join(f"{line}\n" for line in lines)
