"""Layers that keep a state: what they read and write of it, in which steps, and how devices share them."""

from __future__ import annotations

import pytest
from hybrids import KINDS, MIXERS, hybrid

import roofline
from roofline.blocks import kinds
from roofline.blocks.base import MixerBlock, State
from roofline.blocks.model import Model
from roofline.dtypes import BF16, Precision
from roofline.errors import InputError
from roofline.graph.build import Graph, build
from roofline.graph.sharding import shard_block, states
from roofline.operators.causal_conv import CausalConv
from roofline.operators.gemm import Gemm
from roofline.operators.scan import Scan
from roofline.predict.compiled import compile
from roofline.predict.explain.explain import explain, subjects
from roofline.predict.request import prepare
from roofline.specs.deployment import Deployment
from roofline.specs.workload import Segment, Step, decode, prefill

PRECISION = Precision(weight=BF16.weight, activation=BF16.activation, kv=BF16.kv)
each_kind = pytest.mark.parametrize("kind", KINDS)
# Of one layer of `hybrids`: channels of the convolution, and elements of the recurrent state.
STATES = {
    "mamba": (4096, 4096 * 16),
    "mamba2": (64 * 64 + 2 * 4 * 128, 64 * 64 * 128),
    "gated_delta_net": (2 * 8 * 128 + 16 * 128, 16 * 128 * 128),
    "kda": (3 * 16 * 128, 16 * 128 * 128),
    "lightning_attention": (0, 16 * 128 * 128),
}


def _graph(kind: str, step: Step, tp: int = 1) -> Graph:
    return build(hybrid(kind), Deployment(tensor_parallel_size=tp), PRECISION, step)


def _state_traffic(kind: str, step: Step) -> tuple[float, float]:
    """Bytes of state that one layer reads and writes."""
    costs = [op.cost() for op, _ in _graph(kind, step).values() if isinstance(op, (Scan, CausalConv))]
    return sum(cost.state_read_bytes for cost in costs), sum(cost.state_write_bytes for cost in costs)


def _size(kind: str) -> int:
    """What engines keep of a sequence in one layer: three columns of two bytes, and state of four."""
    conv, recurrent = STATES[kind]
    return conv * 3 * 2 + recurrent * 4


@each_kind
def test_state(kind: str) -> None:
    """Dimensions, and twelve layers of them."""
    (found,) = states(hybrid(kind), Deployment())
    conv, recurrent = STATES[kind]
    assert found == (State(conv=conv, conv_kernel=4 if conv else 1, recurrent=recurrent), 12)


@each_kind
@pytest.mark.parametrize(
    ("step", "read", "written"),
    [
        (prefill(3, 700), 0, 3),  # begins without a state
        ((Segment(3, 700, 64),), 3, 3),  # goes on after 64 tokens
        (decode(5, 4096), 5, 5),
        ((Segment(5, 1, 4096, decode=True), Segment(2, 300, 0), Segment(1, 8, 1)), 6, 8),
    ],
    ids=["prompt", "later chunk", "decode", "mixed"],
)
def test_state_is_read_and_written_once(kind: str, step: Step, read: int, written: int) -> None:
    """Whatever the length: read by sequences that have one, written by all."""
    assert _state_traffic(kind, step) == (read * _size(kind), written * _size(kind))


@each_kind
def test_cost_of_decode_does_not_grow(kind: str) -> None:
    """A recurrent layer does as much after a hundred thousand tokens as after one."""
    model = hybrid(kind, attention=0)
    short, long = (build(model, Deployment(), PRECISION, decode(7, context)) for context in (1, 100_000))
    assert [op.cost() for op, _ in short.values()] == [op.cost() for op, _ in long.values()]


@each_kind
def test_decode_is_work_of_the_vector_units(kind: str) -> None:
    """One token updates its state without a product; a prompt multiplies chunks, but for Mamba, whose decay has no product."""
    one, many = (
        sum(op.cost().matrix_flops for op, _ in _graph(kind, step).values() if isinstance(op, Scan))
        for step in (decode(8, 100), prefill(8, 100))
    )
    assert one == 0
    assert (many == 0) == (kind == "mamba")


@each_kind
def test_segments_of_a_step(kind: str) -> None:
    """One scan a segment, one convolution and one projection for all; weights are held once."""
    step = (Segment(5, 1, 4096, decode=True), Segment(2, 300, 0), Segment(1, 8, 1))
    graph = _graph(kind, step)
    cores = [path.rpartition("/core/")[2] for path, (op, _) in graph.items() if isinstance(op, Scan)]
    assert cores == ["5x1@4096", "2x300@0", "1x8@1"]
    assert sum(isinstance(op, CausalConv) for op, _ in graph.values()) == (kind != "lightning_attention")
    assert all(op.m in (5 + 600 + 8, 8) for op, _ in graph.values() if isinstance(op, Gemm))
    alone = _graph(kind, decode(5, 4096))
    assert sum(op.parameters for op, _ in graph.values()) == sum(op.parameters for op, _ in alone.values())


