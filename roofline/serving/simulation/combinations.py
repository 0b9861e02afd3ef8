"""Options of `simulate` that are not simulated together: what happens where they meet is not modelled."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, get_args

from roofline.errors import InputError

Mechanism = Literal["pools", "autoscale", "failures", "kv_offload", "speculation", "admission", "max_wait", "fair"]
MECHANISMS: tuple[Mechanism, ...] = get_args(Mechanism)
"""What changes how requests are served: replicas of several kinds; replicas that come and go, or fail; KV cache tiers; drafted
tokens; requests that are shed; requests that go first because they waited; a scheduler that counts what classes are served."""

NOT_TOGETHER: Mapping[tuple[Mechanism, Mechanism], str] = {
    ("pools", "autoscale"): "which pool gets a replica, and which loses one, is not modelled",
    ("pools", "failures"): "what becomes of the KV caches between two replicas when one of them fails is not modelled",
    ("pools", "kv_offload"): "which pool stores a KV cache in a tier, and which loads it, is not modelled",
    ("pools", "speculation"): "which pool drafts, and the transfer of the draft's KV cache, are not modelled",
    ("pools", "admission"): "a request waits at two replicas or at one of several kinds, and what it is promised there is not "
    "modelled",
    ("pools", "max_wait"): "how long a request has waited is not known beyond the pool that it waits in",
    ("kv_offload", "autoscale"): "what becomes of a tier when its replica ends is not modelled",
    ("kv_offload", "failures"): "what becomes of a tier when its replica ends is not modelled",
    ("speculation", "fair"): "the scheduler charges classes a token per step, and a round of drafts has several",
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
            raise InputError(f"{given[one]} and {given[other]}: {why}; leave one out")
