"""Markdown as HTML. Formulas are not typed in lessons: between dollars stands a symbol of the nomenclature alone."""

from __future__ import annotations

import re
from functools import cache
from html import escape
from typing import TYPE_CHECKING, Any

from roofline.errors import InputError, UnknownNameError
from roofline.symbols import BY_NAME, TABLE
from roofline.teach.lessons.item import Ids
from roofline.text import clean

if TYPE_CHECKING:
    from markdown_it import MarkdownIt

_DOLLARS = re.compile(r"(?<![\\\w$])\$([^$\n]+)\$(?!\w)")


@cache
def _by_latex() -> dict[str, str]:
    return {entry.latex: entry.name for entry in TABLE}


def symbol_of(latex: str) -> str:
    r"""The name of the symbol that LaTeX, or the name itself, stands for.

    >>> symbol_of("n_{kv}"), symbol_of("n_kv"), symbol_of(r"\beta")
    ('n_kv', 'n_kv', 'beta')

    Raises:
        UnknownNameError: it is no symbol of the nomenclature; formulas are made, not typed.
    """
    known, said = _by_latex(), latex.strip()
    found = said if said in BY_NAME else known.get(said)
    if found is None:
        raise UnknownNameError("symbol between dollars", latex, known)
    return found


def symbols_in(text: str) -> list[str]:
    r"""What stands between dollars in Markdown, code left out.

    >>> symbols_in(r"$n_{kv}$ heads of `$HOME`, for $L$ layers")
    ['n_{kv}', 'L']
    """
    return _DOLLARS.findall(re.sub(r"```.*?```|`[^`\n]*`", "", text, flags=re.DOTALL))


def html_of(text: str, ids: Ids | None = None) -> str:
    r"""Markdown with symbols as HTML. With `ids` headings get names, to be linked to.

    >>> html_of("*two* heads, $n_{kv}$")
    '<p><em>two</em> heads, <math><msub><mi>n</mi><mi>kv</mi></msub></math></p>\n'
    """
    return str(_parser().render(text, {"ids": ids}))


def inline_of(text: str) -> str:
    """A line of Markdown without a paragraph around it."""
    return str(_parser().renderInline(text, {}))


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    # NB: what is typed as HTML is shown as text: a page has only what its policy knows
    parser = MarkdownIt("commonmark", {"html": False}).enable("table")
    parser.inline.ruler.before("escape", "symbol", _symbol)
    parser.add_render_rule("symbol", lambda _, tokens, at, *__: _written(tokens[at].content))
    parser.add_render_rule("heading_open", _heading)
    parser.add_render_rule(
        "table_open", lambda *_: '<div class="scroll" role="group" tabindex="0" aria-label="Table">\n<table>\n'
    )
    parser.add_render_rule("table_close", lambda *_: "</table>\n</div>\n")
    parser.add_render_rule(
        "fence", lambda _, tokens, at, *__: f'<pre tabindex="0"><code>{_escaped(tokens[at].content)}</code></pre>\n'
    )
    return parser


def _escaped(text: str) -> str:
    return escape(clean(text, keep_lines=True))


def _symbol(state: Any, silent: bool) -> bool:
    """An inline rule: `$...$`."""
    match = _DOLLARS.match(state.src, state.pos)
    if match is None:
        return False
    if not silent:
        state.push("symbol", "math", 0).content = match[1]
    state.pos = match.end()
    return True


def _written(latex: str) -> str:
    from roofline.formulas.mathml import symbol_mathml

    name = symbol_of(latex)
    return symbol_mathml("β" if name == "beta" else name)


def _heading(_: Any, tokens: Any, at: int, __: Any, env: Any) -> str:
    tag, ids = tokens[at].tag, env.get("ids")
    name = "" if ids is None else f' id="{ids.once(slug(tokens[at + 1].content))}"'
    return f"<{tag}{name}>"


def slug(title: str) -> str:
    """A heading as a name in an address.

    >>> slug("What must be *read*, at least?")
    'what-must-be-read-at-least'
    """
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")


def checked(text: str) -> str:
    """Markdown whose symbols are all of the nomenclature.

    Raises:
        InputError: a formula is typed in it.
    """
    for latex in symbols_in(text):
        symbol_of(latex)
    if re.search(r"\\\(|\\\[|\$\$", text):
        raise InputError("a formula is typed: show it with formula(...), which makes it from the toolkit's own")
    return text
