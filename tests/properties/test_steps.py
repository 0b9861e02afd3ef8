"""What must hold for the cost of a step, whatever the model and the step."""

from __future__ import annotations

from functools import cache
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roofline.blocks.model import Model
from roofline.blocks.model_files import load_model
from roofline.cost import ZERO, Cost
from roofline.dtypes import BF16, Precision
from roofline.graph.build import Graph, build
from roofline.operators.attention import Attention
from roofline.operators.gemm import Gemm
from roofline.operators.latent_attention import LatentAttention
from roofline.predict.bounds import times
from roofline.specs.deployment import Conventions, Deployment
from roofline.specs.hardware import Hardware
from roofline.specs.library import load_hardware
from roofline.specs.workload import Segment, Step

MODELS = [
    "llama-3.2-1b", "falcon-7b", "mistral-7b-v0.1", "gemma-2-9b", "gpt-oss-20b", "qwen3-30b-a3b", "deepseek-v2-lite",
    "deepseek-v3.2", "deepseek-v4-flash",
]  # fmt: skip
# A step that completes a compressed entry costs more than the next, which completes none.
GROWING = [name for name in MODELS if name != "deepseek-v4-flash"]
DENSE = ["llama-3.2-1b", "falcon-7b", "mistral-7b-v0.1", "gemma-2-9b", "gpt2"]
PRECISION = Precision(weight=BF16.weight, activation=BF16.activation, kv=BF16.kv)
LIGHT = settings(deadline=None, max_examples=25)

batches = st.integers(1, 300)
prompts = st.integers(1, 6000)
contexts = st.integers(0, 20_000)


@cache
def _model(name: str) -> Model:
    return load_model(name)[0]


@cache
def _h100() -> Hardware:
    return load_hardware("h100-sxm")[0]


@st.composite
def segments(draw: st.DrawFn) -> Segment:
    """Prefill, a chunk of one, or decode."""
    decode = draw(st.booleans())
    return Segment(draw(batches), 1 if decode else draw(prompts), draw(contexts), decode=decode)


def _graph(name: str, step: Step, **conventions: str) -> Graph:
    return build(_model(name), Deployment(conventions=Conventions(**conventions)), PRECISION, step)  # type: ignore[arg-type]


def _cost(graph: Graph) -> Cost:
    return sum((operator.cost() * repeat for operator, repeat in graph.values()), ZERO)


def _bound(graph: Graph) -> float:
    return float(sum(times(operator, operator.cost() * repeat, _h100()).bound for operator, repeat in graph.values()))


def _no_less(more: float, less: float) -> bool:
    return more >= less * (1 - 1e-12)


@pytest.mark.parametrize("name", GROWING)
@LIGHT
@given(segment=segments(), sequences=st.integers(0, 50), tokens=st.integers(0, 500), cached=st.integers(0, 5000))
def test_more_is_never_cheaper(name: str, segment: Segment, sequences: int, tokens: int, cached: int) -> None:
    """More sequences, longer prompts or longer contexts never take fewer FLOP, fewer bytes or less time at the bound."""
    grown = Segment(
        segment.count + sequences,
        segment.new + (0 if segment.decode else tokens),
        segment.cached + cached,
        decode=segment.decode,
    )
    small, large = _graph(name, (segment,)), _graph(name, (grown,))
    assert _no_less(_cost(large).flops, _cost(small).flops)
    assert _no_less(_cost(large).matrix_flops, _cost(small).matrix_flops)
    assert _no_less(_cost(large).bytes, _cost(small).bytes)
    assert _no_less(_bound(large), _bound(small))


@pytest.mark.parametrize("name", MODELS)
@LIGHT
@given(parts=st.lists(segments(), min_size=2, max_size=4, unique_by=str))
def test_segments_add_up(name: str, parts: list[Segment]) -> None:
    """Matrix FLOP and cache traffic of a mixed step are the sums over its segments; weights are read once, so less often."""
    whole = _cost(_graph(name, tuple(parts)))
    alone = [_cost(_graph(name, (part,))) for part in parts]
    for field in ("matrix_flops", "vector_flops", "kv_read_bytes", "kv_write_bytes"):
        assert getattr(whole, field) == pytest.approx(sum(getattr(cost, field) for cost in alone), rel=1e-12)
    assert max(cost.weight_bytes for cost in alone) <= whole.weight_bytes * (1 + 1e-12)
    assert whole.weight_bytes < sum(cost.weight_bytes for cost in alone)


@pytest.mark.parametrize("name", DENSE)
@LIGHT
@given(segment=segments())
def test_order_and_grouping_do_not_matter(name: str, segment: Segment) -> None:
    """A segment of n sequences is n segments of one, up to the weights, which are read once either way."""
    half = segment.count // 2
    if not half:
        return
    rest = Segment(segment.count - half, segment.new, segment.cached, decode=segment.decode)
    # NB: two equal segments would have one path: the second half gets another cached length and the same tokens.
    first = Segment(half, segment.new, segment.cached + 1, decode=segment.decode)
    assert _cost(_graph(name, (first, rest))) == _cost(_graph(name, (rest, first)))


