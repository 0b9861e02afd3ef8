"""Inputs that are right by their structure, at random, and one thing of some of them bent: one function a kind of input.

Most are answered, so that what is behind the readers is reached. A kind whose command takes long has most of its inputs read
alone. Options are those of the schema, so that new ones are drawn too.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from fuzz.choices import CARDS, Alternatives, Choices, Data, command, within, written
from fuzz.kinds import Case
from fuzz.measured import of_comparisons, of_profiles, of_records, of_runs, read_comparison
from fuzz.specs import of_configs, of_fits, of_ggufs, of_hardware, of_models, of_prices
from hypothesis import strategies as st

from roofline.audit.claims.statement import statement
from roofline.audit.config_check.forms import read_launch
from roofline.measure.records.read import read as read_records
from roofline.predict.drafts import read_options, resolve
from roofline.predict.options import ALL, OPTIONS, Option, of_groups
from roofline.predict.sweeps.spec import load_sweep_file
from roofline.serving.simulation.arrivals import parse_arrivals
from roofline.serving.simulation.schedulers import SCHEDULERS
from roofline.serving.study.spec import StudyFile
from roofline.serving.traffic.build import load_traffic
from roofline.serving.traffic.lengths import parse_lengths
from roofline.specs.prices import load_prices
from roofline.specs.yaml_file import read_yaml

# Traffic: traces, arrivals, lengths, classes

SERVED = "simulate gpt2 --hardware h100-sxm --mfu 0.5 --requests 8"


def _length(choices: Choices) -> str:
    """A distribution of lengths."""
    low, high = choices.whole(2, 500), choices.whole(500, 900)
    spread = choices.whole(1, 900)
    forms = (
        f"{low}", f"uniform:{low}:{high}", f"lognormal:{low}:{spread}", f"lognormal:{low}:{spread}:{high + spread}", "1k",
        f"gamma:{low}:{spread}", "uniform:1:1k",
    )  # fmt: skip
    return str(choices.one(*forms))


def _rate(choices: Choices) -> str:
    """A rate of requests."""
    number = choices.whole(1, 100)
    return str(
        choices.one(f"{number}", f"{number * 50}/min", f"{number}/s", "0.01", f"{number * 1000}/h", f"{number} requests/s")
    )


_TIME = ("1 s", "500 ms", "0.5 min", "20 us", "2 h", "1 day")


def traces(choices: Choices) -> tuple[str, bytes]:
    """Requests in the columns of ours or of public traces; the name of the file, and its content."""
    requests = choices.listed(lambda inner: (inner.whole(0, 20_000), inner.whole(1, 900), inner.whole(1, 60)), 9)
    requests = sorted(requests) if choices.upto(9) else requests
    if choices.rarely(10):
        requests = choices.bent([list(one) for one in requests])
    rows = [(*one, 1, 1, 1)[:3] for one in requests if isinstance(one, list | tuple)]
    match choices.upto(4):
        case 0:
            lines = ["TIMESTAMP,ContextTokens,GeneratedTokens"]
            lines += [f"2023-11-16 18:15:{_seconds(at)},{prompt},{answer}" for at, prompt, answer in rows]
        case 1:
            lines = ["Timestamp,Session ID,Model,Request tokens,Response tokens,Total tokens,Log Type"]
            lines += [f"{at},1,ChatGPT,{prompt},{answer},0,log" for at, prompt, answer in rows]
        case 2:
            keys = ("timestamp", "input_length", "output_length")
            listed = [{**dict(zip(keys, one, strict=True)), "hash_ids": [*range(-(-_whole(one[1]) // 512))]} for one in rows]
            return "trace.jsonl", "".join(json.dumps(one) + "\n" for one in listed).encode()
        case 3:
            lines = ["num_prefill_tokens,num_decode_tokens", *(f"{prompt},{answer}" for _, prompt, answer in rows)]
        case _:
            lines = ["arrived_at,num_prefill_tokens,num_decode_tokens,session_id"]
            lines += [f"{at},{prompt},{answer},{number % 3}" for number, (at, prompt, answer) in enumerate(rows)]
    return "trace.csv", ("\n".join(lines) + "\n").encode()


def _whole(value: Any) -> int:
    return min(value, 10**4) if isinstance(value, int) else 1


def _seconds(at: Any) -> str:
    return f"{at / 1000:06.3f}" if isinstance(at, int) and 0 <= at < 60_000 else str(at)


def of_traces(choices: Choices) -> Case:
    """A trace, looked at or served."""
    name, data = traces(choices)
    given = "" if b"arrived_at" in data or b"imestamp" in data.lower() else " --rate 5"
    extra = choices.one("", " --rate 3", " --skip-bad-rows", " --replicas 2 --router least-loaded") or given
    line = choices.either(8, f"{SERVED} --trace {name}{extra}", f"trace {name}")
    return Case(tuple(shlex.split(line)), {name: data})


def of_lengths(choices: Choices) -> Case:
    """A distribution of prompts."""
    text = _length(choices)
    files = {}
    if choices.rarely(6):
        numbers = choices.listed(within(1, 900), 9)
        if choices.rarely(4):
            numbers = choices.bent(numbers)
        text, files = "file:lengths.txt", {"lengths.txt": "".join(f"{one}\n" for one in numbers).encode()}
    elif choices.rarely(6):
        text = _misspelt(choices, text)
    return Case((*shlex.split(SERVED), "--rate", "9", "--output-len", "4", "--input-len", text), files)


def _misspelt(choices: Choices, text: str) -> str:
    """A text of which one part between colons is another, or is missing."""
    parts = text.split(":")
    at = len(parts) - 1 - choices.upto(len(parts) - 1)
    parts[at] = choices.one("", "0", "-1", "1e3", "1e99", "many", "8k", parts[at] * 3, "nan", "0.5")
    return ":".join(parts)


def workload_texts(choices: Choices) -> str:
    """Arrivals, open or closed."""
    rate, count = _rate(choices), choices.whole(1, 12)
    forms = (
        f"poisson:{rate}", f"constant:{rate}", f"gamma:{rate}:{choices.one('1', '0.5', '3')}",
        f"bursty:{rate}:{choices.one('2', '4', '1.5')}",
        f"at-once:{count}", "at-once", f"closed:{count}", f"closed:{count}:{choices.of(_TIME)}",
        f"closed:{count}:{choices.of(_TIME)}:{choices.of(_TIME)}:prompts={choices.whole(1, 5)}", f"closed:{count}:warm-up=1",
        f"closed:{count}:spread=0.8-1",
    )  # fmt: skip
    return choices.one(*forms)


def of_workloads(choices: Choices) -> Case:
    """Arrivals, served."""
    text = workload_texts(choices)
    if choices.rarely(6):
        text = _misspelt(choices, text)
    return Case((*shlex.split(SERVED), "--input-len", "40", "--output-len", "4", "--workload", text))


def traffics(choices: Choices) -> Data:
    """Classes of an open or a closed loop."""
    closed = choices.one(False, True)
    classes = []
    for number in range(1 + choices.upto(2)):
        one: Data = {
            "name": f"class {number}",
            "input_len": _length(choices),
            "output_len": choices.one("3", "uniform:1:9", "8"),
        }
        one |= {"concurrency": choices.whole(1, 9)} if closed else {"rate": _rate(choices)}
        options = {"ttft": _TIME, "tpot": _TIME, "percentile": (95, "p99", 0.9, 50), "weight": (1, 2, 0.5)}
        if closed:
            options |= {"ramp": _TIME, "turns": (1, 2)}
        else:
            options |= {"burstiness": (1, 2, 0.5), "turns": (1, 2, "uniform:1:3"), "system_prompt": within(1, 300)}
        classes.append(one | choices.some(options))
    extra = {} if closed else choices.some({"profile": ([1, 2], [1, 1, 3], "1,2,3")}, 1)
    return {"schema_version": 1, "kind": "traffic", "classes": classes, **extra}


def of_traffic(choices: Choices) -> Case:
    """Served."""
    return command(f"{SERVED} --workload traffic.yaml", traffic_yaml=written(choices.sometimes_bent(traffics(choices))))


# Deployments, prices, fits, sweeps, studies


def of_deployments(choices: Choices) -> Case:
    """A deployment in the form of ours, of Compose, of Kubernetes or of vLLM's own file, judged."""
    model = choices.one("openai-community/gpt2", "meta-llama/Llama-3.2-1B")
    options = choices.some({
            "tensor-parallel-size": (1, 2), "max-model-len": within(200, 1024), "max-num-seqs": within(1, 512),
            "max-num-batched-tokens": within(64, 16_384), "gpu-memory-utilization": (0.9, 0.5, 0.95),
            "kv-cache-dtype": ("auto", "fp8"), "dtype": ("auto", "bfloat16", "float16"), "block-size": (16, 32),
        }, 4)  # fmt: skip
    flags = " ".join(f"--{name} {value}" for name, value in options.items())
    serve = f"vllm serve {model} {flags}"
    replicas = choices.whole(1, 4)
    content: Data
    match choices.upto(4):
        case 0:
            spelled = {name.replace("-", "_"): value for name, value in options.items() if value != "auto"}
            content = {"kind": "deployment", "model": model, "hardware": "h100-sxm", "replicas": replicas, "options": spelled}
        case 1:
            content = {"kind": "deployment", "hardware": choices.one(*CARDS), "replicas": replicas, "command": serve}
        case 2:
            image = {"image": "vllm/vllm-openai:v0.10.0", "command": serve, "deploy": {"replicas": replicas}}
            content = {"services": {"web": {"image": "nginx"}, "engine": image}}
        case 3:
            container = {"name": "engine", "image": "vllm/vllm-openai:v0.10.0", "args": ["--model", model, *flags.split()]}
            spec = {"replicas": replicas, "template": {"spec": {"containers": [container]}}}
            content = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "x"}, "spec": spec}
        case _:
            content = {"model": model, **options}
    line = (
        "plan --check deployment.yaml --rate 2 --input-len 50 --output-len 20 --ttft '2 s' --tpot '50 ms' --hardware h100-sxm "
        f"--mfu 0.5{'' if 'replicas' in json.dumps(content) else ' --replicas 2'}"
    )
    return command(line, deployment_yaml=written(choices.sometimes_bent(content)))


