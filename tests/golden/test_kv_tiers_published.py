"""KV cache tiers against what the authors of CachedAttention and of Mooncake measured and claim.

CachedAttention: Gao et al. 2024, arXiv:2403.19708, section 3.2 (v1): LLaMA-65B on four A100, prefilling 2K tokens takes about
360 ms, and loading their KV cache (5 GB) from host memory about 192 ms at 26 GB/s; abstract (v3): conversations whose caches
are kept in host memory and on disks have their time to first token lowered by up to 87 %.

Mooncake: Qin et al. 2024, arXiv:2407.00079 (v3), section 4.2 and table 1: an hour of requests of 7,590 prompt and 182 output
tokens on average, in blocks of 512. Of one pool for all, 1,000 blocks with LRU have 30 % of the blocks that are wanted, 50,000
have 50 %, and more of them hardly more. The trace itself is not at hand: `mooncake` makes one with its averages.
"""

from __future__ import annotations

import heapq
import json
import math
import random
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
    tiers.write_text("tiers:\n  - {name: host, capacity: 2 TB, read: 26 GB/s}\n", encoding="utf-8")
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


PER_BLOCK = 512 * 2 * 16 * 8 * 64 * 2
"""Bytes of 512 tokens of Llama 3.2 1B: keys and values of 16 layers of 8 heads of 64, in two bytes."""
REQUESTS = 8000


def mooncake(path: Path) -> tuple[float, float]:
    """Write a trace of conversations in Mooncake's format; returns the mean prompt, and the share of blocks that came before.

    Inputs, of the paper: prompts of 7,590 and outputs of 182 tokens on average, 23,608 requests per hour, half of the blocks
    seen before. Inputs that it does not give: 4 blocks begin every prompt (the paper has such blocks, and not their number), a
    conversation has 1.75 turns on average, and 5 minutes between them, both without memory.
    """
    chance = random.Random(1)  # noqa: S311 - no secret
    num_blocks = 4
    waiting: list[tuple[float, int, list[int]]] = []
    requests: list[tuple[float, int, list[int]]] = []
    clock = 0.0
    while len(requests) < REQUESTS:
        clock += chance.expovariate(23608 / 3600 / 1.75)
        heapq.heappush(waiting, (clock, num_blocks, list(range(4))))
        num_blocks += 1
        while waiting[0][0] <= clock:
            at, _, past = heapq.heappop(waiting)
            num_new = max(math.ceil(chance.lognormvariate(math.log(3700) - 0.5, 1) / 512), 1)
            blocks = [*past, *range(num_blocks, num_blocks + num_new)]
            num_blocks += num_new
            requests.append((at, 512 * len(blocks) - chance.randrange(512), blocks))
            if chance.random() < 1 - 1 / 1.75 and len(blocks) < 200:
                heapq.heappush(waiting, (at + chance.expovariate(1 / 300), num_blocks, blocks))
                num_blocks += 1
            if not waiting:
                break
    names = ("timestamp", "input_length", "output_length", "hash_ids")
    rows = [(int(1e3 * at), length, 182, blocks) for at, length, blocks in requests[:REQUESTS]]
    path.write_text("".join(json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in rows), encoding="utf-8")
    every = [block for _, _, _, blocks in rows for block in blocks]
    return sum(row[1] for row in rows) / REQUESTS, 1 - len(set(every)) / len(every)


@pytest.mark.slow
def test_hit_rate_by_capacity_as_mooncake_has_it(tmp_path: Path) -> None:
    """Outputs: how the hit rate grows with the pool, where it stops, and what that is worth to the first token.

    A pool of host memory, behind a device that holds the running requests and little more. That 1,000 blocks have 30 % is
    nearly an input: it is the 4 blocks of 15 that all share. That it takes tens of thousands to have the rest is not.
    """
    trace, tiers = tmp_path / "trace.jsonl", tmp_path / "tiers.yaml"
    mean, seen_before = mooncake(trace)
    assert mean == pytest.approx(7590, rel=0.03)
    assert seen_before == pytest.approx(0.5, abs=0.03)

    def served(blocks: int) -> tuple[float, float]:
        offload = {}
        if blocks:
            tiers.write_text(f"tiers:\n  - {{name: host, capacity: {blocks * PER_BLOCK} B, read: 50 GB/s}}\n")
            offload = {"kv_offload": tiers}
        result = roofline.simulate(
            "llama-3.2-1b", "h100-sxm", trace=trace, block_size=512, num_gpu_blocks_override=260, max_num_seqs=64,
            enable_prefix_caching=True, **offload,
        )  # fmt: skip
        share = 0.0 if result.kv_offload is None else 1 - result.kv_offload["prompt_tokens"]["computed"]
        return share, result.ttft_s.mean or math.inf

    hit, ttft = zip(*(served(blocks) for blocks in (0, 1000, 10_000, 50_000, 200_000)), strict=True)
    assert hit[1] == pytest.approx(0.30, abs=0.05)
    assert hit[1] + 0.05 < hit[2] < hit[3] - 0.05  # between them
    assert hit[3] == pytest.approx(0.50, abs=0.03)
    assert hit[4] - hit[3] < 0.02
    assert ttft[3] < ttft[2] < ttft[1]
    assert ttft[3] < 0.8 * ttft[0]  # against the device's memory alone
