"""A translated script without the spaces that nothing needs."""

from __future__ import annotations

import re

_TEXT = re.compile(r'("(?:[^"\\]|\\.)*")')
_SPACE = re.compile(r"\s*([{}()\[\];,=<>+*?:&|!])\s*")


def compact(script: str) -> str:
    """The script with one space at most between two words, and none beside signs; texts stay as they are.

    >>> compact('const a = { b: "c, d" };')
    'const a={b:"c, d"};'
    """
    return "".join(part if index % 2 else _SPACE.sub(r"\1", part) for index, part in enumerate(_TEXT.split(script)))
