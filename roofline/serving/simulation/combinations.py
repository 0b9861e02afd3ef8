"""Options of `simulate` that are not simulated together: what happens where they meet is not modelled."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, get_args

from roofline.errors import InputError

Mechanism = Literal[
    "pools", "autoscale", "failures", "kv_offload", "swap", "speculation", "draft", "gate", "queue_limit", "slo", "max_wait",
    "fair", "ordered", "lora",
]  # fmt: skip
"""What changes how requests are served: replicas of several kinds; replicas that come and go, or fail; KV cache tiers, copies
of preempted caches; drafted tokens, drafts with a KV cache of their own; requests that are shed before the replicas, by the
length of a queue, or by their objective; requests that go first because they waited; a scheduler that counts what classes are
served, one with another order than that of arrival; requests with LoRA adapters."""
MECHANISMS: tuple[Mechanism, ...] = get_args(Mechanism)

_OF_POOLS: dict[Mechanism, str] = {
    "autoscale": "which pool gets a replica, and which loses one, is not modelled",
    "failures": "what becomes of KV caches on their way, and of which pool, when a replica fails is not modelled",
    "kv_offload": "which pool stores a KV cache in a tier, and which loads it, is not modelled",
    "speculation": "which pool drafts, and when the draft's KV cache is sent, is not modelled",
    "gate": "what each pool may be sent is not modelled",
    "queue_limit": "in which pool's queue a request counts, and is shed, is not modelled",
    "slo": "how long a request takes in all pools together is not predicted",
    "max_wait": "how long a request has waited before it came to a pool is not known there",
    "fair": "classes are charged for prompts and outputs, and which pool counts which is not modelled",
    "lora": "which pool holds which adapters is not modelled",
}
_SENT_AGAIN = "whether a request that is sent again to another replica may be shed is not modelled"
_CHANGING = "how long a request would wait while replicas come and go is not modelled"
_PASSED = "requests whose adapter has no slot are passed over in the order of arrival only"
_TIER_ENDS = "what becomes of a tier when its replica ends is not modelled"

NOT_TOGETHER: Mapping[tuple[Mechanism, Mechanism], str] = {
    **{("pools", other): why for other, why in _OF_POOLS.items()},
    ("kv_offload", "autoscale"): _TIER_ENDS,
    ("kv_offload", "failures"): _TIER_ENDS,
    ("kv_offload", "draft"): "what the draft's KV cache takes in a tier, and on its link, is not counted",
    ("kv_offload", "slo"): "what a tier has of a prompt is not part of the time that is predicted for it",
    ("swap", "kv_offload"): "a preempted request finds its blocks in the tiers, where loading is faster than computing them",
    ("swap", "draft"): "what copies of the draft's KV cache take is not counted",
    ("fair", "speculation"): "classes are charged a token per step, and a round of drafts gives several",
    ("lora", "kv_offload"): "blocks in a tier are found by their tokens alone, not by the adapter that made them",
    ("lora", "speculation"): "what adapters add to the verification of drafts is not counted",
    ("lora", "swap"): "adapters of requests that come back from the host are not modelled",
    ("lora", "slo"): "how long a request waits for its adapter is not predicted",
    ("lora", "max_wait"): _PASSED,
    ("lora", "fair"): _PASSED,
    ("lora", "ordered"): _PASSED,
    ("autoscale", "queue_limit"): _CHANGING,
    ("autoscale", "slo"): _CHANGING,
    ("failures", "queue_limit"): _SENT_AGAIN,
    ("failures", "slo"): _SENT_AGAIN,
}
"""Why two are not simulated together."""


def check_together(given: Mapping[Mechanism, str]) -> None:
    """Refuse two mechanisms that are not simulated together.

    Args:
        given: those that are used, each with the option that asks for it.

    Raises:
        InputError: two that are not simulated together; it names both options, and says why.
    """
    for (one, other), why in NOT_TOGETHER.items():
        if one in given and other in given:
            raise InputError(f"{given[one]} and {given[other]}: {why}; leave one of them out")
