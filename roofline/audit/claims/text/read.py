"""Reading a claim: phrases and names from left to right, the longest that fits first."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from roofline.audit.claims.claim import Claim
from roofline.audit.claims.names import NameKind, ambiguous, heads, matches, parts, unknown, without_owner
from roofline.audit.claims.text.phrase import NUMBER, Phrase, Reading, number
from roofline.audit.claims.text.phrases import all_phrases
from roofline.errors import InputError
from roofline.specs.assumption import Assumption

MAX_TEXT = 1000
_MOST_WORDS = 7  # of a name
_SAME = str.maketrans({"×": "x", "µ": "u", "μ": "u", "\u00a0": " ", "\u202f": " ", "\u2011": "-", "\u2013": "-", "\u2014": "-",
                       "\u2019": "'", "≤": "<", "\n": " ", "\t": " "})  # fmt: skip
_UNIT_FOLLOWS = re.compile(r"\s*(?:t/|to?k|tps|[mun]?s\b|m?sec|users|requests|[kmgtp]?fl?op|tera|peta)", re.IGNORECASE)
_HELP = "`roofline claim --help` shows the grammar."
_LONE_NUMBER = re.compile(rf"{NUMBER}(?!\w|\.\d)")


def read(text: str) -> tuple[dict[str, Any], tuple[Claim, ...], list[Assumption]]:
    """What a text says: options by the names of `Statement`, claims, and what was read in one of several ways.

    Raises:
        InputError: something that could not be read, quoted, with the nearest form.
        AmbiguousNameError: a name of several cards or models.
    """
    if len(text) > MAX_TEXT:
        raise InputError(f"a claim of {len(text):,} characters is longer than the {MAX_TEXT:,} that are read")
    plain, reading, place = text.translate(_SAME), Reading(), 0
    names: dict[NameKind, str] = {}
    notes: list[Assumption] = []
    while place < len(plain):
        phrase, match = _longest(plain, place)
        named = _name(plain, place)
        if named is not None and named[2] > (match.end() if match else place):
            kind, entry, place, written = named
            _take_name(names, notes, kind, entry, written, reading)
            continue
        if phrase is None or match is None:
            if re.match(r"-[\d.]", plain[place:]) and plain[place - 1 : place] in ("", " "):
                raise InputError(f"{_word(plain, place)!r} in the claim is negative")
            if found := _LONE_NUMBER.match(plain, place):
                reading.numbers.append((number(found[0]), found[0]))
                place = found.end()
                continue
            raise _unread(plain, place)
        phrase.read(reading, match)
        place = match.end()
    return _together(reading, names, notes)


def _longest(text: str, place: int) -> tuple[Phrase | None, re.Match[str] | None]:
    best: tuple[Phrase | None, re.Match[str] | None] = (None, None)
    for phrase in all_phrases():
        match = phrase.pattern.match(text, place)
        if match and match.end() > (best[1].end() if best[1] else place):
            best = (phrase, match)
    return best


def _name(text: str, place: int) -> tuple[NameKind, list[str], int, str] | None:
    """The longest name that starts here: its kind, the ids that it can stand for, where it ends, as written."""
    if not text[place].isalnum():
        return None
    ends = [found.end() for found in re.compile(r"[^\s,;:()]+(?=[\s,;:()]|$)").finditer(text, place)][:_MOST_WORDS]
    ends = [end for end in ends if not re.search(r"[,;:()]|\s-", text[place:end])]
    for end in reversed(ends):
        if re.search(r"\s[\d.]+$", text[place:end]) and _UNIT_FOLLOWS.match(text, end):
            continue  # "h100-sxm 5 tok/s" has no h100-sxm5 in it
        written = text[place:end].rstrip(".!?\"'")
        first = parts(without_owner(written))[:1]
        for kind in ("models", "hardware"):
            sized = kind == "models" and re.fullmatch(r"\d+(\.\d+)?(x\d+)?b", written, re.IGNORECASE)
            if not (first and first[0] in heads(kind)) and not sized:
                continue
            if found := matches(kind, written):
                return kind, found, place + len(written), written
    return None


def _take_name(
    names: dict[NameKind, str], notes: list[Assumption], kind: NameKind, found: list[str], written: str, reading: Reading
) -> None:
    if len(found) > 1:
        raise ambiguous(kind, written, found)
    (entry,), noun = found, "model" if kind == "models" else "hardware"
    if names.get(kind, entry) != entry:
        raise InputError(f"the claim names two: {names[kind]} and {entry}; a claim is about one {noun}")
    names[kind] = entry
    if re.sub(r"[\s_]+", "-", written.strip().lower()) != entry:
        notes.append(Assumption(noun, entry, "assumed", f"the only one known that {written!r} can stand for"))
    if kind == "hardware" and reading.numbers and reading.numbers[-1][0].is_integer():
        count, text = reading.numbers.pop()
        reading.say("devices", int(count), text)


def _unread(text: str, place: int) -> InputError:
    """What could not be read, and what can be."""
    written = _word(text, place)
    for kind in ("models", "hardware"):
        first = parts(without_owner(written))[:1]
        if first and first[0] in heads(kind):
            return unknown(kind, written)
    return InputError(f"cannot read {written[:60]!r} in the claim. {_nearest(written)}")


def _word(text: str, place: int) -> str:
    """The word that starts here."""
    return text[place:].partition(" ")[0].rstrip(",;:.!?)")


def _nearest(written: str) -> str:
    """The form that is most like a word, if one is, and where all of them are."""
    from difflib import SequenceMatcher

    def alike(usage: str) -> float:
        words = [word for word in re.split(r"[\s|=/-]+", usage.lower()) if word]
        return max(SequenceMatcher(None, written.lower(), word).ratio() for word in words)

    best = max((phrase.usage for phrase in all_phrases() if phrase.usage), key=alike)
    return f"{f'The nearest form: {best}. ' if alike(best) >= 0.6 else ''}{_HELP}"


def grammar() -> str:
    """The grammar, from the phrases."""
    lines = ["A claim names a model, hardware and a number, in any order, with these words:"]
    lines += [
        "  llama-3.1-8b | Llama 3.1 8B     a model: `roofline models list`",
        "  a100-sxm-80gb | 8x H100-SXM     hardware: `roofline hardware list`",
    ]
    lines += [f"  {phrase.usage}" for phrase in all_phrases() if phrase.usage]
    lines.append('Example: "llama-3.1-8b on a100-sxm-80gb: 3500 tok/s at batch 1 fp16"')
    return "\n".join(lines)


def _together(
    reading: Reading, names: dict[NameKind, str], notes: list[Assumption]
) -> tuple[dict[str, Any], tuple[Claim, ...], list[Assumption]]:
    """What was read piece by piece, put together; what was left over is an error."""
    if reading.numbers:
        raise InputError(f"{reading.numbers[0][1]!r} in the claim is {reading.numbers[0][1]} of what? {_HELP}")
    if reading.times:
        raise InputError(f"{reading.times[0][1]!r} in the claim is the time of what? Say TTFT, or TPOT (per token)")
    if reading.labels:
        raise InputError(f"{reading.labels[0].upper()} in the claim has no time, such as 10 ms")
    said = dict(reading.said)
    said |= {{"models": "model", "hardware": "hardware"}[kind]: entry for kind, entry in names.items()}
    if "quantization" in said and said.get("dtype") not in (None, "bf16", "fp16", "fp32"):
        del said["dtype"]  # "int4 AWQ": the scheme says it in full
    claims = _numbers_first(reading)
    _lengths(reading, said, claims, notes)
    return said, claims, notes


def _numbers_first(reading: Reading) -> tuple[Claim, ...]:
    """The claims with what was said beside them. That it fits is a claim of its own only where no number is stated."""
    stated = [claim for claim in reading.claims if claim.kind != "fits"] or reading.claims[:1]
    scope, phase = reading.scope or "total", reading.phase or "decode"
    found = []
    for index, claim in enumerate(stated):
        earlier = next((one for one in stated[:index] if one.kind == claim.kind), None)
        if earlier is not None and earlier.kind != "fits":
            two = f"{earlier.written(earlier.value or 0)} and {claim.written(claim.value or 0)}"
            raise InputError(f"the claim states two figures of one kind, {two}: leave one out")
        if claim.kind == "tokens_per_s":
            found.append(replace(claim, scope=scope, phase=phase))  # type: ignore[arg-type]
        else:
            found.append(replace(claim, sparse=reading.sparse and claim.kind == "peak_flops"))
    if reading.sparse and not any(claim.kind == "peak_flops" for claim in stated):
        raise InputError("sparsity is judged in a stated peak (TFLOP/s) alone; leave it out")
    return tuple(found)


def _lengths(reading: Reading, said: dict[str, Any], claims: tuple[Claim, ...], notes: list[Assumption]) -> None:
    """Tokens of which the claim does not say what they are: the prompt's where a prompt is timed, else the context's."""
    prompt = any(claim.kind == "ttft" or claim.phase == "prefill" for claim in claims)
    if prompt and "input_len" not in said and "context" in said:
        said["input_len"] = said.pop("context")
        notes.append(Assumption("reading", said["input_len"], "assumed", "the context of a prompt that is timed is its length"))
    for length, text in reading.lengths:
        name = "input_len" if prompt else "context"
        if said.get(name, length) != length:
            raise InputError(f"{text!r} in the claim: tokens of what? Say prompt, context or output")
        said[name] = length
        notes.append(
            Assumption("reading", length, "assumed", f"{text!r} is the length of the {'prompt' if prompt else 'context'}")
        )
