"""Statements from texts and options.

A text is read from left to right: the longest phrase of the grammar or name of a model or card that fits counts. What cannot
be read is an error that quotes it, with the nearest form.
"""

from __future__ import annotations

import math
import re
from dataclasses import replace
from os import PathLike
from typing import Any

from roofline.audit.claims.claim import NUMBER, Claim, ClaimKind, Statement, number, rate_number, rounding
from roofline.audit.claims.grammar import PHRASES, ParseState, Phrase
from roofline.audit.claims.names import (
    NameKind,
    ambiguous_name_error,
    first_words,
    matching_ids,
    name_parts,
    unknown_name_error,
    without_owner,
)
from roofline.blocks.model import Model
from roofline.errors import InputError, UnknownNameError
from roofline.predict.drafts import NAMES
from roofline.predict.options import DEPLOYMENT, OPTIONS, PREFIX, SPECULATION, of_groups, read_quantity
from roofline.predict.request import Options
from roofline.specs.hardware import Hardware
from roofline.specs.library import split_count
from roofline.specs.source import Assumption
from roofline.units import parse_count

MAX_TEXT = 1000
_MAX_NAME_WORDS = 7
_NORMALIZED = str.maketrans({"×": "x", "µ": "u", "μ": "u", "\u00a0": " ", "\u202f": " ", "\u2011": "-", "\u2013": "-",
                             "\u2014": "-", "\u2019": "'", "≤": "<", "\n": " ", "\t": " "})  # fmt: skip
_UNIT_FOLLOWS = re.compile(r"\s*(?:t/|to?k|tps|[mun]?s\b|m?sec|users|requests|[kmgtp]?fl?op|tera|peta)", re.IGNORECASE)
_HELP = "`roofline claim --help` shows the grammar."
_LONE_NUMBER = re.compile(rf"{NUMBER}(?!\w|\.\d)")

_COUNTS = {"batch": 1, "input_len": 1, "output_len": 1, "context": 0, "devices": 1}
_SIZES = {
    "tp": "tensor_parallel_size",
    "pp": "pipeline_parallel_size",
    "dp": "data_parallel_size",
    "ep": "expert_parallel_size",
}
_PRECISIONS = ("dtype", "kv_cache_dtype", "quantization")
_FURTHER = [
    entry.name
    for entry in of_groups((*DEPLOYMENT, SPECULATION))
    if entry.name not in (*_PRECISIONS, *_SIZES.values(), "peak_flops")
]
_RATE = re.compile(rf"({NUMBER})\s?([kmg])?\s*(?:(?:tokens?|toks?|t)\s*(?:/|per)\s*s(?:ec(?:ond)?)?|tps)?", re.IGNORECASE)
_PHASES = ("decode", "prefill")


def statement(
    text: str | None,
    model: str | PathLike[str] | Model | None,
    hardware: str | PathLike[str] | Hardware | None,
    options: dict[str, Any],
) -> Statement:
    """Read claims and their setting from a text, options, or both.

    Args:
        text: the claim in words.
        model: an id, a name, a path or a loaded model.
        hardware: likewise.
        options: those of `roofline claim`, with underscores, as numbers or as text with a unit.

    Raises:
        InputError: nothing is claimed, a text or value that cannot be read, or text and options that say the same thing twice.
        UnknownNameError: an option or a phase that does not exist.
        AmbiguousNameError: a name that several models or accelerators have.
    """
    remaining = Options.of(options)
    fields: dict[str, Any] = {name: value for name, value in (("model", model), ("hardware", hardware)) if value is not None}
    for name, least in _COUNTS.items():
        if (value := remaining.take(name)) is not None:
            fields[name] = parse_count(value, name.replace("_", "-"), least)
    count, single = split_count(hardware)
    if count is not None:
        if fields.setdefault("devices", count) != count:
            raise InputError(
                f"hardware {hardware!r} is {count:,} devices, and --devices says {fields['devices']:,}: leave one out"
            )
        fields["hardware"] = single
    for name, long in _SIZES.items():
        if (value := remaining.take(long)) is not None:
            fields[name] = parse_count(value, name, 1)
    fields |= {name: value for name in _PRECISIONS if (value := remaining.take(name)) is not None}
    fields |= {name: OPTIONS[name].read(value) for name in PREFIX if (value := remaining.take(name)) is not None}
    claims = _claims_of_options(remaining)
    further = {name: value for name in _FURTHER if (value := remaining.take(name)) is not None}
    if (images := remaining.take("images")) is not None and (number := OPTIONS["images"].read(images)):
        further["images"] = number
    fields["deployment"] = {
        name: OPTIONS[name].read(value) if OPTIONS[name].kind == "count" else value for name, value in further.items()
    }
    remaining.done()
    notes: list[Assumption] = []
    if text is not None:
        claims, fields, notes = _with_text(text, claims, fields, drafted=any(name in further for name in NAMES))
    if not claims:
        kinds = "a rate (3500 tok/s), a time (TTFT 10 ms, 7 ms per token), a peak (989 TFLOP/s), or that it fits"
        raise InputError(f"nothing is claimed: state {kinds}")
    return Statement(claims=claims, notes=tuple(notes), **fields)


