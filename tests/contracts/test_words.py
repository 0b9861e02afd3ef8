"""The words of the field, and no others: names in the package, phrases in texts, terms in the glossary.

The rule: what a person who knows vLLM, NumPy or a roofline paper would search for. Nobody finds a name of our own.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

import pytest

import roofline

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = Path(roofline.__file__).resolve().parent

pytestmark = [pytest.mark.same_calls, pytest.mark.every_case]  # reads sources and pages as text, quickly

BANNED = frozenset(
    """
    found asked said told shown kept apart beside many seat seats room rooms job jobs roof bolder twist crowd tongue tongues
    faces lanes nobody somebody victim victims tally lifted alike untold busy
    """.split()  # noqa: SIM905 - a list to read
)
"""Words that no name contains. A local is called what it is (`operators`, `result`, `matches`), not `found`."""

EXCEPTIONS: dict[str, str] = {
    "apart": "a key of models' files and of JSON documents: parameters that are not counted",
    "beside": "a key of the JSON of `models check`: scales and zero points of quantized weights",
    "FileNotFoundError": "Python's",
    "PackageNotFoundError": "Python's",
}
"""Names that contain such a word, each with its reason."""

_COUNTED = (
    "bytes?|GiB|MiB|KiB|FLOP|FLOP/s|s|ms|seconds?|tokens?|requests?|messages?|numbers?|rows?|layers?|GB|blocks?|sequences?"
)
_EACH = (
    "token|device|sequence|second|step|request|layer|replica|card|GPU|expert|group|block|head|hour|point|message|million|"
    "answer|prompt|iteration|node|rank"
)
PHRASES = {
    rf"\b({_COUNTED}) an? ({_EACH})\b": "per token, per device",
    r"\bso many\b": "a number, or N",
    r"\bin the place of\b": "instead of",
    r"\bof above\b": "above",
    r"\bthe most that\b": "at most",
    r"\bwhat becomes of\b": "simulate every request",
    r"\b(nobody|somebody)\b": "the request, the scheduler, the user",
    r"\btongues?\b": "backend, format",
    r"\bseats?\b": "slot",
    r"\bcrowd\b": "occupancy",
    r"\blater tokens?\b": "TPOT",
    r"\bstands? on\b": "is based on",
    r"\bon your own risk\b": "at your own risk",
    r"\bwhat is on what\b": "the title",
    r"\btwists?\b": "assumption override",
    r"\bbolder\b": "optimistic",
    r"\b(is|are) told\b": "gets, reads",
    r"\b(is|are|was) asked\b": "is set, is requested",
    r"\basked for\b": "requested",
    r"\bas it is said\b": "",
    r"\bvictims?\b": "preemption candidate",
    r"\brooms?\b": "capacity, space",
    r"\blanes\b": "microbatches",
    r"\bcompute binds\b": "compute-bound",
    r"\bfirst tokens? (is|are) late\b": "TTFT exceeds its objective",
    r"\bjobs?\b": "request",
    r"(?<![\w.`'\"])\d[\d.,]*%(?![\w(`'\"])": "80 %, with a space, as `formatting.percent` writes it",
}
"""Phrases that no text contains, with what to write."""

_ANY_PHRASE = re.compile("|".join(f"(?:{phrase})" for phrase in PHRASES), re.IGNORECASE)

ALLOWED_PHRASES = {
    "PCIe lanes": r"\blanes\b",
    "DaemonSet, Job": r"\bjobs?\b",
}  # fmt: skip
"""Phrases that are the field's own in some sentences: a line that contains the key may contain the phrase."""

TERMS = (
    "arithmetic intensity", "ridge point", "bound", "floor", "estimate", "prediction interval", "MFU", "MBU", "TTFT", "TPOT",
    "ITL", "E2E", "goodput", "SLO", "prefill", "decode", "chunked prefill", "continuous batching", "KV cache", "block",
    "paged attention", "prefix caching", "preemption", "recompute", "swap", "TP", "PP", "DP", "EP", "CP", "disaggregation",
    "speculative decoding", "GQA", "MLA", "MoE", "critical batch", "ceil and tile quantization", "launch overhead",
)  # fmt: skip
"""What a reader looks up in docs/glossary.md."""


MODULES = sorted(PACKAGE.rglob("*.py"))
PAGES = [
    path
    for path in sorted(
        [
            *ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("docs/guides/*.md"), *ROOT.glob("lessons/*.py"),
            *ROOT.glob("lessons/**/*.md"), ROOT / "reports" / "README.md",
        ]
    )
    if path.name != "CHANGELOG.md"
]  # fmt: skip