def of_sweeps(choices: Choices) -> Case:
    """A grid of a few points."""
    grid: Data = {
        "model": choices.one("gpt2", "llama-3.2-1b", ["gpt2", "llama-3.2-1b"]),
        "hardware": choices.one("h100-sxm", ["h100-sxm", "l40s"]),
        **choices.some({
            "batch": ("1:8:x2", [1, 7], 4, "1,2"), "context": ([1, 100], "1k", "1:9:4"), "tp": (1, [1, 2]),
            "phase": ("decode", "prefill", ["prefill", "decode"]), "kv_cache_dtype": ("bf16", ["bf16", "fp8"]),
            "input_len": (1, [1, 2, 300]), "bandwidth": ("300 GB/s", ["300 GB/s", "3 TB/s"]), "pp": (1, [1, 2]),
            "mfu": (0.5, [0.1, 1]), "memory": ("1 GiB", "80 GB"), "quantization": ("fp8", ["fp8", "none"]),
        }, 3),
    }  # fmt: skip
    content: Data = {"schema_version": 1, "kind": "sweep", "grid": grid}
    content |= choices.some({
        "columns": (["time_bound_s", "fits"], ["tokens_per_s", "time_estimate_s"], ["memory_bytes", "bound_by"]),
        "reduce": ("best", "pareto", "histogram"), "ignore_capacity": (False, True), "part_rows": (1, 5, 1000),
    }, 2)  # fmt: skip
    if "reduce" in content:
        content |= choices.some({"by": (["hardware"], ["model"])}, 1)
    return command("sweep sweep.yaml", sweep_yaml=written(choices.sometimes_bent(content)))


