"""Numbers as they are written on a sheet, with their unit. Pages run a translation of this module."""

from __future__ import annotations

from roofline import formatting
from roofline.formatting import percent

_PLAIN = {
    "flop/byte": "FLOP/byte", "tokens": "tokens", "tokens/s": "tokens/s", "requests/s": "requests/s", "sequences": "sequences",
    "devices": "devices",
}  # fmt: skip
_SI = {"flop": "FLOP", "flop/s": "FLOP/s", "bytes/s": "B/s", "s": "s"}


def shown(value: float, kind: str) -> str:
    """A number of a kind.

    >>> shown(131072, "bytes"), shown(17179869184, "bytes"), shown(0.00736, "s")
    ('128 KiB (131,072 B)', '16 GiB (17.18 GB)', '7.36 ms')
    >>> shown(8030261248, "parameters"), shown(0.00641, "share"), shown(1, "sequences")
    ('8.03 B (8,030,261,248)', '0.641 %', '1 sequence')
    """
    if kind == "bytes":
        if value < 1024:
            return f"{formatting.number(value)} B"
        beside = f"{value:,.0f} B" if value < 1e7 else formatting.quantity(value, "B")
        return f"{formatting.binary(value)} ({beside})"
    if kind in _SI:
        return formatting.quantity(value, _SI[kind])
    if kind == "parameters":
        scale, word = (1e9, "B") if value >= 1e9 else (1e6, "M")
        return f"{value / scale:.4g} {word} ({value:,.0f})"
    if kind == "share":
        return percent(value)
    if kind == "usd":
        return f"${formatting.number(value)}"
    if kind in _PLAIN:
        unit = _PLAIN[kind]
        return f"{formatting.number(value)} {unit.removesuffix('s') if value == 1 and '/' not in unit else unit}"
    return formatting.number(value)
