"""Deployments at random, seeded, each with a few workloads: all options that `analyze`, `compile` and `sweep` share."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from roofline.predict.compiled import PHASES
from roofline.predict.options import OPTIONS
from roofline.predict.request import cached_prefix
from roofline.specs.library import ids, load_hardware

SEED = 20261128

SHARED_OPTIONS: dict[str, tuple[float, tuple[Any, ...]]] = {
    "dtype": (0.15, ("bf16", "fp16", "fp8", "int4", "fp32")),
    "activation_dtype": (0.05, ("bf16", "fp16", "fp8", "fp32")),
    "kv_cache_dtype": (0.2, ("fp8", "bf16", "int8", "fp16")),
    "mamba_ssm_cache_dtype": (0.05, ("fp32", "bf16")),
    "dispatch_dtype": (0.1, ("fp8", "bf16")),
    "combine_dtype": (0.1, ("fp8", "bf16")),
    "quantization": (0.2, ("awq", "gptq", "nvfp4", "mxfp4", "fp8", "fp8_block", "none")),
    "bits_per_weight": (0.03, (4.85, 8.5)),
    "deepep_mode": (0.1, ("auto", "normal", "low_latency")),
    "expert_imbalance": (0.1, (1.3, 50.0)),
    "engine": (0.25, ("vllm", "sglang", "trtllm", "llama.cpp")),
    "backend": (0.15, ("vllm", "sglang", "trtllm")),
    "max_model_len": (0.05, (140_000, 300_000)),
    "max_num_seqs": (0.1, (256, 1024)),
    "max_num_batched_tokens": (0.1, (512, 2048, 8192)),
    "gpu_memory_utilization": (0.06, (0.8, 0.95)),
    "mem_fraction_static": (0.04, (0.8,)),
    "kv_cache_free_gpu_memory_fraction": (0.04, (0.85,)),
    "reserve": (0.08, ("2 GiB", "500 MB")),
    "block_size": (0.1, (1, 16, 64)),
    "peak_flops": (0.06, ("100 TFLOP/s", "5 PFLOP/s")),
    "bandwidth": (0.08, ("300 GB/s", "6 TB/s")),
    "memory": (0.08, ("24 GB", "1 TB")),
    "link_bandwidth": (0.06, ("20 GB/s", "900 GB/s")),
    "allreduce_bandwidth": (0.06, ("20 GB/s", "300 GB/s")),
    "mfu": (0.05, (0.4, 1.0)),
    "mbu": (0.05, (0.7, 1.0)),
    "mask": (0.08, ("causal", "full")),
    "attention": (0.1, ("fused", "eager")),
    "logits": (0.08, ("last", "all")),
    "mla": (0.1, ("auto", "expand", "absorb")),
    "routing_skew": (0.1, (0.5, 1.0)),
    "shared_prefix": (0.08, (0, 1, 100, 1000)),
}
"""Options by name: in which share of the deployments they are given, and their values."""
LAYOUTS: tuple[dict[str, Any], ...] = (
    {"tp": 2}, {"tp": 8}, {"tp": 4, "sequence_parallel": True}, {"pp": 2}, {"tp": 2, "pp": 4}, {"tp": 2, "pp": 3}, {"dp": 2},
    {"cp": 2}, {"tp": 2, "cp": 3}, {"tp": 8, "dcp": 2}, {"tp": 4, "dcp": 4}, {"ep": 8, "dp": 8}, {"tp": 2, "dp": 2, "ep": 4},
    {"tp": 8, "ep": 8}, {"tp": 2, "dp": 4, "ep": 8, "num_redundant_experts": 8}, {"tp": 4, "ep": 2, "moe_tp": 2},
    {"dp": 16, "ep": 16}, {"dp": 4, "ep": 4, "microbatch_overlap": True}, {"tp": 8, "dp": 4, "ep": 32},
    {"tp": 2, "dp": 2, "ep": 4, "sequence_parallel": True}, {"tp": 16}, {"tp": 4, "pp": 2, "dp": 2}, {"tp": 4, "moe_tp": 1},
    {"dp": 8, "ep": 8, "num_redundant_experts": 16, "microbatch_overlap": True},
)  # fmt: skip
"""Sizes that go together; half of the deployments have one, some of them changed."""
SIZES: dict[str, tuple[Any, ...]] = {
    "tp": (1, 2, 3, 4, 8), "pp": (1, 2, 3), "dp": (1, 2, 4), "ep": (1, 2, 4, 8), "cp": (1, 2), "dcp": (1, 2),
    "moe_tp": (1, 2), "num_redundant_experts": (0, 8, 16), "sequence_parallel": (True,), "microbatch_overlap": (True,),
}  # fmt: skip
BATCHES = (1, 1, 2, 3, 7, 32, 33, 128, 500, 1000)
LENGTHS = (1, 1, 2, 17, 100, 1024, 1025, 5000, 32_768, 131_071)


@dataclass(frozen=True)
class RandomDeployment:
    """A model on hardware, the options of its deployment by name, and workloads that are given to it."""

    model: str
    hardware: str
    options: dict[str, Any]
    phase: str
    prefix: dict[str, Any]
    """What of each prompt is cached."""
    workloads: tuple[dict[str, Any], ...]
    ignore_capacity: bool

    @property
    def phases(self) -> tuple[str, ...]:
        """The phases by name."""
        return PHASES if self.phase == "both" else (self.phase,)

    def only(self, workload: dict[str, Any]) -> RandomDeployment:
        """With one of its workloads alone."""
        return replace(self, workloads=(workload,))

    def arguments(self, workload: dict[str, Any]) -> dict[str, Any]:
        """The keyword arguments of `analyze` at a workload."""
        return {**self.options, **self.prefix, **workload, "phase": self.phase, "ignore_capacity": self.ignore_capacity}

    def arrays(self, phase: str) -> dict[str, Any]:
        """The workloads as arguments of the compiled function."""
        batch, prompts = ([workload[name] for workload in self.workloads] for name in ("batch", "input_len"))
        if phase == "decode":
            return {"batch": batch, "context": [workload.get("context", workload["input_len"]) for workload in self.workloads]}
        if not self.prefix:
            return {"batch": batch, "input_len": prompts}
        cached = [cached_prefix(length, **self.prefix) for length in prompts]
        return {"batch": batch, "input_len": [one - past for one, past in zip(prompts, cached, strict=True)], "context": cached}

    def grid(self) -> dict[str, Any]:
        """The axes of a sweep that has the workloads among its points."""
        axes = {name: sorted({workload[name] for workload in self.workloads}) for name in self.workloads[0]}
        return {"model": self.model, "hardware": self.hardware, "phase": self.phase, **self.options, **self.prefix, **axes}

    def row(self, frame: Any, phase: str, workload: dict[str, Any]) -> dict[str, Any]:
        """The row of a sweep's frame that is of a workload."""
        name = "input_len" if phase == "prefill" else "context"
        length = workload.get(name, workload["input_len"])
        (row,) = frame[(frame["phase"] == phase) & (frame["batch"] == workload["batch"]) & (frame[name] == length)].to_dict(
            "records"
        )
        return dict(row)

    def of_page(self) -> RandomDeployment:
        """With options as the controls of a page give them: quantities in base units, and the engine that it knows."""
        options = {name: value for name, value in self.options.items() if name != "engine"}
        quantities = {name: OPTIONS[name].read(options[name]) for name in options if name in OPTIONS and OPTIONS[name].unit}
        return replace(self, options={**options, **quantities})

    def served(self) -> dict[str, Any]:
        """The options of the deployment for a server that takes a whole prompt, and one sequence a rank, at a time."""
        length = self.workloads[0]["input_len"]
        return {**self.options, "max_num_seqs": 1, "max_model_len": length + 2, "max_num_batched_tokens": length}


