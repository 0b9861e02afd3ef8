"""From words and options to a statement."""

from __future__ import annotations

import math
import re
from os import PathLike
from typing import Any

from roofline.audit.claims.claim import Claim, ClaimKind, Statement
from roofline.audit.claims.text.phrase import NUMBER, rate_number, rounding
from roofline.blocks.model import Model
from roofline.errors import InputError, UnknownNameError
from roofline.predict.flags import Options, quantity
from roofline.predict.options import COUNTING, ENGINE, HARDWARE, OPTIONS, PARALLELISM, PRECISION, of_groups
from roofline.specs.assumption import Assumption
from roofline.specs.hardware import Hardware
from roofline.units import parse_count

_COUNTS = {"batch": 1, "input_len": 1, "output_len": 1, "context": 0, "devices": 1}
_SIZES = {
    "tp": "tensor_parallel_size",
    "pp": "pipeline_parallel_size",
    "dp": "data_parallel_size",
    "ep": "expert_parallel_size",
}
_TEXTS = ("dtype", "kv_cache_dtype", "quantization")
_FURTHER = [
    entry.name
    for entry in of_groups((PRECISION, PARALLELISM, ENGINE, HARDWARE, COUNTING))
    if entry.name not in (*_TEXTS, *_SIZES.values(), "peak_flops", "ignore_capacity")
]
_RATE = re.compile(rf"({NUMBER})\s?([kmg])?\s*(?:(?:tokens?|toks?|t)\s*(?:/|per)\s*s(?:ec(?:ond)?)?|tps)?", re.IGNORECASE)
_PHASES = ("decode", "prefill")


def statement(
    text: str | None,
    model: str | PathLike[str] | Model | None,
    hardware: str | PathLike[str] | Hardware | None,
    options: dict[str, Any],
) -> Statement:
    """What is claimed, put together from a text and options; what both say has to agree."""
    given = Options.of(options)
    said: dict[str, Any] = {name: value for name, value in (("model", model), ("hardware", hardware)) if value is not None}
    for name, least in _COUNTS.items():
        if (value := given.take(name)) is not None:
            said[name] = parse_count(value, name.replace("_", "-"), least)
    for name, long in _SIZES.items():
        if (value := given.take(long)) is not None:
            said[name] = parse_count(value, name, 1)
    said |= {name: value for name in _TEXTS if (value := given.take(name)) is not None}
    claims = _claims(given)
    said["deployment"] = _deployment(given)
    given.done()
    notes: list[Assumption] = []
    if text is not None:
        claims, said, notes = _with_text(text, claims, said)
    if not claims:
        kinds = "a rate (3500 tok/s), a time (TTFT 10 ms, 7 ms per token), a peak (989 TFLOP/s), or that it fits"
        raise InputError(f"nothing is claimed: state {kinds}")
    return Statement(claims=claims, notes=tuple(notes), **said)


def _deployment(given: Options) -> dict[str, Any]:
    """The further options of `analyze` that say on what it runs."""
    values = {name: value for name in _FURTHER if (value := given.take(name)) is not None}
    return {name: OPTIONS[name].read(value) if OPTIONS[name].kind == "count" else value for name, value in values.items()}


def _with_text(
    text: str, claims: tuple[Claim, ...], said: dict[str, Any]
) -> tuple[tuple[Claim, ...], dict[str, Any], list[Assumption]]:
    from roofline.audit.claims.text.read import read

    words, stated, notes = read(text)
    for name, value in words.items():
        if name in said and name not in ("model", "hardware") and said[name] != value:
            raise InputError(f"the text says {name.replace('_', ' ')} {value}, the option {said[name]}: leave one out")
        if name in ("model", "hardware") and name in said:
            raise InputError(f"the text names the {name} ({value}), and so does the option: leave one out")
    if repeated := {claim.kind for claim in stated} & {claim.kind for claim in claims}:
        raise InputError(f"{', '.join(sorted(repeated))} is claimed in the text and by an option: leave one out")
    return (*stated, *claims), said | words, notes


def _claims(given: Options) -> tuple[Claim, ...]:
    found = []
    rate, phase = given.take("tokens_per_s"), given.take("phase")
    per_user, per_gpu = bool(given.take("per_user")), bool(given.take("per_gpu"))
    if per_user and per_gpu:
        raise InputError("a rate is per user or per GPU, not both")
    if phase is not None and phase not in _PHASES:
        raise UnknownNameError("phase", phase, _PHASES, list_all=True)
    if rate is not None:
        scope = "user" if per_user else "gpu" if per_gpu else "total"
        found.append(Claim(kind="tokens_per_s", value=_rate(rate), scope=scope, phase=phase or "decode"))  # type: ignore[arg-type]
    elif per_user or per_gpu or phase is not None:
        raise InputError("--per-user, --per-gpu and --phase say what a rate counts: give --tokens-per-s too")
    stated: tuple[tuple[ClaimKind, str], ...] = (("ttft", "s"), ("tpot", "s"), ("peak_flops", "FLOP/s"))
    for kind, unit in stated:
        if (value := given.take(kind)) is not None:
            number_read = float(quantity(kind, value, unit))
            stated_as = re.match(NUMBER, value.strip()) if isinstance(value, str) and kind == "peak_flops" else None
            found += [Claim(kind=kind, value=number_read, rounding=rounding(stated_as[0]) if stated_as else 0.0)]
    if given.take("fits") and not found:
        found.append(Claim(kind="fits"))
    return tuple(found)


def _rate(value: object) -> float:
    """Tokens a second: a number, 3.5k, or with its unit."""
    found = float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else math.nan
    if isinstance(value, str) and (match := _RATE.fullmatch(value.strip())):
        found = rate_number(match[1], match[2])
    if not 0 < found < math.inf:
        raise InputError(f'--tokens-per-s must be a rate above 0, such as 3500, 3.5k or "3500 tok/s", not {value!r}')
    return found
