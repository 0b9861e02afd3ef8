"""Times: to the first token, and between tokens."""

from __future__ import annotations

import re
from collections.abc import Callable

from roofline.audit.claims.claim import Claim
from roofline.audit.claims.text.phrase import NUMBER, Reading, number, phrase

_UNITS = {
    "ms": 1e-3, "milli": 1e-3, "us": 1e-6, "micro": 1e-6, "ns": 1e-9, "nano": 1e-9, "min": 60.0, "h": 3600.0, "s": 1.0,
}  # fmt: skip
"""Seconds by how the name of a unit begins."""
_UNIT = (
    r"(?P<u>ms|msecs?|milli-?seconds?|us|usecs?|micro-?seconds?|ns|nano-?seconds?|s|secs?|seconds?|min|minutes?|hours?)"
    r"(?!\w|\.\d|/)"
)
_TTFT = r"ttft|time[- ]to[- ](?:the[- ])?first[- ]token|first[- ]token(?:[- ](?:latency|time))?|prefill (?:latency|time)"
_TPOT = (
    r"tpot|itl|inter[- ]token[- ]latency|time[- ]per[- ](?:output[- ])?token|per[- ]token[- ](?:latency|time)|decode latency|"
    r"between tokens|time between tokens|tbt"
)


def add_time(reading: Reading, label: str, seconds: float) -> None:
    """A named time is a claim."""
    reading.claims.append(Claim(kind="ttft" if label == "ttft" else "tpot", value=seconds))


def _seconds(match: re.Match[str]) -> float:
    unit = match["u"].lower()
    return number(match["n"]) * next(size for start, size in _UNITS.items() if unit.startswith(start))


def _time(reading: Reading, match: re.Match[str]) -> None:
    if reading.labels:
        add_time(reading, reading.labels.pop(), _seconds(match))
    else:
        reading.times.append((_seconds(match), match[0].strip()))


def _a_token(reading: Reading, match: re.Match[str]) -> None:
    if reading.labels and reading.labels[-1] == "tpot":
        reading.labels.pop()
    add_time(reading, "tpot", _seconds(match))


def _label(name: str) -> Callable[[Reading, re.Match[str]], None]:
    def read(reading: Reading, match: re.Match[str]) -> None:
        del match
        if reading.times:
            add_time(reading, name, reading.times.pop()[0])
        else:
            reading.labels.append(name)

    return read


_AMOUNT = rf"(?:(?:under|below|less than|within|<=?)\s*)?(?P<n>{NUMBER})\s*-?{_UNIT}"
_OF = r"(?:\s*(?:of|=|:|is|at)(?!\w))?"
_PER = r"\s*(?:/|per|a|each|every)\s*(?:output\s+|generated\s+)?(?:tokens?|tok)(?!\w|\.\d)"

PHRASES = (
    phrase("time", _AMOUNT, _time),
    phrase("time a token", _AMOUNT.replace("(?!\\w|\\.\\d|/)", "") + _PER, _a_token, "7 ms per token | ITL 7 ms | TPOT 7 ms"),
    phrase("TTFT", rf"(?:{_TTFT})(?!\w|\.\d){_OF}", _label("ttft"), "TTFT 10 ms | 10 ms to first token"),
    phrase("to first token", r"to (?:the )?first token(?!\w|\.\d)", _label("ttft")),
    phrase("TPOT", rf"(?:{_TPOT})(?!\w|\.\d){_OF}", _label("tpot")),
)
