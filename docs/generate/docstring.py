"""A docstring as Markdown: prose, examples, indented formulas, `Args:` and their like, references as links."""

from __future__ import annotations

import inspect
import re

_SPECIAL = re.compile(r"([\\*_<>\[\]$|#~])")
_REFERENCE = re.compile(r"arXiv:(\d{4}\.\d{4,5})|(https?://[^\s,;)]+[^\s,;.)])")
_SECTION = re.compile(r"(Args|Returns|Raises|Attributes):\s*$")
_ENTRY = re.compile(r"(\*{0,2}[\w.]+):\s+(.*)", re.DOTALL)


def prose(text: str) -> str:
    r"""One paragraph: code stays code, signs that Markdown would take for its own are escaped, references become links.

    >>> prose("`a_b` is 2*3*4, arXiv:1706.03762")
    '`a_b` is 2\\*3\\*4, [arXiv:1706.03762](https://arxiv.org/abs/1706.03762)'
    """
    parts = re.split(r"(`[^`]+`|\*\*[^*\n]+\*\*|(?<![\w*])\*[A-Za-z][^*]*[A-Za-z]\*(?![\w*]))", " ".join(text.split()))
    return "".join(part if index % 2 else _plain(part) for index, part in enumerate(parts))


def _plain(text: str) -> str:
    written, last = [], 0
    for match in _REFERENCE.finditer(text):
        shown, url = (match[0], f"https://arxiv.org/abs/{match[1]}") if match[1] else (_short(match[2]), match[2])
        written += [_SPECIAL.sub(r"\\\1", text[last : match.start()]), f"[{shown}]({url})"]
        last = match.end()
    return "".join([*written, _SPECIAL.sub(r"\\\1", text[last:])])


def _short(url: str) -> str:
    return _SPECIAL.sub(r"\\\1", url.partition("://")[2].rstrip("/"))


def markdown(text: str | None) -> str:
    """The whole of it."""
    blocks = re.split(r"\n\s*\n", inspect.cleandoc(text or ""))
    written: list[str] = []
    for block in blocks:
        lines = block.splitlines()
        kind = _kind(lines)
        if kind == "code":
            fenced = f"```python\n{block}\n```"
        elif kind == "formula":
            fenced = "```text\n" + inspect.cleandoc(block) + "\n```"
        elif kind == "section":
            fenced = _section(lines)
        elif kind == "list":
            fenced = "\n".join(f"* {prose(item)}" for item in re.split(r"(?:^|\n)\* ", block) if item)
        else:
            fenced = prose(block)
        written.append(fenced)
    return "\n\n".join(written)


def _kind(lines: list[str]) -> str:
    if lines and lines[0].startswith((">>>", "...")):
        return "code"
    if lines and _SECTION.match(lines[0]):
        return "section"
    if lines and lines[0].startswith("* "):
        return "list"
    return "formula" if lines and all(line.startswith("    ") for line in lines) else "prose"


def _section(lines: list[str]) -> str:
    """`Args:` and the like, as a list."""
    entries: list[str] = []
    depth = next((len(line) - len(line.lstrip()) for line in lines[1:] if line.strip()), 4)
    for line in lines[1:]:
        if len(line) - len(line.lstrip()) > depth and entries:
            entries[-1] += " " + line.strip()
        else:
            entries.append(line.strip())
    if lines[0].startswith("Returns"):
        entries = [" ".join(entries)]
    items = []
    for entry in entries:
        match = _ENTRY.fullmatch(entry)
        items.append(f"* `{match[1]}`: {prose(match[2])}" if match else f"* {prose(entry)}")
    return "\n".join([f"**{lines[0].strip().rstrip(':')}**", "", *items])


def first(text: str | None) -> str:
    """The first sentence or paragraph."""
    return prose(re.split(r"\n\s*\n", inspect.cleandoc(text or ""))[0])


def source(text: str | None) -> str:
    """The reference of a docstring, as one paragraph."""
    match = re.search(r"Sources?(?: of [^:]*)?: (.*?)(?:\n\s*\n|\Z)", inspect.cleandoc(text or ""), re.DOTALL)
    return prose(match[1]) if match else ""
