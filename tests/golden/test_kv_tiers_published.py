"""KV cache tiers against what CachedAttention's authors measured and claim.

Source: Gao et al. 2024, arXiv:2403.19708, section 3.2 (v1): LLaMA-65B on four A100, prefilling 2K tokens takes about 360 ms,
and loading their KV cache (5 GB) from host memory about 192 ms at 26 GB/s; abstract (v3): conversations whose caches are kept
in host memory and on disks have their time to first token lowered by up to 87 %.
"""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

import roofline
from roofline.predict.request import prepare
from roofline.serving.preemption.costs import replica_bytes
from roofline.serving.simulation.result import Simulation

HARDWARE = {"hardware": "dgx-a100", "tensor_parallel_size": 4}
LINK = 26e9
LLAMA_65B = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 8192, "num_hidden_layers": 80,
    "num_attention_heads": 64, "num_key_value_heads": 64, "intermediate_size": 22016, "vocab_size": 32000,
    "max_position_embeddings": 8192, "rms_norm_eps": 1e-05, "hidden_act": "silu", "tie_word_embeddings": False,
    "torch_dtype": "float16", "rope_theta": 10000.0,
}  # fmt: skip
"""Touvron et al. 2023, arXiv:2302.13971, table 2; the paper extends its context."""


@pytest.fixture
def model(tmp_path: Path) -> str:
    """LLaMA-65B's config.json."""
    path = tmp_path / "config.json"
    path.write_text(json.dumps(LLAMA_65B))
    return str(path)


@pytest.fixture
def tiers(tmp_path: Path) -> str:
    """The paper's: 128 GB of host memory behind 26 GB/s, and disks of 10 TB behind 5 GB/s."""
    path = tmp_path / "tiers.yaml"
    path.write_text(
        "tiers:\n  - {name: host, capacity: 128 GB, read: 26 GB/s}\n  - {name: disk, capacity: 10 TB, read: 5 GB/s}\n"
    )
    return str(path)


def test_loading_and_computing_2k_tokens(model: str) -> None:
    """The bytes are 2 x 80 layers x 2,048 tokens x 8,192 x 2 B = 5.37 GB, where the paper rounds to 5; so is its 192 ms."""
    size = replica_bytes(prepare(model, **HARDWARE), 2048)
    assert size == 2 * 80 * 2048 * 8192 * 2
    assert size / LINK == pytest.approx(0.192, rel=0.1)
    result = roofline.analyze(model, **HARDWARE, input_len=2048, phase="prefill").to_dict()
    assert result["phases"][0]["time_s"]["estimate"] == pytest.approx(0.360, rel=0.1)


def _simulated(model: str, turns: int, **options: object) -> Simulation:
    """Conversations at a low load, so far apart that the device has other blocks when the next turn comes."""
    return roofline.simulate(
        model, **HARDWARE, rate=0.1, turns=turns, think="600 s", input_len=100, output_len=200, max_num_seqs=24, requests=1000,
        num_gpu_blocks_override=1000, **options,
    )  # fmt: skip


def _gain(model: str, turns: int, tiers: Path) -> float:
    """By how much the mean time to first token falls against computing all that was said again."""
    tiers.write_text("tiers:\n  - {name: host, capacity: 2 TB, read: 26 GB/s}\n")
    computed, loaded = _simulated(model, turns, enable_prefix_caching=False), _simulated(model, turns, kv_offload=tiers)
    assert loaded.kv_offload is not None
    assert loaded.kv_offload["prompt_tokens"]["host"] > 0.8
    return 1 - (loaded.ttft_s.mean or math.inf) / (computed.ttft_s.mean or 0)


def test_conversations_gain_up_to_the_claim(model: str, tmp_path: Path) -> None:
    """Host memory that holds all.

    Llama 2 70B, whose caches are an eighth (8 heads of 64): the gain grows with the turns and is
    near the largest that is claimed at 3,900 tokens. LLaMA-65B: at most what its own figures leave, 1 - 192/360, since a prompt
    goes on here when all of its blocks are there; the paper loads layer by layer meanwhile, and claims more.
    """
    of_70b = [_gain("llama-2-70b", turns, tmp_path / "tiers.yaml") for turns in (5, 13)]
    assert of_70b[0] < of_70b[1]
    assert 0.75 < of_70b[1] <= 0.87
    assert 0.35 < _gain(model, 13, tmp_path / "tiers.yaml") < 1 - 192 / 360


def test_disks_alone_are_slower_than_computing(model: str, tiers: str) -> None:
    """The paper's 128 GB hold 48,828 tokens of LLaMA-65B, fewer than the conversations have; disks take 1.07 s for 2K tokens.

    So nothing is loaded from it: what makes disks useful in the paper is that they are read ahead, into host memory, for turns
    that are known to come. That is not simulated.
    """
    result = _simulated(model, 10, kv_offload=tiers)
    assert result.kv_offload is not None
    host, disk = result.kv_offload["tiers"]
    assert host["capacity_tokens"] == int(128e9 // (16 * 2 * 80 * 8192 * 2)) * 16
    assert disk["stored_tokens"] > host["capacity_tokens"]
    assert disk["hit_rate"] == pytest.approx(0, abs=1e-3)
    assert result.kv_offload["declined_tokens"] > host["capacity_tokens"]