def words_of(name: str) -> set[str]:
    """The words that a name is made of: `num_seats`, `NoRoomError`."""
    return {word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+", name)}


@lru_cache(maxsize=1)
def nodes_of(source: str) -> list[ast.AST]:
    """All nodes of a module's syntax tree, read once for what looks at it."""
    return list(ast.walk(ast.parse(source)))


def names_in(source: str) -> Iterator[tuple[int, str]]:
    """Every name of a module, with its line."""
    for node in nodes_of(source):
        line = getattr(node, "lineno", 0)
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name) | ast.keyword(arg=str(name)):
                yield line, name
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                yield line, name
            case ast.alias(name=name, asname=asname):
                yield line, asname or name.rpartition(".")[2]


def banned_names(source: str, file_name: str = "") -> list[str]:
    """Names that contain a banned word, with their lines."""
    names = [(0, file_name), *names_in(source)]
    return [
        f"{line}: {name}" for line, name in names if name not in EXCEPTIONS and (words_of(name) & BANNED or "stands_on" in name)
    ]


def phrases_in(text: str) -> list[str]:
    """Phrases of `PHRASES` in a text, with their lines and what to write."""
    lines = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line or _ANY_PHRASE.search(line) is None:
            continue
        allowed = {phrase for context, phrase in ALLOWED_PHRASES.items() if context in line}
        for phrase, better in PHRASES.items():
            if phrase not in allowed and (match := re.search(phrase, line, re.IGNORECASE)):
                lines.append(f"{number}: {match[0]!r} (write: {better})")
    return lines


def prose_of(path: Path) -> str:
    """The text of a document without its code and program output, which are checked where they are made."""
    lines, in_block = [], False
    for line in path.read_text(encoding="utf-8").splitlines():
        fence = path.suffix == ".md" and line.lstrip().startswith("```")
        lines.append("" if in_block or fence else line)
        in_block ^= fence
    return "\n".join(lines)


def docstrings_in(source: str) -> str:
    """The docstrings of a module, each line where it is in the file."""
    written = source.splitlines()
    lines = [""] * (source.count("\n") + 2)
    for node in nodes_of(source):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
            constant = node.body[0]
            for number in range(constant.lineno, (constant.end_lineno or constant.lineno) + 1):
                lines[number - 1] = written[number - 1]
    return "\n".join(lines)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_names_are_those_of_the_field_and_docstrings_plain_english(path: Path) -> None:
    """No name and no file name contains a word of `BANNED`, no docstring a phrase of `PHRASES`."""
    source = path.read_text(encoding="utf-8")
    assert banned_names(source, path.stem) == []
    assert phrases_in(docstrings_in(source)) == []


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_documents_are_plain_english(path: Path) -> None:
    """No document and no lesson contains a phrase of `PHRASES`."""
    assert phrases_in(prose_of(path)) == []


@pytest.mark.parametrize("term", TERMS)
def test_the_glossary_defines_the_terms_of_the_field(term: str) -> None:
    """Each has an entry of its own, in one or two sentences."""
    text = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    entries = re.findall(r"^\*\*(.+?)\*\*(.+)$", text, re.MULTILINE)
    definitions = {re.sub(r"[.,(].*", "", title).strip().lower(): definition for title, definition in entries}
    assert len(definitions[term.lower()].split()) >= 4


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("found = 1", "1: found"),
        ("def f(seats): ...", "1: seats"),
        ("x.num_jobs", "1: num_jobs"),
        ("class NoRoom: ...", "1: NoRoom"),
    ],
)
def test_the_probe_sees_names(source: str, name: str) -> None:
    """Locals, parameters, attributes and classes; `foundation` is another word."""
    assert banned_names(source) == [name]
    assert banned_names("foundation = germany") == []


def test_the_probe_sees_phrases() -> None:
    """In any case, and on the right line; what a user types is quoted."""
    assert phrases_in("80% of it") == ["1: '80%' (write: 80 %, with a space, as `formatting.percent` writes it)"]
    assert phrases_in('80 % of it, `30%` and "50%"') == []
    assert [line.partition(":")[0] for line in phrases_in("fine\nSo many tokens\n128 KiB a token")] == ["2", "3"]
    assert phrases_in("a third of PCIe lanes") == []
    assert docstrings_in('x = 1\ndef f():\n    """Nobody."""\n').splitlines()[2].strip() == '"""Nobody."""'