def of_studies(choices: Choices) -> Case:
    """One or two policies with a few requests."""
    options: Data = {
        "model": "gpt2", "hardware": "h100-sxm", "input_len": _length(choices), "output_len": choices.one("3", "uniform:1:6"),
        "requests": choices.whole(1, 6), "mfu": 0.5,
        **choices.some({"ttft": _TIME, "tpot": _TIME, "max_num_seqs": (1, 4, 256)}, 2),
    }  # fmt: skip
    names = ("vllm-v1", "vllm-v0", "sarathi", "orca", "static", "sjf", "sglang", "no-evict")
    policies: Any = choices.several(names, 1, 1)
    if choices.one(False, True):
        extra = {"max_num_batched_tokens": (64, 2048), "replicas": (1, 2), "preemption": ("recompute", "swap")}
        policies = {f"policy {number}": {"scheduler": name, **choices.some(extra, 1)} for number, name in enumerate(policies)}
    content: Data = {
        "schema_version": 1,
        "kind": "study",
        "options": options,
        "policies": policies,
        "rates": choices.listed(_rate, 2),
    }
    content |= choices.some({"seeds": (1, [3], 2), "deployments": ({"one": {"tp": 1}}, {"two": {"tp": 2}})}, 1)
    return command("study study.yaml -o runs", study_yaml=written(_short(choices.sometimes_bent(content))))


