"""The command that starts an engine, and its quoting."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace

import pytest

from roofline.predict.engine_command import engine_command, shell_line
from roofline.predict.request import prepare
from roofline.text import quoted


def command(model: str = "llama-3.1-8b", longest: int = 1280, **options: object) -> list[str]:
    """The arguments for a model on 8 x H200."""
    return list(engine_command(prepare(model, "h200-sxm", **options), longest))


def test_plain() -> None:
    """What the engine has as its default is left out."""
    assert command(batch=8) == [
        "vllm", "serve", "meta-llama/Meta-Llama-3.1-8B", "--max-model-len", "1280", "--max-num-seqs", "8",
    ]  # fmt: skip


def test_parallelism_and_formats() -> None:
    """Flags are the engine's own; sequences are those of one replica."""
    line = command("mixtral-8x7b", batch=10, tp=2, dp=2, ep=2, kv_cache_dtype="fp8", quantization="fp8", block_size=32)
    assert line[3:] == [
        "--tensor-parallel-size", "2", "--data-parallel-size", "2", "--enable-expert-parallel", "--max-model-len", "1280",
        "--max-num-seqs", "5", "--block-size", "32", "--kv-cache-dtype", "fp8", "--quantization", "fp8",
    ]  # fmt: skip


def test_context_and_sequence_parallelism() -> None:
    """Both sizes of context parallelism are one here; sequence parallelism is a pass of vLLM's compiler, in JSON."""
    line = command(tp=2, cp=4, sequence_parallel=True)
    assert line[3:9] == [
        "--tensor-parallel-size", "2", "--prefill-context-parallel-size", "4", "--decode-context-parallel-size", "4",
    ]  # fmt: skip
    assert line[9] == "--compilation-config"
    assert json.loads(line[10]) == {"pass_config": {"enable_sp": True}}
    assert shlex.split(shell_line(tuple(line)))[10] == line[10]


@pytest.mark.parametrize(("dtype", "flags"), [("bf16", ["--dtype", "bfloat16"]), ("fp8", ["--quantization", "fp8"])])
def test_dtype(dtype: str, flags: list[str]) -> None:
    """VLLM has fp8 weights under another flag."""
    assert command(dtype=dtype)[-2:] == flags


@pytest.mark.parametrize(
    "name", ["a b", "it's", "$(reboot)", "`x`", "a;b", "a\nb", '"', "\\", "~", "*", "-rf", "é", "x" * 1000]
)
def test_a_name_is_one_word(name: str) -> None:
    """Whatever a file calls its model, the shell sees one argument."""
    request = prepare("gpt2", "h200-sxm")
    request = replace(request, model=request.model.model_copy(update={"hf_id": name}))
    assert shlex.split(shell_line(engine_command(request, 10)))[2] == name
    assert quoted(name) == shlex.quote(name)
