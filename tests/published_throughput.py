"""Published offline throughputs, and what the simulator predicts of them.

`tests/golden/test_published_throughput.py` judges by it, `docs/build_published.py` writes its table into docs/accuracy.md. The
rows (`truth/serving/published.csv`) are NVIDIA's tables for TensorRT-LLM v0.9 to v1.2: all requests at once, equal lengths. No
fit has seen any of them.
"""

from __future__ import annotations

import csv
import json
import math
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import roofline
from roofline.blocks.gqa import GroupedQueryAttention
from roofline.blocks.model import Model
from roofline.errors import RooflineError
from roofline.predict.parameters import count_parameters, kv_bytes_per_token
from roofline.serving.simulation.result import Simulation

SHIPPED = {
    "llama-3.1-8b": "llama-3.1-8b", "llama-3.1-70b": "llama-3.1-70b", "llama-3.3-70b": "llama-3.1-70b",
    "mixtral-8x7b": "mixtral-8x7b", "qwen3-30b-a3b": "qwen3-30b-a3b", "gpt-oss-20b": "gpt-oss-20b", "llama-2-7b": "llama-2-7b",
    "llama-2-70b": "llama-2-70b", "deepseek-r1": "deepseek-v3",
}  # fmt: skip
"""Models of the rows that are shipped, or have the dimensions of one that is."""
CONFIGS: dict[str, tuple[str, dict[str, Any]]] = {
    "mistral-7b": ("mistral-7b-v0.3", {}),
    "falcon-180b": ("falcon-180b", {"max_position_embeddings": 4352}),
    "gpt-j-6b": ("gpt-j-6b", {"n_positions": 4352}),
    "llama-4-scout": ("llama-4-scout", {}),
    "llama-3.1-405b": ("llama-3.1-70b", {
        "hidden_size": 16384, "intermediate_size": 53248, "num_hidden_layers": 126, "num_attention_heads": 128, "head_dim": 128,
    }),
    "qwen3-235b-a22b": ("qwen3-30b-a3b", {
        "hidden_size": 4096, "intermediate_size": 12288, "moe_intermediate_size": 1536, "num_hidden_layers": 94,
        "max_window_layers": 94, "num_attention_heads": 64,
    }),
    "mixtral-8x22b": ("mixtral-8x7b", {
        "hidden_size": 6144, "intermediate_size": 16384, "num_hidden_layers": 56, "num_attention_heads": 48, "head_dim": 128,
        "max_position_embeddings": 65536,
    }),
    "gpt-oss-120b": ("gpt-oss-20b", {
        "num_hidden_layers": 36, "num_local_experts": 128, "layer_types": ["sliding_attention", "full_attention"] * 18,
    }),
    "llama-4-maverick": ("llama-4-scout", {
        "num_local_experts": 128, "interleave_moe_layer_step": 2, "use_qk_norm": False, "moe_layers": list(range(1, 48, 2)),
    }),
}  # fmt: skip
"""The others: a published config.json, with the dimensions by which the published one of the model differs from it. GPT-J and
Falcon were made for 2,048 tokens; the tables have random tokens up to 4,352 through them, which costs what it costs."""
FREE_FRACTION = 0.95
"""`kv_cache_free_gpu_mem_fraction` of the tables."""
DEFAULT_LIMITS = (2048, 8192)
"""`max_batch_size` and `max_num_tokens` of TensorRT-LLM, where `trtllm-bench` has no rule for the format (mxfp4)."""
STORED_ELEMENT = {"fp16": 2.0, "fp8": 1.0, "nvfp4": 0.5 * 9 / 16}
"""Bytes per parameter by `trtllm-bench`'s count, which is of the elements in a checkpoint: of nvfp4 two weights are one element
of 8 bits, with a scale per 16, and each is taken to have half a byte."""


@dataclass(frozen=True)
class Row:
    """A published throughput of a deployment, in output tokens/s of all its devices."""

    model: str
    gpu: str
    dtype: str
    tp: int
    pp: int
    ep: int
    dp: int
    input_len: int
    output_len: int
    requests: int
    static_batch: int | None
    measured: float
    release: str = ""
    """Of TensorRT-LLM, such as "v1.0"; "": another source."""

    @property
    def layout(self) -> str:
        """TP, PP, EP or attention-DP, as the tables name it."""
        if self.dp > 1:
            return f"DEP{self.dp}"
        sizes = [f"{name}{size}" for name, size in (("TP", self.tp), ("PP", self.pp), ("EP", self.ep)) if size > 1]
        return " ".join(sizes) or "TP1"

    @property
    def options(self) -> dict[str, Any]:
        """The options of the deployment."""
        formats: dict[str, dict[str, Any]] = {
            "fp8": {"quantization": "fp8", "kv_cache_dtype": "fp8"},
            "nvfp4": {"quantization": "nvfp4", "kv_cache_dtype": "fp8"},
            "mxfp4": {} if self.gpu.startswith("h") else {"kv_cache_dtype": "fp8"},  # of gpt-oss, whose weights are mxfp4
            "int8": {"quantization": "int8"},
        }
        sizes = {name: size for name in ("tp", "pp", "ep", "dp") if (size := getattr(self, name)) > 1}
        return {
            "engine": "trtllm",
            "backend": "trtllm",
            "kv_cache_free_gpu_mem_fraction": FREE_FRACTION,
            **formats.get(self.dtype, {}),
            **sizes,
        }


