"""Families whose layers are not understood: refused with the reason, not read as something that they resemble."""

from __future__ import annotations

from typing import NoReturn

from roofline.specs.huggingface.config import Config
from roofline.specs.huggingface.families import family, transformers


@family("gemma3n_text", architectures=("Gemma3nForConditionalGeneration", "Gemma3nForCausalLM"), source=transformers("gemma3n"))
def gemma3n(config: Config) -> NoReturn:
    """Gemma 3n: E2B, E4B."""
    config.refuse(
        "model_type", "Gemma 3n keeps several copies of the stream (AltUp) and a second path around each layer (LAuReL)"
    )


@family(
    "step3", types=("step3_text",), architectures=("Step3ForConditionalGeneration",), source="https://arxiv.org/abs/2507.19427"
)
def step3(config: Config) -> NoReturn:
    """Step-3."""
    config.refuse("model_type", "Step-3 makes its queries from factors of their own (multi-matrix factorization attention)")
