"""Batch and lengths."""

from __future__ import annotations

import re

from roofline.audit.claims.text.phrase import COUNT, IS, NUMBER, Reading, option, phrase
from roofline.units import parse_count

_TOKENS = r"(?:[\s-]*(?:tokens?|toks?)(?!\w|\.\d|/))"
_PROMPT = r"(?:prompts?|inputs?|in(?=[\s,;/]|$))"
_REPLY = r"(?:outputs?|out(?=[\s,;/]|$)|generated|new tokens|replies|reply|completions?|responses?)"
_CONTEXT = r"(?:contexts?|ctx|cached|seq(?:uence)?(?![-\s]*(?:s\b|/)))(?:[-\s]*(?:len(?:gth)?|size|window))?"
_MANY = r"(?:users?|requests?|reqs?|sequences?|seqs?|streams?|clients?|prompts? at once)(?!\s*/|\s+(?:per|a)\s)"


def _tokens(text: str) -> int:
    return parse_count(text.replace(" ", "").lower(), "a length in the claim", minimum=1)


def _count(text: str) -> int:
    return parse_count(text.replace(" ", ""), "the batch in the claim", minimum=1)


def _one(reading: Reading, match: re.Match[str]) -> None:
    reading.say("batch", 1, match[0])


def _bare(reading: Reading, match: re.Match[str]) -> None:
    reading.lengths.append((_tokens(match["n"]), match[0].strip()))


PHRASES = (
    phrase(
        "batch",
        rf"(?:batch(?:es)?(?:[-_\s]*size)?|bs|b(?=\s*=)|concurrency){IS}-?(?P<n>{NUMBER})(?!\w|\.\d)",
        option("batch", _count),
        "batch 32 | batch size 32 | bs=32 | 32 users",
    ),
    phrase(
        "users",
        rf"(?P<n>{NUMBER})\s+(?:concurrent\s+|parallel\s+|simultaneous\s+|active\s+)?{_MANY}(?!\w)",
        option("batch", _count),
    ),
    phrase(
        "concurrent", rf"(?P<n>{NUMBER})[\s-]+(?:way\s+)?(?:batch(?:ed)?|concurren(?:t|cy))(?!\w|\.\d)", option("batch", _count)
    ),
    phrase(
        "alone", r"(?:single|one)[- ](?:user|stream|request|sequence|batch)(?!\w)|unbatched|no batching|without batching", _one
    ),
    phrase(
        "prompt",
        rf"(?:prompts?|inputs?|isl)(?:[-_\s]*len(?:gth)?)?{IS}(?P<n>{COUNT}){_TOKENS}?",
        option("input_len", _tokens),
        "for a 100k token prompt | input 1024 | ISL=1024",
    ),
    phrase(
        "so long a prompt",
        rf"(?P<n>{COUNT}){_TOKENS}?[\s-]*(?:long\s+)?(?:of\s+)?{_PROMPT}(?!\w|\.\d)",
        option("input_len", _tokens),
    ),
    phrase(
        "reply",
        rf"(?:outputs?|osl|generat(?:es|ing)|reply|response)(?:[-_\s]*len(?:gth)?)?{IS}(?P<n>{COUNT}){_TOKENS}?",
        option("output_len", _tokens),
        "output 128 | OSL=128",
    ),
    phrase(
        "so long a reply",
        rf"(?P<n>{COUNT}){_TOKENS}?[\s-]*(?:long\s+)?(?:of\s+)?{_REPLY}(?!\w|\.\d|/)",
        option("output_len", _tokens),
    ),
    phrase(
        "context",
        rf"(?:max(?:imum)?\s+)?{_CONTEXT}{IS}(?P<n>{COUNT}){_TOKENS}?",
        option("context", _tokens),
        "context 4k | at 4096 tokens of context",
    ),
    phrase(
        "so long a context",
        rf"(?P<n>{COUNT}){_TOKENS}?[\s-]*(?:long\s+)?(?:of\s+)?{_CONTEXT}(?!\w|\.\d)",
        option("context", _tokens),
    ),
    phrase(
        "tokens", rf"(?P<n>{COUNT})[\s-]*(?:tokens?|toks?)(?!\w|\.\d|\s*/|\s+(?:per|a)\s+(?:s|sec|second|min|minute)\b)", _bare
    ),
)
