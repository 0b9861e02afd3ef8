"""KV cache tiers, event by event by hand: blocks of four tokens; a step takes 1 s and 0.25 s per prompt token."""

from __future__ import annotations

import random
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import replace

import pytest
from simulated import AffineStepTime, Event, Served, serve, world

from roofline.serving.simulation.kv_cache import EngineConfig
from roofline.serving.simulation.kv_tiers import KVTiers, Tier, TierConfig, Transfer, common_blocks
from roofline.serving.simulation.prefix_cache import ENDLESS, Content
from roofline.serving.simulation.request import Request
from roofline.serving.simulation.step_log import END, LOAD, RUN

TIMES = AffineStepTime(1.0, token=0.25)
A: Content = ((-1, ENDLESS),)
B: Content = ((-2, ENDLESS),)
HOST = TierConfig(name="host", num_blocks=100, block_bytes=1.0, read=Transfer(0.1), write=Transfer(0.01), latency=0.05)


def config(num_blocks: int) -> EngineConfig:
    """Device blocks, and 64 new tokens per step."""
    return EngineConfig(num_blocks, 4, 8, 64, enable_prefix_caching=True)


def ask(*requests: tuple[float, int, Content | None], output: int = 1) -> list[Request]:
    """Requests that arrive with a prompt of some tokens."""
    return [Request(index, time, tokens, output, content=content) for index, (time, tokens, content) in enumerate(requests)]


def both(requests: Sequence[Request], blocks: int, tier: TierConfig = HOST, **more: object) -> Served:
    """Served in runs; step by step all is the same."""
    served = [
        serve(
            "vllm-v1", [Request(one.index, one.arrival_time, one.num_prompt_tokens, one.max_tokens, content=one.content)
                        for one in requests],
            TIMES, config(blocks), tiers=[tier], stepwise=stepwise, **more,  # type: ignore[arg-type]
        )
        for stepwise in (False, True)
    ]  # fmt: skip
    runs, steps = ([event for _, event in one.events if event[0] != "decode"] for one in served)
    assert len(runs) == len(steps)
    for left, right in zip(runs, steps, strict=True):
        assert left == pytest.approx(right) if left[0] != "mixed" else left[4] == right[4]
    return served[0]


def tokens_at(served: Served) -> dict[int, float]:
    """When each request had its first token."""
    return {event[2]: event[1] for one in range(len(served.replicas)) for event in served.of("token", replica=one)}


def cached(served: Served) -> dict[int, int]:
    """Prompt tokens of each request that were cached, on the device or in a tier."""
    rows = [dict(zip(END, served.log.ends[at : at + len(END)], strict=True)) for at in range(0, len(served.log.ends), len(END))]
    return {int(row["index"]): int(row["cached"]) for row in rows}


def loads(served: Served, replica: int = 0) -> list[Event]:
    """From, to, request, place of the tier, tokens."""
    return [event[1:] for event in served.of("load", replica=replica)]


def tier_of(served: Served, replica: int = 0) -> Tier:
    """The first tier of a replica."""
    tiers = served.replicas[replica].scheduler.tiers
    assert isinstance(tiers, KVTiers)
    return tiers.tiers[0]


EVICTED = ask((0, 16, A), (10, 20, None), (20, 17, A))
"""A prompt of 4 blocks; another of 5, whose last comes to its end; then the first again, with one token more. On a device of 6
blocks the second takes the 2 that are fresh and 3 of the first's, from its end: one is left."""


