"""Sequence parallelism: what stands between the blocks is divided by tokens, and as many bytes cross the links.

Korthikanti et al. 2022, arXiv:2205.05198, section 4.2.2: an all-reduce of S bytes is a reduce-scatter and an all-gather of
(n-1)/n S each, so that no more is sent, and norms and additions are done once, not n times.
"""

from __future__ import annotations

import pytest
from hybrids import KINDS, hybrid

import roofline
from roofline.blocks.model import Model
from roofline.cost import ZERO, Cost
from roofline.errors import InputError
from roofline.graph.build import build
from roofline.graph.sharding import stages
from roofline.predict.parameters import TWO_BYTES
from roofline.predict.result import Analysis, OperatorResult, Phase
from roofline.specs.deployment import Deployment
from roofline.specs.library import ids
from roofline.specs.workload import Step, decode, prefill

BATCH, CONTEXT, PROMPT = 16, 2047, 512
LAYERS, WIDTH = 80, 8192  # Llama-3.1-70B


def on_dgx(model: str | Model, **options: object) -> Analysis:
    return roofline.analyze(
        model, "dgx-h100", dtype="bf16", batch=BATCH, context=CONTEXT, input_len=PROMPT, ignore_capacity=True, **options
    )


def of_kind(phase: Phase, *kinds: str) -> list[OperatorResult]:
    return [op for op in phase.operators if op.kind in kinds]


def link_bytes(phase: Phase, *kinds: str) -> float:
    return sum(op.cost.link_bytes for op in of_kind(phase, *kinds))


def step_cost(model: Model, step: Step, deployment: Deployment) -> Cost:
    """All operators of a step on one device, 16-bit values throughout."""
    graph = build(model, deployment, TWO_BYTES, step).values()
    return sum((operator.cost() * repeat for operator, repeat in graph), start=ZERO)


each_tp = pytest.mark.parametrize("tp", [2, 4, 8])


@each_tp
def test_all_reduces_are_cut_in_two(tp: int) -> None:
    """One after the embedding and two a layer: as many reduce-scatters, and as many all-gathers beside that of the logits."""
    whole, divided = on_dgx("llama-3.1-70b", tp=tp), on_dgx("llama-3.1-70b", tp=tp, sequence_parallel=True)
    for before, after, tokens in zip(whole.phases, divided.phases, (BATCH * PROMPT, BATCH), strict=True):
        half = (2 * LAYERS + 1) * tokens * WIDTH * 2 * (tp - 1) / tp
        logits = BATCH * 128256 * 2 * (tp - 1) / tp
        assert not of_kind(after, "all_reduce")
        assert link_bytes(after, "reduce_scatter") == half
        assert link_bytes(after, "all_gather") == half + logits
        assert after.cost.link_bytes == before.cost.link_bytes


@each_tp
def test_norms_are_done_once(tp: int) -> None:
    """161 norms of 8192 (4 FLOP an element, one more for an addition in 160 of them) over all devices together, not on each."""
    phase = on_dgx("llama-3.1-70b", tp=tp, sequence_parallel=True).prefill
    norms = of_kind(phase, "norm")
    elements = BATCH * PROMPT * WIDTH
    assert tp * sum(op.cost.vector_flops for op in norms) == elements * (4 * (2 * LAYERS + 1) + 2 * LAYERS)
    # in and out, and in 160 of them the addend and the sum
    assert tp * sum(op.cost.activation_bytes for op in norms) == 2 * elements * (2 * (2 * LAYERS + 1) + 2 * 2 * LAYERS)


@each_tp
def test_products_are_as_before(tp: int) -> None:
    """Blocks see all tokens: FLOP, weights and cache are those without it."""
    whole, divided = on_dgx("llama-3.1-70b", tp=tp), on_dgx("llama-3.1-70b", tp=tp, sequence_parallel=True)
    for before, after in zip(whole.phases, divided.phases, strict=True):
        assert after.cost.matrix_flops == before.cost.matrix_flops
        assert after.cost.weight_bytes == before.cost.weight_bytes
        assert after.cost.kv_read_bytes == before.cost.kv_read_bytes
    assert divided.memory.weights_bytes == whole.memory.weights_bytes


def test_the_stream_takes_less_memory() -> None:
    """Of 8192 tokens a device of 8 keeps 1/8 of the stream.

    The hungriest operator was the norm, four streams wide; now it is the product of gate and up, which reads the gathered
    stream and writes 2 x 28672/8.
    """
    whole, divided = (on_dgx("llama-3.1-70b", tp=8, phase="prefill", sequence_parallel=on) for on in (None, True))
    tokens = BATCH * PROMPT
    assert whole.memory.activation_bytes == 2 * tokens * (WIDTH + 4 * WIDTH)
    assert divided.memory.activation_bytes == 2 * tokens * (WIDTH / 8 + WIDTH + 2 * 28672 / 8)


def test_less_traffic_between_the_blocks() -> None:
    """A fused norm moves 4 x 2 bytes an element, an all-reduce 2 x 2; divided by n, with (1 + 1/n) for either half."""
    whole, divided = (on_dgx("llama-3.1-70b", tp=8, sequence_parallel=on).prefill for on in (None, True))
    elements = BATCH * PROMPT * WIDTH
    norms, halves = (2 * LAYERS * 4 + 2) * 2 * elements, (2 * LAYERS + 1) * 2 * elements
    saved = norms * 7 / 8 + halves * (2 - 2 * (1 + 1 / 8))
    assert whole.cost.activation_bytes - divided.cost.activation_bytes == saved


