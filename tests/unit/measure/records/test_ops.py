"""From the columns of a record to the operators that predict it."""

from __future__ import annotations

from typing import Any

import pytest

from roofline.cost import ZERO, Cost
from roofline.measure.records.columns import COLUMNS, dtypes
from roofline.measure.records.ops import RECORD_OPS, Call

# The ops of the record schema.
OPS = {
    "gemm", "bmm", "attention_prefill", "attention_decode", "mla_prefill", "mla_decode",
    "moe", "rmsnorm", "rope", "silu_mul", "add", "embedding",
    "sampling", "copy_d2d", "copy_h2d", "copy_d2h", "all_reduce", "all_gather",
    "reduce_scatter", "all_to_all", "p2p", "layer", "step",
}  # fmt: skip


def cost(op: str, dtype: str = "bf16", texts: dict[str, str] | None = None, **numbers: int) -> Cost:
    """What a record of an op moves and computes."""
    operators = RECORD_OPS[op].operators(Call(dtypes(dtype), numbers, texts or {}))
    return sum((operator.cost() * repeat for operator, repeat in operators.values()), ZERO)


def test_every_op_of_the_schema_has_a_rule() -> None:
    """No more and no fewer."""
    assert set(RECORD_OPS) == OPS


def test_rules_need_columns_that_there_are() -> None:
    """A rule names columns of the schema that hold counts."""
    for rule in RECORD_OPS.values():
        for name in (
            *rule.needs,
            *rule.at_least,
            *rule.allowed,
            *(name for pair in (*rule.order, *rule.divides) for name in pair),
        ):
            assert COLUMNS[name].kind == "count"


def test_gemm() -> None:
    """2*3*4*5 FLOP; 2 B * (4*5 + 3*5 + 3*4)."""
    found = cost("gemm", m=3, n=4, k=5)
    assert (found.matrix_flops, found.bytes) == (120, 94)


def test_fp8_weights_meet_bf16_activations() -> None:
    """A byte a weight; activations are quantised on the way: 4*5 + 2*(3*5 + 3*4) B."""
    assert cost("gemm", "fp8", m=3, n=4, k=5).bytes == 74
    assert cost("gemm", "fp8_block", m=3, n=300, k=128).weight_bytes == 300 * 128 + 3 * 4  # three blocks have a scale each
    assert dtypes("tf32").matrix == "tf32"
    assert dtypes("tf32").weight.bytes == 4


def test_kv_len_counts_the_new_tokens() -> None:
    """A decode over kv_len 4 has 4 pairs a head; a prompt of 4 has 1+2+3+4; a chunk of 2 after 2 has 3+4."""
    heads = {"batch": 1, "n_heads": 1, "n_kv_heads": 1, "head_dim": 8}
    flops = [cost("attention_prefill", q_len=new, kv_len=4, **heads).matrix_flops for new in (1, 4, 2)]
    assert flops == [2 * 16 * pairs for pairs in (4, 10, 7)]


@pytest.mark.parametrize(
    ("distribution", "ep", "experts_read"),
    [("balanced", 1, 6), ("balanced", 2, 3), ("uniform", 1, 8 * (1 - 0.75**3)), ("power_law_1.2", 1, 2)],
)
def test_experts_that_are_read(distribution: str, ep: int, experts_read: float) -> None:
    """3 tokens of 2 experts each out of 8.

    Balanced: 6, shared by the devices; uniform: the expected number; of an unknown skew at least the 2 that one token meets.
    Up is 2*16 x 4, down 4 x 16, two bytes a weight.
    """
    numbers = {"tokens": 3, "hidden": 4, "inter": 16, "experts": 8, "topk": 2, "moe_tp": 1, "moe_ep": ep}
    found = cost("moe", texts={"distribution": distribution}, **numbers)
    assert found.weight_bytes == pytest.approx(experts_read * 2 * (32 * 4 + 4 * 16))
    assert found.matrix_flops == 3 * 2 / ep * 2 * (32 * 4 + 4 * 16)


def test_experts_without_a_gate() -> None:
    """Two matrices instead of three."""
    numbers = {"tokens": 3, "hidden": 4, "inter": 16, "experts": 8, "topk": 2}
    gated, plain = (cost("moe", texts={"ungated": ungated}, **numbers).matrix_flops for ungated in ("", "yes"))
    assert plain * 3 == gated * 2


@pytest.mark.parametrize(("kernel", "moved"), [("copy", 2000), ("", 2000), ("read", 1000), ("write", 1000)])
def test_passes_over_memory(kernel: str, moved: int) -> None:
    """A copy reads and writes."""
    assert cost("copy_d2d", "fp32", {"kernel": kernel}, bytes=1000).bytes == moved


@pytest.mark.parametrize(
    ("op", "sent"), [("all_reduce", 1500), ("all_gather", 750), ("reduce_scatter", 750), ("all_to_all", 750), ("p2p", 1000)]
)
def test_collectives(op: str, sent: int) -> None:
    """1,000 bytes over four ranks: a ring all-reduce sends 2*3/4 of them, the halves of it 3/4, an exchange all but its own."""
    assert cost(op, bytes=1000, world=4).link_bytes == sent


def test_host_copies() -> None:
    """Each byte once over the link; one call a chunk."""
    found = cost("copy_h2d", "fp32", bytes=4096, chunk_bytes=1024)
    assert (found.link_bytes, found.messages) == (4096, 4)


def test_a_layer_is_a_part_of_a_step() -> None:
    """A step of Llama is 32 layers, the embedding, the last norm, the head and the draw."""
    numbers: dict[str, Any] = {"batch": 2, "q_len": 1, "kv_len": 100}
    layer, step = (cost(op, texts={"kernel": "llama-3.1-8b"}, **numbers) for op in ("layer", "step"))
    assert step.matrix_flops - 32 * layer.matrix_flops == 2 * 2 * 128256 * 4096


def test_a_layer_of_a_type() -> None:
    """`MODEL:TYPE` names one of several; a type that there is not is refused."""
    from roofline.errors import UnknownNameError

    numbers = {"batch": 1, "q_len": 1, "kv_len": 9000}
    kinds = ("gemma-2-9b:sliding", "gemma-2-9b:full")
    try:
        sliding, full = (cost("layer", texts={"kernel": kind}, **numbers).kv_read_bytes for kind in kinds)
    except UnknownNameError as error:
        pytest.fail(str(error))
    assert sliding * 9000 == full * 4096
    with pytest.raises(UnknownNameError, match="layer type of gemma-2-9b"):
        cost("layer", texts={"kernel": "gemma-2-9b:square"}, **numbers)