def rows(path: Path) -> list[Row]:
    """The rows with a throughput: all requests at once, or batches that begin and end together."""
    found = []
    with path.open(encoding="utf-8", newline="") as file:
        for line in csv.DictReader(file):
            kind, _, count = line["concurrency"].partition(":")
            if not line["metric"].startswith("output_throughput") or kind == "rate":
                continue
            tp, pp, ep = (int(line[name]) for name in ("tp", "pp", "ep"))
            # of v1.0 the documented options of a mixture of experts have attention-DP, whatever the column of TP says
            dp = ep if tp == 1 or "enable_attention_dp" in line["note"] else 1
            tp = 1 if dp > 1 else tp
            devices = tp * pp * dp
            found.append(
                Row(
                    line["model"],
                    line["gpu"],
                    line["dtype"],
                    tp,
                    pp,
                    ep,
                    dp,
                    int(line["isl"]),
                    int(line["osl"]),
                    int(count),
                    int(count) if kind == "batch" else None,
                    float(line["value"]) * (devices if line["metric"].endswith("per_gpu") else 1),
                    release[0] if (release := re.findall(r"trtllm (v[\d.]+)", line["note"])) else "",
                )
            )
    return found


@cache
def model(name: str, configs: Path) -> str | Model:
    """The model of a row: an id, or one that was read from its dimensions."""
    if name in SHIPPED:
        return SHIPPED[name]
    base, changes = CONFIGS[name]
    config = json.loads((configs / f"{base}.json").read_text(encoding="utf-8"))
    config.get("text_config", config).update(changes)
    return roofline.load_model(_written(name, json.dumps(config)))


def loaded(name: str, configs: Path) -> Model:
    """The model of a row, read."""
    found = model(name, configs)
    return roofline.load_model(found) if isinstance(found, str) else found


def _written(name: str, text: str) -> Path:
    import tempfile

    folder = Path(tempfile.mkdtemp(prefix="roofline-published-")) / name
    folder.mkdir()
    (folder / "config.json").write_text(text, encoding="utf-8")
    return folder


def limits(row: Row, model: Model) -> tuple[int, int]:
    """Return `max_batch_size` and `max_num_tokens` of a run: `trtllm-bench` sets them from model, memory and lengths.

    It divides the memory that parameters leave by the cache of one request, of 4,096 requests at most, and takes as many tokens
    as keep prompts and outputs in step, 2,048 at least. Releases from 1.0 on do not cut prompts, so that a step holds one
    beside the batch. Both are of one pipeline stage; attention-DP counts as TP, and they are of each rank. NB: with MLA a cache
    is of latents, as later releases count it; whether 1.2 did is not known.

    Source: TensorRT-LLM, tensorrt_llm/bench/build/tuning.py (calc_engine_setting) and bench/benchmark/utils/general.py.
    """
    sequences, tokens = DEFAULT_LIMITS
    if row.release and row.dtype in STORED_ELEMENT:
        tp, gib = row.tp * row.dp, 2**30
        mixer, element = model.mixers[0], 2 if row.dtype == "fp16" else 1
        of_layer: float = kv_bytes_per_token(model) / 2 / model.num_hidden_layers
        if isinstance(mixer, GroupedQueryAttention):  # each of TP has a head at least
            of_layer = 2 * max(tp, mixer.num_key_value_heads) * mixer.head_dim
        of_token = of_layer * model.num_hidden_layers * element / gib
        weights = count_parameters(model).total * STORED_ELEMENT[row.dtype] / gib
        memory = roofline.load_hardware(row.gpu).memory_bytes / gib * tp * row.pp
        held = FREE_FRACTION * (memory - weights) / (of_token * (row.input_len + row.output_len))
        batch = min(held, 4096) / row.pp
        new = min(batch * (1 + row.input_len / row.output_len), 32768)
        sequences = _multiple(batch, 32 if batch < 256 else 128 if batch < 1024 else 256, 64)
        tokens = _multiple(new, 256 if new < 4096 else 512 if new < 8192 else 1024, 2048)
    if row.release >= "v1":
        tokens = max(tokens, row.input_len + sequences)
    return sequences, tokens


def _multiple(value: float, of: int, least: int) -> int:
    return max(least, of * math.ceil(value / of))


def result(row: Row, configs: Path, basis: str | None = None) -> Simulation | None:
    """The simulation of a row; None of what is refused, or does not fit."""
    sequences, tokens = limits(row, loaded(row.model, configs))
    schedule: dict[str, Any] = {
        "scheduler": "no-evict", "max_num_seqs": sequences * row.pp, "max_num_batched_tokens": tokens,
    }  # fmt: skip
    if row.static_batch is not None:
        schedule = {"scheduler": "static", "max_num_seqs": row.static_batch}
    try:
        simulated = roofline.simulate(
            model(row.model, configs), row.gpu, workload=f"at-once:{row.requests}", input_len=row.input_len,
            output_len=row.output_len, basis=basis, **schedule, **row.options,
        )  # fmt: skip
    except RooflineError:
        return None
    return simulated if simulated.fits and not simulated.requests.refused else None


def predict(row: Row, configs: Path, basis: str | None = None) -> float | None:
    """Output tokens/s of a row; None of what is refused, or does not fit."""
    simulated = result(row, configs, basis)
    return None if simulated is None else simulated.throughput["output_tokens_per_s"]
