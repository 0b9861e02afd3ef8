"""What every kind of block must keep to, whatever it is made of."""

from __future__ import annotations

import pytest

from roofline.blocks.base import Block, BlockContext
from roofline.blocks.model_files import load_model
from roofline.dtypes import BF16, Precision
from roofline.operators.gemm import Gemm
from roofline.specs.deployment import Conventions
from roofline.specs.library import shipped
from roofline.specs.workload import Segment, Step, decode, prefill, tokens

PRECISION = Precision(weight=BF16.weight, activation=BF16.activation, kv=BF16.kv)
MIXED = (Segment(3, 1, 100, decode=True), Segment(2, 20, 0), Segment(1, 300, 64))
AROUND = {
    "norm",
    "post_norm",
    "add",
    "all_reduce",
    "reduce_scatter",
    "all_gather",
    "dispatch",
    "collect",
}  # of the graph, in the block's path


def _blocks() -> dict[str, Block]:
    """A block of every kind: the template has them all."""
    model, _ = load_model(str(shipped("models") / "_template.yaml"))
    found = (block for layer in model.layer_types.values() for block in (layer.mixer, layer.mlp))
    return {block.kind: block for block in found if isinstance(block, Block)}


BLOCKS = _blocks()
each_kind = pytest.mark.parametrize("kind", BLOCKS)


def _site(step: Step) -> BlockContext:
    every = tokens(step)
    return BlockContext(
        hidden_size=2048,
        step=step,
        tokens=every,
        precision=PRECISION,
        conventions=Conventions(),
        expert_tokens=every,
        combined_tokens=every,
    )


@each_kind
@pytest.mark.parametrize("step", [prefill(2, 50), decode(4, 9), MIXED], ids=["prefill", "decode", "mixed"])
def test_names_leave_room_for_the_graph(kind: str, step: Step) -> None:
    """The graph puts norms and collectives into the block's path: an operator of the same name would replace them."""
    assert not AROUND & set(BLOCKS[kind].operators(_site(step)))


@each_kind
def test_products_that_are_summed_are_there(kind: str) -> None:
    """Names that a block declares as partial are those of its products; dimensions that it divides are its keys."""
    block = BLOCKS[kind]
    found = block.operators(_site(prefill(1, 8)))
    assert all(isinstance(found[name], Gemm) for name in block.summed)
    assert set(block.sharding) <= set(type(block).model_fields)


@each_kind
def test_parameters_are_held_once(kind: str) -> None:
    """A step of several segments has the same weights as any of them alone (MLA, which has two forms of one, aside)."""
    if kind == "mla":
        pytest.skip("expanded and absorbed, it has the same weights in two forms")
    sizes = {
        sum(op.parameters for op in BLOCKS[kind].operators(_site(step)).values())
        for step in (prefill(1, 8), decode(1, 8), MIXED)
    }
    assert len(sizes) == 1
