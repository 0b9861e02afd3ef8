"""What must hold for recurrent layers, whatever the mixer and the step."""

from __future__ import annotations

import pytest
from hybrids import KINDS, hybrid
from hypothesis import given, settings
from hypothesis import strategies as st

from roofline.cost import ZERO, Cost
from roofline.dtypes import BF16, Precision
from roofline.graph.build import Graph, build
from roofline.numeric import triangle
from roofline.operators.delta_rule import below_diagonal, inversion
from roofline.operators.scan import Scan, over_chunks
from roofline.specs.deployment import Deployment
from roofline.specs.workload import Segment, Step

PRECISION = Precision(weight=BF16.weight, activation=BF16.activation, kv=BF16.kv)
LIGHT = settings(deadline=None, max_examples=25)
each_kind = pytest.mark.parametrize("kind", KINDS)

batches = st.integers(1, 300)
prompts = st.integers(1, 6000)
contexts = st.integers(0, 20_000)


@st.composite
def segments(draw: st.DrawFn) -> Segment:
    """Prefill, a chunk of one, or decode."""
    decode = draw(st.booleans())
    return Segment(draw(batches), 1 if decode else draw(prompts), draw(contexts), decode=decode)


def _graph(kind: str, step: Step) -> Graph:
    return build(hybrid(kind), Deployment(), PRECISION, step)


def _cost(graph: Graph) -> Cost:
    return sum((operator.cost() * repeat for operator, repeat in graph.values()), ZERO)


def _scans(graph: Graph) -> Cost:
    return sum((op.cost() * repeat for op, repeat in graph.values() if isinstance(op, Scan)), ZERO)


@LIGHT
@given(new=st.integers(1, 500), chunk=st.integers(1, 200))
def test_over_chunks(new: int, chunk: int) -> None:
    """The closed form is the sum over the chunks, written out."""
    lengths = [min(chunk, new - start) for start in range(0, new, chunk)]
    assert sum(lengths) == new == over_chunks(lambda tokens: tokens, new, chunk)
    for rule in (triangle, below_diagonal, inversion):
        assert over_chunks(rule, new, chunk) == sum(rule(length) for length in lengths)


@LIGHT
@given(tokens=st.integers(1, 60))
def test_inversion(tokens: int) -> None:
    """Element (i, j) of a triangular inverse is a sum of i - j - 1 products."""
    assert inversion(tokens) == 2 * sum(i - j - 1 for i in range(tokens) for j in range(i))


@each_kind
@LIGHT
@given(segment=segments(), sequences=st.integers(0, 50), tokens=st.integers(0, 500), cached=st.integers(0, 5000))
def test_more_is_never_cheaper(kind: str, segment: Segment, sequences: int, tokens: int, cached: int) -> None:
    """More sequences, longer prompts or longer contexts never take fewer FLOP or fewer bytes."""
    new = segment.new + (0 if segment.decode else tokens)
    grown = Segment(segment.count + sequences, new, segment.cached + cached, decode=segment.decode)
    small, large = _cost(_graph(kind, (segment,))), _cost(_graph(kind, (grown,)))
    assert large.matrix_flops >= small.matrix_flops
    assert large.vector_flops >= small.vector_flops
    assert large.bytes >= small.bytes * (1 - 1e-12)


@each_kind
@LIGHT
@given(parts=st.lists(segments(), min_size=2, max_size=4, unique_by=str))
def test_segments_add_up(kind: str, parts: list[Segment]) -> None:
    """FLOP and state of a mixed step are the sums over its segments, in any order; weights are read less often."""
    whole = _cost(_graph(kind, tuple(parts)))
    alone = [_cost(_graph(kind, (part,))) for part in parts]
    for field in ("matrix_flops", "vector_flops", "state_read_bytes", "state_write_bytes", "kv_read_bytes"):
        assert getattr(whole, field) == pytest.approx(sum(getattr(cost, field) for cost in alone), rel=1e-12)
    assert whole.weight_bytes < sum(cost.weight_bytes for cost in alone)
    assert whole == _cost(_graph(kind, tuple(reversed(parts))))


@each_kind
@LIGHT
@given(count=st.integers(1, 5), chunks=st.lists(st.integers(1, 10), min_size=1, max_size=4))
def test_a_prompt_in_whole_chunks(kind: str, count: int, chunks: list[int]) -> None:
    """Cut where the scan would cut it, a prompt takes the same FLOP; the state is written after each part, and read again."""
    lengths = [256 * chunk for chunk in chunks]
    starts = [sum(lengths[:position]) for position in range(len(lengths))]
    whole = _scans(_graph(kind, (Segment(count, sum(lengths), 0),)))
    parts = [_scans(_graph(kind, (Segment(count, new, start),))) for start, new in zip(starts, lengths, strict=True)]
    assert sum(part.matrix_flops for part in parts) == whole.matrix_flops
    assert sum(part.vector_flops for part in parts) == whole.vector_flops
    assert whole.state_read_bytes == 0
    assert sum(part.state_write_bytes for part in parts) == len(parts) * whole.state_write_bytes
    assert sum(part.state_read_bytes for part in parts) == (len(parts) - 1) * whole.state_write_bytes
