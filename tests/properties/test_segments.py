"""How a mixed step is written down changes nothing: neither order, nor splitting equal segments, nor a common prefix."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import roofline
from roofline.specs.workload import Segment

pytestmark = pytest.mark.same_calls  # sums of plain numbers

MODELS = st.sampled_from(["llama-3.1-8b", "gemma-3-12b", "mistral-7b-v0.1", "deepseek-v2-lite", "gpt-oss-20b"])
SEGMENTS = st.lists(
    st.tuples(st.integers(1, 20), st.sampled_from([1, 1, 16, 700]), st.integers(0, 9000)),
    min_size=2,
    max_size=4,
    unique_by=lambda s: s[1:],
)


def _bytes(model: str, segments: list[tuple[int, int, int]], prefix: int) -> tuple[float, float]:
    step = tuple(Segment(count, new, cached, decode=new == 1) for count, new, cached in segments)
    result = roofline.analyze(model, "h200-sxm", segments=step, shared_prefix=prefix, ignore_capacity=True)
    (phase,) = result.phases
    return phase.cost.bytes, result.memory.needed_bytes


@pytest.mark.slow
@settings(max_examples=10, deadline=None)
@given(model=MODELS, segments=SEGMENTS, prefix=st.integers(0, 2000))
def test_order_does_not_matter(model: str, segments: list[tuple[int, int, int]], prefix: int) -> None:
    """Bytes moved and bytes held are those of the set of segments."""
    prefix = min(prefix, max(cached for *_, cached in segments))
    assert _bytes(model, segments, prefix) == pytest.approx(_bytes(model, segments[::-1], prefix), rel=1e-12)  # sums of floats


@pytest.mark.slow
@settings(max_examples=10, deadline=None)
@given(model=MODELS, segments=SEGMENTS)
def test_splitting_does_not_matter(model: str, segments: list[tuple[int, int, int]]) -> None:
    """Two sequences are two segments of one, or one segment of two."""
    (count, new, cached), *rest = segments
    split = [(1, new, cached), *rest, (count, new, cached)]
    assert _bytes(model, split, 0) == pytest.approx(_bytes(model, [(count + 1, new, cached), *rest], 0), rel=1e-12)


@pytest.mark.slow
@settings(max_examples=10, deadline=None)
@given(model=MODELS, new=st.integers(1, 30_000), more=st.integers(1, 5000), batch=st.integers(1, 40))
def test_longer_prompts_need_no_less_activation(model: str, new: int, more: int, batch: int) -> None:
    """A longer prompt fills the engine's token budget at least as far."""
    short, long = (
        roofline.analyze(model, "h200-sxm", input_len=length, batch=batch, phase="prefill", ignore_capacity=True).memory
        for length in (new, new + more)
    )
    assert short.activation_bytes <= long.activation_bytes
