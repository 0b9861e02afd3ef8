"""Words that say nothing more."""

from __future__ import annotations

import re

from roofline.audit.claims.text.phrase import Reading, phrase

_WORDS = re.findall(
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


def _nothing(reading: Reading, match: re.Match[str]) -> None:
    del reading, match


PHRASES = (
    phrase("words", rf"(?:{'|'.join(sorted(map(re.escape, _WORDS), key=len, reverse=True))})(?!\w)", _nothing),
    phrase("signs", _SIGNS, _nothing),
)