def _short(study: Data) -> Data:
    """The same study with at most 20 seeds and requests, of which more take long by right; more seeds than are allowed stay."""
    for section, name, most in ((study, "seeds", 100_000), (study.get("options"), "requests", float("inf"))):
        if isinstance(section, dict):
            number = {"8k": 8192}.get(str(section.get(name)), section.get(name))
            if isinstance(number, int | float) and 20 < number <= most:
                section[name] = 20
    return study


# Options, claims, speculation

_VALUES: dict[str, Alternatives] = {
    "batch": within(1, 300), "input_len": within(1, 8000), "context": within(0, 20_000), "output_len": within(1, 300),
    "images": (0,), "cached_prefix": within(0, 16), "segments": ("4x1@100", "4x1@100,1x64@0", "1x9@0", "2x5@7"),
    "dtype": ("bf16", "fp16", "fp8", "fp32"), "activation_dtype": ("bf16", "fp16"), "kv_cache_dtype": ("bf16", "fp8"),
    "mamba_ssm_cache_dtype": ("fp32", "bf16"), "dispatch_dtype": ("bf16", "fp8"), "combine_dtype": ("bf16",),
    "quantization": ("none", "fp8", "awq", "gptq", "int8", "mxfp4", "nf4"), "bits_per_weight": (4.85, 8, 1.5),
    "tensor_parallel_size": (1, 2, 4), "pipeline_parallel_size": (1, 2, 4), "data_parallel_size": (1, 2, 8),
    "expert_parallel_size": (1, 2), "moe_tp": (1,), "num_redundant_experts": (0,), "context_parallel_size": (1, 2),
    "decode_context_parallel_size": (1,), "expert_imbalance": (1, 1.5), "engine": ("vllm", "sglang", "trtllm", "vllm@0.10"),
    "backend": ("vllm", "sglang", "trtllm"), "max_model_len": within(20_000, 10**6), "max_num_seqs": within(300, 1000),
    "max_num_batched_tokens": within(300, 20_000), "gpu_memory_utilization": (0.9, 0.5, 1), "reserve": ("1 GiB", "100 MB"),
    "mem_fraction_static": (0.8,), "kv_cache_free_gpu_memory_fraction": (0.8,), "block_size": (16, 1, 32, 64),
    "peak_flops": ("312 TFLOP/s", "1 PFLOP/s", "20 TFLOP/s"), "bandwidth": ("3 TB/s", "300 GB/s", "20 TB/s"),
    "memory": ("80 GiB", "8 GB", "1 TB"), "link_bandwidth": ("16 GB/s", "1 TB/s"), "allreduce_bandwidth": ("100 GB/s",),
    "mfu": (0.5, 1, 0.01), "mbu": (0.8, 1, 0.05), "shared_prefix": within(0, 16), "speculative_model": ("gpt2",),
    "speculative_method": ("ngram",), "num_speculative_tokens": within(1, 8), "acceptance": (0.7, 0, 1),
    "routing_skew": (0, 0.5, 1.2), "prefix_hit": (0, 0.3, 0.99),
}  # fmt: skip
_LEFT_OUT = ("assume", "speculative_config", "speculative_draft_tensor_parallel_size", "speculative_model", "ignore_capacity")


def _value(option: Option) -> Alternatives:
    if option.name in _VALUES:
        return _VALUES[option.name]
    return option.choices or (True,)


