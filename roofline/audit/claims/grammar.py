"""The grammar of claims in words: phrases, each a pattern and what it says, forgiving about order and spelling.

`statement.py` reads a text with them from left to right; the phrase that matches most counts, and of two that match equally
much the first in `PHRASES`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from roofline.audit.claims.claim import NUMBER, Claim, number, rate_number, rounding
from roofline.errors import AmbiguousNameError, InputError
from roofline.specs.library import ids, load_hardware
from roofline.units import parse_count

_COUNT = rf"(?:{NUMBER}\s?[km]?)(?!\w|\.\d)"
_IS = r"\s*(?:of|=|:|is|at|was)?\s*(?:an?\s+|about\s+|~\s*)?"
_PER_SECOND = r"(?:\s*/\s*|\s+(?:per|a|each|every)\s+|\s*p\s*)(?:s|secs?|seconds?)(?!\w|\.\d)"


@dataclass
class ParseState:
    """What has been read of a text so far."""

    options: dict[str, Any] = field(default_factory=dict)
    """By the names of `Statement`."""
    claims: list[Claim] = field(default_factory=list)
    numbers: list[tuple[float, str]] = field(default_factory=list)
    """Numbers that still wait for their unit, as written."""
    times: list[tuple[float, str]] = field(default_factory=list)
    """Times that still wait for a name."""
    labels: list[str] = field(default_factory=list)
    """Names of times that still wait for one."""
    lengths: list[tuple[int, str]] = field(default_factory=list)
    """Token counts of a prompt or a context; the kind of claim tells which."""
    scope: str | None = None
    phase: str | None = None
    sparse: bool = False
    drafted: bool = False
    """Whether options say what speculative decoding gives."""

    def set(self, name: str, value: Any, text: str) -> None:
        """Set an option of the statement; `text` is the phrase that says so, for the message.

        Raises:
            InputError: the text has already given the option another value.
        """
        if self.options.get(name, value) != value:
            flag = name.replace("_", " ")
            raise InputError(
                f"the claim says two things of its {flag}: {self.options[name]!r} and {value!r} (in {text.strip()!r})"
            )
        self.options[name] = value


Read = Callable[[ParseState, re.Match[str]], None]


@dataclass(frozen=True, slots=True)
class Phrase:
    """A pattern of the grammar and what it means.

    Attributes:
        pattern: matched at the current position of the text.
        read: records what the match says in the state.
        usage: examples in the printed grammar; empty for variants of other phrases.
        meaning: of the examples, in the printed grammar.
    """

    pattern: re.Pattern[str]
    read: Read
    usage: str = ""
    meaning: str = ""


def _phrase(pattern: str, read: Read, usage: str = "", meaning: str = "") -> Phrase:
    return Phrase(re.compile(pattern, re.IGNORECASE), read, usage, meaning)


def _option(name: str, convert: Callable[[str], Any]) -> Read:
    """A reader that sets an option to the phrase's group `n`."""

    def read(state: ParseState, match: re.Match[str]) -> None:
        state.set(name, convert(match["n"]), match[0])

    return read


def _ignore(state: ParseState, match: re.Match[str]) -> None:
    """Words that say nothing, or what is the default anyway."""
    del state, match


# Devices, and how a model is divided over them.

_COUNT_WORDS = {"a single": 1, "single": 1, "one": 1, "two": 2, "three": 3, "four": 4, "eight": 8, "sixteen": 16}
_DEVICE = r"gpus?|cards?|devices?|chips?|accelerators?"
_SIZE = r"(?P<n>\d+)"


def _size(text: str) -> int:
    return parse_count(text, "a number of devices in the claim", minimum=1)


def _count_word(state: ParseState, match: re.Match[str]) -> None:
    state.set("devices", _COUNT_WORDS[re.sub(r"\s+", " ", match["n"].lower())], match[0])


def _parallel(short: str, long: str) -> str:
    return rf"(?:{short}|{long}[- ]parallel(?:ism)?(?:[- _]size)?){_IS}[-_]?{_SIZE}(?!\w|\.\d)"


