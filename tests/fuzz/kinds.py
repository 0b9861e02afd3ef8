"""What is fuzzed: valid inputs of each kind, from shipped files, examples and samples, and the command that reads them."""

from __future__ import annotations

import json
import random
import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from fuzz import mutators
from golden.oracle import classic_configs, latent_configs, recurrent_configs

ROOT = Path(__file__).resolve().parents[2]
_LOAD = "--rate 4 --input-len 500 --output-len 100 --requests 20"
_ONE = "llama-3.2-1b --hardware h100-sxm"
_PLAN = "plan llama-3.1-8b --hardware h100-sxm --tp 1 --dtype bf16 --mode colocated"
_TEXT = 100_000
"""Characters of a file at most, so that a mutant of it is read in a moment."""


@dataclass(frozen=True)
class Case:
    """A command with its files, by name in the folder where it runs."""

    arguments: tuple[str, ...]
    files: dict[str, bytes] = field(default_factory=dict)
    last: tuple[str, ...] = ()
    """Arguments that are never mutated: the last of two equal options holds, so that a run has an end."""

    def write(self, folder: Path) -> None:
        """Put the files where the command looks for them."""
        for name, data in self.files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(data)


@dataclass(frozen=True)
class Kind:
    """Valid cases, and how one of them is made wrong. `n`: mutants of an ordinary run."""

    seeds: Callable[[], list[Case]]
    mutate: Callable[[random.Random, Case], Case]
    n: int = 12

    def mutant(self, name: str, seed: str, index: int) -> Case:
        """Number `index` of the mutants that belong to a seed: always the same."""
        rng = random.Random(f"{seed}:{name}:{index}")  # noqa: S311 - reproducible, not secret
        seeds = _cached(self.seeds)
        return self.mutate(rng, seeds[index % len(seeds)])


@cache
def _cached(seeds: Callable[[], list[Case]]) -> list[Case]:
    return seeds()


def _command(line: str, **files: str) -> Case:
    """A command line, and files whose names have `__` for a folder and `_` before the suffix."""
    names = {name.replace("__", "/").replace("_", "."): text.encode() for name, text in files.items()}
    arguments = tuple(shlex.split(line))
    last = ("--requests", "20", "--replicas", "2") if arguments[0] == "simulate" else ()
    return Case(arguments, names, last)


def _read(*parts: str) -> str:
    return ROOT.joinpath(*parts).read_text(encoding="utf-8")[:_TEXT]


def _a_file(rng: random.Random, case: Case) -> Case:
    """One of the files made wrong."""
    name = rng.choice(sorted(case.files))
    form = {".yaml": "yaml", ".json": "json", ".jsonl": "jsonl"}.get(Path(name).suffix, "text")
    return replace(case, files={**case.files, name: mutators.of_file(rng, case.files[name].decode(), form)})


def _an_argument(flag: str) -> Callable[[random.Random, Case], Case]:
    """The value of a flag made wrong; of no flag the first argument."""

    def mutate(rng: random.Random, case: Case) -> Case:
        arguments = list(case.arguments)
        at = arguments.index(flag) + 1 if flag else 1
        arguments[at] = mutators.of_text(rng, arguments[at])
        return replace(case, arguments=tuple(arguments))

    return mutate


def _claims() -> list[Case]:
    texts = (
        "Llama 3.1 70B on 8x H100-SXM: 3500 tok/s at batch 32", "llama-3.1-8b on an A100 SXM 80GB, 95 TPS per user, fp8",
        "TTFT 10 ms for a 4k prompt of Llama 3.1 8B on an H100 SXM", "H100 SXM has 989 dense bf16 TFLOP/s",
        "Mixtral 8x7B fits on 2 H100 SXM with FP8 KV cache at context 32k", "DeepSeek-V3 on dgx-h200 tp8: ITL 7 ms, batch 64",
        "qwen3-32b with AWQ on an L40S, 40 tokens per second, ISL=1024, OSL=128",
    )  # fmt: skip
    return [Case(("claim", text)) for text in texts]


def _speculation() -> list[Case]:
    configs = (
        {"method": "draft_model", "model": "llama-3.2-1b", "num_speculative_tokens": 4, "draft_tensor_parallel_size": 1},
        {"model": "llama-3.2-1b", "num_speculative_tokens": 3},
        {"method": "ngram", "num_speculative_tokens": 5, "prompt_lookup_max": 4},
    )
    line = ("analyze", "llama-3.1-8b", "--hardware", "h100-sxm", "--batch", "8", "--acceptance", "0.7", "--speculative-config")
    return [Case((*line, json.dumps(config))) for config in configs]


