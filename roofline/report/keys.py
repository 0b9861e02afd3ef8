"""Ids of what a click on a point shows."""

from __future__ import annotations

_PLAIN = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"


def op_key(phase: str, path: str) -> str:
    """The key of an operator of a phase: letters, digits and dashes; different paths have different keys.

    >>> op_key("decode", "layers/attention/q_proj"), op_key("decode", "layers/attention/q-proj")
    ('decode--layers--attention--q-5f-proj', 'decode--layers--attention--q-2d-proj')
    """
    return "".join([_spelled(letter) for letter in f"{phase}/{path}"])


def _spelled(letter: str) -> str:
    """A letter as it is, a slash as two dashes, anything else as its code between dashes: read from the left, no two clash."""
    return letter if letter in _PLAIN else "--" if letter == "/" else f"-{ord(letter):x}-"
