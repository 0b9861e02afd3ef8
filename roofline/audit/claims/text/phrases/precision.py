"""Number formats of weights and of the KV cache."""

from __future__ import annotations

import re

from roofline.audit.claims.text.phrase import Reading, phrase

_NAMES = {
    "bf16": "bf16|bfloat16|bfloat", "fp16": "fp16|float16|f16|half(?:[- ]precision)?",
    "fp32": "fp32|float32|f32|full[- ]precision",
    "tf32": "tf32|tensorfloat-?32", "fp8": "fp8|float8|f8|fp8[_-]?e4m3|fp8[_-]?e5m2|e4m3|e5m2|w8a8[- ]?fp8",
    "int8": "int8|i8|8[- ]?bits?|w8a8(?![- ]?fp8)|w8a16|q8(?:_0)?", "int4": "int4|i4|4[- ]?bits?|w4a16|w4a8|q4(?:_0)?",
    "fp4": "fp4|float4|f4", "16": "16[- ]?bits?",
}  # fmt: skip
_SCHEMES = "awq|gptq|nf4|nvfp4|mxfp4|mxfp8|llm[._]int8"
_ANY = "|".join(f"(?:{pattern})" for pattern in _NAMES.values())


def _dtype(text: str) -> str:
    name = next(name for name, pattern in _NAMES.items() if re.fullmatch(pattern, text, re.IGNORECASE))
    return "bf16" if name == "16" else name


def _weights(reading: Reading, match: re.Match[str]) -> None:
    reading.say("dtype", _dtype(match["d"]), match[0])


def _cache(reading: Reading, match: re.Match[str]) -> None:
    reading.say("kv_cache_dtype", _dtype(match["d"]), match[0])


def _scheme(reading: Reading, match: re.Match[str]) -> None:
    reading.say("quantization", match["d"].lower().replace(".", "_"), match[0])


PHRASES = (
    phrase(
        "dtype",
        rf"(?P<d>{_ANY})(?!\w|\.\d)(?:[- ]?(?:weights?|precision|quanti[sz](?:ed|ation)))?(?![\w])",
        _weights,
        "fp16 | bf16 | fp8 | int4 | AWQ",
    ),
    phrase("KV dtype", rf"(?P<d>{_ANY})[\s-]*(?:kv(?:[- ]?cache)?)(?!\w|\.\d)", _cache, "with FP8 KV cache"),
    phrase("KV dtype after", rf"kv(?:[- ]?cache)?(?:[- ]?dtype)?\s*(?:in|=|:|is|at|of)?\s*(?P<d>{_ANY})(?!\w|\.\d)", _cache),
    phrase("scheme", rf"(?P<d>{_SCHEMES})(?!\w|\.\d)(?:[- ]?(?:weights?|quanti[sz](?:ed|ation)))?", _scheme),
)