def test_blocks_that_the_device_has_lost_come_from_the_host() -> None:
    """The block that the device has left is used, and the others are loaded.

    0: 16 tokens, 1 + 16/4 = 5 s; the host has their 4 blocks at 5 + 4/100 + 0.05. 10: 20 tokens, 6 s. 20: of the 4 blocks
    that are looked for (16 tokens, the last is computed) the device has one; three take 0.3 s of the link and come 0.05 s
    later. 20.35: the last token, 1.25 s, against 1 + 13/4 = 4.25 s without the host."""
    served = both(EVICTED, 6)
    assert tokens_at(served) == pytest.approx({0: 5.0, 1: 16.0, 2: 21.6})
    assert loads(served) == [pytest.approx((20.0, 20.3, 2, 0, 12))]
    assert cached(served) == {0: 0, 1: 0, 2: 16}
    assert served.of("mixed")[-1][4] == ((2, 1, 16),)
    tier = tier_of(served)
    # 4 and 5 blocks; the 17 tokens of the third have 4 full blocks, which are there
    assert (tier.num_loads, tier.num_blocks_loaded, tier.num_blocks_stored) == (1, 3, 9)
    assert (tier.reads.transfer_s, tier.writes.transfer_s, tier.load_s, tier.wait_s) == pytest.approx((0.3, 0.09, 0.35, 0.0))
    rows = [dict(zip(RUN, served.log.runs[at : at + len(RUN)], strict=True)) for at in range(0, len(served.log.runs), len(RUN))]
    (idle,) = (row for row in rows if row["begins"] == 20.0)
    # nothing runs meanwhile; the 16 tokens that are there, or are loaded, take 4 of the device's blocks
    assert idle == pytest.approx({**dict.fromkeys(RUN, 0.0), "begins": 20.0, "ends": 20.35, "running": 1.0, "blocks": 4.0})


def test_a_load_that_is_slower_is_not_taken() -> None:
    """At 2 s a block three take 6 s, and their 12 tokens 3 s: 20 + 1 + 13/4. Where loads are always taken: 20 + 6.05 + 1.25."""
    slow = replace(HOST, read=Transfer(2.0))
    served = both(EVICTED, 6, slow)
    assert tokens_at(served)[2] == pytest.approx(24.25)
    assert (loads(served), cached(served)[2]) == ([], 4)
    tiers = served.replicas[0].scheduler.tiers
    assert tiers is not None
    assert tiers.num_declined == 3
    served = both(EVICTED, 6, slow, always=True)
    assert tokens_at(served)[2] == pytest.approx(27.3)
    assert cached(served)[2] == 16


TWO = ask((0, 16, A), (10, 16, B), (20, 40, None), (40, 17, A), (40, 17, B))
"""Two prompts of 4 blocks; one that takes all 10 blocks of a device; then both again at the same time."""


def test_two_loads_on_one_link() -> None:
    """One after the other.

    At 0.4 s a block: the first load has the link from 40 to 41.6, the second from then to 43.2. The first computes its last
    token from 41.6 to 42.85, the second from 43.2 to 44.45: still before 40 + 5.25, when it would be computed."""
    served = both(TWO, 10, replace(HOST, read=Transfer(0.4), latency=0.0))
    assert loads(served) == [pytest.approx((40.0, 41.6, 3, 0, 16)), pytest.approx((41.6, 43.2, 4, 0, 16))]
    assert tokens_at(served) == pytest.approx({0: 5.0, 1: 15.0, 2: 31.0, 3: 42.85, 4: 44.45})
    tier = tier_of(served)
    assert (tier.load_s, tier.wait_s, tier.reads.transfer_s) == pytest.approx((1.6 + 3.2, 1.6, 3.2))


def test_a_busy_link_makes_the_second_compute() -> None:
    """The wait for the link counts.

    At 0.5 s a block the second load would end at 44, and its token come at 45.25, as without it: it is computed, from 40 to
    45.25; the first, whose blocks came at 42, goes on then."""
    served = both(TWO, 10, replace(HOST, read=Transfer(0.5), latency=0.0))
    assert loads(served) == [pytest.approx((40.0, 42.0, 3, 0, 16))]
    assert tokens_at(served)[4] == pytest.approx(45.25)
    assert tokens_at(served)[3] == pytest.approx(46.5)


def test_what_another_loads_is_waited_for() -> None:
    """Both want the same 4 blocks, which cross once: at 41.6 both compute a token, in 1.5 s."""
    requests = ask((0, 16, A), (20, 40, None), (40, 17, A), (40, 17, A))
    served = both(requests, 10, replace(HOST, read=Transfer(0.4), latency=0.0))
    assert loads(served) == [pytest.approx((40.0, 41.6, 2, 0, 16))]
    assert tokens_at(served) == pytest.approx({0: 5.0, 1: 31.0, 2: 43.1, 3: 43.1})
    assert cached(served) == {0: 0, 1: 0, 2: 16, 3: 16}


