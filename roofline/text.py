"""Text that comes from files, made safe to show."""

from __future__ import annotations

import re

# C0 and C1 controls, and the marks that turn the direction of text.
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_CONTROL_BUT_NEWLINE = re.compile(r"(?!\n)[\x00-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def clean(text: object, *, keep_lines: bool = False) -> str:
    r"""Text without control characters.

    >>> clean("a\x1b[31mb")
    'a[31mb'
    """
    return (_CONTROL_BUT_NEWLINE if keep_lines else _CONTROL).sub("", str(text))


_PLAIN = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789@%+=:,./-_"


def quoted(text: str) -> str:
    """Text as one word of a POSIX shell.

    NB: `shlex.quote` does the same; this is also translated to JavaScript.

    >>> print(quoted("llama-3.1-8b"), quoted("it's $HOME"), quoted(""))
    llama-3.1-8b 'it'"'"'s $HOME' ''
    """
    if text and all(letter in _PLAIN for letter in text):
        return text
    return "'" + text.replace("'", "'\"'\"'") + "'"
