"""Units as students write them: for every kind of answer the spellings that are read, and how many base units they are.

What `roofline.units` reads is read here as the same number (a test holds both against each other); here are more spellings,
since people write into a field and not into a file: bits, words, and no unit at all, which is the base unit.
"""

from __future__ import annotations

from roofline.units import SECONDS

_SI = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18}
_BINARY = {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40, "Pi": 2.0**50}
_SMALL = {"": 1.0, "m": 1e-3, "u": 1e-6, "µ": 1e-6, "μ": 1e-6, "n": 1e-9}  # two code points look like micro
_COUNT = {"": 1.0, "k": 2.0**10, "K": 2.0**10, "m": 2.0**20, "M": 2.0**20}
_WORDS = {"thousand": 1e3, "million": 1e6, "mn": 1e6, "billion": 1e9, "bn": 1e9, "trillion": 1e12}


def _spelled(prefixes: dict[str, float], *units: str, scale: float = 1.0) -> dict[str, float]:
    return {prefix + unit: size * scale for unit in units for prefix, size in prefixes.items()}


_BYTES = ("B", "byte", "bytes", "Byte", "Bytes")
_BITS = ("b", "bit", "bits")
_FLOP = ("FLOP", "FLOPs", "flop", "flops")
_PER_S = ("/s", "/sec", "/second")

UNITS: dict[str, dict[str, float]] = {
    "bytes": {
        **_spelled({**_SI, **_BINARY}, *_BYTES),
        **_spelled(_SI, *_BITS, scale=0.125),
    },
    "flop": {**_spelled(_SI, *_FLOP), **{word + unit: size for word, size in _WORDS.items() for unit in ("", *_FLOP)}},
    "flop/s": _spelled(_SI, "FLOPS", "OP/s", "OPS", *(unit + per for unit in _FLOP for per in _PER_S)),
    "bytes/s": {
        **_spelled({**_SI, **_BINARY}, *(unit + per for unit in _BYTES for per in _PER_S)),
        **_spelled(_SI, *(unit + per for unit in _BITS for per in _PER_S), scale=0.125),
    },
    "flop/byte": _spelled({"": 1.0}, *(f"{above}/{below}" for above in (*_FLOP, "OP", "OPs") for below in _BYTES)),
    "s": {**_spelled(_SMALL, "s"), **{name: float(size) for name, size in SECONDS.items()}},
    "tokens": _spelled(_COUNT, "", "token", "tokens", "tok"),
    "tokens/s": _spelled(_SI, *(unit + per for unit in ("token", "tokens", "tok", "") for per in _PER_S), "tps", ""),
    "requests/s": _spelled(_SI, *(unit + per for unit in ("request", "requests", "req", "") for per in _PER_S)),
    "sequences": _spelled(_COUNT, "", "sequence", "sequences", "seq", "seqs", "request", "requests", "user", "users"),
    "parameters": {
        **_spelled({**_SI, "B": 1e9, "b": 1e9, "m": 1e6}, "", "parameter", "parameters", "params", "weights"),
        **{word + unit: size for word, size in _WORDS.items() for unit in ("", "parameters", "params")},
    },
    "devices": _spelled({"": 1.0}, "", "device", "devices", "GPU", "GPUs", "gpu", "gpus"),
    "usd": _spelled({"": 1.0}, "$", "USD", "usd", "dollar", "dollars") | {"cent": 0.01, "cents": 0.01, "¢": 0.01},
    "share": {"": 1.0, "%": 0.01, "percent": 0.01},
    "ratio": {"": 1.0, "%": 0.01, "percent": 0.01, "x": 1.0, "X": 1.0, "×": 1.0, "times": 1.0, "fold": 1.0},
}  # fmt: skip

BASE: dict[str, str] = {
    "bytes": "B", "flop": "FLOP", "flop/s": "FLOP/s", "bytes/s": "B/s", "flop/byte": "FLOP/byte", "s": "s", "tokens": "tokens",
    "tokens/s": "tokens/s", "requests/s": "requests/s", "sequences": "sequences", "parameters": "parameters",
    "devices": "devices", "usd": "USD", "share": "", "ratio": "",
}  # fmt: skip
"""What a number without a unit is in."""

MEANING: dict[str, str] = {
    "bytes": "an amount of memory", "flop": "an amount of work", "flop/s": "a rate of work", "bytes/s": "a bandwidth",
    "flop/byte": "an arithmetic intensity", "s": "a time", "tokens": "a number of tokens", "tokens/s": "a rate of tokens",
    "requests/s": "a rate of requests", "sequences": "a number of sequences", "parameters": "a number of parameters",
    "devices": "a number of devices", "usd": "an amount of money", "share": "a share", "ratio": "a plain number",
}  # fmt: skip

EXAMPLES: dict[str, str] = {
    "bytes": "320 KiB, 1.5 GB or 2e9", "flop": "12 GFLOP or 1.2e10", "flop/s": "90 TFLOP/s", "bytes/s": "900 GB/s",
    "flop/byte": "42 or 42 FLOP/byte", "s": "12 ms or 0.012", "tokens": "4096 or 4k", "tokens/s": "850 or 850 tokens/s",
    "requests/s": "2.5", "sequences": "48", "parameters": "6.7e9 or 6.7 B", "devices": "4", "usd": "0.35", "share": "12 "
    "% or 0.12",
    "ratio": "3.5",
}  # fmt: skip