def test_a_store_that_replicas_share() -> None:
    """Three replicas in turn find what others have written, once it is there.

    The first writes 4 blocks from 5 to 7 s, and they are there at 8. The second comes at 6 and
    computes all, 5.25 s; the third, at 20, loads 4 blocks in 0.8 + 1 s and computes a token: 23.05. With a tier of its own it
    computes all: 25.25."""
    store = replace(HOST, read=Transfer(0.2), write=Transfer(0.5), latency=1.0, shared=True)
    requests = ask((0, 16, A), (6, 17, A), (20, 17, A))
    served = both(requests, 10, store, replicas=3)
    assert tokens_at(served) == pytest.approx({0: 5.0, 1: 11.25, 2: 23.05})
    assert [loads(served, replica) for replica in range(3)] == [[], [], [pytest.approx((20.0, 20.8, 2, 0, 16))]]
    assert tier_of(served) is tier_of(served, 2)
    assert tier_of(served).num_blocks_stored == 4
    served = both(requests, 10, replace(store, shared=False), replicas=3)
    assert tokens_at(served)[2] == pytest.approx(25.25)


def test_a_preempted_request_loads_what_it_has_lost() -> None:
    """Five blocks, two prompts of 8 tokens and 8 tokens of output each.

    5: both have a token and need a third block, one is free: the second is preempted, its 2 blocks are in the host at 5.02 +
    0.05. The first takes the fresh block, and at its 13th token one of the second's. 12: it ends. The second needs 9 tokens:
    its first block is on the device, the second comes from the host at 12.15, and one token is computed in 1.25 s, against
    2.25 s for five.
    """
    served = both(ask((0, 8, None), (0, 8, None), output=8), 5)
    assert served.of("preempt", "loading", "load") == [
        ("preempt", 5.0, 1), ("loading", 12.0, 1), pytest.approx(("load", 12.0, 12.1, 1, 0, 4))
    ]  # fmt: skip
    assert served.of("mixed")[-1][1:3] == pytest.approx((12.15, 13.4))
    assert served.of("mixed")[-1][4] == ((1, 1, 8),)


def test_a_second_tier_has_what_the_first_has_dropped() -> None:
    """The tiers are looked at in turn.

    The host holds 5 blocks: after the second prompt those of that, and none of the first; the disk has all. The third loads
    three blocks at 0.2 s each from the disk, 0.05 s later, and they pass through the host, which has them then."""
    host, disk = replace(HOST, num_blocks=5), replace(HOST, name="disk", read=Transfer(0.2))
    served = serve("vllm-v1", EVICTED, TIMES, config(6), tiers=[host, disk])
    assert loads(served) == [pytest.approx((20.0, 20.6, 2, 1, 12))]
    assert tokens_at(served)[2] == pytest.approx(20.65 + 1.25)
    tiers = served.replicas[0].scheduler.tiers
    assert tiers is not None
    assert [tier.match(A, 4, 100.0) for tier in tiers.tiers] == [4, 4]


# What holds of any tier


class Blocks:
    """Blocks of a least recently used cache, one by one: of a request its last block counts as the least recently used."""

    def __init__(self, capacity: int, size: int) -> None:
        self.capacity, self.size = capacity, size
        self.order: OrderedDict[tuple[tuple[int, int], ...], None] = OrderedDict()

    def keys(self, content: Content, num_blocks: int) -> list[tuple[tuple[int, int], ...]]:
        """Each block as all tokens up to its end."""
        tokens: list[tuple[int, int]] = []
        for text, end in content:
            begin = len(tokens)
            tokens += [(text, begin)] * (min(end, num_blocks * self.size) - begin)
        return [tuple(tokens[: (index + 1) * self.size]) for index in range(num_blocks)]

    def hits(self, content: Content, num_blocks: int) -> int:
        """Blocks from the front that are there."""
        keys = self.keys(content, num_blocks)
        return next((index for index, key in enumerate(keys) if key not in self.order), num_blocks)

    def use(self, content: Content, num_blocks: int) -> None:
        """Use blocks; the least recently used go."""
        for key in reversed(self.keys(content, num_blocks)):
            self.order.pop(key, None)
            self.order[key] = None
        while len(self.order) > self.capacity:
            self.order.popitem(last=False)


