"""The prefix cache against vLLM's block pool written out: a list of free blocks, and hashes of all tokens before."""

from __future__ import annotations

import random
from collections import OrderedDict

import pytest

from roofline.serving.simulation.kv_cache import EngineConfig, KVCacheManager
from roofline.serving.simulation.prefix_cache import ENDLESS, Content
from roofline.serving.simulation.request import Request

Hash = tuple[tuple[int, int], ...]


def tokens_of(content: Content, num: int) -> Hash:
    """The first tokens of a content, each by its text and its place in the sequence."""
    found: list[tuple[int, int]] = []
    for text, end in content:
        begin = len(found)
        found += [(text, begin)] * (min(end, num) - begin)
    return tuple(found)


class BlockPool:
    """Blocks as vLLM keeps them: a queue of free ones, hashes of cached ones, and how many requests use each.

    Source: vLLM 0.19, vllm/v1/core/block_pool.py: free blocks are taken from the front, hits from wherever they are; those of
    a request are appended from its last on.
    """

    def __init__(self, num_blocks: int, size: int) -> None:
        self.size = size
        self.free: OrderedDict[int, None] = OrderedDict((block, None) for block in range(num_blocks))
        self.hash_of: dict[int, Hash] = {}
        self.block_of: dict[Hash, int] = {}
        self.users = [0] * num_blocks

    def hits(self, tokens: Hash) -> list[int]:
        """Cached blocks that a sequence begins with: all its tokens but the last are looked for."""
        found: list[int] = []
        for end in range(self.size, len(tokens), self.size):
            if (block := self.block_of.get(tokens[:end])) is None:
                break
            found.append(block)
        return found

    def take(self, num: int) -> list[int]:
        """Blocks from the front of the queue; what they held is gone."""
        taken = [self.free.popitem(last=False)[0] for _ in range(num)]
        for block in taken:
            known = self.hash_of.pop(block, None)
            if known is not None and self.block_of.get(known) == block:
                del self.block_of[known]
            self.users[block] = 1
        return taken

    def use(self, blocks: list[int]) -> None:
        """Use cached blocks."""
        for block in blocks:
            self.free.pop(block, None)
            self.users[block] += 1

    def cache(self, blocks: list[int], tokens: Hash) -> None:
        """Let others find full blocks."""
        for index in range(len(tokens) // self.size):
            known = tokens[: (index + 1) * self.size]
            if known not in self.block_of:
                self.block_of[known] = blocks[index]
                self.hash_of[blocks[index]] = known

    def give(self, blocks: list[int]) -> None:
        """Free the blocks of a request, from its last on."""
        for block in reversed(blocks):
            self.users[block] -= 1
            if not self.users[block]:
                self.free[block] = None


def contents(rng: random.Random, index: int, told: dict[int, int]) -> tuple[Content, int]:
    """A prompt of some kind: two system prompts, one of them long, conversations that go on, nothing in common; its tokens.

    `told` has the tokens of each conversation so far.
    """
    kind = rng.randrange(4)
    if kind == 0:
        return ((-1, 9), (index, ENDLESS)), 9 + rng.randint(1, 20)
    if kind == 1:
        text = -100 - rng.randrange(3)
        while told.get(text, 0) > 60:
            text -= 10
        return ((-2, 22), (text, ENDLESS)), told.get(text, 22) + rng.randint(1, 20)
    if kind == 2:
        return ((-1, 9), (-200 - rng.randrange(3), 17), (index, ENDLESS)), 17 + rng.randint(1, 20)
    return ((index, ENDLESS),), rng.randint(1, 30)


@pytest.mark.parametrize("seed", range(30))
def test_as_a_pool_of_blocks(seed: int) -> None:
    """Requests come, compute their prompt in two parts, decode, and end or are preempted: the same hits and free blocks.

    A request is left out where the pool would have to hold the same content twice (its last block is cached, and computed
    again): which of the two blocks of one hash is found then depends on the order of a dictionary.
    """
    rng = random.Random(seed)  # noqa: S311 - no secret
    size, num_blocks = 4, 40
    pool = BlockPool(num_blocks, size)
    cache = KVCacheManager(EngineConfig(num_blocks, size, 100, 1000, enable_prefix_caching=True))
    running: list[tuple[Request, list[int], int]] = []
    served, told = 0, dict[int, int]()
    for index in range(400):
        if running and (rng.random() < 0.5 or cache.num_free_blocks < 16):
            request, blocks, num = running.pop(rng.randrange(len(running)))
            grown = min(rng.randint(0, 9), size * cache.num_free_blocks)  # it decodes before it leaves
            more = -(-(num + grown) // size) - len(blocks)
            blocks += pool.take(more)
            cache.num_free_blocks -= more
            told[request.text[-1][0]] = num + grown
            ended = tokens_of(request.text, num + grown)
            pool.cache(blocks, ended)
            pool.give(blocks)
            cache.free(request, len(blocks), num + grown)
        else:
            content, num = contents(rng, index, told)
            request = Request(index, 0.0, num, 1, content=content)
            tokens = tokens_of(content, num)
            if any(one.content == content for one, *_ in running if content[-1][0] < 0):
                continue  # two turns of one conversation at a time
            hits = pool.hits(tokens)
            if tokens[: (len(hits) + 1) * size] in pool.block_of:
                continue
            if -(-num // size) - len(hits) > len(pool.free) - sum(block in pool.free for block in hits):
                continue
            num_used = cache.find_cached(request)
            assert request.num_computed_tokens == len(hits) * size, f"{served} served before"
            assert num_used == sum(pool.users[block] > 0 for block in hits)
            pool.use(hits)
            blocks = hits + pool.take(-(-num // size) - len(hits))
            first = rng.randint(request.num_computed_tokens, num)
            cache.admit(request, len(blocks), first - request.num_computed_tokens)
            pool.cache(blocks, tokens[:first])
            if first < num:
                cache.register(request, num)
                pool.cache(blocks, tokens)
            running.append((request, blocks, num))
            served += 1
        assert cache.num_free_blocks == len(pool.free)
    assert served > 100


def test_shared_blocks_are_counted_once() -> None:
    """Ten tokens in common, in blocks of four: two blocks. Prompts of 14 tokens take 4 blocks each, of which B shares two."""
    cache = KVCacheManager(EngineConfig(20, 4, 8, 64, enable_prefix_caching=True))
    first, second = (Request(index, 0.0, 14, 3, content=((-1, 10), (index, ENDLESS))) for index in (0, 1))
    assert cache.find_cached(first) == 0
    cache.admit(first, 4, 14)
    assert cache.num_free_blocks == 16
    assert cache.find_cached(second) == 2
    assert second.num_computed_tokens == 8
    cache.admit(second, 4, 6)
    assert cache.num_free_blocks == 14
    cache.free(first, 4, 16, ended=True)  # two more tokens: its blocks are full, and two stay in use
    assert cache.num_free_blocks == 16
    cache.free(second, 4, 16, ended=True)
    assert cache.num_free_blocks == 20


def test_sglang_takes_blocks_without_content_first() -> None:
    """Four blocks: A's two full ones stay cached, and B (no content) takes the two fresh ones.

    Then C has A's blocks in vLLM, whose turn it is, and those of B in SGLang.
    """
    for uncached_first, found in ((False, 0), (True, 8)):
        config = EngineConfig(4, 4, 8, 64, enable_prefix_caching=True, uncached_first=uncached_first)
        cache = KVCacheManager(config)
        a, b, c = Request(0, 0.0, 9, 1, content=((-1, ENDLESS),)), Request(1, 0.0, 8, 1), Request(2, 0.0, 8, 1)
        for request, blocks in ((a, 2), (b, 2), (c, 2)):
            cache.find_cached(request)
            cache.admit(request, blocks, 8)
            cache.free(request, blocks, 8, ended=True)
        cache.find_cached(a)
        assert a.num_computed_tokens == found