@each_kind
def test_devices_share_heads_and_state(kind: str) -> None:
    """Of two devices each has half of the state, and of all products whose heads are divided half the FLOP."""
    (whole, _), (half, _) = (states(hybrid(kind), Deployment(tensor_parallel_size=tp))[0] for tp in (1, 2))
    assert (half.conv * 2, half.recurrent * 2) == (whole.conv, whole.recurrent)
    one, two = (_graph(kind, prefill(1, 100), tp) for tp in (1, 2))
    kept = {"f_a_proj", "g_a_proj"}  # of low rank, without heads
    for path, (operator, _) in one.items():
        if path.startswith("layers/recurrent") and isinstance(operator, (Gemm, Scan)):
            share = 1 if path.rpartition("/")[2] in kept else 2
            assert two[path][0].cost().matrix_flops * share == operator.cost().matrix_flops, path


def test_groups_are_replicated() -> None:
    """Four groups of B and C on eight devices: one each, which two devices hold; the result says so."""
    block = shard_block(hybrid("mamba2").layer_types["recurrent"].mixer, Deployment(tensor_parallel_size=8))  # type: ignore[arg-type]
    assert (block.n_groups, block.mamba_num_heads) == (1, 8)  # type: ignore[attr-defined]
    notes = {note.name: note for note in prepare(hybrid("mamba2"), "dgx-h100", tp=8).assumptions}
    assert notes["n_groups"].value == "replicated"


def test_sums_inside_a_block() -> None:
    """Mamba's Delta, B and C are products of divided channels: 128 + 2 x 16 outputs a token are summed over the devices."""
    graph = _graph("mamba", prefill(2, 100), tp=4)
    (found, repeat) = graph["layers/recurrent/mamba/x_proj/all_reduce"]
    assert (found.elements, found.world, repeat) == (200 * 160, 4, 12)  # type: ignore[attr-defined]
    paths = list(graph)
    assert paths.index("layers/recurrent/mamba/dt_norm") == paths.index("layers/recurrent/mamba/x_proj/all_reduce") + 1
    assert not any("x_proj/" in path for path in _graph("mamba", prefill(2, 100)))


@pytest.mark.parametrize(
    ("kind", "tp", "works"),
    [("gated_delta_net", 16, "1, 2, 4, 8"), ("mamba2", 3, "1, 2, 4, 8, 16"), ("kda", 5, "1, 2, 4, 8, 16")],
)
def test_sizes_that_do_not_divide_are_refused(kind: str, tp: int, works: str) -> None:
    """Eight key heads cannot be on sixteen devices; sizes that work are listed, those of the attention layers being 1 to 16."""
    with pytest.raises(InputError, match=f"Sizes that work: {works}$"):
        prepare(hybrid(kind), "dgx-h100", tp=tp)


def test_sizes_of_a_model_without_attention() -> None:
    """64 heads allow sizes up to 64."""
    with pytest.raises(InputError, match=r"Sizes that work: 1, 2, 4, 8, 16, 32, 64$"):
        prepare(hybrid("mamba2", attention=0), "dgx-h100", tp=3)


@pytest.mark.parametrize(("kind", "change"), [("mamba2", {"n_groups": 5}), ("gated_delta_net", {"linear_num_value_heads": 12})])
def test_groups_that_do_not_divide_are_refused(kind: str, change: dict[str, int]) -> None:
    """Groups of heads are of one size."""
    with pytest.raises(ValueError, match="must divide"):
        kinds("mixer")[kind].model_validate({"kind": kind, **MIXERS[kind], **change})


