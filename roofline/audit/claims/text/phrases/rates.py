"""Tokens a second, and whose they are."""

from __future__ import annotations

import re
from collections.abc import Callable

from roofline.audit.claims.claim import Claim
from roofline.audit.claims.text.phrase import A_SECOND, NUMBER, Reading, phrase, rate_number
from roofline.errors import InputError

_PROMPT = r"prompt|input|prefill|prompt[- ]processing"
_REPLY = r"output|generated|generation|decode|decoded|new"
_TOKENS = r"(?:tokens?|toks?|tk|t)"
_WHAT = rf"(?:(?P<what>{_PROMPT}|{_REPLY}|total|aggregate)[\s-]+)?"
_UNIT = rf"(?:{_TOKENS}(?:\s*/\s*(?P<own>user|gpu|card|device)(?=\s*/))?{A_SECOND}|tps(?!\w|\.\d))"
_MINUTE = rf"{_TOKENS}(?:\s*/\s*|\s+(?:per|a)\s+)min(?:ute)?s?(?!\w|\.\d)"
_USER = r"users?|req(?:uest)?s?|seq(?:uence)?s?|streams?|sessions?|clients?|concurrent user|u(?!\w)"
_DEVICE = r"gpus?|cards?|devices?|chips?|accelerators?"


def _rate(reading: Reading, value: float, match: re.Match[str]) -> None:
    groups = match.groupdict()
    if what := (groups.get("what") or "").lower():
        if re.fullmatch(_PROMPT, what):
            reading.phase = "prefill"
        elif re.fullmatch(_REPLY, what):
            reading.phase = "decode"
        else:
            reading.scope = reading.scope or "total"
    if own := (groups.get("own") or "").lower():
        _scope("user" if own == "user" else "gpu")(reading, match)
    reading.claims.append(Claim(kind="tokens_per_s", value=value))


def _a_second(reading: Reading, match: re.Match[str]) -> None:
    _rate(reading, rate_number(match["n"], match["k"]), match)


def _a_minute(reading: Reading, match: re.Match[str]) -> None:
    _rate(reading, rate_number(match["n"], match["k"]) / 60, match)


def _unit_alone(reading: Reading, match: re.Match[str]) -> None:
    if not reading.numbers:
        raise InputError(f"{match[0].strip()!r} in the claim has no number before it")
    _rate(reading, rate_number(reading.numbers.pop()[1]), match)


def _requests(reading: Reading, match: re.Match[str]) -> None:
    del reading
    why = "requests a second depend on the lengths of all of them and are not judged; state tokens a second"
    raise InputError(f"{match[0].strip()!r}: {why}")


def _scope(scope: str) -> Callable[[Reading, re.Match[str]], None]:
    def read(reading: Reading, match: re.Match[str]) -> None:
        if reading.scope not in (None, scope):
            raise InputError(f"{match[0].strip()!r}: the claim says also that the rate is {_WORDS[reading.scope]}")
        reading.scope = scope

    return read


_WORDS = {"user": "per user", "gpu": "per GPU", "total": "of the whole batch", None: ""}


def _phase(name: str) -> Callable[[Reading, re.Match[str]], None]:
    def read(reading: Reading, match: re.Match[str]) -> None:
        del match
        reading.phase = name

    return read


PHRASES = (
    phrase(
        "rate", rf"(?P<n>{NUMBER})\s?(?P<k>[kmg])?\s*{_WHAT}{_UNIT}", _a_second, "3500 tok/s | 3.5k tokens per second | 95 TPS"
    ),
    phrase("rate a minute", rf"(?P<n>{NUMBER})\s?(?P<k>[kmg])?\s*{_WHAT}{_MINUTE}", _a_minute),
    phrase("rate after its unit", rf"{_UNIT}\s*[=:]\s*(?P<n>{NUMBER})\s?(?P<k>[kmg])?(?!\w|\.\d)", _a_second),
    phrase("unit of a rate", rf"{_WHAT}{_UNIT}", _unit_alone),
    phrase(
        "per user",
        rf"(?:per|/|each|for each|every)\s*[- ]?(?:{_USER})(?!\w|\.\d)",
        _scope("user"),
        "per user | per GPU | in total",
    ),
    phrase("per GPU", rf"(?:per|/|each|for each|every)\s*[- ]?(?:{_DEVICE})(?!\w|\.\d)", _scope("gpu")),
    phrase(
        "in total",
        r"(?:in total|total|aggregated?|overall|combined|across all users|whole batch|system)(?!\w|\.\d)",
        _scope("total"),
    ),
    phrase(
        "prompt tokens",
        rf"(?:{_PROMPT})(?:\s+(?:rate|speed|throughput|tokens?))?(?!\w|\.\d)",
        _phase("prefill"),
        "prefill | decode",
    ),
    phrase(
        "generated tokens",
        rf"(?:{_REPLY}|decoding|generating)(?:\s+(?:rate|speed|throughput|tokens?))?(?!\w|\.\d)",
        _phase("decode"),
    ),
    phrase("requests", rf"(?:{NUMBER})\s*(?:(?:req(?:uest)?s?|quer(?:y|ies)){A_SECOND}|rps|qps)(?!\w|\.\d)", _requests),
)
