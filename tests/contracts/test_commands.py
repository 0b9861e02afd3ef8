"""What scripts outside this project call: flags of every command, and keys of its JSON, as they must stay."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import typer

from roofline.cli.app import app, main

COMMANDS: dict[str, Any] = typer.main.get_command(app).commands  # type: ignore[attr-defined]
HARDWARE = ("--mfu", "--mbu", "--link-bandwidth", "--allreduce-bandwidth")
DEPLOYMENT = (
    "--quantization", "--bits-per-weight", "--dispatch-dtype", "--combine-dtype", "--num-redundant-experts", "--moe-tp",
    "--decode-context-parallel-size", "--dcp", "--microbatch-overlap", "--num-gpus",
)  # fmt: skip
PROMPTS = ("--cached-prefix", "--prefix-hit")
LENGTHS = ("--isl", "--osl")
PRICED = ("--json", "--output", "-v", *HARDWARE, *DEPLOYMENT)
FLAGS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("analyze", "explain", "plan", "claim", "simulate"), (*PRICED, *PROMPTS, *LENGTHS)),
    "sweep": (*PRICED, *PROMPTS, "--isl", "--executor", "--reduce"),
    "report": ("--output", *HARDWARE, *DEPLOYMENT, *PROMPTS, *LENGTHS, "--calculator", "--from"),
    **dict.fromkeys(("limits", "preempt"), (*PRICED, *PROMPTS)),  # lengths are their own: --context, --tokens
    **dict.fromkeys(("compare", "replay", "profile"), PRICED),  # what was run is in the files
    "op": ("--json", "--output", "-v", "--hardware", "--dtype", "--backend", "--sweep", "--bits-per-weight", *HARDWARE),
    "validate": ("--hardware", "--backend", "--serving", "--max-error", "--json"),
}
"""Flags that a command must have, whatever else it has."""
OWN: dict[str, str] = {
    "claim": "--tokens-per-s --per-user --ttft --tpot --fits --batch --input-len --context --dtype --tp --peak-flops",
    "limits": "--ttft --tpot",
    "plan": "--rate --concurrency --input-len --output-len --ttft --tpot --percentile --hardware --price --max-gpus --max-cost "
    "--check --rank",
    "preempt": "--tokens --block-size --host-link --pinned --pageable --coalesced",
    "simulate": "--trace --workload --rate --replicas --scheduler --ttft --tpot --until --replications --seed --skip-bad-rows "
    "--dp --enable-prefix-caching",
}
"""And those that it has besides."""

_ON = "llama-3.1-8b -H h100-sxm"
_LOAD = "--rate 2 --input-len 200 --output-len 8 --ttft 1s --tpot 50ms"


def keys(prefix: str, names: str) -> tuple[str, ...]:
    """Paths of keys within an object."""
    return tuple(f"{prefix}.{name}" for name in names.split())


SPAN = "floor bound estimate low high"
PERCENTILES = "mean p50 p90 p95 p99"
OP = ("bytes", "arithmetic_intensity", "bound_by", *keys("flops", "matrix vector total"), *keys("time_s", SPAN))
KEYS: dict[str, tuple[str, ...]] = {
    f"analyze {_ON} --output-len 8": (
        *keys("phases[]", "estimate_basis time_s.sum tokens_per_s.floor tokens_per_s.bound tokens_per_s.estimate"),
        *keys("phases[].time_s", SPAN), *keys("request.ttft_s", SPAN), *keys("request.tpot_s", SPAN),
        *keys("request.e2e_s", SPAN),
    ),
    "explain llama-3.1-8b kv_bytes_per_token": ("formula", "latex", "substituted", "value", "unit", "source", "assumptions"),
    f"claim {_ON} --tokens-per-s 100": ("verdict", "ceiling", "ratio", "likely_mistakes"),
    f"limits {_ON} --context 4k --ttft 1s": (
        "estimate_basis", *keys("rows[]", "context max_batch_memory critical_batch max_batch_slo first"),
        *keys("rows[].ttft_s", SPAN),
    ),
    f"preempt {_ON} --tokens 4k": (
        "recompute.time_s", *keys("swap", "time_s out_s in_s"), "cheaper", "break_even_link", "crossover_tokens",
        "crossover_block_size", "basis", "estimate_basis",
    ),
    f"simulate {_ON} {_LOAD} --requests 20": (
        "duration_s", "offered_rate", "saturated", "goodput", "estimate_basis",
        *keys("requests", "completed refused preemptions"), *keys("ttft_s", PERCENTILES), *keys("tpot_s", PERCENTILES),
        *keys("itl_s", PERCENTILES), *keys("e2e_s", PERCENTILES), *keys("throughput", "requests_per_s output_tokens_per_s"),
        *keys("utilisation", "compute memory kv"),
    ),
    f"plan {_ON} {_LOAD} --tp 1": (
        "pareto", "infeasible", *keys("candidates[]", "hardware devices replicas deployment engine_flags binds headroom"),
        *keys("candidates[]", "cost_per_hour estimate_basis throughput.requests_per_s throughput.output_tokens_per_s"),
        *keys("candidates[].cost_per_million_tokens", "input output total"),
        *keys("candidates[].ttft_s", "mean p50 p95 low high"), *keys("candidates[].tpot_s", "mean p50 p95 low high"),
    ),
    "op gemm 16 4096 4096 -H h100-sxm": (*OP, "ridge_point", "formula", "estimate_basis"),
    "op all_reduce 1MB 8 -H h100-sxm": (*OP, "ridge_point", "formula"),
    "op moe 64 128 8 2048 768 -H h100-sxm": (*OP, "ridge_point", "formula"),
    "op norm 64 4096 -H h100-sxm": (*OP, "ridge_point", "formula"),
    "op attention kv_len=4k heads=32 kv_heads=8 head_dim=128 -H h100-sxm": (*OP, "ridge_point", "formula"),
    "op gemm n=4096 k=4096 -H h100-sxm --sweep m=1,64": keys("points[]", " ".join(OP)),
    f"sweep {_ON} --phase decode --batch 1,2": keys("rows[]", "time_floor_s time_bound_s time_estimate_s"),
}  # fmt: skip
"""Keys of the JSON of command lines; `[]` is the first of a list."""


def test_every_command_that_takes_the_hardware_is_listed() -> None:
    """A new command that prices a step has to have these flags too."""
    priced = {name for name, one in COMMANDS.items() if "mfu" in {entry.name for entry in getattr(one, "params", ())}}
    assert priced <= set(FLAGS)


@pytest.mark.parametrize("name", FLAGS)
def test_commands_have_their_flags(name: str) -> None:
    """Under every name that is promised."""
    known = {text for one in COMMANDS[name].params for text in (*one.opts, *one.secondary_opts)}
    assert {*FLAGS[name], *OWN.get(name, "").split()} - known == set()


def _lacking(document: Any, path: str) -> Iterator[str]:
    """The part of a path that a document has not."""
    at = document
    for part in path.split("."):
        name, listed, _ = part.partition("[]")
        if not isinstance(at, dict) or name not in at or (listed and not at[name]):
            yield path
            return
        at = at[name][0] if listed else at[name]


@pytest.mark.parametrize("line", KEYS)
def test_json_has_its_keys(line: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """One object whose first keys say what it was made of; every key that is promised, be its value null."""
    monkeypatch.setattr(sys, "argv", ["roofline", *shlex.split(line), "--json"])
    capsys.readouterr()
    with pytest.raises(SystemExit) as left:
        main()
    printed = capsys.readouterr()
    assert left.value.code in (0, None), printed.err
    document = json.loads(printed.out, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    assert list(document)[:4] == ["schema_version", "tool_version", "data_version", "inputs"]
    assert [missing for path in KEYS[line] for missing in _lacking(document, path)] == []
