"""Speculative decoding: how many tokens a step gains is for another command to say."""

from __future__ import annotations

import re

from roofline.audit.claims.text.phrase import Reading, phrase
from roofline.errors import InputError

_SPECULATIVE = (
    r"speculat(?:ive|ion)(?:[- ]?(?:decod(?:ing|e)|sampling))?|spec(?:ulative)?[- ]?dec(?:ode|oding)?|eagle(?:-?\d)?|medusa|"
    r"(?:a\s+)?draft(?:[- ]model)?|multi[- ]token[- ]prediction|mtp"
)


def _said(reading: Reading, match: re.Match[str]) -> None:
    del reading
    why = "with speculative decoding a step gives several tokens, and a claim does not say how many: no ceiling can be stated. "
    how = "`roofline analyze --speculative-model DRAFT --acceptance A` says what a draft and its acceptance give"
    raise InputError(f"{match[0].strip()!r} in the claim: {why}{how}")


def _none(reading: Reading, match: re.Match[str]) -> None:
    """So by default."""
    del reading, match


PHRASES = (
    phrase("speculative decoding", rf"(?:{_SPECULATIVE})(?!\w|\.\d)", _said),
    phrase("no speculative decoding", rf"(?:without|no|not|w/o)\s+(?:{_SPECULATIVE})(?!\w|\.\d)", _none),
)
