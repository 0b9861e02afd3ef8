"""The command that starts an engine, and its quoting."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace

import pytest
from ruamel.yaml import YAML

from roofline.predict.engine_command import engine_command, engine_start, shell_line, trtllm_options
from roofline.predict.request import prepare
from roofline.text import quoted

pytestmark = pytest.mark.every_case


def command(model: str = "llama-3.1-8b", longest: int = 1280, hardware: str = "h200-sxm", **options: object) -> list[str]:
    """The arguments for a model on H200."""
    return list(engine_command(prepare(model, hardware, **options), longest))


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


def test_experts_over_nodes() -> None:
    """Copies of experts, kernels that send tokens, and microbatches; SGLang counts the sequences of all ranks."""
    given: dict[str, object] = {"batch": 64, "dp": 16, "ep": 16, "deepep_mode": "low_latency", "hardware": "dgx-h200"}
    line = command("deepseek-v3", **given, num_redundant_experts=32, microbatch_overlap=True)
    assert line[3:6] == ["--data-parallel-size", "16", "--enable-expert-parallel"]
    assert line[6:8] == ["--enable-eplb", "--eplb-config"]
    assert json.loads(line[8]) == {"num_redundant_experts": 32}
    assert line[9:12] == ["--all2all-backend", "deepep_low_latency", "--enable-dbo"]
    assert "deepep_high_throughput" in command("deepseek-v3", **{**given, "deepep_mode": "normal"})
    assert command("deepseek-v3", **given, engine="sglang", mem_fraction_static=0.8)[5:] == [
        "--tp-size", "16", "--dp-size", "16", "--enable-dp-attention", "--ep-size", "16", "--moe-a2a-backend", "deepep",
        "--deepep-mode", "low_latency", "--context-length", "1280", "--max-running-requests", "64", "--chunked-prefill-size",
        "131072", "--mem-fraction-static", "0.8",
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


@pytest.mark.parametrize(
    ("engine", "on", "off"),
    [("vllm", ["--enable-prefix-caching"], ["--no-enable-prefix-caching"]), ("sglang", [], ["--disable-radix-cache"])],
)
def test_prefix_caching(engine: str, on: list[str], off: list[str]) -> None:
    """As it was predicted, where that was said; SGLang caches prefixes unless it is told not to."""
    plain = command("qwen3-next-80b-a3b", engine=engine, tp=4)
    for given, flags in ((True, on), (False, off)):
        line = command("qwen3-next-80b-a3b", engine=engine, tp=4, enable_prefix_caching=given)
        assert [word for word in line if word not in plain] == flags
        assert [word for word in line if word not in flags] == plain


def test_prefix_caching_of_tensorrt_llm() -> None:
    """It is a key of its file of options."""
    request = prepare("llama-3.1-8b", "h200-sxm", engine="trtllm", enable_prefix_caching=False)
    assert YAML(typ="safe").load(trtllm_options(request, 1280))["kv_cache_config"]["enable_block_reuse"] is False


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


def options(model: str = "llama-3.1-8b", longest: int = 1280, **given: object) -> dict[str, object]:
    """What the file of options of TensorRT-LLM holds, read as YAML."""
    read: dict[str, object] = YAML(typ="safe").load(
        trtllm_options(prepare(model, "h200-sxm", engine="trtllm", **given), longest)
    )
    return read


def test_tensorrt_llm() -> None:
    """Flags as `trtllm-serve --help` of 1.0 lists them; the rest, its own share of free memory among it, is in the file."""
    line = command(engine="trtllm", batch=8, tp=2, pp=2)
    assert line == [
        "trtllm-serve", "meta-llama/Meta-Llama-3.1-8B", "--tp_size", "2", "--pp_size", "2", "--max_batch_size", "8",
        "--max_num_tokens", "8192", "--max_seq_len", "1280", "--extra_llm_api_options", "trtllm.yaml",
    ]  # fmt: skip
    assert options() == {"kv_cache_config": {"dtype": "auto", "free_gpu_memory_fraction": 0.9}}
    given = options(kv_cache_dtype="fp8", block_size=64, kv_cache_free_gpu_memory_fraction=0.8, dtype="fp16")
    assert given == {
        "kv_cache_config": {"dtype": "fp8", "free_gpu_memory_fraction": 0.8, "tokens_per_block": 64}, "dtype": "float16",
    }  # fmt: skip


def test_tensorrt_llm_cuts_prompts_that_are_longer_than_a_step() -> None:
    """By default it does not: 8,192 tokens in a step."""
    assert "enable_chunked_prefill" not in options(longest=8192)
    assert options(longest=8193)["enable_chunked_prefill"] is True
    assert "free_gpu_memory_fraction" not in str(options(gpu_memory_utilization=0.9))  # a share of other memory


def test_tensorrt_llm_with_attention_parallel_ranks() -> None:
    """`--tp_size` counts all devices; sequences and tokens are those of a rank. Ranks of several devices it does not have."""
    line = command("deepseek-v3", engine="trtllm", batch=64, dp=8, ep=8)
    assert line[2:8] == ["--tp_size", "8", "--ep_size", "8", "--max_batch_size", "8"]
    assert options("deepseek-v3", batch=64, dp=8, ep=8)["enable_attention_dp"] is True
    assert command("deepseek-v3", engine="trtllm", batch=64, dp=4, tp=2, ep=8) == []
    assert command(engine="trtllm", batch=8, dp=2) == []  # replicas that share nothing are servers of their own


def test_tensorrt_llm_has_the_formats_of_a_checkpoint() -> None:
    """It converts no weights: a checkpoint is named that is published in the format, else a folder for one."""
    assert command(engine="trtllm", quantization="fp8")[1] == "RedHatAI/Meta-Llama-3.1-8B-Instruct-FP8-dynamic"
    assert command("mixtral-8x7b", engine="trtllm", dtype="fp8")[1] == "./mixtral-8x7b-fp8"
    assert command("deepseek-v3", engine="trtllm", tp=8)[1] == "deepseek-ai/DeepSeek-V3"


def test_the_file_is_written_first() -> None:
    """One line for a shell; engines without a file have the command alone, and none where there are no options for it."""
    start = engine_start(prepare("llama-3.1-8b", "h200-sxm", engine="trtllm"), 1280)
    assert shlex.split(start)[:5] == [
        "echo", "{kv_cache_config: {dtype: auto, free_gpu_memory_fraction: 0.9}}", ">", "trtllm.yaml", "&&",
    ]  # fmt: skip
    assert engine_start(prepare("llama-3.1-8b", "h200-sxm"), 1280).startswith("vllm serve meta-llama/Meta-Llama-3.1-8B ")
    assert not engine_start(prepare("llama-3.1-8b", "h200-sxm", engine="sglang", cp=2), 1280)


@pytest.mark.parametrize("engine", ["vllm", "sglang", "trtllm"])
@pytest.mark.parametrize(
    ("model", "quantization", "served"),
    [
        ("qwen3-8b", "nvfp4", "nvidia/Qwen3-8B-NVFP4"), ("mixtral-8x7b", "awq", "./mixtral-8x7b-awq"),
        ("deepseek-v3", "fp8_block", "deepseek-ai/DeepSeek-V3"),
    ],
)  # fmt: skip
def test_formats_that_no_engine_makes_on_loading(engine: str, model: str, quantization: str, served: str) -> None:
    """They come from a checkpoint, which says what they are: no engine takes `--quantization nvfp4` of other weights."""
    line = command(model, engine=engine, quantization=quantization, tp=8)
    assert served in line
    assert "--quantization" not in line


def test_formats_that_vllm_makes_on_loading() -> None:
    """Of the original weights, by its own names."""
    for quantization, name in (("fp8", "fp8"), ("nf4", "bitsandbytes")):
        line = command("qwen3-8b", quantization=quantization)
        assert (line[2], line[-1]) == ("Qwen/Qwen3-8B", name)


def test_sglang() -> None:
    """All ranks are counted; its share of memory is given, one of what is free has no counterpart."""
    line = command("mixtral-8x7b", engine="sglang", batch=10, tp=2, dp=2, ep=2, mem_fraction_static=0.8)
    assert line == [
        "python3", "-m", "sglang.launch_server", "--model-path", "mistralai/Mixtral-8x7B-v0.1", "--tp-size", "4",
        "--dp-size", "2", "--enable-dp-attention", "--ep-size", "2", "--context-length", "1280", "--max-running-requests", "10",
        "--chunked-prefill-size", "16384", "--mem-fraction-static", "0.8",
    ]  # fmt: skip
