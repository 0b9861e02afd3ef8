"""What a command prints by default fits on one screen and is written for people: few lines, few digits, no reprs of Python."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import sys
from functools import cache
from pathlib import Path

import pytest

from roofline.cli.app import main

ROOT = Path(__file__).resolve().parents[2]
LINES, COLUMNS, DIGITS = 30, 100, 4

MODELS = {
    "gpt2": "-H t4",
    "llama-3.1-8b": "-H a100-sxm-80gb",
    "mixtral-8x7b": "-H h100-sxm --tp 2",
    "qwen3-32b": "-H l40s --tp 4",
    "deepseek-v3": "-H dgx-h100 --tp 16",
}
"""Dense and sparse, GQA and MLA, one device and two nodes: each with what it is deployed on."""

COMMANDS = {
    "limits": "limits {model} {on}",
    "limits, objectives": 'limits {model} {on} --ttft "1 s" --tpot "50 ms"',
    "preempt": "preempt {model} {on} --tokens 512",
    "preempt, gathered": "preempt {model} {on} --tokens 1000 --coalesced --batch 8 --context 900",
    "simulate": 'simulate {model} {on} --rate 2 --input-len 300 --output-len 40 --requests 200 --ttft "1 s"',
    "simulate, runs": "simulate {model} {on} --rate 400 --input-len 300 --output-len 40 --requests 300 --replications 2",
    "plan": 'plan {model} {on} --rate 2 --input-len lognormal:300:200 --output-len 60 --ttft "5 s" --tpot "80 ms"',
    "plan, no candidate": 'plan {model} {on} --rate 2 --input-len 300 --output-len 60 --tpot "10 us"',
    "plan, any hardware": 'plan llama-3.1-8b --rate 50 --input-len lognormal:1155:900 --output-len 211 --ttft "2 s"',
    "plan, two pools": (
        "plan deepseek-v3 -H dgx-h200 --rate 20 --input-len lognormal:4000:3000 --output-len lognormal:800:600 --ttft 5s "
        "--tpot 50ms --top 3"
    ),
    "plan, check": "plan --check docs/examples/deployment.yaml --rate 12 --input-len 900 --output-len 200 --tpot 50ms",
    "claim": "claim {model} {on} --tokens-per-s 95 --batch 2",
    "claim, impossible": "claim {model} {on} --tpot 10us",
    "claim, fits": "claim {model} -H l4 --fits",
    "claim, in words": 'claim "deepseek-v3 on 16x h800-sxm: 1850 tok/s per GPU context 4989"',
    "claim, a peak": 'claim -H h100-sxm --peak-flops "1979 TFLOP/s" --dtype bf16',
    "hardware list": "hardware list",
    "hardware list, some": "hardware list --search nvidia",
    "hardware show, accelerator": "hardware show mi300x",
    "hardware show, node": "hardware show dgx-h100",
    "models list": "models list",
    "models list, some": "models list --search llama",
    "models show": "models show {model}",
    "compare": "compare --engine-log docs/examples/vllm.log --bench docs/examples/vllm-bench.json -H h100-sxm",
    "compare, another card": "compare --engine-log docs/examples/vllm.log --bench docs/examples/vllm-bench.json -H rtx-4090",
    "compare, another model": "compare llama-3.1-8b --engine-log docs/examples/vllm.log --bench docs/examples/vllm-bench.json"
    " -H h100-sxm",
    "validate": "validate measurements",
    "doctor": "doctor",
    "calibrate": "calibrate measurements/amd-epyc-x2 -H measurements/amd-epyc-x2/2026-11-20/hardware.yaml --backend torch -q",
    "bench show": "bench show measurements/amd-epyc-x2/2026-11-20",
    "trace": "trace docs/examples/trace.csv",
    "worksheet list": "worksheet --list",
    "worksheet list, topic": "worksheet serving --list",
    "hardware check": "hardware check",
    "models check": "models check",
    "sweep": "sweep llama-3.1-8b -H a100-sxm-80gb,h100-sxm --tp 1,2 --batch 1:256:x2 --context 1k,8k",
    "sweep, many axes": "sweep llama-3.1-8b,qwen3-8b -H h100-sxm --tp 1,2 --pp 1,2 --dtype bf16,fp8 --batch 1:4 --phase both",
    "sweep, best": "sweep {model} -H h100-sxm,mi300x --tp 4,8 --batch 1:64:x2 --context 8k --reduce best --by hardware",
    "sweep, histogram": "sweep {model} -H h100-sxm --tp 4,8 --batch 1:64 --context 8k --reduce histogram",
    "explain": "explain {model}",
    **{
        f"explain {what}": f"explain {{model}} {what} {{on}} --ignore-capacity"
        for what in (
            "tpot --output-len 100",
            "ttft",
            "e2e --output-len 100",
            "decode bound",
            "lm_head",
            "lm_head estimate",
            "max_batch",
            "critical_batch",
            "arithmetic_intensity",
            "parameters",
            "weight_bytes",
            "critical_tp --phase prefill",
        )
    },
    "explain a cost": "explain llama-3.1-8b cost_per_million_output_tokens -H h100-sxm --batch 32",
}
"""Command lines: `{model}` and `{on}` are a model and what it is deployed on; without them a line runs once."""

BANNED = (
    r"\bNone\b(?! of)", r"\bTrue\b", r"\bFalse\b", r"\bnan\b", r"\binf\b", r"\de[+-]?\d", r"(?<![\d.])\d{6,}(?!\.)",
    r"\b8 of 10\b", r"(?<![\d.,])0 s\b", r"\bas it is\b", r"\bone thing another way\b", r"\bkeep to the SLO\b", r"\bof all 1\b",
    r"\bthen later tokens\b", r"\bis the cheaper\b", r"\bno kernel beats\b", r"\bas measured kernels do\b", r"\bput in\b",
    r"\ballows no less\b", r"\bRelax [a-z-]+:", r"\bstep times by the\b", r"\bstands on\b", r"[│─┌┐└┘├┤]",
    r"\d%", r"\bof others\b", r"\bserver TPOT\b", r"\bat these lengths\b", r"\b1 others\b", r"(?<!layers/)\bmoe/moe\b",
)  # fmt: skip
"""What stands in no output: values as Python prints them, and sentences that readers stumbled on."""

_NUMBER = re.compile(
    r"(?<![\w./@-])(\d[\d,]*(?:\.\d+)?)(?![\w@]|\.\w|-[a-z])(?: (s|ms|µs|ns|%|tok/s|req/s|FLOP/s|[kMGTP]?B/s|[KMGTP]iB))?"
)

_LINK = re.compile(r"https?://\S+|arXiv:\S+")
"""Addresses are no numbers."""

SMALL_AND_LARGE = ("gpt2", "deepseek-v3")
"""What variants of a command (their names have a comma) run with: the shortest and the longest names, counts and times."""

CASES = [
    pytest.param(line.format(model=model, on=on), id=f"{name}: {model}")
    for name, line in COMMANDS.items()
    for model, on in (MODELS.items() if "{model}" in line else [("once", "")])
    if ", " not in name or model in (*SMALL_AND_LARGE, "once")
]


class Terminal(io.StringIO):
    """Stdout of 80 columns."""

    def isatty(self) -> bool:
        """A terminal."""
        return True


@cache
def printed(line: str, *, terminal: bool = False) -> list[str]:
    """The lines of a command's stdout, in a pipe or on a terminal of 80 columns."""
    out = Terminal() if terminal else io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["roofline", *shlex.split(line)])
        patch.delenv("ROOFLINE_PATH", raising=False)
        for name, value in {"COLUMNS": "80", "TERM": "xterm", "NO_COLOR": "1"}.items():
            patch.setenv(name, value)
        patch.chdir(ROOT)
        with contextlib.redirect_stdout(out), pytest.raises(SystemExit) as left:
            main()
    assert left.value.code in (0, 1, None), line
    return out.getvalue().splitlines()


