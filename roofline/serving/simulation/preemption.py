"""What preempting does with the cache of a request: drop it and compute it again, or swap it to the host and back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

from roofline import formatting
from roofline.errors import InputError, UnknownNameError
from roofline.predict.request import ResolvedRequest
from roofline.serving.preemption.copies import HostCopyOptions
from roofline.serving.preemption.costs import Preemption
from roofline.specs.library import Input
from roofline.specs.source import Assumption

Mode = Literal["recompute", "swap", "cheaper"]
MODES: tuple[Mode, ...] = ("recompute", "swap", "cheaper")
_TOKENS = 1024


class PreemptionCosts(Protocol):
    """Seconds that a preemption costs."""

    def recompute_seconds(self, tokens: int) -> float:
        """Return the seconds to compute a number of cached tokens again."""

    def swap_seconds(self, tokens: int) -> tuple[float, float]:
        """Return the seconds to copy a number of cached tokens to the host, and back."""


@dataclass(frozen=True, slots=True)
class NoCosts:
    """For `recompute`, which needs no costs: recomputed tokens are paid for in the steps that compute them."""

    def recompute_seconds(self, tokens: int) -> float:
        """Return 0 s."""
        return 0.0

    def swap_seconds(self, tokens: int) -> tuple[float, float]:
        """Fail: caches are never swapped.

        Raises:
            AssertionError: always.
        """
        raise AssertionError(tokens)


@dataclass(slots=True)
class PreemptionPolicy:
    """Which caches are swapped.

    A prompt that is not computed whole is always dropped.

    Args:
        mode: `recompute`: none; `swap`: all, as long as the host has memory for them; `cheaper`: those for which the copies
            take less time than computing again.
        costs: seconds of both ways.
        host_tokens: cached tokens that the host holds.
        inputs: files that the costs are from.
    """

    mode: Mode = "recompute"
    costs: PreemptionCosts = NoCosts()
    host_tokens: float = float("inf")
    inputs: tuple[Input, ...] = ()

    def swaps(self, tokens: int, num_swapped_tokens: int, num_prefix_tokens: int = 0) -> bool:
        """Return whether a cache of `tokens` tokens is swapped while `num_swapped_tokens` tokens are on the host. The first
        `num_prefix_tokens` of them would be found in the prefix cache, and not computed again.
        """
        if self.mode == "recompute" or num_swapped_tokens + tokens > self.host_tokens:
            return False
        if self.mode == "swap":
            return True
        recompute = self.costs.recompute_seconds(tokens)
        if num_prefix_tokens:
            recompute -= self.costs.recompute_seconds(num_prefix_tokens)
        return sum(self.costs.swap_seconds(tokens)) < recompute


def preemption_policy(
    request: ResolvedRequest, mode: str | None, notes: list[Assumption], options: HostCopyOptions | None = None
) -> PreemptionPolicy:
    """Return how a replica of a deployment preempts, with costs by the closed form of `roofline.serving.preemption`.

    Args:
        request: the deployment.
        mode: one of `MODES`; None: `recompute`, as engines do.
        notes: gets what is assumed.
        options: of copies to the host.

    Raises:
        InputError: no such mode; the link to the host is not known; nothing of a sequence is cached; options of copies that
            are never made.
    """
    options = options or HostCopyOptions()
    modes: dict[str, Mode] = {name: name for name in MODES}
    if mode is not None and mode not in modes:
        raise UnknownNameError("way to preempt", mode, modes, list_all=True)
    if mode in (None, "recompute"):
        if options.given:
            msg = f"{options.given[0]} is of copies to the host, and caches are recomputed"
            raise InputError(f"{msg}: give --preemption swap or cheaper")
        if mode is None:
            why = "as vLLM's V1; swap, or cheaper (by the closed form), on demand"
            notes.append(Assumption("preemption", "recompute", "default", why))
        return PreemptionPolicy()
    costs = Preemption.of(request, **options.options)
    if options.coalesced:
        notes.append(Assumption("copies", "coalesced", "given", "one call each way, blocks gathered before"))
    else:
        why = "a call per block, layer and tensor (K, V), in turn"
        notes.append(Assumption("copies", "block by block", "default", why))
    notes += costs.swap.copies.notes
    if costs.swap.share > 1:
        why = "devices of a replica that copy over one link at the same time"
        notes.append(Assumption("gpus_per_link", options.gpus_per_link, "given", why))
    inputs = costs.swap.copies.inputs
    memory = costs.host_memory
    if memory is None:
        notes.append(Assumption("host_memory", None, "assumed", "the host's memory is not known: it holds every cache"))
        return PreemptionPolicy(modes[mode], costs, inputs=inputs)
    why = "for preempted sequences of a replica"
    if options.host_memory is None:
        why += f": {formatting.binary(memory)}, the node's, by the replica's share of its accelerators, all of it free"
    notes.append(Assumption("host_memory", memory, "default" if options.host_memory is None else "given", why))
    return PreemptionPolicy(modes[mode], costs, memory / (costs.host_bytes(_TOKENS) / _TOKENS), inputs)