def accesses(seed: int, num: int = 300) -> list[tuple[Content, int]]:
    """Prompts with something in common, in blocks of 4 tokens."""
    rng = random.Random(seed)  # noqa: S311 - no secret
    prompts: list[tuple[Content, int]] = []
    for index in range(num):
        head = (-1 - int(rng.expovariate(0.3)), rng.choice([4, 10, 23]))
        tail = (rng.choice([-100, -101, index]), ENDLESS)
        prompts.append(((head, tail), rng.randint(1, 12)))
    return prompts


@pytest.mark.parametrize("seed", range(10))
def test_a_tier_is_a_least_recently_used_cache_and_more_of_it_has_more(seed: int) -> None:
    """The same hits as a cache of single blocks at every capacity; and no fewer where it holds more."""
    before = [0] * 300
    for capacity in (1, 3, 10, 30, 100, 1000):
        tier = Tier(replace(HOST, num_blocks=capacity, write=Transfer(0.0), latency=0.0), 4)
        blocks, hits = Blocks(capacity, 4), []
        for time, (content, num) in enumerate(accesses(seed)):
            hits.append(tier.match(content, num, time))
            assert hits[-1] == blocks.hits(content, num)
            tier.store(content, num, time)
            blocks.use(content, num)
        assert all(more >= less for more, less in zip(hits, before, strict=True))
        before = hits
    assert sum(before) > 300


def test_a_faster_link_is_no_slower() -> None:
    """The mean time to the first token of the two that load, at ever slower links: it never falls."""
    means = []
    for block in (0.0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.7, 0.9, 1.0, 1.5, 5.0):
        served = both(TWO, 10, replace(HOST, read=Transfer(block), latency=0.0))
        times = tokens_at(served)
        means.append((times[3] + times[4]) / 2 - 40)
    assert means == sorted(means)
    assert means[0] == pytest.approx(1.5)  # both at once: 1 + 2/4
    assert means[-1] == pytest.approx(9.5)  # both computed at once: 1 + 34/4


def test_the_queue_of_a_tier_does_not_grow() -> None:
    """A prompt that comes 100,000 times to a tier that never fills up leaves no more than some entries."""
    tier = Tier(HOST, 4)
    for time in range(100_000):
        tier.store(A, 10, time)
    assert tier._cache.queue_length < 40_000
    assert tier.match(A, 10, 100_000) == 10


def test_common_blocks() -> None:
    """Up to the first token that differs, in whole blocks."""
    assert common_blocks(((1, 10), (2, 50)), ((1, 10), (2, 30), (3, 99)), 4, 100) == 7
    assert common_blocks(((1, 10),), ((2, 10),), 4, 100) == 0
    assert common_blocks(A, A, 4, 3) == 3


@pytest.mark.parametrize("start", range(0, 120, 30))
def test_prompt_tokens_are_cached_loaded_or_computed(start: int) -> None:
    """Nothing is lost.

    Of requests that were never preempted: what the device and the tiers had, and what was computed, are the prompt; blocks
    come back; what the link carried is what was loaded."""
    num_loads = 0
    for seed in range(start, start + 30):
        one = world(seed, tiered=True)
        served = one.run(False)
        computed = dict.fromkeys(range(len(one.requests)), 0)
        for replica in range(len(served.replicas)):
            for event in served.of("mixed", replica=replica):
                for request, new, _ in event[4]:
                    computed[request] += new
        again = {event[2] for _, event in served.events if event[0] == "preempt"}
        loaded = dict.fromkeys(computed, 0)
        for at in range(0, len(served.log.loads), len(LOAD)):
            index, _, tokens = served.log.loads[at : at + len(LOAD)]
            loaded[int(index)] += int(tokens)
        for request, tokens in cached(served).items():
            assert loaded[request] <= tokens
            if request not in again:
                assert computed[request] + tokens == one.requests[request][1]
        for server in served.replicas:
            assert server.kv_cache.num_free_blocks == server.kv_cache.num_gpu_blocks
            assert not server.scheduler.loading
        every = {id(tier): tier for server in served.replicas for tier in server.scheduler.tiers.tiers}  # type: ignore[union-attr]
        size = served.replicas[0].kv_cache.block_size
        carried = sum(event[5] for _, event in served.events if event[0] == "load")
        assert carried == size * sum(tier.num_blocks_loaded for tier in every.values())
        num_loads += sum(tier.num_loads for tier in every.values())
        assert served.events == one.run(False).events
    assert num_loads > 20