_FLAGS = (
    "--batch 8", "--input-len 8k", "--context 100k", "--output-len 64", "--tp 2", "--pp 2", "--dp 2", "--ep 2", "--cp 2",
    "--dtype fp8", "--kv-cache-dtype fp8", "--quantization awq", "--max-model-len 4096", "--max-num-seqs 8", "--reserve 2GiB",
    "--max-num-batched-tokens 512", "--gpu-memory-utilization 0.5", "--block-size 32", "--engine sglang", "--backend vllm",
    "--peak-flops 312TFLOP/s", "--bandwidth 300GB/s", "--memory 80GiB", "--mask full", "--attention eager", "--logits all",
    "--mla absorb", "--routing-skew 1.2", "--shared-prefix 100", "--segments 4x1@100,1x512@0", "--sequence-parallel",
    "--ignore-capacity", "--ttft 2s", "--tpot 50ms", "--phase prefill", "--until 10min", "--seed 3", "--warm-up 0.1", "--quiet",
    "--expert-imbalance 1.5", "--prefix-hit 0.3", "--burstiness 3", "--percentile 99", "--scheduler sarathi",
)  # fmt: skip


def _options() -> list[Case]:
    lines = (
        f"analyze {_ONE} --batch 8 --input-len 2k --output-len 64 --tp 2",
        "analyze mixtral-8x7b --hardware dgx-h100 --tp 4 --ep 2 --batch 64 --context 8k --routing-skew 0.5",
        "analyze deepseek-v2-lite --hardware mi300x --segments 4x1@1000,1x512@0 --kv-cache-dtype fp8",
        f"analyze {_ONE} --memory '20 GiB' --bandwidth '300 GB/s' --peak-flops '100 TFLOP/s' --reserve '1 GiB'",
        "limits llama-3.1-8b --hardware a100-sxm-80gb --ttft '500 ms' --tpot '50 ms' --context 1k,8k",
        "preempt llama-3.1-8b --hardware a100-sxm-80gb --tokens 8k --host-link '25 GB/s' --batch 16 --gpus-per-link 2",
        "explain gpt2 kv_bytes_per_token --batch 4 --context 512",
        f"simulate {_ONE} {_LOAD} --ttft '2 s' --scheduler vllm-v0 --seed 3 --memory '8 GiB' --preemption swap",
        f"{_PLAN} --rate 4 --input-len 500 --output-len 100 --ttft '2 s' --tpot '50 ms' --inventory h100-sxm=4 --pue 1.2",
        "claim llama-3.1-8b --hardware h100-sxm --tpot '2 ms' --batch 4 --input-len 512",
        "models show llama-3.2-1b --format json",
        "hardware show h100-sxm",
    )
    return [_command(line) for line in lines]


def _of_options(rng: random.Random, case: Case) -> Case:
    return replace(case, arguments=tuple(mutators.of_arguments(rng, case.arguments, _FLAGS)))


def _workloads() -> list[Case]:
    texts = (
        "poisson:8", "gamma:300/min:2", "constant:8/s", "bursty:8:4", "bursty:8:4:1 min", "closed:4:2 s:500 ms",
        "closed:4:prompts=10:spread=0.8-1:warm-up=1:ramp=10 s", "at-once:10",
    )  # fmt: skip
    line = f"simulate {_ONE} --input-len 300 --output-len 20 --workload"
    cases = [_command(f"{line} '{text}'") for text in texts]
    return [replace(case, last=("--until", "1 h")) if "prompts" in case.arguments[-1] else case for case in cases]


def _lengths() -> list[Case]:
    texts = (
        "1024",
        "uniform:100:2k",
        "lognormal:1155:900",
        "lognormal:1155:900:4k",
        "gamma:500:500",
        "file:lengths.csv:tokens",
    )
    files = {"lengths_csv": "tokens,other\n5,1\n700,2\n9,3\n"}
    return [_command(f"simulate {_ONE} --rate 4 --output-len 20 --input-len '{text}'", **files) for text in texts]


def _of_lengths(rng: random.Random, case: Case) -> Case:
    return (_an_argument("--input-len") if rng.random() < 0.8 else _a_file)(rng, case)


def _configs() -> list[Case]:
    published = (*classic_configs.PUBLISHED.values(), *latent_configs.PUBLISHED.values(), *recurrent_configs.PUBLISHED.values())
    configs = {config["model_type"]: json.dumps(config, indent=1) for config in published}
    texts = [*configs.values(), _read("docs", "examples", "small", "config.json")]
    return [
        _command("analyze config.json --hardware dgx-h100 --tp 1 --ignore-capacity --context 64", config_json=text)
        for text in texts
    ]


def _models() -> list[Case]:
    names = ("llama-3.1-8b", "mixtral-8x7b", "deepseek-v2-lite", "gemma-3-12b", "gpt-oss-20b", "glm-5.2")
    line = "analyze model.yaml --hardware h100-sxm --batch 4 --context 256 --ignore-capacity"
    return [_command(line, model_yaml=_read("models", f"{name}.yaml")) for name in names]