@cache
def _predicted() -> dict[str, Alternatives]:
    """Values of the options of `analyze`: a new one needs an entry in `_VALUES`, unless it is a choice or a flag."""
    listed = [option for option in of_groups(ALL) if option.name not in _LEFT_OUT]
    unknown = [one.name for one in listed if one.name not in _VALUES and not one.choices and one.kind != "flag"]
    assert not unknown, f"no values are drawn for {unknown}"
    return {option.name: _value(option) for option in listed}


def flags(choices: Choices, options: Data) -> tuple[str, ...]:
    """Options as they are written, one in eight times one of them with another value."""
    line: list[str] = []
    for name, value in options.items():
        given = choices.one(*OPTIONS[name].flags) if name in OPTIONS else f"--{name.replace('_', '-')}"
        line += [given] if value is True else [given, str(value)]
    if line and choices.rarely(8):
        at = choices.upto(len(line) - 1)
        line[at] = choices.one("0", "1", "-1", "many", "1e9", "0.5", "", "3 TB/s", line[at] * 2, str(2**53))
    return tuple(line)


def of_options(choices: Choices) -> Case:
    """Options of a prediction, for several commands."""
    model = choices.one("gpt2", "llama-3.2-1b", "mixtral-8x7b", "deepseek-v2-lite", "gpt-oss-20b")
    options = choices.some(_predicted(), 4)
    if choices.rarely(10):
        return Case(
            ("explain", model, "--hardware", "h100-sxm", choices.one("tpot", "ttft", "max_batch"), *flags(choices, options))
        )
    return Case(("analyze", model, "--hardware", "dgx-h100", "--ignore-capacity", *flags(choices, options)))


def _prepared(case: Case) -> None:
    """Resolve the options as the command does, before it predicts anything."""
    named = {flag: option.name for option in OPTIONS.values() for flag in option.flags}
    options: Data = {}
    words = iter(case.arguments[2:])
    for word in words:
        if word in named and word != "--ignore-capacity":
            options[named[word]] = True if OPTIONS[named[word]].kind == "flag" else next(words, "")
    resolve(case.arguments[1], "dgx-h100", **options)


_SERVING: dict[str, Alternatives] = {
    "scheduler": tuple(SCHEDULERS),
    "router": ("round-robin", "least-loaded", "least-tokens", "power-of-two", "prefix-aware", "session-sticky"),
    "replicas": (1, 2, 3), "preemption": ("recompute", "swap", "cheaper"), "num_gpu_blocks_override": within(60, 2000),
    "preemption_candidate": ("last-admitted", "last-arrived", "fewest-output-tokens", "cheapest"),
    "admission": ("all", "queue:2"),
    "basis": ("bound",), "seed": within(0, 99), "until": _TIME, "ttft": _TIME, "tpot": _TIME, "prefix_hit": (0, 0.5),
    "system_prompt": within(1, 100), "turns": (1, 2, "uniform:1:3"), "think": ("1 s", "exponential:1 s"),
    "autoscale": ("max=3", "min=1,max=2,target=5,start-up=1 s"), "failures": ("mtbf=6 h,repair=5 min", "at=1 s:replica=0"),
    "lora_adapters": ("4", "8:zipf:1"), "max_loras": (2, 8), "disaggregated": (True,), "kv_offload": ("20 GB",),
    "host_link": ("25 GB/s",), "first_token": ("prefill", "transfer", "decode"), "transfer_latency": _TIME,
    "max_num_seqs": within(1, 64), "max_num_batched_tokens": within(64, 4096), "kv_cache_dtype": ("fp8",), "burstiness": (1, 2),
    "profile": ("1,2,3",), "warm_up": (0, 0.1), "max_wait": _TIME, "length_error": (0.5,), "enable_prefix_caching": (True,),
    "tensor_parallel_size": (1, 2), "pipeline_parallel_size": (1, 2),
}  # fmt: skip


def of_serving(choices: Choices) -> Case:
    """Options of a simulated server."""
    options = choices.some(_SERVING, 3)
    line = tuple(shlex.split(f"{SERVED} --rate 9 --input-len 40 --output-len 5"))
    return Case((*line, *flags(choices, options)))