def _with_text(
    text: str, claims: tuple[Claim, ...], fields: dict[str, Any], *, drafted: bool
) -> tuple[tuple[Claim, ...], dict[str, Any], list[Assumption]]:
    stated, claims_of_text, notes = read(text, drafted=drafted)
    for name, value in stated.items():
        if name in fields and name not in ("model", "hardware") and fields[name] != value:
            raise InputError(f"the text says {name.replace('_', ' ')} {value}, the option {fields[name]}: leave one out")
        if name in ("model", "hardware") and name in fields:
            raise InputError(f"the text names the {name} ({value}), and so does the option: leave one out")
    if repeated := {claim.kind for claim in claims_of_text} & {claim.kind for claim in claims}:
        raise InputError(f"{', '.join(sorted(repeated))} is claimed in the text and by an option: leave one out")
    return (*claims_of_text, *claims), fields | stated, notes


def _claims_of_options(options: Options) -> tuple[Claim, ...]:
    claims = []
    rate, phase = options.take("tokens_per_s"), options.take("phase")
    per_user, per_gpu = bool(options.take("per_user")), bool(options.take("per_gpu"))
    if per_user and per_gpu:
        raise InputError("a rate is per user or per GPU, not both")
    if phase is not None and phase not in _PHASES:
        raise UnknownNameError("phase", phase, _PHASES, list_all=True)
    if rate is not None:
        scope = "user" if per_user else "gpu" if per_gpu else "total"
        claims.append(Claim(kind="tokens_per_s", value=_rate(rate), scope=scope, phase=phase or "decode"))  # type: ignore[arg-type]
    elif per_user or per_gpu or phase is not None:
        raise InputError("--per-user, --per-gpu and --phase say what a rate counts: give --tokens-per-s too")
    units: tuple[tuple[ClaimKind, str], ...] = (("ttft", "s"), ("tpot", "s"), ("peak_flops", "FLOP/s"))
    for kind, unit in units:
        if (value := options.take(kind)) is not None:
            size = float(read_quantity(kind, value, unit))
            written = re.match(NUMBER, value.strip()) if isinstance(value, str) and kind == "peak_flops" else None
            claims += [Claim(kind=kind, value=size, rounding=rounding(written[0]) if written else 0.0)]
    if options.take("fits") and not claims:
        claims.append(Claim(kind="fits"))
    return tuple(claims)


def _rate(value: object) -> float:
    """Tokens per second: a number, 3.5k, or with its unit."""
    rate = float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else math.nan
    if isinstance(value, str) and (match := _RATE.fullmatch(value.strip())):
        rate = rate_number(match[1], match[2])
    if not 0 < rate < math.inf:
        raise InputError(f'--tokens-per-s must be a rate above 0, such as 3500, 3.5k or "3500 tok/s", not {value!r}')
    return rate


