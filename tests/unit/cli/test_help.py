"""Help, versions, completion."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

import roofline
from roofline.cli import complete

Run = Callable[..., Any]


def test_version(run: Run) -> None:
    """--version says the tool's version and leaves with 0."""
    answer = run("--version")
    assert (answer.code, answer.err) == (0, "")
    assert answer.out.startswith(f"roofline {roofline.__version__} ")


@pytest.mark.parametrize("flag", ["--help", "-h"])
def test_help_names_the_commands(run: Run, flag: str) -> None:
    """Every command is listed."""
    out = run(flag).out
    for command in ("analyze", "models", "hardware", "schema", "explain"):
        assert re.search(rf"^\W*{command}\b", out, re.MULTILINE)


def test_help_of_analyze_names_every_flag_of_the_contract(run: Run) -> None:
    """Flags of CONTRACT section 3."""
    out = run("analyze", "--help").out
    for flag in (
        "--batch",
        "-b",
        "--input-len",
        "--output-len",
        "--context",
        "--phase",
        "--segments",
        "--dtype",
        "--kv-cache-dtype",
        "--mamba-ssm-cache-dtype",
        "--activation-dtype",
        "--quantization",
        "--tensor-parallel-size",
        "--tp",
        "--pipeline-parallel-size",
        "--pp",
        "--data-parallel-size",
        "--dp",
        "--expert-parallel-size",
        "--ep",
        "--context-parallel-size",
        "--prefill-context-parallel-size",
        "--cp",
        "--sequence-parallel",
        "--expert-imbalance",
        "--max-model-len",
        "--max-num-seqs",
        "--max-num-batched-tokens",
        "--gpu-memory-utilization",
        "--reserve",
        "--block-size",
        "--engine",
        "--backend",
        "--peak-flops",
        "--bandwidth",
        "--memory",
        "--mask",
        "--attention",
        "--logits",
        "--mla",
        "--routing-skew",
        "--shared-prefix",
        "--ignore-capacity",
        "--explain",
        "--json",
        "-o",
        "--output",
        "--quiet",
        "--hardware",
    ):
        assert flag in out, flag


@pytest.mark.parametrize("group", ["models", "hardware"])
def test_help_of_groups(run: Run, group: str) -> None:
    """Groups list what they hold."""
    out = run(group, "--help").out
    for command in ("list", "show", "check"):
        assert re.search(rf"^\W*{command}\b", out, re.MULTILINE)


def test_completion_of_ids() -> None:
    """A shell completes ids of models and hardware."""
    assert complete.models("llama-3.1") == ["llama-3.1-70b", "llama-3.1-8b"]
    assert complete.hardware("h100") == ["h100-nvl", "h100-pcie", "h100-sxm"]
    assert complete.models("zzz") == []


def test_flags_reach_the_answer(run: Run) -> None:
    """Long and short spellings, 8k = 8192, and quantities with units."""
    out = run(
        "analyze", "llama-3.1-8b", "-H", "dgx_h100", "-b", "4", "--context", "8k", "--tp", "2", "--reserve", "1 GiB", "--json"
    ).out
    whole = json.loads(out)
    assert whole["deployment"]["tensor_parallel"] == 2
    assert whole["phases"][1]["cached_tokens"] == 4 * 8192
    assert whole["memory"]["reserved_bytes"] == 2**30
    assert next(note for note in whole["assumptions"] if note["name"] == "context")["value"] == 8192