def random_deployment(chance: random.Random, workloads: int) -> RandomDeployment:
    """One at random, with a number of workloads; about half of them cannot be, and are refused."""
    options = {name: chance.choice(values) for name, (share, values) in SHARED_OPTIONS.items() if chance.random() < share}
    layout: dict[str, Any] = {}
    if chance.random() < 0.5:
        layout = dict(chance.choice(LAYOUTS))
        while chance.random() < 0.25:
            name = chance.choice(list(SIZES))
            layout[name] = chance.choice(SIZES[name])
    phase = chance.choice((*PHASES, "both"))
    prefix: dict[str, Any] = {}
    if phase == "prefill" and chance.random() < 0.3:
        prefix = chance.choice(({"prefix_hit": 0.3}, {"prefix_hit": 0.95}, {"cached_prefix": 1}, {"cached_prefix": 16}))
    with_context = phase != "prefill" and chance.random() < 0.6
    return RandomDeployment(
        chance.choice(_names("models")),
        chance.choice(_nodes() if layout and chance.random() < 0.7 else _names("hardware")),
        {**layout, **options},
        phase,
        prefix,
        tuple(_workload(chance, with_context=with_context) for _ in range(workloads)),
        chance.random() < 0.8,
    )


def _workload(chance: random.Random, *, with_context: bool) -> dict[str, Any]:
    values: dict[str, Any] = {"batch": chance.choice(BATCHES), "input_len": chance.choice(LENGTHS)}
    return {**values, "context": chance.choice((0, *LENGTHS))} if with_context else values


@cache
def _names(kind: str) -> list[str]:
    return sorted(ids(kind))


@cache
def _nodes() -> list[str]:
    return [name for name in _names("hardware") if load_hardware(name)[0].node is not None]
