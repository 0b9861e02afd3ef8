"""The registry of kinds of sections: found by walking, told apart by `kind`, never two of a name."""

from __future__ import annotations

import gc
from typing import ClassVar, Literal

import pytest

from roofline.specs.sections import Section, kinds


def test_kinds_that_are_shipped() -> None:
    """Each kind that the models use is found without a list."""
    assert {"gqa", "mla"} <= set(kinds("mixer"))
    assert {"gated_mlp", "mlp", "moe"} <= set(kinds("mlp"))
    assert not set(kinds("mixer")) & set(kinds("mlp"))


def test_a_kind_is_its_class() -> None:
    """The literal of the class is the kind under which it is found."""
    for role in ("mixer", "mlp"):
        for kind, section in kinds(role).items():  # type: ignore[arg-type]
            assert section.role == role
            assert section.model_fields["kind"].annotation == Literal[kind]  # type: ignore[valid-type]


def test_two_kinds_of_one_name() -> None:
    """A second class of the same kind and role is an error that names both modules."""

    def clash() -> None:
        class Impostor(Section):
            role: ClassVar[Literal["mixer"]] = "mixer"
            kind: Literal["gqa"]

        kinds.cache_clear()
        with pytest.raises(TypeError, match=r"two kinds of mixer named 'gqa': .*roofline\.blocks\.gqa"):
            kinds("mixer")
        del Impostor

    try:
        clash()
    finally:
        gc.collect()  # forgets the class, so that other tests do not meet it
        kinds.cache_clear()
    assert kinds("mixer")["gqa"].__module__ == "roofline.blocks.gqa"


def test_the_same_kind_in_another_role() -> None:
    """Roles do not share names: a feed-forward block may be called `gqa`."""

    def elsewhere() -> None:
        class Other(Section):
            role: ClassVar[Literal["mlp"]] = "mlp"
            kind: Literal["gqa"]

        kinds.cache_clear()
        assert kinds("mlp")["gqa"] is Other
        assert kinds("mixer")["gqa"].__module__ == "roofline.blocks.gqa"
        kinds.cache_clear()

    try:
        elsewhere()
    finally:
        gc.collect()
        kinds.cache_clear()
