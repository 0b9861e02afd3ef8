"""Numbers as a lesson says them: in full, and beside it what a reader keeps in mind."""

from __future__ import annotations

from roofline import formatting

_PREFIXED = {"FLOP": "FLOP", "FLOP/s": "FLOP/s", "bytes/s": "B/s"}
_LARGE = 1e5


def amount(value: float, unit: str) -> str:
    """A number with its unit, exact where it is whole, and beside it with a prefix.

    Bytes are said in binary units where these are exact, and in both where not: the two differ by 7 % at a giga.

    >>> amount(131072, "bytes")
    '131,072 bytes = 128 KiB'
    >>> amount(15009857536, "bytes")
    '15,009,857,536 bytes ≈ 15.01 GB ≈ 13.98 GiB'
    >>> amount(0.00736138, "s"), amount(17156800512, "FLOP"), amount(153.0161, "FLOP/byte"), amount(32, "heads")
    ('7.361 ms', '17,156,800,512 FLOP ≈ 17.16 GFLOP', '153 FLOP/byte', '32 heads')
    """
    if unit == "s":
        return formatting.quantity(value, "s")
    if unit == "1":
        return formatting.number(value)
    if unit == "bytes":
        return _bytes(value)
    if unit in _PREFIXED and abs(value) >= _LARGE:
        shown = formatting.quantity(value, _PREFIXED[unit])
        return f"{int(value):,} {unit} ≈ {shown}" if unit == "FLOP" and float(value).is_integer() else shown
    return f"{formatting.number(value)} {unit}".strip()


def _bytes(value: float) -> str:
    exact = f"{value:,.0f} bytes"
    if value < 1024:
        return exact
    binary = formatting.binary(value)
    digits = float(binary.split()[0].replace(",", ""))
    scale = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40, "PiB": 2**50}[binary.split()[1]]
    if digits * scale == value:
        return f"{exact} = {binary}"
    return f"{exact} ≈ {formatting.quantity(value, 'B')} ≈ {binary}"