def test_format_of_the_state() -> None:
    """Two bytes instead of four halve what a head keeps, and leave the convolution's share; the result says so."""
    conv, recurrent = STATES["mamba2"]
    result = roofline.analyze(hybrid("mamba2"), "h100-sxm", mamba_ssm_cache_dtype="bfloat16")
    step = 16 * 2 * 4 * 128 * 2  # blocks of attention grow by 16 tokens until a state fits in
    page = -(-(conv * 3 + recurrent) * 2 // step) * step
    assert result.memory.state_bytes_per_sequence["allocated"] == 12 * page
    note = next(note for note in result.assumptions if note.name == "mamba_ssm_cache_dtype")
    assert (note.value, note.origin) == ("bf16", "given")
    default = next(note for note in prepare(hybrid("kda"), "h100-sxm").assumptions if note.name == "mamba_ssm_cache_dtype")
    assert (default.value, default.origin) == ("fp32", "default")
    assert "mamba_ssm_cache_dtype" not in {note.name for note in prepare("llama-3.1-8b", "h100-sxm").assumptions}


@each_kind
@pytest.mark.parametrize("context", [0, 1, 5000])
def test_explained(kind: str, context: int) -> None:
    """The formula of every operator, with its numbers, is what `analyze` counts."""
    model = hybrid(kind)
    phases = roofline.analyze(model, "h100-sxm", batch=3, input_len=700, context=context).phases
    for phase in phases:
        for operator in phase.operators:
            if not operator.path.startswith("layers/recurrent"):
                continue
            found = explain(model, operator.path, batch=3, input_len=700, context=context, phase=phase.name)
            parts = {part.subject: part.value for part in found.parts}
            for name, value in parts.items():
                if hasattr(operator.cost, name) and name != "arithmetic_intensity":
                    assert value == pytest.approx(getattr(operator.cost, name), rel=1e-12), (operator.path, name)
    assert {"layers/recurrent/linear_attention/core", "layers/recurrent/mamba/core"} & set(subjects(model))


@each_kind
def test_compiled(kind: str) -> None:
    """Arrays of batches and contexts give what single answers give."""
    model = hybrid(kind)
    step = compile(model, "h100-sxm")(batch=[[1], [64]], context=[0, 900, 40_000])
    for row, batch in enumerate((1, 64)):
        for column, context in enumerate((0, 900, 40_000)):
            result = roofline.analyze(model, "h100-sxm", batch=batch, context=context, phase="decode", ignore_capacity=True)
            assert step["bytes"][row, column] == result.decode.cost.bytes  # type: ignore[union-attr]
            assert step["time_bound_s"][row, column] == pytest.approx(result.decode.time.bound)  # type: ignore[union-attr]
            assert bool(step["fits"][row, column]) is result.memory.fits


@each_kind
def test_without_attention(kind: str) -> None:
    """A model of recurrent layers alone has no cache, no longest context, and as large a batch at any."""
    result = roofline.analyze(hybrid(kind, attention=0), "h100-sxm", context=200_000)
    assert result.memory.kv_bytes_per_token == 0
    assert result.memory.max_context is None
    assert len({batch for _, batch in result.limits.max_batch_by_context}) == 1
    assert result.memory.needed_bytes == 12 * _size(kind)


def test_every_recurrent_kind_is_here() -> None:
    """A new mixer with a state is tested with the others."""
    keeps = {
        kind
        for kind, section in kinds("mixer").items()
        if issubclass(section, MixerBlock) and section.state is not MixerBlock.state
    }
    assert keeps == {*KINDS, "short_conv", "gqa_and_mamba2"}  # a convolution alone, and a state beside a cache: below


def _layer(mixer: dict[str, object]) -> Model:
    """One layer of a mixer."""
    keys = {"hidden_size": 64, "vocab_size": 128, "max_position_embeddings": 4096, "tie_word_embeddings": False}
    types = {"one": {"mixer": mixer, "mlp": {"kind": "gated_mlp", "intermediate_size": 96}}}
    layers = [{"pattern": ["one"]}]
    return Model.model_validate(
        {"schema_version": 1, "name": "one", "title": "One", **keys, "layer_types": types, "layers": layers}
    )


def test_a_short_convolution() -> None:
    """Its state is the channels' last inputs; its gates are one product an element, and it has no SiLU."""
    model = _layer({"kind": "short_conv", "conv_dim": 64, "conv_kernel": 3})
    assert states(model, Deployment()) == [(State(conv=64, conv_kernel=3), 1)]
    graph = {
        path.rpartition("/")[2]: op.cost() for path, (op, _) in build(model, Deployment(), PRECISION, decode(5, 9)).items()
    }
    assert graph["conv"].vector_flops == 5 * 64 * 2 * 3
    assert graph["conv"].state_read_bytes == graph["conv"].state_write_bytes == 5 * 64 * 2 * 2
    assert graph["input_gate"].vector_flops == graph["output_gate"].vector_flops == 5 * 64
    assert graph["in_proj"].matrix_flops == 3 * graph["out_proj"].matrix_flops == 2 * 5 * 64 * 3 * 64


def test_attention_beside_a_state() -> None:
    """A layer of both has a cache and a state, and the operators of both with one sum of their outputs."""
    attention = {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16}
    ssm = {"mamba_num_heads": 6, "mamba_head_dim": 8, "n_groups": 2, "ssm_state_size": 10, "conv_kernel": 3}
    both = build(_layer({"kind": "gqa_and_mamba2", **attention, **ssm}), Deployment(), PRECISION, decode(5, 9))
    alone = build(_layer({"kind": "gqa", **attention}), Deployment(), PRECISION, decode(5, 9))
    state = build(_layer({"kind": "mamba2", **ssm}), Deployment(), PRECISION, decode(5, 9))
    for path, (op, _) in alone.items():
        assert both[path][0] == op
    for path, (op, _) in state.items():
        if "/mamba/" in path and not path.endswith("/norm"):
            assert both[path.replace("/mamba/", "/attention/ssm/")][0] == op
    assert both["layers/attention/sum"][0].cost().vector_flops == 5 * 64
    with pytest.raises(ValueError, match="n_groups"):
        _layer({"kind": "gqa_and_mamba2", **attention, **ssm, "n_groups": 4})