_DEPLOYMENT = (
    _phrase(_parallel("tp", "tensor"), _option("tp", _size), "tp8 | TP=8 | pp2 | dp4 | ep8", "parallel sizes"),
    _phrase(_parallel("pp", "pipeline"), _option("pp", _size)),
    _phrase(_parallel("dp", "data"), _option("dp", _size)),
    _phrase(_parallel("ep", "expert"), _option("ep", _size)),
    _phrase(
        rf"{_SIZE}\s?[x*](?=\s?[a-z])", _option("devices", _size),
        "8x H100-SXM | on 8 GPUs | a single", "number of devices",
    ),
    _phrase(rf"x\s?{_SIZE}(?!\w|\.\d)", _option("devices", _size)),
    _phrase(rf"{_SIZE}\s*-?(?:{_DEVICE})(?!\w)", _option("devices", _size)),
    _phrase(
        rf"(?P<n>{'|'.join(_COUNT_WORDS)})(?!\w)(?![- ](?:user|stream|request|sequence|batch))(?:\s+(?:{_DEVICE})(?!\w))?",
        _count_word,
    ),
)  # fmt: skip

# Peaks of hardware, and that a model fits.

_PREFIXES = {"k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12, "p": 1e15, "e": 1e18, "": 1.0}
_PREFIX_NAMES = {"kilo": "k", "mega": "m", "giga": "g", "tera": "t", "peta": "p", "exa": "e"}
_FLOPS = (
    r"(?P<p>kilo|mega|giga|tera|peta|exa|[kmgtpe])?(?:flops?|ops?)(?:\s*/\s*s(?:ec(?:ond)?)?|\s+(?:per|a)\s+second)?"
    r"(?!\w|\.\d|/)"
)


def _peak_claim(match: re.Match[str], value: float, text: str) -> Claim:
    prefix = (match["p"] or "").lower()
    return Claim(kind="peak_flops", value=value * _PREFIXES[_PREFIX_NAMES.get(prefix, prefix)], rounding=rounding(text))


def _peak(state: ParseState, match: re.Match[str]) -> None:
    state.claims.append(_peak_claim(match, number(match["n"]), match["n"]))


def _peak_unit(state: ParseState, match: re.Match[str]) -> None:
    state.claims.append(_peak_claim(match, *_last_number(state, match)))


def _last_number(state: ParseState, match: re.Match[str]) -> tuple[float, str]:
    """The number that stood before a unit."""
    if not state.numbers:
        raise InputError(f"{match[0].strip()!r} in the claim has no number before it")
    return state.numbers.pop()


def _sparse(state: ParseState, match: re.Match[str]) -> None:
    del match
    state.sparse = True


def _fits(state: ParseState, match: re.Match[str]) -> None:
    del match
    state.claims.append(Claim(kind="fits"))


def _card_of_size(state: ParseState, match: re.Match[str]) -> None:
    """A card by its memory alone, which is always ambiguous."""
    del state
    size, matches = float(match["n"]), []
    for name in ids("hardware"):
        hardware, _ = load_hardware(name)
        if hardware.node is None and round(hardware.accelerator.memory.label.value / 1e9) == size:
            matches.append(name)
    if not matches:
        raise InputError(f"{match[0].strip()!r}: no accelerator with so much memory is known; name the hardware")
    raise AmbiguousNameError("hardware", match[0].strip(), matches)


_HARDWARE = (
    _phrase(rf"(?P<n>{NUMBER})\s*-?{_FLOPS}", _peak, "989 dense bf16 TFLOP/s", "peak of the hardware"),
    _phrase(_FLOPS, _peak_unit),
    _phrase(r"(?:with\s+)?(?:structured\s+)?(?:2:4\s+)?spars(?:e|ity)(?!\w|\.\d)", _sparse),
    _phrase(r"dense|(?:without|no) sparsity", _ignore),
    _phrase(
        r"(?:it\s+)?(?:will\s+|can\s+|would\s+)?fit(?:s|ting)?(?:\s+(?:on|in|into|onto|within))?(?!\w|\.\d)", _fits,
        "fits on", "claim that the model fits in memory",
    ),
    _phrase(r"(?P<n>\d+)\s*-?gi?b\s+(?:gpu|card|device|accelerator)s?(?!\w)", _card_of_size),
)  # fmt: skip

# Number formats of weights and of the KV cache.

_DTYPES = {
    "bf16": "bf16|bfloat16|bfloat", "fp16": "fp16|float16|f16|half(?:[- ]precision)?",
    "fp32": "fp32|float32|f32|full[- ]precision",
    "tf32": "tf32|tensorfloat-?32", "fp8": "fp8|float8|f8|fp8[_-]?e4m3|fp8[_-]?e5m2|e4m3|e5m2|w8a8[- ]?fp8",
    "int8": "int8|i8|8[- ]?bits?|w8a8(?![- ]?fp8)|q8(?:_0)?", "int4": "int4|i4|4[- ]?bits?|q4(?:_0)?",
    "fp4": "fp4|float4|f4", "16": "16[- ]?bits?",
}  # fmt: skip
_SCHEMES = "awq|gptq|nf4|nvfp4|mxfp4|mxfp8|llm[._]int8|w8a16|w4a16|w4a8|w4a4"
_DTYPE = f"(?P<n>{'|'.join(f'(?:{pattern})' for pattern in _DTYPES.values())})"


def _dtype(text: str) -> str:
    name = next(name for name, pattern in _DTYPES.items() if re.fullmatch(pattern, text, re.IGNORECASE))
    return "bf16" if name == "16" else name


_PRECISION = (
    _phrase(
        rf"{_DTYPE}(?!\w|\.\d)(?:[- ]?(?:weights?|precision|quanti[sz](?:ed|ation)))?(?![\w])",
        _option("dtype", _dtype),
        "fp16 | bf16 | fp8 | int4 | AWQ", "data type or quantization of the weights",
    ),
    _phrase(
        rf"{_DTYPE}[\s-]*(?:kv(?:[- ]?cache)?)(?!\w|\.\d)", _option("kv_cache_dtype", _dtype),
        "with FP8 KV cache", "data type of the KV cache",
    ),
    _phrase(
        rf"kv(?:[- ]?cache)?(?:[- ]?dtype)?\s*(?:in|=|:|is|at|of)?\s*{_DTYPE}(?!\w|\.\d)", _option("kv_cache_dtype", _dtype)
    ),
    _phrase(
        rf"(?P<n>{_SCHEMES})(?!\w|\.\d)(?:[- ]?(?:weights?|quanti[sz](?:ed|ation)))?",
        _option("quantization", lambda text: text.lower().replace(".", "_")),
    ),
)  # fmt: skip

# Tokens per second, and of whom.

_PROMPT = r"prompt|input|prefill|prompt[- ]processing"
_OUTPUT = r"output|generated|generation|decode|decoded|new"
_TOKENS = r"(?:tokens?|toks?|tk|t)"
_WHICH = rf"(?:(?P<which>{_PROMPT}|{_OUTPUT}|total|aggregate)[\s-]+)?"
_RATE = rf"(?:{_TOKENS}(?:\s*/\s*(?P<own>user|gpu|card|device)(?=\s*/))?{_PER_SECOND}|tps(?!\w|\.\d))"
_PER_MINUTE = rf"{_TOKENS}(?:\s*/\s*|\s+(?:per|a)\s+)min(?:ute)?s?(?!\w|\.\d)"
_USER = r"users?|req(?:uest)?s?|seq(?:uence)?s?|streams?|sessions?|clients?|concurrent user|u(?!\w)"
_SCOPES = {"user": "per user", "gpu": "per GPU", "total": "of the whole batch"}


def _add_rate(state: ParseState, value: float, match: re.Match[str]) -> None:
    groups = match.groupdict()
    if which := (groups.get("which") or "").lower():
        if re.fullmatch(_PROMPT, which):
            state.phase = "prefill"
        elif re.fullmatch(_OUTPUT, which):
            state.phase = "decode"
        else:
            state.scope = state.scope or "total"
    if own := (groups.get("own") or "").lower():
        _scope("user" if own == "user" else "gpu")(state, match)
    state.claims.append(Claim(kind="tokens_per_s", value=value))


def _rate(seconds: float) -> Read:
    """A rate in tokens per `seconds` seconds."""

    def read(state: ParseState, match: re.Match[str]) -> None:
        _add_rate(state, rate_number(match["n"], match["k"]) / seconds, match)

    return read


def _rate_unit(state: ParseState, match: re.Match[str]) -> None:
    _add_rate(state, rate_number(_last_number(state, match)[1]), match)


def _requests(state: ParseState, match: re.Match[str]) -> None:
    del state
    why = "requests per second depend on the lengths of all of them and are not judged; state tokens per second"
    raise InputError(f"{match[0].strip()!r}: {why}")


def _scope(scope: str) -> Read:
    def read(state: ParseState, match: re.Match[str]) -> None:
        if state.scope not in (None, scope):
            raise InputError(f"{match[0].strip()!r}: the claim says also that the rate is {_SCOPES[state.scope]}")
        state.scope = scope

    return read


def _phase(name: str) -> Read:
    def read(state: ParseState, match: re.Match[str]) -> None:
        del match
        state.phase = name

    return read


_RATES = (
    _phrase(
        rf"(?P<n>{NUMBER})\s?(?P<k>[kmg])?\s*{_WHICH}{_RATE}", _rate(1),
        "3500 tok/s | 3.5k tokens per second | 95 TPS", "token rate",
    ),
    _phrase(rf"(?P<n>{NUMBER})\s?(?P<k>[kmg])?\s*{_WHICH}{_PER_MINUTE}", _rate(60)),
    _phrase(rf"{_RATE}\s*[=:]\s*(?P<n>{NUMBER})\s?(?P<k>[kmg])?(?!\w|\.\d)", _rate(1)),
    _phrase(rf"{_WHICH}{_RATE}", _rate_unit),
    _phrase(
        rf"(?:per|/|each|for each|every)\s*[- ]?(?:{_USER})(?!\w|\.\d)", _scope("user"),
        "per user | per GPU | in total", "what the rate refers to",
    ),
    _phrase(rf"(?:per|/|each|for each|every)\s*[- ]?(?:{_DEVICE})(?!\w|\.\d)", _scope("gpu")),
    _phrase(r"(?:in total|total|aggregated?|overall|combined|across all users|whole batch|system)(?!\w|\.\d)", _scope("total")),
    _phrase(
        rf"(?:{_PROMPT})(?:\s+(?:rate|speed|throughput|tokens?))?(?!\w|\.\d)", _phase("prefill"),
        "prefill | decode", "tokens counted in the rate",
    ),
    _phrase(rf"(?:{_OUTPUT}|decoding|generating)(?:\s+(?:rate|speed|throughput|tokens?))?(?!\w|\.\d)", _phase("decode")),
    _phrase(rf"(?:{NUMBER})\s*(?:(?:req(?:uest)?s?|quer(?:y|ies)){_PER_SECOND}|rps|qps)(?!\w|\.\d)", _requests),
)  # fmt: skip

# Speculative decoding: `analyze` says how many tokens a step gains.

_SPECULATIVE = (
    r"(?:speculat(?:ive|ion)(?:[- ]?(?:decod(?:ing|e)|sampling))?|spec(?:ulative)?[- ]?dec(?:ode|oding)?|eagle(?:-?\d)?|"
    r"medusa|(?:a\s+)?draft(?:[- ]model)?|multi[- ]token[- ]prediction|mtp)(?!\w|\.\d)"
)


def _refuse_speculation(state: ParseState, match: re.Match[str]) -> None:
    if state.drafted:
        return
    why = "with speculative decoding a step gives several tokens, and words do not say how many: "
    how = "add --speculative-model DRAFT (or --speculative-method), --num-speculative-tokens K and --acceptance A"
    raise InputError(f"{match[0].strip()!r} in the claim: {why}{how}")


_SPECULATION = (
    _phrase(_SPECULATIVE, _refuse_speculation),
    _phrase(rf"(?:without|no|not|w/o)\s+{_SPECULATIVE}", _ignore),
)  # fmt: skip

# Times: to the first token, and between tokens.

_UNIT_SECONDS = {
    "ms": 1e-3, "milli": 1e-3, "us": 1e-6, "micro": 1e-6, "ns": 1e-9, "nano": 1e-9, "min": 60.0, "h": 3600.0, "s": 1.0,
}  # fmt: skip
"""Seconds by how the name of a unit begins."""
_TIME = (
    rf"(?:(?:under|below|less than|within|<=?)\s*)?(?P<n>{NUMBER})\s*-?"
    r"(?P<u>ms|msecs?|milli-?seconds?|us|usecs?|micro-?seconds?|ns|nano-?seconds?|s|secs?|seconds?|min|minutes?|hours?)"
)
_TTFT = r"ttft|time[- ]to[- ](?:the[- ])?first[- ]token|first[- ]token(?:[- ](?:latency|time))?|prefill (?:latency|time)"
_TPOT = (
    r"tpot|itl|inter[- ]token[- ]latency|time[- ]per[- ](?:output[- ])?token|per[- ]token[- ](?:latency|time)|decode latency|"
    r"between tokens|time between tokens|tbt"
)
_OF = r"(?:\s*(?:of|=|:|is|at)(?!\w))?"


def _add_time(state: ParseState, label: str, seconds: float) -> None:
    state.claims.append(Claim(kind="ttft" if label == "ttft" else "tpot", value=seconds))


def _seconds(match: re.Match[str]) -> float:
    unit = match["u"].lower()
    return number(match["n"]) * next(size for start, size in _UNIT_SECONDS.items() if unit.startswith(start))


def _time(state: ParseState, match: re.Match[str]) -> None:
    if state.labels:
        _add_time(state, state.labels.pop(), _seconds(match))
    else:
        state.times.append((_seconds(match), match[0].strip()))


def _time_per_token(state: ParseState, match: re.Match[str]) -> None:
    if state.labels and state.labels[-1] == "tpot":
        state.labels.pop()
    _add_time(state, "tpot", _seconds(match))


def _label(name: str) -> Read:
    def read(state: ParseState, match: re.Match[str]) -> None:
        del match
        if state.times:
            _add_time(state, name, state.times.pop()[0])
        else:
            state.labels.append(name)

    return read


_TIMES = (
    _phrase(rf"{_TIME}(?!\w|\.\d|/)", _time),
    _phrase(
        rf"{_TIME}\s*(?:/|per|a|each|every)\s*(?:output\s+|generated\s+)?(?:tokens?|tok)(?!\w|\.\d)",
        _time_per_token,
        "7 ms per token | ITL 7 ms | TPOT 7 ms", "time per output token",
    ),
    _phrase(rf"(?:{_TTFT})(?!\w|\.\d){_OF}", _label("ttft"), "TTFT 10 ms | 10 ms to first token", "time to first token"),
    _phrase(r"to (?:the )?first token(?!\w|\.\d)", _label("ttft")),
    _phrase(rf"(?:{_TPOT})(?!\w|\.\d){_OF}", _label("tpot")),
)  # fmt: skip

# Words that say nothing more.

_FILLERS = re.findall(
    r"\S+",
    """
    on at with w/ for a an the of using in into to by from and or so that this these as it its we i you our my
    run runs running ran get gets got getting gives give reach reaches reached reaching achieve achieves achieved achieving
    do does did deliver delivers delivered delivering serve serves served serving hit hits generate generates produce produces
    process processes processing sustain sustains is are was be been has have having can could should will would
    push pushes able
    takes take needs need claim claims claimed say says inference infer speed rate rates throughput performance latency
    gpu gpus card cards device devices node hardware only just about around roughly approximately approx circa ca nearly
    almost over up than more least each user users peak theoretical max maximum memory precision weights quantized quantised
    model llm size server machine
    vllm sglang tensorrt-llm trt-llm trtllm tensorrt llama.cpp tgi ollama lmdeploy exllama exllamav2
    """,
)
_SIGNS = r"(?:[\s,;:()\[\]\"'!?|~≈>=&+@/]|\.(?!\d)|-(?![\d.])|(?<=\w)-)+"

_NOISE = (
    _phrase(rf"(?:{'|'.join(sorted(map(re.escape, _FILLERS), key=len, reverse=True))})(?!\w)", _ignore),
    _phrase(_SIGNS, _ignore),
)  # fmt: skip

# Batch and lengths.

_LENGTH_UNIT = r"(?:[\s-]*(?:tokens?|toks?)(?!\w|\.\d|/))"
_PROMPTS = r"(?:prompts?|inputs?|in(?=[\s,;/]|$))"
_OUTPUTS = r"(?:outputs?|out(?=[\s,;/]|$)|generated|new tokens|replies|reply|completions?|responses?)"
_CONTEXT = r"(?:contexts?|ctx|cached|seq(?:uence)?(?![-\s]*(?:s\b|/)))(?:[-\s]*(?:len(?:gth)?|size|window))?"
_SEQUENCES = r"(?:users?|requests?|reqs?|sequences?|seqs?|streams?|clients?|prompts? at once)(?!\s*/|\s+(?:per|a)\s)"
_LENGTH = rf"(?P<n>{_COUNT}){_LENGTH_UNIT}?"
_LONG = rf"{_LENGTH}[\s-]*(?:long\s+)?(?:of\s+)?"


def _tokens(text: str) -> int:
    return parse_count(text.replace(" ", "").lower(), "a length in the claim", minimum=1)


def _batch(text: str) -> int:
    return parse_count(text.replace(" ", ""), "the batch in the claim", minimum=1)


def _batch_of_one(state: ParseState, match: re.Match[str]) -> None:
    state.set("batch", 1, match[0])


def _length(state: ParseState, match: re.Match[str]) -> None:
    state.lengths.append((_tokens(match["n"]), match[0].strip()))


_WORKLOAD = (
    _phrase(
        rf"(?:batch(?:es)?(?:[-_\s]*size)?|bs|b(?=\s*=)|concurrency){_IS}-?(?P<n>{NUMBER})(?!\w|\.\d)",
        _option("batch", _batch),
        "batch 32 | batch size 32 | bs=32 | 32 users", "batch size",
    ),
    _phrase(
        rf"(?P<n>{NUMBER})\s+(?:concurrent\s+|parallel\s+|simultaneous\s+|active\s+)?{_SEQUENCES}(?!\w)",
        _option("batch", _batch),
    ),
    _phrase(rf"(?P<n>{NUMBER})[\s-]+(?:way\s+)?(?:batch(?:ed)?|concurren(?:t|cy))(?!\w|\.\d)", _option("batch", _batch)),
    _phrase(
        r"(?:single|one)[- ](?:user|stream|request|sequence|batch)(?!\w)|unbatched|no batching|without batching", _batch_of_one
    ),
    _phrase(
        rf"(?:prompts?|inputs?|isl)(?:[-_\s]*len(?:gth)?)?{_IS}{_LENGTH}",
        _option("input_len", _tokens),
        "for a 100k token prompt | input 1024 | ISL=1024", "prompt tokens per sequence",
    ),
    _phrase(rf"{_LONG}{_PROMPTS}(?!\w|\.\d)", _option("input_len", _tokens)),
    _phrase(
        rf"(?:outputs?|osl|generat(?:es|ing)|reply|response)(?:[-_\s]*len(?:gth)?)?{_IS}{_LENGTH}",
        _option("output_len", _tokens),
        "output 128 | OSL=128", "output tokens per sequence",
    ),
    _phrase(rf"{_LONG}{_OUTPUTS}(?!\w|\.\d|/)", _option("output_len", _tokens)),
    _phrase(
        rf"(?:max(?:imum)?\s+)?{_CONTEXT}{_IS}{_LENGTH}",
        _option("context", _tokens),
        "context 4k | at 4096 tokens of context", "tokens cached before the step",
    ),
    _phrase(rf"{_LONG}{_CONTEXT}(?!\w|\.\d)", _option("context", _tokens)),
    _phrase(rf"(?P<n>{_COUNT})[\s-]*(?:tokens?|toks?)(?!\w|\.\d|\s*/|\s+(?:per|a)\s+(?:s|sec|second|min|minute)\b)", _length),
)  # fmt: skip

PHRASES = (*_DEPLOYMENT, *_HARDWARE, *_PRECISION, *_RATES, *_SPECULATION, *_TIMES, *_NOISE, *_WORKLOAD)


def grammar() -> str:
    """The grammar of claims as text of several lines, as `roofline claim --help` prints it."""
    lines = ["A claim names a model, hardware and a number, in any order, using these phrases:"]
    rows = [("llama-3.1-8b | Llama 3.1 8B", "model; see `roofline models list`")]
    rows += [("a100-sxm-80gb | 8x H100-SXM", "hardware; see `roofline hardware list`")]
    rows += [(phrase.usage, phrase.meaning) for phrase in PHRASES if phrase.usage]
    column = max(len(usage) for usage, _ in rows)
    lines += [f"  {usage:<{column}}  {meaning}" for usage, meaning in rows]
    lines.append("In lengths, k is 1,024 (8k tokens are 8,192); in rates, it is 1,000.")
    lines.append('Example: "llama-3.1-8b on a100-sxm-80gb: 3500 tok/s at batch 1 fp16"')
    return "\n".join(lines)