def test_a_stage_sends_its_part_of_the_stream() -> None:
    """Each of 4 devices hands a quarter of the stream to its peer in the next stage, not a copy of all of it."""
    model = roofline.load_model("llama-3.1-70b")
    sizes = {"tensor_parallel_size": 4, "pipeline_parallel_size": 2}
    for on, part in ((False, 1), (True, 4)):
        deployment = Deployment(sequence_parallel=on, **sizes)
        operator, _ = build(model, deployment, TWO_BYTES, decode(BATCH, CONTEXT), stages(model, 2)[0])["send"]
        assert operator.cost().link_bytes == BATCH * WIDTH * 2 / part


TWO_BRANCHES = "gemma-4-26b-a4b"


def test_two_branches_share_a_gather() -> None:
    """Gemma 4's MLP and experts are summed apart, each before a norm of its own: two all-reduces per layer.

    Divided, each is scattered, and what both become is gathered once: half an all-reduce less, on two devices a quarter of what
    the MLP and the experts send. An all-reduce of two devices sends as many bytes as it sums.
    """
    whole, divided = (on_dgx(TWO_BRANCHES, tp=2, sequence_parallel=on) for on in (None, True))
    for tokens, before, after in zip((BATCH * PROMPT, BATCH), whole.phases, divided.phases, strict=True):
        assert before.cost.link_bytes - after.cost.link_bytes == pytest.approx(30 * tokens * 2816 * 2 / 2)


@pytest.mark.parametrize("name", [name for name in ids("models") if name not in ("falcon-7b", TWO_BRANCHES)])
def test_every_model_can_be_divided(name: str) -> None:
    """Norms before, after or on both sides of blocks, dense, experts, several streams: as much is sent, less is moved."""
    model = roofline.load_model(name)
    for step in (prefill(BATCH, PROMPT), decode(BATCH, CONTEXT)):
        before, after = (
            step_cost(model, step, Deployment(tensor_parallel_size=2, sequence_parallel=on)) for on in (False, True)
        )
        assert after.link_bytes == pytest.approx(before.link_bytes, rel=1e-12)
        assert after.activation_bytes < before.activation_bytes


@pytest.mark.parametrize("kind", KINDS)
def test_recurrent_layers_can_be_divided(kind: str) -> None:
    """Scans see all tokens, as attention does; what is summed inside a block (Mamba's x_proj) is summed as before."""
    whole, divided = (on_dgx(hybrid(kind), tp=4, sequence_parallel=on) for on in (None, True))
    for before, after in zip(whole.phases, divided.phases, strict=True):
        assert after.cost.link_bytes == pytest.approx(before.cost.link_bytes, rel=1e-12)
        assert after.cost.matrix_flops == before.cost.matrix_flops
        assert after.cost.state_write_bytes == before.cost.state_write_bytes


def test_parallel_layers_have_one_of_each() -> None:
    """Falcon-7B, attention and MLP side by side on one norm: 32 gathers, 32 scatters, and those of embedding and final norm."""
    whole, divided = (on_dgx("falcon-7b", tp=71, sequence_parallel=on) for on in (None, True))
    phase = divided.decode
    assert sum(op.repeat for op in of_kind(phase, "reduce_scatter")) == 1 + 32
    assert sum(op.repeat for op in of_kind(phase, "all_gather")) == 32 + 1 + 1  # and the logits
    assert phase.cost.link_bytes == pytest.approx(whole.decode.cost.link_bytes)


def test_names_of_gathers() -> None:
    """A block's gather is under its path; that of blocks side by side is the layer's."""
    apart, parallel = (
        {op.path for op in of_kind(on_dgx(model, tp=tp, sequence_parallel=True).decode, "all_gather")}
        for model, tp in (("llama-3.1-8b", 8), ("falcon-7b", 71))
    )
    assert {"layers/attention/all_gather", "layers/mlp/all_gather"} <= apart
    assert "layers/all_gather" in parallel
    assert not {"layers/all_gather"} & apart


def test_experts_across_replicas_get_what_is_scattered() -> None:
    """EP 4 over two replicas of TP 2: a device dispatches its own tokens, and gathers them for the next block, not after."""
    phase = on_dgx("mixtral-8x7b", tp=2, dp=2, ep=4, sequence_parallel=True).prefill
    whole = on_dgx("mixtral-8x7b", tp=2, dp=2, ep=4).prefill
    assert link_bytes(phase, "all_to_all") == link_bytes(whole, "all_to_all")
    assert phase.cost.link_bytes == whole.cost.link_bytes
    assert phase.cost.matrix_flops == whole.cost.matrix_flops


def test_it_needs_tensor_parallel_devices() -> None:
    """On one device there is nothing to divide among."""
    with pytest.raises(InputError, match="tensor-parallel size above 1"):
        on_dgx("llama-3.1-70b", sequence_parallel=True)


def test_it_is_on_record() -> None:
    """The result says what was done, and the deployment that it was asked for."""
    result = on_dgx("llama-3.1-70b", tp=2, sequence_parallel=True)
    assert result.to_dict()["deployment"]["sequence_parallel"] is True
    (note,) = [note for note in result.assumptions if note.name == "sequence_parallel"]
    assert (note.value, note.origin) == (True, "given")
    assert "reduce-scatter" in note.why
