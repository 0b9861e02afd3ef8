"""Models cut over devices: what is divided, what every device holds again, and what crosses the links, by hand.

Ring collectives over n devices: an all-reduce of S bytes sends 2(n-1)/n S a device, an all-gather (n-1)/n S, an
all-to-all (n-1)/n of what a device holds.
"""

from __future__ import annotations

from typing import Any

import pytest

import roofline
from roofline.errors import InputError
from roofline.graph.build import CANONICAL, build
from roofline.graph.sharding import stages
from roofline.predict.parameters import TWO_BYTES
from roofline.predict.result import Analysis, Phase
from roofline.specs.deployment import Deployment
from roofline.specs.workload import decode

BATCH, CONTEXT, PROMPT = 16, 2047, 512


def on_dgx(model: str, **options: Any) -> Analysis:
    asked = {"dtype": "bf16", "batch": BATCH, "context": CONTEXT, "input_len": PROMPT, "ignore_capacity": True, **options}
    return roofline.analyze(model, "dgx-h100", **asked)


def link_bytes(phase: Phase, kind: str) -> float:
    return sum(op.cost.link_bytes for op in phase.operators if op.kind == kind)


def flop(phase: Phase, *ends: str) -> float:
    return sum(op.cost.matrix_flops for op in phase.operators if op.path.endswith(ends))


# Llama-3.1-70B: 80 layers of width 8192, 64 query heads and 8 KV heads of 128, SwiGLU of 28672, 128256 tokens, not tied.
LAYERS, WIDTH, VOCABULARY = 80, 8192, 128256
LAYER = 8192 * (64 + 8 + 8) * 128 + 64 * 128 * 8192 + 3 * 8192 * 28672
NORMS = (2 * LAYERS + 1) * WIDTH
WHOLE = 2 * VOCABULARY * WIDTH + LAYERS * LAYER + NORMS
KV_TOKEN = 2 * 8 * 128 * 2 * LAYERS  # bytes

each_tp = pytest.mark.parametrize("tp", [1, 2, 4, 8])


@each_tp
def test_tensor_parallel_weights(tp: int) -> None:
    """Matrices and tables are divided; the norms, 161 vectors of 8192, are on every device."""
    assert WHOLE == 70_553_706_496
    weights = on_dgx("llama-3.1-70b", tp=tp).memory.weights_bytes
    assert tp * weights == 2 * (WHOLE + (tp - 1) * NORMS)


@each_tp
def test_tensor_parallel_weights_read(tp: int) -> None:
    """A step reads all matrices and norms, and of the divided embedding table the rows of its tokens, each somewhere."""
    result = on_dgx("llama-3.1-70b", tp=tp)
    for phase, tokens in ((result.prefill, BATCH * PROMPT), (result.decode, BATCH)):
        read = LAYERS * LAYER + VOCABULARY * WIDTH + tokens * WIDTH + tp * NORMS
        assert tp * phase.cost.weight_bytes == 2 * read


@each_tp
def test_tensor_parallel_flop(tp: int) -> None:
    """No product is computed twice: the devices' FLOP add up to 2 a weight and token, and attention's pairs."""
    result = on_dgx("llama-3.1-70b", tp=tp)
    head = 2 * BATCH * VOCABULARY * WIDTH  # on the last position of each sequence
    pairs = BATCH * PROMPT * (PROMPT + 1) // 2
    assert tp * result.prefill.cost.matrix_flops == BATCH * PROMPT * 2 * LAYERS * LAYER + head + LAYERS * 4 * WIDTH * pairs
    pairs = BATCH * (CONTEXT + 1)
    assert tp * result.decode.cost.matrix_flops == BATCH * 2 * LAYERS * LAYER + head + LAYERS * 4 * WIDTH * pairs


@each_tp
def test_tensor_parallel_cache(tp: int) -> None:
    """KV heads are divided, and with them what is held, read and written."""
    result = on_dgx("llama-3.1-70b", tp=tp)
    assert tp * result.memory.kv_bytes_per_token == KV_TOKEN
    assert tp * result.memory.needed_bytes == BATCH * (CONTEXT + 1) * KV_TOKEN
    assert tp * result.decode.cost.kv_read_bytes == BATCH * (CONTEXT + 1) * KV_TOKEN
    assert tp * result.decode.cost.kv_write_bytes == BATCH * KV_TOKEN
    assert tp * result.prefill.cost.kv_write_bytes == BATCH * PROMPT * KV_TOKEN