def read(text: str, *, drafted: bool = False) -> tuple[dict[str, Any], tuple[Claim, ...], list[Assumption]]:
    """Read a claim in words.

    Args:
        text: the claim in words.
        drafted: whether options say what its speculative decoding is, if it speaks of it.

    Returns:
        Options by the names of `Statement`, the claims, and notes on what could be read in several ways.

    Raises:
        InputError: more than 1,000 characters, words that cannot be read (quoted, with the nearest form), numbers without a
            unit, or things stated twice.
        AmbiguousNameError: a name that several accelerators or models have.
    """
    if len(text) > MAX_TEXT:
        raise InputError(f"a claim of {len(text):,} characters is longer than the {MAX_TEXT:,} that are read")
    plain, state, position = text.translate(_NORMALIZED), ParseState(drafted=drafted), 0
    names: dict[NameKind, str] = {}
    notes: list[Assumption] = []
    while position < len(plain):
        phrase, match = _longest(plain, position)
        name = _name(plain, position)
        if name is not None and name[2] > (match.end() if match else position):
            kind, entries, position, written = name
            _take_name(names, notes, kind, entries, written, state)
            continue
        if phrase is None or match is None:
            if re.match(r"-[\d.]", plain[position:]) and plain[position - 1 : position] in ("", " "):
                raise InputError(f"{_word(plain, position)!r} in the claim is negative")
            if lone := _LONE_NUMBER.match(plain, position):
                state.numbers.append((number(lone[0]), lone[0]))
                position = lone.end()
                continue
            raise _unreadable(plain, position)
        phrase.read(state, match)
        position = match.end()
    return _completed(state, names, notes)


def _longest(text: str, position: int) -> tuple[Phrase | None, re.Match[str] | None]:
    best: tuple[Phrase | None, re.Match[str] | None] = (None, None)
    for phrase in PHRASES:
        match = phrase.pattern.match(text, position)
        if match and match.end() > (best[1].end() if best[1] else position):
            best = (phrase, match)
    return best


def _name(text: str, position: int) -> tuple[NameKind, list[str], int, str] | None:
    """The longest name that starts here: its kind, the ids that it can stand for, where it ends, as written."""
    if not text[position].isalnum():
        return None
    words = re.compile(r"[^\s,;:()]+(?=[\s,;:()]|$)").finditer(text, position)
    ends = [word.end() for word in words][:_MAX_NAME_WORDS]
    ends = [end for end in ends if not re.search(r"[,;:()]|\s-", text[position:end])]
    for end in reversed(ends):
        if re.search(r"\s[\d.]+$", text[position:end]) and _UNIT_FOLLOWS.match(text, end):
            continue  # "h100-sxm 5 tok/s" has no h100-sxm5 in it
        written = text[position:end].rstrip(".!?\"'")
        first = name_parts(without_owner(written))[:1]
        for kind in ("models", "hardware"):
            sized = kind == "models" and re.fullmatch(r"\d+(\.\d+)?(x\d+)?b", written, re.IGNORECASE)
            if not (first and first[0] in first_words(kind)) and not sized:
                continue
            if entries := matching_ids(kind, written):
                return kind, entries, position + len(written), written
    return None


def _take_name(
    names: dict[NameKind, str], notes: list[Assumption], kind: NameKind, entries: list[str], written: str, state: ParseState
) -> None:
    if len(entries) > 1:
        raise ambiguous_name_error(kind, written, entries)
    (entry,), noun = entries, "model" if kind == "models" else "hardware"
    if names.get(kind, entry) != entry:
        raise InputError(f"the claim names two: {names[kind]} and {entry}; a claim is about one {noun}")
    names[kind] = entry
    if re.sub(r"[\s_]+", "-", written.strip().lower()) != entry:
        notes.append(Assumption(noun, entry, "assumed", f"the only one known that {written!r} can stand for"))
    if kind == "hardware" and state.numbers and state.numbers[-1][0].is_integer():
        count, text = state.numbers.pop()
        state.set("devices", int(count), text)


