"""Families whose layers are not understood: refused with the reason, not read as something that they resemble."""

from __future__ import annotations

from typing import NoReturn

from roofline.specs.huggingface.config import Config
from roofline.specs.huggingface.families.base import family, transformers


@family(
    "phi3small",
    architectures=("Phi3SmallForCausalLM",),
    source="https://huggingface.co/microsoft/Phi-3-small-8k-instruct/blob/main/modeling_phi3_small.py",
)
def phi3small(config: Config) -> NoReturn:
    """Refuses `phi3small` configs (Phi-3-small), whose layers are not modelled.

    Raises:
        SpecError: always, with the reason.
    """
    config.refuse("model_type", "every second layer of Phi-3-small attends to chosen blocks of the context (block-sparse)")


@family("zamba2", types=("zamba",), architectures=("Zamba2ForCausalLM", "ZambaForCausalLM"), source=transformers("zamba2"))
def zamba2(config: Config) -> NoReturn:
    """Refuses `zamba2` configs (Zamba, Zamba2), whose layers are not modelled.

    Raises:
        SpecError: always, with the reason.
    """
    config.refuse("model_type", "Zamba's layers share the weights of one block, each with an adapter of its own")


@family("phi4flash", architectures=("Phi4FlashForCausalLM",), source="https://arxiv.org/abs/2507.06607")
def phi4flash(config: Config) -> NoReturn:
    """Refuses `phi4flash` configs (Phi-4-mini-flash), whose layers are not modelled.

    Raises:
        SpecError: always, with the reason.
    """
    config.refuse("model_type", "Phi-4-mini-flash shares the memory of one layer with gated units of later ones (SambaY)")
