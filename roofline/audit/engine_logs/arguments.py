"""The arguments that an engine was started with, out of the line in which it prints them."""

from __future__ import annotations

import re
from functools import cache

_EMPTY = ("None", "null", "")


def arguments(line: str, names: dict[str, str]) -> dict[str, str]:
    """The values of arguments, as text, under our names (`names`: the engine's name to ours).

    Engines print them as `name=value` (of a data class, a namespace) or as `'name': value` (of a dict). Of a name that is
    there more than once the first counts: nested settings of a draft model come later. What is None is left out.

    >>> arguments("config: model='org/a', dtype=torch.bfloat16, seed=None)", {"model": "model", "dtype": "dtype", "seed": "s"})
    {'model': 'org/a', 'dtype': 'torch.bfloat16'}
    >>> arguments("{'model': 'org/a', 'max_num_seqs': 64}", {"max_num_seqs": "max_num_seqs"})
    {'max_num_seqs': '64'}
    """
    found: dict[str, str] = {}
    for name, ours in names.items():
        match = _pattern(name).search(line)
        if match is None or ours in found:
            continue
        value = next(group for group in match.groups() if group is not None).strip()
        if value not in _EMPTY:
            found[ours] = value
    return found


@cache
def _pattern(name: str) -> re.Pattern[str]:
    value = r"""(?:'([^']*)'|"([^"]*)"|([^,\s)}\]]+))"""
    return re.compile(rf"""(?<![\w'"-])(?:['"]{name}['"]\s*:|{name}\s*=)\s*{value}""")


def flag(value: str | None) -> bool:
    """Whether an argument is switched on."""
    return value is not None and value.lower() in ("true", "1")