def digits(number: str) -> int:
    """Significant digits of a number as text: zeros at the end of a whole number are none."""
    plain = number.replace(",", "").lstrip("0.")
    return len(plain.replace(".", "")) if "." in number else len(plain.rstrip("0"))


def precise(line: str) -> list[str]:
    """Measured quantities in a line with more digits than are known: fractions, and whole numbers of a unit."""
    return [
        match[0]
        for match in _NUMBER.finditer(line)
        if digits(match[1].rstrip(",")) > DIGITS and ("." in match[1] or match[2] is not None)
    ]


@pytest.mark.slow
@pytest.mark.parametrize("line", CASES)
def test_one_screen(line: str) -> None:
    """At most 30 lines of at most 100 columns. What is copied into a shell may be longer where it cannot be broken.

    At most four significant digits but of exact counts; nothing as Python prints it; no sentence of the list.
    """
    lines = printed(line)
    assert lines, line
    assert len(lines) <= LINES, "\n".join([f"{len(lines)} lines:", *lines])
    assert [text for text in lines if len(text) > COLUMNS] == []
    texts = [_LINK.sub("", text) for text in lines]
    assert [(text, precise(text)) for text in texts if precise(text)] == []
    assert [(text, phrase) for text in texts for phrase in BANNED if re.search(phrase, text)] == []


_NARROW = ("limits", "preempt", "simulate", "plan", "claim", "analyze")


@pytest.mark.slow
@pytest.mark.parametrize("line", [case for case in CASES if str(case.id).startswith(_NARROW) and "deepseek" in str(case.id)])
def test_eighty_columns(line: str) -> None:
    """A terminal of 80 columns has no line that it would break, inside a number or a command."""
    assert [text for text in printed(line, terminal=True) if len(text) > 80] == []


def test_what_counts_as_precise() -> None:
    """The test can fail: digits of a time, a rate and a fraction count, those of a count, a version and a name do not."""
    assert precise("TTFT 67.872 ms, 15,042 tok/s, 0.012345, 12.3 ms, 98.765 %") == [
        "67.872 ms",
        "15,042 tok/s",
        "0.012345",
        "98.765 %",
    ]
    assert precise("466,544 tokens of llama-3.1-8b, vllm 0.19.0, 131,072 cached, 15,000 tok/s, --max-model-len 8192") == []
    assert re.search("|".join(BANNED), "memory 16000000000 (assumed)")
    assert re.search("|".join(BANNED), "vector_flops None (assumed)")
    assert not re.search("|".join(BANNED), "token budget 8192, 10 s, 100 s")