@each_tp
def test_tensor_parallel_collectives(tp: int) -> None:
    """Two all-reduces of the stream a layer and one after the embedding; an all-gather of the logits."""
    result = on_dgx("llama-3.1-70b", tp=tp)
    for phase, tokens in ((result.prefill, BATCH * PROMPT), (result.decode, BATCH)):
        stream = tokens * 8192 * 2
        assert link_bytes(phase, "all_reduce") == (2 * LAYERS + 1) * stream * 2 * (tp - 1) / tp
        assert link_bytes(phase, "all_gather") == BATCH * VOCABULARY * 2 * (tp - 1) / tp
        assert phase.cost.link_bytes == link_bytes(phase, "all_reduce") + link_bytes(phase, "all_gather")


def test_tensor_parallel_link_time() -> None:
    """NVLink 4 moves 450 GB/s one way, 0.13 of the memory's 3350 GB/s: all-reduces are bound by it, and prefill shows."""
    phase = on_dgx("llama-3.1-70b", tp=8).prefill
    reduces = [op for op in phase.operators if op.kind == "all_reduce"]
    assert len(reduces) == 3  # after the embedding, after attention, after the MLP
    for op in reduces:
        assert op.times.bound_by == "link"
        assert op.time.bound == pytest.approx(op.cost.link_bytes / 450e9)


def test_tensor_parallel_16_waits_for_the_network() -> None:
    """Kernels that read from all peers over NVLink take about 5 us; over two nodes NCCL's tuning assumes 27.5 us.

    4.4 us for the call of a tree of short messages, 2 x (7 x 1.8 x 0.52 + 5) us for the way up and down eight devices of a
    node and the network to the other one (src/graph/tuning.cc). The 65.5 kB of 4 sequences pass the tree at 0.5 x 110 GB/s, of
    which short messages have 1/3.8 and medium sizes 0.6: 7.5 us. For 64 sequences, 1.05 MB, a tree with 120 of 128 bytes of
    data is faster: 4.4 + 2 x (7 x 1.2 + 8.5) us, and the tensor at 0.5 x 110 x 0.6 x 0.915 = 30.2 GB/s, 34.7 us.
    """
    for batch, micros in ((4, 27.5 + 7.5), (64, 38.2 + 34.7)):
        phase = on_dgx("llama-3.1-70b", tp=16, batch=batch).decode
        assert phase is not None
        took = next((op.time.estimate or 0.0) / op.repeat for op in phase.operators if op.path == "layers/attention/all_reduce")
        assert took == pytest.approx(micros * 1e-6, rel=0.01)


def test_tensor_parallel_16_replicates_kv_heads() -> None:
    """8 KV heads on 16 devices: one each, every one twice, so a device holds 1/8 of the cache; the result says so."""
    result = on_dgx("llama-3.1-70b", tp=16)
    assert 8 * result.memory.kv_bytes_per_token == KV_TOKEN
    again = NORMS * 15 + LAYERS * 8192 * (8 + 8) * 128  # the norms of 15 devices, and K and V projections once more
    assert 16 * result.memory.weights_bytes == 2 * (WHOLE + again)
    projections = 2 * BATCH * LAYERS * 8192 * (8 + 8) * 128
    assert 16 * result.decode.cost.matrix_flops == on_dgx("llama-3.1-70b").decode.cost.matrix_flops + projections
    over_network = [op for op in result.decode.operators if op.kind == "all_reduce"]
    # 2 nodes of 8: 8 rings, of which each leaves the node at another device, so that 1/8 of a device's bytes cross over at
    # 50 GB/s (0.125/50 = 1/400) while 7/8 stay inside at 450 GB/s (0.875/450 = 1/514): the network is the slower tier
    assert sum(op.times.link for op in over_network) == pytest.approx(link_bytes(result.decode, "all_reduce") / 8 / 50e9)
    noted = [note for note in result.assumptions if note.name == "kv_heads"]
    assert [note.value for note in noted] == ["replicated"]
    for tp in (1, 8):
        assert "kv_heads" not in {note.name for note in on_dgx("llama-3.1-70b", tp=tp).assumptions}


def test_tensor_parallel_3_is_refused() -> None:
    """3 does not divide 64 query heads; 64 and its divisors also fit 8 KV heads, divided or replicated."""
    with pytest.raises(InputError, match=r"3.*num_attention_heads.*64.*1, 2, 4, 8, 16, 32, 64$") as refused:
        on_dgx("llama-3.1-70b", tp=3)
    assert refused.value.exit_code == 2


