"""Tiers of the KV cache beside the device's: host memory, a disk, a store that replicas share.

Blocks are written to every tier as they are computed (write-through), and a tier drops the least recently used ones. A request
that is admitted looks for the blocks that its device does not have in the tiers, one after the other, and loads them while
others run; its prompt goes on when they are there. What another request loads already is waited for, and not loaded again.

A link has one transfer at a time in each direction. Loading is taken where the request's prompt is computed earlier with it:

    max(r, w + s + l) + C(after) < r + C(before)

r: when what was taken before it is there; w: when the link is free; s: the time of the bytes; l: the tier's latency; C: the
seconds of the prompt's tokens that are left, in steps of their own.

Source: vLLM 0.19, vllm/distributed/kv_transfer/kv_connector/v1/offloading (OffloadingConnectorScheduler), and
`WAITING_FOR_REMOTE_KVS` of vllm/v1/core/sched/scheduler.py; SGLang 0.5, HiCache (`write_through`); Qin et al. 2024 (Mooncake),
arXiv:2407.00079, section 4.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from roofline.serving.simulation.prefix_cache import Content, PrefixCache
from roofline.serving.simulation.request import Request
from roofline.serving.simulation.step_time import StepTime


@dataclass(frozen=True, slots=True)
class Transfer:
    """For how long a transfer takes a link: `setup` seconds, and `block` seconds for each block."""

    block: float
    setup: float = 0.0

    def seconds(self, num_blocks: int) -> float:
        """Return the seconds of a number of blocks."""
        return self.setup + self.block * num_blocks


@dataclass(frozen=True, slots=True, kw_only=True)
class TierConfig:
    """A tier.

    Args:
        name: of the tier.
        num_blocks: that it holds: of each replica, or of all where they share it.
        block_bytes: bytes of a block, over all devices of a replica.
        read: transfers from it to the devices.
        write: transfers from the devices to it.
        latency: seconds from the end of a transfer on the link until it is there.
        shared: one tier with one link for all replicas.
    """

    name: str
    num_blocks: int
    block_bytes: float
    read: Transfer
    write: Transfer
    latency: float = 0.0
    shared: bool = False


class Link:
    """One direction of a link: one transfer after the other. Times are in seconds."""

    __slots__ = ("free_at", "transfer_s")

    def __init__(self) -> None:
        self.transfer_s = self.free_at = 0.0

    def reserve(self, time: float, seconds: float) -> float:
        """Begin a transfer of some seconds at `time`, or when the last has ended; returns when it begins."""
        begins = max(time, self.free_at)
        self.free_at = begins + seconds
        self.transfer_s += seconds
        return begins

    def seconds_until(self, time: float) -> float:
        """Return the seconds of transfers up to a time, in seconds, after which none has begun but those that waited."""
        return self.transfer_s - max(self.free_at - time, 0.0)


def common_blocks(one: Content, other: Content, block_size: int, limit: int) -> int:
    """Return how many of the first `limit` blocks two contents have in common.

    >>> common_blocks(((1, 10), (2, 99)), ((1, 10), (3, 99)), 4, 100)
    2
    """
    tokens = 0
    for (text, end), (other_text, other_end) in zip(one, other, strict=False):
        if text != other_text:
            break
        tokens = min(end, other_end)
        if end != other_end:
            break
    return min(tokens // block_size, limit)


class _Write(NamedTuple):
    """Blocks of a content from `begin` on, which are there from a time on, in seconds."""

    time: float
    content: Content
    begin: int


class Tier:
    """Blocks of a tier in the order of their last use, and its link.

    Args:
        config: what it is like.
        block_size: tokens per block.
    """

    __slots__ = (
        "_cache", "_late", "_max_queue", "_writes", "config", "load_s", "num_blocks_loaded", "num_blocks_stored",
        "num_loads", "reads", "wait_s", "writes",
    )  # fmt: skip

    def __init__(self, config: TierConfig, block_size: int) -> None:
        self.config = config
        self._cache = PrefixCache(config.num_blocks, block_size)
        self._max_queue = 1 << 14
        self._writes: deque[_Write] = deque()
        """In the order in which they end."""
        self._late: dict[int, deque[_Write]] = {}
        """The same by the text of their first block."""
        self.reads, self.writes = Link(), Link()
        self.num_loads = self.num_blocks_loaded = self.num_blocks_stored = 0
        self.load_s = self.wait_s = 0.0
        """Of all loads: seconds until the blocks are there, and of those the seconds in which the link had others."""

    def match(self, content: Content, limit: int, time: float) -> int:
        """Return how many of the first `limit` blocks of a content are there at `time`, in seconds, which never goes back."""
        num_blocks, _ = self._cache.match(content, limit)
        self._end_writes(time)
        size, late = self._cache.block_size, self._late
        for text, end in content if late else ():
            for write in late.get(text, ()):
                if write.begin < num_blocks and common_blocks(write.content, content, size, num_blocks) > write.begin:
                    num_blocks = write.begin
            if end // size >= num_blocks:
                break
        return num_blocks

    def _begin_write(self, write: _Write) -> None:
        self._writes.append(write)
        size = self._cache.block_size
        text = next(text for text, end in write.content if end // size > write.begin)
        self._late.setdefault(text, deque()).append(write)

    def _end_writes(self, time: float) -> None:
        """Forget the writes that have ended at `time`, in seconds."""
        writes, late, size = self._writes, self._late, self._cache.block_size
        while writes and writes[0].time <= time:
            write = writes.popleft()
            text = next(text for text, end in write.content if end // size > write.begin)
            late[text].popleft()
            if not late[text]:
                del late[text]

    def store(self, content: Content, num_blocks: int, time: float, *, transferred: bool = False) -> None:
        """Write those of the first `num_blocks` blocks of a content that are missing, and count all as used at `time`.

        Args:
            content: of a request.
            num_blocks: its first blocks.
            time: in seconds.
            transferred: they pass through the tier on their way from another, and do not take its link.
        """
        cache, config = self._cache, self.config
        matched, _ = cache.match(content, num_blocks)
        node, _ = cache.acquire(content, matched)
        num_new = min(num_blocks - matched, cache.num_queued)
        if num_new:
            cache.settle(cache.num_queued - num_new)
            if not transferred:
                self._end_writes(time)
                self.writes.reserve(time, config.write.seconds(num_new))
                self._begin_write(_Write(self.writes.free_at + config.latency, content, matched))
                self.num_blocks_stored += num_new
        cache.release(content, node, matched + num_new, matched + num_new)
        if cache.queue_length > self._max_queue:
            self._max_queue = 2 * cache.compact() + (1 << 14)

    def load_end(self, num_blocks: int, time: float) -> float:
        """Return when blocks would be there whose load begins at `time`, in seconds."""
        return max(time, self.reads.free_at) + self.config.read.seconds(num_blocks) + self.config.latency

    def load(self, num_blocks: int, time: float) -> tuple[float, float]:
        """Load blocks; returns when the transfer begins and ends on the link, in seconds."""
        begins = self.reads.reserve(time, self.config.read.seconds(num_blocks))
        ends = self.reads.free_at
        self.num_loads += 1
        self.num_blocks_loaded += num_blocks
        self.wait_s += begins - time
        self.load_s += ends + self.config.latency - time
        return begins, ends


class LoadPlan(NamedTuple):
    """What a request that is admitted loads.

    Args:
        until: the block after the last that is loaded, or that another request loads.
        ready: when all of them are there, in seconds.
        parts: tiers by their place, and how many blocks each has of them.
        num_joined: blocks that another request loads.
        num_declined: blocks of tiers that are computed again, since that is faster.
    """

    until: int
    ready: float
    parts: tuple[tuple[int, int], ...] = ()
    num_joined: int = 0
    num_declined: int = 0


class KVTiers:
    """The tiers of a replica.

    Args:
        tiers: in the order in which they are looked at; some may be shared with other replicas.
        step_time: seconds of the replica's steps.
        max_num_batched_tokens: new tokens per step.
        block_size: tokens per block.
        always: load whatever a tier has, however long it takes.
    """

    __slots__ = ("_step_time", "always", "block_size", "max_num_batched_tokens", "num_declined", "tiers")

    def __init__(
        self, tiers: Sequence[Tier], step_time: StepTime, max_num_batched_tokens: int, block_size: int, *, always: bool = False
    ) -> None:
        self.tiers, self.always, self.block_size = tuple(tiers), always, block_size
        self._step_time, self.max_num_batched_tokens = step_time, max_num_batched_tokens
        self.num_declined = 0
        """Blocks of tiers that were computed again."""

    def compute_seconds(self, num_new_tokens: int, num_cached_tokens: int) -> float:
        """Return the seconds of new tokens of a prompt after cached ones, in steps of their own."""
        seconds = 0.0
        while num_new_tokens > 0:
            chunk = min(num_new_tokens, self.max_num_batched_tokens)
            seconds += self._step_time.mixed(0, 0, [(chunk, num_cached_tokens)])
            num_cached_tokens += chunk
            num_new_tokens -= chunk
        return seconds

    def plan(self, request: Request, time: float, loading: Sequence[Request]) -> LoadPlan | None:
        """Return what a request that is admitted at `time`, in seconds, should load beyond the blocks that the device has.

        Args:
            request: with its computed tokens set to those that the device has.
            time: when it is admitted.
            loading: requests that load blocks.

        Returns:
            The plan, perhaps to load nothing; None where no tier has anything.
        """
        size, num_tokens = self.block_size, request.num_tokens
        content, limit = request.text, (num_tokens - 1) // size
        until = request.num_computed_tokens // size
        ready, left_s, num_joined, num_declined = time, -1.0, 0, 0
        parts: list[tuple[int, int]] = []
        for place, reaches, ends in self._options(content, until, limit, time, loading):
            num_blocks = reaches - until
            if num_blocks <= 0:
                continue
            there = max(ready, self.tiers[place].load_end(num_blocks, time) if place >= 0 else ends)
            if not self.always:
                if left_s < 0:
                    left_s = self.compute_seconds(num_tokens - until * size, until * size)
                after_s = self.compute_seconds(num_tokens - reaches * size, reaches * size)
                if there + after_s >= ready + left_s:
                    num_declined = max(num_declined, num_blocks)
                    continue
                left_s = after_s
            ready, until, num_declined = there, reaches, 0
            if place >= 0:
                parts.append((place, num_blocks))
            else:
                num_joined = num_blocks
        if not (parts or num_joined or num_declined):
            return None
        return LoadPlan(until, ready, tuple(parts), num_joined, num_declined)

    def _options(
        self, content: Content, begin: int, limit: int, time: float, loading: Sequence[Request]
    ) -> list[tuple[int, int, float]]:
        """Places of tiers (-1: other requests that load), the block up to which each has the content, and when others end."""
        options = []
        reaches, ends = begin, 0.0
        for other in loading:
            until = min(common_blocks(other.text, content, self.block_size, limit), other.num_loading_tokens // self.block_size)
            if until > reaches or (until == reaches > begin and other.ready_time < ends):
                reaches, ends = until, other.ready_time
        if reaches > begin:
            options.append((-1, reaches, ends))
        options += [(place, tier.match(content, limit, time), 0.0) for place, tier in enumerate(self.tiers)]
        return options

    def begin_load(self, request: Request, plan: LoadPlan, time: float) -> list[tuple[int, int, float, float]]:
        """Take the links for a plan, and note on the request when it is ready.

        Returns:
            Of each tier: its place, tokens, and from when to when the link has them, in seconds.
        """
        loads = []
        for place, num_blocks in plan.parts:
            begins, ends = self.tiers[place].load(num_blocks, time)
            loads.append((place, num_blocks * self.block_size, begins, ends))
        if plan.parts:  # tiers before the last have the blocks from now on
            for tier in self.tiers[: plan.parts[-1][0]]:
                tier.store(request.text, plan.until, time, transferred=True)
        request.num_loading_tokens, request.ready_time = plan.until * self.block_size, plan.ready
        return loads

    def store(self, request: Request, num_tokens: int, time: float) -> None:
        """Write the full blocks of a request's first `num_tokens` tokens to every tier, at `time`, in seconds."""
        if num_blocks := num_tokens // self.block_size:
            for tier in self.tiers:
                tier.store(request.text, num_blocks, time)