def _hardware() -> list[Case]:
    texts = [_read("hardware", f"{name}.yaml") for name in ("h100-sxm", "mi300x", "l40s", "a100-sxm-80gb", "dgx-h100", "t4")]
    texts += [_read("docs", "examples", "future-accelerator.yaml")]
    cases = [_command("analyze llama-3.2-1b --hardware hardware.yaml --batch 4", hardware_yaml=text) for text in texts]
    return [*cases, _command("hardware check hardware.yaml", hardware_yaml=texts[0])]


def _comparisons() -> list[Case]:
    samples = ROOT / "tests" / "samples" / "engine_logs"
    logs = [*sorted(samples.glob("*.log")), ROOT / "docs" / "examples" / "vllm.log"]
    benches = [*sorted(samples.glob("*.json*")), ROOT / "docs" / "examples" / "vllm-bench.json"]
    cases = []
    for path in logs:
        model = ("llama-3.1-8b",) if path.name.startswith("trtllm") else ()  # which that engine does not name
        line = ("compare", *model, "--engine-log", "e.log", "--hardware", "h100-sxm")
        cases.append(Case(line, {"e.log": path.read_bytes()}))
    for path in benches:
        name = f"bench{path.suffix}"
        model = ("llama-3.1-8b",) if path.suffix == ".jsonl" else ()  # which that benchmark does not name
        cases.append(Case(("compare", *model, "--bench", name, "--hardware", "h100-sxm"), {name: path.read_bytes()}))
    return cases


def _traces() -> list[Case]:
    ours = _read("docs", "examples", "trace.csv")
    azure = "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.680,374,44\n2023-11-16 18:15:50.951,396,109\n"
    lines = (f"simulate {_ONE} --trace trace.csv", f"{_PLAN} --trace trace.csv --ttft '2 s'", "trace trace.csv")
    return [_command(line, trace_csv=text) for text in (ours, azure) for line in lines]


def _runs() -> list[Case]:
    clock = 5000.0
    times = ((0.0, 0.5, 1.5, 100, 11), (0.25, 1.0, 3.0, 7, 1), (2.0, 2.5, 2.75, 4000, 2), (2.5, 2.75, 3.5, 300, 20))
    rows = [
        {"input_toks": prompt, "output_toks": answer, "queued_ts": clock + queued, "first_token_ts": clock + first,
         "last_token_ts": clock + last}
        for queued, first, last, prompt, answer in times
    ]  # fmt: skip
    meta = {
        "model": "meta-llama/Llama-3.1-8B", "vllm_version": "0.19.0",
        "engine_kwargs": {"tensor_parallel_size": 1, "max_num_seqs": 64, "dtype": "torch.bfloat16", "kv_cache_dtype": "auto"},
        "kv_cache": {"num_gpu_blocks": 2588, "block_size": 16, "gpu_memory_utilization": 0.9, "enable_prefix_caching": True},
        "hardware": {"device_name": "NVIDIA GeForce RTX 4090", "device_total_memory_bytes": 25250627584},
        "resolved_config": {"scheduler_config": {"max_num_batched_tokens": 2048, "async_scheduling": True}},
    }  # fmt: skip
    files = {"run__requests_jsonl": "".join(json.dumps(row) + "\n" for row in rows), "run__meta_json": json.dumps(meta)}
    return [_command(line, **files) for line in ("replay run", "trace run")]