def test_pipeline_parallel_stages() -> None:
    """80 layers in 4 stages are 20 each; in 6, two stages have one more, not the last, which has the LM head (vLLM's rule)."""
    model = roofline.load_model("llama-3.1-70b")
    for size, lengths in ((1, [80]), (4, [20, 20, 20, 20]), (6, [13, 13, 13, 14, 14, 13])):
        found = stages(model, size)
        assert [sum(count for _, count in stage.layers) for stage in found] == lengths
        assert [stage.first for stage in found] == [True] + [False] * (size - 1)
        assert [stage.last for stage in found] == [False] * (size - 1) + [True]


@pytest.mark.parametrize(("name", "again"), [("llama-3.1-70b", 0), ("llama-3.2-1b", 128256 * 2048)])
def test_pipeline_parallel_parameters_add_up(name: str, again: int) -> None:
    """The stages hold the whole model; a tied table is on the first stage for the tokens and on the last for the logits."""
    model = roofline.load_model(name)
    deployment = Deployment(pipeline_parallel_size=4)
    held = [
        sum(op.parameters * repeat for op, repeat in build(model, deployment, TWO_BYTES, CANONICAL, stage).values())
        for stage in stages(model, 4)
    ]
    whole = sum(op.parameters * repeat for op, repeat in build(model, Deployment(), TWO_BYTES, CANONICAL).values())
    assert sum(held) == whole + again


def test_pipeline_parallel_shows_the_fullest_stage() -> None:
    """Embedding and LM head are of one size, so the last stage is the fullest: it has the final norm as well."""
    result = on_dgx("llama-3.1-70b", pp=4)
    assert result.memory.weights_bytes == 2 * (20 * (LAYER + 2 * WIDTH) + WIDTH + VOCABULARY * WIDTH)
    assert result.memory.kv_bytes_per_token == KV_TOKEN / 4
    attention = 20 * 4 * WIDTH * BATCH * (CONTEXT + 1)
    assert result.decode.cost.matrix_flops == 2 * BATCH * (20 * LAYER + VOCABULARY * WIDTH) + attention
    assert result.decode.cost.link_bytes == 0  # it sends to nobody


def test_pipeline_parallel_sends_the_stream() -> None:
    """Each stage but the last sends B x 8192 elements to the next; FLOP add up to the whole model's."""
    model, deployment = roofline.load_model("llama-3.1-70b"), Deployment(pipeline_parallel_size=4)
    graphs = [build(model, deployment, TWO_BYTES, decode(BATCH, CONTEXT), stage) for stage in stages(model, 4)]
    sent = [sum(op.cost().link_bytes * repeat for op, repeat in graph.values()) for graph in graphs]
    assert sent == [BATCH * 8192 * 2] * 3 + [0]
    total = sum(op.cost().matrix_flops * repeat for graph in graphs for op, repeat in graph.values())
    assert total == on_dgx("llama-3.1-70b").decode.cost.matrix_flops


def test_pipeline_parallel_takes_no_less_time() -> None:
    """One batch passes the stages in turn: the time of one device, and three sends over NVLink at 450 GB/s."""
    one, four = on_dgx("llama-3.1-70b").decode, on_dgx("llama-3.1-70b", pp=4).decode
    sends = 3 * BATCH * 8192 * 2 / 450e9
    assert four.pipeline_s == pytest.approx(one.time.bound + sends, rel=1e-12)
    assert four.tokens_per_s.bound == pytest.approx(BATCH / four.pipeline_s)


def test_data_parallel_halves_the_sequences() -> None:
    """Two replicas: each has all the weights and half the batch; of 15 sequences one has 8."""
    one, two = on_dgx("llama-3.1-70b"), on_dgx("llama-3.1-70b", dp=2)
    assert two.memory.weights_bytes == one.memory.weights_bytes
    assert two.memory.needed_bytes * 2 == one.memory.needed_bytes
    for alone, shared in zip(one.phases, two.phases, strict=True):
        assert shared.batch == alone.batch == BATCH  # of the whole deployment
        assert 2 * shared.cost.matrix_flops == alone.cost.matrix_flops
        assert 2 * shared.cost.kv_read_bytes == alone.cost.kv_read_bytes
        assert shared.cost.link_bytes == 0
    odd = on_dgx("llama-3.1-70b", dp=2, batch=15)
    assert odd.decode.cost == two.decode.cost
    assert odd.decode.tokens_per_s.bound == pytest.approx(two.decode.tokens_per_s.bound * 15 / 16)


