"""Devices, and how a model is divided over them."""

from __future__ import annotations

import re

from roofline.audit.claims.text.phrase import IS, Reading, option, phrase
from roofline.units import parse_count

_WORDS = {"a single": 1, "single": 1, "one": 1, "two": 2, "three": 3, "four": 4, "eight": 8, "sixteen": 16}
_NUMBER = r"(?P<n>\d+)"
_DEVICES = r"(?:gpus?|cards?|devices?|chips?|accelerators?)"


def _size(text: str) -> int:
    return parse_count(text, "a number of devices in the claim", minimum=1)


def _word(reading: Reading, match: re.Match[str]) -> None:
    reading.say("devices", _WORDS[re.sub(r"\s+", " ", match["n"].lower())], match[0])


def _parallel(short: str, long: str) -> str:
    return rf"(?:{short}|{long}[- ]parallel(?:ism)?(?:[- _]size)?){IS}[-_]?{_NUMBER}(?!\w|\.\d)"


PHRASES = (
    phrase("tp", _parallel("tp", "tensor"), option("tp", _size), "tp8 | TP=8 | pp2 | dp4 | ep8"),
    phrase("pp", _parallel("pp", "pipeline"), option("pp", _size)),
    phrase("dp", _parallel("dp", "data"), option("dp", _size)),
    phrase("ep", _parallel("ep", "expert"), option("ep", _size)),
    phrase("times", rf"{_NUMBER}\s?[x*](?=\s?[a-z])", option("devices", _size), "8x H100-SXM | on 8 GPUs | a single"),
    phrase("times after", rf"x\s?{_NUMBER}(?!\w|\.\d)", option("devices", _size)),
    phrase("devices", rf"{_NUMBER}\s*-?{_DEVICES}(?!\w)", option("devices", _size)),
    phrase(
        "devices in words",
        rf"(?P<n>{'|'.join(_WORDS)})(?!\w)(?![- ](?:user|stream|request|sequence|batch))(?:\s+{_DEVICES}(?!\w))?",
        _word,
    ),
)