def _deployments() -> list[Case]:
    folder = ROOT / "tests" / "samples" / "deployments"
    texts = [path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.yaml"))]
    texts += [_read("docs", "examples", "deployment.yaml")]
    line = (
        "plan --check deployment.yaml --rate 2 --input-len 500 --output-len 100 --ttft '2 s' --tpot '50 ms' --hardware h100-sxm"
    )
    return [_command(line + ("" if "replicas:" in text else " --replicas 2"), deployment_yaml=text) for text in texts]


def _traffic() -> list[Case]:
    texts = [_read("docs", "examples", name) for name in ("traffic.yaml", "traffic-clients.yaml")]
    lines = (f"{_PLAN} --traffic traffic.yaml", f"simulate {_ONE} --workload traffic.yaml")
    return [_command(line, traffic_yaml=text) for text in texts for line in lines]


def _sweeps() -> list[Case]:
    small = """\
schema_version: 1
kind: sweep
grid: {model: [llama-3.2-1b, gpt2], hardware: h100-sxm, batch: "1:64:x4", context: [512, 2k], tp: [1, 2]}
columns: [time_estimate_s, tokens_per_s, fits]
reduce: pareto
objectives: [tokens_per_s:max, time_estimate_s:min]
"""
    return [_command("sweep sweep.yaml", sweep_yaml=text) for text in (_read("docs", "examples", "sweep.yaml"), small)]


def _records() -> list[Case]:
    folder = ("measurements", "amd-epyc-x2", "2026-11-20")
    header, *rows = _read(*folder, "records.csv").splitlines(keepends=True)
    copies = [row for row in rows if ",copy_d2d," in row][:16]  # a fit of one op takes a moment
    hardware = _read(*folder, "hardware.yaml")
    calibrate = "calibrate here/records.csv --hardware here/hardware.yaml --backend torch -o fit.json"
    return [
        _command(line, here__records_csv="".join([header, *some]), here__hardware_yaml=hardware)
        for line, some in (("validate here", rows[:40]), ("validate here", copies), (calibrate, copies))
    ]


def _prices() -> list[Case]:
    texts = [_read("docs", "examples", "prices.yaml"), _read("prices", "_template.yaml"), _read("prices", "default.yaml")]
    line = f"{_PLAN} --rate 4 --input-len 500 --output-len 100 --price prices.yaml"
    return [_command(line, prices_yaml=text) for text in texts]


def _fits() -> list[Case]:
    names = ("vllm", "sglang", "trtllm", "sarathi-vllm-torch")
    line = f"analyze {_ONE} --batch 8 --backend fit.yaml"
    return [_command(line, fit_yaml=_read("hardware", "fits", "h100-sxm", f"{name}.yaml")) for name in names]


def known() -> dict[str, Case]:
    """Inputs that were internal errors, took all memory or never came to an end, by what is wrong with them."""
    short = _read("models", "llama-3.1-8b.yaml") + "quantization: {name: fp8_block, weight_block_size: [128]}\n"
    fit = re.sub(r"\[[\d.]+, [\d.]+\]", "[0.9]", _read("hardware", "fits", "h100-sxm", "vllm.yaml"), count=1)
    long = "x" * 300
    loop = f"simulate {_ONE} --input-len 3 --output-len 4 --workload closed"
    return {
        "a block of one size": _command("analyze model.yaml --hardware h100-sxm", model_yaml=short),
        "a band of one number": _command(f"analyze {_ONE} --backend fit.yaml", fit_yaml=fit),
        "more clients than requests": _command(f"{loop}:100000000"),
        "more clients than memory": _command(f"{loop}:123456789012"),
        "more replicas than requests": replace(_command(f"simulate {_ONE} {_LOAD}"), last=("--replicas", "100000000")),
        "a long name of a model": Case(("analyze", long, "--hardware", "h100-sxm")),
        "a long name of a benchmark": Case(("compare", "--bench", long, "--hardware", "h100-sxm")),
        "a long name of records": Case(("validate", long)),
        "a claim of one long word": Case(("claim", long)),
        "a zone of a date by its name": _command(
            f"simulate {_ONE} --trace trace.csv",
            trace_csv="TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.680 CET,374,44\n",
        ),
    }


def _gguf() -> list[Case]:
    data = (ROOT / "docs" / "examples" / "small.gguf").read_bytes()
    lines = ("analyze small.gguf --hardware apple-m4-max", "models check small.gguf")
    return [Case(tuple(line.split()), {"small.gguf": data}) for line in lines]


_HEADER = 1800
"""Bytes of the small file's header: what is behind them is zeros."""


def _bytes(rng: random.Random, case: Case) -> Case:
    """A binary file with other bytes in its header, or cut off."""
    data = bytearray(case.files["small.gguf"])
    if rng.random() < 0.2:
        del data[rng.randrange(len(data)) :]
    for _ in range(rng.randint(0, 3)):
        if data:
            data[rng.randrange(min(_HEADER, len(data)))] = rng.randrange(256)
    return replace(case, files={"small.gguf": bytes(data)})


KINDS: dict[str, Kind] = {
    "claim": Kind(_claims, _an_argument("")),
    "speculative-config": Kind(_speculation, _an_argument("--speculative-config"), 16),
    "options": Kind(_options, _of_options, 30),
    "workload": Kind(_workloads, _an_argument("--workload")),
    "lengths": Kind(_lengths, _of_lengths),
    "gguf": Kind(_gguf, _bytes, 30),
    "config": Kind(_configs, _a_file, 32),
    "model": Kind(_models, _a_file),
    "hardware": Kind(_hardware, _a_file, 24),
    "comparison": Kind(_comparisons, _a_file, 24),
    "trace": Kind(_traces, _a_file, 18),
    "run": Kind(_runs, _a_file, 14),
    "check": Kind(_deployments, _a_file, 18),
    "traffic": Kind(_traffic, _a_file, 16),
    "sweep": Kind(_sweeps, _a_file, 16),
    "records": Kind(_records, _a_file, 18),
    "prices": Kind(_prices, _a_file, 12),
    "fit": Kind(_fits, _a_file, 16),
}