# Mixtral 8x7B: 32 layers of width 4096; per layer attention, a router of 4096 x 8, 8 experts; 32000 tokens.
MIXTRAL_ATTENTION = 4096 * (32 + 8 + 8) * 128 + 32 * 128 * 4096
MIXTRAL_EXPERT, MIXTRAL_ROUTER, MIXTRAL_TABLE = 3 * 4096 * 14336, 4096 * 8, 32000 * 4096
MIXTRAL_NORMS = (2 * 32 + 1) * 4096


def test_mixtral_experts_inside_a_replica() -> None:
    """EP 2 of TP 2: each device has 4 whole experts and half of all else but router and norms; no all-to-all."""
    one, two = on_dgx("mixtral-8x7b"), on_dgx("mixtral-8x7b", tp=2, ep=2)
    parameters = 32 * (4 * MIXTRAL_EXPERT + MIXTRAL_ATTENTION // 2 + MIXTRAL_ROUTER) + MIXTRAL_NORMS + 2 * MIXTRAL_TABLE // 2
    assert two.memory.weights_bytes == 2 * parameters
    # Each device routes all the tokens itself.
    for alone, shared, tokens in zip(one.phases, two.phases, (BATCH * PROMPT, BATCH), strict=True):
        assert 2 * shared.cost.matrix_flops == alone.cost.matrix_flops + 2 * tokens * 32 * MIXTRAL_ROUTER
        assert link_bytes(shared, "all_to_all") == 0
        assert link_bytes(shared, "all_reduce") == (2 * 32 + 1) * tokens * 4096 * 2 * 2 * (1 / 2)


def test_mixtral_experts_across_replicas() -> None:
    """EP 4 over two replicas of TP 2: 2 whole experts a device; half of a replica's tokens go out and come back."""
    one, four = on_dgx("mixtral-8x7b"), on_dgx("mixtral-8x7b", tp=2, dp=2, ep=4, deepep_mode="normal")
    parameters = 32 * (2 * MIXTRAL_EXPERT + MIXTRAL_ATTENTION // 2 + MIXTRAL_ROUTER) + MIXTRAL_NORMS + 2 * MIXTRAL_TABLE // 2
    assert four.memory.weights_bytes == 2 * parameters
    for alone, shared, tokens in zip(one.phases, four.phases, (BATCH * PROMPT, BATCH), strict=True):
        replica = tokens // 2
        # Both devices of a replica route all its tokens: the router is computed twice in all.
        assert 4 * shared.cost.matrix_flops == alone.cost.matrix_flops + 2 * tokens * 32 * MIXTRAL_ROUTER
        # A device dispatches half of its replica's tokens, each to 2 experts; 3 of 4 copies leave it. And back.
        held = replica // 2 * 2 * 4096 * 2
        assert link_bytes(shared, "all_to_all") == 32 * 2 * held * (3 / 4)
        # Then the two halves are gathered in each replica; the logits of its sequences too.
        logits = BATCH // 2 * 32000 * 2
        assert link_bytes(shared, "all_gather") == (32 * replica * 4096 * 2 + logits) * (1 / 2)
        # One all-reduce a layer is left, after attention, and the one after the embedding.
        assert link_bytes(shared, "all_reduce") == (32 + 1) * replica * 4096 * 2 * 2 * (1 / 2)


def test_mixtral_tokens_to_all_ranks() -> None:
    """By default each of 4 devices has half of its replica's tokens, gets those of the others, and returns sums for all."""
    phase = on_dgx("mixtral-8x7b", tp=2, dp=2, ep=4).decode
    replica, logits = BATCH // 2, BATCH // 2 * 32000 * 2
    assert link_bytes(phase, "all_to_all") == 0
    to_all = 32 * BATCH * 4096 * 2 * (3 / 4)
    assert link_bytes(phase, "reduce_scatter") == to_all
    assert link_bytes(phase, "all_gather") == to_all + (32 * replica * 4096 * 2 + logits) * (1 / 2)


def test_expert_weights_are_read_by_all_tokens_that_meet_them() -> None:
    """EP 4 over two replicas: the 2 experts of a device are met by the tokens of both, 2 x (1 - (3/4)^16) of them."""
    phase = on_dgx("mixtral-8x7b", tp=2, dp=2, ep=4).decode
    read = sum(op.cost.weight_bytes for op in phase.operators if op.kind == "grouped_gemm")
    assert read == pytest.approx(32 * 2 * (1 - 0.75**16) * MIXTRAL_EXPERT * 2, rel=1e-12)


@pytest.mark.parametrize(("batch", "replicas"), [(1, 8), (15, 2)])
def test_experts_see_no_more_tokens_than_there_are(batch: int, replicas: int) -> None:
    """Where sequences do not divide evenly, the experts of all devices still compute 2 rows a token, no more."""
    phase = on_dgx("mixtral-8x7b", batch=batch, dp=replicas, ep=replicas).decode
    experts = sum(op.cost.matrix_flops for op in phase.operators if op.kind == "grouped_gemm")
    assert replicas * experts == pytest.approx(2 * batch * 2 * 32 * MIXTRAL_EXPERT)


# DeepSeek-V3: 61 layers of width 7168, 3 dense and 58 with 256 experts, 8 a token, and one shared; MLA of 128 heads.
DEEPSEEK_DOWN = 7168 * (1536 + 512 + 64)  # projections to the latents: on every device
DEEPSEEK_HEADS = 1536 * 128 * (128 + 64) + 512 * 128 * (128 + 128) + 128 * 128 * 7168
DEEPSEEK_EXPERT, DEEPSEEK_ROUTER = 3 * 7168 * 2048, 7168 * 256
DEEPSEEK_NORMS = 61 * (2 * 7168 + 1536 + 512) + 7168


@pytest.mark.parametrize(("ep", "tp", "dp"), [(1, 2, 1), (2, 2, 1), (2, 4, 1), (2, 1, 4), (4, 2, 2), (8, 8, 1), (8, 1, 8)])
def test_deepseek_weights_and_flop(ep: int, tp: int, dp: int) -> None:
    """Heads and dense widths are divided over TP, experts over EP or TP; latent projections, routers, norms are not."""
    one, many = on_dgx("deepseek-v3"), on_dgx("deepseek-v3", ep=ep, tp=tp, dp=dp)
    divided = 61 * DEEPSEEK_HEADS + 3 * (3 * 7168 * 18432) + 58 * DEEPSEEK_EXPERT + 2 * 129280 * 7168
    experts = 58 * 256 * DEEPSEEK_EXPERT // max(ep, tp)
    replicated = 61 * DEEPSEEK_DOWN + 58 * DEEPSEEK_ROUTER + DEEPSEEK_NORMS
    assert many.memory.weights_bytes == 2 * (divided // tp + experts + replicated)
    assert many.memory.kv_bytes_per_token == 61 * 576 * 2  # the latent has no heads to divide
    for alone, shared, tokens in zip(one.phases, many.phases, (BATCH * PROMPT, BATCH), strict=True):
        again = (tp - 1) * 2 * tokens * (61 * DEEPSEEK_DOWN + 58 * DEEPSEEK_ROUTER)
        assert tp * dp * shared.cost.matrix_flops == alone.cost.matrix_flops + again


def test_deepseek_experts_across_replicas() -> None:
    """EP 4 over two replicas of TP 2: a copy of a token to each device with one of its experts and back.

    Each device has 2 of 8 groups, of which the token's 8 experts are in 4: C(6,4), 2 C(6,3) and C(6,2) of C(8,4) choices leave
    a device 0, 1 and 2 of them, and none of 8 experts with (3/4)^8 and (1/2)^8. The shared expert is all-reduced.
    """
    phase = on_dgx("deepseek-v3", tp=2, dp=2, ep=4, deepep_mode="normal").decode
    replica = BATCH // 2
    devices = 4 * (1 - (15 + 40 * 0.75**8 + 15 * 0.5**8) / 70)
    held = replica // 2 * devices * 7168 * 2
    assert link_bytes(phase, "all_to_all") == pytest.approx(58 * 2 * held * (3 / 4), rel=1e-12)
    # After the embedding, after attention in 61 layers, after 3 dense MLPs and 58 shared experts.
    assert link_bytes(phase, "all_reduce") == (1 + 61 + 3 + 58) * replica * 7168 * 2 * 2 * (1 / 2)
    assert link_bytes(phase, "all_gather") == (58 * replica * 7168 + replica * 129280) * 2 * (1 / 2)
    assert "latent_cache" in {note.name for note in on_dgx("deepseek-v3", tp=2).assumptions}


def test_expert_parallel_sizes_that_do_not_work() -> None:
    """3 does not divide 8 experts; a dense model has none to divide."""
    with pytest.raises(InputError, match=r"8 experts.*1, 2, 4$"):
        on_dgx("mixtral-8x7b", ep=3, tp=4)
    with pytest.raises(InputError, match="has none"):
        on_dgx("llama-3.1-70b", ep=2, tp=2)
