"""Shell lines and lists of arguments as words that know where they stand, with the variables that the file itself sets.

What a variable is that nothing here sets is not guessed: the word keeps its `$NAME`, and whoever needs its value refuses it.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, replace

from roofline.audit.config_check.documents import Said

_SEPARATORS = frozenset(";&|()\n")
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
_VARIABLE = re.compile(
    r"\$\$|\\\$|\$(?P<plain>[A-Za-z_]\w*)|\$\((?P<kubernetes>[A-Za-z_]\w*)\)"
    r"|\$\{(?P<braced>[A-Za-z_]\w*)(?:(?P<how>:?[-?=])(?P<default>[^{}]*))?\}"
)


@dataclass(frozen=True, slots=True)
class Word:
    """One word of a command line, and where it stands."""

    text: str
    said: Said


def expanded(text: str, variables: Mapping[str, str]) -> str:
    """A text with its variables filled in; those without a value and without a default stay as they are.

    >>> expanded("$A ${B:-two} ${C} $(A) $$ '$A'", {"A": "one"})
    "one two ${C} one $ 'one'"
    """

    def value(match: re.Match[str]) -> str:
        if match[0] in ("$$", "\\$"):
            return "$"
        name = match["plain"] or match["kubernetes"] or match["braced"]
        known = variables.get(name)
        how = match["how"] or ""
        if known is not None and (known or not how.startswith(":")):
            return known
        return match["default"] if how[-1:] in ("-", "=") and how else match[0]

    return _VARIABLE.sub(value, text)


def listed(items: list[Said], variables: Mapping[str, str]) -> list[Word]:
    """The words of a list of arguments, one an entry."""
    return [Word(expanded(_text(one.value), variables), one) for one in items]


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def commands(said: Said, variables: Mapping[str, str]) -> list[list[Word]]:
    """The simple commands of a script, in their order; what it assigns or exports is known from there on.

    Raises:
        SpecError: a quotation that has no end.
    """
    known = dict(variables)
    found: list[list[Word]] = []
    for words in _simple(said):
        rest = list(words)
        if rest and rest[0].text in ("export", "local", "declare", "set", "env"):
            rest = rest[1:]
        while rest and (match := _ASSIGNMENT.fullmatch(rest[0].text)) is not None:
            known[match[1]] = expanded(match[2], known)
            rest = rest[1:]
        found.append([replace(word, text=expanded(word.text, known)) for word in rest])
    return [words for words in found if words]


def _simple(said: Said) -> list[list[Word]]:
    text = re.sub(r"\\\r?\n", lambda _: " \0", str(said.value))  # a line that goes on; \0 counts it
    lexer = shlex.shlex(_protected(text), posix=True, punctuation_chars=";&|()\n")
    lexer.whitespace, lexer.whitespace_split, lexer.commenters = " \t\r", True, ""
    found: list[list[Word]] = [[]]
    line, comment = 0, False
    try:
        tokens = list(lexer)
    except ValueError:
        raise said.wrong("a quotation in the command has no end") from None
    for token in tokens:
        lines = token.count("\n") + token.count("\0")
        if set(token) <= _SEPARATORS:
            line += lines
            comment = comment and "\n" not in token
            found.append([])
            continue
        text = token.replace("\0", "").translate(_SHOWN)
        before = token.count("\0")
        line += before
        comment = comment or text.startswith("#")
        if text and not comment:
            where = replace(said, value=text, line=said.line + 1 + line) if said.lines else said
            found[-1].append(Word(text, where))
        line += lines - before
    return [words for words in found if words]


# `$(NAME)` and `${NAME:-a b}` are one word to a shell, also without quotes.
_HIDDEN = {ord("("): "\ue000", ord(")"): "\ue001", ord(" "): "\ue002"}
_SHOWN = {ord(hidden): chr(shown) for shown, hidden in _HIDDEN.items()}


def _protected(text: str) -> str:
    return re.sub(r"\$\([^()\n]*\)|\$\{[^{}\n]*\}", lambda match: match[0].translate(_HIDDEN), text)
