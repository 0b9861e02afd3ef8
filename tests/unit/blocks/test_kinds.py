"""The registry of kinds of blocks: told apart by role and `kind`, never two of a name, open to other packages."""

from __future__ import annotations

import importlib.metadata
from typing import ClassVar, Literal

import pytest
from pydantic import TypeAdapter

from roofline.blocks import BLOCKS, kinds, name_of
from roofline.blocks.base import Block, FeedForwardBlock, MixerBlock
from roofline.blocks.model import LayerType
from roofline.registry import Registry


def _registry(*more: type[Block], group: str = "") -> Registry[type[Block]]:
    return Registry("block", (*BLOCKS.values(), *more), group=group, key=name_of, accepts=Block)


def test_kinds_that_are_shipped() -> None:
    """Those that the models use, by role."""
    assert {"gqa", "mla"} <= set(kinds("mixer"))
    assert {"gated_mlp", "mlp", "moe"} <= set(kinds("mlp"))
    assert not set(kinds("mixer")) & set(kinds("mlp"))


def test_a_kind_is_its_class() -> None:
    """The literal of the class is the kind under which it is registered."""
    for role in ("mixer", "mlp"):
        for kind, block in kinds(role).items():  # type: ignore[arg-type]
            assert block.role == role
            assert block.model_fields["kind"].annotation == Literal[kind]  # type: ignore[valid-type]


def test_two_kinds_of_one_name() -> None:
    """A second class of the same kind and role is an error that names both modules."""

    class Impostor(MixerBlock):
        kind: Literal["gqa"]

    with pytest.raises(TypeError, match=r"two blocks are called 'mixer/gqa': roofline\.blocks\.gqa\..* and .*Impostor"):
        _registry(Impostor)


def test_the_same_kind_in_another_role() -> None:
    """Roles do not share names: a feed-forward block may be called `gqa`."""

    class Other(FeedForwardBlock):
        kind: Literal["gqa"]

    registry = _registry(Other)
    assert registry["mlp/gqa"] is Other
    assert registry["mixer/gqa"].__module__ == "roofline.blocks.gqa"


def test_kinds_of_other_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    """A block that an installed package announces may stand in a model's file."""

    class Mlp3(FeedForwardBlock):
        sharding: ClassVar = {"width": "split"}
        kind: Literal["mlp3"]
        width: int

    class Point:
        name = "mlp3"

        @staticmethod
        def load() -> type[Block]:
            return Mlp3

    def points(*, group: str) -> list[type[Point]]:
        assert group == "roofline.blocks"
        return [Point]

    monkeypatch.setattr(importlib.metadata, "entry_points", points)
    registry = _registry(group="roofline.blocks")
    monkeypatch.setattr("roofline.blocks.BLOCKS", registry)
    assert kinds("mlp")["mlp3"] is Mlp3

    class Layer(LayerType):
        """Checked for the first time, with the kinds that are known by then."""

    layer = TypeAdapter(Layer).validate_python({"mlp": {"kind": "mlp3", "width": 8}})
    assert isinstance(layer.mlp, Mlp3)


def test_why_a_context_cannot_be_divided() -> None:
    """Of full attention nothing stands against it; the cache of an earlier layer, a window and a state do."""
    gqa = {"kind": "gqa", "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16}
    mamba = {"kind": "mamba", "mamba_d_inner": 128, "ssm_state_size": 16, "time_step_rank": 8}
    reasons = [
        mixer.why_undivided()
        for one in (gqa, {**gqa, "kv_shared": True}, {**gqa, "sliding_window": 128}, mamba)
        if (mixer := TypeAdapter(LayerType).validate_python({"mixer": one, "mlp": None}).mixer) is not None
    ]
    assert reasons[0] is None
    for reason, part in zip(reasons[1:], ("an earlier layer's cache", "a window", "(mamba) hands a state"), strict=True):
        assert part in str(reason)