@pytest.mark.parametrize("name", MODELS)
@LIGHT
@given(count=batches, new=prompts, times_more=st.integers(2, 9))
def test_linear_layers_are_linear_in_tokens(name: str, count: int, new: int, times_more: int) -> None:
    """N times the sequences are n times the matrix FLOP of every product, and the same weights."""

    def products(factor: int) -> dict[str, Cost]:
        graph = _graph(name, (Segment(count * factor, new, 0),))
        return {path: operator.cost() for path, (operator, _) in graph.items() if isinstance(operator, Gemm)}

    one, several = products(1), products(times_more)
    assert one.keys() == several.keys()
    assert all(several[path].matrix_flops == times_more * cost.matrix_flops for path, cost in one.items())
    assert all(several[path].weight_bytes == cost.weight_bytes for path, cost in one.items())


@pytest.mark.parametrize("name", [*DENSE, "gpt-oss-20b", "deepseek-v2-lite"])
@LIGHT
@given(count=st.integers(1, 5), prompt=st.integers(2, 6000), cuts=st.sets(st.integers(1, 5999), max_size=4))
def test_a_prompt_in_chunks(name: str, count: int, prompt: int, cuts: set[int]) -> None:
    """Cut into chunks, a prompt takes the same matrix FLOP, the LM head aside, and writes the same cache; it reads more."""
    edges = [0, *sorted(cut for cut in cuts if cut < prompt), prompt]
    chunks = [Segment(count, end - start, start) for start, end in pairwise(edges)]
    # NB: expanded MLA computes the keys and values of earlier chunks again, so its absorbed form is compared.
    whole = _graph(name, (Segment(count, prompt, 0),), mla="absorb")
    parts = [_graph(name, (chunk,), mla="absorb") for chunk in chunks]
    for graph in (whole, *parts):
        del graph["lm_head"]
    assert sum(_cost(part).matrix_flops for part in parts) == pytest.approx(_cost(whole).matrix_flops, rel=1e-12)
    assert sum(_cost(part).kv_write_bytes for part in parts) == _cost(whole).kv_write_bytes
    assert sum(_cost(part).kv_read_bytes for part in parts) >= _cost(whole).kv_read_bytes
    assert _no_less(sum(_cost(part).weight_bytes for part in parts), _cost(whole).weight_bytes)


@pytest.mark.parametrize("name", ["deepseek-v2-lite"])
@LIGHT
@given(count=st.integers(1, 5), new=prompts, cached=contexts)
def test_forms_of_latent_attention_agree(name: str, count: int, new: int, cached: int) -> None:
    """Expanded or absorbed, MLA writes the same cache and holds the same weights; the absorbed form does more FLOP."""
    forms = {form: _graph(name, (Segment(count, new, cached),), mla=form) for form in ("expand", "absorb")}
    assert len({_cost(graph).kv_write_bytes for graph in forms.values()}) == 1
    assert len({sum(op.parameters * repeat for op, repeat in graph.values()) for graph in forms.values()}) == 1
    core = {
        form: next(op for op, _ in graph.values() if isinstance(op, LatentAttention)).cost().matrix_flops
        for form, graph in forms.items()
    }
    assert core["absorb"] > core["expand"]


@pytest.mark.parametrize("name", MODELS)
@LIGHT
@given(segment=segments(), prefix=st.integers(0, 20_000))
def test_a_shared_prefix_only_saves_reads(name: str, segment: Segment, prefix: int) -> None:
    """Tokens in common are read once: fewer bytes of cache, the same FLOP and writes; nothing saved by one alone."""
    shared = Deployment(conventions=Conventions(shared_prefix=min(prefix, segment.cached)))
    step = (Segment(segment.count, 1, segment.cached, decode=True),)
    with_it, without = _cost(build(_model(name), shared, PRECISION, step)), _cost(_graph(name, step))
    assert with_it.flops == without.flops
    assert with_it.kv_write_bytes == without.kv_write_bytes
    assert with_it.kv_read_bytes <= without.kv_read_bytes
    alone = (Segment(1, 1, segment.cached, decode=True),)
    assert _cost(build(_model(name), shared, PRECISION, alone)) == _cost(_graph(name, alone))


@pytest.mark.parametrize("name", MODELS)
@LIGHT
@given(segment=segments())
def test_conventions_only_add(name: str, segment: Segment) -> None:
    """A full mask and logits everywhere never take fewer FLOP; eager attention takes the same FLOP and more bytes."""
    plain = _cost(_graph(name, (segment,)))
    assert _cost(_graph(name, (segment,), mask="full")).matrix_flops >= plain.matrix_flops
    assert _cost(_graph(name, (segment,), logits="all")).matrix_flops >= plain.matrix_flops
    eager = _cost(_graph(name, (segment,), attention="eager"))
    assert eager.flops == plain.flops
    assert eager.bytes > plain.bytes


@LIGHT
@given(segment=segments())
def test_attention_reads_no_more_keys_than_there_are(segment: Segment) -> None:
    """Each sequence reads at most cached + new keys and values a KV head, and a window never reads more than no window."""
    for name in ("mistral-7b-v0.1", "gpt-oss-20b"):
        for operator, _ in _graph(name, (segment,)).values():
            if isinstance(operator, Attention):
                most = segment.count * (segment.cached + segment.new) * operator.n_kv_heads * 2 * operator.head_dim * 2
                assert operator.cost().kv_read_bytes <= most
