"""What must hold for memory, whatever the model, the blocks and the lengths."""

from __future__ import annotations

from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roofline.graph.sharding import caches
from roofline.predict.memory import MemoryModel, largest
from roofline.predict.request import prepare
from roofline.specs.workload import Segment

LIGHT = settings(deadline=None, max_examples=25)
MODELS = ["llama-3.1-8b", "mistral-7b-v0.1", "gemma-3-12b", "gpt-oss-20b", "deepseek-v2-lite", "deepseek-v4-flash"]
WIDE = {"deepseek-v4-flash": ("h200-sxm", 8)}  # does not fit on one device
lengths = st.integers(0, 200_000)
blocks = st.sampled_from([1, 16, 64, 100])


@cache
def _memory(name: str, block: int = 16, shared: int = 0) -> MemoryModel:
    hardware, size = WIDE.get(name, ("h100-sxm", 1))
    options = {"block_size": block, "shared_prefix": shared, "context": shared, "phase": "decode"}
    return prepare(name, hardware, tensor_parallel_size=size, **options).memory


@pytest.mark.parametrize("name", MODELS)
@LIGHT
@given(length=lengths, more=st.integers(0, 5000), block=blocks)
def test_allocated_covers_mathematical(name: str, length: int, more: int, block: int) -> None:
    """Whole blocks hold at least the tokens (or entries), and less than a block too much a cache, or two; both grow."""
    memory = _memory(name, block).fullest_stage
    exact, held = (memory.kv_bytes(length, allocated=allocated) for allocated in (False, True))
    elements = sum(kept.elements * count for kept, count in caches(memory.model, memory.deployment, memory.stage))
    ends = 2 if memory.layout.block is None else 1  # a window may begin at the end of a block
    assert exact <= held < exact + ends * block * elements * memory.precision.kv.bytes + 1
    assert memory.kv_bytes(length + more, allocated=True) >= held
    assert exact <= length * memory.kv_bytes_per_token


@pytest.mark.parametrize("name", MODELS)
@LIGHT
@given(parts=st.lists(st.tuples(st.integers(1, 50), st.integers(1, 3000), lengths), min_size=1, max_size=4))
def test_segments_add_up(name: str, parts: list[tuple[int, int, int]]) -> None:
    """The cache of a step is that of its segments together, each a multiple of one sequence."""
    memory = _memory(name).fullest_stage
    step = tuple(Segment(*part) for part in parts)
    assert memory.needed_bytes(step) == sum(memory.needed_bytes((segment,)) for segment in step)
    assert memory.needed_bytes(step) == sum(count * memory.layout.bytes(cached, new) for count, new, cached in parts)


@pytest.mark.parametrize("name", MODELS)
@LIGHT
@given(count=st.integers(1, 100), cached=st.integers(3000, 100_000))
def test_a_shared_prefix_only_saves(name: str, count: int, cached: int) -> None:
    """Tokens in common take no more room than each its own, and no less than what one sequence needs."""
    step = (Segment(count, 1, cached, decode=True),)
    shared, apart = _memory(name, 16, 3000).fullest_stage, _memory(name).fullest_stage
    assert shared.needed_bytes(step) <= apart.needed_bytes(step)
    assert shared.needed_bytes(step) >= apart.needed_bytes((Segment(1, 1, cached, decode=True),))


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
@settings(deadline=None, max_examples=10)
@given(batch=st.integers(1, 2000), context=lengths)
def test_the_two_limits_agree(name: str, batch: int, context: int) -> None:
    """`batch` fits at `context` if and only if it is within the largest batch there, and the context within its longest."""
    memory = _memory(name)
    fits = memory.fits((Segment(batch, 1, context, decode=True),))
    longest = memory.max_context(batch)
    assert fits == (batch <= memory.max_batch(context))
    assert fits == (longest is None or (context <= longest and memory.fits((Segment(batch, 1, 0, decode=True),))))


@settings(deadline=None, max_examples=200)
@given(border=st.integers(0, 2**61), limit=st.integers(1, 2**61))
def test_largest(border: int, limit: int) -> None:
    """The search finds the border wherever it is, and stops at the limit."""
    assert largest(lambda n: n <= border, limit) == min(border, limit)