def _unreadable(text: str, position: int) -> InputError:
    """What could not be read, and what can be."""
    written = _word(text, position)
    for kind in ("models", "hardware"):
        first = name_parts(without_owner(written))[:1]
        if first and first[0] in first_words(kind):
            return unknown_name_error(kind, written)
    return InputError(f"cannot read {written[:60]!r} in the claim. {_nearest(written)}")


def _word(text: str, position: int) -> str:
    """The word that starts here."""
    return text[position:].partition(" ")[0].rstrip(",;:.!?)")


def _nearest(written: str) -> str:
    """The form that is most like a word, if one is, and where all of them are."""
    from difflib import SequenceMatcher

    def similarity(usage: str) -> float:
        words = [word for word in re.split(r"[\s|=/-]+", usage.lower()) if word]
        return max(SequenceMatcher(None, written.lower(), word).ratio() for word in words)

    best = max((phrase.usage for phrase in PHRASES if phrase.usage), key=similarity)
    return f"{f'The nearest form: {best}. ' if similarity(best) >= 0.6 else ''}{_HELP}"


def _completed(
    state: ParseState, names: dict[NameKind, str], notes: list[Assumption]
) -> tuple[dict[str, Any], tuple[Claim, ...], list[Assumption]]:
    """What was read piece by piece, put together; what is left over is an error."""
    if state.numbers:
        raise InputError(f"{state.numbers[0][1]!r} in the claim is {state.numbers[0][1]} of what? {_HELP}")
    if state.times:
        raise InputError(f"{state.times[0][1]!r} in the claim is the time of what? Say TTFT, or TPOT (per token)")
    if state.labels:
        raise InputError(f"{state.labels[0].upper()} in the claim has no time, such as 10 ms")
    options = dict(state.options)
    options |= {{"models": "model", "hardware": "hardware"}[kind]: entry for kind, entry in names.items()}
    if "quantization" in options and options.get("dtype") not in (None, "bf16", "fp16", "fp32"):
        del options["dtype"]  # "int4 AWQ": the scheme says it in full
    claims = _claims_of_text(state)
    _assign_lengths(state, options, claims, notes)
    return options, claims, notes


def _claims_of_text(state: ParseState) -> tuple[Claim, ...]:
    """The claims with their scope and phase. That it fits is a claim of its own only where no number is stated."""
    stated = [claim for claim in state.claims if claim.kind != "fits"] or state.claims[:1]
    scope, phase = state.scope or "total", state.phase or "decode"
    claims = []
    for index, claim in enumerate(stated):
        earlier = next((one for one in stated[:index] if one.kind == claim.kind), None)
        if earlier is not None and earlier.kind != "fits":
            two = f"{earlier.format_value(earlier.value or 0)} and {claim.format_value(claim.value or 0)}"
            raise InputError(f"the claim states two figures of one kind, {two}: leave one out")
        if claim.kind == "tokens_per_s":
            claims.append(replace(claim, scope=scope, phase=phase))  # type: ignore[arg-type]
        else:
            claims.append(replace(claim, sparse=state.sparse and claim.kind == "peak_flops"))
    if state.sparse and not any(claim.kind == "peak_flops" for claim in stated):
        raise InputError("sparsity is judged in a stated peak (TFLOP/s) alone; leave it out")
    return tuple(claims)


def _assign_lengths(state: ParseState, options: dict[str, Any], claims: tuple[Claim, ...], notes: list[Assumption]) -> None:
    """Bare token counts are the prompt's length where a prompt is timed, else the context's."""
    prompt = any(claim.kind == "ttft" or claim.phase == "prefill" for claim in claims)
    if prompt and "input_len" not in options and "context" in options:
        options["input_len"] = options.pop("context")
        why = "the context of a prompt that is timed is its length"
        notes.append(Assumption("reading", options["input_len"], "assumed", why))
    for length, text in state.lengths:
        name = "input_len" if prompt else "context"
        if options.get(name, length) != length:
            raise InputError(f"{text!r} in the claim: tokens of what? Say prompt, context or output")
        options[name] = length
        why = f"{text!r} is the length of the {'prompt' if prompt else 'context'}"
        notes.append(Assumption("reading", length, "assumed", why))
