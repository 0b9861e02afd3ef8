"""Markdown as HTML, for lessons and worksheets. Text between dollars is a symbol of the nomenclature, never a formula."""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from html import escape
from typing import TYPE_CHECKING, Any

from roofline.errors import InputError, UnknownNameError
from roofline.symbols import BY_NAME, TABLE
from roofline.text import clean

if TYPE_CHECKING:
    from markdown_it import MarkdownIt

_DOLLARS = re.compile(r"(?<![\\\w$])\$([^$\n]+)\$(?!\w)")
_CODE = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)


class Ids:
    """Ids of the elements of one page, each used once: `predict-1`, `predict-2`."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def fresh(self, kind: str) -> str:
        """Return the next id of a kind of element."""
        self._counts[kind] += 1
        return f"{kind}-{self._counts[kind]}"

    def once(self, name: str) -> str:
        """Return the name itself as an id, with a number after it if it is taken."""
        self._counts[f"={name}"] += 1
        count = self._counts[f"={name}"]
        return name if count == 1 else f"{name}-{count}"


@cache
def _by_latex() -> dict[str, str]:
    return {entry.latex: entry.name for entry in TABLE}


def _symbol_of(written: str) -> str:
    r"""Return the name in code of the symbol that is written as LaTeX or as that name.

    Raises:
        UnknownNameError: it is no symbol of the nomenclature; formulas are computed, not typed.

    >>> _symbol_of("n_{kv}"), _symbol_of("n_kv"), _symbol_of(r"\beta")
    ('n_kv', 'n_kv', 'beta')
    """
    known, text = _by_latex(), written.strip()
    name = text if text in BY_NAME else known.get(text)
    if name is None:
        raise UnknownNameError("symbol between dollars", written, known)
    return name


def symbols_in(text: str) -> list[str]:
    r"""Return the texts between dollars in Markdown, code left out.

    >>> symbols_in(r"$n_{kv}$ heads of `$HOME`, for $L$ layers")
    ['n_{kv}', 'L']
    """
    return _DOLLARS.findall(_CODE.sub("", text))


def checked(text: str) -> str:
    """Return the text itself, if all its symbols are of the nomenclature.

    Raises:
        InputError: a formula is typed in it, or a symbol is not known.
    """
    for latex in symbols_in(text):
        _symbol_of(latex)
    if re.search(r"\\\(|\\\[|\$\$", text):
        raise InputError("a formula is typed: show it with formula(...), which computes it")
    return text


def html_of(text: str, ids: Ids | None = None) -> str:
    r"""Render Markdown with symbols as HTML (HTML in it is escaped). With `ids`, headings get ids to link to.

    Raises:
        UnknownNameError: a symbol between dollars is not of the nomenclature.

    >>> html_of("*two* heads, $n_{kv}$")
    '<p><em>two</em> heads, <math><msub><mi>n</mi><mi>kv</mi></msub></math></p>\n'
    """
    return str(_parser().render(text, {"ids": ids}))


def inline_of(text: str) -> str:
    """Render one line of Markdown as HTML, without a paragraph around it.

    Raises:
        UnknownNameError: a symbol between dollars is not of the nomenclature.
    """
    return str(_parser().renderInline(text, {}))


def with_latex(text: str) -> str:
    r"""Return Markdown with every symbol in LaTeX, for programs that render it.

    Raises:
        UnknownNameError: a symbol between dollars is not of the nomenclature.

    >>> with_latex("of $n_kv$ heads")
    'of $n_{kv}$ heads'
    """
    return _DOLLARS.sub(lambda match: f"${BY_NAME[_symbol_of(match[1])].latex}$", text)


def plain(text: str) -> str:
    """Return one paragraph of Markdown as plain text, for comments and messages; symbols by their names in code.

    Raises:
        UnknownNameError: a symbol between dollars is not of the nomenclature.

    >>> plain("**Which** of `a` and $n_kv$?")
    'Which of a and n_kv?'
    """
    pieces = _parser().parseInline(text, {})[0].children or []
    return "".join(_plain_piece(piece) for piece in pieces)


def _plain_piece(piece: Any) -> str:
    if piece.type == "softbreak":
        return "\n"
    return _symbol_of(piece.content) if piece.type == "symbol" else str(piece.content)


def slug(title: str) -> str:
    """Return a heading as the id that a link to it has.

    >>> slug("What must be *read*, at least?")
    'what-must-be-read-at-least'
    """
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    # NB: HTML in a text is shown as text: a page has only what its policy allows
    parser = MarkdownIt("commonmark", {"html": False}).enable("table")
    parser.inline.ruler.before("escape", "symbol", _symbol_rule)
    parser.add_render_rule("symbol", lambda _, tokens, at, *__: _symbol_html(tokens[at].content))
    parser.add_render_rule("heading_open", _heading)
    parser.add_render_rule(
        "table_open", lambda *_: '<div class="scroll" role="group" tabindex="0" aria-label="Table">\n<table>\n'
    )
    parser.add_render_rule("table_close", lambda *_: "</table>\n</div>\n")
    parser.add_render_rule("fence", lambda _, tokens, at, *__: preformatted(tokens[at].content))
    return parser


def preformatted(text: str) -> str:
    """Return code or printed text as HTML, in a box that the keyboard can scroll."""
    return f'<pre tabindex="0"><code>{escape(clean(text, keep_lines=True))}</code></pre>\n'


def _symbol_rule(state: Any, silent: bool) -> bool:
    """An inline rule: `$...$`."""
    match = _DOLLARS.match(state.src, state.pos)
    if match is None:
        return False
    if not silent:
        state.push("symbol", "math", 0).content = match[1]
    state.pos = match.end()
    return True


def _symbol_html(latex: str) -> str:
    from roofline.formulas.mathml import symbol_mathml

    name = _symbol_of(latex)
    return symbol_mathml("β" if name == "beta" else name)


def _heading(_: Any, tokens: Any, at: int, __: Any, env: Any) -> str:
    tag, ids = tokens[at].tag, env.get("ids")
    name = "" if ids is None else f' id="{ids.once(slug(tokens[at + 1].content))}"'
    return f"<{tag}{name}>"
