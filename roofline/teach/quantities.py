"""Numbers as lessons and worksheets write them: exact, and with a prefix. Pages run a translation of this module."""

from __future__ import annotations

from roofline import formatting

_LARGE = 1e5
_WATT_HOUR = 3600.0
_PREFIXED = {"FLOP": "FLOP", "FLOP/s": "FLOP/s", "bytes/s": "B/s"}
_KIND_UNITS = {"flop": "FLOP", "flop/s": "FLOP/s", "bytes/s": "B/s", "s": "s"}
_KIND_NOUNS = {
    "flop/byte": "FLOP/byte", "tokens": "tokens", "tokens/s": "tokens/s", "requests/s": "requests/s", "sequences": "sequences",
    "devices": "devices",
}  # fmt: skip


def amount(value: float, unit: str) -> str:
    """Format a number with its unit as lessons do: exact if it is whole, and with a prefix.

    Bytes are in binary units if these are exact, otherwise in decimal and binary ones: they differ by 7 % at a giga.

    Args:
        value: in `unit`.
        unit: "s", "bytes", "FLOP", "FLOP/s", "bytes/s", "1" (no unit), or any other text, which gets no prefix.

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
        text = formatting.quantity(value, _PREFIXED[unit])
        return f"{int(value):,} {unit} ≈ {text}" if unit == "FLOP" and float(value).is_integer() else text
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


def format_answer(value: float, kind: str) -> str:
    """Format the answer of a problem in few digits, with its unit.

    Args:
        value: in the base unit of its kind (bytes, FLOP, s, tokens, USD, ...); a share as a fraction.
        kind: `roofline.teach.worksheets.problem.AnswerKind`.

    >>> format_answer(131072, "bytes"), format_answer(17179869184, "bytes"), format_answer(0.00736, "s")
    ('128 KiB (131,072 B)', '16 GiB (17.18 GB)', '7.36 ms')
    >>> format_answer(0.35, "joules"), format_answer(1.008e9, "joules")
    ('0.35 J', '280 kWh (1.008 GJ)')
    >>> format_answer(8030261248, "parameters"), format_answer(0.00641, "share"), format_answer(1, "sequences")
    ('8.03 B (8,030,261,248)', '0.641 %', '1 sequence')
    """
    if kind == "bytes":
        if value < 1024:
            return f"{formatting.number(value)} B"
        decimal = f"{value:,.0f} B" if value < 1e7 else formatting.quantity(value, "B")
        return f"{formatting.binary(value)} ({decimal})"
    if kind in _KIND_UNITS:
        return formatting.quantity(value, _KIND_UNITS[kind])
    if kind == "parameters":
        scale, word = (1e9, "B") if value >= 1e9 else (1e6, "M")
        return f"{value / scale:.4g} {word} ({value:,.0f})"
    if kind == "share":
        return formatting.percent(value)
    if kind == "joules":
        joules = formatting.quantity(value, "J")
        return joules if value < _WATT_HOUR else f"{formatting.quantity(value / _WATT_HOUR, 'Wh')} ({joules})"
    if kind == "usd":
        return f"${formatting.number(value)}"
    if kind in _KIND_NOUNS:
        unit = _KIND_NOUNS[kind]
        return f"{formatting.number(value)} {unit.removesuffix('s') if value == 1 and '/' not in unit else unit}"
    return formatting.number(value)