def of_claims(choices: Choices) -> Case:
    """A sentence about a model on a card."""
    model = choices.one("GPT-2", "Llama 3.2 1B", "Mixtral 8x7B", "llama-3.1-8b", "Qwen3 32B")
    card = choices.one(
        "H100 SXM", "A100 SXM 80GB", "8x H100-SXM", "an L40S", "MI300X", "2 H200 SXM", "RTX 4090", "dgx-h100 tp8"
    )
    number = choices.whole(1, 10**5)
    said = choices.one(
        f"{number} tok/s at batch {choices.whole(1, 300)}", f"{number} tokens per second", f"TTFT {number} ms for a 4k prompt",
        f"ITL {number} ms, batch {choices.whole(1, 99)}", f"{number} TPS per user, fp8",
        f"fits at context {choices.one('8k', '128k')}",
        f"TPOT {number} us", f"throughput {number} tok/s, ISL=1024, OSL=128",
    )  # fmt: skip
    text = choices.one(f"{model} on {card}: {said}", f"{said} with {model} on {card}", f"{model}, {card}, {said}")
    if choices.rarely(8):
        words = text.split(" ")
        del words[choices.upto(len(words) - 1)]
        text = " ".join(words)
    return Case(("claim", text))


def of_speculation(choices: Choices) -> Case:
    """A configuration of speculative decoding in vLLM's format."""
    config: Data = {"num_speculative_tokens": choices.whole(1, 9)}
    config |= choices.one(
        {"method": "ngram", "prompt_lookup_max": 4},
        {"model": "llama-3.2-1b"},
        {"method": "draft_model", "model": "llama-3.2-1b"},
    )
    config |= choices.some({"draft_tensor_parallel_size": (1,), "prompt_lookup_min": (1, 2)}, 1)
    line = "analyze llama-3.2-1b --hardware h100-sxm --phase decode --mfu 0.5"
    options = ("--acceptance", str(choices.one(0.7, 0, 1, 0.001)), "--batch", str(choices.whole(1, 64)))
    return Case((*line.split(), *options, "--speculative-config", json.dumps(choices.sometimes_bent(config))))


def _speculating(case: Case) -> None:
    read_options({"speculative_config": case.arguments[-1], "acceptance": 0.5})


@dataclass(frozen=True)
class Valid:
    """Inputs of a kind. Of one in `every` the command runs; the others are read by `light`, as the command reads them."""

    make: Callable[[Choices], Case]
    light: Callable[[Case], object] | None = None
    every: int = 1

    def strategy(self) -> st.SearchStrategy[tuple[Case, int]]:
        """The inputs, for Hypothesis, each with a number from 0 to 59 that decides what is looked at."""
        tapes = st.binary(min_size=_TAPE, max_size=_TAPE)
        return tapes.map(lambda tape: (self.make(Choices(tape[:-1])), tape[-1] % 60))


_TAPE = 200


VALID: dict[str, Valid] = {
    "model": Valid(of_models),
    "hardware": Valid(of_hardware),
    "config": Valid(of_configs),
    "gguf": Valid(of_ggufs),
    "profile": Valid(of_profiles),
    "trace": Valid(of_traces),
    "lengths": Valid(of_lengths, lambda case: parse_lengths(case.arguments[-1]), 10),
    "workload": Valid(of_workloads, lambda case: parse_arrivals(case.arguments[-1]), 10),
    "traffic": Valid(of_traffic, lambda case: load_traffic("traffic.yaml"), 10),
    "records": Valid(of_records, lambda case: read_records(["here"]), 60),
    "comparison": Valid(of_comparisons, read_comparison, 15),
    "run": Valid(of_runs),
    "check": Valid(of_deployments, lambda case: read_launch(Path("deployment.yaml")), 15),
    "prices": Valid(of_prices, lambda case: load_prices("prices.yaml"), 3),
    "fit": Valid(of_fits),
    "sweep": Valid(of_sweeps, lambda case: load_sweep_file(Path("sweep.yaml")), 20),
    "study": Valid(of_studies, lambda case: read_yaml(Path("study.yaml")).validate(StudyFile), 12),
    "options": Valid(of_options, _prepared, 8),
    "serving": Valid(of_serving, lambda case: None, 3),
    "claim": Valid(of_claims, lambda case: statement(case.arguments[-1], None, None, {}), 30),
    "speculation": Valid(of_speculation, _speculating, 15),
}
